"""The prior of the weights: its form, and how it is learned from the posterior.

The prior variance of a feature is a product over its coordinates, r_i s(j; l_i), up to a common factor: r_i is the
*relevance* of coordinate i (a coordinate that does not matter has r_i near 0), l_i its length scale, and s the spectral
density of a Matern kernel at the frequency of order j, adding up to 1. Products of this form are an analysis of
variance: main effects, interactions of two, of three. Relevances and length scales are shared by all arms, which
together know them much sooner than each alone. Metrics have their own, since safety may depend on another coordinate
than efficacy, but they are tied to each other: what matters to one matters to others more often than not.

They are learned by a fixed-point iteration on the evidence (MacKay 1992): with g_j = 1 - cov_jj / prior_j the number of
parameters that the data determine, the best variance of a weight is mean_j^2 / g_j; :func:`improve_prior` chooses among
the products above the one that fits these best. There is a weak prior on relevance and length, too: a relevance is a
variance, and its root is as uncertain as a length, on the log scale. The typical relevance is 1 / d, so that main
effects have more than half of the variance in any number of coordinates.
"""

from __future__ import annotations

import math

import numpy as np

from conebandit.kernels.compile import compiled, in_place
from conebandit.kernels.cone_kernel.constants import (
    BOX_MARGIN,
    LENGTH_REACH,
    LOG_DEVIATION,
    MATERN_SMOOTHNESS,
    MAX_LENGTH,
    MAX_RELEVANCE,
    METRIC_DEVIATION,
    MIN_LENGTH,
    MIN_PRIOR_VARIANCE,
    MIN_RELEVANCE,
    N_LENGTHS,
    N_RELEVANCES,
    RELEVANCE_REACH,
    TYPICAL_LENGTH,
)
from conebandit.kernels.types import Bools, Floats, Ints

LENGTHS = np.geomspace(MIN_LENGTH, MAX_LENGTH, N_LENGTHS)
RELEVANCES = np.geomspace(MIN_RELEVANCE, MAX_RELEVANCE, N_RELEVANCES)


def typical_relevance(dim: int) -> float:
    """Median of the weak prior on a relevance, and its value at first.

    With all relevances at 1 / d, main effects have 1 of (1 + 1 / d)^d - 1 parts of the variance: more than 1 / 1.72.
    """
    return 1.0 / dim


def spectral_density(highest: int) -> Floats:
    """Share of the variance of a coordinate at order j = 0, ..., ``highest`` for each of LENGTHS; 0 at j = 0.

    The spectral density of a Matern kernel of smoothness nu and length l at frequency w is proportional to
    (1 + (w l)^2 / (2 nu))^-(nu + 1/2).
    """
    frequency = np.pi * np.arange(highest + 1) / (1.0 + 2.0 * BOX_MARGIN)
    exponent = -(MATERN_SMOOTHNESS + 0.5)
    density = (1.0 + (frequency * LENGTHS[:, None]) ** 2 / (2.0 * MATERN_SMOOTHNESS)) ** exponent
    density[:, 0] = 0.0
    return np.asarray(density / density.sum(axis=1, keepdims=True))


@in_place
def write_prior(
    orders: Ints,
    density: Floats,
    relevance: Floats,
    lengths: Ints,
    constant: Floats,
    sentinels: Bools,
    least: Floats,
    prior: Floats,
) -> None:
    """Write the prior variance (M, D) of features, in units of the amplitude.

    That of a constant feature is ``constant`` (M,), that of a sentinel at least ``least`` (M,).
    """
    dim = orders.shape[1]
    for m in range(prior.shape[0]):
        total = 1.0
        for i in range(dim):
            total *= 1.0 + relevance[m, i]
        for j in range(orders.shape[0]):
            variance, varies = 1.0 / (total - 1.0), False
            for i in range(dim):
                if orders[j, i] > 0:
                    variance *= relevance[m, i] * density[lengths[m, i], orders[j, i]]
                    varies = True
            variance = max(variance, least[m] if sentinels[j] else MIN_PRIOR_VARIANCE)
            prior[m, j] = variance if varies else constant[m]


@compiled
def improve_priors(
    first: int,
    last: int,
    moments: Floats,
    known: Floats,
    orders: Ints,
    floor: Floats,
    density: Floats,
    relevance: Floats,
    lengths: Ints,
) -> None:
    """Steps ``first``, ..., ``last`` - 1 of sweeps over the coordinates, each by :func:`improve_prior`."""
    for step in range(first, last):
        improve_prior(step % orders.shape[1], moments, known, orders, floor, density, relevance, lengths)


