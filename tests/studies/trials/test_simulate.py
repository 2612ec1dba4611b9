"""Simulated trials on disk: resumed, refused where they would be mixed, the same on every backend, and reported."""

import csv
import json
import math

import numpy as np
import pytest
from typer.testing import CliRunner

from conebandit.cli import app
from conebandit.studies.parts import Parts
from conebandit.studies.trials import measures
from conebandit.studies.trials.declaration import TRIAL
from conebandit.studies.trials.report import TABLES, write_report
from conebandit.studies.trials.results import TrialResults, mean_and_error
from conebandit.studies.trials.simulate import simulate_trials

TABLE = {
    "designs": ["boin12", "efftox", {"name": "linear", "grid": {"explore": [0.0, 0.2]}}],
    "scenarios": ["umbrella", "all-toxic", {"label": "ours_1 & <two>", "toxicity": [0.1, 0.3], "efficacy": [0.2, 0.4]}],
    "sizes": [9, 18],
    "trials": 12,
    "fresh": 10,
    "rules": [{"metric": "toxicity", "above": 0.35, "error": 0.05, "then": "suspend"}],
}
FILE = """
designs = ["boin12", "mine:Timid"]
sizes = 9
trials = 6
scenarios = ["rising"]
"""
TIMID = """
import numpy as np
import conebandit as cb

class Timid:
    def __init__(self, n_arms, cone, context_dim):
        self.n_arms, self.n_objectives, self.context_dim, self.seen = n_arms, 2, context_dim, []
    def decide(self, context, key):
        return cb.Decision(0, 1.0, np.arange(self.n_arms) == 0)
    def observe(self, context, arm, reward):
        self.seen.append(reward)
    def front(self, context):
        return cb.Front((0,), np.mean(self.seen or [[0.5, 0.5]], axis=0)[None, :], np.full((1, 2), np.inf))
"""


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    return simulate_trials(TABLE, tmp_path_factory.mktemp("trial") / "found", backend="sequential")


@pytest.fixture
def own(tmp_path, monkeypatch):
    """A trial file with a policy of the user's own beside it."""
    import sys  # noqa: PLC0415

    monkeypatch.setattr(sys, "path", [*sys.path])
    (tmp_path / "mine.py").write_text(TIMID)
    (tmp_path / "timid.toml").write_text(FILE)
    yield tmp_path / "timid.toml"
    sys.modules.pop("mine", None)


def rows_in(path):
    return Parts(path / "parts").read().drop("seconds", "versions")


def test_averages_and_errors_are_those_of_the_rows(found):
    frame = found.rows()
    assert frame.height == 4 * 3 * 2 * 12
    for each in found.characteristics(list(measures.MEASURES)):
        mine = frame.filter(
            (frame["environment"] == f"{each.scenario}, n = {each.patients}") & (frame["policy"] == each.design)
        )
        values = [x for x in mine[each.measure].to_list() if not math.isnan(x)]
        assert len(values) == each.trials
        if len(values) > 1:
            assert each.mean == pytest.approx(np.mean(values))
            assert each.error == pytest.approx(np.std(values, ddof=1) / math.sqrt(len(values)))


def test_shares_of_doses_add_up(found):
    sums = {}
    for each in found.shares():
        key = (each.scenario, each.patients, each.design, each.what)
        sums[key] = sums.get(key, 0.0) + each.mean
    assert len(sums) == 3 * 2 * 4 * 2
    assert list(sums.values()) == pytest.approx([1.0] * len(sums))


def test_stops_are_right_or_false_by_scenario(found):
    applies = {(e.scenario, e.measure) for e in found.characteristics(["false_stop", "right_stop"]) if e.trials}
    assert ("umbrella", "false_stop") in applies
    assert ("all-toxic", "right_stop") in applies
    assert not {("umbrella", "right_stop"), ("all-toxic", "false_stop")} & applies


def test_two_processes_find_the_same(found, tmp_path):
    again = simulate_trials(TABLE, tmp_path / "again", jobs=2)
    assert rows_in(again.path).equals(rows_in(found.path))


def test_what_is_there_is_not_simulated_again(tmp_path, monkeypatch):
    whole = simulate_trials({**TABLE, "trials": 3}, tmp_path / "whole", backend="sequential")
    made, original = [], measures.measured

    def stopping(*given):
        made.append(1)
        if len(made) == 30:
            raise KeyboardInterrupt
        return original(*given)

    monkeypatch.setattr(measures, "measured", stopping)
    with pytest.raises(KeyboardInterrupt):
        simulate_trials({**TABLE, "trials": 3}, tmp_path / "part", backend="sequential")
    part = simulate_trials({**TABLE, "trials": 3}, tmp_path / "part", backend="sequential")
    assert len(made) == 72 + 1  # the one that was interrupted, twice
    assert rows_in(part.path).equals(rows_in(whole.path))


