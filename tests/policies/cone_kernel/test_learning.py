"""How well ``ConeKernel`` learns: relevant coordinates, noise, what arms share, and sooner than baselines."""

import numpy as np

import conebandit as cb
from conebandit.kernels.cone_kernel.state import SPREAD


def test_a_coordinate_that_does_not_matter_is_found_out():
    for seed in range(5):
        env = cb.environments.smooth(n_arms=4, context_dim=4, relevant=1, change_point=500, seed=200 + seed)
        run = cb.simulate(cb.ConeKernel(4, env.cone, 4), env, 4000, seed=seed)
        told = run.policy.explain([0.5] * 4)
        assert told.relevance[0] == 1.0
        assert told.relevance[1:].max() < 0.1, told.relevance
        np.testing.assert_allclose(told.noise, 0.3, rtol=0.1)


def test_noise_is_not_taken_for_a_signal_that_arms_share():
    """Fair coins, 12 for each of five arms: the noise learned is nearly all there is, in each of 24 metrics.

    If what arms share did not count as degrees of freedom, one metric in six would be interpolated.
    """
    for seed in range(12):
        rng = np.random.default_rng(seed)
        policy = cb.ConeKernel(5, cb.Cone.orthant(2), 2, seed=seed)
        for t in range(60):
            policy.observe(rng.random(2), t % 5, rng.integers(2, size=2))
        assert policy.noise.min() > 0.4, (seed, policy.noise)  # of 0.5


def test_learns_sooner_than_bins_and_chance():
    env = cb.environments.smooth(n_arms=6, context_dim=2, change_point=1000, seed=77)
    make = {"kernel": cb.ConeKernel, "bins": cb.BinnedParetoUCB, "random": cb.RandomArm}
    score = {}
    for name, policy in make.items():
        runs = [cb.simulate(policy(6, env.cone, 2), env, 5000, seed=seed) for seed in range(3)]
        weights = {"play": 1.0, "front": 0.1, "shortfall": 0.1}
        score[name] = np.mean([sum(w * r.average(s, after=1000) for s, w in weights.items()) for r in runs])
    assert score["kernel"] < 0.7 * score["bins"] < 0.7 * score["random"]


def test_arms_that_merely_tie_are_not_reported_at_a_resolution():
    """Two metrics at a floor: arm 1 equals arm 0 in one and is clearly worse in the other."""
    means, wrong = np.array([[0.1, 0.9], [0.1, 0.5], [0.8, 0.1]]), {0.0: [], 0.02: []}
    for resolution, shares in wrong.items():
        for seed in range(6):
            rng = np.random.default_rng(seed)
            policy = cb.ConeKernel(3, cb.Cone.orthant(2), 1, seed=seed, resolution=resolution)
            contexts = rng.random((9000, 1))
            outcomes = means + 0.1 * rng.standard_normal((9000, 3, 2))
            reported = policy.run_chunk(contexts, outcomes, np.arange(9000, dtype=np.uint64))[3]
            shares.append(reported[6000:, 1].mean())
            assert reported[2000:, [0, 2]].mean() > 0.98
    assert np.mean(wrong[0.02]) < 0.25, "arms that are neither essential nor unacceptable are left out"
    assert np.mean(wrong[0.0]) < 0.7, "on the front of the estimates half of the time"


def test_noise_is_learned_for_each_arm():
    rng, sigma = np.random.default_rng(0), np.array([[0.05, 0.3], [0.4, 0.1]])
    policy = cb.ConeKernel(2, cb.Cone.orthant(2), 1)
    x = rng.random((3000, 1))
    for t in range(3000):
        policy.observe(x[t], t % 2, 0.5 + sigma[t % 2] * rng.standard_normal(2))
    # 1,500 observations tell a deviation to 1.8 %, and ten imagined ones move the smallest by 10 %.
    learned = policy._state.scales[SPREAD] * np.sqrt(policy._state.noise)
    np.testing.assert_allclose(learned, sigma, rtol=0.25)


def test_what_all_arms_have_in_common_is_learned_from_all_of_them():
    """An arm that was hardly seen is predicted where others were: they all depend on the context in the same way."""
    rng, errors = np.random.default_rng(1), []
    for _ in range(5):
        heights, x = rng.normal(size=6), rng.random((620, 1))
        policy = cb.ConeKernel(6, cb.Cone.orthant(1), 1)
        for t in range(620):
            arm = t % 5 if t < 600 else 5
            policy.observe(x[t], arm, [heights[arm] + 2 * np.sin(3 * x[t, 0]) + 0.2 * rng.standard_normal()])
        means = policy.fronts(np.linspace(0.1, 0.9, 9)[:, None])
        assert all(np.isfinite(front.means).all() for front in means)
        estimates, radii = np.empty((2, 6, 1))
        for u in np.linspace(0.1, 0.9, 9):
            policy._kernels.estimate(policy._state, np.array([u]), estimates, radii)
            errors.append(estimates[5, 0] - heights[5] - 2 * np.sin(3 * u))
    # Twenty observations of noise 0.2 tell the height of the arm to 0.05; its shape comes from the others.
    assert np.sqrt(np.mean(np.square(errors))) < 0.15


def test_no_arm_that_matters_is_given_up():
    """Of 30 arms, all that are on the front at a tenth of the contexts are still played.

    How often arms get less than one play in a thousand, ``benchmarks/starved.py`` counts.
    """
    env = cb.environments.smooth(n_arms=30, context_dim=2, change_point=1000, seed=1009)
    run = cb.simulate(cb.ConeKernel(30, env.cone, 2), env, 10_000, seed=3)
    fronts = cb.pareto_mask(env.means(run.contexts[5000:]), env.cone)
    plays = np.bincount(run.arms[5000:], minlength=30)
    assert (plays[fronts.mean(axis=0) >= 0.1] > 0).all()
