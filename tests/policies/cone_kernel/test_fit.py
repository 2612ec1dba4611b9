"""What a fit learns: the posterior of all samples, from sums that are kept between fits."""

import itertools
import math

import numpy as np
import pytest

import conebandit as cb
from conebandit.kernels.cone_kernel.constants import BUDGET, CHEAP_SHARE, N_SITES, VARIANCE_FACTOR
from conebandit.kernels.cone_kernel.fit import squared_errors
from conebandit.kernels.cone_kernel.state import AMPLITUDE, CENTRE, DESCRIBED, LEVEL_OF_ARMS, SHARED, SPREAD
from conebandit.kernels.cone_kernel.steps import costs_at
from conebandit.policies.cone_kernel.fit import find_cheap
from conebandit.policies.cone_kernel.posterior import fit_weights, posterior
from conebandit.policies.cone_kernel.prior import prior_variances
from conebandit.policies.cone_kernel.sums import Sums
from conebandit.policies.cone_kernel.work import in_one_go

from ...plain_cone_kernel import CONES, plain_features, plain_posterior, rounds, trained


def totals(state, sums=None):
    return in_one_go((sums or Sums()).over_all(state))


def fitted(policy):
    return in_one_go(fit_weights(policy._state, totals(policy._state), policy._fitter.basis, seed=1))


def posterior_of(policy, state):
    return in_one_go(posterior(state, totals(state), policy._fitter.basis))


DOSES = {"arm_features": [[1, 0], [2, 1], [4, 0]]}


@pytest.mark.parametrize("described", [{}, DOSES])
@pytest.mark.parametrize(("cone", "dim"), [("orthant", 1), ("narrow", 2), ("three", 4)])
def test_posterior_is_that_of_one_large_regression(cone, dim, described):
    policy = trained(cone=cone, dim=dim, **described)
    found, s = posterior_of(policy, policy._state), policy.state()
    effects = list(zip(found.effects.at_arms.T, found.effects.features, strict=True))
    size = len(effects)
    phi = plain_features(s["orders"], s["data"][:, :dim])
    for m in range(CONES[cone].dim):
        y = (s["data"][:, dim + m] - s["scales"][CENTRE, m]) / s["scales"][SPREAD, m]
        seen = ~np.isnan(y)
        own = s["scales"][AMPLITUDE, m] * s["prior"][m]
        common = s["scales"][found.effects.scales, m] * np.where(
            found.effects.scales == LEVEL_OF_ARMS, 1.0, s["prior"][m, found.effects.features]
        )
        given = {"noise": s["noise"][:, m], "own": own, "effects": effects, "effects_prior": common}
        means, shared, cov = plain_posterior(phi[seen], y[seen], s["chosen"][seen], **given)
        np.testing.assert_allclose(found.means[:, m], means, rtol=1e-6, atol=1e-8)
        np.testing.assert_allclose(found.shared[m], shared, rtol=1e-6, atol=1e-8)
        np.testing.assert_allclose(found.shared_variances[m], np.diag(cov)[:size], rtol=1e-6, atol=1e-9)
        np.testing.assert_allclose(found.roots[m] @ found.roots[m].T, cov[:size, :size], rtol=1e-6, atol=1e-9)
        after = fitted(policy)
        for k in range(3):
            np.testing.assert_allclose(after.weights[k, m, :, 0], means[k], rtol=1e-6, atol=1e-8)
            sums = np.zeros((len(own), len(cov)))  # the weights of the arm, from effects and what sets arms apart
            for e, (at_arms, j) in enumerate(effects):
                sums[j, e] = at_arms[k]
            variances = np.diag(sums @ cov @ sums.T)
            np.testing.assert_allclose(found.common_variances[k, m], variances, rtol=1e-6, atol=1e-9)
            sums[:, size + k * len(own) : size + (k + 1) * len(own)] = np.eye(len(own))
            np.testing.assert_allclose(after.covs[k, m], sums @ cov @ sums.T, rtol=1e-6, atol=1e-8)


