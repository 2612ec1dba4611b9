"""Numbers at the edge of what doubles hold, and files that were tampered with: refused, or treated like all others."""

import numpy as np
import pytest

import conebandit as cb
from conebandit.policies.base import MOST_REWARD

ORTHANT = cb.Cone.orthant(2)
KINDS = {
    **{
        kind.__name__: kind
        for kind in (
            cb.ConeKernel,
            cb.ConeTree,
            cb.BinnedElimination,
            cb.BinnedParetoUCB,
            cb.LinearParetoUCB,
            cb.NeighbourParetoUCB,
            cb.ParetoUCB1,
            cb.ParetoZooming,
            cb.ScalarisedUCB,
            cb.SelfTuning,
        )
    },
    "AdaptiveTree": lambda *args: cb.ConeTree(*args, preset="adaptive"),
}


def learn(policy, rng, n, reward):
    for i in range(n):
        x = rng.random(policy.context_dim)
        arm = policy.decide(x, i).arm
        policy.observe(x, arm, reward(i, arm))


@pytest.mark.parametrize("kind", KINDS)
def test_a_reward_whose_square_overflows_is_refused_and_leaves_no_trace(kind, rng):
    policy = KINDS[kind](3, ORTHANT, 1)
    learn(policy, rng, 50, lambda _, arm: arm + rng.normal(size=2))
    before = policy.state()
    for bad in (1e155, -1e308):
        with pytest.raises(ValueError, match=r"reward must be at most 1e\+150 in size; got .* in other units"):
            policy.observe([0.5], 1, [1.0, bad])
    for name, array in policy.state().items():
        np.testing.assert_array_equal(array, before[name])


def test_policies_that_do_not_learn_refuse_it_too():
    env = cb.environments.paper(n_arms=3)
    for policy in (cb.Oracle(env), cb.RandomArm(3, env.cone, 1)):
        with pytest.raises(ValueError, match="reward must be at most"):
            policy.observe([0.5], 1, [1.0, 1e200])


@pytest.mark.parametrize("kind", KINDS)
def test_the_largest_reward_spoils_no_estimate(kind, rng):
    policy = KINDS[kind](3, ORTHANT, 1)
    learn(policy, rng, 300, lambda i, arm: (MOST_REWARD if i == 100 else arm) + 0.1 * rng.normal(size=2))
    assert np.isfinite(policy.front([0.5]).means).all()
    assert not np.isnan(policy.front([0.5]).radii).any()
