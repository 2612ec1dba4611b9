"""What a prior begins with, and how a step of learning changes it."""

from itertools import pairwise

import numpy as np
import pytest
from scipy.integrate import trapezoid
from scipy.linalg import solve_triangular
from scipy.stats import norm

import conebandit as cb
from conebandit.kernels.cone_kernel.constants import (
    BOX_MARGIN,
    LOG_DEVIATION,
    METRIC_DEVIATION,
    MIN_FREEDOM_SHARE,
    MIN_PRIOR_VARIANCE,
    MIN_SIGNAL_TO_NOISE,
    NOISE_WEIGHT,
    SENTINEL_SIGNAL_TO_NOISE,
    TYPICAL_LENGTH,
)
from conebandit.kernels.cone_kernel.features import highest_order
from conebandit.kernels.cone_kernel.prior import (
    LENGTHS,
    NUS,
    RELEVANCES,
    improve_prior,
    improve_priors,
    spectral_density,
)
from conebandit.kernels.cone_kernel.state import AMPLITUDE, CENTRE, NOISE, OBSERVATIONS, SHARED, SPREAD
from conebandit.policies.cone_kernel import steps
from conebandit.policies.cone_kernel.candidates import Candidates, are_sentinels
from conebandit.policies.cone_kernel.fit import choose_features
from conebandit.policies.cone_kernel.posterior import posterior
from conebandit.policies.cone_kernel.prior import (
    INITIAL_AMPLITUDE,
    INITIAL_NOISE,
    Measurements,
    is_settled,
    learn_prior,
    prior_variances,
    signal_to_noise,
)
from conebandit.policies.cone_kernel.sums import Sums
from conebandit.policies.cone_kernel.work import in_one_go
from tests.plain_cone_kernel import plain_features, trained


def arguments_of(policy):
    """What a step of learning the prior is given: state, posterior, sums and spectral density."""
    state, basis = policy._state, policy._fitter.basis
    totals = in_one_go(Sums().over_all(state))
    found = in_one_go(posterior(state, totals, basis))
    return state, found, totals, spectral_density(int(highest_order(policy.context_dim)))


def step_of_learning(policy):
    """State, posterior, and the state after one step of learning the prior."""
    given = arguments_of(policy)
    return *given[:2], in_one_go(learn_prior(*given))


def residuals_of(state, found, arm, metric):
    """Residuals of an arm in units of the spread, where the metric is known."""
    dim, n = state.orders.shape[1], int(state.size[OBSERVATIONS])
    centre, spread = state.scales[:2, metric]
    rows = state.data[:n][state.chosen[:n] == arm]
    rows = rows[~np.isnan(rows[:, dim + metric])]
    predicted = plain_features(state.orders, rows[:, :dim]).reshape(len(rows), -1) @ found.means[arm, metric]
    return (rows[:, dim + metric] - centre) / spread - predicted


def test_it_begins_with_a_typical_length_and_variances_that_add_up():
    state = cb.ConeKernel(3, cb.Cone.orthant(2), 2)._state
    nearest = np.abs(LENGTHS - TYPICAL_LENGTH).min()
    assert np.abs(LENGTHS[state.lengths] - TYPICAL_LENGTH) == pytest.approx(nearest)
    assert state.scales[NOISE] + state.scales[AMPLITUDE] * (1 + state.constant[0]) == pytest.approx(1)
    assert (state.scales[SHARED] == state.scales[AMPLITUDE]).all()
    assert (state.noise == state.scales[NOISE]).all()


@pytest.mark.parametrize("dim", [1, 2, 5, 20])
def test_main_effects_have_more_than_half_of_the_variance_at_first(dim):
    policy, candidates = cb.ConeKernel(3, cb.Cone.orthant(2), dim), Candidates.of_dim(dim)
    state = policy._state._replace(size=np.array([1000, 0, 0, 0, 0]))
    prior = prior_variances(state, candidates, spectral_density(int(highest_order(dim))))
    mains = (candidates.orders > 0).sum(axis=1) == 1
    assert prior.shape == (2, len(mains))
    assert (prior[:, mains].sum(axis=1) > 0.55).all()


