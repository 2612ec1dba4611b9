"""Dissimilarity against the reference values, against plain twins and against each other."""

import numpy as np
import pytest
from scipy.integrate import quad

import conebandit as cb
from conebandit.diagnose import laws, samples
from conebandit.environments import shift


def significant(x, digits):
    return float(f"{x:.{digits}g}")


# ---- reference values -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("h", [0.5, 0.3, 2**-4, 0.01])
def test_uniform_and_uniform(h):
    assert float(cb.rho(shift.uniform(), shift.uniform(), h)) == pytest.approx(1 / (2 * h) - 1 + 2 * np.log(2))


@pytest.mark.parametrize(
    ("nu", "coarse", "fine"), [(0.5, "10.5", "170"), (1, "19.2", "483"), (2, "132", "34439"), (3, "1371", "5.6e6")]
)
def test_power_law_and_uniform(nu, coarse, fine):
    curve = cb.rho_curve(shift.power_law(nu), shift.uniform(), [2**-4, 2**-8])
    for value, printed in zip(curve.value, (coarse, fine), strict=True):
        digits = len(printed.split("e")[0].replace(".", ""))
        assert significant(value, digits) == float(printed)


@pytest.mark.parametrize(
    ("nu", "printed"),
    [(1, ["1", "2.67", "6.7", "16.2", "37.9", "86.9"]), (2, ["1", "4.57", "19.6", "80.9", "329", "1326"])],
)
def test_tree_plug_in(nu, printed):
    for value, text in zip(cb.rho_tree(shift.power_law(nu), shift.uniform(), 5), printed, strict=True):
        assert significant(value, len(text.replace(".", ""))) == float(text)


@pytest.mark.parametrize("nu", [0.5, 1.5, 2, 3])
def test_the_exponent_is_the_larger_of_one_and_nu(nu):
    fit = cb.rho_curve(shift.power_law(nu), shift.uniform(), 2.0 ** -np.arange(8, 15)).exponent()
    assert fit.gamma == pytest.approx(max(1, nu), abs=0.04)
    assert fit.low <= fit.gamma <= fit.high
    assert (
        cb.rho_curve(shift.power_law(nu), shift.uniform(), fit.radii).value
        <= 1.0001 * fit.constant * fit.radii**-fit.gamma
    ).all()


def test_at_one_there_is_a_logarithm():
    curve = cb.rho_curve(shift.power_law(1), shift.uniform(), 2.0 ** -np.arange(6, 20, 2))
    scaled = curve.h * curve.value
    steps = np.diff(scaled)
    assert steps[-1] == pytest.approx(np.log(4) / 4, rel=0.01)  # grows by ln(4) / 4 with every two levels: no constant
    assert curve.exponent().gamma > 1.05


def test_a_mixture_of_sources_is_at_most_the_average():
    up, down, target = shift.beta(3, 1), shift.beta(1, 3), shift.uniform()
    average = np.mean([float(cb.rho(P, target, 0.05)) for P in (up, down)])
    pooled = float(cb.rho(shift.mixture([up, down]), target, 0.05))
    assert (round(pooled, 1), round(float(average), 1)) == (10.7, 207.2)


# ---- quadrature -----------------------------------------------------------------------------------------------------

PAIRS = {
    "beta": (shift.beta(2, 3), shift.beta(3, 1.5)),
    "pole": (shift.power_law(1), shift.beta(0.6, 0.7)),
    "narrow": (shift.power_law(1), shift.truncated_normal(0.4, 0.003)),
    "stretched": (shift.exponential(2, bounds=[[-1, 3]]), shift.uniform(bounds=[[0, 2]])),
    "mixture": (shift.mixture([shift.power_law(3), shift.uniform(bounds=[[0.2, 0.5]])]), shift.uniform()),
}


@pytest.mark.parametrize("name", PAIRS)
@pytest.mark.parametrize("h", [0.3, 0.04])
def test_quadrature_against_scipy(name, h):
    P, Q = PAIRS[name]
    box = np.array([*P.bounds[0], *Q.bounds[0]])
    r = h * np.ptp(box)

    def integrand(u):  # x = low + span * sin^2: tames poles at the edges
        low, high = Q.bounds[0]
        x = low + (high - low) * np.sin(u) ** 2
        mass = float(P.mass([x - r], [x + r]))
        return float(Q.density([x])) / mass * (high - low) * np.sin(2 * u)

    edges = {e + s * r for e in [*box, 0.2, 0.5] for s in (-1, 0, 1)}
    low, high = Q.bounds[0]
    at = sorted(np.arcsin(np.sqrt((e - low) / (high - low))) for e in edges if low < e < high)
    middle = [np.arcsin(np.sqrt(0.4 + s)) for s in (-0.02, 0.0, 0.02)] if name == "narrow" else []
    value, _ = quad(integrand, 1e-9, np.pi / 2 - 1e-9, points=[*at, *middle], limit=500, epsabs=0, epsrel=1e-9)
    found = cb.rho(P, Q, h)
    assert found.method == "quadrature"
    assert found.value == pytest.approx(value, rel=1e-6)


