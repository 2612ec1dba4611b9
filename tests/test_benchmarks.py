"""What benchmarks of policies count, on policies whose figures are known beforehand."""

import importlib
import json
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import norm

import conebandit as cb
from conebandit.policies.base import Front
from conebandit.policies.oracle import Oracle
from conebandit.studies.bench import Contender

BENCHMARKS = Path(__file__).parent.parent / "benchmarks"
KNOWING = Contender("oracle", "", lambda world, seed: Oracle(world, seed=seed))


@pytest.fixture(autouse=True)
def _benchmarks_can_be_imported(monkeypatch):
    monkeypatch.setattr(sys, "path", [str(BENCHMARKS), *sys.path])


def load(name):
    return importlib.import_module(name)


class Stubborn:
    """Plays and reports the first arm for ever."""

    n_objectives, context_dim = 2, 2

    def __init__(self, n_arms):
        self.n_arms = n_arms

    def decide(self, context, key):
        return cb.Decision(0, 1.0, np.eye(self.n_arms, dtype=bool)[0])

    def observe(self, context, arm, reward):
        pass

    def front(self, context):
        return Front((0,), np.ones((1, 2)), np.ones((1, 2)))


def test_who_knows_the_means_loses_nothing_in_any_trial():
    trials = load("trials")
    for scenario in trials.SCENARIOS:
        on_front, lost, toxic, uniform = trials.block(KNOWING, scenario, range(1000, 1003)).T
        assert (on_front == 1).all()
        assert (lost == 0).all()
        assert (toxic.mean() < uniform.mean()) or scenario == "interaction"


def test_trials_are_the_same_for_every_policy():
    trials = load("trials")
    one, two = (trials.Trial.drawn("umbrella", 1000) for _ in range(2))
    for name in ("patients", "outcomes", "fresh", "lots"):
        np.testing.assert_array_equal(getattr(one, name), getattr(two, name))
    assert set(np.unique(one.outcomes)) == {0.0, 1.0}


def test_recommended_dose():
    recommended, lots = load("trials").recommended, np.array([0.1, 0.3, 0.2])
    assert recommended(Front((0, 2), np.array([[0.5, 0.5], [0.9, 0.3]]), np.ones((2, 2))), lots) == 2
    assert recommended(Front((0, 2), np.array([[0.5, 0.5], [np.nan, 0.9]]), np.ones((2, 2))), lots) == 0
    assert recommended(Front((0, 1, 2), np.full((3, 2), np.nan), np.ones((3, 2))), lots) == 1
    assert recommended(Front((0, 2), np.full((2, 2), 0.5), np.ones((2, 2))), lots) == 2


def test_everything_but_the_arm_that_is_played_starves():
    starved = load("starved")
    kind = starved.Kind("30 arms", starved.arms_30, 1000, 1)
    found = starved.one(kind, Contender("stubborn", "", lambda world, seed: Stubborn(world.n_arms)), 1000)
    world = starved.arms_30(1000)
    run = cb.simulate(Stubborn(30), world, 1000, seed=1000)
    shares = cb.pareto_mask(world.means(run.contexts[500:]), world.cone).mean(axis=0)
    assert found["matter"] == (shares >= 0.1).sum()
    assert found["starved"] == (shares[1:] >= 0.1).sum() > 0
    assert starved.one(kind, Contender("random", "", lambda w, s: cb.RandomArm(30, w.cone, 2)), 1000)["starved"] == 0


def test_trials_on_policies_that_are_known(monkeypatch):
    real = load("real_trials")
    monkeypatch.setattr(real, "HORIZON", 600)
    world = cb.environments.warfarin(change_point=200)
    study = real.Study("warfarin", world)
    np.testing.assert_array_equal(real.simulated(study, KNOWING, 0), np.zeros((2, 2)))
    rng = np.random.default_rng(0)
    rows = world.contexts(rng, 2000, 0), rng.integers(7, size=2000), rng.integers(2, size=(2000, 2)).astype(float)
    names = {"context_names": (), "arm_names": tuple("abcdefg"), "outcome_names": ("u", "v")}
    trial = real.trials.Trial(*rows, groups=np.zeros(2000, dtype=int), ranges=((0.0, 1.0), (0.0, 1.0)), **names)
    lots = Contender("trial", "", lambda world, seed: real.Lots(world, trial.shares, seed))
    count, *means, mean = real.replayed(real.Study("invented", world, trial), lots, 0)
    assert abs(count - 2000 * min(trial.propensities)) < 100  # of about 270, six standard deviations
    assert mean == pytest.approx(np.mean(means))


def test_lots_report_the_front_of_averages():
    real = load("real_trials")
    lots = real.Lots(cb.environments.paper(n_arms=3), np.array([0.2, 0.3, 0.5]), 0)
    arms = [lots.decide([0.5], key).arm for key in range(5000)]
    np.testing.assert_allclose(np.bincount(arms) / 5000, [0.2, 0.3, 0.5], atol=0.036)  # five standard errors
    for arm, reward in enumerate(([1.0, 0.0], [0.0, 1.0], [0.0, 0.5])):
        lots.observe([0.5], arm, reward)
    assert lots.front([0.5]).arms == (0, 1)


