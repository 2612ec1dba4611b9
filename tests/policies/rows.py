"""Rows of logs for tests, and every policy that learns."""

from typing import NamedTuple

import numpy as np

import conebandit as cb
from conebandit.policies.registry import OURS

CONE = cb.Cone.orthant(2)
BOUNDS = [[0.0, 2.0], [-1.0, 1.0]]
KINDS = {
    **{f"ConeTree-{preset}": (cb.ConeTree, {"preset": preset}) for preset in ("paper", "sound", "adaptive")},
    **{
        f"ConeTree-{preset}-stream": (cb.ConeTree, {"preset": preset, "history": "stream"})
        for preset in ("sound", "adaptive")
    },
    **{name: (policy, {}) for name, policy in OURS.items() if name != "ConeTree"},
}


class Rows(NamedTuple):
    contexts: np.ndarray
    arms: np.ndarray
    rewards: np.ndarray

    def part(self, first, last):
        return Rows(*(array[first:last] for array in self))


def make(kind, **options):
    policy, settings = KINDS[kind]
    return policy(**{"n_arms": 3, "cone": CONE, "context_dim": 2, "bounds": BOUNDS, **settings, **options})


def make_rows(n, seed=0, n_arms=3, scale=1.0):
    """Rows within ``BOUNDS``; some rewards are not known, and some rows have none."""
    rng = np.random.default_rng(seed)
    contexts = rng.random((n, 2)) * [2.0, 2.0] - [0.0, 1.0]
    arms = rng.integers(0, n_arms, n)
    rewards = scale * (rng.normal(0.0, 0.5, (n, 2)) + 0.4 * arms[:, None] * [1.0, -1.0] + contexts)
    rewards[::7, 0] = np.nan
    rewards[::11] = np.nan
    return Rows(contexts, arms, rewards)


def observe_one_by_one(policy, rows):
    """The plain twin of ``learn``."""
    for x, arm, reward in zip(rows.contexts, rows.arms.tolist(), rows.rewards, strict=True):
        policy.observe(x, arm, reward)
    return policy


def assert_same_state(one, other):
    """Bit for bit."""
    states = one.state(), other.state()
    assert states[0].keys() == states[1].keys()
    for name, array in states[0].items():
        assert array.dtype == states[1][name].dtype
        np.testing.assert_array_equal(array, states[1][name], err_msg=name)
