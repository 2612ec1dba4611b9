"""Probabilities of all arms, and many contexts at once: equal to the single calls, bit for bit."""

import numpy as np
import pytest
from scipy import stats

import conebandit as cb
from conebandit.kernels import pareto_ucb
from conebandit.policies.registry import OURS

WORLD = cb.environments.smooth(4, 2)
BOUNDS = [[0.0, 2.0], [-1.0, 1.0]]
KINDS = {
    **{f"ConeTree-{preset}": (cb.ConeTree, {"preset": preset}) for preset in ("paper", "sound", "adaptive")},
    **{
        f"ConeTree-{preset}-stream": (cb.ConeTree, {"preset": preset, "history": "stream"})
        for preset in ("paper", "sound", "adaptive")
    },
    **{name: (policy, {}) for name, policy in OURS.items() if name != "ConeTree"},
    "RandomArm": (cb.RandomArm, {}),
}
ALL = (*KINDS, "Oracle")


def make(kind):
    if kind == "Oracle":
        return cb.Oracle(WORLD, seed=5)
    policy, options = KINDS[kind]
    return policy(4, WORLD.cone, 2, seed=5, bounds=BOUNDS, **options)


def contexts(policy, n, seed=0):
    return policy.box.bounds[:, 0] + np.random.default_rng(seed).random((n, 2)) * np.ptp(policy.box.bounds, axis=1)


def learn(policy, n=300, lead=1.0):
    """Observe rewards that differ between arms, some of them unknown, so that arms drop out."""
    rng = np.random.default_rng(1)
    for t, x in enumerate(contexts(policy, n, seed=2)):
        arm = policy.decide(x, t).arm
        reward = rng.normal(size=policy.n_objectives) * 0.1 + lead * arm
        reward[rng.random(policy.n_objectives) < 0.15] = np.nan
        policy.observe(x, arm, reward)
    return policy


def assert_same(policy, x, keys):
    many, fronts = policy.decide_many(x, keys), policy.fronts(x)
    n, arms = len(x), policy.n_arms
    assert [array.shape for array in many] == [(n,), (n,), (n, arms), (n, arms)]
    assert len(fronts) == n
    for i in range(n):
        one, front = policy.decide(x[i], keys[i]), policy.front(x[i])
        assert (many.arms[i], many.propensities[i]) == (one.arm, one.propensity)
        np.testing.assert_array_equal(many.masks[i], one.mask)
        np.testing.assert_array_equal(many.probabilities[i], one.probabilities)
        assert fronts[i].arms == front.arms
        np.testing.assert_array_equal(fronts[i].means, front.means)
        np.testing.assert_array_equal(fronts[i].radii, front.radii)


@pytest.mark.parametrize("kind", ALL)
def test_many_at_once_are_the_single_calls(kind):
    policy = make(kind)
    for n in (0, 1, 25):
        assert_same(policy, contexts(policy, n), [f"user-{i}" for i in range(n)])
    learn(policy)
    for n in (0, 1, 60):
        x = contexts(policy, n, seed=3)
        assert_same(policy, x, [(i, f"user-{i}", b"%d" % i, -i, 2**64 - i)[i % 5] for i in range(n)])
        assert_same(policy, x, np.arange(n) - 20)
        assert_same(policy, x, np.arange(n, dtype=np.uint64))


@pytest.mark.parametrize("kind", ALL)
def test_probabilities_are_a_distribution_over_active_arms(kind):
    policy = make(kind)
    for learned in (False, True):
        if learned:
            learn(policy)
        for x in contexts(policy, 20, seed=4):
            decisions = [policy.decide(x, key) for key in range(5)]
            for decision in decisions:
                chances = decision.probabilities
                assert chances.shape == (4,)
                assert chances.dtype == np.float64
                assert (chances >= 0.0).all()
                assert chances.sum() == pytest.approx(1.0, abs=1e-12)
                assert chances[decision.arm] == decision.propensity > 0.0
                assert not chances[~decision.mask].any()
                np.testing.assert_array_equal(chances, decisions[0].probabilities)  # the key has no part in them


