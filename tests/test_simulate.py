"""Runs: reproducible, the same however they are computed, and scored as defined."""

import numpy as np
import pytest

import conebandit as cb
from conebandit.environments.noise import Gaussian
from conebandit.regret import SERIES, regret_series
from conebandit.simulate import CHUNK

from . import oracles

C3 = cb.Cone.from_rays([[1, 0.6], [0.6, 1]])


class Wrapped:
    """Hides the compiled loop of a policy, so that it runs step by step."""

    def __init__(self, policy):
        self.policy = policy
        self.n_arms, self.n_objectives, self.context_dim = policy.n_arms, policy.n_objectives, policy.context_dim
        self.decide, self.observe, self.front = policy.decide, policy.observe, policy.front

    def copy(self):
        return Wrapped(self.policy.copy())


def tree(env, preset="sound", **options):
    if preset == "sound":
        options = {"sigma": 0.2, "holder": 0.5} | options
    return cb.ConeTree(env.n_arms, env.cone, env.context_dim, preset=preset, seed=3, **options)


def same(a, b):
    np.testing.assert_array_equal(a.contexts, b.contexts)
    np.testing.assert_array_equal(a.arms, b.arms)
    np.testing.assert_array_equal(a.rewards, b.rewards)
    np.testing.assert_array_equal(a.propensities, b.propensities)
    np.testing.assert_array_equal(a.reported, b.reported)
    np.testing.assert_array_equal(a.active, b.active)
    for name in SERIES:
        np.testing.assert_array_equal(a.series[name], b.series[name])


@pytest.mark.parametrize("dim", [1, 2, 5])
@pytest.mark.parametrize("preset", ["paper", "sound"])
@pytest.mark.parametrize("history", ["exact", "stream"])
def test_the_compiled_loop_equals_the_step_by_step_loop(dim, preset, history):
    env = cb.environments.smooth(n_arms=4, context_dim=dim, change_point=1000, noise=Gaussian(0.1), cone=C3, seed=dim)
    policy = tree(env, preset, history=history)
    fast, slow = cb.simulate(policy, env, 5000, seed=2), cb.simulate(Wrapped(policy), env, 5000, seed=2)
    same(fast, slow)
    a, b = fast.policy.state(), slow.policy.policy.state()
    for name in a:
        np.testing.assert_array_equal(a[name], b[name])
    assert policy.n_observations == 0  # the one handed over is unchanged


def test_random_arm_too():
    env = cb.environments.paper(n_arms=5, change_point=100)
    policy = cb.RandomArm(5, env.cone, 1, seed=4)
    fast, slow = cb.simulate(policy, env, 1500, seed=1), cb.simulate(Wrapped(policy), env, 1500, seed=1)
    same(fast, slow)
    assert (fast.reported.sum(axis=1) == 1).all()
    # 1500 draws from five arms: within five standard deviations.
    assert (np.abs(np.bincount(fast.arms, minlength=5) - 300) < 5 * np.sqrt(1500 * 0.2 * 0.8)).all()


def test_the_number_of_workers_does_not_matter():
    env = cb.environments.smooth(n_arms=3, context_dim=1, change_point=200)
    one = cb.simulate_many(tree(env), env, 1200, seeds=range(4), n_jobs=1, progress=False)
    two = cb.simulate_many(tree(env), env, 1200, seeds=range(4), n_jobs=2, progress=False)
    for a, b in zip(one, two, strict=True):
        same(a, b)
    assert not np.array_equal(one[0].arms, one[1].arms)
    same(one[3], cb.simulate(tree(env), env, 1200, seed=3))


@pytest.mark.parametrize("kind", ["paper", "sound", "adaptive", "default", "linear"])
@pytest.mark.parametrize("threads", [2, 7, -1])
def test_the_number_of_threads_does_not_matter(kind, threads):
    env = cb.environments.smooth(n_arms=3, context_dim=2, change_point=200)
    own = {"default": cb.default_policy, "linear": cb.LinearParetoUCB}
    policy = own[kind](3, env.cone, 2, seed=3) if kind in own else tree(env, kind)
    seeds, before = (5, 0, 2, 1, 9), policy.state()
    runs = cb.simulate_many(policy, env, 3000, seeds, threads=threads, progress=False)
    assert tuple(run.seed for run in runs) == seeds
    for run in runs:
        alone = cb.simulate(policy, env, 3000, run.seed)
        same(run, alone)
        for name, array in alone.policy.state().items():
            np.testing.assert_array_equal(run.policy.state()[name], array)
    for name, array in policy.state().items():
        np.testing.assert_array_equal(array, before[name])


