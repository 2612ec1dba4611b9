"""Learning from tables: the same from every library, exactly what the policy would learn, and nothing from bad rows."""

import re
import subprocess
import sys

import numpy as np
import polars as pl
import pytest

import conebandit as cb
from conebandit.experiment.errors import InvalidError
from conebandit.experiment.frames import Frame
from conebandit.experiment.outlook import estimates_by_name
from conebandit.validate import storage
from tests.experiment.test_frames import LIBRARIES


def log(n=300, seed=0):
    """Phones like the page new, desks old; bold is slow and never the best."""
    rng = np.random.default_rng(seed)
    columns = {
        "page": rng.choice(["bold", "new", "old"], n),
        "device": rng.choice(["phone", "desk"], n),
        "age": rng.integers(18, 80, n).astype(float),
        "member": rng.random(n) < 0.5,
    }
    liked = (columns["page"] == "new") == (columns["device"] == "phone")
    columns["revenue"] = 1.0 + (liked & (columns["page"] != "bold")) + rng.normal(0, 0.2, n)
    columns["latency"] = 300.0 + 200.0 * (columns["page"] == "bold") + rng.normal(0, 20, n)
    table = {name: column.tolist() for name, column in columns.items()}
    table["revenue"][3] = table["age"][5] = table["device"][7] = None
    return table


METRICS = ["revenue", {"name": "latency", "direction": "min", "worst": 700, "units": "ms"}]
CONTEXT = ["age", "device", "member"]


def declared(table, **entries):
    return cb.Experiment.from_frame(table, arm="page", metrics=METRICS, context=CONTEXT, **entries)


@pytest.fixture(scope="module")
def learner():
    return declared(log()).learn(log())


def state(learner):
    return {name: array.tobytes() for name, array in learner.policy.state().items()}


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
def test_every_library_leads_to_the_same(library):
    if library not in LIBRARIES:
        pytest.skip(f"pip install {library}")
    quick = {"policy": "LinearParetoUCB"}
    table, native = log(), LIBRARIES[library](log())
    plain, other = declared(table, **quick).learn(table), declared(native, **quick).learn(native)
    assert other.experiment == plain.experiment
    assert state(other) == state(plain)
    made = other.recommend(native)
    assert type(made) is type(native)
    expected = plain.recommend(table)
    assert {name: Frame(made).column(name) for name in Frame(made).names} == expected


def test_the_order_of_columns_does_not_matter():
    table = log(60)
    turned = dict(reversed(table.items()))
    experiment = declared(table, policy="LinearParetoUCB")
    assert state(experiment.learn(table)) == state(experiment.learn(turned))


def test_rows_are_learned_as_one_would_by_hand():
    table = log(40)
    experiment = declared(table, policy="LinearParetoUCB")
    policy = cb.LinearParetoUCB(3, experiment.cone, experiment.context_dim)
    for i in range(40):
        row = {name: column[i] for name, column in table.items()}
        x = experiment.encode({name: row[name] for name in CONTEXT})
        revenue = np.nan if row["revenue"] is None else row["revenue"]
        policy.observe(x, experiment.arms.index(row["page"]), [revenue, 700 - row["latency"]])
    learned = experiment.learn(table)
    assert {name: array.tobytes() for name, array in policy.state().items()} == state(learned)
    half = {name: column[:20] for name, column in table.items()}
    rest = {name: column[20:] for name, column in table.items()}
    assert state(experiment.learn(half).learn(rest)) == state(learned)


def test_rows_without_any_outcome_teach_nothing():
    table = log(40)
    experiment = declared(table, policy="LinearParetoUCB")
    empty = {**table, "revenue": [None] * 40, "latency": [float("nan")] * 40}
    assert experiment.learn(empty).policy.n_observations == 0


def test_the_default_policy_unless_one_is_declared():
    assert declared(log(40)).policy == "ConeTree"  # what it means in an old log
    assert type(cb.Learner(declared(log(40))).policy) is cb.ConeKernel
    floor = cb.Learner(declared(log(40), policy={"explore": 0.1}))
    assert (type(floor.policy), floor.policy.explore) == (cb.ConeKernel, 0.1)
    assert type(cb.Learner(declared(log(40), policy="ParetoUCB1")).policy) is cb.ParetoUCB1
    with pytest.raises(TypeError, match="experiment must be an Experiment"):
        cb.Learner({"id": "e"})


