"""The suite, its runs and the leaderboard."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import conebandit as cb
from conebandit.cli import app
from conebandit.policies.binned_pareto_ucb import VISITS
from conebandit.regret import SERIES
from conebandit.studies import leaderboard
from conebandit.studies.bench import CONTENDERS, DEFAULT, TUNED, run_suite
from conebandit.studies.standings import comparisons, mean_ranks, standings, summary
from conebandit.studies.suite import HORIZON, SUITE

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "benchmarks/results/leaderboard.json"


def chosen(things, *names):
    return [thing for thing in things if thing.name in names]


@pytest.mark.parametrize("task", SUITE, ids=lambda task: task.name)
def test_every_environment_keeps_the_contract_and_has_something_to_learn(task):
    env = task.make(3)
    cb.check_environment(env)
    assert env.change_points[-1] < HORIZON
    means = env.means(env.contexts(np.random.default_rng(0), 500, HORIZON))
    share = cb.pareto_mask(means, env.cone).mean()
    assert 0 < share < 0.9, "some arms are on the front and some are not"


def test_the_suite_is_as_large_as_promised():
    assert len(SUITE) >= 14
    assert len({task.name for task in SUITE}) == len(SUITE)
    assert sum(contender.baseline for contender in CONTENDERS) == 11


@pytest.mark.parametrize("contender", CONTENDERS, ids=lambda contender: contender.name)
def test_every_contender_can_be_made_for_every_task(contender):
    for task in SUITE:
        policy = contender.make(task.make(0), 0)
        assert policy.n_objectives == task.make(0).n_objectives


def test_runs_do_not_depend_on_the_number_of_processes():
    tasks, contenders = chosen(SUITE, "smooth-1", "paper"), chosen(CONTENDERS, "oracle", "binned", DEFAULT)
    finished = []
    settings = {"tasks": tasks, "contenders": contenders, "horizon": 6000, "seeds": (0, 1)}
    one = run_suite(**settings, n_jobs=1, progress=finished.append)
    two = run_suite(**settings, n_jobs=2)
    assert one == two
    assert len(one) == len(finished) == 2 * 3 * 2
    for row in one:
        if row["policy"] == "oracle":
            assert row["play"] == row["shortfall"] == row["front"] == row["coverage"] == 0.0


def test_a_horizon_before_the_last_shift_is_refused():
    with pytest.raises(ValueError, match="horizon must be beyond round 20000"):
        run_suite(tasks=chosen(SUITE, "gradual"), contenders=chosen(CONTENDERS, "random"), horizon=10_000)


def row(task, policy, play, report, seed=0):
    """A run whose report error is evenly made of what it lacks and of what is bad in it."""
    errors = {"play": play, "shortfall": report / 2, "front": report / 2, "coverage": 3 * report}
    return {"task": task, "policy": policy, "seed": seed, **dict.fromkeys(SERIES, 1.0), **errors}


def test_ratios_by_hand():
    rows = [
        row("a", DEFAULT, 0.01, 0.2), row("a", DEFAULT, 0.03, 0.4, seed=1),  # mean 0.02, 0.3: score 0.05
        row("a", "binned", 0.04, 0.5), row("a", "linear", 0.001, 2.0), row("a", "tree-paper", 0.4, 0.3),
    ]  # fmt: skip
    table = standings(rows)
    assert [s.policy for s in table] == [DEFAULT, "binned", "linear", "tree-paper"]
    assert table[0].error["play"] == pytest.approx(0.01)
    assert np.isnan(table[1].error["play"]), "one run says nothing about it"
    (found,) = comparisons(table)
    assert found.score == pytest.approx(0.05 / 0.09)
    assert found.report == found.coverage == pytest.approx(0.3 / 0.5)
    assert found.play == pytest.approx(0.02 / 0.04), "linear's report error is more than twice the default's"
    assert found.play_to_printed == pytest.approx(0.05)
    assert summary([found])["score"] == pytest.approx((0.05 / 0.09, 0.05 / 0.09))
    assert mean_ranks(table) == {DEFAULT: 1.0, "binned": 2.0, "linear": 3.0, "tree-paper": 4.0}


def test_no_comparable_baseline():
    table = standings([row("a", DEFAULT, 0.02, 0.1), row("a", "binned", 0.01, 0.5)])
    (found,) = comparisons(table)
    assert np.isnan(found.play)
    assert np.isnan(summary([found])["play"][0])
    assert "none comparable" in "\n".join(leaderboard._comparison_lines([found]))


def test_errors_are_shown_where_there_is_room_and_caution_where_it_is_due():
    rows = [row("a", name, play, 0.1, seed) for name, play in ((DEFAULT, 0.02), ("binned", 0.03)) for seed in range(10)]
    assert leaderboard.caution(standings(rows)) == []
    assert leaderboard.caution(standings(rows[:3]))[0].startswith("With 3 seeds")
    assert "baselines" not in leaderboard.caution(standings(rows[:3]))[0]
    three = [row("a", name, 0.1, 0.1) for name in (DEFAULT, "binned", "linear")]
    assert "and the best of 2 baselines is taken afterwards" in leaderboard.caution(standings(three))[0]
    cells = [next(iter(leaderboard.rich_tables(rows, width)[0].columns[2].cells)) for width in (80, 200)]
    assert cells == ["0.0200", "0.0200 ± 0.0000"]


def test_command_writes_what_it_shows(tmp_path):
    options = ["--seeds", "1", "--horizon", "6000", "--jobs", "1", "--to", str(tmp_path)]
    chosen_ones = ["--policy", "default", "--policy", "binned", "--policy", "tree-paper", "--task", "smooth-1"]
    result = CliRunner().invoke(app, ["bench", *options, *chosen_ones])
    assert result.exit_code == 0, result.output
    assert "smooth-1" in result.output
    assert "tree-paper" in result.output, "names are not cut off at 80 columns"
    assert "With 1 seed these ratios are mostly luck" in result.output
    rows, about = leaderboard.read_rows(tmp_path / "leaderboard.json")
    assert about["horizon"] == 6000
    assert len(rows) == 3
    assert (tmp_path / "leaderboard.md").read_text() == leaderboard.to_markdown(rows, about)


@pytest.mark.parametrize(("option", "name"), [("--policy", "nobody"), ("--task", "nowhere")])
def test_command_names_what_it_does_not_know(option, name):
    result = CliRunner().invoke(app, ["bench", option, name])
    assert result.exit_code == 2
    assert name in result.output


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_a_run_that_fails_is_named(bench, tmp_path, monkeypatch, jobs):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    name = f"breaking_{tmp_path.name}".replace("-", "_")
    (tmp_path / f"{name}.py").write_text(
        "import conebandit as cb\n\n\nclass Breaking(cb.RandomArm):\n"
        "    def run_chunk(self, contexts, outcomes, keys):\n        raise ZeroDivisionError('by zero')\n"
    )
    result = bench("--policy", f"{name}:Breaking", "--jobs", jobs)
    assert result.exit_code == 1
    policy = f"policy {name}:Breaking in task paper with seed 0: ZeroDivisionError: by zero. Nothing was written to"
    assert policy in result.output
    assert "Traceback" not in result.output


def test_the_page_is_made_from_the_results():
    rows, about = leaderboard.read_rows(RESULTS)
    assert (ROOT / "docs/leaderboard.md").read_text() == leaderboard.to_markdown(rows, about)
    assert about["horizon"] == HORIZON
    assert {r["policy"] for r in rows} == {contender.name for contender in CONTENDERS}
    assert {r["task"] for r in rows} == {task.name for task in SUITE}


def test_what_the_results_claim_follows_from_their_runs():
    data = json.loads(RESULTS.read_text())
    again = summary(comparisons(standings(data["runs"])))
    for name, (mean, worst) in again.items():
        assert data["summary"][name] == {"geometric mean": pytest.approx(mean), "worst": pytest.approx(worst)}


OLD = {name: value for name, value in row("a", "b", 0.1, 0.1).items() if name != "shortfall"}
ABOUT = {"command": "c", "date": "d", "machine": "m", "versions": {}, "horizon": 10, "seconds": 5}


def test_runs_of_other_policies_and_tasks_can_be_kept(tmp_path):
    path = tmp_path / "leaderboard.json"
    runs = [row("a", "binned", 0.1, 0.1), row("a", DEFAULT, 0.2, 0.1), row("b", DEFAULT, 0.4, 0.1)]
    path.write_text(leaderboard.to_json(runs, ABOUT))
    earlier = leaderboard.Earlier.read(path, horizon=10, seeds=1)
    rows, told = earlier.joined([row("a", DEFAULT, 0.3, 0.1)], {**ABOUT, "seconds": 2})
    assert [(r["policy"], r["play"]) for r in rows] == [(DEFAULT, 0.3), ("binned", 0.1), (DEFAULT, 0.4)]
    assert told["seconds"] == 7
    assert "--keep for default" in told["command"]


@pytest.fixture
def bench(tmp_path):
    """The command in a folder of its own, with the shortest run there is."""
    short = ["--seeds", "1", "--horizon", "6000", "--jobs", "1", "--policy", "random", "--task", "paper"]
    return lambda *more: CliRunner().invoke(app, ["bench", *short, "--to", str(tmp_path / "to"), *more])


def test_a_name_given_twice_counts_once(bench, tmp_path):
    result = bench("--policy", "random", "--task", "paper")
    assert result.exit_code == 0, result.output
    assert len(leaderboard.read_rows(tmp_path / "to/leaderboard.json")[0]) == 1


def test_with_nothing_to_keep_all_runs_are_new(bench, tmp_path):
    result = bench("--keep")
    assert result.exit_code == 0, result.output
    assert len(leaderboard.read_rows(tmp_path / "to/leaderboard.json")[0]) == 1


@pytest.fixture
def never_run(monkeypatch):
    def run_suite(**_):
        raise AssertionError("must be refused before the benchmark runs")

    monkeypatch.setattr("conebandit.studies.bench.run_suite", run_suite)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "cannot be read as a leaderboard"),
        ("[]", "cannot be read as a leaderboard"),
        (json.dumps({**ABOUT, "horizon": 6000, "runs": [{"seed": 0}]}), "cannot be read as a leaderboard"),
        (
            json.dumps({**ABOUT, "horizon": 6000, "runs": [OLD]}),
            "runs lack shortfall: they are of an earlier version",
        ),
        (json.dumps({**ABOUT, "runs": [row("a", "b", 0.1, 0.1)]}), "another horizon or other seeds"),
        (json.dumps({**ABOUT, "horizon": 6000, "runs": [row("a", "b", 0.1, 0.1, 1)]}), "another horizon or other"),
    ],
)
def test_what_cannot_be_kept_is_refused_before_the_runs(bench, never_run, tmp_path, text, message):
    (tmp_path / "to").mkdir()
    path = tmp_path / "to/leaderboard.json"
    path.write_text(text)
    result = bench("--keep")
    assert result.exit_code == 2, result.output
    words = " ".join(result.output.split())
    assert "Invalid value for --keep" in words
    assert message in words
    assert path.read_text() == text


def test_a_horizon_that_is_too_short_is_refused_before_the_runs(bench, never_run, tmp_path):
    result = bench("--horizon", "1")
    assert result.exit_code == 2, result.output
    assert "Invalid value for --horizon" in result.output
    assert not (tmp_path / "to").exists()


@pytest.mark.parametrize("blocked", ["to", "to/leaderboard.md/"])
def test_what_cannot_be_written_is_refused_before_the_runs(bench, never_run, tmp_path, blocked):
    if blocked.endswith("/"):
        (tmp_path / blocked).mkdir(parents=True)
    else:
        (tmp_path / blocked).write_text("a file")
    for options in ([], ["--keep"]):
        result = bench(*options)
        assert result.exit_code == 2, result.output
        assert "Invalid value for --to" in result.output


def test_baselines_enter_with_what_the_tuning_found_best():
    rows = json.loads((ROOT / "benchmarks" / "results" / "tuning.json").read_text())["rows"]
    best = {row["policy"]: row["setting"] for row in rows if row["best"]}
    assert set(best) == set(TUNED)
    for policy, setting in best.items():
        found = dict(part.split(" = ") for part in setting.split(", "))
        if found.get("bins", "").startswith("for"):  # the grid of the default: so many visits
            assert found.pop("bins") == f"for {VISITS} visits"
        assert {name: float(value) for name, value in found.items()} == TUNED[policy], policy
