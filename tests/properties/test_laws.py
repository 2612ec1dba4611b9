"""Laws that hold for every input, looked for by hypothesis."""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from conebandit import Cone, additive_gap, dominance_distance, gap, hausdorff, log_hausdorff, pareto_mask, shortfall
from conebandit.regret import SERIES, regret_series

pytestmark = pytest.mark.untraced


@st.composite
def cones(draw, dim=None, wide=False):
    """Any proper cone with small integer facets or rays, in one to four dimensions; if wide, around the orthant."""
    m = draw(st.integers(1, 4)) if dim is None else dim
    row = st.lists(st.integers(0 if wide else -5, 5), min_size=m, max_size=m).filter(any)
    rows = draw(st.lists(row, min_size=1, max_size=6))
    make = Cone.from_facets if wide else draw(st.sampled_from([Cone.from_facets, Cone.from_rays]))
    try:
        return make(rows)
    except ValueError:
        assume(False)


@st.composite
def cone_and_points(draw, positive=False, wide=False):
    """A cone and up to 12 points on a coarse grid, so that ties and duplicates are common and arithmetic is exact."""
    cone = draw(cones(wide=wide))
    low = 1 if positive else -16
    n = draw(st.integers(1, 12))
    points = draw(arrays(np.int64, (n, cone.dim), elements=st.integers(low, 32)))
    return cone, points / 8.0


def sets(m=2):
    return arrays(np.int64, st.tuples(st.integers(1, 5), st.just(m)), elements=st.integers(1, 40)).map(lambda x: x / 8)


@given(cone_and_points())
def test_the_front_is_never_empty_and_nothing_on_it_is_dominated(case):
    cone, points = case
    mask = pareto_mask(points, cone)
    assert mask.any()
    front = points[mask]
    assert not cone.dominates(front[:, None], front[None]).any()
    beaten = points[~mask]
    assert cone.dominates(front[:, None], beaten[None]).any(axis=0).all()


@given(cone_and_points(), st.randoms(use_true_random=False))
def test_permutation(case, random):
    cone, points = case
    order = random.sample(range(len(points)), len(points))
    np.testing.assert_array_equal(pareto_mask(points[order], cone), pareto_mask(points, cone)[order])


@given(cone_and_points(), st.integers(-64, 64))
def test_order_is_translation_invariant(case, shift):
    cone, points = case
    moved = points + shift / 8
    np.testing.assert_array_equal(pareto_mask(moved, cone), pareto_mask(points, cone))
    np.testing.assert_allclose(
        additive_gap(moved, pareto_mask(points, cone), cone),
        additive_gap(points, pareto_mask(points, cone), cone),
        atol=1e-9,
    )


@given(cone_and_points(positive=True), st.floats(1e-6, 1e6))
def test_gap_is_scale_invariant(case, factor):
    cone, points = case
    mask = pareto_mask(points, cone)
    np.testing.assert_allclose(gap(points * factor, mask, cone), gap(points, mask, cone), atol=1e-9)


@given(cone_and_points(positive=True), st.integers(-3, 3))
def test_gap_of_the_orthant_ignores_the_unit_of_each_objective(case, power):
    _, points = case
    cone = Cone.orthant(points.shape[1])
    mask = pareto_mask(points, cone)
    units = 2.0 ** (power * np.arange(points.shape[1]))
    np.testing.assert_allclose(gap(points * units, mask, cone), gap(points, mask, cone), atol=1e-12)


@given(cone_and_points(), st.data())
def test_widening_the_cone_never_adds_a_front_arm(case, data):
    cone, points = case
    extra = data.draw(st.lists(st.integers(-5, 5), min_size=cone.dim, max_size=cone.dim).filter(any))
    try:
        wider = Cone.from_rays(np.vstack([cone.rays, extra]))
    except ValueError:
        assume(False)
    assert cone.is_subset_of(wider)
    assume(wider.is_pointed)  # see the test below
    assert not (pareto_mask(points, wider) & ~pareto_mask(points, cone)).any()


def test_widening_to_a_cone_that_ignores_a_metric_can_add_an_arm():
    points = [[1, 1], [1, 0]]
    assert pareto_mask(points, Cone.orthant(2)).tolist() == [True, False]
    assert pareto_mask(points, Cone.from_weights([[1, 0]])).tolist() == [True, True]


@given(cone_and_points(positive=True))
def test_gap_is_zero_iff_weakly_undominated(case):
    cone, points = case
    mask = pareto_mask(points, cone)
    strongly = cone.strongly_dominates(points[mask][:, None], points[None]).any(axis=0)
    for gaps in (gap(points, mask, cone), additive_gap(points, mask, cone)):
        assert (gaps >= 0).all()
        np.testing.assert_array_equal(gaps > 0, strongly)


@given(cone_and_points(positive=True, wide=True))
def test_scaling_by_the_gap_reaches_the_front_when_uniform_scaling_is_optimal(case):
    cone, points = case
    mask = pareto_mask(points, cone)
    scaled = points * np.exp(gap(points, mask, cone))[:, None] * (1 + 1e-9)
    assert not cone.strongly_dominates(points[mask][:, None], scaled[None]).any()


@given(cone_and_points(positive=True), st.data())
def test_a_larger_front_never_lowers_the_gap(case, data):
    cone, points = case
    part = data.draw(arrays(bool, len(points)))
    assume(part.any())
    assert (gap(points, points[part], cone) <= gap(points, points, cone) + 1e-12).all()


