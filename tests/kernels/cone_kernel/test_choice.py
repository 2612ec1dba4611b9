"""From predictions to an arm: each rule beside its plain twin."""

import numpy as np
import pytest
from scipy.stats import norm

from conebandit.geometry.pareto import facet_slack
from conebandit.kernels.cone_kernel.choice import (
    STRATA,
    count_informed,
    draw_by_weight,
    exact_variances,
    find_active,
    find_rival,
    flag_reported,
    judge,
    perturbed_images,
    share_errors,
    uncertainty_by_arm,
    undo_factor,
    weigh,
    write_centres,
    write_costs,
    write_units,
)
from conebandit.kernels.cone_kernel.constants import (
    BOX_MARGIN,
    ELIMINATION_MARGIN,
    FAR_SHARE,
    N_FRONTS,
    VARIANCE_FACTOR,
)
from conebandit.kernels.cone_kernel.features import features_at
from conebandit.kernels.cone_kernel.state import CENTRE, SPREAD
from conebandit.kernels.cone_kernel.steps import choose, costs_at, key_of_noise

from ...plain_cone_kernel import (
    CONES,
    plain_choice,
    plain_errors,
    plain_essential,
    plain_features,
    plain_margins,
    plain_worth,
    trained,
)

ARMS = 15  # so many that few are surely on the front


@pytest.mark.parametrize("cone", ["orthant", "narrow", "half-plane", "scalar", "three"])
@pytest.mark.parametrize("resolution", [0.0, 0.3])
def test_appraisal_equals_its_twin(cone, resolution):
    rng, facets = np.random.default_rng(4), CONES[cone].facets
    slack = facet_slack(CONES[cone], np.full(facets.shape[1], resolution))
    reported = []
    for _ in range(200):
        units = rng.uniform(0.5, 2.0, len(facets))
        images = rng.normal(size=(5, len(facets), 1)) + rng.uniform(0.1, 2) * rng.normal(size=(5, len(facets), 8))
        if rng.random() < 0.2:
            images[1] = images[0]  # duplicates
        judged, shown = np.empty((5, 2)), np.empty(5, dtype=np.bool_)
        judge(images, slack, units, judged)
        flag_reported(images, slack, units, shown)
        margins = plain_margins(images, slack / units)
        np.testing.assert_allclose(judged[:, 0], margins.mean(axis=1), atol=1e-12)
        np.testing.assert_allclose(judged[:, 1], margins.std(axis=1), atol=1e-12)
        essential = plain_essential(images, slack / units) if resolution else margins <= 0
        chance, bad = essential.mean(axis=1), (margins > 0).mean(axis=1)
        expected = (chance > bad) | ((chance == bad) & (chance >= 0.5))
        if not expected.any():
            expected[margins.mean(axis=1).argmin()] = True
        np.testing.assert_array_equal(shown, expected)
        reported.append(shown.sum())
    assert len(set(reported)) > 1


def test_worth_equals_its_twin():
    rng, worthwhile = np.random.default_rng(5), []
    for _ in range(300):
        few = np.sort(rng.permutation(8)[:5])
        judged = np.stack([rng.normal(0, 0.5, 5), rng.uniform(0.05, 0.8, 5)], axis=1)
        uncertainty, informed, weights = rng.uniform(1e-4, 3, 8), np.exp(rng.uniform(0, 6, 5)), np.empty(5)
        costs, errors = np.empty(5), rng.uniform(0, 0.3, 5)
        best = write_costs(judged, costs)
        weigh(judged, costs, best, uncertainty, few, informed, errors, weights)
        worth, cost = plain_worth(judged[:, 0], judged[:, 1], uncertainty[few], informed, errors)
        np.testing.assert_allclose(costs - costs[best], cost, atol=1e-9)
        np.testing.assert_allclose(weights, uncertainty[few] * np.maximum(1 - cost / worth, 0), atol=1e-8)
        worthwhile.append((weights > 0).sum())
    assert min(worthwhile) == 1
    assert max(worthwhile) == 5