@pytest.mark.parametrize(
    ("column", "value", "says"),
    [
        (
            "page",
            "gold",
            "row 17, column 'page': there is no arm 'gold'; this experiment has bold, new, old. Declare it",
        ),
        ("page", None, "row 17, column 'page': the arm is missing"),
        (
            "device",
            "watch",
            "row 17, column 'device': .* must be one of desk, phone, missing; got 'watch'.* Add the level",
        ),
        ("member", None, "row 17, column 'member': .* is missing, .* Declare what stands for it"),
        ("age", "old", "row 17, column 'age': .* must be a number"),
        ("age", float("inf"), "row 17, column 'age': .* must be a number"),
        ("latency", "fast", "row 17, column 'latency': .* must be a number"),
        ("latency", float("inf"), "row 17, column 'latency': .* must be a number"),
    ],
)
def test_a_bad_row_is_named_and_nothing_is_learned(column, value, says):
    learned = declared(log(40), policy="LinearParetoUCB").learn(log(40))
    before, bad = state(learned), log(40, seed=1)
    bad[column][17] = value
    with pytest.raises(InvalidError, match=says):
        learned.learn(bad)
    assert state(learned) == before
    assert len(learned.rows.arms) == 40


def test_columns_that_are_not_there():
    experiment = declared(log(40))
    with pytest.raises(InvalidError, match=r"no column 'shown' that says what was played; .* with the argument 'arm'"):
        experiment.learn(log(40), arm="shown")
    with pytest.raises(InvalidError, match="the table has no column 'latency'"):
        experiment.learn({name: column for name, column in log(40).items() if name != "latency"})
    with pytest.raises(InvalidError, match="the table has no column 'member'"):
        cb.Learner(experiment).recommend({"age": [20], "device": ["phone"]})


def test_recommendations_are_right_and_in_units(learner):
    made = learner.recommend({"age": [30, 30], "device": ["phone", "desk"], "member": [True, False]})
    assert list(made) == [
        *("arm", "chance", "revenue", "revenue_low", "revenue_high", "latency", "latency_low", "latency_high", "front")
    ]
    assert made["arm"] == ["new", "old"]
    assert all("bold" not in front for front in made["front"])
    for low, estimate, high in zip(made["latency_low"], made["latency"], made["latency_high"], strict=True):
        assert low < estimate < high
        assert abs(estimate - 300) < 50
    for arm, front, chance in zip(made["arm"], made["front"], made["chance"], strict=True):
        assert arm in front.split(", ")
        assert 0.5 < chance <= 1.0


def test_a_policy_without_chances_recommends_too():
    made = declared(log(), policy="ParetoUCB1").learn(log()).recommend(log(9))
    assert made["chance"] == [None] * 9
    assert set(made["arm"]) <= {"bold", "new", "old"}


def test_before_anything_is_known_every_arm_is_on_the_front():
    made = cb.Learner(declared(log(40))).recommend({"age": [30], "device": ["phone"], "member": [True]})
    assert (made["front"], made["revenue"], made["revenue_low"]) == (["bold, new, old"], [None], [None])
    explained = cb.Learner(declared(log(40))).explain({"age": 30, "device": "phone", "member": True})
    assert "not known" in str(explained)


def test_metrics_may_have_the_names_of_columns_of_a_recommendation():
    table = {"page": ["a", "b"] * 20, "arm": [1.0, 2.0] * 20, "front": [2.0, 1.0] * 20}
    experiment = cb.Experiment.from_frame(table, arm="page", metrics=["arm", "front"], context=[])
    made = experiment.learn(table).recommend([{}])
    assert made["front"] == ["a, b"]
    assert made["arm"][0] in ("a", "b")
    assert {"metric.arm", "arm_low", "metric.front", "front_high"} <= set(made)


def test_explanations_have_names_and_units(learner):
    row = {"age": 30, "device": "phone", "member": True, "not asked for": object()}
    why = learner.explain(row)
    by_name = {each.arm: each for each in why.arms}
    assert by_name["bold"].beaten_by == "new"
    assert by_name["new"].on_front
    assert by_name["new"].beaten_by is None
    assert learner.front(row) == tuple(each for each in why.arms if each.on_front)
    assert "latency, ms" in str(why)
    assert why.relevance["device"] > why.relevance["member"]
    with pytest.raises(TypeError, match="row must be a mapping"):
        learner.explain(None)
    low, high = by_name["new"].estimates["revenue"][1:]
    assert low < 2.0 < high


def test_saving_and_loading(learner, tmp_path):
    learner.save(tmp_path / "web.npz")
    again = cb.Learner.load(tmp_path / "web.npz")
    assert again.experiment == learner.experiment
    assert state(again) == state(learner)
    assert all((one == other).all() for one, other in zip(again.rows[:2], learner.rows[:2], strict=True))
    more = log(40, seed=2)
    assert state(again.learn(more)) == state(cb.Learner.load(tmp_path / "web.npz").learn(more))