@given(sets(), sets(), sets())
def test_log_hausdorff_is_a_metric(a, b, c):
    assert log_hausdorff(a, a) == 0
    assert log_hausdorff(a, b) == log_hausdorff(b, a) >= 0
    same = {tuple(r) for r in a} == {tuple(r) for r in b}
    assert (log_hausdorff(a, b) == 0) == same
    assert log_hausdorff(a, c) <= log_hausdorff(a, b) + log_hausdorff(b, c) + 1e-12
    assert hausdorff(a, c) <= hausdorff(a, b) + hausdorff(b, c) + 1e-12


def reports(case, data):
    """The points and which of them are on the front and which, at least one, are reported."""
    cone, points = case
    reported = data.draw(arrays(bool, len(points)))
    assume(reported.any())
    return cone, points, pareto_mask(points, cone), reported


@given(cone_and_points(positive=True), st.data())
def test_shortfall_is_zero_iff_the_report_weakly_dominates_the_front(case, data):
    cone, points, front, reported = reports(case, data)
    covered = cone.weakly_dominates(points[reported][:, None], points[front][None]).any(axis=0).all()
    ours = shortfall(points[reported], points[front], cone)
    assert ours >= 0
    assert (ours == 0) == covered


@given(cone_and_points(positive=True), st.data())
def test_a_longer_report_never_falls_shorter(case, data):
    cone, points, front, reported = reports(case, data)
    more = reported | data.draw(arrays(bool, len(points)))
    assert shortfall(points[more], points[front], cone) <= shortfall(points[reported], points[front], cone) + 1e-9


@given(cone_and_points(positive=True, wide=True), st.data())
def test_shortfall_is_at_most_coverage_if_more_is_always_better(case, data):
    cone, points, front, reported = reports(case, data)
    ours = shortfall(points[reported], points[front], cone)
    assert ours <= log_hausdorff(points[reported], points[front]) + 1e-12
    scaled = points[reported] * np.exp(ours) * (1 + 1e-9)
    assert cone.weakly_dominates(scaled[:, None], points[front][None]).any(axis=0).all()


@given(cone_and_points(positive=True), st.data(), st.floats(1e-6, 1e6))
def test_shortfall_is_scale_invariant(case, data, factor):
    cone, points, front, reported = reports(case, data)
    ours = shortfall(points[reported], points[front], cone)
    np.testing.assert_allclose(shortfall(factor * points[reported], factor * points[front], cone), ours, atol=1e-9)


@given(cone_and_points(), st.integers(0, 40))
def test_there_is_an_essential_arm_and_up_to_two_facets_without_a_circle(case, eighths):
    cone, points = case
    found = pareto_mask(points, cone, resolution=eighths / 8)
    assert found.any()
    if eighths == 0:
        np.testing.assert_array_equal(found, pareto_mask(points, cone))
    if len(cone.facets) <= 2:
        rise = (points[:, None] - points[found][None]) @ cone.facets.T
        slack = np.abs(cone.facets).sum(axis=1) * eighths / 8
        assert not ((rise >= -slack).all(axis=-1) & (rise > slack).any(axis=-1)).any()


@given(cone_and_points(), st.integers(0, 40), st.integers(-64, 64), st.sampled_from([0.25, 1.0, 8.0]))
def test_essential_arms_do_not_depend_on_origin_and_unit(case, eighths, shift, unit):
    cone, points = case
    moved = pareto_mask(unit * (points + shift / 8), cone, resolution=unit * eighths / 8)
    np.testing.assert_array_equal(moved, pareto_mask(points, cone, resolution=eighths / 8))


@given(cone_and_points())
def test_at_a_resolution_beyond_all_differences_everything_is_essential(case):
    cone, points = case
    assert pareto_mask(points, cone, resolution=np.ptp(points, axis=0)).all()


@given(cone_and_points(positive=True), st.integers(0, 16), st.data())
def test_series_at_a_resolution(case, eighths, data):
    cone, points, front, reported = reports(case, data)
    arms = np.arange(len(points))
    masks = [np.repeat(mask[None], len(arms), axis=0) for mask in (reported, pareto_mask(points, cone))]
    means, resolution = np.repeat(points[None], len(arms), axis=0), eighths / 8
    exact, coarse = (regret_series(means, cone, arms, *masks, resolution=r) for r in (0.0, resolution))
    unacceptable = cone.strongly_dominates(points[front][:, None], points[None]).any(axis=0)
    np.testing.assert_array_equal(exact["play"] > 0, unacceptable)
    assert (coarse["play"] <= exact["play"] + 1e-12).all()
    for name in SERIES:
        if name not in ("play", "missed", "bad"):
            np.testing.assert_array_equal(coarse[name], exact[name])
    needed = pareto_mask(points, cone, resolution=resolution)
    masks[0][:] = needed
    perfect = regret_series(means, cone, arms, *masks, resolution=resolution)
    assert (perfect["missed"] == 0).all()
    assert (perfect["bad"] == 0).all()
    assert (perfect["play"][needed] == 0).all()


@given(sets(), sets(), cones(dim=2, wide=True))
def test_between_fronts_of_a_wide_cone_dominance_distance_is_the_smaller_one(a, b, cone):
    a, b = a[pareto_mask(a, cone)], b[pareto_mask(b, cone)]
    assert dominance_distance(a, b, cone) <= log_hausdorff(a, b) + 1e-12


@given(cones())
def test_facets_and_rays_are_two_views_of_one_cone(cone):
    assert Cone.from_facets(cone.facets) == cone == Cone.from_rays(cone.rays)
    assert (cone.rays @ cone.facets.T >= 0).all()
    assert cone.is_pointed == (np.linalg.matrix_rank(cone.facets) == cone.dim)
    if cone.is_pointed:
        assert cone.dual.dual == cone