def test_a_run_that_fails_in_a_thread_raises_what_it_raised():
    env = cb.environments.smooth(n_arms=3, context_dim=1, change_point=200)
    with pytest.raises(ValueError, match="seed must be an integer, at least 0; got -1"):
        cb.simulate_many(tree(env), env, 100, seeds=[0, 1, -1, 2], threads=2, progress=False)


@pytest.mark.parametrize(
    ("workers", "says"),
    [
        ({"threads": 0}, "threads must be a number of threads, or -1 for one on each core; got 0"),
        ({"threads": -2}, "got -2"),
        ({"threads": 2.5}, "got 2.5"),
        ({"threads": 2, "n_jobs": 2}, "give threads or n_jobs, not both; got threads = 2 and n_jobs = 2"),
    ],
)
def test_wrong_numbers_of_threads_are_refused(workers, says):
    env = cb.environments.smooth(n_arms=3, context_dim=1, change_point=200)
    with pytest.raises(ValueError, match=says):
        cb.simulate_many(tree(env), env, 100, seeds=[0], progress=False, **workers)


@pytest.mark.parametrize("kind", [np.uint8, np.int32, np.int64])
def test_a_seed_of_numpy_is_the_same_integer(kind):
    env = cb.environments.smooth(n_arms=3, context_dim=1, change_point=20)
    policy = cb.RandomArm(3, env.cone, 1)
    run = cb.simulate(policy, env, 60, seed=kind(5))
    same(run, cb.simulate(policy, env, 60, seed=5))
    assert type(run.seed) is int


def test_progress_is_reported_to_a_function():
    env = cb.environments.smooth(n_arms=3, context_dim=1, change_point=20)
    seen = []
    cb.simulate_many(tree(env), env, 50, seeds=[4, 2], progress=seen.append)
    assert seen == ["seed 4", "seed 2"]


def test_a_longer_run_begins_like_a_shorter_one():
    env = cb.environments.paper(n_arms=4, change_point=50)
    long, short = cb.simulate(tree(env), env, 2 * CHUNK + 10), cb.simulate(tree(env), env, CHUNK + 7)
    np.testing.assert_array_equal(long.arms[: CHUNK + 7], short.arms)
    np.testing.assert_array_equal(long.contexts[: CHUNK + 7], short.contexts)
    np.testing.assert_array_equal(long.rewards[: CHUNK + 7], short.rewards)


def test_policies_meet_the_same_luck():
    env = cb.environments.paper(n_arms=4, change_point=50)
    a, b = cb.simulate(tree(env), env, 3000, seed=9), cb.simulate(cb.RandomArm(4, env.cone, 1), env, 3000, seed=9)
    np.testing.assert_array_equal(a.contexts, b.contexts)
    agree = a.arms == b.arms
    assert agree.any()
    np.testing.assert_array_equal(a.rewards[agree], b.rewards[agree])


def test_a_run_sums_up_its_series():
    env = cb.environments.paper(n_arms=4, change_point=500)
    run = cb.simulate(tree(env), env, 2000)
    assert run.horizon == 2000
    assert run.change_points == (500,)
    assert set(run.series) == set(SERIES)
    for name in SERIES:
        assert run.total(name, after=500) == pytest.approx(run.series[name][500:].sum())
        assert run.average(name) == pytest.approx(run.series[name].mean())
        assert run.cumulative(name, after=500)[-1] == pytest.approx(run.total(name, after=500))
    with pytest.raises(ValueError, match="name must be one of play"):
        run.total("regret")


@pytest.mark.parametrize("cone", [cb.Cone.orthant(2), C3, cb.Cone.wedge(120)], ids=["orthant", "narrow", "wide"])
def test_series_are_what_their_definitions_say(cone, rng):
    n, k = 200, 6
    means = rng.uniform(0.1, 1, (n, k, 2))
    arms, active = rng.integers(k, size=n), rng.random((n, k)) < 0.8
    reported = rng.random((n, k)) < 0.4
    reported[np.arange(n), rng.integers(k, size=n)] = True
    series = regret_series(means, cone, arms, reported, active)
    for i in range(n):
        front = cb.pareto_mask(means[i], cone)
        gaps = cb.gap(means[i], front, cone)
        assert series["play"][i] == gaps[arms[i]]
        assert series["front"][i] == gaps[reported[i]].max()
        assert series["shortfall"][i] == cb.shortfall(means[i][reported[i]], means[i][front], cone)
        assert series["coverage"][i] == cb.log_hausdorff(means[i][reported[i]], means[i][front])
        assert series["recall"][i] == (reported[i] & front).sum() / front.sum()
        assert series["precision"][i] == (reported[i] & front).sum() / reported[i].sum()
        assert series["lost"][i] == (front & ~active[i]).sum() / front.sum()
        strongly = cone.strongly_dominates(means[i][front][:, None], means[i][None]).any(axis=0)
        weakly = cone.weakly_dominates(means[i][reported[i]][:, None], means[i][None]).any(axis=0)
        assert series["missed"][i] == (front & ~weakly).sum() / front.sum()
        assert series["bad"][i] == (strongly & reported[i]).sum() / reported[i].sum()


