"""A policy that is asked under another cone is the one that had this cone from the start."""

import numpy as np
import pytest

import conebandit as cb
from conebandit.policies.other_cone import under_cone
from tests.policies.test_extremes import KINDS

ELIMINATE = {"ConeTree", "StreamedTree", "BinnedElimination", "SelfTuning"}  # preset "sound" of the trees
CONES = [
    cb.Cone.orthant(2),
    cb.Cone.wedge(150),
    cb.Cone.wedge(50),
    cb.Cone.from_weights([[1, 2]]),
]


def taught(make, cone, resolution=0.0, n=260):
    """Past the first fit of a model; every arm is tried, and some values are not known."""
    rng = np.random.default_rng(5)
    policy = make(4, cone, 2)
    if np.any(resolution):
        policy = type(policy)(cone=cone, **{**policy._arguments(), "resolution": resolution})
    for i in range(n):
        x, arm = rng.random(2), i % 4
        reward = np.array([arm * x[0], 1.0 - arm * x[1]]) + rng.normal(0.0, 0.3, 2)
        policy.observe(x, arm, [reward[0], np.nan] if i % 7 == 6 else reward)
    return policy


def same(one, other):
    rows = np.random.default_rng(1).random((20, 2))
    for a, b in zip(one.fronts(rows), other.fronts(rows), strict=True):
        assert a.arms == b.arms
        for name in ("means", "radii", "chances"):
            np.testing.assert_array_equal(getattr(a, name), getattr(b, name))
    for name, array in one.state().items():
        if name != "cheap":  # where arms cost least, which a ConeKernel finds out at its next fit; no report needs it
            np.testing.assert_array_equal(array, other.state()[name], err_msg=name)
    if "cheap" not in one.state():
        np.testing.assert_array_equal(one.decide_many(rows, range(20)).arms, other.decide_many(rows, range(20)).arms)


@pytest.mark.parametrize("kind", sorted(set(KINDS) - ELIMINATE))
def test_it_is_the_policy_that_had_the_cone_from_the_start(kind):
    policy = taught(KINDS[kind], CONES[0])
    before = policy.state()
    for cone in CONES[1:]:
        for resolution in ((0.0, 0.0), (0.1, 0.3)):
            same(under_cone(policy, cone, resolution), taught(KINDS[kind], cone, resolution))
    for name, array in policy.state().items():
        np.testing.assert_array_equal(array, before[name])


@pytest.mark.parametrize("kind", sorted(ELIMINATE))
def test_what_is_eliminated_under_a_cone_is_not_known_under_another(kind):
    assert under_cone(taught(KINDS[kind], CONES[0]), CONES[1], 0.0) is None


def test_the_cone_must_be_of_as_many_metrics():
    with pytest.raises(ValueError, match="cone must have dimension 2, as that of the policy; got 3"):
        under_cone(cb.ParetoUCB1(2, CONES[0], 1), cb.Cone.orthant(3), 0.0)
