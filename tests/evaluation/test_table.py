"""Logs from tables: what the service exports, frames, and what is refused; and the command."""

import csv
import json
from pathlib import Path

import numpy as np
import polars
import pytest
from typer.testing import CliRunner

import conebandit as cb
from conebandit.cli import app
from conebandit.experiment.declaration import Experiment
from conebandit.service.export import export
from conebandit.service.stores.base import open_store
from tests.service.driver import Driver

DECLARATION = {
    "id": "checkout",
    "arms": ["old", "new", "bold"],
    "metrics": [{"name": "revenue"}, {"name": "latency", "direction": "min", "worst": 10.0}],
    "context": [{"name": "age", "low": 18, "high": 98}, {"name": "device", "levels": ["phone", "desk"]}],
    "policy": {"name": "ParetoUCB1", "explore": 0.4},
}
TABLE: dict[str, list] = {
    "arm": ["old", "new", "bold", "new"],
    "propensity": [0.25, 0.5, 0.25, 0.5],
    "age": [18, 98, 58, 38],
    "device": ["phone", "desk", "desk", "phone"],
    "revenue": [1.0, None, 3.0, float("nan")],
    "latency": [4.0, 12.0, 0.0, 1.0],
}


@pytest.fixture
def experiment():
    return Experiment.from_dict(DECLARATION)


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """The log of a service as CSV and Parquet, and what was decided."""
    folder = tmp_path_factory.mktemp("log")
    store = open_store(str(folder / "log.db"))
    driver, rng, told = Driver(store), np.random.default_rng(0), []
    driver.create(DECLARATION)
    for i in range(150):
        context = {"age": float(rng.integers(18, 99)), "device": str(rng.choice(["phone", "desk"]))}
        reply = driver.ask(f"d{i}", context)
        values = {"revenue": float(rng.integers(5)), "latency": float(rng.integers(14))}
        if i % 10 == 9:
            del values["revenue"]
        driver.tell(f"d{i}", **values)
        told.append((reply, context, values))
    for suffix in ("csv", "parquet", "jsonl"):
        (folder / f"log.{suffix}").write_bytes(b"".join(export(store, "checkout", suffix)))
    (folder / "trial.json").write_text(json.dumps(DECLARATION))
    driver.set_mode("shadow")
    driver.ask("last", {"age": 40.0, "device": "desk"})
    (folder / "shadow.csv").write_bytes(b"".join(export(store, "checkout", "csv")))
    store.close()
    return folder, told


def test_an_exported_log_is_what_was_decided_and_reported(exported, experiment):
    folder, told = exported
    logs = [cb.Log.from_table(folder / f"log.{suffix}", experiment) for suffix in ("csv", "parquet")]
    for log in logs:
        assert log.adaptive
        assert (log.arm_names, log.metric_names) == (("old", "new", "bold"), ("revenue", "latency"))
        assert log.cone == cb.Cone.orthant(2, names=["revenue", "latency"], minimise=["latency"])
        for i, (reply, context, values) in enumerate(told):
            assert log.arm_names[log.arms[i]] == reply["arm"]
            assert log.propensities[i] == reply["propensity"]
            np.testing.assert_array_equal(log.contexts[i], experiment.encode(context))
            expected = [values.get("revenue", np.nan), values["latency"]]
            np.testing.assert_array_equal(log.rewards[i], expected)
        assert log.probabilities.min() >= 0.4 / 3 - 1e-9
    np.testing.assert_array_equal(logs[0].probabilities, logs[1].probabilities)
    found = cb.evaluate(folder / "log.csv", ["uniform", "new"], experiment=experiment)
    assert found.estimator == "stabilised"
    np.testing.assert_array_equal(found.values, cb.evaluate(logs[1], ["uniform", "new"]).values)


def test_where_a_baseline_is_served_nothing_else_has_support(exported, experiment):
    log = cb.Log.from_table(exported[0] / "shadow.csv", experiment)
    np.testing.assert_array_equal(log.probabilities[-1], [1.0, 0.0, 0.0])
    with pytest.raises(ValueError, match="the first is row 150, the last row 150"):
        cb.evaluate(log, ["uniform"])
    assert len(cb.evaluate(log.take(slice(150)), ["uniform"]).policies) == 1


