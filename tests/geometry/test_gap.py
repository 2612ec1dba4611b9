"""Gaps against independent formulations, and distances between sets."""

import itertools

import numpy as np
import pytest

from conebandit import Cone, additive_gap, dominance_distance, gap, hausdorff, log_hausdorff, pareto_mask

from .. import oracles

C3 = Cone.from_rays([[1, 0.6], [0.6, 1]])


def random_cone(kind: str, dim: int, rng: np.random.Generator) -> Cone:
    if kind == "orthant":
        return Cone.orthant(dim)
    while True:
        n = 2 if dim == 2 else int(rng.integers(dim, dim + 3))
        try:
            if kind == "wide":
                return Cone.from_facets(rng.integers(0, 10, (n, dim)))
            if kind == "narrow":
                return Cone.from_rays(rng.integers(1, 10, (n, dim)))
            return Cone.from_facets(rng.integers(-6, 7, (n, dim)))  # neither contains the orthant nor lies in it
        except ValueError:
            continue


def random_case(kind: str, dim: int, rng: np.random.Generator) -> tuple[Cone, np.ndarray, np.ndarray]:
    cone = random_cone(kind, dim, rng)
    front = rng.uniform(0.3, 1.5, (int(rng.integers(1, 31)), dim))
    return cone, rng.uniform(0.05, 0.6, dim), front[pareto_mask(front, cone)]


# ---- exactness ------------------------------------------------------------------------------------------------------


@pytest.mark.untraced
@pytest.mark.parametrize("kind", ["orthant", "wide", "narrow", "oblique"])
@pytest.mark.parametrize("dim", [2, 3, 4])
def test_gap_equals_mixed_integer_programming(kind, dim):
    """12 x 60 = 720 random cases, fronts of up to 30 points."""
    rng = np.random.default_rng([dim, len(kind)])
    most = 50.0
    positive = 0
    for _ in range(60):
        cone, x, front = random_case(kind, dim, rng)
        ours = gap(x[None], front, cone)[0]
        theirs = np.log1p(oracles.smallest_move_by_milp(x, front, cone.facets, x, most))
        if np.isinf(theirs):
            assert ours > np.log(most)
        else:
            assert ours == pytest.approx(theirs, abs=1e-6)
        if kind in ("orthant", "wide"):
            assert ours == pytest.approx(oracles.closed_form_gap(x, front, cone.facets), abs=1e-12)
        positive += ours > 0
    assert positive >= 10  # the cases are not all trivial


@pytest.mark.untraced
@pytest.mark.parametrize("kind", ["narrow", "oblique"])
def test_gap_equals_enumeration_of_all_corners(kind):
    rng = np.random.default_rng(5)
    for _ in range(15):
        cone, x, front = random_case(kind, int(rng.integers(2, 4)), rng)
        front = front[:4]
        ours = gap(x[None], front, cone)[0]
        theirs = np.log1p(oracles.smallest_move_by_corners(x, front, cone.facets, x))
        np.testing.assert_allclose(ours, theirs, atol=1e-8)


@pytest.mark.parametrize("kind", ["orthant", "wide", "narrow", "oblique"])
def test_additive_gap_equals_independent_formulations(kind):
    rng = np.random.default_rng(6)
    for _ in range(60):
        cone, x, front = random_case(kind, int(rng.integers(2, 5)), rng)
        x, front = x - 0.7, front - 0.7  # any sign
        per_objective = additive_gap(x[None], front, cone, per_objective=True)[0]
        expected = oracles.smallest_move_by_milp(x, front, cone.facets, np.ones(cone.dim), 50.0)
        if np.isfinite(expected):
            assert per_objective == pytest.approx(expected, abs=1e-6)
        uniform = additive_gap(x[None], front, cone)[0]
        assert uniform >= per_objective - 1e-12
        if np.isfinite(uniform):  # just before, dominated; at it, not
            moved = x + uniform
            assert not cone.strongly_dominates(front, moved + 1e-9 * np.sign(cone.facets.sum(axis=0))).all()
            assert additive_gap((x + uniform)[None], front, cone)[0] == pytest.approx(0, abs=1e-9)
            if uniform > 1e-6:
                grid = np.linspace(0, uniform * (1 - 1e-6), 200)
                dominated = cone.strongly_dominates(front[None], (x + grid[:, None])[:, None]).any(axis=1)
                assert dominated.all()