def plain_prior(state, orders, density):
    """The prior variance (M, D) of features: a product over coordinates, with a floor for sentinels."""
    prior = np.repeat(1.0 / (np.prod(1.0 + state.relevance, axis=1, keepdims=True) - 1.0), len(orders), axis=1)
    for i in range(orders.shape[1]):
        share = state.relevance[:, i, None] * density[state.smoothness[:, i], state.lengths[:, i]][:, orders[:, i]]
        prior *= np.where(orders[:, i] > 0, share, 1.0)
    least = SENTINEL_SIGNAL_TO_NOISE / signal_to_noise(state)[:, None]
    prior = np.maximum(prior, np.where(are_sentinels(orders), least, MIN_PRIOR_VARIANCE))
    prior[:, ~orders.any(axis=1)] = state.constant[:, None]
    return prior


@pytest.mark.parametrize(("dim", "metrics"), [(1, 1), (2, 3), (5, 2), (20, 1)])
def test_prior_variances_equal_their_twin(dim, metrics):
    state, rng = cb.ConeKernel(3, cb.Cone.orthant(metrics), dim)._state, np.random.default_rng(dim)
    candidates, density = Candidates.of_dim(dim), spectral_density(int(highest_order(dim)))
    for n in (1, 50, 10**6):  # with few samples sentinels have a large floor
        given = state._replace(
            size=np.array([n, 0, 0, 0, 0]),
            relevance=rng.choice(RELEVANCES, (metrics, dim)),
            lengths=rng.integers(len(LENGTHS), size=(metrics, dim)),
            smoothness=rng.integers(len(NUS), size=(metrics, dim)),
            constant=rng.exponential(1.0, metrics),
        )
        expected = plain_prior(given, candidates.orders, density)
        np.testing.assert_allclose(prior_variances(given, candidates, density), expected, rtol=1e-12)
        assert (expected[:, 0] == given.constant).all()


@pytest.mark.parametrize("n", [12, 300])
def test_noise_is_squared_errors_over_what_is_left_and_imagined_ones(n):
    state, found, after = step_of_learning(trained(n))
    own = np.clip(1 - found.variances / (state.scales[AMPLITUDE][:, None] * state.prior), 0, 1).sum(axis=2)
    shared_prior = state.scales[SHARED][:, None] * state.prior
    shared = np.clip(1 - found.shared_variances / shared_prior, 0, 1).sum(axis=1)
    for m in range(2):
        residuals = [residuals_of(state, found, arm, m) for arm in range(3)]
        errors, counts = np.array([(r**2).sum() for r in residuals]), np.array([len(r) for r in residuals])
        left = np.maximum(counts - own[:, m] - shared[m] * counts / counts.sum(), MIN_FREEDOM_SHARE * counts)
        pooled = (INITIAL_NOISE + errors.sum()) / (1 + left.sum())
        assert after.scales[NOISE, m] == pytest.approx(pooled, rel=1e-4)
        assert after.noise[:, m] == pytest.approx((NOISE_WEIGHT * pooled + errors) / (NOISE_WEIGHT + left), rel=1e-4)


@pytest.mark.parametrize("n", [40, 100, 400])
def test_outcomes_that_are_mostly_yes_are_not_passed_through(n):
    """With features enough for every sample, no noise and a rough function explain them as well as noise does.

    A patient in seven is harmed, whatever the dose and whoever it is. In no trial may what is learned of the noise be
    far from what there is; before a metric had an imagined outcome, it was nothing in some trials of 100 and 400.
    """
    for seed in range(12):
        rng, policy = np.random.default_rng(seed), cb.ConeKernel(5, cb.Cone.orthant(2), 2)
        outcomes = (rng.random((n, 2)) < [0.6, 0.86]).astype(float)
        for t, x in enumerate(rng.beta(2, 3, (n, 2))):
            policy.observe(x, t % 5, outcomes[t])
        assert policy.noise == pytest.approx(outcomes.std(axis=0), rel=0.42)
        assert np.isfinite(policy.radii([[0.5, 0.5]])).all()


