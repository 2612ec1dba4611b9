"""Merging is associative and commutative up to rounding, and counts what was pooled; looked for by hypothesis."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import conebandit as cb
from tests.policies.test_merging import bins

pytestmark = pytest.mark.untraced

CONE = cb.Cone.from_facets([[2, 1], [1, 3]])
CONTEXTS = np.stack(np.meshgrid(np.linspace(0, 1, 5), np.linspace(0, 1, 5)), axis=-1).reshape(-1, 2)
MAKE = {
    "tree": lambda: cb.ConeTree(3, CONE, 2, delta=0.9, holder=8.0, sigma=0.2),
    "means": lambda: cb.ParetoUCB1(3, CONE, 2),
    "bins": lambda: cb.BinnedParetoUCB(3, CONE, 2),
    "neighbours": lambda: cb.NeighbourParetoUCB(3, CONE, 2),
    "linear": lambda: cb.LinearParetoUCB(3, CONE, 2),
    "fourier": lambda: cb.FourierSampling(3, CONE, 2, n_features=8),
}


@st.composite
def shards(draw):
    """Three logs on a coarse grid, so that sums are exact and contexts come again; some are empty."""
    logs = []
    for _ in range(3):
        n, seed = draw(st.sampled_from([0, 1, 5, 60, 400])), draw(st.integers(0, 2**16))
        rng = np.random.default_rng(seed)
        grid = draw(st.sampled_from([2, 16, 1024]))
        rewards = rng.integers(-8, 9, (n, 2)) / 8.0
        rewards[rng.random((n, 2)) < draw(st.sampled_from([0.0, 0.3, 1.0]))] = np.nan
        logs.append((rng.integers(0, grid + 1, (n, 2)) / grid, rng.integers(0, 3, n), rewards))
    return logs


def learned(kind, log):
    return MAKE[kind]().learn(log) if len(log[1]) else MAKE[kind]()


def estimates(policy):
    found = cb.policies.compiled.estimates(policy, CONTEXTS)
    return np.stack(found)


@pytest.mark.parametrize("kind", MAKE)
@settings(max_examples=25, deadline=None)
@given(logs=shards())
def test_order_and_brackets_do_not_matter(kind, logs):
    a, b, c = (learned(kind, log) for log in logs)
    one = a.copy().merge(b).merge(c)
    for other in (a.copy().merge(b.copy().merge(c)), c.copy().merge(a).merge(b), b.copy().merge(c.copy().merge(a))):
        assert one.n_observations == other.n_observations == sum(len(log[1]) for log in logs)
        np.testing.assert_allclose(estimates(one), estimates(other), rtol=1e-6, atol=1e-7)


@settings(max_examples=40, deadline=None)
@given(logs=shards())
def test_a_tree_counts_what_was_pooled(logs):
    """Where at least two sites have rows, all bins that are due are split, whatever the order of rows was."""
    everything = tuple(np.concatenate(arrays) for arrays in zip(*logs, strict=True))
    merged = learned("tree", logs[0]).merge(learned("tree", logs[1])).merge(learned("tree", logs[2]))
    found = bins(merged)
    assert sum(leaf[0] for leaf in found.values()) == len(everything[1])
    for k in range(3):
        rewards = everything[2][everything[1] == k]
        counts, sums = (np.sum([leaf[i][k] for leaf in found.values()], axis=0) for i in (1, 2))
        assert counts.tolist() == (~np.isnan(rewards)).sum(axis=0).tolist()
        assert sums.tolist() == np.nansum(rewards, axis=0).tolist()  # exact on this grid
    for (level, cell), leaf in found.items():
        inside = (np.minimum(np.floor(everything[0] * 2**level), 2**level - 1) == cell).all(axis=1)
        assert leaf[0] == inside.sum()
