"""Laws of contexts against integrals and samples.

Seeds are fixed. Where a share of samples is compared with a mass, five standard errors and five samples (for masses so
small that counts are not normal) are allowed: with another seed a right law would fail one such comparison with
probability below 1e-6, and one of the some 500 in this file with probability below 5e-4.
"""

import itertools

import numpy as np
import pytest
from scipy.integrate import quad

from conebandit.environments import shift

BOX = np.array([[-2.0, 3.0], [10.0, 10.5], [0.0, 100.0]])

FAMILIES = {
    "uniform": shift.uniform,
    "power_law": lambda **options: shift.power_law(2.5, **options),
    "beta": lambda **options: shift.beta(2, 3.5, **options),
    "truncated_normal": lambda **options: shift.truncated_normal(0.3, 0.4, **options),
    "exponential": lambda **options: shift.exponential(3, **options),
}


def continuous_laws():
    """Laws with a density, bounded and smooth but for the edges of the boxes of a mixture's parts."""
    for name, dim in itertools.product(FAMILIES, (1, 2, 3)):
        yield f"{name}-{dim}", FAMILIES[name](context_dim=dim)
        yield f"{name}-{dim}-stretched", FAMILIES[name](context_dim=dim, bounds=BOX[:dim])
    yield "nearly-normal", shift.truncated_normal(0.5, 0.05)
    yield "off-centre-normal", shift.truncated_normal(1.5, 0.5, bounds=[[5, 7]])
    yield "steep-exponential", shift.exponential(30)
    yield "flat-exponential", shift.exponential(1e-9)
    yield "product", shift.product(shift.beta(2, 5), shift.uniform(bounds=[[-1, 1]]), shift.power_law(1))
    yield "product-of-planes", shift.product(shift.exponential(2, context_dim=2), shift.power_law(3, bounds=[[2, 4]]))
    yield "mixture", shift.mixture([shift.power_law(3), shift.uniform(), shift.beta(2, 2)], [1, 2, 3])
    yield "mixture-of-boxes", shift.mixture([shift.uniform(2), shift.power_law(1, 2, bounds=[[-1, 0.5], [0.5, 2]])])
    yield "mixture-with-nothing", shift.mixture([shift.uniform(), shift.power_law(3)], [0, 1])
    yield "mixture-of-mixtures", shift.mixture([shift.mixture([shift.uniform(), shift.beta(2, 2)]), shift.power_law(1)])


LAWS = dict(continuous_laws())
TABLE = np.random.default_rng(8).integers(0, 9, (60, 2)) / 8.0  # many ties, also at cuts and edges

every_law = pytest.mark.parametrize("law", LAWS.values(), ids=LAWS.keys())
every_law_and_table = pytest.mark.parametrize(
    "law", [*LAWS.values(), shift.empirical(TABLE)], ids=[*LAWS.keys(), "empirical"]
)


def integral(law: shift.Distribution, lower: np.ndarray, upper: np.ndarray) -> float:
    """Integral of the density over a box by Gauss-Legendre, between the edges of the boxes of the parts."""
    nodes, weights = np.polynomial.legendre.leggauss(24 if law.context_dim == 3 else 80)
    parts = getattr(law, "parts", ())
    axes = []
    for m, (a, b) in enumerate(zip(lower, upper, strict=True)):
        edges = {float(edge) for part in parts for edge in part.bounds[m] if a < edge < b}
        cuts = np.array([a, *sorted(edges), b])
        x = [low + (high - low) * (nodes + 1) / 2 for low, high in itertools.pairwise(cuts)]
        w = [(high - low) * weights / 2 for low, high in itertools.pairwise(cuts)]
        axes.append((np.concatenate(x), np.concatenate(w)))
    points = np.stack(np.meshgrid(*(x for x, _ in axes), indexing="ij"), axis=-1)
    values = law.density(points)
    for _, w in reversed(axes):
        values = values @ w
    return float(values)


