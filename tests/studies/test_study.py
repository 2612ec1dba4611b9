"""Studies: the same on any number of processes, resumed without a run twice, refused where they would be mixed."""

import itertools
import json
import os
import re
import signal
import sys
from contextlib import contextmanager

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

import conebandit as cb
from conebandit.cli import app
from conebandit.regret import SERIES
from conebandit.studies import failures as failures_module
from conebandit.studies import folder as folder_module
from conebandit.studies import pool as pool_module
from conebandit.studies import runs as runs_module
from conebandit.studies.declaration import read_plan
from conebandit.studies.estimate import estimate
from conebandit.studies.folder import Folder
from conebandit.studies.parts import Parts
from conebandit.studies.pool import Workers, as_finished
from tests.studies.killing import POSIX, VARYING, finished, kill_again_and_again, noted, results, write_study

STUDY = {
    "policies": ["random", {"name": "ParetoUCB1", "grid": {"width": [0.1, 0.3]}}],
    "environments": [{"name": "paper", "n_arms": 3, "change_point": 40, "grid": {"nu": [1.0, 3.0]}}],
    "horizon": 150,
    "seeds": [4, 1],
    "points": 7,
}


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    return cb.run_study(STUDY, tmp_path_factory.mktemp("study") / "results", backend="sequential")