@pytest.mark.untraced
@pytest.mark.parametrize("resolution", [0.1, (0.02, 0.1), [0.0, 0.2]], ids=str)
@pytest.mark.parametrize("cone", [cb.Cone.orthant(2), C3, cb.Cone.wedge(120)], ids=["orthant", "narrow", "wide"])
def test_series_at_a_resolution_are_what_their_definitions_say(cone, resolution, rng):
    n, k = 60, 5
    means = rng.uniform(0.1, 1, (n, k, 2))
    arms, active = rng.integers(k, size=n), np.ones((n, k), dtype=bool)
    reported = rng.random((n, k)) < 0.4
    reported[np.arange(n), rng.integers(k, size=n)] = True
    series = regret_series(means, cone, arms, reported, active, resolution=resolution)
    smallest = np.broadcast_to(resolution, 2)
    slack = np.abs(cone.facets) @ smallest
    for i in range(n):
        covers, _, shames = oracles.relations(means[i], cone.facets, smallest)
        needed = oracles.essential_by_pairs(means[i], cone.facets, smallest)
        covered, unacceptable = covers[reported[i]].any(axis=0), shames.any(axis=0)
        assert series["missed"][i] == (needed & ~covered).sum() / needed.sum()
        assert series["bad"][i] == (unacceptable & reported[i]).sum() / reported[i].sum()
        x, front = means[i, arms[i]], means[i][cb.pareto_mask(means[i], cone)]
        move = oracles.smallest_move_by_corners(x, front, cone.facets, x, slack)
        assert series["play"][i] == pytest.approx(np.log1p(move), abs=1e-8)
        assert (series["play"][i] > 0) == unacceptable[arms[i]]
    assert 0 < series["missed"].mean() < 1
    assert 0 < series["bad"].mean() < 1


def test_a_run_may_be_measured_at_a_resolution():
    env = cb.environments.paper(n_arms=4, change_point=50)
    policy = cb.RandomArm(4, env.cone, 1)
    exact, coarse = cb.simulate(policy, env, 500), cb.simulate(policy, env, 500, resolution=[0.1, 0.2])
    np.testing.assert_array_equal(exact.arms, coarse.arms)
    assert coarse.total("play") < exact.total("play")
    assert coarse.total("bad") < exact.total("bad")
    (again,) = cb.simulate_many(policy, env, 500, seeds=[0], resolution=[0.1, 0.2], progress=False)
    same(coarse, again)
    for wrong in (-1, [0.1], np.nan):
        with pytest.raises(ValueError, match=r"^resolution"):
            cb.simulate(policy, env, 500, resolution=wrong)
        with pytest.raises(ValueError, match=r"^resolution"):
            cb.simulate_many(policy, env, 500, seeds=[0], resolution=wrong)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"horizon": 0}, "horizon must be a positive integer"),
        ({"horizon": True}, "horizon must be a positive integer"),
        ({"horizon": 10.5}, "horizon must be a positive integer"),
        ({"seed": -1}, "seed must be an integer, at least 0"),
        ({"policy": cb.RandomArm(5, cb.Cone.orthant(2), 1)}, "policy has n_arms = 5, but the environment has 4"),
        ({"policy": cb.RandomArm(4, cb.Cone.orthant(2), 2)}, "policy has context_dim = 2"),
        ({"policy": cb.RandomArm(4, cb.Cone.orthant(3), 1)}, "policy has n_objectives = 3"),
    ],
)
def test_bad_arguments_are_refused(change, says):
    env = cb.environments.paper(n_arms=4)
    arguments = {"policy": cb.RandomArm(4, env.cone, 1), "environment": env, "horizon": 10, "seed": 0, **change}
    with pytest.raises(ValueError, match=says):
        cb.simulate(**arguments)


def test_contexts_outside_the_policys_bounds_are_refused():
    env = cb.environments.paper(n_arms=4)
    with pytest.raises(ValueError, match=r"context\[0\] must lie in \[0, 0.5\]"):
        cb.simulate(cb.ConeTree(4, env.cone, 1, bounds=[[0, 0.5]]), env, 100)


