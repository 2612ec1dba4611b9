"""Cones: both descriptions, constructors, order, identity, errors."""

import pickle
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

from conebandit import Cone

from .. import oracles

C3 = Cone.from_rays([[1, 0.6], [0.6, 1]])


def random_cone_rays(rng: np.random.Generator, dim: int, n: int) -> np.ndarray:
    """Integer rays with repeats, multiples and ties thrown in; may fail to be a proper cone."""
    rays = rng.integers(-3, 6, size=(n, dim))
    return np.vstack([rays, 3 * rays[:1], rays[:1] + rays[-1:]])


def proper_cones(rng: np.random.Generator, count: int, dims: tuple[int, ...], most: int) -> list[np.ndarray]:
    found: list[np.ndarray] = []
    while len(found) < count:
        dim = int(rng.choice(dims))
        rays = random_cone_rays(rng, dim, int(rng.integers(dim, most)))
        rays = rays[rays.any(axis=1)]
        try:
            Cone.from_rays(rays)
        except ValueError:
            continue
        found.append(rays)
    return found


# ---- conversion -----------------------------------------------------------------------------------------------------


@pytest.mark.untraced
def test_facets_equal_enumeration_on_random_cones(rng):
    for rays in proper_cones(rng, 300, (2, 3, 4, 5), 9):
        cone = Cone.from_rays(rays)
        expected = oracles.facets_by_enumeration([tuple(int(x) for x in r) for r in rays])
        assert oracles.directions(cone.facets) == expected


@pytest.mark.untraced
def test_both_conversions_equal_ppl_on_random_cones(rng):
    ppl = pytest.importorskip("ppl", reason="pip install pplpy (Linux wheels) for the independent oracle")
    for rays in proper_cones(rng, 300, (2, 3, 4, 5, 6), 12):
        cone = Cone.from_rays(rays)
        dim = rays.shape[1]
        x = [ppl.Variable(i) for i in range(dim)]

        def linear(v, x=x):
            return sum((int(c) * x[i] for i, c in enumerate(v)), ppl.Linear_Expression(0))

        generators = ppl.Generator_System(ppl.point(0 * x[-1]))
        for r in rays:
            generators.insert(ppl.ray(linear(r)))
        body = ppl.C_Polyhedron(generators)
        facets = {tuple(int(c) for c in k.coefficients()) for k in body.minimized_constraints()}
        facets = {f + (0,) * (dim - len(f)) for f in facets}
        assert oracles.directions(cone.facets) == facets
        again = Cone.from_facets(cone.facets)
        assert again == cone
        if cone.is_pointed:
            extreme = {tuple(int(c) for c in g.coefficients()) for g in body.minimized_generators() if g.is_ray()}
            assert oracles.directions(cone.rays) == {e + (0,) * (dim - len(e)) for e in extreme}
            np.testing.assert_array_equal(again.rays, cone.rays)


def test_the_largest_promised_size():
    rng = np.random.default_rng(1)
    on_curve = [[int(t**k) for k in range(6)] for t in range(1, 25)]  # a cyclic cone: the most facets possible
    cyclic = Cone.from_rays(on_curve)
    assert cyclic.facets.shape == (420, 6)  # McMullen's bound for 24 vertices in dimension 5
    assert cyclic.rays.shape == (24, 6)
    sphere = rng.normal(size=(24, 5))
    sphere /= np.linalg.norm(sphere, axis=1, keepdims=True)
    assert Cone.from_rays(np.column_stack([np.ones(24), sphere])).rays.shape == (24, 6)


def test_non_pointed_cones_keep_their_subspace():
    half = Cone.from_weights([[0.5, 0.5]])
    assert not half.is_pointed
    np.testing.assert_array_equal(half.rays, [[1, 1], [1, -1], [-1, 1]])
    assert Cone.from_rays(half.rays) == half
    slab = Cone.from_facets([[1, 0, 0], [0, 1, 0]])
    np.testing.assert_array_equal(slab.rays, [[1, 0, 0], [0, 1, 0], [0, 0, 1], [0, 0, -1]])
    assert Cone.from_rays([[1, 0, 5], [0, 1, -2], [0, 0, 1], [0, 0, -1]]) == slab
    assert Cone.from_rays(slab.rays) == slab
    assert not half.dominates([1, 0], [0, 1])
    assert half.weakly_dominates([1, 0], [0, 1])
    assert half.dominates([1, 0.1], [0, 1])