@pytest.mark.parametrize("arms", [2, 3, 6])
def test_errors_of_a_report_are_shared_between_an_arm_and_its_rival(arms):
    rng = np.random.default_rng(15)
    for _ in range(100):
        judged = np.stack([rng.normal(0, 0.5, arms), rng.uniform(0.05, 0.8, arms)], axis=1)
        half = rng.uniform(0.1, 2, (arms, 2, 1)) * rng.normal(size=(arms, 2, 4))
        images = rng.normal(size=(arms, 2, 1)) + np.stack([half, -half], axis=3).reshape(arms, 2, 8)
        errors, slack, units = np.full(arms, np.nan), rng.choice([0.0, 0.5], 2), rng.uniform(0.5, 2, 2)
        share_errors(judged, images, images.mean(axis=2), slack, units, errors)
        expected = plain_errors(judged[:, 0], judged[:, 1], images, slack / units)
        np.testing.assert_allclose(errors, expected, atol=1e-12)
        total = (judged[:, 1] * norm.pdf(judged[:, 0] / judged[:, 1])).sum()
        assert errors.sum() == pytest.approx(total)  # nothing is lost, nothing counts twice


def test_arms_that_are_certain_and_the_same_share_errors_as_well():
    judged, images, errors = np.array([[0.0, 1e-150]] * 3), np.ones((3, 2, 8)), np.empty(3)
    share_errors(judged, images, np.ones((3, 2)), np.zeros(2), np.ones(2), errors)
    assert np.isfinite(errors).all()
    assert (errors >= 0).all()


def test_where_a_metric_is_the_same_for_all_arms_the_rival_is_the_best_in_the_others():
    centres = np.array([[5.0, 0.1], [5.0, 0.4], [5.0, 0.9], [5.0, 0.7]])
    assert [find_rival(centres, np.zeros(2), np.ones(2), k) for k in range(4)] == [2, 2, 3, 2]


def test_the_margin_of_an_arm_depends_on_its_rival():
    """Also at a resolution: if the prediction of the rival moves on all facets, so does the margin."""
    rng = np.random.default_rng(20)
    for _ in range(200):
        centres, slack, units = rng.normal(size=(5, 3)), rng.choice([0.0, 0.4, 1.0], 3), rng.uniform(0.5, 2, 3)
        rival = find_rival(centres, slack, units, 0)
        moved = centres.copy()
        moved[rival] -= 1e-6
        before, after = (plain_margins(given[:, :, None], slack / units)[0, 0] for given in (centres, moved))
        assert after == pytest.approx(before - 1e-6, abs=1e-12)


CHOICES = [
    {"n_arms": 3, "n": 12, "dim": 1},
    {"n_arms": 15, "n": 120},
    {"n_arms": 5, "n": 60, "cone": "narrow"},
    {"n_arms": 4, "n": 40, "cone": "half-plane"},
    {"n_arms": 6, "n": 40, "cone": "three", "resolution": [0.3, 0.0, 0.1]},
    {"n_arms": 6, "n": 50, "cone": "scalar", "resolution": 0.2},
    {"n_arms": 5, "n": 60, "arm_features": [1.0, 2.0, 3.0, 5.0, 8.0]},
]


@pytest.mark.parametrize("options", CHOICES)
def test_what_is_played_and_reported_equals_its_twin(options):
    policy, several = trained(**options), 0
    state, arms = policy._state, policy.n_arms
    for x in np.random.default_rng(19).random((40, policy.context_dim)):
        active, reported, chances = np.empty(arms, dtype=np.bool_), np.empty(arms, dtype=np.bool_), np.empty(arms)
        choose(state, policy._seed, x, 3, active, reported, chances)
        expected, shown = plain_choice(state, x, np.uint64(key_of_noise(state, policy._seed, x)))
        np.testing.assert_allclose(chances, expected, atol=1e-6)
        np.testing.assert_array_equal(reported, shown)
        several += (chances > 0).sum() > 1
    assert several > 0, "some are drawn"


