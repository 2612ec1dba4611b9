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
from conebandit.kernels.spectral import CENTRE, CLEARLY, PAD, SPREAD, State, add_rows, believe, featurise, predict

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

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
def add_squares(
    parts: Ints, highest: int, data: Floats, chosen: Ints, first: int, last: int, fresh: Bools, gram: Floats
) -> None:
    """Add phi phi' over samples ``first``, ..., ``last`` - 1 to ``gram`` (K, M + 1, D, D), in its lower triangles.

    Samples count in place m of the second axis if metric m is known, but in the last place, for all metrics at once, if
    all are. Only entries are touched whose row or column is a ``fresh`` feature. Every entry is one sum in the order of
    the samples, so that it does not matter in how many calls it was added up. Four samples of an arm are added at once:
    an entry is then read and written once, not four times.
    """
    arms, places, features = gram.shape[:3]
    dim, objectives = data.shape[1] - places + 1, places - 1
    table, alone = np.empty(1 + dim * highest), np.empty((1, features))
    queue, waiting = np.empty((arms, 4, features)), np.zeros(arms, dtype=np.int64)
    columns = np.flatnonzero(fresh)
    for t in range(first, last):
        k = chosen[t]
        known = 0
        for m in range(objectives):
            known += not np.isnan(data[t, dim + m])
        if known == objectives:
            featurise(parts, data[t, :dim], table, queue[k, waiting[k]])
            waiting[k] += 1
            if waiting[k] == 4:
                _add_four(gram[k, objectives], queue[k], fresh, columns)
                waiting[k] = 0
        elif known > 0:
            featurise(parts, data[t, :dim], table, alone[0])
            for m in range(objectives):
                if not np.isnan(data[t, dim + m]):
                    _add_each(gram[k, m], alone, 1, fresh, columns)
    for k in range(arms):
        _add_each(gram[k, objectives], queue[k], waiting[k], fresh, columns)


@in_place
def _add_four(matrix: Floats, phi: Floats, fresh: Bools, columns: Ints) -> None:
    """Add phi phi' of four samples, one after the other, in the lower triangle."""
    p, q, r, s = phi[0], phi[1], phi[2], phi[3]
    for j in range(matrix.shape[0]):
        if fresh[j]:
            for i in range(j + 1):
                matrix[j, i] = (((matrix[j, i] + p[j] * p[i]) + q[j] * q[i]) + r[j] * r[i]) + s[j] * s[i]
        else:
            for i in columns:
                if i < j:
                    matrix[j, i] = (((matrix[j, i] + p[j] * p[i]) + q[j] * q[i]) + r[j] * r[i]) + s[j] * s[i]


@in_place
def _add_each(matrix: Floats, phi: Floats, rows: int, fresh: Bools, columns: Ints) -> None:
    """Add phi phi' of some samples, in the lower triangle."""
    for row in range(rows):
        for j in range(matrix.shape[0]):
            if fresh[j]:
                for i in range(j + 1):
                    matrix[j, i] += phi[row, j] * phi[row, i]
            else:
                for i in columns:
                    if i < j:
                        matrix[j, i] += phi[row, j] * phi[row, i]


@compiled
def add_targets(parts: Ints, highest: int, data: Floats, chosen: Ints, n: int, scales: Floats, cross: Floats) -> Floats:
    """Add phi y over the first n samples to ``cross`` (K, M, D), y in units of the spread; gives sums of y^2, (M,)."""
    objectives, features = cross.shape[1:]
    dim = data.shape[1] - objectives
    table, phi, squares = np.empty(1 + dim * highest), np.empty(features), np.zeros(objectives)
    for t in range(n):
        featurise(parts, data[t, :dim], table, phi)
        for m in range(objectives):
            target = (data[t, dim + m] - scales[CENTRE, m]) / scales[SPREAD, m]
            if not np.isnan(target):
                squares[m] += target * target
                for j in range(features):
                    cross[chosen[t], m, j] += target * phi[j]
    return squares


@compiled
def factor(gram: Floats, known: Floats, prior: Floats, noise: float) -> Floats:
    """Inverse of the upper triangular root of the posterior precision; ``gram`` + ``known`` are sums of phi phi'."""
    features = prior.size
    root, inverse = np.empty((features, features)), np.zeros((features, features))
    for j in range(features):
        for i in range(j + 1):
            root[i, j] = (gram[j, i] + known[j, i]) / noise
        root[j, j] += 1.0 / prior[j]
    _cholesky(root, np.empty(features))
    _invert(root, inverse)
    return inverse


@compiled
def posterior_mean(inverse: Floats, cross: Floats, noise: float, mean: Floats, variances: Floats) -> None:
    """Mean and variances of the weights."""
    features = cross.size
    transposed, solved = inverse.T.copy(), np.zeros(features)
    mean[:], variances[:] = 0.0, 0.0
    for j in range(features):
        target = cross[j] / noise
        for i in range(j, features):
            solved[i] += target * inverse[j, i]
    for j in range(features):
        for i in range(j + 1):
            mean[i] += solved[j] * transposed[j, i]
            variances[i] += transposed[j, i] * transposed[j, i]