def test_one_dimension_is_the_scalar_case():
    cone = Cone.orthant(1)
    assert cone.is_pointed
    assert cone == Cone.from_rays([[7]]) == Cone.from_facets([[0.3]])
    assert cone.dominates([2], [1])
    assert not cone.dominates([1], [1])


def test_facets_and_rays_describe_the_same_set(rng):
    for rays in proper_cones(rng, 50, (2, 3, 4), 8):
        cone = Cone.from_rays(rays)
        inside = rng.random((20, len(cone.rays))) @ cone.rays
        assert cone.contains(inside).all()
        assert (cone.rays @ cone.facets.T >= 0).all()
        outside = inside - cone.facets[0] * (2 + np.abs(inside @ cone.facets[0]))[:, None]
        assert not cone.contains(outside).any()


# ---- identity -------------------------------------------------------------------------------------------------------


def test_equality_ignores_scaling_order_and_redundancy(rng):
    for rays in proper_cones(rng, 100, (2, 3, 4, 5), 8):
        cone = Cone.from_rays(rays)
        shuffled = rng.permutation(rays) * rng.uniform(0.01, 100, size=(len(rays), 1))
        other = Cone.from_rays(np.vstack([shuffled, rays.sum(axis=0, keepdims=True)]))
        assert cone == other
        assert hash(cone) == hash(other)
        assert Cone.from_facets(rng.permutation(cone.facets) * rng.uniform(0.1, 7)) == cone


def test_equality_holds_for_irrational_input_too(rng):
    for _ in range(100):
        dim = int(rng.integers(2, 6))
        rays = rng.normal(size=(dim + 3, dim)) + 2.0
        cone = Cone.from_rays(rays)
        scaled = rays * rng.uniform(0.01, 100, size=(len(rays), 1))
        mixed = rng.uniform(0.1, 1, size=(2, len(rays))) @ rays
        edges = rays[:1] + rays[1:2]
        other = Cone.from_rays(rng.permutation(np.vstack([scaled, mixed, edges])))
        assert cone == other
        assert hash(cone) == hash(other)
        assert Cone.from_facets(cone.facets) == cone


def test_a_rotated_cube_has_six_facets():
    cube = np.array([[1.0, a, b, c] for a in (-1, 1) for b in (-1, 1) for c in (-1, 1)])
    turn, _ = np.linalg.qr(np.random.default_rng(3).normal(size=(4, 4)))
    cone = Cone.from_rays(cube @ turn)
    assert cone.facets.shape == (6, 4)
    assert cone.rays.shape == (8, 4)
    assert Cone.from_facets(cone.facets).rays.shape == (8, 4)


def test_different_cones_differ():
    assert Cone.orthant(2) != Cone.orthant(3)
    assert Cone.orthant(2) != Cone.wedge(89.9)
    assert Cone.orthant(2) != "Cone.orthant(2)"


def test_cones_are_immutable_and_can_be_pickled():
    with pytest.raises(AttributeError, match="immutable"):
        C3.names = ("a", "b")
    with pytest.raises(ValueError, match="read-only"):
        C3.facets[0, 0] = 5
    named = Cone.orthant(2, names=["a", "b"])
    copy = pickle.loads(pickle.dumps(named))
    assert copy == named
    assert copy.names == ("a", "b")
    assert copy.contains_orthant
    assert not copy.facets.flags.writeable
    with pytest.raises(TypeError, match="from_facets"):
        Cone()


def test_repr_reads_back():
    for cone in (
        Cone.orthant(3),
        C3,
        Cone.orthant(2, names=["a", "b"]),
        Cone.from_weights([[1, 2]], names=["x", "y"]),
    ):
        assert eval(repr(cone)) == cone
        assert eval(repr(cone)).names == cone.names


# ---- constructors ---------------------------------------------------------------------------------------------------


def test_wedge_of_90_degrees_is_the_orthant():
    cone = Cone.wedge(90)
    assert cone == Cone.orthant(2)
    assert hash(cone) == hash(Cone.orthant(2))
    assert cone.dominates([1, 1], [1, 0])
    np.testing.assert_array_equal(cone.facets, np.eye(2))


def test_wedges_open_with_the_angle():
    for degrees in (1, 30, 60, 120, 179, 180):
        cone = Cone.wedge(degrees)
        half = np.radians(degrees / 2)
        along = lambda a: [np.cos(np.pi / 4 + a), np.sin(np.pi / 4 + a)]  # noqa: E731
        assert cone.contains(along(0.999 * half))
        assert cone.contains(along(-0.999 * half))
        assert not cone.contains(along(1.001 * half))
        assert cone.is_pointed == (degrees < 180)
        assert cone.contains_orthant == (degrees >= 90)
    assert Cone.wedge(60).is_subset_of(Cone.wedge(61))
    assert not Cone.wedge(61).is_subset_of(Cone.wedge(60))