def test_other_files_are_refused(learner, tmp_path):
    learner.policy.save(tmp_path / "policy.npz")
    with pytest.raises(cb.PolicyFileError, match="holds a policy, not a learner"):
        cb.Learner.load(tmp_path / "policy.npz")
    learner.save(tmp_path / "web.npz")
    with pytest.raises(cb.PolicyFileError, match=r"read it with conebandit\.Learner\.load"):
        cb.load_policy(tmp_path / "web.npz")
    with np.load(tmp_path / "web.npz") as file:
        arrays = dict(file)
    for wrong in ({"rows.arms": arrays["rows.arms"] + 7}, {"rows.values": arrays["rows.values"][1:]}):
        np.savez(tmp_path / "bad.npz", **{**arrays, **wrong})
        with pytest.raises(cb.PolicyFileError, match="is damaged"):
            cb.Learner.load(tmp_path / "bad.npz")


def test_segments_are_readable_and_agree(learner):
    found = learner.segments(max_leaves=4)
    assert 2 <= len(found) <= 4
    assert sum(segment.size for segment in found) == len(learner.rows.arms)
    assert found.agreement > 0.7
    phones = learner.segments({"age": [20, 40, 60] * 5, "device": ["phone"] * 15, "member": [True, False, True] * 5})
    assert {segment.arm for segment in phones} == {"new"}
    by_rule = {segment.rule: segment.arm for segment in found if segment.rule.startswith("device is")}
    assert by_rule.get("device is phone", "new") == "new"
    assert "By these rules," in str(found)


def test_estimates_stay_within_the_declared_range():
    metric = cb.Metric("toxicity", direction="min", worst=1.0, range=(0.0, 1.0))
    assert estimates_by_name([metric], [1.02], [0.1]) == {"toxicity": cb.Interval(0.0, 0.0, pytest.approx(0.08))}
    assert estimates_by_name([metric], [0.5], [0.1]) == {"toxicity": pytest.approx((0.5, 0.4, 0.6))}
    assert str(estimates_by_name([metric], [np.nan], [np.inf])["toxicity"]) == "not known"
    free = cb.Metric("toxicity", direction="min", worst=1.0)
    assert estimates_by_name([free], [1.02], [0.1])["toxicity"].low == pytest.approx(-0.12)


def test_of_arms_that_are_equally_on_fronts_a_segment_has_the_recommended_one():
    rng = np.random.default_rng(0)
    pages = rng.choice(["calm", "loud"], 300)
    table = {"page": pages.tolist(), "sales": (pages == "loud") + rng.normal(0, 0.3, 300)}
    table["comfort"] = (pages == "calm") + rng.normal(0, 0.3, 300)
    table["age"] = rng.integers(18, 80, 300)
    made = cb.Experiment.from_frame(table, arm="page", metrics=["sales", "comfort"], context=["age"]).learn(table)
    given = made.recommend(table)
    assert set(given["front"]) == {"calm, loud"}
    usual = max(set(given["arm"]), key=given["arm"].count)
    assert [leaf.arm for leaf in made.segments()] == [usual]


def test_a_learner_serves_what_it_knows_and_stays_as_it_is(learner, tmp_path):
    before = state(learner)
    visitor = {"age": 30, "device": "phone", "member": True}
    with learner.serve() as client:
        assert client.address.startswith("http://127.0.0.1:")
        front = client.front("experiment", visitor)
        assert [each["arm"] for each in front["arms"]] == [each.arm for each in learner.front(visitor)]
        made = client.decide("experiment", visitor)
        client.report("experiment", made.id, {"revenue": 2.0, "latency": 300})
    with pytest.raises(cb.ClientError, match="cannot be reached"):
        cb.Client(client.address, retries=0).experiments()
    assert state(learner) == before
    with pytest.raises(ValueError, match="port must be an integer"):
        learner.serve(port="any")
    for _ in range(2):  # the log is kept where one is named, and goes on
        with learner.serve(tmp_path / "log.db") as client:
            client.decide("experiment", visitor)
    with learner.serve(tmp_path / "log.db") as client:
        exported = tmp_path / "log.csv"
        exported.write_bytes(client.export("experiment"))
    assert len(learner.recommend(exported)["arm"]) == 2  # what the service exports is a table like any other
    assert len(learner.experiment.learn(exported).rows.arms) == 0