def test_updates_lead_to_what_a_fit_with_the_same_prior_gives():
    policy = trained(n=300)
    x, outcomes, _ = rounds(3, 2, 2, 40, seed=8)
    after = fitted(policy)
    prior_mean, prior_cov = after.weights[..., 0].copy(), after.covs.copy()
    policy._state, n = after._replace(size=np.array([300, 10**9, 1, 0, 300])), 40
    policy._limits = [(0, -1)]
    for i in range(n):
        policy.observe(x[i], 1, outcomes[i, 1])
    s = policy.state()
    phi = plain_features(s["orders"], x)
    for m in range(2):
        y = (outcomes[:, 1, m] - s["scales"][CENTRE, m]) / s["scales"][SPREAD, m]
        seen, noise = ~np.isnan(y), s["noise"][1, m]
        information = np.linalg.inv(prior_cov[1, m])
        cov = np.linalg.inv(information + phi[seen].T @ phi[seen] / noise)
        mean = cov @ (information @ prior_mean[1, m] + phi[seen].T @ y[seen] / noise)
        np.testing.assert_allclose(s["covs"][1, m], cov, rtol=1e-6, atol=1e-9)
        np.testing.assert_allclose(s["weights"][1, m, :, 0], mean, rtol=1e-6, atol=1e-8)


def test_sums_do_not_depend_on_what_was_kept():
    """Products of features over all samples, in pieces and with features that come and go, equal those in one go."""
    policy = trained(n=300, n_arms=2, dim=2)  # with metrics that are not known
    assert 0 < policy._fitter.sums.seen < 300, "part of the sums is kept"
    pieces, whole = totals(policy._state, policy._fitter.sums), totals(policy._state)
    for one, other in zip(pieces, whole, strict=True):
        np.testing.assert_array_equal(one, other)
    fewer, other_features = policy._state, Sums()
    totals(fewer._replace(parts=fewer.parts[:-3], weights=fewer.weights[:, :, :-3]), other_features)
    assert other_features.seen == 300
    for one, other in zip(totals(policy._state, other_features), whole, strict=True):
        np.testing.assert_array_equal(one, other)
    s = policy.state()
    phi, known = plain_features(s["orders"], s["data"][:, :2]), ~np.isnan(s["data"][:, 2:])
    y = (s["data"][:, 2:] - s["scales"][CENTRE]) / s["scales"][SPREAD]
    gram, cross, squares = whole
    np.testing.assert_allclose(squares, [np.nansum(y[s["chosen"] == k] ** 2, axis=0) for k in range(2)])
    for k, m in itertools.product(range(2), range(2)):
        seen = (s["chosen"] == k) & known[:, m]
        np.testing.assert_allclose(np.tril(gram[k, 0] + gram[k, 1 + m]), np.tril(phi[seen].T @ phi[seen]), atol=1e-9)
        np.testing.assert_allclose(cross[k, m], phi[seen].T @ y[seen, m], atol=1e-9)


def test_sums_begin_to_tell_metrics_apart_when_one_is_missing():
    x, outcomes, keys = rounds(2, 2, 2, 400)
    outcomes[:200] = np.nan_to_num(outcomes[:200], nan=0.3)
    policy = cb.ConeKernel(2, CONES["orthant"], 2)
    policy.run_chunk(x[:200], outcomes[:200], keys[:200])
    assert totals(policy._state, policy._fitter.sums).gram.shape[1] == 1, "all metrics of all samples are known"
    policy.run_chunk(x[200:], outcomes[200:], keys[200:])
    gram, cross, squares = totals(policy._state, policy._fitter.sums)
    assert gram.shape[1] == 3
    for one, other in zip((gram, cross, squares), totals(policy._state), strict=True):
        np.testing.assert_array_equal(one, other)


def test_residuals_are_those_of_the_samples():
    policy = trained(n=300)
    s = policy.state()
    phi, y = plain_features(s["orders"], s["data"][:, :2]), s["data"][:, 2:]
    errors = (y - s["scales"][CENTRE]) / s["scales"][SPREAD]
    errors = errors - np.einsum("nj,nmj->nm", phi, s["weights"][s["chosen"], :, :, 0])
    gram, cross, squares = totals(policy._state)
    got = squared_errors(gram, cross, squares, np.ascontiguousarray(s["weights"][..., 0]))
    expected = [np.nansum(errors[s["chosen"] == k] ** 2, axis=0) for k in range(3)]
    np.testing.assert_allclose(got, expected, rtol=1e-9)