def test_other_trials_are_refused(found):
    with pytest.raises(ValueError, match="another trial than this one: limits: 'toxicity' is another one"):
        simulate_trials({**TABLE, "limits": {"toxicity": 0.3}}, found.path, backend="sequential")
    with pytest.raises(ValueError, match="holds no trial: there is no trial"):
        TrialResults(found.path.parent)


def test_the_report_has_what_a_board_asks_for(found, tmp_path):
    report = write_report(found, tmp_path / "report")
    page = report.page.read_text()
    assert "<script" not in page
    assert "ours_1 &amp; &lt;two&gt;" in page
    assert "explore_at: 9" in page  # settings that nobody has given
    assert "if toxicity is above 0.35 (each arm, error 0.05): not this arm" in page
    for shown in TABLES:
        for head, _ in shown.columns.values():
            assert head in page
    names = {path.name for path in report.tables}
    assert {"truth.csv", "recommendations.tex", "patients.md", "estimates.csv", "doses.md", "differences.tex"} <= names
    with (tmp_path / "report" / "patients.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 4 * 3 * 2 * 4
    toxic = next(r for r in rows if (r["scenario"], r["patients"], r["measure"]) == ("umbrella", "18", "toxic"))
    exact = next(e for e in found.characteristics(["toxic"]) if (e.scenario, e.patients) == ("umbrella", 18))
    assert (float(toxic["mean"]), float(toxic["error"])) == (exact.mean, exact.error)
    assert r"ours\_1 \& \textless{}two\textgreater{}" in (tmp_path / "report" / "truth.tex").read_text()
    with pytest.raises(ValueError, match="reference must be one of boin12"):
        write_report(found, tmp_path / "other", reference="bion12")


def test_one_trial_has_no_error(tmp_path):
    found = simulate_trials({**TABLE, "trials": 1}, tmp_path / "one", backend="sequential")
    write_report(found, tmp_path / "report")
    assert "(none)" in (tmp_path / "report" / "patients.md").read_text()
    assert "averages are over 1 trials only" in (tmp_path / "report" / "index.html").read_text()
    assert [math.isnan(x) for x in mean_and_error(np.array([]))] == [True, True]


def test_the_commands(own):
    runner, to = CliRunner(), own.with_suffix("")
    checked = runner.invoke(app, ["trial", "check", str(own)])
    assert "2 designs x 1 scenarios with a size x 6 trials: 12 trials in all, 108 patients." in checked.output
    assert not to.exists()
    run = runner.invoke(app, ["trial", "simulate", str(own), "--trials", "4", "--backend", "sequential"])
    assert run.exit_code == 0, run.output
    assert "index.html" in run.output
    assert json.loads((to / TRIAL.about).read_text())["given"]["trials"] == 4
    assert TrialResults(to).n_finished == 8
    refused = runner.invoke(app, ["trial", "simulate", str(own), "--backend", "sequential"])
    assert refused.exit_code == 2
    assert "trials: 6, and before 4" in " ".join(refused.output.split())
    report = runner.invoke(app, ["trial", "report", str(to), "--reference", "mine:Timid"])
    assert report.exit_code == 0, report.output
    assert "minus mine:Timid" in (to / "report" / "differences.md").read_text()


def test_the_commands_name_what_is_wrong(own):
    own.write_text(FILE.replace('"boin12"', '{ name = "boin12", cohort = 0 }'))
    run = CliRunner().invoke(app, ["trial", "simulate", str(own)])
    assert run.exit_code == 2
    assert "scenario rising: design boin12(cohort=0) cannot be made: cohort must be" in " ".join(
        run.output.replace("│", "").split()
    )
    assert not own.with_suffix("").exists()


def test_a_policy_that_fails_disturbs_no_other(own):
    (own.parent / "mine.py").write_text(TIMID.replace("self.seen.append(reward)", "raise RuntimeError('no more')"))
    run = CliRunner().invoke(app, ["trial", "simulate", str(own), "--backend", "sequential"])
    assert run.exit_code == 1
    assert "6 of 12 runs have failed" in run.output
    assert "no more" in run.output
    assert TrialResults(own.with_suffix("")).n_finished == 6