def test_weights_and_ranges():
    two = Cone.from_weights([{"efficacy": 0.7, "safety": 0.3}, {"safety": 0.6, "efficacy": 0.4}])
    assert two == Cone.from_weights([[7, 3], [4, 6]])
    assert two == Cone.from_weight_ranges({"efficacy": (0, 1), "safety": (0.3, 0.6)})
    three = Cone.from_weight_ranges({"a": (0.2, 0.5), "b": (0.2, 0.5), "c": (0.2, 0.5)})
    assert three.names == ("a", "b", "c")
    assert len(three.facets) == 6  # a hexagon of weightings
    assert Cone.from_weight_ranges({"a": (0, 1), "b": (0, 1)}) == Cone.orthant(2)
    assert Cone.from_weights([{"a": 1}, {"b": 1}], names=["a", "b"]) == Cone.orthant(2)


def test_tradeoffs_read_as_exchange_rates():
    names = ["efficacy", "safety"]
    cone = Cone.from_tradeoffs("one unit of efficacy is worth at most 3 of safety", names=names)
    assert cone.contains([-1, 3])
    assert not cone.contains([-1, 2.99])
    assert not cone.contains([1, -0.01])
    assert cone.names == ("efficacy", "safety")
    both = Cone.from_tradeoffs("efficacy is worth between 1 and 3 safety", names=names)
    assert both == Cone.from_weights([[1, 1], [3, 1]])
    fixed = Cone.from_tradeoffs("10 units of efficacy is worth exactly 5 safety.", names=names)
    assert fixed == Cone.from_weights([[1, 2]])
    assert Cone.from_tradeoffs(names=names) == Cone.orthant(2)
    spaced = ["pain", "pain relief", "A+B (%)"]
    cone = Cone.from_tradeoffs(
        "One pain relief is worth AT LEAST 0.5 units of A+B (%)", names=spaced, minimise=["pain"]
    )
    assert cone.contains([0, 1, -0.5])
    assert not cone.contains([1, 0, -0.5])


@pytest.mark.parametrize(
    ("statement", "says"),
    [
        ("efficacy matters", "was not understood"),
        ("one efficacy is worth at most 3 of toxicity", "was not understood"),
        ("one efficacy is worth at most 3 of efficacy", "for itself"),
        ("one efficacy is worth at most 0 of safety", "above 0"),
        ("0 efficacy is worth at most 1 of safety", "above 0"),
        ("one efficacy is worth between 3 and 1 safety", "upwards"),
    ],
)
def test_unclear_tradeoffs_are_refused(statement, says):
    with pytest.raises(ValueError, match=says):
        Cone.from_tradeoffs(statement, names=["efficacy", "safety"])


@pytest.mark.parametrize("names", [["a", "b"], ["a", "b", "c"], ["c", "d", "a", "b"]])
def test_contradictory_tradeoffs_are_refused(names):
    with pytest.raises(ValueError, match="contradict"):
        Cone.from_tradeoffs("1 a is worth at least 3 b", "1 a is worth at most 2 b", names=names)


def test_a_circle_of_tradeoffs_that_gains_on_every_round_is_refused():
    circle = ["a is worth at least 2 b", "b is worth at least 2 c", "c is worth at least 2 a"]
    with pytest.raises(ValueError, match="contradict"):
        Cone.from_tradeoffs(*circle, names=["a", "b", "c", "d"])


def test_a_half_space_given_by_float_rays(rng):
    for _ in range(200):
        half = Cone.from_weights(rng.uniform(0.1, 1, (1, 3)))
        assert Cone.from_rays(half.rays) == half


@pytest.mark.parametrize(
    "make",
    [
        lambda: Cone.from_facets([[2**0.5, 1], [-3 * 2**0.5, -3]]),
        lambda: Cone.from_facets(
            np.array([[1, 0, 1], [-1, 0, 1], [0, 1, 1], [0, -1, 1]]) @ np.random.default_rng(0).normal(size=(3, 4))
        ),
    ],
)
def test_input_whose_shape_only_rounding_decides_is_refused(make):
    with pytest.raises(ValueError, match="rounding"):
        make()