def test_amplitudes_are_squares_over_what_is_known_and_an_imagined_one():
    state, found, after = step_of_learning(trained(300))
    varying = state.orders.any(axis=1)
    own, prior = (found.means - found.common)[:, :, varying], state.prior[:, varying]
    known = 1 - found.variances[:, :, varying] / (state.scales[AMPLITUDE][:, None] * prior)
    expected = (INITIAL_AMPLITUDE + (own**2 / prior).sum(axis=(0, 2))) / (1 + known.sum(axis=(0, 2)))
    assert after.scales[AMPLITUDE] == pytest.approx(expected, rel=1e-4)


def test_arms_that_are_far_apart_have_a_level_of_any_size():
    """Levels of arms may have far more variance than what depends on the context: no bound holds them back."""
    policy, rng = cb.ConeKernel(4, cb.Cone.orthant(1), 1), np.random.default_rng(0)
    for t in range(400):
        policy.observe(rng.random(1), t % 4, [t % 4 + 1e-3 * rng.standard_normal()])
    assert policy._state.constant[0] > 100.0


def test_features_are_left_out_by_their_signal_to_noise_ratio_alone():
    state, candidates = trained(12)._state, Candidates.of_dim(2)
    density = spectral_density(int(highest_order(2)))
    prior = prior_variances(state, candidates, density)
    learnable = (signal_to_noise(state)[:, None] * prior > MIN_SIGNAL_TO_NOISE).any(axis=0)
    wanted = learnable | are_sentinels(candidates.orders)
    wanted[0] = True  # the constant
    assert wanted.sum() > 1
    assert (choose_features(state, candidates, density, 1024).orders == candidates.orders[wanted]).all()
    assert len(choose_features(state, candidates, density, 9).orders) == min(wanted.sum(), 9)


@pytest.mark.parametrize("nu", NUS)
def test_shares_of_orders_are_those_of_a_matern_kernel(nu):
    """Transforming the kernel itself gives what its spectral density says, at the frequencies of the cosines."""
    place, width = int(np.flatnonzero(nu == NUS)[0]), 1.3  # of the box
    distances = np.linspace(0.0, 60.0, 600_001)
    for length in (5, 9):
        scaled = np.sqrt(2 * nu) * distances / LENGTHS[length]
        polynomial = {0.5: 1.0, 1.5: 1 + scaled, 2.5: 1 + scaled + scaled**2 / 3}[nu]
        kernel = polynomial * np.exp(-scaled)
        found = [trapezoid(kernel * np.cos(np.pi * j / width * distances), distances) for j in (1, 2, 5)]
        density = spectral_density(31)[place, length]
        assert density.sum() == pytest.approx(1)
        np.testing.assert_allclose(np.divide(found, found[0]), density[[1, 2, 5]] / density[1], rtol=1e-4)