@pytest.fixture
def own(tmp_path, monkeypatch):
    """A study file with an environment of the user's own that notes every run."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    yield write_study(tmp_path, seeds=4)
    sys.modules.pop("noting", None)


def test_rows_are_what_simulate_gives_bit_for_bit(study):
    frame = study.to_frame(curves=True)
    assert frame.height == len(study) == 12
    for row in frame.to_dicts():
        world = cb.environments.paper(n_arms=3, change_point=40, nu=row["environment.nu"])
        width = row["policy.width"]
        size = (3, world.cone, 1)
        policy = (
            cb.RandomArm(*size, seed=row["seed"])
            if width is None
            else cb.ParetoUCB1(*size, width=width, seed=row["seed"], bounds=world.bounds)
        )
        run = cb.simulate(policy, world, 150, seed=row["seed"])
        assert [row[name] for name in SERIES] == [run.average(name, after=40) for name in SERIES]
        assert row["after"] == 40
        at = study.rounds(row["environment"]).astype(int) - 1
        assert row["play_curve"] == run.cumulative("play")[at].tolist()


@pytest.mark.parametrize("backend", ["loky", "threads"])
def test_results_do_not_depend_on_the_number_of_workers(study, tmp_path, backend):
    two = cb.run_study(STUDY, tmp_path / "two", backend=backend, jobs=2)
    assert two.to_frame(curves=True).drop(VARYING).equals(study.to_frame(curves=True).drop(VARYING), null_equal=True)


def test_what_a_study_says_of_itself(study):
    assert study.environments[0] == "paper(n_arms=3, change_point=40, nu=1.0)"
    assert study.n_missing == 0
    assert "12 runs are missing" in repr(study).replace("0 of 12", "12")
    assert study.versions["numpy"] == np.__version__
    assert study.rounds(study.environments[0]).tolist() == [21, 43, 64, 86, 107, 129, 150]
    curves = study.curves("front", study.environments[1])
    assert {name: array.shape for name, array in curves.items()} == dict.fromkeys(study.policies, (2, 7))
    at, mean, half = study.bands("play", study.environments[0], per_round=True)["random"]
    runs = study.curves("play", study.environments[0])["random"]
    assert np.array_equal(mean, (runs / at).mean(axis=0))
    assert (half > 0).all()
    frame = study.to_frame()
    assert not any(name.endswith("_curve") for name in frame.columns)
    assert frame["policy.width"].to_list()[:3] == [None, 0.1, 0.3]


def test_a_series_that_is_named_twice_counts_once(study, tmp_path):
    assert study.differences("play", "play").equals(study.differences("play"))
    assert study.averages("play", "front", "play").equals(study.averages("play", "front"))
    pages = []
    for number, options in enumerate((["play"], ["play", "play"])):
        to = tmp_path / str(number)
        given = [part for name in options for part in ("--series", name)]
        done = CliRunner().invoke(app, ["study", "report", str(study.path), "--to", str(to), *given])
        assert done.exit_code == 0, done.output
        pages.append((to / "differences.csv").read_text())
        told = CliRunner().invoke(app, ["study", "compare", str(study.path), str(study.path), *given])
        pages.append(told.output)
    assert pages[:2] == pages[2:]


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda study: study.curves("play"), "environment must be one of paper"),
        (lambda study: study.curves("recall", "x"), "series must be one of those whose curves were kept, play, front"),
        (lambda study: study.averages("regret"), "series must be one of play"),
        (lambda study: study.differences("play", reference="x"), "reference must be one of random"),
        (lambda study: cb.load_study(study.path / "parts"), "holds no study: there is no study.json"),
    ],
)
def test_wrong_questions_are_answered_in_words(study, call, says):
    with pytest.raises(ValueError, match=says):
        call(study)


def test_a_finished_study_runs_nothing_again(own):
    to = own.with_suffix("")
    cb.run_study(own, to, backend="sequential")
    assert sorted(noted(own)) == [0, 1, 2, 3]
    first = results(to)
    steps = []
    cb.run_study(own, to, backend="sequential", progress=steps.append)
    assert steps == []
    assert sorted(noted(own)) == [0, 1, 2, 3]
    assert results(to).equals(first)


def test_a_run_counts_as_finished_only_when_it_is_on_the_disk(own):
    to = own.with_suffix("")
    seen = []
    cb.run_study(own, to, backend="sequential", progress=lambda words: seen.append(len(finished(to))))
    assert len(seen) == 4
    assert all(count > position for position, count in enumerate(seen))


@pytest.mark.parametrize(("last", "says"), [(1, "1 is finished in"), (2, "2 are finished in")])
def test_an_interruption_keeps_what_is_finished(own, monkeypatch, last, says):
    to, original = own.with_suffix(""), cb.simulate

    def stopping(policy, world, horizon, seed, **options):
        if seed == last:
            raise KeyboardInterrupt
        return original(policy, world, horizon, seed, **options)

    monkeypatch.setattr(runs_module, "simulate", stopping)
    with pytest.raises(KeyboardInterrupt):
        cb.run_study(own, to, backend="sequential")
    assert finished(to) == set(range(last))
    assert cb.load_study(to).n_missing == 4 - last
    monkeypatch.undo()
    assert says in CliRunner().invoke(app, ["study", "check", str(own)]).output
    cb.run_study(own, to, backend="sequential")
    assert sorted(noted(own)) == [0, 1, 2, 3]
    assert finished(to) == {0, 1, 2, 3}


def test_a_run_that_fails_disturbs_no_other_and_is_made_when_it_is_mended(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "path", [*sys.path])
    (tmp_path / "faulty.py").write_text(
        "import conebandit as cb\n"
        "class Faulty(cb.RandomArm):\n"
        "    def run_chunk(self, contexts, outcomes, keys):\n"
        "        if self.seed == 1 and broken: raise ZeroDivisionError('by zero')\n"
        "        return super().run_chunk(contexts, outcomes, keys)\n"
        "broken = True\n"
    )
    (tmp_path / "s.toml").write_text(
        'policies = ["faulty:Faulty"]\nenvironments = [{ name = "paper", change_point = 10 }]\nhorizon = 50\nseeds = 3'
    )
    with pytest.raises(RuntimeError, match=r"1 of 3 runs have failed.*with seed 1: ZeroDivisionError: by zero"):
        cb.run_study(tmp_path / "s.toml", tmp_path / "out", backend="sequential")
    assert finished(tmp_path / "out") == {0, 2}
    done = CliRunner().invoke(
        app, ["study", "run", str(tmp_path / "s.toml"), "--to", str(tmp_path / "out"), "--backend", "sequential"]
    )
    assert done.exit_code == 1
    assert "ZeroDivisionError" in done.output
    monkeypatch.setattr(sys.modules["faulty"], "broken", False)
    assert cb.run_study(tmp_path / "s.toml", tmp_path / "out", backend="sequential").n_missing == 0
    sys.modules.pop("faulty")


FAULTY = """
import conebandit as cb