def test_products_factorise():
    P, Q = (
        shift.product(*parts) for parts in ([shift.power_law(2), shift.beta(2, 2)], [shift.uniform(), shift.beta(1, 2)])
    )
    first = float(cb.rho(shift.power_law(2), shift.uniform(), 0.1))
    second = float(cb.rho(shift.beta(2, 2), shift.beta(1, 2), 0.1))
    assert float(cb.rho(P, Q, 0.1)) == pytest.approx(first * second, rel=1e-9)


def test_a_target_out_of_reach_is_infinitely_far():
    P, Q = shift.uniform(bounds=[[0, 0.4]]), shift.uniform()
    assert float(cb.rho(P, Q, 0.1)) == np.inf
    assert np.isfinite(float(cb.rho(Q, P, 0.1)))
    assert cb.rho_tree(P, Q, 2).tolist() == [1, np.inf, np.inf]


# ---- Monte Carlo ----------------------------------------------------------------------------------------------------


def test_monte_carlo_agrees_and_its_error_is_honest():
    P, Q = shift.power_law(1, 2), shift.uniform(2)
    exact = float(cb.rho(P, Q, 0.125))
    found = [cb.rho(P, Q, 0.125, method="monte carlo", draws=4000, seed=s) for s in range(200)]
    z = np.array([(f.value - exact) / f.error for f in found])
    assert abs(z.mean()) < 0.3
    assert 0.8 < z.std() < 1.3
    assert 0.88 < np.mean([f.low < exact < f.high for f in found]) <= 0.99


def test_in_more_than_two_dimensions_monte_carlo_it_is():
    found = cb.rho(shift.uniform(3), shift.uniform(3), 0.5)
    assert found.method == "monte carlo"
    assert abs(found.value - np.log(4) ** 3) < 5 * found.error


def test_laws_without_density_are_sampled():
    table = shift.empirical(np.linspace(0, 1, 11)[:, None])
    assert cb.rho(shift.uniform(), table, 0.25).method == "monte carlo"


# ---- tables ---------------------------------------------------------------------------------------------------------


def plain_estimate(source, target, h, *, same=False):
    """The rule for empty balls, written out."""
    total = 0.0
    for i, y in enumerate(target):
        others = np.delete(source, i, axis=0) if same else source
        count = (np.abs(others - y).max(axis=1) <= h).sum()
        total += (len(others) + 1) / (count + 1)
    return total / len(target)


@pytest.mark.parametrize("dim", [1, 2, 3])
def test_tables_against_a_plain_loop(dim, rng):
    box = np.tile([0.0, 8.0], (dim, 1))
    source, target = (
        rng.integers(0, 9, (70, dim)) * 1.0,
        rng.integers(0, 9, (50, dim)) * 1.0,
    )  # ties, edges, empty balls
    for h in (1 / 8, 0.25, 1.0):
        found = cb.rho(source, target, h, bounds=box)
        assert found.value == pytest.approx(plain_estimate(source / 8, target / 8, h))
        count = (np.abs(source[None] - target[:, None]).max(axis=2) <= 8 * h).sum(axis=1)
        assert found.empty == np.mean(count == 0)
        assert cb.rho(source, source, h, bounds=box).value == pytest.approx(
            plain_estimate(source / 8, source / 8, h, same=True)
        )


def test_replicates_are_estimates_on_resampled_rows(rng):
    source, target = rng.random((40, 2)), rng.random((30, 2))
    near = samples.Neighbours.of(source, target, same=False, resamples=3, rng=rng)
    values, _ = near.estimates(0.2)
    for b in range(4):
        P = np.repeat(near.source, near.source_weights[:, b], axis=0)
        Q = np.repeat(near.target, near.target_weights[:, b], axis=0)
        assert values[b] == pytest.approx(plain_estimate(P, Q, 0.2))


def test_chunks_do_not_show(rng, monkeypatch):
    source, target = rng.random((40, 2)), rng.random((30, 2))
    whole = cb.rho(source, target, 0.2)
    monkeypatch.setattr(samples, "CHUNK", 7)
    again = cb.rho(source, target, 0.2)
    assert (again.value, again.low, again.empty) == pytest.approx((whole.value, whole.low, whole.empty))


@pytest.mark.parametrize("p", [0.02, 0.2])
def test_the_rule_for_empty_balls_has_the_mean_that_is_claimed(p, rng):
    n = 30
    counts = rng.binomial(n, p, 200_000)
    values = (n + 1) / (counts + 1)
    claimed = (1 - (1 - p) ** (n + 1)) / p
    assert values.mean() == pytest.approx(claimed, abs=5 * values.std() / np.sqrt(len(values)))