def test_draws_are_in_proportion_to_weights():
    rng = np.random.default_rng(6)
    for _ in range(100):
        weights = np.where(rng.random(6) < 0.5, 0.0, rng.random(6))
        chances = weights / weights.sum() if weights.any() else np.arange(6) == 2
        for u in (0.0, *rng.random(5), 1 - 2.0**-53):
            given = weights.copy()
            arm = draw_by_weight(given, 2, u)
            np.testing.assert_allclose(given, chances)
            assert given[arm] > 0
            assert chances[:arm].sum() <= u + 1e-12
            assert u <= chances[: arm + 1].sum() + 1e-12


def test_predictions_are_perturbed_by_their_deviations_and_compared_in_units_of_rewards():
    state = trained(n=300, n_arms=4, cone="narrow")._state
    rng, units = np.random.default_rng(7), np.empty(2)
    write_units(state.facets, state.scales, units)
    np.testing.assert_allclose(units, np.abs(state.facets) @ np.hypot(state.scales[CENTRE], state.scales[SPREAD]))
    predicted, variances = rng.normal(size=(4, 2)), rng.uniform(0.01, 0.1, (4, 2))
    arms = np.array([0, 2, 3])
    images = np.concatenate(
        [
            perturbed_images(state.facets, state.scales, predicted, variances, units, arms, np.uint64(key))
            for key in range(400)
        ],
        axis=2,
    )
    rewards = state.scales[CENTRE] + state.scales[SPREAD] * predicted[arms]
    np.testing.assert_allclose(images.mean(axis=2), rewards @ state.facets.T / units, atol=1e-10)  # pairs cancel
    expected = np.sqrt(variances[arms] * state.scales[SPREAD] ** 2 @ (state.facets.T**2)) / units
    # 3,200 independent pairs: a deviation is off by 1.25 %, by five of these less than once in a million.
    np.testing.assert_allclose(images.std(axis=2), expected, rtol=0.0625)


def test_what_a_policy_reports_goes_by_the_posterior_itself():
    """Exact variances without the factor; with it, other arms would be reported somewhere. Nobody need ask."""
    policy, differ = trained(n=120, n_arms=ARMS), 0
    state, rng = policy._state, np.random.default_rng(18)
    for x in rng.random((60, 2)):
        active, reported, chances = np.empty(ARMS, dtype=np.bool_), np.empty(ARMS, dtype=np.bool_), np.empty(ARMS)
        arm = choose(state, policy._seed, x, 3, active, reported, chances)
        few, phi, units = np.flatnonzero(active), plain_features(state.orders, x[None])[0], np.empty(2)
        write_units(state.facets, state.scales, units)
        means = np.einsum("j,kmj->km", phi, state.weights[..., 0])
        variances = np.einsum("i,kmij,j->km", phi, state.covs, phi)
        by_factor = {}
        for factor in (1.0, VARIANCE_FACTOR):
            given = state.facets, state.scales, means, factor * variances, units, few
            images = perturbed_images(*given, np.uint64(key_of_noise(state, policy._seed, x)))
            shown = plain_margins(images, np.zeros(2)) <= 0
            by_factor[factor] = few[shown.mean(axis=1) >= 0.5].tolist()
        if by_factor[1.0] and len(few) > 1:
            assert np.flatnonzero(reported).tolist() == by_factor[1.0]
            differ += by_factor[1.0] != by_factor[VARIANCE_FACTOR]
        unasked = chances.copy()
        assert choose(state, policy._seed, x, 3, active, np.empty(0, dtype=np.bool_), unasked) == arm
        np.testing.assert_array_equal(unasked, chances)
    assert differ > 10


