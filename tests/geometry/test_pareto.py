"""Fronts: every fast path against plain comparison, and the nasty cases."""

import numpy as np
import pytest

from conebandit import Cone, pareto_mask
from conebandit.geometry.pareto import FEW, MODEST, STRONG
from conebandit.kernels import order as kernels

from .. import oracles

C3 = Cone.from_rays([[1, 0.6], [0.6, 1]])
ROUND = Cone.from_rays([[1, np.cos(a) / 2, np.sin(a) / 2] for a in np.linspace(0, 2 * np.pi, 9)[:-1]])


def cones() -> list[Cone]:
    return [
        Cone.orthant(1),
        Cone.orthant(2),
        C3,
        Cone.wedge(130),
        Cone.from_weights([[0.3, 0.7]]),
        Cone.orthant(3),
        Cone.from_rays([[2, 1, 1], [1, 2, 1], [1, 1, 2]]),
        Cone.from_facets([[1, 0, 0], [0, 1, -1]]),
        ROUND,
        Cone.orthant(4),
        Cone.orthant(5),
        Cone.from_facets([[3, 1, 0, 0, 0], [1, 3, 0, 0, 0], [0, 0, 1, 1, 0], [0, 0, 0, 1, 2], [0, 0, 1, 0, 5]]),
    ]


@pytest.mark.untraced
@pytest.mark.parametrize("cone", cones(), ids=lambda c: f"{c.dim}d-{len(c.facets)}facets")
@pytest.mark.parametrize("kind", ["uniform", "grid", "front", "line", "equal"])
def test_equals_plain_comparison(cone, kind, rng):
    for n in (1, 2, 3, 17, 150):
        points = {
            "uniform": lambda n=n: rng.random((n, cone.dim)),
            "grid": lambda n=n: rng.integers(0, 4, (n, cone.dim)).astype(float),
            "front": lambda n=n: _sphere(rng, n, cone.dim),
            "line": lambda n=n: np.linspace(0, 1, n)[:, None] * np.ones(cone.dim),
            "equal": lambda n=n: np.full((n, cone.dim), 0.1) + 0.2,
        }[kind]()
        expected = oracles.front_by_pairs(points, cone.facets)
        np.testing.assert_array_equal(pareto_mask(points, cone), expected)
        np.testing.assert_array_equal(pareto_mask(points[None], cone), expected[None])


def _sphere(rng: np.random.Generator, n: int, dim: int) -> np.ndarray:
    x = np.abs(rng.normal(size=(n, dim)))
    return x / np.linalg.norm(x, axis=1, keepdims=True)


@pytest.mark.parametrize("dim", [4, 5, 6])
@pytest.mark.parametrize("kind", ["sphere", "simplex-grid", "mixed"])
def test_bit_sets_equal_plain_comparison(dim, kind, rng):
    n = 1500
    points = _sphere(rng, n, dim)
    if kind == "simplex-grid":  # integer points of equal sum: all undominated, many equal sums and coordinates
        points = rng.multinomial(12, np.full(dim, 1 / dim), size=n).astype(float)
    if kind == "mixed":
        points[::3] *= rng.uniform(0.9, 1, size=(len(points[::3]), 1))
    beats = (points[:, None] >= points[None]).all(axis=2) & (points[:, None] > points[None]).any(axis=2)
    assert (~beats.any(axis=0)).sum() > MODEST
    np.testing.assert_array_equal(pareto_mask(points, Cone.orthant(dim)), ~beats.any(axis=0))


def test_large_and_small_sets_take_different_paths_to_the_same_answer(rng):
    for cone in cones():
        points = rng.integers(0, 6, (FEW + 40, cone.dim)) / 10
        small = points[:FEW]
        np.testing.assert_array_equal(pareto_mask(small[None], cone)[0], pareto_mask(small, cone))
        np.testing.assert_array_equal(pareto_mask(points[None], cone)[0], pareto_mask(points, cone))
        assert len(points) > STRONG


def test_integer_points_under_c3_in_any_unit():
    """Ties on both facets everywhere, which facet rows of unit length would turn into rounding errors."""
    full = np.array([[i, j] for i in range(20) for j in range(20)])
    for grid in (full, np.random.default_rng(0).integers(0, 40, (400, 2))):
        exact = oracles.front_exactly(grid.tolist(), [[5, -3], [-3, 5]])
        for points in (grid, grid / 10, grid * 0.3 + 1e3, grid * 1e-9):
            np.testing.assert_array_equal(pareto_mask(points, C3), exact)
            np.testing.assert_array_equal(pareto_mask(points[None, :60], C3)[0], pareto_mask(points[:60], C3))