@pytest.mark.parametrize("nu", [0, 1])
def test_the_bootstrap_interval_covers(nu):
    P, Q = shift.power_law(nu) if nu else shift.uniform(), shift.uniform()
    exact = float(cb.rho(P, Q, 0.1))
    hits = 0
    for seed in range(120):
        rng = np.random.default_rng(seed)
        found = cb.rho(P.sample(rng, 800), Q.sample(rng, 800), 0.1, bounds=[[0, 1]], seed=seed)
        hits += found.low < exact < found.high
    assert hits / 120 > 0.86  # of 0.95 nominal; a binomial with 0.95 falls below with probability 1e-4


def test_exponent_of_tables_has_an_interval(rng):
    P, Q = shift.power_law(2).sample(rng, 20_000), shift.uniform().sample(rng, 20_000)
    fit = cb.rho_curve(P, Q, [0.25, 0.15, 0.1, 0.06, 0.001], bounds=[[0, 1]]).exponent()
    exact = cb.rho_curve(shift.power_law(2), shift.uniform(), [0.25, 0.15, 0.1, 0.06]).exponent()
    assert fit.radii.tolist() == [0.25, 0.15, 0.1, 0.06]
    assert fit.low < exact.gamma < fit.high
    assert fit.high - fit.low < 0.8


def test_tree_plug_in_of_tables(rng):
    P, Q = shift.power_law(1, 2), shift.uniform(2)
    found = cb.rho_tree(P.sample(rng, 60_000), Q.sample(rng, 60_000), 3, bounds=[[0, 1]] * 2)
    assert found == pytest.approx(cb.rho_tree(P, Q, 3), rel=0.1)
    source, target = np.array([[0.1], [0.2], [0.9]]), np.array([[0.3], [0.6], [1.0]])
    # Halves of [0, 1]: two of three source rows on the left, one on the right; the quarter [.5, .75) has none.
    assert cb.rho_tree(source, target, 2, bounds=[[0, 1]]) == pytest.approx(
        [1, (4 / 3 + 4 / 2 + 4 / 2) / 3, (4 + 4 + 2) / 3]
    )


# ---- what users get wrong -------------------------------------------------------------------------------------------

U = shift.uniform()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((U, U, 0.0), "h must hold positive radii"),
        ((U, U, np.nan), "h must hold positive radii"),
        ((U, shift.uniform(2), 0.1), "source has dimension 1 and target 2"),
        (([[1.0]], [[1.0, 2.0]], 0.1), "source has 1 columns and target 2"),
        (([1.0, 2.0], [[1.0]], 0.1), "source must be a table of shape"),
        (([[1.0]], np.empty((0, 1)), 0.1), "target must be a table of shape"),
        (([[1.0]], [[np.nan]], 0.1), "target must be finite; row 0, column 0 is nan"),
    ],
)
def test_wrong_arguments(arguments, message):
    with pytest.raises(ValueError, match=message):
        cb.rho(*arguments)


def test_wrong_options():
    with pytest.raises(TypeError, match="empirical"):
        cb.rho(U, [[1.0]], 0.1)
    with pytest.raises(ValueError, match="bounds must have shape"):
        cb.rho(U, U, 0.1, bounds=[[1, 0]])
    with pytest.raises(ValueError, match="bounds must contain all rows"):
        cb.rho([[2.0]], [[0.5]], 0.1, bounds=[[0, 1]])
    with pytest.raises(ValueError, match="confidence"):
        cb.rho(U, U, 0.1, confidence=1)
    with pytest.raises(ValueError, match="method must be None"):
        cb.rho([[1.0]], [[1.0]], 0.1, method="quadrature")
    with pytest.raises(ValueError, match="Use 'monte carlo'"):
        cb.rho(shift.uniform(3), shift.uniform(3), 0.1, method="quadrature")
    with pytest.raises(ValueError, match="levels must be at most 10"):
        cb.rho_tree(shift.uniform(2), shift.uniform(2), 11)
    with pytest.raises(ValueError, match="larger radii or more rows"):
        cb.rho_curve([[0.0], [1.0]], [[0.5]], [0.1, 0.2]).exponent()


def test_closed_balls_hold_their_edge():
    table = shift.empirical(np.array([[0.0], [0.5], [1.0]]))
    assert laws.ball_masses(table, np.array([[0.25]]), np.array([0.25])) == pytest.approx(2 / 3)


def test_a_copy_of_a_table_is_the_same_sample(rng):
    table = rng.random((60, 2))
    assert cb.rho(table, table.copy(), 0.2).value == cb.rho(table, table, 0.2).value