def test_the_factor_of_perturbations_can_be_undone():
    state = trained(n=300, n_arms=4, cone="narrow")._state
    rng, units, arms = np.random.default_rng(17), np.ones(2), np.array([0, 1, 3])
    predicted, variances = rng.normal(size=(4, 2)), rng.uniform(0.01, 0.1, (4, 2))
    given = state.facets, state.scales, predicted
    images = perturbed_images(*given, VARIANCE_FACTOR * variances, units, arms, np.uint64(5))
    centres = np.empty((3, 2))
    write_centres(*given, units, arms, centres)
    np.testing.assert_allclose(centres, images.mean(axis=2), atol=1e-12)
    undo_factor(images, centres)
    np.testing.assert_allclose(images, perturbed_images(*given, variances, units, arms, np.uint64(5)), atol=1e-12)


def test_draws_that_are_equal_stay_so_without_the_factor():
    rng = np.random.default_rng(21)
    for _ in range(200):
        centres = np.repeat(rng.normal(size=(1, 2)), 2, axis=0)
        images = np.repeat(centres[:1, :, None] + rng.normal(size=(1, 2, 8)), 2, axis=0)
        images[1, :, 1::2] += 1.0  # the others are not
        undo_factor(images, centres)
        np.testing.assert_array_equal(images[0, :, ::2], images[1, :, ::2])


def test_every_perturbation_has_mean_0_variance_1_and_one_number_from_each_interval():
    np.testing.assert_allclose(STRATA.mean(axis=1), 0, atol=1e-15)
    np.testing.assert_allclose((STRATA**2).mean(axis=1), 1)
    np.testing.assert_array_equal(STRATA[:, ::2], -STRATA[:, 1::2])
    np.testing.assert_array_equal(np.sort(STRATA, axis=1), np.sort(STRATA[:1]).repeat(len(STRATA), axis=0))
    # Rows are independent: the correlation of two has variance 1 / (pairs of columns), whoever they are.
    correlations = (STRATA @ STRATA.T / N_FRONTS)[np.triu_indices(len(STRATA), 1)]
    assert (correlations**2).mean() == pytest.approx(2 / N_FRONTS, rel=0.1)
    assert abs(correlations).max() < 1


def test_variances_come_from_covariances_for_arms_that_are_close():
    state, rng = trained(n=300, n_arms=4)._state, np.random.default_rng(9)
    for _ in range(20):
        phi, few, variances = features_at(state.parts, rng.random(2)), np.array([1, 3]), np.full((4, 2), -1.0)
        exact_variances(state.covs, phi, few, np.empty(phi.size), variances, np.empty(2))
        wanted = np.einsum("i,kmij,j->km", phi, state.covs[few], phi)
        np.testing.assert_allclose(variances[few], VARIANCE_FACTOR * wanted, rtol=1e-9)
        assert (variances[[0, 2]] == -1).all()


def test_arms_are_active_unless_clearly_beaten():
    state, rng = trained(n=300, n_arms=4, cone="narrow")._state, np.random.default_rng(8)
    for arms in rng.integers(1, 10, 300).tolist():
        predicted, variances = rng.normal(size=(arms, 2)), np.exp(rng.uniform(-12, -2, (arms, 2)))
        predicted[rng.random(arms) < 0.2] = predicted[0]  # duplicates
        active, means = np.empty(arms, dtype=np.bool_), state.scales[CENTRE] + state.scales[SPREAD] * predicted
        few = find_active(state.facets, state.scales, predicted, variances, active)
        images, spread = means @ state.facets.T, variances * state.scales[SPREAD] ** 2 @ state.facets.T**2
        for k in range(arms):
            leads = [(images[a] - images[k]) / np.sqrt(spread[a] + spread[k]) for a in range(arms) if a != k]
            assert active[k] == (not any((lead > ELIMINATION_MARGIN).all() for lead in leads))
        np.testing.assert_array_equal(few, np.flatnonzero(active))


def test_contexts_nearby_are_counted_by_what_is_known_there():
    noise, uncertainty = np.full((3, 2), 0.5), np.empty(3)
    seen = np.array([10.0, 40.0, 100.0])  # a mean of n observations has variance noise / n
    nearby = uncertainty_by_arm(noise / seen[:, None], noise, uncertainty)
    np.testing.assert_allclose(uncertainty, 1 / seen)
    assert nearby == pytest.approx(151.0)