def test_rewards_that_no_policy_takes_are_refused():
    env = cb.environments.smooth(n_arms=3, context_dim=1, change_point=50, noise=Gaussian(1e160))
    for policy in (cb.ConeKernel(3, env.cone, 1), Wrapped(cb.ConeKernel(3, env.cone, 1))):
        with pytest.raises(ValueError, match=r"environment must give rewards of at most 1e\+150 in size; got"):
            cb.simulate(policy, env, 100)


@pytest.mark.parametrize(
    ("arm", "front", "says"),
    [
        (-1, (0,), r"policy Stranger must answer decide with arms from 0 to 2, at least one; got \(-1,\)"),
        (7, (0,), r"answer decide .* got \(7,\)"),
        (0.5, (0,), r"answer decide .* got \(0.5,\)"),
        (0, (), r"answer front .* got \(\)"),
        (True, (0,), r"answer decide .* got \(True,\)"),
        (0, (0, 3), r"answer front .* got \(0, 3\)"),
    ],
)
def test_answers_that_are_no_arms_are_refused(arm, front, says):
    class Stranger:
        n_arms, n_objectives, context_dim = 3, 2, 1

        def decide(self, context, key):
            return cb.Decision(arm, 1.0, np.ones(3, dtype=bool))

        def front(self, context):
            return cb.Front(front, np.zeros((len(front), 2)), np.zeros((len(front), 2)))

        def observe(self, context, arm, reward):
            pass

    with pytest.raises(ValueError, match=says):
        cb.simulate(Stranger(), cb.environments.paper(n_arms=3), 10)


# ---- replay ---------------------------------------------------------------------------------------------------------


def randomised(n=3000, seed=0, shares=(1 / 3, 1 / 3, 1 / 3)):
    """Contexts, arms by lot, rewards, propensities."""
    rng = np.random.default_rng(seed)
    x, arms = rng.random((n, 1)), rng.choice(3, size=n, p=shares)
    rewards = np.column_stack([arms + x[:, 0], 2.0 - arms]) + rng.normal(0, 0.1, (n, 2))
    return x, arms, rewards, np.array(shares)[arms]


def test_replay_learns_from_the_rows_where_it_names_the_arm_that_was_given():
    x, arms, rewards, _ = randomised(400)
    policy = cb.ParetoUCB1(n_arms=3, cone=cb.Cone.orthant(2), context_dim=1, seed=5)
    played = cb.replay(policy, x, arms, rewards, shuffle=False, seed=2)
    twin, kept = policy.copy(), []
    for row in range(400):
        if twin.decide(x[row], key=row + (2 << 32)).arm == arms[row]:
            twin.observe(x[row], arms[row], rewards[row])
            kept.append(row)
    assert played.rows.tolist() == kept
    np.testing.assert_array_equal(played.rewards, rewards[kept])
    assert played.policy.decide([0.5], 1).arm == twin.decide([0.5], 1).arm
    assert policy.decide([0.5], 1).probabilities.tolist() == [1 / 3] * 3  # unchanged
    again = cb.replay(policy, x, arms, rewards, seed=2)
    assert again.rows.tolist() != kept
    assert again.rows.tolist() == cb.replay(policy, x, arms, rewards, seed=2).rows.tolist()


def test_replay_of_unequal_lots_is_fair_to_all_arms():
    x, arms, rewards, propensities = randomised(6000, shares=(0.6, 0.3, 0.1))
    policy = cb.RandomArm(n_arms=3, cone=cb.Cone.orthant(2), context_dim=1)
    counts = np.bincount(arms[cb.replay(policy, x, arms, rewards, propensities=propensities).rows], minlength=3)
    # About 200 of each; five standard deviations are 71, which a right one exceeds with probability below 2e-6.
    assert (np.abs(counts - 200) < 71).all()


def test_replay_refuses():
    x, arms, rewards, propensities = randomised(50)
    policy = cb.RandomArm(n_arms=3, cone=cb.Cone.orthant(2), context_dim=1)
    with pytest.raises(ValueError, match="contexts must have shape"):
        cb.replay(policy, x[:-1], arms, rewards)
    with pytest.raises(ValueError, match="arm must be an integer from 0 to 2"):
        cb.replay(policy, x, arms + 1, rewards)
    with pytest.raises(ValueError, match="rewards must have shape"):
        cb.replay(policy, x, arms, rewards[:, :1])
    with pytest.raises(ValueError, match="arms must have shape"):
        cb.replay(policy, x, 1, rewards)
    with pytest.raises(ValueError, match="propensities must lie above 0"):
        cb.replay(policy, x, arms, rewards, propensities=propensities * 0)
    with pytest.raises(ValueError, match="contexts must have shape"):
        cb.replay(policy, x[:0], [], rewards[:0])
