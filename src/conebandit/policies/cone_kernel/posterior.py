"""The posterior of the weights: what arms have in common, and what sets each of them apart.

The weights of an arm have a prior whose mean is itself unknown: the effect that a context has on the outcomes of every
arm, or of those that are described by like numbers. This is the random-effects model (Laird & Ware 1982). Given these
effects, arms are independent, so that everything is linear in their number.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from conebandit.kernels.cone_kernel.constants import COST_OF_A_FUNCTION
from conebandit.kernels.cone_kernel.each_arm import add_common, draw_for_arms, posterior_of_arms, posterior_of_effects
from conebandit.kernels.cone_kernel.state import AMPLITUDE, FITTED, OBSERVATIONS, State
from conebandit.policies.cone_kernel.arms import Effects
from conebandit.policies.cone_kernel.sums import Totals
from conebandit.policies.cone_kernel.work import Work, in_units
from conebandit.policies.layout import page_by_page
from conebandit.validate.arrays import FloatArray

# Multiply-adds that adding what an arm tells about a pair of effects counts as.
COST_OF_AN_EFFECT = 4


class Posterior(NamedTuple):
    """Means and variances of weights.

    Attributes
    ----------
    means
        Shape (K, M, D), of the weights of each arm.
    variances
        Shape (K, M, D), the same, if the effects were known.
    effects
        What arms have in common.
    shared, shared_variances
        Shape (M, S), of the effects: the weights that all arms share, and then those along the features of arms.
    roots
        Shape (M, S, S): such a root times its transpose is the covariance of the effects.
    common, common_variances
        Shape (K, M, D), of what the effects add up to at each arm.
    """

    means: FloatArray
    variances: FloatArray
    effects: Effects
    shared: FloatArray
    shared_variances: FloatArray
    roots: FloatArray
    common: FloatArray
    common_variances: FloatArray


def posterior(state: State, totals: Totals, basis: FloatArray) -> Work[Posterior]:
    """Posterior of the weights given the prior, from sums over all samples; ``basis`` (K, F) is that of the arms."""
    arms, objectives, features, _ = state.weights.shape
    means, variances, common, common_variances = np.empty((4, arms, objectives, features))
    effects = Effects.of(basis, state.prior)
    size, effects_prior = len(effects.features), effects.prior(state.scales)
    shared, shared_variances, roots = *np.empty((2, objectives, size)), np.empty((objectives, size, size))
    covs = page_by_page((arms, features, features))
    for m in range(objectives):
        prior = state.scales[AMPLITUDE, m] * state.prior[m]
        precision, total = np.zeros((size, size)), np.zeros(size)
        cost = cost_of_inverse(features) + COST_OF_AN_EFFECT * (size**2 - features**2)
        for first, last in in_units(arms, cost):
            sums = totals.gram, totals.cross, prior, state.noise, effects.at_arms, effects.features
            posterior_of_arms(first, last, m, *sums, means, variances, covs, precision, total)
            yield (last - first) * cost
        posterior_of_effects(precision, total, effects_prior[m], shared[m], shared_variances[m], roots[m])
        yield cost_of_inverse(size)
        if basis.shape[1] == 1:  # arms are not described, so what they have in common is the same for all
            common_variances[:, m] = shared_variances[m]
        else:
            for k in range(arms):
                common_variances[k, m] = (effects.spread_at(k, roots[m]) ** 2).sum(axis=1)
                yield COST_OF_AN_EFFECT * (size**2 - features**2)
        for first, last in in_units(arms, features**2):
            add_common(first, last, m, effects.at_arms, effects.features, shared[m], prior, covs, common, means)
            yield (last - first) * features**2
    return Posterior(means, variances, effects, shared, shared_variances, roots, common, common_variances)


def cost_of_inverse(features: int) -> int:
    """Multiply-adds of a Cholesky factor, its inverse and the covariance, and what is quadratic in the features."""
    return (features + COST_OF_A_FUNCTION) * features**2 // 2


def fit_weights(state: State, totals: Totals, basis: FloatArray, seed: int) -> Work[State]:
    """The state with weights, draws and covariances: their posterior given the samples of all arms.

    Given the effects, the weights of an arm have covariance C, and their mean moves by C inv(T) times what the effects
    add up to; T is the prior variance of the arm's own weights. So what is not known of the effects comes on top of C.
    """
    found = yield from posterior(state, totals, basis)
    arms, objectives, features, columns = state.weights.shape
    weights, covs = page_by_page(state.weights.shape), page_by_page((arms, objectives, features, features))
    rng = np.random.default_rng([seed, int(state.size[OBSERVATIONS])])
    size, prior = len(found.effects.features), state.scales[AMPLITUDE][:, None] * state.prior
    cost = cost_of_inverse(features) + columns * features**2 + features**2 * size // 2
    for first, last in in_units(arms * objectives, cost):
        normals = np.zeros((last - first, features + size, columns))  # in column 0, the mean, nothing is added
        normals[:, :, 1:] = rng.standard_normal((last - first, features + size, columns - 1))
        effects = found.effects.at_arms, found.effects.features, found.roots
        draw_for_arms(first, totals.gram, prior, state.noise, found.means, *effects, normals, covs, weights)
        yield (last - first) * cost
    counts = state.size.copy()
    counts[FITTED] = 1
    return state._replace(size=counts, weights=weights, covs=covs)