def random_boxes(law: shift.Distribution, count: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    low, high = law.bounds.T
    corners = np.sort(low + (high - low) * rng.random((2, count, law.context_dim)), axis=0)
    return corners[0], corners[1]


def cells(bounds: np.ndarray, level: int) -> tuple[np.ndarray, np.ndarray]:
    """All dyadic cells of a level, (cells, d) lower and upper corners."""
    side = np.ptp(bounds, axis=1) / 2**level
    index = np.array(list(itertools.product(range(2**level), repeat=len(bounds))))
    return bounds[:, 0] + index * side, bounds[:, 0] + (index + 1) * side


# ---- densities, masses and samples ----------------------------------------------------------------------------------


@every_law
def test_the_density_integrates_to_one(law):
    assert integral(law, *law.bounds.T) == pytest.approx(1, abs=1e-6)


@every_law
def test_the_density_is_zero_outside(law):
    low, high = law.bounds.T
    assert (law.density([low - 1e-6, high + 1e-6]) == 0).all()
    assert (law.density([low + 1e-3 * (high - low), high - 1e-3 * (high - low)]) >= 0).all()


@every_law
def test_the_mass_of_a_box_is_the_integral_of_the_density(law, rng):
    lower, upper = random_boxes(law, 5, rng)
    masses = law.mass(lower, upper)
    assert masses.shape == (5,)
    for a, b, mass in zip(lower, upper, masses, strict=True):
        assert mass == pytest.approx(integral(law, a, b), abs=1e-6)
        assert law.mass(a, b) == mass


@every_law_and_table
def test_the_mass_of_a_box_is_the_share_of_samples(law, rng):
    count = 20_000
    x = law.sample(rng, count)
    lower, upper = random_boxes(law, 6, rng)
    inside = ((x[:, None] >= lower) & (x[:, None] < upper)).all(axis=2).mean(axis=0)
    mass = law.mass(lower, upper)
    assert (np.abs(inside - mass) <= 5 * np.sqrt(mass * (1 - mass) / count) + 5 / count).all()


@every_law_and_table
def test_cells_share_the_whole_mass(law):
    low, high = law.bounds.T
    assert law.mass(low, high) == pytest.approx(1, abs=1e-12)
    assert law.mass(low - 1, high + 1) == pytest.approx(1, abs=1e-12)
    assert law.mass(high + 1, high + 2) == 0
    assert law.mass(low - 2, low - 1) == 0
    for level in (1, 2, 3):
        masses = law.mass(*cells(law.bounds, level))
        assert (masses >= 0).all()
        assert masses.sum() == pytest.approx(1, abs=1e-9)


@every_law_and_table
def test_samples_are_inside_and_repeat_for_a_seed(law):
    x = law.sample(np.random.default_rng(1), 3000)
    assert x.shape == (3000, law.context_dim)
    assert x.dtype == np.float64
    assert (x >= law.bounds[:, 0]).all()
    assert (x <= law.bounds[:, 1]).all()
    np.testing.assert_array_equal(x, law.sample(np.random.default_rng(1), 3000))
    assert not np.array_equal(x, law.sample(np.random.default_rng(2), 3000))
    assert law.sample(np.random.default_rng(1), 0).shape == (0, law.context_dim)


@every_law_and_table
def test_the_caller_may_write_to_what_was_sampled(law):
    """Also for rows of a table: the next sample must not be different for it."""
    x = law.sample(np.random.default_rng(1), 50)
    before = x.copy()
    x[...] = 0.0
    np.testing.assert_array_equal(law.sample(np.random.default_rng(1), 50), before)


@pytest.mark.parametrize("dim", [1, 2, 3])
def test_any_leading_shape(dim):
    law = FAMILIES["beta"](context_dim=dim)
    x = np.random.default_rng(0).random((4, 5, dim))
    assert law.density(x).shape == (4, 5)
    assert law.density(x[0, 0]).shape == ()
    np.testing.assert_array_equal(law.density(x)[2, 3], law.density(x[2, 3]))
    assert law.mass(x, x + 0.1).shape == (4, 5)
    np.testing.assert_array_equal(law.mass(x, x + 0.1)[2, 3], law.mass(x[2, 3], x[2, 3] + 0.1))
    assert law.density(x.tolist()).shape == (4, 5)


@pytest.mark.parametrize(
    ("law", "exact"),
    [
        (shift.power_law(3), lambda a, b: b**4 - a**4),
        (shift.power_law(-0.5), lambda a, b: b**0.5 - a**0.5),
        (shift.power_law(0), lambda a, b: b - a),
        (shift.beta(1, 3), lambda a, b: (1 - a) ** 3 - (1 - b) ** 3),
        (shift.beta(0.5, 0.5), lambda a, b: (np.arcsin(np.sqrt(b)) - np.arcsin(np.sqrt(a))) * 2 / np.pi),
        (shift.exponential(2), lambda a, b: (np.exp(-2 * a) - np.exp(-2 * b)) / (1 - np.exp(-2))),
    ],
    ids=["power 3", "power -1/2", "power 0", "beta 1 3", "arcsine", "exponential 2"],
)
def test_masses_in_closed_form(law, exact):
    """Two of the densities are unbounded at an edge, where quad with its open rule still gets the integral."""
    for a, b in [(0.0, 1.0), (0.0, 0.01), (0.2, 0.7), (0.99, 1.0)]:
        assert law.mass([a], [b]) == pytest.approx(exact(a, b), rel=1e-12)
        assert quad(lambda x: float(law.density([x])), a, b)[0] == pytest.approx(exact(a, b), rel=1e-6)


def test_a_truncated_normal_is_a_normal_where_nothing_is_cut():
    law = shift.truncated_normal(0.5, 0.05, bounds=[[0, 10]])
    x = law.sample(np.random.default_rng(0), 40_000)[:, 0]
    assert x.mean() == pytest.approx(5, abs=5 * 0.5 / 200)
    assert x.std() == pytest.approx(0.5, abs=5 * 0.5 / np.sqrt(2 * 40_000))


def test_coordinates_of_a_product_come_in_order_and_are_independent(rng):
    law = shift.product(shift.beta(2, 5), shift.power_law(3, context_dim=2), shift.uniform(bounds=[[5, 6]]))
    assert law.context_dim == 4
    np.testing.assert_array_equal(law.bounds, [[0, 1], [0, 1], [0, 1], [5, 6]])
    x = law.sample(rng, 20_000)
    np.testing.assert_allclose(x.mean(axis=0), [2 / 7, 0.8, 0.8, 5.5], atol=5 * 0.29 / np.sqrt(20_000))
    correlation = np.corrcoef(x.T) - np.eye(4)
    assert np.abs(correlation).max() < 5 / np.sqrt(20_000)


def test_a_mixture_is_the_weighted_mean_of_its_parts(rng):
    parts = [shift.uniform(2), shift.power_law(3, 2)]
    law = shift.mixture(parts, [1, 3])
    np.testing.assert_array_equal(law.weights, [0.25, 0.75])
    x = rng.random((7, 2))
    np.testing.assert_allclose(law.density(x), 0.25 * parts[0].density(x) + 0.75 * parts[1].density(x))
    np.testing.assert_allclose(
        law.mass(x, x + 0.1), 0.25 * parts[0].mass(x, x + 0.1) + 0.75 * parts[1].mass(x, x + 0.1)
    )
    np.testing.assert_array_equal(shift.mixture(parts).weights, [0.5, 0.5])
    # Coordinates of a mixture of products depend on each other.
    apart = shift.mixture([shift.uniform(2), shift.uniform(2, bounds=[[5, 6], [5, 6]])])
    assert np.corrcoef(apart.sample(rng, 1000).T)[0, 1] > 0.9
    np.testing.assert_array_equal(apart.bounds, [[0, 6], [0, 6]])


def test_an_empirical_law_counts_rows():
    law = shift.empirical(TABLE)
    for a, b in zip(*cells(law.bounds, 3), strict=True):
        edge = b >= law.bounds[:, 1]  # where boxes are closed
        rows = ((a <= TABLE) & ((b > TABLE) | edge)).all(axis=1).sum()
        assert law.mass(a, b) * 60 == pytest.approx(rows)
    assert {tuple(row) for row in law.sample(np.random.default_rng(0), 200)} <= {tuple(row) for row in TABLE}
    wide = shift.empirical(TABLE, bounds=[[-1, 2], [-1, 2]])
    np.testing.assert_array_equal(wide.bounds, [[-1, 2], [-1, 2]])
    assert wide.mass([-1, -1], [2, 2]) == 1
    assert wide.mass([-1, -1], [1, 1]) == (TABLE < 1).all(axis=1).mean()  # open: 1 is inside these bounds


def test_one_row_holds_all_the_mass():
    law = shift.empirical([[2.0, 3.0]])
    assert law.mass([2, 3], [2, 3]) == 1
    np.testing.assert_array_equal(law.sample(np.random.default_rng(0), 2), [[2, 3], [2, 3]])


@pytest.mark.parametrize(
    ("nu", "printed"),
    [(1, [1, 2.67, 6.7, 16.2, 37.9, 86.9]), (2, [1, 4.57, 19.6, 80.9, 329, 1326])],
)
def test_the_sum_over_tree_cells_of_target_mass_by_source_mass(nu, printed):
    """Known numbers for P of density (nu + 1) x^nu and Q uniform, also when both are stretched."""
    for bounds in (None, [[-3, 5]]):
        source, target = shift.power_law(nu, bounds=bounds), shift.uniform(bounds=bounds)
        sums = []
        for level in range(6):
            corners = cells(source.bounds, level)
            sums.append((target.mass(*corners) / source.mass(*corners)).sum())
        np.testing.assert_allclose(sums, printed, rtol=4e-3)  # three digits are known


# ---- refusals -------------------------------------------------------------------------------------------------------

ONE, TWO = shift.uniform(1), shift.uniform(2)


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: shift.uniform(0), "context_dim must be a positive integer; got 0"),
        (lambda: shift.uniform(bounds=[[1, 1]]), r"bounds must have shape \(1, 2\), .* lowest below highest"),
        (lambda: shift.uniform(bounds=[[np.nan, 1]]), "bounds must have shape"),
        (lambda: shift.uniform(2, bounds=[[0, 1]]), r"bounds must have shape \(2, 2\)"),
        (lambda: shift.power_law(-1), "nu must be a number, above -1"),
        (lambda: shift.power_law(np.nan), "nu must be a number, above -1"),
        (lambda: shift.power_law(1, context_dim=-1), "context_dim must be"),
        (lambda: shift.beta(0, 1), "a must be a positive number; got 0"),
        (lambda: shift.beta(1, np.inf), "b must be a positive number; got inf"),
        (lambda: shift.beta(1, 1, bounds=[0, 1]), "bounds must have shape"),
        (lambda: shift.truncated_normal(0.5, 0), "std must be a positive number; got 0"),
        (lambda: shift.truncated_normal(9, 0.1), "mean 9 and std 0.1 leave no mass"),
        (lambda: shift.truncated_normal(np.nan, 0.1), "mean must be a finite number; got nan"),
        (lambda: shift.exponential(-2), "rate must be a positive number; got -2"),
        (shift.product, "product takes one or more basic distributions"),
        (lambda: shift.product(shift.mixture([ONE])), "product takes one or more basic distributions"),
        (lambda: shift.mixture([]), "parts must be one or more"),
        (lambda: shift.mixture([ONE, TWO]), "parts must be .*same dimension"),
        (lambda: shift.mixture([ONE, ONE], [1]), r"weights must be 2 numbers >= 0.*got \[1.0\]"),
        (lambda: shift.mixture([ONE, ONE], [1, -1]), "weights must be 2 numbers >= 0"),
        (lambda: shift.mixture([ONE, ONE], [0, 0]), "weights must be .*not all zero"),
        (lambda: shift.mixture([ONE, ONE], [np.nan, 1]), "weights must be"),
        (lambda: shift.empirical([1.0, 2.0]), "rows must be a table of shape"),
        (lambda: shift.empirical(np.empty((0, 2))), "rows must not be empty"),
        (lambda: shift.empirical([[np.nan]]), "rows must be finite"),
        (lambda: shift.empirical([[2.0]], bounds=[[0, 1]]), r"bounds must have shape \(1, 2\) and contain all rows"),
        (lambda: shift.empirical([[-2.0]], bounds=[[0, 1]]), "bounds .*contain all rows"),
        (lambda: shift.empirical([[2.0]], bounds=[0, 3]), r"bounds must have shape \(1, 2\)"),
        (lambda: shift.empirical([[2.0]]).density([2.0]), "no density; use mass"),
    ],
)
def test_bad_arguments_are_named(call, says):
    with pytest.raises(ValueError, match=says):
        call()


# ---- once missed ----------------------------------------------------------------------------------------------------


def test_an_unbounded_density_does_not_warn_at_the_edge():
    np.testing.assert_array_equal(shift.power_law(-0.5).density([[0.0], [-1.0]]), [np.inf, 0.0])


def test_cells_of_a_mixture_with_a_table_share_the_whole_mass():
    law = shift.mixture([shift.empirical([[0.0], [0.5]]), shift.uniform()])
    assert law.mass([[0.0], [0.5]], [[0.5], [1.0]]).sum() == pytest.approx(1)


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: shift.uniform(bounds=[[0, np.inf]]), "bounds"),
        (lambda: shift.empirical([[1.0]], bounds=[[np.nan, np.nan]]), "bounds"),
    ],
    ids=["infinite bounds", "nan bounds of a table"],
)
def test_these_arguments_should_be_refused(call, says):
    with pytest.raises(ValueError, match=says):
        call()