def test_serving_needs_an_extra(learner, tmp_path):
    learner.save(tmp_path / "learner.npz")
    # In a process of its own: modules imported a second time would be others than those that later tests change.
    code = "import sys; sys.modules['uvicorn'] = None; import conebandit as cb; cb.Learner.load(sys.argv[1]).serve()"
    command = [sys.executable, "-c", code, tmp_path / "learner.npz"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert re.search(r"ModuleNotFoundError: The service needs .*: pip install 'conebandit\[service\]'", done.stderr)


def test_segments_of_nothing_are_refused():
    with pytest.raises(InvalidError, match="nothing has been learned yet"):
        cb.Learner(declared(log(40))).segments()
    with pytest.raises(ValueError, match="segments need at least one row"):
        declared(log(40)).learn(log(40)).segments({"age": [], "device": [], "member": []})
    with pytest.raises(ValueError, match="max_leaves must be a positive integer; got 0"):
        declared(log(40)).learn(log(40)).segments(max_leaves=0)


def test_a_file_with_the_policy_of_another_experiment_is_refused(tmp_path):
    """It would be asked about arms and coordinates that it does not have."""
    declared = {"id": "e", "arms": ["a", "b"], "metrics": [{"name": "m"}], "policy": "ParetoUCB1"}
    for name, arms in (("two", ["a", "b"]), ("three", ["a", "b", "c"])):
        cb.Learner(cb.Experiment.from_dict({**declared, "arms": arms})).save(tmp_path / name)
    kind, options, arrays = storage.read(tmp_path / "two")
    _, others, foreign = storage.read(tmp_path / "three")
    policy = {name: array for name, array in foreign.items() if name.startswith("policy.")}
    mixed = {name: array for name, array in arrays.items() if name.startswith("rows.")} | policy
    storage.write(tmp_path / "mixed", kind, {**options, "options": others["options"]}, mixed)
    with pytest.raises(cb.PolicyFileError, match=r"its policy has arms, metrics and coordinates \(3, 1, 1\)"):
        cb.Learner.load(tmp_path / "mixed")


def test_metrics_may_have_the_names_of_columns_that_we_add():
    """Every metric gets three columns of its own, whatever it is called."""
    names = ["metric.arm", "arm", "front", "chance", "x_low", "x", "metric.metric.arm"]
    log = {"page": ["old", "new"] * 10, **{name: [1.0, 2.0] * 10 for name in names}}
    asked = {"arm": "page", "metrics": names, "context": [], "policy": "ParetoUCB1"}
    made = cb.Experiment.from_frame(log, **asked).learn(log).recommend({"any": [1]})
    assert len(made) == 3 + 3 * len(names)
    assert (made["arm"], made["front"]) == (["new"], ["new"])


def test_many_files_are_learned_as_one_table(tmp_path, monkeypatch):
    """In parts, in the order of their names, and with other columns that nobody reads."""
    monkeypatch.setattr("conebandit.experiment.rows.VALUES_AT_ONCE", 6 * 40)
    table = log()
    frame = pl.DataFrame({**table, "note": ["unread"] * 300})
    for i, first in enumerate((0, 130, 131)):
        frame[first : (130, 131, 300)[i]].write_parquet(tmp_path / f"part-{i}.parquet")
    frame.write_parquet(tmp_path / "all.pq")
    wanted = declared(table).learn(table)
    for given in (
        tmp_path / "all.pq",
        str(tmp_path / "part-*.parquet"),
        [tmp_path / f"part-{i}.parquet" for i in range(3)],
    ):
        learner = declared(table).learn(given)
        for one, other in zip(learner.rows, wanted.rows, strict=True):
            np.testing.assert_array_equal(one, other)
        for name, array in learner.policy.state().items():
            np.testing.assert_array_equal(array, wanted.policy.state()[name])


def test_a_bad_row_of_many_files_is_named_and_nothing_is_learned(tmp_path, monkeypatch):
    monkeypatch.setattr("conebandit.experiment.rows.VALUES_AT_ONCE", 6 * 40)
    table = log()
    learner = declared(table).learn(table)
    before = learner.policy
    pl.DataFrame(table).write_parquet(tmp_path / "a.parquet")
    other = {**table, "page": [*table["page"][:99], "loud", *table["page"][100:]]}
    pl.DataFrame(other).write_parquet(tmp_path / "b.parquet")
    with pytest.raises(InvalidError, match=r"^b.parquet, row 99, column 'page': there is no arm 'loud'"):
        learner.learn(tmp_path)
    with pytest.raises(InvalidError, match=r"^row 99, column 'page': there is no arm 'loud'"):
        learner.learn(tmp_path / "b.parquet")
    pl.DataFrame(table).drop("age").write_parquet(tmp_path / "b.parquet")
    with pytest.raises(InvalidError, match=r"^b.parquet: the table has no column 'age'; it has page, device, member"):
        learner.learn(tmp_path)
    pl.DataFrame(table).head(0).write_parquet(tmp_path / "b.parquet")
    with pytest.raises(InvalidError, match=r"b.parquet: empty; at least one row is needed"):
        learner.learn(tmp_path / "b.parquet")
    (tmp_path / "b.parquet").write_bytes(b"no table")
    with pytest.raises(InvalidError, match=r"b.parquet cannot be read as a Parquet file"):
        learner.learn([tmp_path / "a.parquet", tmp_path / "b.parquet"])
    assert learner.policy is before
    assert len(learner.rows.arms) == len(declared(table).learn(table).rows.arms)