def test_many_facets_and_many_front_points():
    rng = np.random.default_rng(9)
    angles = np.linspace(0, 2 * np.pi, 13)[:-1]
    cone = Cone.from_rays([[2, 2 + np.cos(a), 2 + np.sin(a)] for a in angles])
    assert len(cone.facets) == 12
    front = rng.uniform(0.5, 1.5, (15, 3))
    front = front[pareto_mask(front, cone)]
    x = np.array([[0.3, 0.3, 0.3], [0.4, 0.2, 0.5]])
    ours = gap(x, front, cone)
    for xi, g in zip(x, ours, strict=True):
        assert g == pytest.approx(np.log1p(oracles.smallest_move_by_milp(xi, front, cone.facets, xi, 10.0)), abs=1e-6)


def test_scaling_the_coordinates_must_be_joint_over_the_front():
    """The largest of the gaps to single front points is too small for a narrow cone."""
    rng = np.random.default_rng(2)
    short = 0
    for _ in range(300):
        front = rng.uniform(0.5, 1.5, (6, 2))
        front = front[pareto_mask(front, C3)]
        x = rng.uniform(0.2, 0.6, (1, 2))
        joint = gap(x, front, C3)[0]
        single = max(gap(x, p[None], C3)[0] for p in front)
        assert single <= joint + 1e-12
        short += single < joint - 1e-9
    assert short > 50


# ---- shapes, ties, scales -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("cone", [Cone.orthant(2), C3, Cone.wedge(120)], ids=["orthant", "narrow", "wide"])
def test_batches_equal_single_calls(cone, rng):
    means = rng.uniform(0.1, 1, (30, 7, 2))
    mask = pareto_mask(means, cone)
    for function in (gap, additive_gap):
        batched = function(means, mask, cone)
        assert batched.shape == (30, 7)
        for i in range(30):
            np.testing.assert_array_equal(batched[i], function(means[i], mask[i], cone))
            np.testing.assert_array_equal(batched[i], function(means[i], means[i][mask[i]], cone))
    fronts = rng.uniform(0.5, 1, (30, 3, 2))
    each = gap(means, fronts, cone)
    np.testing.assert_array_equal(each[4], gap(means[4], fronts[4], cone))
    shared = gap(means, fronts[0], cone)
    np.testing.assert_array_equal(shared[4], gap(means[4], fronts[0], cone))


def test_a_tie_on_a_facet_has_gap_zero_though_dominated():
    arms = np.array([[0.80, 0.90], [0.95, 1.15]])
    assert not pareto_mask(arms, C3)[0]
    np.testing.assert_array_equal(gap(arms, [False, True], C3), [0, 0])


@pytest.mark.parametrize("scale", [1e-300, 1e-12, 1e12, 1e300])
@pytest.mark.parametrize("cone", [Cone.orthant(2), C3, Cone.wedge(130)], ids=["orthant", "narrow", "wide"])
def test_scales(scale, cone, rng):
    means = rng.uniform(0.1, 1, (20, 2))
    front = pareto_mask(means, cone)
    np.testing.assert_allclose(gap(means * scale, front, cone), gap(means, front, cone), rtol=1e-9)
    for per_objective in (False, True):
        small = additive_gap(means, front, cone, per_objective=per_objective)
        large = additive_gap(means * scale, front, cone, per_objective=per_objective)
        np.testing.assert_allclose(large / scale, small, rtol=1e-9)


