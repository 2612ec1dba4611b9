"""Several arms in one call give, bit for bit, what one arm after the other gives."""

import numpy as np
import pytest

from conebandit.kernels.cone_kernel.each_arm import (
    add_common,
    costs_at_each,
    draw_for_arms,
    posterior_of_arms,
    posterior_of_effects,
)
from conebandit.kernels.cone_kernel.fit import (
    add_information,
    add_unsure,
    covariance,
    draw_weights,
    inverse_root,
    posterior_mean,
)
from conebandit.kernels.cone_kernel.steps import costs_at
from conebandit.policies.cone_kernel import work
from conebandit.policies.cone_kernel.posterior import fit_weights, posterior
from conebandit.policies.cone_kernel.sums import Sums
from conebandit.policies.cone_kernel.work import in_one_go

from ...plain_cone_kernel import trained

ARMS, METRICS, FEATURES, COLUMNS = 5, 2, 7, 16


def made(partial, described, seed=1):
    """Sums over samples, priors and effects, as a fit has them."""
    rng = np.random.default_rng(seed)
    phi = rng.normal(size=(ARMS, 1 + METRICS * partial, 30, FEATURES))
    places = np.concatenate([np.arange(FEATURES), [0, 3, 4] if described else []]).astype(np.int64)
    at_arms = np.ones((ARMS, len(places)))
    at_arms[:, FEATURES:] = rng.normal(size=(ARMS, len(places) - FEATURES))
    return {
        "gram": np.tril(np.einsum("kpnj,kpni->kpji", phi, phi)),
        "cross": rng.normal(size=(ARMS, METRICS, FEATURES)),
        "prior": rng.uniform(0.1, 2.0, (METRICS, FEATURES)),
        "noise": rng.uniform(0.2, 1.0, (ARMS, METRICS)),
        "at_arms": at_arms,
        "places": places,
    }


def partial_of(gram, k, m):
    return gram[k, 1 + m] if gram.shape[1] > 1 else np.empty((0, 0))


@pytest.mark.parametrize("partial", [False, True])
@pytest.mark.parametrize("described", [False, True])
def test_posteriors_and_what_arms_have_in_common(partial, described):
    given, size = made(partial, described), FEATURES + 3 * described
    gram, cross, noise = given["gram"], given["cross"], given["noise"]
    for m in range(METRICS):
        prior, effects = given["prior"][m], np.random.default_rng(m).normal(size=size)
        means, variances = np.full((2, ARMS, METRICS, FEATURES), np.nan)
        covs = np.empty((ARMS, FEATURES, FEATURES))
        precision, total = np.zeros((size, size)), np.zeros(size)
        here = given["at_arms"], given["places"]
        for first, last in ((0, 2), (2, 5)):
            sums = gram, cross, prior, noise, *here
            posterior_of_arms(first, last, m, *sums, means, variances, covs, precision, total)
        common, wanted_precision, wanted_total = np.empty((ARMS, METRICS, FEATURES)), np.zeros((size, size)), 0 * total
        before = means.copy()
        add_common(0, ARMS, m, *here, effects, prior, covs, common, means)
        for k in range(ARMS):
            inverse = inverse_root(gram[k, 0], partial_of(gram, k, m), prior, noise[k, m])
            mean, variance, cov = np.empty(FEATURES), np.empty(FEATURES), np.empty((FEATURES, FEATURES))
            posterior_mean(inverse, cross[k, m], noise[k, m], mean, variance)
            covariance(inverse, cov)
            add_information(given["at_arms"][k], given["places"], cov, mean, prior, wanted_precision, wanted_total)
            np.testing.assert_array_equal(before[k, m], mean)
            np.testing.assert_array_equal(variances[k, m], variance)
            np.testing.assert_array_equal(covs[k], cov)
            np.testing.assert_array_equal(
                common[k, m], np.bincount(given["places"], given["at_arms"][k] * effects, minlength=FEATURES)
            )
            np.testing.assert_allclose(means[k, m], mean + cov @ (common[k, m] / prior), rtol=1e-9, atol=1e-12)
        np.testing.assert_array_equal(precision, wanted_precision)
        np.testing.assert_array_equal(total, wanted_total)
        assert np.isnan(means[:, 1 - m]).all(), "the other metric is left alone"