FRAMES = {
    "dict": dict,
    "polars": polars.DataFrame,
    "pandas": lambda table: pytest.importorskip("pandas", reason="pip install pandas").DataFrame(table),
    "pyarrow": lambda table: pytest.importorskip("pyarrow", reason="pip install pyarrow").table(table),
}


@pytest.mark.parametrize("make", FRAMES.values(), ids=FRAMES.keys())
def test_frames_of_any_library(make, experiment):
    log = cb.Log.from_table(make(TABLE), experiment)
    np.testing.assert_array_equal(log.arms, [0, 1, 2, 1])
    np.testing.assert_array_equal(log.contexts, [[0, 1, 0], [1, 0, 1], [0.5, 0, 1], [0.25, 1, 0]])
    np.testing.assert_array_equal(log.rewards, [[1, 4], [np.nan, 12], [3, 0], [np.nan, 1]])
    assert log.probabilities is None
    assert not log.adaptive


def test_columns_may_have_other_names_and_arms_that_are_not_declared(experiment):
    table = {**TABLE, "page": ["old", "new", "bold", "later"], "chance": TABLE["propensity"]}
    log = cb.Log.from_table(table, experiment, arm="page", propensity="chance")
    assert log.arm_names == ("old", "new", "bold", "later")


def test_columns_are_found_as_they_are_declared():
    table = {
        "dose": [2.0, 1.0, 2.0, 1.0],
        "chance": [0.5] * 4,
        "smokes": [True, False, True, False],
        "benefit": [True, False, True, True],
    }
    experiment = cb.Experiment.from_frame(
        table, arm="dose", propensity="chance", metrics=["benefit"], context=["smokes"]
    )
    log = cb.Log.from_table(polars.DataFrame(table), experiment)
    assert log.arm_names == ("1", "2")
    assert log.arms.tolist() == [1, 0, 1, 0]
    assert log.contexts.tolist() == [[0, 1], [1, 0], [0, 1], [1, 0]]
    assert log.rewards.tolist() == [[1], [0], [1], [1]]
    with pytest.raises(ValueError, match=r"must have a column 'chance', the probability with which .* 'propensity'"):
        cb.Log.from_table({"dose": [1], "smokes": [True], "benefit": [1]}, experiment)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"arm": ["old", None, "bold", "new"]}, "column 'arm' must not be empty; it is in row 1"),
        ({"propensity": [0.25, "much", 0.25, 0.5]}, "column 'propensity' must hold numbers; row 1 is 'much'"),
        ({"propensity": [0.25, None, 0.25, 0.5]}, "propensities must lie from 1e-12 to 1"),
        ({"age": [18, 99, 58, 38]}, r"row 1, column 'age': context: 'age' must lie in \[18, 98\]"),
        (
            {"device": ["phone", "tv", "desk", "desk"]},
            "row 1, column 'device': context: 'device' must be one of phone, desk",
        ),
        ({"revenue": ["much", 1, 2, 3]}, "row 0, column 'revenue': values: 'revenue' must be a number"),
        ({"choice_probabilities": ['{"tv": 1.0}'] * 4}, "row 0: there is no arm 'tv'"),
        ({"choice_probabilities": ["often"] * 4}, "column 'choice_probabilities', row 0"),
    ],
)
def test_wrong_tables_are_refused(changes, words, experiment):
    with pytest.raises(ValueError, match=words):
        cb.Log.from_table({**TABLE, **changes}, experiment)


def test_missing_columns_and_files_are_named(experiment, tmp_path):
    with pytest.raises(ValueError, match="has no column 'latency'; it has arm, propensity"):
        cb.Log.from_table({name: column for name, column in TABLE.items() if name != "latency"}, experiment)
    with pytest.raises(TypeError, match="table must be a path, a data frame or a dict of columns; got 3"):
        cb.Log.from_table(3, experiment)
    for name, text, words in [
        ("gone.csv", None, "is not a file"),
        ("empty.csv", "arm,propensity\n", "is empty"),
        ("ragged.csv", "arm,propensity\nold\n", "row 2: 1 entries, but the header has 2"),
        ("wide.csv", "arm,propensity\nold,1,2\n", "row 2: 3 entries, but the header has 2"),
        ("log.jsonl", "{}", "export its decisions"),
    ]:
        if text is not None:
            (tmp_path / name).write_text(text)
        with pytest.raises(ValueError, match=words):
            cb.Log.from_table(tmp_path / name, experiment)
    (tmp_path / "latin.csv").write_bytes(b"arm\xff,propensity\nold,1\n")
    with pytest.raises(ValueError, match="is not a CSV file in UTF-8"):
        cb.Log.from_table(tmp_path / "latin.csv", experiment)


