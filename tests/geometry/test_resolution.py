"""Fronts at a resolution: against the definitions, pair by pair."""

import numpy as np
import pytest

from conebandit import Cone, pareto_mask

from .. import oracles
from .test_gap import random_cone

# Three arms that make each other inessential in a circle: each leads the next by 1.1 on one facet, trailing by 1.
CIRCLE = np.array([[0.1, -2.0, 3.0], [-1.0, -1.0, 4.0], [0.0, -2.1, 5.0]])


@pytest.mark.parametrize("kind", ["orthant", "wide", "narrow", "oblique"])
@pytest.mark.parametrize("dim", [1, 2, 3, 4])
def test_essential_arms_equal_the_definition(kind, dim):
    rng = np.random.default_rng([dim, len(kind)])
    different = 0
    for case in range(60):
        cone = random_cone(kind, dim, rng) if dim > 1 else Cone.orthant(1)
        # Half the cases on a coarse grid of tenths, so that differences are often the resolution itself.
        points = rng.integers(0, 8, (7, dim)) / 10 if case % 2 else rng.normal(size=(7, dim))
        resolution = rng.integers(0, 4, dim) / 10
        ours = pareto_mask(points, cone, resolution=resolution)
        np.testing.assert_array_equal(ours, oracles.essential_by_pairs(points, cone.facets, resolution))
        np.testing.assert_array_equal(pareto_mask(points[None], cone, resolution=resolution)[0], ours)
        different += (pareto_mask(points, cone) != ours).any()
    assert different > 3  # the resolution matters


def test_sets_of_any_size_and_number(rng):
    for n_arms in (1, 63, 65, 200):
        points = rng.random((5, n_arms, 3))
        ours = pareto_mask(points, Cone.orthant(3), resolution=0.1)
        for one, mask in zip(points, ours, strict=True):
            np.testing.assert_array_equal(mask, pareto_mask(one, Cone.orthant(3), resolution=0.1))
            np.testing.assert_array_equal(mask, oracles.essential_by_pairs(one, np.eye(3), np.full(3, 0.1)))


def test_near_ties_count_as_ties():
    """Two doses that are equally safe for all that matters: the more effective one does for both."""
    doses = [[0.30, 0.999], [0.45, 0.998], [0.60, 0.80]]
    assert pareto_mask(doses, Cone.orthant(2)).all()
    assert pareto_mask(doses, Cone.orthant(2), resolution=0.02).tolist() == [False, True, True]
    assert pareto_mask(doses, Cone.orthant(2), resolution=[0.2, 0.0]).tolist() == [True, False, False]
    assert pareto_mask(doses, Cone.orthant(2), resolution=(0.0, 0.2)).tolist() == [False, False, True]


def test_a_dominated_arm_is_essential_if_no_difference_matters():
    assert pareto_mask([[1.0, 1.0], [0.99, 0.99]], Cone.orthant(2), resolution=0.02).all()


def test_a_circle_leaves_the_front():
    _, beats, _ = oracles.relations(CIRCLE, np.eye(3), np.ones(3))
    assert beats.any(axis=0).all()
    assert pareto_mask(CIRCLE, Cone.orthant(3), resolution=1.0).all()
    beaten = np.vstack([CIRCLE, CIRCLE.min(axis=0) - 0.1])
    assert pareto_mask(beaten, Cone.orthant(3), resolution=1.0).tolist() == [True, True, True, False]


@pytest.mark.parametrize("scale", [1e-300, 1e-12, 1e12, 1e300])
def test_scales(scale, rng):
    points = rng.random((20, 2))
    known = pareto_mask(points, Cone.wedge(60), resolution=0.1)
    np.testing.assert_array_equal(pareto_mask(points * scale, Cone.wedge(60), resolution=0.1 * scale), known)


@pytest.mark.parametrize("bad", [-0.1, np.nan, np.inf, "a", None, True, np.array(1), [0.1], [0.1, -1], [[0.1, 0.1]]])
def test_what_is_no_resolution_is_refused(bad):
    with pytest.raises(ValueError, match=r"^resolution"):
        pareto_mask([[1.0, 1.0]], Cone.orthant(2), resolution=bad)