def test_tiny_gaps_keep_their_relative_accuracy():
    """A point just below a facet of the front: the gap is known in closed form, however small."""
    front = np.array([[1.0, 1.0]])
    for shortfall in (1e-3, 1e-6, 1e-9):
        x = front * (1 - shortfall)
        # Escape by one facet: raise one coordinate until 1.25 y1 - 0.75 y2 = 0.5.
        expected = np.log1p((0.5 - 0.5 * (1 - shortfall)) / (1.25 * (1 - shortfall)))
        assert gap(x, front, C3)[0] == pytest.approx(expected, rel=1e-5)


def test_cones_for_which_more_is_not_better():
    less = Cone.from_facets([[-1, -1]])
    assert np.isinf(gap([[1.0, 1.0]], [[0.5, 0.5]], less)[0])
    assert np.isinf(additive_gap([[1.0, 1.0]], [[0.5, 0.5]], less)[0])
    assert np.isinf(additive_gap([[1.0, 1.0]], [[0.5, 0.5]], less, per_objective=True)[0])
    mixed = Cone.from_facets([[1, 0], [0, -1]])
    assert gap([[1.0, 1.0]], [[2.0, 0.5]], mixed)[0] == pytest.approx(np.log(2))
    level = Cone.from_facets([[1, -1], [1, 0]])  # adding the same to both never changes the first facet
    assert additive_gap([[0.0, 0.0]], [[2.0, 1.0]], level)[0] == pytest.approx(2)
    # On the way out of one point's reach the arm comes into another's, and must go on.
    falling = Cone.from_facets([[1, 0], [1, -3]])
    arm, front = [[0.0, 0.0]], [[1.0, -1.0], [2.0, 1.2]]
    assert additive_gap(arm, front[:1], falling)[0] == pytest.approx(1)
    assert additive_gap(arm, front, falling)[0] == pytest.approx(2)


def test_very_different_scales_of_the_objectives():
    for cone in (Cone.from_facets([[1, -1]]), Cone.from_facets([[1, -1], [1, -2]])):
        assert gap([[1e-6, 1e6]], [[1.0, 1e6]], cone)[0] == pytest.approx(np.log(1e6))
    flat = Cone.from_facets([[1e-13, -1]])
    assert additive_gap([[0.0, 0.0]], [[1e13, 0.0]], flat, per_objective=True)[0] == pytest.approx(1e13)


def test_additive_gap_respects_ties_in_any_unit():
    cone = Cone.from_facets([[1, 0], [0, -1]])
    x, front = np.array([[1, 5]]), np.array([[4, 6], [2, 4]])
    for unit in (1, 7, 10, 1 / 0.3):
        assert additive_gap(x / unit, front / unit, cone)[0] * unit == pytest.approx(1)


def test_wanted_gaps_only(rng):
    means = rng.uniform(0.1, 1, (20, 6, 2))
    mask, where = pareto_mask(means, C3), rng.random((20, 6)) < 0.5
    some = gap(means, mask, C3, where=where)
    np.testing.assert_array_equal(some[where], gap(means, mask, C3)[where])
    assert np.isnan(some[~where]).all()


def test_floor_cuts_means_and_front():
    means = [[0.0, 1.0], [1.0, 0.5], [0.2, 0.1]]
    front = [True, True, False]
    cut = np.maximum(means, 0.05)
    np.testing.assert_array_equal(gap(means, front, Cone.orthant(2), floor=0.05), gap(cut, front, Cone.orthant(2)))
    assert dominance_distance([[0.0, 1.0]], [[1.0, 2.0]], Cone.orthant(2), floor=0.5) == pytest.approx(np.log(2))
    assert log_hausdorff([[0.0, 1.0]], [[1.0, 1.0]], floor=0.5) == pytest.approx(np.log(2))