def test_tables_from_before_probabilities_were_logged(exported, experiment, tmp_path):
    with (exported[0] / "log.csv").open() as file:
        rows = list(csv.DictReader(file))
    rows[3]["choice_probabilities"] = ""
    with (tmp_path / "old.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    log = cb.Log.from_table(tmp_path / "old.csv", experiment)
    assert log.probabilities is None
    assert log.adaptive


def test_less_of_a_cost_is_better(experiment):
    cheap = {"latency": [2.0 + (arm == "bold") for arm in TABLE["arm"]] * 50, "revenue": [1.0] * 200}
    table = {**{name: list(column) * 50 for name, column in TABLE.items()}, **cheap}
    found = cb.evaluate(table, ["new", "bold"], experiment=experiment, estimator="snips")
    np.testing.assert_allclose(found.values, [[1, 2], [1, 3]])
    assert found.standings == {"new": "on", "bold": "off"}
    assert "latency (less is better)" in str(found)
    assert found.figure().axes[0].get_ylabel() == "latency (less is better)"


def test_an_experiment_is_for_tables(experiment):
    log = cb.Log.from_table(TABLE, experiment)
    with pytest.raises(TypeError, match="a Log and a Run have a cone and names of their own"):
        cb.evaluate(log, ["old"], experiment=experiment)
    with pytest.raises(TypeError, match="experiment must be an Experiment"):
        cb.evaluate(TABLE, ["old"], experiment=DECLARATION)


# ---- the command -------------------------------------------------------------------------------------------------


@pytest.fixture
def run(exported):
    folder = exported[0]
    return lambda *args: CliRunner().invoke(
        app, ["evaluate", str(folder / "log.csv"), "--experiment", str(folder / "trial.json"), *map(str, args)]
    )


def test_the_command_prints_and_writes(run, tmp_path, experiment, exported):
    policy = cb.ParetoUCB1(3, experiment.cone, 3)
    policy.save(tmp_path / "saved.npz")
    file = tmp_path / "made" / "found.json"
    result = run("--policy", "new", "--policy", "uniform", "--policy", tmp_path / "saved.npz", "--to", file)
    assert result.exit_code == 0, result.output
    assert "estimator stabilised" in result.output
    written = json.loads(file.read_text())
    assert [policy["name"] for policy in written["policies"]] == ["new", "uniform", str(tmp_path / "saved.npz")]
    found = cb.evaluate(exported[0] / "log.csv", ["new", "uniform"], experiment=experiment)
    assert written["policies"][0]["values"] == found.values[0].tolist()
    assert file.with_suffix(".png").stat().st_size > 1000


def test_by_default_the_command_judges_every_arm(run):
    result = run()
    for name in ("old", "new", "bold", "uniform", "logged"):
        assert name in result.output


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (("--policy", "gone"), "policy 'gone' must be 'uniform', 'logged' or an arm"),
        (("--policy", "new", "--policy", "new"), "policies must be different from each other; got new, new"),
        (("--policy", "new", "--to", "x" * 300 + ".json"), "cannot be written: File name too long"),
        (("--estimator", "best"), "estimator must be one of"),
        (("--level", "95"), "level must lie between 0 and 1"),
        (("--estimator", "replay"), "estimator 'replay' needs a log"),
    ],
)
def test_the_command_says_what_is_wrong(run, args, words):
    result = run(*args)
    assert result.exit_code == 2
    assert words in " ".join(result.output.split())


def test_the_command_refuses_files_that_are_not_what_they_should_be(exported, tmp_path):
    folder = exported[0]
    for log, declaration, words in [
        (folder / "log.jsonl", folder / "trial.json", "export its decisions"),
        (folder / "log.csv", tmp_path / "gone.toml", "cannot be read"),
    ]:
        result = CliRunner().invoke(app, ["evaluate", str(log), "--experiment", str(declaration)])
        assert result.exit_code == 2
        assert words in " ".join(result.output.split())