class Faulty(cb.RandomArm):
    def run_chunk(self, contexts, outcomes, keys):
        if self.seed not in {good}:
            raise ZeroDivisionError(f"by zero {{self.seed}}")
        return super().run_chunk(contexts, outcomes, keys)
"""


def faulty_study(folder, *, good, seeds):
    """A study with a policy that fails but for some seeds, in one of its two environments beside one that works."""
    name = f"faulty_{folder.name}".replace("-", "_")
    (folder / f"{name}.py").write_text(FAULTY.format(good=good))
    (folder / "s.toml").write_text(
        f'policies = ["{name}:Faulty", "random"]\nhorizon = 50\nseeds = {seeds}\n'
        'environments = [{ name = "paper", n_arms = 3, change_point = 10, grid = { nu = [1, 2] } }]\n'
    )
    return folder / "s.toml", f"{name}:Faulty"


@pytest.mark.parametrize("options", [{"backend": "sequential"}, {"jobs": 2}])
def test_a_policy_that_always_fails_is_given_up_and_all_other_runs_are_made(tmp_path, monkeypatch, options):
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(failures_module, "MAX_IN_A_ROW", 4)
    file, policy = faulty_study(tmp_path, good=[], seeds=60)
    with pytest.raises(RuntimeError) as raised:
        cb.run_study(file, tmp_path / "out", **options)
    frame = cb.load_study(tmp_path / "out").to_frame()
    assert frame["policy"].value_counts().rows() == [("random", 120)]
    first, *told, last = str(raised.value).split("\n")
    numbers = re.fullmatch(r"(\d+) of 240 runs have failed, and (\d+) were not tried; all that .*", first)
    assert sum(map(int, numbers.groups())) == 120
    assert 8 <= int(numbers[1]) <= 60, "more than those that were under way have been tried"
    assert len(told) == 2
    for text, nu in zip(told, (1, 2), strict=True):
        assert text.startswith(
            f"Policy {policy} in environment paper(n_arms=3, change_point=10, nu={nu}) with seed 0 ("
        )
        assert "have failed, this one first): ZeroDivisionError: by zero 0. After 4 in a row the other" in text
    assert last == "Start the study again when this is mended: only what is missing is run."


def test_a_policy_that_fails_now_and_then_is_not_given_up(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(failures_module, "MAX_IN_A_ROW", 4)
    good = list(range(0, 60, 4))
    file, policy = faulty_study(tmp_path, good=good, seeds=60)
    with pytest.raises(RuntimeError, match=r"90 of 240 runs have failed; all that finished are kept") as raised:
        cb.run_study(file, tmp_path / "out", backend="sequential")
    assert "not tried" not in str(raised.value)
    frame = cb.load_study(tmp_path / "out").to_frame()
    assert sorted(frame.filter(pl.col("policy") == policy)["seed"]) == sorted(2 * good)


def test_of_very_many_policies_that_fail_some_are_named(monkeypatch):
    monkeypatch.setattr(failures_module, "MAX_TOLD", 2)
    plan = read_plan(STUDY | {"horizon": 100, "seeds": 2})
    jobs = [plan.job(run) for run in range(len(plan))]
    failures = failures_module.Failures(jobs)
    for job in reversed(jobs):
        failures.failed(failures_module.Failure(job, "oh."))
    assert len(failures) == 12
    told = failures.in_words()
    assert told[0].startswith("Policy random in environment paper(")
    assert told[0].endswith("with seed 0 (2 have failed, this one first): oh.")
    assert told[2:] == ["4 more policies in environments have failed."]


def test_a_disk_that_is_full_ends_a_study_and_is_named(own, monkeypatch):
    def full(self, rows):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Parts, "append", full)
    with pytest.raises(OSError, match="No space left on device"):
        cb.run_study(own, own.with_suffix(""), backend="sequential")


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"seeds": [4, 1, 0]}, r"seeds: \[4, 1, 0\], and before \[4, 1\]"),
        ({"policies": ["random"]}, "policies: 'ParetoUCB1.width=0.1.' is not in it any more"),
        ({"horizon": 160}, r"horizon: \[160\], and before \[150\]"),
        ({"points": 8}, "points: 8, and before 7"),
    ],
)
def test_another_study_in_the_same_folder_is_refused(study, change, says):
    before = study.to_frame()
    with pytest.raises(ValueError, match=f"another study than this one: .*{says}.*give another folder"):
        cb.run_study(STUDY | change, study.path, backend="sequential")
    assert study.to_frame().equals(before)


TURNED = {
    "points": 7,
    "policies": ["random", {"grid": {"width": [0.1, 0.3]}, "name": "ParetoUCB1"}],
    "environments": [
        {"grid": {"sigma": [0.1, 0.2], "nu": [1.0, 3.0]}, "change_point": 40, "n_arms": 3, "name": "paper"},
        {"name": "paper", "cone": {"wedge": 60}, "grid": {"change_point": [30], "n_arms": [3]}, "label": "narrow"},
    ],
    "seeds": [4, 1],
    "horizon": 150,
}


def test_the_order_of_entries_is_no_change_and_labels_stay(tmp_path):
    straight = STUDY | {
        "environments": [
            {"name": "paper", "n_arms": 3, "change_point": 40, "grid": {"nu": [1.0, 3.0], "sigma": [0.1, 0.2]}},
            {"name": "paper", "label": "narrow", "cone": {"wedge": 60}, "grid": {"n_arms": [3], "change_point": [30]}},
        ]
    }
    whole = cb.run_study(straight, tmp_path / "whole", backend="sequential")
    cut = cb.run_study(straight, tmp_path / "cut", backend="sequential")
    for part in (cut.path / "parts").glob("*.parquet"):
        pl.read_parquet(part).filter(pl.col("run") < 20).write_parquet(part)
    kept = (cut.path / "study.json").read_text()
    assert cb.load_study(cut.path).n_missing == 10
    told = estimate(read_plan(TURNED), cut.path)
    assert told[1].startswith("20 are finished in"), told
    assert "without a run" not in told[1], "runs are found by their labels"
    found = cb.run_study(TURNED, cut.path, backend="sequential")
    assert found.environments == whole.environments
    assert (cut.path / "study.json").read_text() == kept
    assert found.to_frame(curves=True).drop("seconds").equals(whole.to_frame(curves=True).drop("seconds"))


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"policies": TURNED["policies"][::-1]}, "policies: they are in another order"),
        ({"environments": TURNED["environments"][::-1]}, "environments: they are in another order"),
        ({"environments": TURNED["environments"][:1]}, "environments: 'narrow.* is not in it any more"),
        ({"seeds": [1, 4]}, "seeds: .1, 4., and before .4, 1."),
    ],
)
def test_the_order_of_a_list_is_a_change(tmp_path, change, says):
    cb.run_study(TURNED | {"horizon": 50}, tmp_path, backend="sequential")
    with pytest.raises(ValueError, match=says):
        cb.run_study(TURNED | {"horizon": 50} | change, tmp_path, backend="sequential")


def test_a_study_with_two_entries_that_differ_in_their_order_alone_goes_on(tmp_path):
    one, other = {"name": "paper", "n_arms": 3, "nu": 1.0}, {"nu": 1.0, "n_arms": 3, "name": "paper"}
    twice = {"policies": ["random"], "environments": [one, other], "horizon": 5010, "seeds": 1}
    cb.run_study(twice, tmp_path, backend="sequential")
    assert cb.run_study(twice, tmp_path, backend="sequential").n_missing == 0
    with pytest.raises(ValueError, match=r"environments: 'paper\(nu=1.0, n_arms=3\)' is not in it any more"):
        cb.run_study(twice | {"environments": [one]}, tmp_path, backend="sequential")


def test_a_study_may_hold_what_stands_for_numbers_lists_and_texts(tmp_path):
    rows = "\n".join(f"{i},{'ab'[i % 2]},{i % 7}" for i in range(40))
    (tmp_path / "t.csv").write_text(f"age,arm,relief\n{rows}\n")
    table = {"name": "from_table", "contexts": ["age"], "arms": "arm", "outcomes": ["relief"]}
    plain = {
        "policies": ["random", {"name": "ParetoUCB1", "width": 0.5}],
        "environments": [{**table, "path": str(tmp_path / "t.csv")}],
        "horizon": 50,
        "seeds": [0, 1],
    }
    same = {
        "policies": ("random", {"name": "ParetoUCB1", "width": np.float64(0.5)}),
        "environments": ({**table, "path": tmp_path / "t.csv"},),
        "horizon": np.int64(50),
        "seeds": range(2),
    }
    first = cb.run_study(plain, tmp_path / "out", backend="sequential")
    again = cb.run_study(same, tmp_path / "out", backend="sequential", progress=lambda _: pytest.fail("made again"))
    assert again.n_missing == 0
    assert cb.run_study(same, tmp_path / "other", backend="sequential").digest == first.digest
    with pytest.raises(ValueError, match=r"policies\[1\]\.width is \{0\.5\}, a set\."):
        cb.run_study(plain | {"policies": ["random", {"name": "ParetoUCB1", "width": {0.5}}]}, tmp_path / "odd")


def test_a_table_that_has_changed_is_refused(tmp_path):
    rows = "\n".join(f"{i},{'ab'[i % 2]},{i % 7}" for i in range(40))
    (tmp_path / "t.csv").write_text(f"age,arm,relief\n{rows}\n")
    (tmp_path / "s.toml").write_text(
        'policies = ["random"]\nhorizon = 50\nseeds = 2\nenvironments = [{ name = "from_table", path = "t.csv", '
        'contexts = ["age"], arms = "arm", outcomes = ["relief"] }]'
    )
    cb.run_study(tmp_path / "s.toml", tmp_path / "out", backend="sequential")
    (tmp_path / "t.csv").write_text(f"age,arm,relief\n{rows}\n41,a,3\n")
    with pytest.raises(ValueError, match=r"data: 't.csv' is another one than before"):
        cb.run_study(tmp_path / "s.toml", tmp_path / "out", backend="sequential")


EDITING = """
from pathlib import Path
import conebandit as cb
from conebandit.studies import worlds