@pytest.mark.parametrize(
    ("call", "error", "says"),
    [
        (lambda: gap([[0.0, 1.0]], [[1, 1]], C3), ValueError, "means must be positive.*floor"),
        (lambda: gap([[1.0, 1.0]], [[-1, 1]], C3), ValueError, "front must be positive.*additive_gap"),
        (lambda: gap([[1.0, 1.0]], [[1, 1]], C3, floor=0), ValueError, "floor must be a positive number"),
        (
            lambda: gap([[1.0, 1.0]], [[1, 1]], C3, floor=np.nan),
            ValueError,
            "floor must be a positive number",
        ),
        (lambda: gap([[1.0, 1.0]], [[1, 1]], C3, floor="x"), ValueError, "floor must be a positive number"),
        (lambda: gap([[1.0, 1.0]], [[1, 1]], np.eye(2)), TypeError, "cone must be a conebandit.Cone"),
        (lambda: gap([[1.0, 1.0]], [[1, 1], [1]], C3), TypeError, "front must be an array of real numbers"),
        (lambda: gap([[1.0, 1.0]], [[1, 1]], C3, where=[1]), ValueError, "where must be a boolean array"),
        (lambda: log_hausdorff([[1, 1], [1]], [[1, 1]]), TypeError, "a must be an array of real numbers"),
        (lambda: hausdorff([[10**400, 1]], [[1, 1]]), TypeError, "a must be an array of real numbers"),
        (lambda: hausdorff(np.ma.masked_array([[1.0, 1.0]], mask=True), [[1, 1]]), TypeError, "a must be an array"),
        (lambda: gap([[1.0, 1.0]], [True, False], C3), ValueError, r"mask of shape \(2,\)"),
        (lambda: gap([[1.0, 1.0]], [False], C3), ValueError, "front selects no point in set 0"),
        (lambda: gap([[1.0, 1.0]], np.empty((0, 2)), C3), ValueError, "front must not be empty"),
        (
            lambda: gap(np.ones((3, 2, 2)), np.ones((2, 2, 2)), C3),
            ValueError,
            "front has 2 sets but means have 3",
        ),
        (lambda: gap([[1.0, 1.0, 1.0]], [[1, 1]], C3), ValueError, "means must have 2 columns"),
        (lambda: additive_gap([[np.nan, 1.0]], [[1, 1]], C3), ValueError, "means must be finite"),
        (lambda: dominance_distance([[1, 1]], [[0, 1]], C3), ValueError, "b must be positive"),
        (lambda: log_hausdorff([[0, 1]], [[1, 1]]), ValueError, "a must be positive"),
        (lambda: log_hausdorff([[1, 1]], [[1, 1, 1]]), ValueError, "b must have 2 columns"),
        (lambda: log_hausdorff(1.0, [[1, 1]]), ValueError, "a must have shape"),
        (lambda: hausdorff([[1, 1]], [[[1, 1]]]), ValueError, "same number of sets"),
        (lambda: hausdorff([[1, 1]], [[1, 1]], in_a=[False]), ValueError, "in_a selects no point"),
        (lambda: hausdorff([[1, 1]], [[1, 1]], in_b=[1]), ValueError, "in_b must be a boolean array"),
    ],
)
def test_bad_input_is_refused(call, error, says):
    with pytest.raises(error, match=says):
        call()


# ---- distances ------------------------------------------------------------------------------------------------------


def test_dominance_distance_is_not_a_metric():
    cone = Cone.orthant(2)
    assert dominance_distance([[1, 2]], [[2, 1]], cone) == 0  # zero between different sets
    # The middle set reaches both ends without being dominated; the ends are far from each other.
    low, middle, high = [[1.0, 1.0]], [[0.5, 4.0]], [[3.0, 3.0]]
    assert dominance_distance(low, middle, cone) == 0
    assert dominance_distance(middle, high, cone) == 0
    assert dominance_distance(low, high, cone) == pytest.approx(np.log(3))


def test_a_quarter_of_antichain_triples_break_its_triangle_inequality():
    rng = np.random.default_rng(0)
    cone = Cone.orthant(2)
    broken = 0
    for _ in range(400):
        sets = [rng.uniform(0.1, 1, (int(rng.integers(1, 5)), 2)) for _ in range(3)]
        a, b, c = (s[pareto_mask(s, cone)] for s in sets)
        d = dominance_distance
        broken += d(a, c, cone) > d(a, b, cone) + d(b, c, cone) + 1e-12
        assert log_hausdorff(a, c) <= log_hausdorff(a, b) + log_hausdorff(b, c) + 1e-12
    assert broken > 40