def plain_fit(places, i, *given):
    """What improve_prior makes as large as it can for coordinate i: measurements of all metrics, and the weak prior."""
    squares, count, error, orders, floor, density = given[:6]
    relevance, lengths, smoothness = (array.copy() for array in given[6:])
    fit, dim = 0.0, orders.shape[1]
    relevance[:, i], lengths[:, i], smoothness[:, i] = RELEVANCES[places[:, 0]], places[:, 1], places[:, 2]
    for m, r in enumerate(relevance):
        variances = np.full(len(orders), 1 / (np.prod(1 + r) - 1))
        for c in range(dim):
            shares = density[smoothness[m, c], lengths[m, c], orders[:, c]]
            variances *= np.where(orders[:, c] > 0, r[c] * shares, 1)
        variances = np.maximum(variances, floor[m]) + error[m]
        fit -= 0.5 * (count[m] * np.log(variances) + squares[m] / variances).sum()
    for logs, typical, deviation in (
        (np.log(relevance[:, i]), 1 / dim, 2 * LOG_DEVIATION),
        (np.log(LENGTHS[lengths[:, i]]), TYPICAL_LENGTH, LOG_DEVIATION),
        (np.log(NUS[smoothness[:, i]]), 2.5, LOG_DEVIATION),
    ):
        fit -= 0.5 * ((logs.mean() - np.log(typical)) / deviation) ** 2
        fit -= 0.5 * (((logs - logs.mean()) / (METRIC_DEVIATION * deviation)) ** 2).sum()
    return fit


def plainly_improved(i, *given):
    """Places on the grids after all metrics moved together, and then each of them by itself."""
    relevance, lengths, smoothness = given[-3:]
    nearest = np.abs(np.log(RELEVANCES / relevance[:, i, None])).argmin(axis=1)
    places, metrics = np.stack([nearest, lengths[:, i], smoothness[:, i]], axis=1), len(relevance)
    near = (-1, 0, 1)
    moves = [(r, length, 0) for r in near for length in near]
    moves += [(0, length, turn) for turn in range(1, len(NUS)) for length in near]
    for group in [list(range(metrics))] + ([[m] for m in range(metrics)] if metrics > 1 else []):
        best, here = -np.inf, places.copy()
        for r, length, turn in moves:
            tried = here.copy()
            tried[group, 0] = np.clip(here[group, 0] + r, 0, len(RELEVANCES) - 1)
            tried[group, 1] = np.clip(here[group, 1] + length, 0, len(LENGTHS) - 1)
            tried[group, 2] = (here[group, 2] + turn) % len(NUS)
            fit = plain_fit(tried, i, *given)
            if fit > best + 1e-9:
                best, places = fit, tried
    return RELEVANCES[places[:, 0]], places[:, 1], places[:, 2]


@pytest.mark.parametrize("metrics", [1, 2, 4])
@pytest.mark.parametrize("seed", range(8))
def test_a_step_of_learning_the_kernel_is_the_best_one_in_reach(metrics, seed):
    rng, dim = np.random.default_rng([seed, metrics]), 3
    candidates, density = Candidates.of_dim(dim), spectral_density(int(highest_order(dim)))
    chosen = 1 + rng.choice(len(candidates.orders) - 1, 40, replace=False)
    orders, size = candidates.orders[chosen], (metrics, 40)
    told = rng.exponential(0.05, size), rng.random(size) * 5, rng.exponential(0.01, size)
    floor = np.where(rng.random(size) < 0.2, 0.01, 1e-9)
    relevance = rng.choice(RELEVANCES, (metrics, dim)) if seed else np.full((metrics, dim), 1 / dim)
    kernel = relevance, rng.integers(len(LENGTHS), size=(metrics, dim)), rng.integers(len(NUS), size=(metrics, dim))
    for i in range(dim):
        expected = plainly_improved(i, *told, orders, floor, density, *kernel)
        improve_prior(i, *told, orders, floor, density, *kernel)
        np.testing.assert_allclose(kernel[0][:, i], expected[0])
        np.testing.assert_array_equal(kernel[1][:, i], expected[1])
        np.testing.assert_array_equal(kernel[2][:, i], expected[2])