@pytest.mark.parametrize("partial", [False, True])
@pytest.mark.parametrize("described", [False, True])
def test_draws(partial, described):
    given, size, rng = made(partial, described), FEATURES + 3 * described, np.random.default_rng(8)
    means, roots = rng.normal(size=(ARMS, METRICS, FEATURES)), rng.normal(size=(METRICS, size, size))
    normals = rng.normal(size=(ARMS * METRICS, FEATURES + size, COLUMNS))
    covs = np.zeros((ARMS, METRICS, FEATURES, FEATURES))
    weights = np.zeros((ARMS, METRICS, FEATURES, COLUMNS))
    gram, prior, noise, at_arms, places = (given[name] for name in ("gram", "prior", "noise", "at_arms", "places"))
    for first, last in ((0, 3), (3, 10)):  # not at the border of an arm
        rows = normals[first:last]
        draw_for_arms(first, gram, prior, noise, means, at_arms, places, roots, rows, covs, weights)
    for pair in range(ARMS * METRICS):
        k, m = divmod(pair, METRICS)
        cov, drawn, spread = np.empty((FEATURES, FEATURES)), np.empty((FEATURES, COLUMNS)), np.zeros((FEATURES, size))
        inverse = inverse_root(gram[k, 0], partial_of(gram, k, m), prior[m], noise[k, m])
        covariance(inverse, cov)
        draw_weights(inverse, means[k, m], normals[pair, :FEATURES], drawn)
        np.add.at(spread, places, at_arms[k][:, None] * roots[m])
        add_unsure(prior[m], spread, normals[pair, FEATURES:], cov, drawn)
        np.testing.assert_array_equal(covs[k, m], cov)
        np.testing.assert_array_equal(weights[k, m], drawn)


@pytest.mark.parametrize("size", [1, 4, 7])
def test_effects(size):
    rng = np.random.default_rng(size)
    factor, total, prior = rng.normal(size=(size, size)), rng.normal(size=size), rng.uniform(0.1, 2.0, size)
    precision, (mean, variances) = np.tril(factor @ factor.T), np.full((2, size), np.nan)
    root = np.full((size, size), np.nan)
    posterior_of_effects(precision, total, prior, mean, variances, root)
    cov = np.linalg.inv(factor @ factor.T + np.diag(1 / prior))
    np.testing.assert_allclose(root @ root.T, cov, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(mean, cov @ total, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(variances, np.diag(cov), rtol=1e-9)


def test_costs():
    state, contexts = trained(n=300, n_arms=4)._state, np.random.default_rng(2).random((9, 2))
    got, wanted = np.empty((2, 9, 4))
    costs_at_each(state, np.uint64(3), contexts, got)
    for x, row in zip(contexts, wanted, strict=True):
        costs_at(state, np.uint64(3), x, row)
    np.testing.assert_array_equal(got, wanted)


@pytest.mark.parametrize("options", [{}, {"arm_features": [1.0, 2.0, 4.0, 8.0, 9.0]}])
def test_it_does_not_matter_how_many_arms_are_a_unit_of_work(options, monkeypatch):
    """Neither to the result nor to what it counts as: when a fit is done depends on the log alone."""
    policy, found = trained(n=500, n_arms=5, **options), []
    state, basis = policy._state, policy._fitter.basis
    totals = in_one_go(Sums().over_all(state))
    for unit in (1, 2_000, 10**9):
        monkeypatch.setattr(work, "UNIT", unit)
        fitted, costs = in_one_go(fit_weights(state, totals, basis, 3)), list(posterior(state, totals, basis))
        found.append((sum(costs), len(costs), fitted.weights.tobytes(), fitted.covs.tobytes()))
    assert {(total, *arrays) for total, _, *arrays in found} == {(found[0][0], *found[0][2:])}
    assert found[0][1] > found[1][1] > found[2][1]