def test_a_float_half_plane_is_either_right_or_refused(rng):
    right = 0
    for angle in rng.uniform(0, 2 * np.pi, 200):
        c, s = np.cos(angle), np.sin(angle)
        try:
            cone = Cone.from_rays([[c, s], [-s, c], [-3 * c, -3 * s]])
        except ValueError:
            continue
        right += 1
        assert cone == Cone.from_facets([[-s, c]])
        assert not cone.is_pointed
    assert right > 0


def test_fixed_shares_with_many_decimals(rng):
    for _ in range(50):
        w = rng.dirichlet(np.ones(3))
        fixed = Cone.from_weight_ranges({"a": (w[0], w[0]), "b": (w[1], w[1]), "c": (w[2], w[2])})
        assert fixed == Cone.from_weights([w])
        assert Cone.from_weight_ranges({"a": (w[0], 1), "b": (w[1], 1), "c": (w[2], 1)}) == fixed


def test_decimals_booleans_and_fractions_of_numpy_integers():
    assert Cone.from_rays([[Decimal("1"), Decimal("0.6")], [Decimal("0.6"), 1]]) == C3
    assert Cone.from_facets([[np.True_, np.False_], [False, True]]) == Cone.orthant(2)
    third = Fraction(np.int64(2**62), np.int64(3))
    assert Cone.from_rays([[third, 0], [0, third]]) == Cone.orthant(2)
    assert Cone.from_rays([[10**400, 1.5], [1, 1]]).dim == 2


def test_exact_input_of_any_size_is_taken_exactly():
    big = 10**30
    cone = Cone.from_rays([[Fraction(1, big), Fraction(1)], [Fraction(1), Fraction(1, big)]])
    assert cone.facets.shape == (2, 2)
    assert cone != Cone.from_rays([[1, 1], [1, 0]])
    assert Cone.from_rays(np.array([[1, 0.6], [0.6, 1]]) / 3) == C3
    np.testing.assert_array_equal(C3.facets, [[1.25, -0.75], [-0.75, 1.25]])


@pytest.mark.parametrize(
    ("make", "error", "says"),
    [
        (lambda: Cone.orthant(0), ValueError, "dim must be a positive integer"),
        (lambda: Cone.orthant(2.5), ValueError, "dim must be a positive integer"),
        (lambda: Cone.from_facets([[1, 0], [0, 0]]), ValueError, r"facets\[1\] is all zeros"),
        (lambda: Cone.from_facets([[1, 0], [-1, 0], [0, 1]]), ValueError, "empty interior"),
        (lambda: Cone.from_facets([[1, 1], [-1, 0], [0, -1]]), ValueError, "empty interior"),
        (lambda: Cone.from_facets([1, 2]), ValueError, "facets must be a non-empty table"),
        (lambda: Cone.from_facets([]), ValueError, "facets must be a non-empty table"),
        (lambda: Cone.from_facets([[1, 2], [3]]), ValueError, "facets must be a non-empty table"),
        (lambda: Cone.from_facets([np.ones((2, 2)), np.ones((2, 3))]), ValueError, "facets must be a non-empty table"),
        (lambda: Cone.from_facets([[np.nan, 1]]), ValueError, r"facets\[0\] contains nan"),
        (lambda: Cone.from_facets([[np.inf, 1]]), ValueError, r"facets\[0\] contains inf"),
        (lambda: Cone.from_facets([["a", 1]]), TypeError, r"facets\[0\] contains 'a'"),
        (lambda: Cone.from_rays([[1, 1], [2, 2]]), ValueError, "span only 1 of 2 dimensions"),
        (lambda: Cone.from_rays([[1, 0], [-1, 1], [-1, -1]]), ValueError, "whole space"),
        (lambda: Cone.from_rays([[0, 0]]), ValueError, r"rays\[0\] is all zeros"),
        (lambda: Cone.wedge(0), ValueError, "degrees must be"),
        (lambda: Cone.wedge(181), ValueError, "degrees must be"),
        (lambda: Cone.wedge(float("nan")), ValueError, "degrees must be"),
        (lambda: Cone.wedge("90"), ValueError, "degrees must be"),
        (lambda: Cone.from_weights([[1, -1]]), ValueError, "weights must be >= 0"),
        (lambda: Cone.from_weights([{"a": 1, "b": 1}, {"c": 1}]), ValueError, "'c'"),
        (lambda: Cone.from_weight_ranges({"a": (0.7, 0.8), "b": (0.7, 0.8)}), ValueError, "no weighting"),
        (lambda: Cone.from_weight_ranges({"a": (0.7, 0.2), "b": (0, 1)}), ValueError, "'a'"),
        (lambda: Cone.orthant(2, names=["a"]), ValueError, "names must be 2 different"),
        (lambda: Cone.orthant(2, names=["a", "a"]), ValueError, "names must be 2 different"),
        (lambda: Cone.orthant(2, names="ab"), TypeError, "names must be a sequence"),
        (lambda: Cone.from_tradeoffs(names=[]), TypeError, "names must be a sequence"),
        (lambda: Cone.from_tradeoffs(["a is worth at most 2 b"], names=["a", "b"]), TypeError, "statements must be"),
        (lambda: Cone.orthant(2, names=5), TypeError, "names must be a sequence"),
        (lambda: Cone.from_weight_ranges([(0, 1)]), TypeError, "ranges must map"),
        (lambda: Cone.from_weight_ranges({"a": 0.5, "b": (0, 1)}), ValueError, r"ranges\['a'\]"),
        (lambda: Cone.from_weight_ranges({"a": (0, 1, 2)}), ValueError, r"ranges\['a'\]"),
        (lambda: Cone.wedge(1e-9), ValueError, "degrees must be"),
        (lambda: Cone.orthant(2).is_subset_of(np.eye(2)), TypeError, "other must be a conebandit.Cone"),
        (lambda: Cone.from_weights([[0.5, 0.5]]).dual, ValueError, "not pointed"),
        (lambda: Cone.orthant(2).is_subset_of(Cone.orthant(3)), ValueError, "other must have dimension 2"),
    ],
)
def test_bad_input_is_refused_with_advice(make, error, says):
    with pytest.raises(error, match=says):
        make()


