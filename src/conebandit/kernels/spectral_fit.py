"""Bayesian regression on products of cosines: fitting it anew, and learning its prior from the data.

The prior variance of a feature is a product over its coordinates, r_i s(j; l_i), up to a common factor: r_i is the
*relevance* of coordinate i (a coordinate that does not matter has r_i near 0), l_i its length scale, and s the spectral
density of a Matern kernel of smoothness 5/2 at the frequency of order j, adding up to 1. Products of this form are an
analysis of variance: main effects, interactions of two, of three. Relevances and length scales are shared by all arms
and metrics, which together know them much sooner than each alone.

They are learned by a fixed-point iteration on the evidence (MacKay 1992): with g_j = 1 - cov_jj / prior_j the number of
parameters that the data determine, the best variance of a weight is mean_j^2 / g_j; :func:`improve_prior` chooses among
the products above the one that fits these best. There is a weak prior on relevance and length, too.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from conebandit.kernels.compile import compiled, in_place
from conebandit.kernels.spectral import CENTRE, CLEARLY, PAD, SPREAD, State, believe, featurise, lead, predict

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

LENGTHS = np.geomspace(0.05, 3.0, 14)  # length scales that are tried, in units of the box
RELEVANCES = np.geomspace(1e-4, 10.0, 21)
TYPICAL_LENGTH, TYPICAL_RELEVANCE = 0.5, 0.5
_SMOOTHNESS = 2.5
_REACH = (3, 2)  # steps on the two grids that one iteration may go


def spectrum(highest: int) -> Floats:
    """Share of the variance of a coordinate at order j = 0, ..., ``highest`` for each of LENGTHS; 0 at j = 0."""
    frequency = np.pi * np.arange(highest + 1) / (1.0 + 2.0 * PAD)
    density = (1.0 + (frequency * LENGTHS[:, None]) ** 2 / (2.0 * _SMOOTHNESS)) ** -(_SMOOTHNESS + 0.5)
    density[:, 0] = 0.0
    return np.asarray(density / density.sum(axis=1, keepdims=True))


@compiled
def sums(
    parts: Ints, highest: int, data: Floats, chosen: Ints, n: int, scales: Floats, gram: Floats, cross: Floats
) -> None:
    """Add up phi phi' (K, M, D, D) and phi y (K, M, D) over the first n samples, for known metrics."""
    arms, objectives, features = cross.shape
    dim = data.shape[1] - objectives
    table, phi = np.empty(1 + dim * highest), np.empty(features)
    complete = np.zeros((arms, features, features))  # samples with all metrics known count for all of them
    for t in range(n):
        featurise(parts, data[t, :dim], table, phi)
        k = chosen[t]
        unknown = 0
        for m in range(objectives):
            if np.isnan(data[t, dim + m]):
                unknown += 1
            else:
                target = (data[t, dim + m] - scales[CENTRE, m]) / scales[SPREAD, m]
                for j in range(features):
                    cross[k, m, j] += target * phi[j]
        if unknown == 0:
            _add_square(complete[k], phi)
        elif unknown < objectives:
            for m in range(objectives):
                if not np.isnan(data[t, dim + m]):
                    _add_square(gram[k, m], phi)
    for k in range(arms):
        for m in range(objectives):
            for j in range(features):
                for i in range(j + 1):
                    gram[k, m, j, i] += complete[k, j, i]
                    gram[k, m, i, j] = gram[k, m, j, i]


@in_place
def _add_square(matrix: Floats, phi: Floats) -> None:
    """Add phi phi' to the lower triangle."""
    for j in range(phi.size):
        for i in range(j + 1):
            matrix[j, i] += phi[j] * phi[i]


@compiled
def posterior(
    gram: Floats, cross: Floats, prior: Floats, noise: float, normals: Floats, cov: Floats, weights: Floats
) -> None:
    """Covariance, mean (column 0 of ``weights``) and draws, from standard ``normals`` (D, L - 1)."""
    features, columns = weights.shape
    root = np.empty((features, features))
    for j in range(features):
        for i in range(features):
            root[j, i] = gram[j, i] / noise
        root[j, j] += 1.0 / prior[j]
    _cholesky(root)
    inverse = np.zeros((features, features))
    _invert(root, inverse)
    transposed = inverse.T.copy()
    weights[:], cov[:] = 0.0, 0.0
    for j in range(features):
        for k in range(j, features):
            for i in range(j + 1):
                cov[j, i] += inverse[j, k] * transposed[k, i]
            for c in range(1, columns):
                weights[j, c] += inverse[j, k] * normals[k, c - 1]
        for i in range(j):
            cov[i, j] = cov[j, i]
    for j in range(features):
        for i in range(features):
            weights[i, 0] += cross[j] / noise * cov[j, i]
    for j in range(features):
        for c in range(1, columns):
            weights[j, c] += weights[j, 0]