@compiled
def posterior(inverse: Floats, mean: Floats, normals: Floats, cov: Floats, weights: Floats) -> None:
    """Covariance, and the mean (column 0 of ``weights``) and draws from standard ``normals`` (D, L - 1)."""
    features = mean.size
    transposed = inverse.T.copy()
    cov[:] = 0.0
    for j in range(features):
        weights[j, :] = mean[j]
        add_rows(weights[j, 1:], inverse[j, j:], normals[j:])
        add_rows(cov[j, : j + 1], inverse[j, j:], transposed[j:])
        for i in range(j):
            cov[i, j] = cov[j, i]


@in_place
def _cholesky(a: Floats, column: Floats) -> None:
    """Replace the upper triangle of a positive definite matrix by R with R'R = a; ``column`` is scratch."""
    n = a.shape[0]
    for j in range(n):
        for k in range(j):
            column[k] = -a[k, j]
        row = a[j, j:]
        add_rows(row, column[:j], a[:j, j:])
        scale = 1.0 / math.sqrt(row[0])
        for i in range(row.size):
            row[i] *= scale


@in_place
def _invert(root: Floats, inverse: Floats) -> None:
    """Inverse of an upper triangular matrix, by back substitution; ``inverse`` comes as zeros, ``root`` is negated."""
    n = root.shape[0]
    for j in range(n - 1, -1, -1):
        row, shares = inverse[j, j:], root[j, j:]
        scale = 1.0 / shares[0]
        for i in range(shares.size):
            shares[i] = -shares[i]
        for k in range(1, shares.size, 4):  # rows of the inverse begin at their diagonal
            add_rows(row[k:], shares[k : k + 4], inverse[j + k : j + k + 4, j + k :])
        row[0] = 1.0
        for i in range(row.size):
            row[i] *= scale


@compiled
def residuals(gram: Floats, cross: Floats, squares: Floats, weights: Floats) -> Floats:
    """Sum of squared errors of the posterior means (K, M, D) on all samples, for each metric, from sums."""
    arms, objectives, features = weights.shape
    left = squares.copy()
    fitted = np.empty(features)
    for k in range(arms):
        for m in range(objectives):
            fitted[:] = 0.0
            for j in range(features):
                left[m] -= 2.0 * weights[k, m, j] * cross[k, m, j]
                for i in range(j + 1):
                    square = gram[k, m, j, i] + gram[k, objectives, j, i]
                    fitted[i] += square * weights[k, m, j] * (1.0 if i == j else 2.0)
            for j in range(features):
                left[m] += fitted[j] * weights[k, m, j]
    return np.maximum(left, 0.0)


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
def tie_counts(state: State, highest: int, first: int) -> Floats:
    """How arms compare with one that is clearly better elsewhere, at the contexts of samples ``first`` and later.

    A lead is that of the closest such arm, in posterior deviations, on the facet that decides. Gives how many leads are
    within 1, between 1 and 2, between 2 and 4, and beyond 2 of zero.
    """
    arms, objectives, features, columns = state.weights.shape
    dim = state.orders.shape[1]
    table, phi, values = np.empty(1 + dim * highest), np.empty(features), np.empty((arms, objectives, columns))
    y, scratch = np.empty((2, arms, state.facets.shape[0]))
    variances = np.empty_like(y)
    near = mid = far = decided = 0
    for t in range(first, state.size[0]):
        featurise(state.parts, state.data[t, :dim], table, phi)
        predict(state.weights, phi, values)
        believe(state, values, y, variances, scratch)
        for b in range(arms):
            closest = -np.inf
            for a in range(arms):
                if a != b:
                    least, most = _lead(y, variances, a, b)
                    if most > CLEARLY:
                        closest = max(closest, least)
            near += abs(closest) < 1.0
            mid += 1.0 < abs(closest) < 2.0
            far += 2.0 < abs(closest) < 4.0
            decided += 2.0 < abs(closest) < np.inf
    return np.array([near, mid, far, decided], dtype=np.float64)


@in_place
def _lead(y: Floats, variances: Floats, a: int, b: int) -> tuple[float, float]:
    """By how many posterior deviations ``a`` is above ``b`` on the facet where it is least, and where it is most."""
    least, most = np.inf, -np.inf
    for j in range(y.shape[1]):
        deviation = math.sqrt(variances[a, j] + variances[b, j])
        rise = y[a, j] - y[b, j]
        if deviation > 0.0:
            t = rise / deviation
        else:
            t = np.inf if rise > 0.0 else (-np.inf if rise < 0.0 else 0.0)
        least, most = min(least, t), max(most, t)
    return least, most