def uniform_table(n=400, seed=0):
    """A randomised trial: the old arm costs 4, the bold one 9, and both earn the same."""
    rng = np.random.default_rng(seed)
    arms = rng.choice(DECLARATION["arms"], n)
    return {
        "arm": arms,
        "propensity": np.full(n, 1 / 3),
        "age": rng.uniform(18, 98, n),
        "device": rng.choice(["phone", "desk"], n),
        "revenue": rng.normal(1.0, 0.1, n),
        "latency": np.select([arms == "old", arms == "new"], [4.0, 6.5], 9.0) + rng.normal(0.0, 0.1, n),
    }


@pytest.mark.parametrize("own_units", [True, False])
def test_policies_that_learn_in_a_replay_are_told_rewards_of_costs(experiment, own_units):
    """A policy that minimises the cost is told the cost; one of the declaration what is left to its worst value."""
    table = uniform_table()
    log = cb.Log.from_table(table, experiment)
    cone = log.cone if own_units else experiment.cone
    told = []

    class Watched(cb.ParetoUCB1):
        def copy(self):
            return self

        def observe(self, context, arm, reward):
            told.append((arm, *reward))
            super().observe(context, arm, reward)

    policy = Watched(n_arms=3, cone=cone, context_dim=experiment.context_dim)
    found = cb.evaluate(log, {"learns": policy, "uniform": "uniform"}, estimator="replay")
    assert found.values[0, 1] < found.values[1, 1] - 0.4  # less latency than at random
    kept = iter(told)
    first = next(kept)
    row = next(i for i in range(len(log)) if tuple(log.rewards[i][:1]) == first[1:2])
    assert first[2] == (log.rewards[row, 1] if own_units else 10.0 - log.rewards[row, 1])


def test_beyond_its_worst_value_a_cost_is_worth_nothing_in_a_replay(experiment):
    log = cb.Log.from_table({**TABLE, "propensity": [1 / 3] * 4}, experiment)
    policy = cb.ParetoUCB1(n_arms=3, cone=experiment.cone, context_dim=experiment.context_dim)
    np.testing.assert_array_equal(log.rewards_for(policy)[:, 1], [6.0, 0.0, 10.0, 9.0])
    np.testing.assert_array_equal(log.rewards_for(policy)[:, 0], log.rewards[:, 0])


def test_without_a_worst_value_a_reward_is_minus_the_cost():
    cone = cb.Cone.orthant(2, names=["revenue", "latency"], minimise=["latency"])
    log = cb.Log([[0.1], [0.2]], [0, 1], [[1.0, 4.0], [2.0, np.nan]], [0.5, 0.5], cone)
    rewards = cb.ParetoUCB1(2, cone.turned(["latency"]), 1)
    np.testing.assert_array_equal(log.rewards_for(rewards), [[1.0, -4.0], [2.0, np.nan]])
    np.testing.assert_array_equal(log.rewards_for(cb.ParetoUCB1(2, cone, 1)), log.rewards)
    unlabelled = cb.Cone.from_facets([[1, 0], [0, -1]])
    np.testing.assert_array_equal(log.rewards_for(cb.ParetoUCB1(2, unlabelled, 1)), log.rewards)
    np.testing.assert_array_equal(log.rewards_for(object()), [[1.0, -4.0], [2.0, np.nan]])  # anybody's, without a cone


def waits(n, rng):
    """Two arms of which one is fast; waiting is a cost."""
    arms = rng.choice(["fast", "slow"], n)
    wait = np.where(arms == "fast", 100.0, 300.0) + rng.normal(0, 10, n)
    return {"arm": arms, "propensity": np.full(n, 0.5), "x": rng.random(n), "wait": wait}