def test_the_reach_of_an_observation_is_the_mean_squared_correlation_over_contexts():
    policy = trained(n=300, n_arms=4)
    state, rng = policy._state, np.random.default_rng(10)
    few, reach, found, wanted = np.array([0, 2]), np.empty(2), [], []
    # Over the box of the cosines, a little larger than the unit cube, features are orthonormal.
    elsewhere = plain_features(state.orders, rng.uniform(-BOX_MARGIN, 1 + BOX_MARGIN, (4000, 2)))
    for x in rng.random((20, 2)):
        phi = features_at(state.parts, x)
        exact_variances(state.covs, phi, few, np.empty(phi.size), np.empty((4, 2)), reach)
        errors = np.einsum("i,kmij,nj->kmn", phi, state.covs[few], elsewhere)
        variances = np.einsum("i,kmij,j->km", phi, state.covs[few], phi)
        found.append(reach.copy())
        wanted.append(np.minimum((errors**2).mean(axis=2) / variances**2, 1).mean(axis=1))
    np.testing.assert_allclose(found, wanted, rtol=0.2)
    assert np.ptp(found) > 0.05


def test_an_observation_informs_contexts_nearby_and_far_away_if_little_is_known_and_the_arm_is_cheap_here():
    informed, costs, few = np.array([0.001, 0.5, 1.0, 1.0]), np.array([0.1, 0.2, 0.3, 0.3]), np.array([0, 2, 3, 5])
    cheap = np.array([0.0, 0.0, 0.11, 0.21, 0.0, 0.19])
    count_informed(informed, costs, 0, few, cheap, 100.0, 10_000)
    np.testing.assert_allclose(informed, [100.0, 5_000 * FAR_SHARE, 10_000 * FAR_SHARE, 100.0])


@pytest.mark.parametrize("cone", ["orthant", "narrow"])
def test_costs_at_a_context_are_those_of_perturbed_predictions(cone):
    """What draws tell of a prediction, perturbed; the margin of each arm in them, and its expected positive part."""
    policy = trained(n=300, n_arms=4, cone=cone)
    state, rng, inactive = policy._state, np.random.default_rng(12), 0
    state.weights[3, :, 0] -= 50.0 / state.scales[SPREAD][:, None]  # far off: worse by 50 in each metric
    for x in rng.random((30, 2)):
        costs, phi = np.empty(4), plain_features(state.orders, x[None])[0]
        costs_at(state, np.uint64(5), x, costs)
        values = np.einsum("j,kmjl->kml", phi, state.weights)
        means, variances = values[..., 0], VARIANCE_FACTOR * ((values[..., 1:] - values[..., :1]) ** 2).mean(axis=2)
        few = find_active(state.facets, state.scales, means, variances, np.empty(4, dtype=np.bool_))
        units = np.abs(state.facets) @ np.hypot(state.scales[CENTRE], state.scales[SPREAD])
        key = np.uint64(key_of_noise(state, np.uint64(5), x))
        margins = plain_margins(
            perturbed_images(state.facets, state.scales, means, variances, units, few, key), np.zeros(len(units))
        )
        wanted = plain_worth(
            margins.mean(axis=1), margins.std(axis=1), np.ones(len(few)), np.ones(len(few)), np.ones(len(few))
        )[1]
        np.testing.assert_allclose(costs[few], wanted, rtol=1e-7, atol=1e-12)
        assert np.isinf(np.delete(costs, few)).all()
        inactive += 4 - len(few)
    assert inactive


def test_an_arm_of_which_a_constant_is_unknown_has_a_reach_of_one():
    policy = trained(n=300, n_arms=2)
    state = policy._state
    state.covs[0] = 0.0
    state.covs[0, :, 0, 0] = 0.3  # feature 0 is the constant
    phi, reach = features_at(state.parts, np.array([0.2, 0.9])), np.empty(1)
    exact_variances(state.covs, phi, np.array([0]), np.empty(phi.size), np.empty((2, 2)), reach)
    assert reach[0] == pytest.approx(1.0)