def test_steps_of_several_coordinates_are_steps_of_one_after_the_other():
    rng, dim = np.random.default_rng(5), 3
    orders, density = Candidates.of_dim(dim).orders[1:40], spectral_density(int(highest_order(dim)))
    told = rng.exponential(0.05, (2, 39)), rng.random((2, 39)) * 5, rng.exponential(0.01, (2, 39))
    given = *told, orders, np.full((2, 39), 1e-9), density
    one, other = (
        (np.full((2, dim), 1 / dim), np.full((2, dim), 3), np.zeros((2, dim), dtype=np.int64)) for _ in range(2)
    )
    for _ in range(2):
        for i in range(dim):
            improve_prior(i, *given, *one)
        improve_priors(0, 2, *given, *other)
        improve_priors(2, dim, *given, *other)
    for a, b in zip(one, other, strict=True):
        np.testing.assert_array_equal(a, b)
    assert len(np.unique(one[0])) > 1, "something was learned"


def plain_evidence(state):
    """Log density of all rewards under the prior of a state, from the covariance matrix of those of each metric."""
    n, dim = int(state.size[OBSERVATIONS]), state.orders.shape[1]
    contexts, rewards, arms = state.data[:n, None, :dim], state.data[:n, dim:], state.chosen[:n]
    waves = np.sqrt(2) * np.cos(np.pi * state.orders * (contexts + BOX_MARGIN) / (1 + 2 * BOX_MARGIN))
    features, found = np.where(state.orders > 0, waves, 1).prod(axis=2), 0.0
    for m, prior in enumerate(state.prior):
        kernel = (features * prior) @ features.T
        covariance = kernel * (state.scales[SHARED, m] + state.scales[AMPLITUDE, m] * (arms[:, None] == arms))
        root = np.linalg.cholesky(covariance + np.diag(state.noise[arms, m]))
        white = solve_triangular(root, (rewards[:, m] - state.scales[CENTRE, m]) / state.scales[SPREAD, m], lower=True)
        found += norm.logpdf(white).sum() - np.log(np.diag(root)).sum()
    return found


@pytest.mark.parametrize("seed", [0, 2, 3])
def test_steps_of_learning_the_kernel_gain_evidence(seed):
    """On waves that get shorter, and contexts in a corner. Steps that went further lost 30 to 190 of it here."""
    rng, n, sizes = np.random.default_rng(seed), 1500, (6, 2)
    policy = cb.ConeKernel(sizes[0], cb.Cone.orthant(sizes[1]), 2)
    fresh = policy._state
    frequency, phase, height = rng.uniform(1, 5, (12, 2)), rng.random((12, 2)), 0.6 * rng.normal(size=(12, 2))
    contexts, arms = rng.beta(5, 2, (n, 2)), np.arange(n) % sizes[0]
    waves = (np.sin(2 * np.pi * (frequency * contexts[:, None] ** 2 + phase)) * height).sum(axis=2).reshape(n, *sizes)
    rewards = (0.55 + 0.45 * np.tanh(waves) + 0.3 * rng.standard_normal((n, *sizes)))[np.arange(n), arms]
    for x, arm, reward in zip(contexts, arms.tolist(), rewards, strict=True):
        policy.observe(x, arm, reward)
    density, candidates, found = spectral_density(int(highest_order(2))), Candidates.of_dim(2), []
    scales = np.vstack([policy._state.scales[:NOISE], fresh.scales[NOISE:]])
    forgotten = {name: getattr(fresh, name) for name in ("relevance", "lengths", "smoothness", "noise", "constant")}
    state = choose_features(policy._state._replace(scales=scales, **forgotten), candidates, density, 128)
    for _ in range(12):
        sums = in_one_go(Sums().over_all(state))
        told = in_one_go(posterior(state, sums, policy._fitter.basis))
        state = choose_features(in_one_go(learn_prior(state, told, sums, density)), candidates, density, 128)
        found.append(plain_evidence(state))
    assert (np.maximum.accumulate(found) - found).max() < 8, found
    assert found[-1] > found[0] + 100, found


