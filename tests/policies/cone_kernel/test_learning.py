"""How well ``ConeKernel`` learns: relevant coordinates, ties, and sooner than baselines."""

import numpy as np

import conebandit as cb
from conebandit.kernels.cone_kernel.state import PLAY_TIE


def test_a_coordinate_that_does_not_matter_is_found_out():
    for seed in range(5):
        env = cb.environments.smooth(n_arms=4, context_dim=4, relevant=1, change_point=500, seed=200 + seed)
        run = cb.simulate(cb.ConeKernel(4, env.cone, 4), env, 4000, seed=seed)
        told = run.policy.explain([0.5] * 4)
        assert told.relevance[0] == 1.0
        assert told.relevance[1:].max() < 0.1, told.relevance
        np.testing.assert_allclose(told.noise, 0.3, rtol=0.1)


def test_learns_sooner_than_bins_and_chance():
    env = cb.environments.smooth(n_arms=6, context_dim=2, change_point=1000, seed=77)
    make = {"kernel": cb.ConeKernel, "bins": cb.BinnedParetoUCB, "random": cb.RandomArm}
    score = {}
    for name, policy in make.items():
        runs = [cb.simulate(policy(6, env.cone, 2), env, 5000, seed=seed) for seed in range(3)]
        score[name] = np.mean([r.average("play", after=1000) + 0.1 * r.average("coverage", after=1000) for r in runs])
    assert score["kernel"] < 0.7 * score["bins"] < 0.7 * score["random"]


def test_arms_that_merely_tie_are_not_reported():
    """Two metrics at a floor: arm 1 equals arm 0 in one and is clearly worse in the other."""
    means, wrong = np.array([[0.1, 0.9], [0.1, 0.5], [0.8, 0.1]]), []
    for seed in range(6):
        rng = np.random.default_rng(seed)
        policy = cb.ConeKernel(3, cb.Cone.orthant(2), 1, seed=seed)
        contexts = rng.random((6000, 1))
        outcomes = means + 0.1 * rng.standard_normal((6000, 3, 2))
        reported = policy.run_chunk(contexts, outcomes, np.arange(6000, dtype=np.uint64))[3]
        wrong.append(reported[2000:, 1].mean())
        assert reported[2000:, [0, 2]].mean() > 0.98
    assert np.mean(wrong) < 0.3, "the front of the estimates has the tied arm half of the time"


def test_arms_that_merely_tie_are_played_less():
    """Most arms of the paper's experiment are at its floor: on half of the perturbed fronts, with nothing to offer."""
    play, ties = [], []
    for seed in range(7):
        env = cb.environments.paper(10, 3.0, 1000, sigma=1.0)
        run = cb.simulate(cb.ConeKernel(10, env.cone, 1, seed=seed), env, 12_000, seed=500 + seed)
        play.append(run.average("play", after=6000))
        ties.append(run.policy.state()["levels"][PLAY_TIE])
    assert np.mean(np.array(ties) > 0) > 0.5, ties
    assert np.median(play) < 0.015, "about 0.03 if ties are played"


def test_ties_are_not_acted_on_where_there_are_none():
    for seed in range(3):
        env = cb.environments.smooth(n_arms=6, context_dim=2, change_point=1000, seed=300 + seed)
        policy = cb.simulate(cb.ConeKernel(6, env.cone, 2), env, 6000, seed=seed).policy
        assert policy.state()["levels"][PLAY_TIE] == 0
