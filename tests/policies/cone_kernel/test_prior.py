"""What a prior begins with, and how a step of learning changes it."""

import numpy as np
import pytest

import conebandit as cb
from conebandit.kernels.cone_kernel.constants import (
    LENGTH_REACH,
    LOG_DEVIATION,
    METRIC_DEVIATION,
    MIN_FREEDOM_SHARE,
    MIN_PRIOR_VARIANCE,
    MIN_SIGNAL_TO_NOISE,
    NOISE_WEIGHT,
    RELEVANCE_REACH,
    SENTINEL_SIGNAL_TO_NOISE,
    TYPICAL_LENGTH,
)
from conebandit.kernels.cone_kernel.features import highest_order
from conebandit.kernels.cone_kernel.prior import LENGTHS, RELEVANCES, improve_prior, improve_priors, spectral_density
from conebandit.kernels.cone_kernel.state import AMPLITUDE, NOISE, OBSERVATIONS, SHARED
from conebandit.policies.cone_kernel import steps
from conebandit.policies.cone_kernel.candidates import Candidates, are_sentinels
from conebandit.policies.cone_kernel.fit import choose_features
from conebandit.policies.cone_kernel.posterior import posterior
from conebandit.policies.cone_kernel.prior import (
    INITIAL_AMPLITUDE,
    INITIAL_NOISE,
    learn_prior,
    prior_variances,
    signal_to_noise,
)
from conebandit.policies.cone_kernel.sums import Sums
from conebandit.policies.cone_kernel.work import in_one_go
from tests.plain_cone_kernel import plain_features, trained


def step_of_learning(policy):
    """State, posterior, and the state after one step of learning the prior."""
    state, basis = policy._state, policy._fitter.basis
    totals = in_one_go(Sums().over_all(state))
    found = in_one_go(posterior(state, totals, basis))
    density = spectral_density(int(highest_order(policy.context_dim)))
    return state, found, in_one_go(learn_prior(state, found, totals, density))


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
        share = state.relevance[:, i, None] * density[state.lengths[:, i]][:, orders[:, i]]
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


def plain_fit(places, i, *given):
    """What improve_prior makes as large as it can for coordinate i: evidence of all metrics, and the weak prior."""
    moments, known, orders, floor, density = given[:5]
    relevance, lengths = (array.copy() for array in given[5:])
    fit, dim = 0.0, orders.shape[1]
    relevance[:, i], lengths[:, i] = RELEVANCES[places[:, 0]], places[:, 1]
    for m, (r, length) in enumerate(zip(relevance, lengths, strict=True)):
        variances = np.full(len(orders), 1 / (np.prod(1 + r) - 1))
        for c in range(dim):
            variances *= np.where(orders[:, c] > 0, r[c] * density[length[c], orders[:, c]], 1)
        variances = np.maximum(variances, floor[m])
        fit -= 0.5 * (known[m] * np.log(variances) + moments[m] / variances).sum()
    for logs, typical, deviation in (
        (np.log(relevance[:, i]), 1 / dim, 2 * LOG_DEVIATION),
        (np.log(LENGTHS[lengths[:, i]]), TYPICAL_LENGTH, LOG_DEVIATION),
    ):
        fit -= 0.5 * ((logs.mean() - np.log(typical)) / deviation) ** 2
        fit -= 0.5 * (((logs - logs.mean()) / (METRIC_DEVIATION * deviation)) ** 2).sum()
    return fit


def plainly_improved(i, *given):
    """Places on the grids after all metrics moved together, and then each of them by itself."""
    relevance, lengths = given[-2:]
    nearest = np.abs(np.log(RELEVANCES / relevance[:, i, None])).argmin(axis=1)
    places, last = np.stack([nearest, lengths[:, i]], axis=1), [len(RELEVANCES) - 1, len(LENGTHS) - 1]
    groups = [list(range(len(relevance)))] + ([[m] for m in range(len(relevance))] if len(relevance) > 1 else [])
    for group in groups:
        best, here = -np.inf, places.copy()
        for r in range(-RELEVANCE_REACH, RELEVANCE_REACH + 1):
            for length in range(-LENGTH_REACH, LENGTH_REACH + 1):
                tried = here.copy()
                tried[group] = np.clip(tried[group] + [r, length], 0, last)
                fit = plain_fit(tried, i, *given)
                if fit > best + 1e-9:
                    best, places = fit, tried
    return RELEVANCES[places[:, 0]], places[:, 1]


@pytest.mark.parametrize("metrics", [1, 2, 4])
@pytest.mark.parametrize("seed", range(8))
def test_a_step_of_learning_the_kernel_is_the_best_one_in_reach(metrics, seed):
    rng, dim = np.random.default_rng([seed, metrics]), 3
    candidates, density = Candidates.of_dim(dim), spectral_density(int(highest_order(dim)))
    chosen = 1 + rng.choice(len(candidates.orders) - 1, 40, replace=False)
    orders = candidates.orders[chosen]
    moments, known = rng.exponential(0.05, (metrics, 40)), rng.random((metrics, 40)) * 5
    floor = np.where(rng.random((metrics, 40)) < 0.2, 0.01, 1e-9)
    relevance = rng.choice(RELEVANCES, (metrics, dim)) if seed else np.full((metrics, dim), 1 / dim)
    lengths = rng.integers(len(LENGTHS), size=(metrics, dim))
    for i in range(dim):
        given = moments, known, orders, floor, density
        expected = plainly_improved(i, *given, relevance, lengths)
        improve_prior(i, *given, relevance, lengths)
        np.testing.assert_allclose(relevance[:, i], expected[0])
        np.testing.assert_array_equal(lengths[:, i], expected[1])


def test_steps_of_several_coordinates_are_steps_of_one_after_the_other():
    rng, dim = np.random.default_rng(5), 3
    orders, density = Candidates.of_dim(dim).orders[1:40], spectral_density(int(highest_order(dim)))
    given = rng.exponential(0.05, (2, 39)), rng.random((2, 39)) * 5, orders, np.full((2, 39), 1e-9), density
    one, other = ((np.full((2, dim), 1 / dim), np.full((2, dim), 3)) for _ in range(2))
    for step in range(5):
        improve_prior(step % dim, *given, *one)
    improve_priors(0, 2, *given, *other)
    improve_priors(2, 5, *given, *other)
    for a, b in zip(one, other, strict=True):
        np.testing.assert_array_equal(a, b)
    assert len(np.unique(one[0])) > 1, "something was learned"


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