def test_integer_grids_in_exact_arithmetic(rng):
    for _ in range(40):
        dim = int(rng.integers(2, 5))
        while True:
            facets = rng.integers(-4, 8, (dim, dim))
            try:
                cone = Cone.from_facets(facets)
                break
            except ValueError:
                continue
        points = rng.integers(-9, 10, (60, dim))
        expected = oracles.front_exactly(points.tolist(), facets.tolist())
        np.testing.assert_array_equal(pareto_mask(points / 10, cone), expected)


def test_duplicates_stay():
    points = [[1.0, 2.0], [2.0, 1.0], [1.0, 2.0], [0.5, 0.5], [2.0, 1.0]]
    np.testing.assert_array_equal(pareto_mask(points, Cone.orthant(2)), [True, True, True, False, True])


@pytest.mark.parametrize("scale", [5e-324, 1e-300, 1e-12, 1e12, 1e300, 1.7e308])
@pytest.mark.parametrize("cone", [Cone.orthant(2), C3, Cone.orthant(4)], ids=["orthant", "C3", "4d"])
def test_huge_and_tiny_numbers(scale, cone):
    points = np.array([[1, 1, 1, 1], [1, 0, 1, 0], [0, 1, 1, 1], [-1, -1, -1, -1]])[:, : cone.dim] * scale
    expected = oracles.front_exactly((points / scale).astype(int).tolist(), cone.facets.tolist())
    np.testing.assert_array_equal(pareto_mask(points, cone), expected)
    np.testing.assert_array_equal(pareto_mask(points[None], cone), [expected])


def test_small_numbers_beside_huge_ones_are_told_apart():
    small = [[1e-30, 1e-30], [2e-30, 2e-30]]
    assert pareto_mask([[[1e301, 1], [1, 1e301]], small], Cone.orthant(2)).tolist() == [[True, True], [False, True]]
    for cone in (Cone.orthant(2), C3):
        assert pareto_mask([[1e308, -1e308], *small], cone).tolist() == [True, False, True]


def test_chains_of_near_ties_never_empty_the_front():
    # Each beats the next by two tolerances on one facet and is within one on the others: a cycle, if ties were judged
    # pair by pair.
    t = 0.9e-12
    points = np.array([[1 + t, 1, 1 + 2 * t], [1, 1 + 2 * t, 1 + t], [1 + 2 * t, 1 + t, 1]])
    for cone in (Cone.orthant(3), Cone.from_rays([[2, 1, 1], [1, 2, 1], [1, 1, 2]])):
        assert pareto_mask(points, cone).any()
        assert pareto_mask(points[None], cone).any()


def test_ties_are_linked_in_order():
    values = np.array([1.0, 1 + 0.9e-12, 1 + 1.8e-12, 2.0])
    kernels.merge_ties(values, np.abs(values), np.argsort(values))
    np.testing.assert_array_equal(values, [1.0, 1.0, 1.0, 2.0])


@pytest.mark.parametrize(
    ("means", "error", "says"),
    [
        ([[1, 2, 3]], ValueError, "means must have 2 columns"),
        ([1, 2], ValueError, r"means must have shape \(N, M\) or \(n, K, M\)"),
        ([[[[1, 2]]]], ValueError, "means must have shape"),
        (np.empty((0, 2)), ValueError, "means must not be empty"),
        ([[1, np.nan]], ValueError, r"means must be finite; entry \(0, 1\) is nan"),
        ([[1, 1], [-np.inf, 1]], ValueError, r"means must be finite; entry \(1, 0\) is -inf"),
        ("abc", TypeError, "means must be an array of real numbers"),
        ([["1", "2"]], TypeError, "means must be an array of real numbers"),
    ],
)
def test_bad_input_is_refused(means, error, says):
    with pytest.raises(error, match=says):
        pareto_mask(means, Cone.orthant(2))


def test_input_is_not_changed(rng):
    for cone in (Cone.orthant(2), C3):
        points = rng.random((50, 2))
        points[1] = points[0] + 1e-16
        before = points.copy()
        pareto_mask(points, cone)
        pareto_mask(points[None], cone)
        np.testing.assert_array_equal(points, before)