def test_a_policy_that_learns_from_a_log_learns_costs_as_costs(rng):
    table = waits(400, rng)
    metrics = [{"name": "wait", "direction": "min"}]
    experiment = Experiment.from_frame(table, arm="arm", propensity="propensity", metrics=metrics, context=["x"])
    log = cb.Log.from_table(table, experiment)
    for cone in (experiment.cone, log.cone):  # of rewards, and of what was measured
        policy = cb.default_policy(2, cone, experiment.context_dim).learn(log)
        assert [log.arm_names[arm] for arm in policy.front([0.5]).arms] == ["fast"]
    taught = experiment.learn(table).policy
    policy = cb.ConeKernel(2, experiment.cone, experiment.context_dim, seed=int(taught._seed)).learn(log)
    np.testing.assert_array_equal(policy.front([0.5]).means, taught.front([0.5]).means)


def test_a_log_of_other_metrics_is_refused_where_a_policy_learns(rng):
    log = cb.Log([[0.1], [0.7]], [0, 1], [[1.0], [0.0]], [0.5, 0.5], cb.Cone.orthant(1))
    with pytest.raises(ValueError, match="rewards"):
        cb.default_policy(2, cb.Cone.orthant(2), 1).learn(log)


def test_a_learner_of_other_columns_is_refused(rng):
    def visits(n, top):
        age, arm = rng.uniform(0, top, n), rng.choice(["a", "b"], n)
        sales = ((arm == "b") == (age > 30)) + rng.normal(0, 0.1, n)
        return {"arm": arm, "p": np.full(n, 0.5), "age": age, "sales": sales}

    named = {"arm": "arm", "propensity": "p", "metrics": ["sales"], "context": ["age"]}
    earlier, later = visits(300, 90), visits(300, 50)
    learner = Experiment.from_frame(earlier, **named).learn(earlier)
    with pytest.raises(ValueError, match=r"bounds, levels or .* differ \(age\)"):
        cb.evaluate(later, {"learner": learner}, experiment=Experiment.from_frame(later, **named))
    recommended = learner.recommend(later)["arm"]
    found = cb.evaluate(later, {"learner": learner, "arms": recommended}, experiment=learner.experiment)
    assert found.values[0] == found.values[1]
    wide = {**later, "size": rng.random(300)}
    other = Experiment.from_frame(wide, **{**named, "context": ["age", "size"]})
    with pytest.raises(ValueError, match="context_dim"):
        cb.evaluate(wide, {"learner": learner}, experiment=other)


def test_an_index_goes_by_the_name_of_its_arm_and_must_not_be_another_arms_name(rng):
    contexts, arms = rng.random((60, 1)), rng.integers(0, 2, 60)
    log = cb.Log(contexts, arms, arms[:, None] + 1.0, np.full(60, 0.5), cb.Cone.orthant(1), arm_names=("old", "new"))
    found = cb.evaluate(log, [1, "old"], estimator="snips")
    assert found.policies == ("new", "old")
    np.testing.assert_allclose(found.values[:, 0], [2.0, 1.0])
    numbered = cb.Log(contexts, arms, arms[:, None] + 1.0, log.propensities, log.cone, arm_names=("1", "2"))
    for policies in ([1], {"one": 1}, {"by row": np.ones(60, dtype=int)}, {"by row": np.where(arms == 0, 1, 0)}):
        with pytest.raises(ValueError, match="may mean the arm '1', or that of index 1, '2'"):
            cb.evaluate(numbered, policies)
    found = cb.evaluate(numbered, {"none has this name": 0, "first": "1", "second": "2"}, estimator="snips")
    np.testing.assert_allclose(found.values[:, 0], [1.0, 1.0, 2.0])


def test_the_result_is_not_written_over_by_its_picture(run, tmp_path):
    for name in ("found.png", "found.SVG"):
        result = run("--to", tmp_path / name)
        assert result.exit_code == 2
        assert "is for JSON" in result.output
    for name in ("found.v1", "found.v2", "found.json"):
        assert run("--to", tmp_path / name).exit_code == 0
        assert json.loads((tmp_path / name).read_text())["policies"]
    pictures = {path.name for path in tmp_path.glob("*.png")}
    assert pictures == {"found.v1.png", "found.v2.png", "found.png"}


def test_a_result_that_cannot_be_written_after_all_ends_in_words(run, tmp_path, monkeypatch):
    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_text", full)
    result = run("--to", tmp_path / "found.json")
    assert result.exit_code == 2
    assert "No space left on device" in " ".join(result.output.split())