def test_it_is_settled_where_little_changes_or_the_kernel_is_that_of_two_steps_before():
    state = trained(300)._state
    moved = state._replace(lengths=(state.lengths + 1) % len(LENGTHS))
    louder = state._replace(scales=state.scales * np.where(np.arange(len(state.scales)) == NOISE, 1.2, 1)[:, None])
    assert is_settled([state], state)
    assert not is_settled([state], louder)
    assert not is_settled([state], moved)
    assert is_settled([state, moved], louder), "back again, whatever the amplitudes are"
    assert not is_settled([moved, state], louder)
    for name in ("relevance", "lengths", "smoothness"):
        other = state._replace(**{name: getattr(state, name) + 1})
        assert not is_settled([state], other)
        assert not is_settled([other, moved], state)


def test_each_step_of_a_fit_learns_from_the_prior_of_its_own_kernel(monkeypatch):
    steps = []

    def spied(state, found, totals, density):
        steps.append(state)
        np.testing.assert_allclose(state.prior, plain_prior(state, state.orders, density), rtol=1e-12)
        return learn_prior(state, found, totals, density)

    monkeypatch.setattr("conebandit.policies.cone_kernel.fit.learn_prior", spied)
    trained(900, dim=3)
    changes = [not np.array_equal(one.relevance, other.relevance) for one, other in pairwise(steps)]
    assert sum(changes) > 10


def test_what_arms_have_in_common_counts_in_both_sums_of_shares(monkeypatch):
    """Of numbers in [0, 1] the sum of squares is at most their sum, and at least its square over how many there are."""
    given = []
    monkeypatch.setattr(Measurements, "of", classmethod(lambda _, *sums: given.append(sums) or Measurements(*sums[:3])))
    rng, policy = np.random.default_rng(7), cb.ConeKernel(4, cb.Cone.orthant(2), 1)
    for t, x in enumerate(rng.random(400)):  # all arms are alike
        policy.observe([x], t % 4, np.sin([5 * x, 3 * x]) + 0.3 * rng.standard_normal(2))
    in_one_go(learn_prior(*arguments_of(policy)))
    _, shares, squared, _ = given[-1]
    assert (squared <= shares + 1e-12).all()
    assert (squared * 5 >= shares**2 - 1e-12).all(), "four arms, and what they share"
    assert shares[:, 1:].max() > 0.5, "something is known"


@pytest.mark.parametrize("share", [1.0, 0.7, 1e-6])
def test_arms_that_know_a_weight_alike_are_so_many_measurements(share):
    """The fixed point stays where MacKay's is: the sum of squares over that of the shares."""
    rng = np.random.default_rng(1)
    means, prior = rng.normal(size=(5, 2, 3)), rng.exponential(1.0, (2, 3))
    shares = np.full((2, 3), 5 * share)
    told = Measurements.of((means**2).sum(axis=0), shares, shares * share, prior)
    np.testing.assert_allclose(told.number, 5)
    np.testing.assert_allclose(told.squares, ((means / share) ** 2).sum(axis=0))
    np.testing.assert_allclose(told.error, prior * (1 - share) / share)


def test_arms_that_know_nothing_of_a_weight_do_not_count():
    known, prior = np.array([1.0, 1.0, 1e-6, 1e-6])[:, None, None], np.ones((1, 1))
    told = Measurements.of(np.full((1, 1), 3.0), known.sum(axis=0), (known**2).sum(axis=0), prior)
    assert told.number == pytest.approx(2, rel=1e-5)
    assert told.squares == pytest.approx(3, rel=1e-5)
    assert told.error == pytest.approx(0, abs=1e-5)


def test_features_of_which_nothing_is_to_be_known_say_nothing():
    told = Measurements.of(np.ones((1, 2)), np.zeros((1, 2)), np.zeros((1, 2)), np.ones((1, 2)))
    assert (told.squares == 0).all()
    assert (told.number == 0).all()
    assert np.isfinite(told.error).all()