def test_draws_follow_the_posterior():
    # Standardised by the root of the covariance, 15 x 3 x 2 draws of D weights are standard normal up to the steps
    # since the last fit; the mean square of n of them is within 1 +- 5 sqrt(2 / n) but for one run in a million.
    s = trained(n=600).state()
    squares = []
    for k, m in itertools.product(range(3), range(2)):
        root = np.linalg.cholesky(s["covs"][k, m])
        squares.append(np.linalg.solve(root, s["weights"][k, m, :, 1:] - s["weights"][k, m, :, :1]) ** 2)
    n = np.size(squares)
    assert abs(np.mean(squares) - 1) < 5 * math.sqrt(2 / n)


@pytest.mark.parametrize(("n", "dim"), [(12, 2), (40, 3), (30, 20)])
def test_there_are_no_more_features_than_observations_except_sentinels(n, dim):
    rng, policy = np.random.default_rng(0), cb.ConeKernel(3, cb.Cone.orthant(2), dim)
    for i in range(n):
        x = rng.random(dim)
        policy.observe(x, i % 3, [i % 3 * (x[0] - 0.5), 0.1])  # without noise, so that much can be learned
    assert len(policy.state()["orders"]) <= max(n, 2 * dim + 1)


@pytest.mark.parametrize("described", [{}, DOSES])
@pytest.mark.parametrize("most", [6, 128])
def test_radii_count_what_features_that_are_left_out_may_add(most, described):
    """The prior variance of all candidates, less that of those in use, times all amplitudes; decisions do without."""
    policy = cb.ConeKernel(3, CONES["orthant"], 1, n_features=most, **described)
    x, outcomes, _ = rounds(3, 2, 1, 200, seed=4)
    for t in range(len(x)):
        policy.observe(x[t], t % 3, outcomes[t, t % 3])
    s, candidates = policy._state, policy._fitter._candidates
    prior = prior_variances(s, candidates, policy._fitter._density)
    used = [(candidates.orders == order).all(axis=1).argmax() for order in s.orders]
    left_out = prior.sum(axis=1) - prior[:, used].sum(axis=1)
    amplitudes = s.scales[AMPLITUDE] + s.scales[SHARED] + s.scales[DESCRIBED:].sum(axis=0)
    np.testing.assert_allclose(s.beyond, left_out * amplitudes, rtol=1e-9, atol=1e-15)
    assert (s.beyond > 0).all()
    phi = plain_features(s.orders, np.array([[0.3]]))[0]
    variances = VARIANCE_FACTOR * np.einsum("kmij,i,j->km", s.covs, phi, phi) + s.beyond
    expected = 1.959964 * s.scales[SPREAD] * np.sqrt(variances)
    np.testing.assert_allclose(policy.radii([[0.3]])[0], expected, rtol=1e-6)


@pytest.mark.parametrize("arms", [10, 100, 300])
def test_to_find_where_arms_cost_least_takes_little_of_a_fit(arms):
    """Costs count by the square of the number of arms; all arms are played in turn until the first model is there."""
    policy = cb.ConeKernel(arms, cb.Cone.orthant(2), 1)
    state = policy._state._replace(size=np.array([2 * arms, 0, 1, 0, 2 * arms]), data=np.zeros((2 * arms, 3)))
    assert sum(find_cheap(state, seed=0)) <= 0.05 * BUDGET * len(state.data)


def test_where_one_arm_is_active_it_costs_nothing():
    state, costs = trained(n=300, n_arms=2)._state, np.empty(2)
    state.weights[1, :, 0] -= 1e6
    costs_at(state, np.uint64(0), np.array([0.5, 0.5]), costs)
    np.testing.assert_array_equal(costs, [0.0, np.inf])


def test_a_fit_learns_what_arms_cost_where_they_cost_least():
    policy = trained(n=400, n_arms=4)
    state = policy._state
    found = in_one_go(find_cheap(state, seed=2))
    contexts, costs = state.data[400 - N_SITES : 400, :2], np.empty((N_SITES, 4))
    for x, row in zip(contexts, costs, strict=True):
        costs_at(state, np.uint64(2), x.copy(), row)
    expected = np.sort(costs, axis=0)[int(CHEAP_SHARE * (N_SITES - 1))]
    np.testing.assert_array_equal(found.cheap, np.nan_to_num(expected))
    assert (state.cheap >= 0).all()
    assert np.isfinite(state.cheap).all()
