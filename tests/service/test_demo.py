"""The demonstration: what its patients are, that a trial runs to its end, and that nothing is left behind."""

import os
import re
import signal
import tempfile
import webbrowser
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from conebandit.cli import app
from conebandit.experiment.declaration import Experiment
from conebandit.service.demo import show as demonstration
from conebandit.service.demo.narrator import OLD, YOUNG, Narrator
from conebandit.service.demo.trial import DAYS, Trial, running
from conebandit.service.demo.world import DECLARATION, DOSES, EXPERIMENT, SHIFT_AT, World


def test_the_population_gets_older_and_high_doses_worse_for_it():
    world = World(seed=1)
    ages = [np.mean([world.patient(number)["age"] for _ in range(300)]) for number in (0, SHIFT_AT)]
    assert ages[0] < 45
    assert ages[1] > 60
    experiment = Experiment.from_dict(DECLARATION)
    best = {}
    for who, patient in (("young", YOUNG), ("old", OLD)):
        rewards = np.array([[World.response(patient, d), 1 - World.toxicity(patient, d)] for d in DOSES])
        leads = np.einsum("fm,abm->abf", experiment.cone.facets, rewards[:, None] - rewards[None])
        beaten = (leads >= 0).all(axis=2) & (leads > 0).any(axis=2)
        best[who] = {dose for b, dose in enumerate(DOSES) if not beaten[:, b].any()}
    assert max(best["old"]) < max(best["young"])  # the front moves with the population


def test_a_trial_runs_to_its_end_in_the_time_of_its_patients():
    with running() as (_, client, clock):
        trial = Trial(client, clock, seed=0, patients=90)
        trial.begin()
        began, heard = clock(), []
        trial.run(2.0, heard.append)
        assert heard[-1] == trial.arrived == 90
        assert clock() - began > 0.9 * DAYS * 86_400_000
        before = clock()
        assert clock() - before < 60_000  # it is a clock like others again
        learned = client.explain(EXPERIMENT, YOUNG)["learned"]
        assert learned["toxicity"] == 90
        assert 0 < learned["response"] <= 90  # some came after their window: months pass in a second
        assert [arm for arm in Narrator(client).front(OLD) if arm not in [a["name"] for a in DECLARATION["arms"]]] == []


def test_the_command_says_where_to_look_and_leaves_nothing_behind(monkeypatch, tmp_path):
    opened = []
    monkeypatch.setattr(webbrowser, "open", lambda page: opened.append(page) or True)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    done = CliRunner().invoke(app, ["demo", "--seconds", "5", "--stay", "0"])
    assert done.exit_code == 0, done.output
    page = re.search(r"The dashboard: (\S+)", done.output)[1]
    assert opened == [page]
    assert page.endswith(f"/dashboard/experiments/{EXPERIMENT}")
    assert "Front for a patient" in done.output
    assert "its database is gone" in done.output
    assert list(Path(tmp_path).iterdir()) == []


def test_it_can_be_stopped(monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(demonstration, "_run", interrupted)
    done = CliRunner().invoke(app, ["demo", "--seconds", "5", "--no-open"])
    assert done.exit_code == 0
    assert "Stopped." in done.output
    assert "Open it in a browser." in done.output


@pytest.mark.parametrize("ending", ["SIGTERM", "SIGHUP"])
def test_a_closed_terminal_leaves_nothing_behind(monkeypatch, tmp_path, ending):
    number = getattr(signal, ending)
    before = signal.signal(number, signal.SIG_IGN)  # else the tests would end here
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(Trial, "begin", lambda _: None)
    monkeypatch.setattr(Trial, "run", lambda *_: os.kill(os.getpid(), number))
    try:
        done = CliRunner().invoke(app, ["demo", "--seconds", "5", "--no-open", "--stay", "0"])
        assert signal.getsignal(number) is signal.SIG_IGN, "as it was before"
    finally:
        signal.signal(number, before)
    assert "Stopped." in done.output
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("seconds", ["0", "nan", "1e9"])
def test_times_that_make_no_sense_are_refused(seconds):
    assert CliRunner().invoke(app, ["demo", "--seconds", seconds]).exit_code == 2