@pytest.mark.parametrize("jumps", [False, True])
def test_it_learns_whether_means_jump(jumps):
    """In four of five runs at least, whether means of six arms jump somewhere or are a wave."""
    found = []
    for seed in range(5):
        rng, policy = np.random.default_rng(seed), cb.ConeKernel(6, cb.Cone.orthant(1), 1, seed=seed)
        cuts, heights, phases = rng.uniform(0.2, 0.8, (6, 2)), rng.normal(size=(6, 2)), rng.random(6)
        for t, x in enumerate(rng.random(4000)):
            k = t % 6
            mean = (heights[k] * (x > cuts[k])).sum() if jumps else np.sin(2 * np.pi * (x + phases[k]))
            policy.observe([x], k, [mean + 0.3 * rng.standard_normal()])
        found.append(NUS[policy._state.smoothness[0, 0]])
    assert np.mean((np.array(found) < 2.5) == jumps) >= 0.8, found


def test_metrics_may_depend_on_different_coordinates():
    """Safety on frailty, efficacy on severity: each metric learns which, and so tells the context better."""
    policy, rng = cb.ConeKernel(3, cb.Cone.orthant(2), 3), np.random.default_rng(3)
    for t in range(600):
        x, arm = rng.random(3), t % 3
        policy.observe(x, arm, [np.sin(4 * x[0] + arm), (1 + arm) * x[1]] + 0.3 * rng.standard_normal(2))
    told = policy.explain([0.5, 0.5, 0.5])
    assert told.relevance_by_metric.argmax(axis=1).tolist() == [0, 1]
    assert told.relevance_by_metric[0, 1] < 0.2
    assert told.relevance_by_metric[1, 0] < 0.2
    assert told.relevance[2] == told.relevance.min()
    assert told.relevance.max() == 1.0
    assert told.relevance[:2].min() > 0.3  # each is what one metric depends on


def test_a_coordinate_is_told_by_the_metric_that_it_matters_most_to():
    """Its length scale, in units of the coordinate, and its smoothness."""
    policy, rng = cb.ConeKernel(2, cb.Cone.orthant(2), 2, bounds=[[0, 1], [0, 10]]), np.random.default_rng(4)
    assert np.isnan(policy.explain([0.5, 5.0]).smoothness).all()
    for t in range(40):
        policy.observe(rng.random(2) * [1, 10], t % 2, rng.random(2))
    scales = policy._state.scales.copy()
    scales[[AMPLITUDE, SHARED]] = 1.0
    policy._state = policy._state._replace(
        scales=scales,
        relevance=np.array([[1.0, 0.2], [0.1, 1.0]]),
        lengths=np.array([[3, 4], [5, 6]]),
        smoothness=np.array([[2, 0], [0, 1]]),
    )
    told = policy.explain([0.5, 5.0])
    np.testing.assert_allclose(told.lengths, [LENGTHS[3], 10 * LENGTHS[6]])
    assert told.smoothness.tolist() == [0.5, 1.5]


def test_a_metric_that_is_always_the_same_says_nothing_about_the_kernel():
    """A safety metric without any event so far must not spoil what is learned of efficacy."""

    def means(x, arm):
        return np.sin(6 * x[:, 0] + arm) + np.cos(5 * x[:, 1]) * x[:, 0] + x[:, 1] * x[:, 2]

    rng = np.random.default_rng(0)
    x, noise, fresh = rng.random((1500, 3)), 0.1 * rng.standard_normal(1500), rng.random((200, 3))
    errors = []
    for metrics in (1, 2):
        policy = cb.ConeKernel(2, cb.Cone.orthant(metrics), 3)
        for t in range(len(x)):
            policy.observe(x[t], t % 2, [means(x[t : t + 1], t % 2)[0] + noise[t], 1.0][:metrics])
        said = np.empty((2, len(fresh), 2, metrics))
        for i, point in enumerate(fresh):
            steps.estimate(policy._state, point, said[0, i], said[1, i])
        errors.append(np.sqrt(np.mean([(said[0, :, arm, 0] - means(fresh, arm)) ** 2 for arm in range(2)])))
    assert errors[1] < 1.3 * errors[0]