# ---- order ----------------------------------------------------------------------------------------------------------


def test_order_tests_broadcast():
    a, b = np.ones((4, 1, 2)), np.zeros((3, 2))
    for test in (C3.weakly_dominates, C3.dominates, C3.strongly_dominates):
        assert test(a, b).shape == (4, 3)
        assert test(a, b).all()
        assert test([1, 1], [0, 0]) is True
    assert C3.contains(np.ones((2, 3, 4, 2))).shape == (2, 3, 4)


def test_ties_on_a_facet_are_ties():
    a0, a9 = [0.80, 0.90], [0.95, 1.15]
    assert C3.dominates(a9, a0)
    assert not C3.strongly_dominates(a9, a0)
    assert Cone.orthant(2).weakly_dominates([0.1 + 0.2, 1], [0.3, 1])
    assert Cone.orthant(2).weakly_dominates([0.3, 1], [0.1 + 0.2, 1])
    assert not Cone.orthant(2).dominates([0.1 + 0.2, 1], [0.3, 1])


@pytest.mark.parametrize("scale", [1e-310, 1e-300, 1e-12, 1.0, 1e12, 1e300, 1.7e308])
def test_order_does_not_depend_on_the_unit(scale):
    better, worse = np.array([1.0, 0.7]) * scale, np.array([0.9, 0.6]) * scale
    for cone in (Cone.orthant(2), C3):
        assert cone.strongly_dominates(better, worse)
        assert not cone.weakly_dominates(worse, better)
    assert not C3.weakly_dominates(np.array([1.0, -1.0]) * scale, np.array([-1.0, 1.0]) * scale)


@pytest.mark.parametrize(
    ("call", "error", "says"),
    [
        (lambda: C3.dominates([1, 2, 3], [1, 2]), ValueError, "a must have shape"),
        (lambda: C3.dominates([1, 2], 3), ValueError, "b must have shape"),
        (lambda: C3.dominates([np.nan, 2], [1, 2]), ValueError, "a must be finite"),
        (lambda: C3.dominates([np.inf, 2], [1, 2]), ValueError, "a must be finite"),
        (lambda: C3.dominates(["x", "y"], [1, 2]), TypeError, "a must be an array of real numbers"),
        (lambda: C3.dominates([[1], [2, 3]], [1, 2]), TypeError, "a must be an array of real numbers"),
        (lambda: C3.dominates([1 + 1j, 2], [1, 2]), TypeError, "a must be an array of real numbers"),
        (lambda: C3.dominates(np.ones((2, 2)), np.ones((3, 2))), ValueError, "a and b must broadcast"),
        (lambda: C3.contains([1, 2, 3]), ValueError, "vectors must have shape"),
    ],
)
def test_bad_vectors_are_refused(call, error, says):
    with pytest.raises(error, match=says):
        call()


def test_dual():
    assert C3.dual.dual == C3
    assert Cone.orthant(4).dual == Cone.orthant(4)
    assert C3.dual.contains_orthant