@compiled
def improve_prior(
    i: int,
    moments: Floats,
    known: Floats,
    orders: Ints,
    floor: Floats,
    density: Floats,
    relevance: Floats,
    lengths: Ints,
) -> None:
    """One step of the iteration for coordinate ``i``; changes its column of ``relevance`` and ``lengths`` (M, d).

    ``moments`` and ``known`` (M, D) are sums over arms of mean_j^2 (in units of the amplitude) and g_j; ``floor``
    (M, D) are least prior variances. First all metrics move by the same steps on the grids, then each by itself.
    """
    metrics, features = moments.shape
    others, floors, densities = np.empty((metrics, 2, features)), with_logs(floor), with_logs(density)
    shares, places = np.empty(metrics), np.empty((metrics, 2), dtype=np.int64)
    here, tried = np.empty((metrics, 2), dtype=np.int64), np.empty((metrics, 2), dtype=np.int64)
    for m in range(metrics):
        shares[m] = _variances_without(i, orders, density, relevance[m], lengths[m], others[m])
        places[m, 0], places[m, 1] = _nearest_relevance(relevance[m, i]), lengths[m, i]
    for mover in range(-1, metrics if metrics > 1 else 0):
        first, last = (0, metrics) if mover < 0 else (mover, mover + 1)
        copy_rows(places, here, 0, metrics)
        copy_rows(places, tried, 0, metrics)
        best = -np.inf
        for r in range(-RELEVANCE_REACH, RELEVANCE_REACH + 1):
            for length in range(-LENGTH_REACH, LENGTH_REACH + 1):
                fit = 0.0
                for m in range(first, last):
                    tried[m, 0] = min(max(here[m, 0] + r, 0), RELEVANCES.size - 1)
                    tried[m, 1] = min(max(here[m, 1] + length, 0), LENGTHS.size - 1)
                    total = shares[m] * (1.0 + RELEVANCES[tried[m, 0]]) - 1.0
                    fit += _evidence(
                        i, tried[m], total, moments[m], known[m], orders, floors[:, m], densities, others[m]
                    )
                fit += _log_prior(tried, relevance.shape[1])
                if fit > best:
                    best = fit
                    copy_rows(tried, places, first, last)
    for m in range(metrics):
        relevance[m, i], lengths[m, i] = RELEVANCES[places[m, 0]], places[m, 1]


@in_place
def copy_rows(given: Ints, to: Ints, first: int, last: int) -> None:
    """Copy rows of pairs; assignments to slices take two seconds to compile."""
    for i in range(first, last):
        to[i, 0], to[i, 1] = given[i, 0], given[i, 1]


@compiled
def with_logs(values: Floats) -> Floats:
    """Positive numbers (m, n) and their logarithms: (2, m, n)."""
    both = np.empty((2, *values.shape))
    for i in range(values.shape[0]):
        for j in range(values.shape[1]):
            both[0, i, j] = values[i, j]
            both[1, i, j] = math.log(values[i, j]) if values[i, j] > 0.0 else -np.inf  # the density at order 0
    return both


@in_place
def _log_prior(places: Ints, dim: int) -> float:
    """Log density, up to a constant, of the relevances and length scales of all metrics (M, 2), as places on the grids.

    What metrics have in common is their mean on the log scale: it has a weak prior, and they deviate from it by
    METRIC_DEVIATION of its deviation.
    """
    metrics = places.shape[0]
    relevance = length = 0.0
    for m in range(metrics):
        relevance += math.log(RELEVANCES[places[m, 0]]) / metrics
        length += math.log(LENGTHS[places[m, 1]]) / metrics
    fit = _normal(relevance + math.log(dim), 2.0 * LOG_DEVIATION) + _normal(
        length - math.log(TYPICAL_LENGTH), LOG_DEVIATION
    )
    for m in range(metrics):
        fit += _normal(math.log(RELEVANCES[places[m, 0]]) - relevance, 2.0 * METRIC_DEVIATION * LOG_DEVIATION)
        fit += _normal(math.log(LENGTHS[places[m, 1]]) - length, METRIC_DEVIATION * LOG_DEVIATION)
    return fit


@in_place
def _normal(distance: float, deviation: float) -> float:
    """Log density of a normal number, up to a constant."""
    return -0.5 * (distance / deviation) ** 2


@in_place
def _nearest_relevance(relevance: float) -> int:
    """The place on the grid that is nearest on the log scale."""
    nearest, least = 0, np.inf
    for r in range(RELEVANCES.size):
        distance = abs(math.log(RELEVANCES[r] / relevance))
        if distance < least:
            nearest, least = r, distance
    return nearest


@in_place
def _variances_without(
    i: int, orders: Ints, density: Floats, relevance: Floats, lengths: Ints, variances: Floats
) -> float:
    """Write what other coordinates than ``i`` contribute to each prior variance, and its log; prod (1 + r_c) over them.

    ``variances`` is (2, D).
    """
    share = 1.0
    variances[0] = 1.0
    for c in range(orders.shape[1]):
        if c != i:
            share *= 1.0 + relevance[c]
            for j in range(orders.shape[0]):
                if orders[j, c] > 0:
                    variances[0, j] *= relevance[c] * density[lengths[c], orders[j, c]]
    for j in range(orders.shape[0]):
        variances[1, j] = math.log(variances[0, j])
    return share


@in_place
def _evidence(
    i: int,
    place: Ints,
    total: float,
    moments: Floats,
    known: Floats,
    orders: Ints,
    floor: Floats,
    density: Floats,
    others: Floats,
) -> float:
    """Log evidence of a metric, up to a constant, if coordinate ``i`` has this ``place`` (2,) on the two grids.

    ``total`` is the sum of all products of relevances, prod (1 + r_c) - 1, by which variances are divided. Of ``floor``
    (2, D), ``density`` (2, lengths, orders) and ``others`` (2, D) the first half are values, the second their logs.
    """
    fit, relevance = 0.0, RELEVANCES[place[0]]
    log_total, log_relevance = math.log(total), math.log(relevance)
    for j in range(orders.shape[0]):
        variance, log_variance, order = others[0, j] / total, others[1, j] - log_total, orders[j, i]
        if order > 0:
            variance *= relevance * density[0, place[1], order]
            log_variance += log_relevance + density[1, place[1], order]
        if variance < floor[0, j]:
            variance, log_variance = floor[0, j], floor[1, j]
        fit -= 0.5 * (known[j] * log_variance + moments[j] / variance)
    return fit
