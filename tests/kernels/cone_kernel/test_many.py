"""Decisions at many contexts are those at each, bit for bit, however a batch is cut."""

import numpy as np
import pytest

import conebandit as cb
from conebandit.kernels.cone_kernel.constants import CONTEXTS_AT_ONCE

from ...plain_cone_kernel import trained

SIZES = (1, 2, 3, 5, CONTEXTS_AT_ONCE, CONTEXTS_AT_ONCE + 1)  # with whole fours of contexts, and what is left of them


def trained_on_steps(n_features):
    """A policy that knows of arms that are far off the front, and at some contexts of one that alone is on it."""
    rng, policy = np.random.default_rng(0), cb.ConeKernel(4, cb.Cone.orthant(2), 2, n_features=n_features)
    for _ in range(600):
        x, arm = rng.random(2), int(rng.integers(4))
        mean = {0: 3.0 if x[0] < 0.5 else 0.0, 1: 0.05, 2: 0.1, 3: -3.0}[arm]
        policy.observe(x, arm, mean + 0.3 * rng.standard_normal(2))
    return policy


@pytest.mark.parametrize(
    "policy",
    [
        trained_on_steps(32),
        trained_on_steps(27),  # features that do not fill a block
        trained(n=300, n_arms=6, cone="narrow"),
        trained(n=60, n_arms=2, cone="scalar", dim=1),
        trained(n=200, n_arms=5, cone="three", resolution=0.2, explore=0.1),
        trained(n=3),  # before the first fit
    ],
    ids=["steps", "odd", "narrow", "scalar", "three", "unfitted"],
)
def test_decisions_do_not_depend_on_how_a_batch_is_cut(policy):
    rng, n = np.random.default_rng(1), sum(SIZES)
    contexts, keys = rng.random((n, policy.context_dim)), np.arange(n)
    together = policy.decide_many(contexts, keys)
    first = 0
    for size in SIZES:
        part = slice(first, first + size)
        some = policy.decide_many(contexts[part], keys[part])
        for whole, cut in zip(together, some, strict=True):
            np.testing.assert_array_equal(whole[part], cut)
        first += size
    for i in range(n):
        one = policy.decide(contexts[i], i)
        assert (one.arm, one.propensity) == (together.arms[i], together.propensities[i])
        np.testing.assert_array_equal(one.mask, together.masks[i])
        np.testing.assert_array_equal(one.probabilities, together.probabilities[i])


def test_one_arm_alone_is_active_at_some_contexts_and_several_at_others():
    """So the test above has seen both."""
    policy = trained_on_steps(32)
    active = policy.decide_many(np.random.default_rng(1).random((200, 2)), np.arange(200)).masks.sum(axis=1)
    assert active.min() == 1
    assert active.max() >= 3