@in_place
def _cholesky(a: Floats) -> None:
    """Replace the upper triangle of a positive definite matrix by R with R'R = a."""
    n = a.shape[0]
    for j in range(n):
        scale = 1.0 / math.sqrt(a[j, j])
        for i in range(j, n):
            a[j, i] *= scale
        for k in range(j + 1, n):
            factor = a[j, k]
            for i in range(k, n):
                a[k, i] -= factor * a[j, i]


@in_place
def _invert(root: Floats, inverse: Floats) -> None:
    """Inverse of an upper triangular matrix, by back substitution; ``inverse`` comes as zeros."""
    n = root.shape[0]
    for j in range(n - 1, -1, -1):
        inverse[j, j] = 1.0
        for k in range(j + 1, n):
            factor = root[j, k]
            for i in range(k, n):
                inverse[j, i] -= factor * inverse[k, i]
        scale = 1.0 / root[j, j]
        for i in range(j, n):
            inverse[j, i] *= scale


@compiled
def residuals(state: State, highest: int) -> Floats:
    """Sum of squared errors of the posterior mean on all samples, for each metric, in units of the spread."""
    objectives, dim = state.counts.shape[1], state.orders.shape[1]
    table, phi = np.empty(1 + dim * highest), np.empty(state.parts.shape[0])
    squares = np.zeros(objectives)
    for t in range(state.size[0]):
        featurise(state.parts, state.data[t, :dim], table, phi)
        for m in range(objectives):
            if not np.isnan(state.data[t, dim + m]):
                error = (state.data[t, dim + m] - state.scales[CENTRE, m]) / state.scales[SPREAD, m]
                for j in range(phi.size):
                    error -= phi[j] * state.weights[state.chosen[t], m, j, 0]
                squares[m] += error * error
    return squares


@compiled
def improve_prior(
    moments: Floats, known: Floats, orders: Ints, floor: Floats, density: Floats, relevance: Floats, lengths: Ints
) -> None:
    """Step of the fixed-point iteration, coordinate by coordinate, in place.

    ``moments`` and ``known`` (D,) are sums over arms and metrics of mean^2 (in units of the amplitude) and g.
    """
    features, dim = orders.shape
    others = np.empty(features)
    for _ in range(2):
        for i in range(dim):
            share = 1.0
            others[:] = 1.0
            for c in range(dim):
                if c != i:
                    share *= 1.0 + relevance[c]
                    for j in range(features):
                        if orders[j, c] > 0:
                            others[j] *= relevance[c] * density[lengths[c], orders[j, c]]
            here = int(np.argmin(np.abs(np.log(RELEVANCES / relevance[i]))))
            best, best_r, best_l = -np.inf, here, lengths[i]
            for r in range(max(here - _REACH[0], 0), min(here + _REACH[0] + 1, RELEVANCES.size)):
                for length in range(max(lengths[i] - _REACH[1], 0), min(lengths[i] + _REACH[1] + 1, LENGTHS.size)):
                    total = share * (1.0 + RELEVANCES[r]) - 1.0
                    # A weak prior: relevance within a factor of 50 or so, length within a factor of 7, of the typical.
                    fit = -0.5 * (np.log(RELEVANCES[r] / TYPICAL_RELEVANCE) / 2.0) ** 2
                    fit -= 0.5 * np.log(LENGTHS[length] / TYPICAL_LENGTH) ** 2
                    for j in range(features):
                        variance = others[j] / total
                        if orders[j, i] > 0:
                            variance *= RELEVANCES[r] * density[length, orders[j, i]]
                        variance = max(variance, floor[j])
                        fit -= 0.5 * (known[j] * np.log(variance) + moments[j] / variance)
                    if fit > best:
                        best, best_r, best_l = fit, r, length
            relevance[i], lengths[i] = RELEVANCES[best_r], best_l


@compiled
def tie_counts(state: State, highest: int, first: int) -> tuple[int, int, int]:
    """Arms that nearly tie with one that is clearly better elsewhere, at the contexts of samples ``first`` and later.

    Returns how many are within one posterior deviation of it, on the facet that decides, how many between 2 and 4, and
    how many beyond 2.
    """
    arms, objectives, features, columns = state.weights.shape
    dim = state.orders.shape[1]
    table, phi, values = np.empty(1 + dim * highest), np.empty(features), np.empty((arms, objectives, columns))
    y, scratch = np.empty((2, arms, state.facets.shape[0]))
    variances = np.empty_like(y)
    near = far = decided = 0
    for t in range(first, state.size[0]):
        featurise(state.parts, state.data[t, :dim], table, phi)
        predict(state.weights, phi, values)
        believe(state, values, y, variances, scratch)
        for b in range(arms):
            closest = -np.inf
            for a in range(arms):
                if a != b:
                    least, most = lead(y, variances, a, b)
                    if most > CLEARLY:
                        closest = max(closest, least)
            near += abs(closest) < 1.0
            far += 2.0 < abs(closest) < 4.0
            decided += abs(closest) > 2.0
    return near, far, decided