def test_covered():
    calibration = load("calibration")
    means = np.array([[[0.5, 0.5], [0.2, 0.8], [np.nan, 0.3]]])
    radii = np.array([[[0.1, 0.1], [0.1, 0.1], [np.inf, 0.1]]])
    reported = np.array([[True, False, True]])
    truth = np.array([[[0.55, 0.45], [0.2, 0.5], [0.9, 0.35]]])
    estimates = calibration.Estimates(means, reported, radii, radii)
    shares = calibration.covered(estimates, truth, np.array([True, False, False]))
    factor = (3 * 0.05**2 + 0.3**2) / 5 / (0.1 / norm.ppf(0.975)) ** 2
    np.testing.assert_allclose(shares, [4 / 5, 1.0, 2 / 3, 1.0, 0.1, factor])
    narrow = calibration.Estimates(means, reported, radii, radii / 4)
    assert calibration.covered(narrow, truth, np.array([True, True, True]))[3] == 0.0


def test_radii_of_a_front_are_scaled_to_the_level():
    calibration = load("calibration")
    policy = cb.LinearParetoUCB(2, cb.Cone.orthant(2), 1)
    rng = np.random.default_rng(0)
    for x in rng.random(100):
        policy.observe([x], int(x > 0.5), rng.random(2))
    contexts = rng.random((5, 1))
    estimates = calibration.Estimates.of(policy, contexts)
    for row, front in enumerate(policy.fronts(contexts)):
        np.testing.assert_allclose(estimates.pointwise[row, list(front.arms)], front.radii * 1.959964 / 2, rtol=1e-6)
    assert (estimates.simultaneous >= estimates.pointwise).all()


def test_behind_is_measured_within_runs():
    contest = load("contest")
    runs = np.arange(4.0)
    values = {"a": runs + 1, "b": runs, "c": runs + 5}
    assert contest.behind("a", values) == (1.0, 0.0)
    assert contest.behind("b", values) == (-1.0, 0.0)
    assert contest.behind("a", values, -1) == (4.0, 0.0)
    assert contest.behind("a", {"a": runs}) == (0.0, 0.0)


def test_seeds_and_policies_that_are_asked_for():
    contest = load("contest")
    asked = contest.options("x", "", ["default"], arguments=[])
    assert asked.full
    assert asked.seeds(20) == range(20)
    some = contest.options("x", "", ["default"], arguments=["--development", "--runs", "5", "--policies", "linear"])
    assert not some.full
    assert some.seeds(20) == range(1000, 1005)
    assert [c.name for c in some.contenders] == ["linear"]
    for wrong in (["--policies", "best"], ["--runs", "0"]):
        with pytest.raises(SystemExit):
            contest.options("x", "", ["default"], arguments=wrong)


@pytest.mark.parametrize("n_arms", [6, 8])
def test_nearly_tied_doses(n_arms):
    worlds = load("worlds")
    world = worlds.near_ties(n_arms, worlds.Bernoulli(), 100, 1000)
    cb.check_environment(world)
    means = world.means(world.contexts(np.random.default_rng(0), 500, 1000))
    assert (np.diff(means[:, :3, 0], axis=1) > 0.02).all()
    assert (np.diff(means[:, :2, 1], axis=1) < 0).all()
    assert np.abs(np.diff(means[:, :2, 1], axis=1)).max() < 0.01


def test_worlds_are_environments():
    worlds, trials = load("worlds"), load("trials")
    made = [
        worlds.bumps(5, 100, 1000),
        worlds.logistic(100, 1000),
        *(trials.trial_world(s, 0) for s in trials.SCENARIOS),
    ]
    for world in made:
        cb.check_environment(world)


def test_constants_are_turned_and_compared():
    constants = load("constants")
    assert constants.turned("FIRST_FIT", 2, 0.5) == 1
    assert constants.turned("SENTINEL_ORDER", 1, 0.5) == 1
    assert constants.turned("FAR_SHARE", 0.15, 2.0) == 0.3
    assert constants.turned("REFIT_GROWTH", 1.25, 0.5) == 1.125
    assert constants.is_compiled("FAR_SHARE")
    assert not constants.is_compiled("NOISE_WEIGHT")  # a plain function reads it
    now = [{"score": 1.0, "arms": "a"}, {"score": 4.0, "arms": "b"}]
    other = [{"score": 2.0, "arms": "a"}, {"score": 4.0, "arms": "c"}]
    assert constants.effect(now, now) == (1.0, 0.0, 1.0)
    ratio, noise, same = constants.effect(now, other)
    assert (ratio, same) == (pytest.approx(2.0**0.5), 0.5)
    assert noise == pytest.approx(np.log(2.0) / 2)


def test_rows_of_constants_are_kept_while_they_hold(tmp_path):
    constants, file = load("constants"), tmp_path / "constants.json"
    assert constants.kept_rows(file, "now", {"FAR_SHARE": 0.15}) == []
    rows = [
        {"constant": "FAR_SHARE", "value": 0.15, "basis": "now"},
        {"constant": "FIRST_FIT", "value": 2, "basis": "before"},
        {"constant": "NOISE_WEIGHT", "value": 5.0, "basis": "now"},
        {"constant": "GONE", "value": 1.0, "basis": "now"},
    ]
    file.write_text(json.dumps({"rows": rows}))
    values = {"FAR_SHARE": 0.15, "FIRST_FIT": 2, "NOISE_WEIGHT": 10.0}
    assert constants.kept_rows(file, "now", values) == rows[:1]