def test_round_robin_of_the_warm_up_is_uniform_over_keys():
    policy = make("ConeTree-paper")
    decisions = policy.decide_many(contexts(policy, 8), range(8))
    assert decisions.arms.tolist() == [0, 1, 2, 3] * 2
    assert (decisions.probabilities == 0.25).all()


@pytest.mark.parametrize("kind", ["ConeKernel", "ScalarisedUCB", "LinearParetoUCB"])
def test_arms_come_as_often_as_their_probabilities_say(kind):
    """Chi-square tests at ten contexts; by chance alone, one of these thirty fails with a probability of 1e-5."""
    policy, keys = learn(make(kind), 150, lead=0.0), np.arange(20_000)
    varied = 0
    for x in contexts(policy, 10, seed=6):
        decisions = policy.decide_many(np.tile(x, (len(keys), 1)), keys)
        chances, counts = decisions.probabilities[0], np.bincount(decisions.arms, minlength=4)
        assert not counts[chances == 0.0].any()
        possible = chances > 0.0
        varied += possible.sum() > 1
        if possible.sum() > 1:
            expected = chances[possible] * len(keys) / chances.sum()
            assert stats.chisquare(counts[possible], expected).pvalue > 1e-5 / 30
    assert varied > 0, "there was something to test"


class LastArm:
    """Kernels of another package: always the last arm, whatever the estimates say."""

    learn, estimate = staticmethod(pareto_ucb.learn), staticmethod(pareto_ucb.estimate)

    @staticmethod
    def choose(state, seed, x, key, active, reported, chances):  # noqa: PLR0917  (the signature of all kernels)
        active[:], reported[:], chances[:] = True, False, 0.0
        reported[-1], chances[-1] = True, 1.0
        return len(active) - 1


def test_kernels_without_a_loop_of_their_own_are_asked_one_by_one():
    class Last(cb.ParetoUCB1):
        _kernels = LastArm

    policy = Last(4, WORLD.cone, 2, bounds=BOUNDS)
    for n in (0, 7):
        assert_same(policy, contexts(policy, n), [f"user-{i}" for i in range(n)])
    learn(policy, 20)
    assert_same(policy, contexts(policy, 7), np.arange(7) - 3)
    assert policy.decide_many(contexts(policy, 2), range(2)).arms.tolist() == [3, 3]


def test_other_kernels_than_those_of_a_class_need_not_know_what_these_leave_out():
    class Last(cb.ConeKernel):
        _kernels = LastArm

    policy = Last(4, WORLD.cone, 2)
    assert policy.decide([0.5, 0.5], 1).arm == 3
    assert policy.decide_many([[0.5, 0.5]], [1]).arms.tolist() == [3]


@pytest.mark.parametrize("kind", ALL)
def test_bad_arguments_are_named_and_leave_no_trace(kind):
    policy = learn(make(kind), 30)
    x = contexts(policy, 3)
    before = policy.decide_many(x, range(3))
    outside = x.copy()
    outside[1, 0] = 17.0
    for ask in (policy.fronts, lambda bad: policy.decide_many(bad, range(3))):
        with pytest.raises(ValueError, match=r"context\[0\] must lie in"):
            ask(outside)
        with pytest.raises(ValueError, match=r"contexts must have shape \(n, 2\); got \(3, 3\)"):
            ask(np.zeros((3, 3)))
        with pytest.raises(ValueError, match=r"contexts must have shape \(n, 2\); got \(2,\)"):
            ask(x[0])
        with pytest.raises(TypeError, match="contexts must be an array of real numbers"):
            ask([["a", "b"]] * 3)
    with pytest.raises(ValueError, match="keys must be 3, one for each context; got 2"):
        policy.decide_many(x, [1, 2])
    with pytest.raises(TypeError, match="keys must be a sequence of keys"):
        policy.decide_many(x, "abc")
    with pytest.raises(TypeError, match="key must be an integer, a string or bytes"):
        policy.decide_many(x, [1, 2, 0.5])
    for one, other in zip(before, policy.decide_many(x, range(3)), strict=True):
        np.testing.assert_array_equal(one, other)
