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
from conebandit.kernels.rng import mix
from conebandit.kernels.spectral import PAD, State, add_rows, featurise, predict
from conebandit.kernels.spectral_choice import AMPLITUDE, CLEARLY, GOLDEN, nearly_normal, see, spread_of_draws

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
def add_samples(
    parts: Ints,
    highest: int,
    data: Floats,
    chosen: Ints,
    first: int,
    last: int,
    fresh: Bools,
    origin: Floats,
    gram: Floats,
    cross: Floats,
) -> None:
    """Add samples ``first``, ..., ``last`` - 1 to the sums that a fit needs.

    These are the sums of phi phi' in ``gram`` (K, P, D, D), in its lower triangles, and those of phi times reward minus
    ``origin`` in ``cross`` (K, M, D). Samples of which all metrics are known count in place 0 of the second axis of
    ``gram``, for all metrics at once; others in place 1 + m if metric m is known. Only entries are touched whose row or
    column is a ``fresh`` feature. Every entry is one sum in the order of the samples, so that it does not matter in how
    many calls it was added up. Four samples of an arm are added at once: an entry is then read and written once, not
    four times.
    """
    arms, objectives, features = cross.shape
    dim = data.shape[1] - objectives
    table, alone = np.empty(1 + dim * highest), np.empty((1, features))
    queue, waiting = np.empty((arms, 4, features)), np.zeros(arms, dtype=np.int64)
    columns = np.flatnonzero(fresh)
    for t in range(first, last):
        k = chosen[t]
        known = 0
        for m in range(objectives):
            known += not np.isnan(data[t, dim + m])
        if known == 0:
            continue
        phi = queue[k, waiting[k]] if known == objectives else alone[0]
        featurise(parts, data[t, :dim], table, phi)
        for m in range(objectives):
            target = data[t, dim + m] - origin[m]
            if not np.isnan(target):
                for j in columns:
                    cross[k, m, j] += target * phi[j]
                if known < objectives:
                    _add_each(gram[k, 1 + m], alone, 1, fresh, columns)
        if known == objectives:
            waiting[k] += 1
            if waiting[k] == 4:
                if columns.size == features:
                    _add_four(gram[k, 0], queue[k])
                else:
                    _add_each(gram[k, 0], queue[k], 4, fresh, columns)
                waiting[k] = 0
    for k in range(arms):
        _add_each(gram[k, 0], queue[k], waiting[k], fresh, columns)


@in_place
def _add_four(matrix: Floats, phi: Floats) -> None:
    """Add phi phi' of four samples, one after the other, in the lower triangle."""
    p, q, r, s = phi[0], phi[1], phi[2], phi[3]
    last = matrix.shape[0] - 1
    for j in range(0, last, 2):
        _add_to_two(matrix[j, : j + 1], matrix[j + 1, : j + 1], _four(phi, j), _four(phi, j + 1), p, q, r, s)
        matrix[j + 1, j + 1] = _add_products(matrix[j + 1, j + 1], phi, j + 1, j + 1)
    if last % 2 == 0:
        for i in range(last + 1):
            matrix[last, i] = _add_products(matrix[last, i], phi, last, i)


@in_place
def _add_products(total: float, phi: Floats, j: int, i: int) -> float:
    for row in range(4):
        total += phi[row, j] * phi[row, i]
    return total


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


@in_place
def _four(a: Floats, j: int) -> tuple[float, float, float, float]:
    """Column ``j`` of four rows."""
    return a[0, j], a[1, j], a[2, j], a[3, j]


@in_place
def _add_to_two(
    one: Floats,
    other: Floats,
    a: tuple[float, float, float, float],
    b: tuple[float, float, float, float],
    p: Floats,
    q: Floats,
    r: Floats,
    s: Floats,
) -> None:
    """Add four rows with weights ``a`` to ``one`` and with weights ``b`` to ``other``, which may be shorter than they.

    This is where fits spend their time: of each number that is read, all is made before the next one is read.
    """
    for i in range(one.size):
        x, y, z, w = p[i], q[i], r[i], s[i]
        one[i] = (((one[i] + a[0] * x) + a[1] * y) + a[2] * z) + a[3] * w
        other[i] = (((other[i] + b[0] * x) + b[1] * y) + b[2] * z) + b[3] * w