def test_the_hausdorff_example_of_the_paper():
    """The fronts come close to {(1,0), (0,1), (0,0)} in the Hausdorff distance, where (0,0) is dominated."""
    corners = [[1.0, 0.0], [0.0, 1.0]]
    limit = [*corners, [0.0, 0.0]]
    cone = Cone.orthant(2)
    distances = []
    for t in (2, 10, 100, 1000):
        means = [*corners, [t**-2, t**-2]]
        assert pareto_mask(means, cone).all()
        distances.append(hausdorff(means, limit))
    np.testing.assert_allclose(distances, np.sqrt(2) / np.array([2, 10, 100, 1000]) ** 2)
    assert pareto_mask(limit, cone).tolist() == [True, True, False]
    # On a log scale the third arm never comes near the others, so this distance does not go to zero.
    far = [log_hausdorff([*corners, [t**-2, t**-2]], corners, floor=1e-12) for t in (10, 100, 1000)]
    assert min(far) > 4


def test_distances_equal_plain_loops(rng):
    for _ in range(50):
        a, b = (
            rng.uniform(0.1, 2, (int(rng.integers(1, 6)), 3)),
            rng.uniform(0.1, 2, (int(rng.integers(1, 6)), 3)),
        )
        for ours, norm, f in ((log_hausdorff, np.inf, np.log), (hausdorff, 2, np.asarray)):
            pairs = np.array([[np.linalg.norm(f(x) - f(y), norm) for y in b] for x in a])
            assert ours(a, b) == pytest.approx(max(pairs.min(axis=1).max(), pairs.min(axis=0).max()))


def test_masked_batches_equal_single_calls(rng):
    means = rng.uniform(0.1, 2, (40, 6, 2))
    in_a = rng.random((40, 6)) < 0.5
    in_b = rng.random((40, 6)) < 0.5
    in_a[:, 0] = in_b[:, 1] = True
    for function in (log_hausdorff, hausdorff):
        batched = function(means, means, in_a=in_a, in_b=in_b)
        for i in range(40):
            assert batched[i] == function(means[i][in_a[i]], means[i][in_b[i]])


def test_hausdorff_of_huge_and_tiny_sets():
    for scale in (1e-300, 1e300):
        assert hausdorff([[3 * scale, 4 * scale]], [[0, 0]]) == pytest.approx(5 * scale)


def test_dominance_distance_is_symmetric_and_uses_both_sides(rng):
    for cone, _ in itertools.product((Cone.orthant(2), C3), range(20)):
        a, b = rng.uniform(0.1, 1, (4, 2)), rng.uniform(0.1, 1, (3, 2))
        assert dominance_distance(a, b, cone) == dominance_distance(b, a, cone)
        assert dominance_distance(a, b, cone) == max(gap(a, b, cone).max(), gap(b, a, cone).max())


def test_gaps_whose_factor_overflows_are_finite_all_the_same():
    cones = (Cone.orthant(2), Cone.wedge(120), Cone.from_rays([[1, 0.6], [0.6, 1]]))
    for cone in cones:
        means, front = np.array([[1.0, 1.3], [0.8, 0.9]]), np.array([[2.0, 3.0], [3.0, 2.1]])
        # At 1e-100 no factor overflows, and a factor on the means adds its logarithm (nothing of 1 is left beside it).
        known = gap(1e-100 * means, front, cone) + 400 * np.log(10.0)
        np.testing.assert_allclose(gap(1e-300 * means, 1e200 * front, cone), known, rtol=1e-12)
        np.testing.assert_allclose(dominance_distance(1e-300 * means, 1e200 * front, cone), known.max(), rtol=1e-12)
    np.testing.assert_allclose(gap([[1e-200] * 2], [[1e200] * 2], cones[0]), 400 * np.log(10.0), rtol=1e-15)