def policy(n_arms, cone, context_dim, *, seed=0, bounds=None):
    file = Path(__file__).with_name("t.csv")
    if seed == 2 and {edits}:
        file.write_text(file.read_text().replace(",0\\n", ",5\\n"))
        if {forgets}:
            worlds._kept_table.cache_clear()  # as a worker that begins now
    return cb.RandomArm(n_arms, cone, context_dim, seed=seed, bounds=bounds)
"""


def test_a_table_that_is_edited_while_a_study_runs_is_not_mixed_in(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "path", [*sys.path])
    found = {}
    for case, (edits, forgets) in {"calm": (0, 0), "kept": (1, 0), "lost": (1, 1)}.items():
        folder = tmp_path / case
        folder.mkdir()
        rows = "\n".join(f"{i},{'ab'[i % 2]},{i % 7}" for i in range(40))
        (folder / "t.csv").write_text(f"age,arm,relief\n{rows}\n")
        name = f"editing_{case}_{tmp_path.name}".replace("-", "_")
        (folder / f"{name}.py").write_text(EDITING.format(edits=edits, forgets=forgets))
        (folder / "s.toml").write_text(
            f'policies = ["{name}:policy"]\nhorizon = 50\nseeds = 5\nenvironments = [{{ name = "from_table", path = '
            '"t.csv", contexts = ["age"], arms = "arm", outcomes = ["relief"] }]\n'
        )
        if forgets:
            with pytest.raises(RuntimeError, match=r"2 of 5 runs.*t\.csv was changed while the study was run"):
                cb.run_study(folder / "s.toml", folder / "out", backend="sequential")
        else:
            cb.run_study(folder / "s.toml", folder / "out", backend="sequential")
        found[case] = cb.load_study(folder / "out").to_frame().select("seed", "play")
    assert found["kept"].equals(found["calm"])
    assert found["lost"].equals(found["calm"].head(3))


@pytest.mark.parametrize("about", ['{"format": 1}', '{"format": 1, "given": {}, "folder": 3}'])
def test_a_damaged_record_is_told(tmp_path, about):
    (tmp_path / "study.json").write_text(about)
    for call in (lambda: cb.load_study(tmp_path), lambda: cb.run_study(STUDY, tmp_path, backend="sequential")):
        with pytest.raises(ValueError, match=r"study\.json is damaged: its entry '(given|folder)' is missing or wrong"):
            call()


def test_a_folder_that_holds_something_else_is_refused(tmp_path):
    (tmp_path / "letter.txt").write_text("dear")
    with pytest.raises(ValueError, match=r"is not empty, and holds no study. Give another folder"):
        cb.run_study(STUDY, tmp_path, backend="sequential")
    with pytest.raises(ValueError, match="cannot be written"):
        cb.run_study(STUDY, tmp_path / "letter.txt", backend="sequential")


def test_a_second_process_is_refused_and_told_who_is_there(study):
    with (
        Folder(study.path, runs_module.STUDY).locked(),
        pytest.raises(ValueError, match=f"is being run by process {os.getpid()} on .*Wait for it, or stop it"),
    ):
        cb.run_study(STUDY, study.path, backend="sequential")
    cb.run_study(STUDY, study.path, backend="sequential")


def test_other_versions_and_changed_modules_are_told(own, monkeypatch):
    to = own.with_suffix("")
    cb.run_study(own, to, backend="sequential")
    other = {**folder_module.versions(), "numpy": "1.0.0"}
    about = json.loads((to / "study.json").read_text())
    (to / "study.json").write_text(json.dumps(about | {"versions": other}))
    with pytest.warns(UserWarning, match=r"was begun with conebandit .*numpy 1\.0\.0.*and goes on with"):
        cb.run_study(own, to, backend="sequential")
    (to / "study.json").write_text(json.dumps(about))
    module = own.with_name("noting.py")
    module.write_text(module.read_text() + "# changed\n")
    done = CliRunner().invoke(app, ["study", "run", str(own), "--backend", "sequential"])
    assert done.exit_code == 0, done.output
    assert "Caution: the file of the module noting has changed" in done.output


def test_workers_with_other_versions_are_told(own, monkeypatch):
    answers = itertools.cycle(["conebandit 0.0", "conebandit 1.0"])  # of a worker, then of this process, run by run
    monkeypatch.setattr(runs_module, "made_with", lambda _: next(answers))
    with pytest.warns(UserWarning, match="a worker has other versions than this process"):
        study = cb.run_study(own, own.with_suffix(""), backend="sequential")
    assert set(study.to_frame()["versions"]) == {"conebandit 0.0"}


def test_the_record_is_of_the_file(own):
    import hashlib  # noqa: PLC0415

    study = cb.run_study(own, own.with_suffix(""), backend="sequential")
    assert study.digest == hashlib.sha256(own.read_bytes()).hexdigest()
    assert set(study.versions) == {"conebandit", "numpy", "numba", "python"}


def test_the_commands_run_check_and_refuse(own):
    runner, to = CliRunner(), own.with_suffix("")
    checked = runner.invoke(app, ["study", "check", str(own)])
    assert "1 policies x 1 environments x 4 seeds: 4 runs, 400 rounds." in checked.output
    assert not to.exists()
    done = runner.invoke(app, ["study", "run", str(own), "--backend", "sequential"])
    assert done.exit_code == 0, done.output
    assert "All 4 runs are in" in done.output
    checked = runner.invoke(app, ["study", "check", str(own)])
    assert "4 are finished" in checked.output
    own.write_text(own.read_text().replace("horizon = 100", "horizon = 110"))
    for command in ("run", "check"):
        refused = runner.invoke(app, ["study", command, str(own)])
        assert refused.exit_code == 2
        assert "horizon: [110], and before [100]" in " ".join(refused.output.replace("│", " ").split())
    wrong = runner.invoke(app, ["study", "run", str(own), "--backend", "slurm"])
    said = " ".join(wrong.output.replace("│", " ").split())
    assert "backend must be one of loky, threads, dask, ray, sequential; got 'slurm'" in said


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"address": "tcp://here:8786"}, "address is for clusters: backend must be dask or ray"),
        ({"jobs": -7}, "jobs must be a number of processes, or 0"),
        ({"backend": "sequential", "jobs": -1}, "backend sequential makes one run after the other: jobs must be 1"),
        ({"backend": "sequential", "jobs": 4}, "backend sequential makes one run after the other: jobs must be 1"),
        ({"backend": "dask", "jobs": 2, "address": "x"}, "a cluster at an address is used as it is"),
    ],
)
def test_wrong_workers_are_refused(options, says):
    with pytest.raises(ValueError, match=says):
        Workers(**options)


def test_one_run_after_the_other_needs_one_worker():
    assert [Workers("sequential").number, Workers("sequential", jobs=1).number] == [1, 1]
    assert Workers("threads", jobs=-1).number == Workers("threads").number >= 1


def test_what_a_function_raises_ends_the_pool():
    with pytest.raises(ZeroDivisionError):
        list(as_finished(lambda n: 1 // n, [1, 0], Workers("sequential")))


@POSIX
def test_a_study_that_is_killed_goes_on_as_if_nothing_had_been(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "path", [*sys.path])
    found = kill_again_and_again(tmp_path, kills=2, seeds=60, options=("--jobs", "2"), seed=2)
    assert found.kills >= 1
    assert (found.runs, found.lost, found.again, found.agrees) == (60, 0, 0, True)


def test_every_number_of_processes_gives_the_same_also_where_threads_of_blas_matter(tmp_path):
    """Fits of a wide table differ in their last bits by how many threads there are."""
    rng = np.random.default_rng(0)
    x, arm = rng.random((3000, 12)), rng.integers(3, size=3000)
    table = np.column_stack([x, arm, x @ rng.random(12) + arm, rng.random(3000)])
    names = [f"x{i}" for i in range(12)]
    np.savetxt(tmp_path / "t.csv", table, delimiter=",", header=",".join([*names, "arm", "a", "b"]), comments="")
    contexts = ", ".join(f'"{name}"' for name in names)
    (tmp_path / "s.toml").write_text(
        'policies = ["random", "LinearParetoUCB"]\nhorizon = 60\nseeds = 2\nenvironments = [{ name = "from_table", '
        f'path = "t.csv", contexts = [{contexts}], arms = "arm", outcomes = ["a", "b"] }}]'
    )
    frames = []
    for jobs in (1, 2):
        study = cb.run_study(tmp_path / "s.toml", tmp_path / str(jobs), jobs=jobs)
        frames.append(study.to_frame(curves=True).drop(VARYING))
    assert frames[0].equals(frames[1])


def killing_once(given):
    """Kills its process the first time that it gets to the third call."""
    number, mark = given
    if number == 2 and not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return number * number


def killing(given):
    os.kill(os.getpid(), signal.SIGKILL)


@POSIX
def test_calls_of_a_process_that_dies_are_made_again(tmp_path):
    given = [(number, tmp_path / "mark") for number in range(6)]
    found = list(as_finished(killing_once, given, Workers(jobs=2)))
    assert sorted(found) == [(number, number * number) for number in range(6)]


@POSIX
def test_calls_that_kill_every_process_end_it(monkeypatch):
    monkeypatch.setattr(pool_module, "MAX_LOSSES", 1)
    with pytest.raises(RuntimeError, match="workers have died 2 times without finishing a run"):
        list(as_finished(killing, [0], Workers(jobs=1)))


def killing_some(given):
    """Kills its process if the number is 5 or 11."""
    if given in (5, 11):
        os.kill(os.getpid(), signal.SIGKILL)
    return given * given


@POSIX
def test_a_call_that_kills_its_process_does_not_keep_others_from_being_made():
    found = dict(as_finished(killing_some, range(16), Workers(jobs=2), given_up=lambda given: -given))
    assert found == {number: -number if number in (5, 11) else number * number for number in range(16)}


class Lost(Exception):  # noqa: N818
    """A worker has died."""


@contextmanager
def losing(workers):
    """Four calls are under way at once, and a worker dies of the negative ones."""

    def run(calls):
        while some := list(itertools.islice(calls, 4)):
            if any(args[2] < 0 for _, args, _ in some):
                raise Lost
            yield from (function(*args) for function, args, _ in some)

    yield run, (Lost,)


def test_each_of_many_calls_that_kill_is_found(monkeypatch):
    monkeypatch.setitem(pool_module._OPEN, "sequential", losing)
    given = [-number for number in range(1, 400)]
    found = dict(as_finished(abs, given, Workers("sequential"), given_up=lambda number: f"killed by {number}"))
    assert found == {n: f"killed by {number}" for n, number in enumerate(given)}


def test_calls_that_kill_come_after_all_others(monkeypatch):
    monkeypatch.setitem(pool_module._OPEN, "sequential", losing)
    given = [-number if number in (17, 40) else number for number in range(100)]
    found = list(as_finished(abs, given, Workers("sequential"), given_up=lambda _: None))
    assert sorted(n for n, _ in found) == list(range(100))
    assert sorted(n for n, result in found[-2:]) == [17, 40]
    assert [result for _, result in found[-2:]] == [None, None]


@POSIX
def test_a_call_that_is_given_up_ends_it_where_nobody_takes_that():
    # The call that kills has three tries; whether the other one is finished before or after the first is chance.
    with pytest.raises(RuntimeError, match=r"workers have died [23] times without finishing a run"):
        list(as_finished(killing_some, [1, 5], Workers(jobs=2)))


def test_a_call_that_kills_ends_it_at_its_third_try(monkeypatch):
    monkeypatch.setitem(pool_module._OPEN, "sequential", losing)
    with pytest.raises(RuntimeError, match="workers have died 3 times without finishing a run"):
        list(as_finished(abs, [-5], Workers("sequential")))


@POSIX
@pytest.mark.parametrize(
    ("does", "says"),
    [
        ("os._exit(9)", "it has killed its process again and again"),
        ("raise SystemExit(3)", "SystemExit: 3"),
        ("raise KeyboardInterrupt", "KeyboardInterrupt: "),
        ("raise BaseException('odd')", "BaseException: odd"),
    ],
)
def test_a_run_that_ends_its_process_is_named_and_all_others_are_kept(tmp_path, monkeypatch, does, says):
    monkeypatch.setattr(sys, "path", [*sys.path])
    name = f"ending_{tmp_path.name}".replace("-", "_")
    (tmp_path / f"{name}.py").write_text(
        "import os\nimport conebandit as cb\n\n\ndef world(seed):\n"
        f"    if seed == 3:\n        {does}\n    return cb.environments.paper(n_arms=3, change_point=20)\n"
    )
    table = f'policies = ["random"]\nenvironments = ["{name}:world"]\nhorizon = 40\nseeds = 9\n'
    (tmp_path / "s.toml").write_text(table)
    with pytest.raises(RuntimeError, match=f"1 of 9 runs have failed.*with seed 3: .*{says}"):
        cb.run_study(tmp_path / "s.toml", tmp_path / "results", jobs=2)
    assert sorted(cb.load_study(tmp_path / "results").to_frame()["seed"].to_list()) == [0, 1, 2, 4, 5, 6, 7, 8]


def test_a_call_that_is_answered_twice_counts_once(monkeypatch):
    """As Ray has done after it had lost a worker."""

    @contextmanager
    def stammering(workers):
        yield (lambda calls: [answer for f, args, _ in calls for answer in [f(*args)] * 2]), ()

    monkeypatch.setitem(pool_module._OPEN, "sequential", stammering)
    assert sorted(as_finished(abs, [-1, 2], Workers("sequential"))) == [(0, 1), (1, 2)]