@compiled
def factor(complete: Floats, partial: Floats, prior: Floats, noise: float) -> Floats:
    """Inverse of the upper triangular root of the posterior precision; its arguments' sum is that of all phi phi'.

    Has a multiple of four rows; those beyond the number of features are of no meaning.
    """
    features = prior.size
    padded = -(-features // 4) * 4
    root, inverse = np.zeros((padded, padded)), np.zeros((padded, padded))
    for j in range(features):
        for i in range(j + 1):
            root[i, j] = (complete[j, i] + partial[j, i]) / noise
        root[j, j] += 1.0 / prior[j]
    for j in range(features, padded):
        root[j, j] = 1.0
    _cholesky(root)
    _invert(root, inverse)
    return inverse


@compiled
def posterior_mean(inverse: Floats, cross: Floats, noise: float, mean: Floats, variances: Floats) -> None:
    """Mean and variances of the weights."""
    features = cross.size
    transposed, solved = inverse.T.copy(), np.zeros(features)
    mean[:], variances[:] = 0.0, 0.0
    for j in range(features):
        target, row, rest = cross[j] / noise, inverse[j, j:], solved[j:]
        for i in range(rest.size):
            rest[i] += target * row[i]
    for j in range(features):
        for i in range(j + 1):
            mean[i] += solved[j] * transposed[j, i]
            variances[i] += transposed[j, i] * transposed[j, i]


@compiled
def posterior(inverse: Floats, mean: Floats, normals: Floats, cov: Floats, weights: Floats) -> None:
    """Covariance, and the mean and draws: column 0 of ``normals`` (D, L) is 0, the others are standard normal."""
    features = mean.size
    transposed, padded = inverse.T.copy(), np.zeros_like(inverse)
    for first in range(0, padded.shape[0], 4):
        rows = transposed[first : first + 4]
        p, q, r, s = rows[0], rows[1], rows[2], rows[3]
        for j in range(0, first + 4, 2):
            _add_to_two(padded[j, : j + 2], padded[j + 1, : j + 2], _four(rows, j), _four(rows, j + 1), p, q, r, s)
    for j in range(features):
        weights[j, :] = mean[j]
        add_rows(weights[j], inverse[j, j:features], normals[j:])
        for i in range(j + 1):
            cov[j, i] = padded[j, i]
            cov[i, j] = padded[j, i]


@in_place
def _cholesky(a: Floats) -> None:
    """Replace the upper triangle of a positive definite matrix by R with R'R = a; below it, entries lose their meaning.

    The number of rows is a multiple of four. When four rows are done, all others are rid of them.
    """
    n = a.shape[0]
    for first in range(0, n, 4):
        for j in range(first, first + 4):
            row = a[j, j:]
            for k in range(first, j):
                share, done = a[k, j], a[k, j:]
                for i in range(row.size):
                    row[i] -= share * done[i]
            scale = 1.0 / math.sqrt(row[0])
            for i in range(row.size):
                row[i] *= scale
        p, q, r, s = a[first], a[first + 1], a[first + 2], a[first + 3]
        for j in range(first + 4, n, 2):
            one, other = (-p[j], -q[j], -r[j], -s[j]), (-p[j + 1], -q[j + 1], -r[j + 1], -s[j + 1])
            _add_to_two(a[j, j:], a[j + 1, j:], one, other, p[j:], q[j:], r[j:], s[j:])


@in_place
def _invert(root: Floats, inverse: Floats) -> None:
    """Inverse of an upper triangular matrix, from its last rows up; ``inverse`` comes as zeros.

    Rows are taken as ``a[j, k:]``, never out of ``a[j:, k:]``: a row of the latter is not known to be contiguous, and
    loops over it would not be vectorised.
    """
    n = root.shape[0]
    for j in range(n):
        inverse[j, j] = 1.0
    for first in range(n - 4, -1, -4):
        for j in range(first + 3, first - 1, -1):
            row = inverse[j, first:]
            for k in range(j + 1, first + 4):
                share, done = root[j, k], inverse[k, first:]
                for i in range(row.size):
                    row[i] -= share * done[i]
            scale = 1.0 / root[j, j]
            for i in range(row.size):
                row[i] *= scale
        p, q, r, s = (
            inverse[first, first:],
            inverse[first + 1, first:],
            inverse[first + 2, first:],
            inverse[first + 3, first:],
        )
        for j in range(0, first, 2):
            one, other = _minus_four(root[j, first:]), _minus_four(root[j + 1, first:])
            _add_to_two(inverse[j, first:], inverse[j + 1, first:], one, other, p, q, r, s)


@in_place
def _minus_four(a: Floats) -> tuple[float, float, float, float]:
    """The first four entries, negated."""
    return -a[0], -a[1], -a[2], -a[3]


@compiled
def residuals(gram: Floats, cross: Floats, squares: Floats, weights: Floats) -> Floats:
    """Sum of squared errors of the posterior means (K, M, D) on all samples, for each metric, from sums.

    ``cross`` (K, M, D) are sums of features times targets, ``squares`` (M,) of squared targets.
    """
    arms, objectives, features = weights.shape
    left = squares.copy()
    fitted = np.empty(features)
    for k in range(arms):
        for m in range(objectives):
            fitted[:] = 0.0
            for j in range(features):
                left[m] -= 2.0 * weights[k, m, j] * cross[k, m, j]
                _add_symmetric(gram[k, 0, j], weights[k, m, j], fitted, j)
                if gram.shape[1] > 1:
                    _add_symmetric(gram[k, 1 + m, j], weights[k, m, j], fitted, j)
            for j in range(features):
                left[m] += fitted[j] * weights[k, m, j]
    return np.maximum(left, 0.0)


@in_place
def _add_symmetric(row: Floats, weight: float, fitted: Floats, j: int) -> None:
    """Add ``weight`` times row ``j`` of a lower triangle, entries left of the diagonal counted twice."""
    twice = 2.0 * weight
    for i in range(j):
        fitted[i] += row[i] * twice
    fitted[j] += row[j] * weight


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
    within 1 of zero; how many of them are so if means are drawn from the prior, where there are no ties, and are as
    well known as now; and how many are between 2 and 4, and beyond 2.
    """
    arms, objectives, features, columns = state.weights.shape
    dim, facets = state.orders.shape[1], state.facets.shape[0]
    table, phi, values = np.empty(1 + dim * highest), np.empty(features), np.empty((arms, objectives, columns))
    y, variances, unsure = np.empty((arms, facets, columns)), np.empty((arms, facets)), np.empty((arms, objectives))
    leads, drawn, without_ties = np.empty(arms), np.empty((arms, objectives, 1)), np.empty((arms, facets, 1))
    near = expected = far = decided = 0
    for t in range(first, state.size[0]):
        featurise(state.parts, state.data[t, :dim], table, phi)
        predict(state.weights, phi, values)
        see(state.facets, state.scales, values, y)
        spread_of_draws(y, variances)
        _closest_leads(y, variances, leads)
        for b in range(arms):
            near += abs(leads[b]) < 1.0
            far += 2.0 < abs(leads[b]) < 4.0
            decided += 2.0 < abs(leads[b]) < np.inf
        spread_of_draws(values, unsure)
        _draw_estimates(state, phi, unsure, mix(np.uint64(t)), drawn)
        see(state.facets, state.scales, drawn, without_ties)
        _closest_leads(without_ties, variances, leads)
        for b in range(arms):
            expected += abs(leads[b]) < 1.0
    return np.array([near, expected, far, decided], dtype=np.float64)


@in_place
def _draw_estimates(state: State, phi: Floats, unsure: Floats, key: np.uint64, drawn: Floats) -> None:
    """Estimates (K, M, 1) of means drawn from the prior, if what is not known of them has variances ``unsure``."""
    prior = 0.0
    for i in range(phi.size):
        prior += state.prior[i] * phi[i] * phi[i]
    count = np.uint64(0)
    for k in range(drawn.shape[0]):
        for m in range(drawn.shape[1]):
            count += np.uint64(1)
            known = max(state.scales[AMPLITUDE, m] * prior - unsure[k, m], 0.0)
            drawn[k, m, 0] = math.sqrt(known) * nearly_normal(mix(key + count * GOLDEN))


@in_place
def _closest_leads(y: Floats, variances: Floats, leads: Floats) -> None:
    """Lead over each arm of the closest one that is clearly better on some facet; minus infinity if there is none."""
    for b in range(leads.size):
        leads[b] = -np.inf
        for a in range(leads.size):
            if a != b:
                least, most = _lead(y, variances, a, b)
                if most > CLEARLY:
                    leads[b] = max(leads[b], least)


@in_place
def _lead(y: Floats, variances: Floats, a: int, b: int) -> tuple[float, float]:
    """By how many posterior deviations ``a`` is above ``b`` on the facet where it is least, and where it is most."""
    least, most = np.inf, -np.inf
    for j in range(y.shape[1]):
        deviation = math.sqrt(variances[a, j] + variances[b, j])
        rise = y[a, j, 0] - y[b, j, 0]
        if deviation > 0.0:
            t = rise / deviation
        else:
            t = np.inf if rise > 0.0 else (-np.inf if rise < 0.0 else 0.0)
        least, most = min(least, t), max(most, t)
    return least, most
