"""The prior of the weights: its form, and how it is learned from the posterior.

The prior variance of a feature is a product over its coordinates, r_i s(j; l_i, nu_i), up to a common factor: r_i is
the *relevance* of coordinate i (a coordinate that does not matter has r_i near 0), l_i its length scale, nu_i its
smoothness, and s the spectral density of a Matern kernel at the frequency of order j, adding up to 1. With nu = 5/2
functions have two derivatives; with 1/2 they have none, as where means jump. Products of this form are an analysis of
variance: main effects, interactions of two, of three. All three are shared by all arms, which together know
them much sooner than each alone. Metrics have their own, since safety may depend on another coordinate
than efficacy, but they are tied to each other: what matters to one matters to others more often than not.

They are learned by a fixed-point iteration on the evidence (MacKay 1992). With g_j = 1 - cov_jj / prior_j, the share of
a weight that the data determine, the data tell as much of it as one measurement, mean_j / g_j, with an error of
variance prior_j (1 - g_j) / g_j. :func:`improve_prior` chooses among the products above the one under which these
measurements are most probable. Where nothing changes any more the derivative of this is that of the evidence, as with
MacKay's formula; and since errors are counted, values that are far from the present one are not judged by its slope.

There is a weak prior on all three, too, on the log scale: a relevance is a variance, and its root is as uncertain as a
length or a smoothness. The typical relevance is 1 / d, so that main effects have more than half of the variance in any
number of coordinates.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from conebandit.kernels.compile import compiled, in_place
from conebandit.kernels.cone_kernel.constants import (
    BOX_MARGIN,
    LOG_DEVIATION,
    MAX_LENGTH,
    MAX_RELEVANCE,
    METRIC_DEVIATION,
    MIN_LENGTH,
    MIN_PRIOR_VARIANCE,
    MIN_RELEVANCE,
    N_LENGTHS,
    N_RELEVANCES,
    SMOOTHNESSES,
    TYPICAL_LENGTH,
)
from conebandit.kernels.types import Bools, Floats, Ints

RELEVANCES = np.geomspace(MIN_RELEVANCE, MAX_RELEVANCE, N_RELEVANCES)
LENGTHS = np.geomspace(MIN_LENGTH, MAX_LENGTH, N_LENGTHS)
NUS = np.array(SMOOTHNESSES)


def _moves() -> NDArray[np.int64]:
    """Steps on the grids of relevances, lengths and smoothnesses that are tried for a coordinate: (n, 3).

    They lead to neighbours only. Weights count as measured apart from each other, which they are not where contexts
    crowd in a corner: there, longer steps jump to and fro between kernels that leave out different features. Another
    smoothness is tried with lengths nearby, since the two make up for each other, not with other relevances.
    """
    near = (-1, 0, 1)
    as_smooth = [(r, length, 0) for r in near for length in near]
    return np.array(as_smooth + [(0, length, turn) for turn in range(1, len(SMOOTHNESSES)) for length in near])


MOVES = _moves()


def typical_relevance(dim: int) -> float:
    """Median of the weak prior on a relevance, and its value at first.

    With all relevances at 1 / d, main effects have 1 of (1 + 1 / d)^d - 1 parts of the variance: more than 1 / 1.72.
    """
    return 1.0 / dim


def spectral_density(highest: int) -> Floats:
    """Share of the variance of a coordinate at order j = 0, ..., ``highest``, 0 at j = 0; for each of NUS and LENGTHS.

    The spectral density of a Matern kernel of smoothness nu and length l at frequency w is proportional to
    (1 + (w l)^2 / (2 nu))^-(nu + 1/2).
    """
    frequency, nu = np.pi * np.arange(highest + 1) / (1.0 + 2.0 * BOX_MARGIN), NUS[:, None, None]
    density = (1.0 + (frequency * LENGTHS[:, None]) ** 2 / (2.0 * nu)) ** -(nu + 0.5)
    density[:, :, 0] = 0.0
    return np.asarray(density / density.sum(axis=2, keepdims=True))


@in_place
def write_prior(
    orders: Ints,
    density: Floats,
    relevance: Floats,
    lengths: Ints,
    smoothness: Ints,
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
                    variance *= relevance[m, i] * density[smoothness[m, i], lengths[m, i], orders[j, i]]
                    varies = True
            variance = max(variance, least[m] if sentinels[j] else MIN_PRIOR_VARIANCE)
            prior[m, j] = variance if varies else constant[m]


@compiled
def improve_priors(
    first: int,
    last: int,
    squares: Floats,
    number: Floats,
    error: Floats,
    orders: Ints,
    floor: Floats,
    density: Floats,
    relevance: Floats,
    lengths: Ints,
    smoothness: Ints,
) -> None:
    """A step for each of the coordinates ``first``, ..., ``last`` - 1, by :func:`improve_prior`."""
    for i in range(first, last):
        improve_prior(i, squares, number, error, orders, floor, density, relevance, lengths, smoothness)


@compiled
def improve_prior(
    i: int,
    squares: Floats,
    number: Floats,
    error: Floats,
    orders: Ints,
    floor: Floats,
    density: Floats,
    relevance: Floats,
    lengths: Ints,
    smoothness: Ints,
) -> None:
    """One step of the iteration for coordinate ``i``; changes its column of relevance, lengths and smoothness (M, d).

    ``squares``, ``number`` and ``error`` (M, D) are what measurements of the weights tell, in units of the amplitude:
    the sum of their squares, their number, and the variance of their errors. ``floor`` (M, D) are least prior
    variances. First all metrics make the same of MOVES, then each by itself.
    """
    metrics, features = squares.shape
    others, shares = np.empty((metrics, features)), np.empty(metrics)
    places, here, tried = (
        np.empty((metrics, 3), dtype=np.int64),
        np.empty((metrics, 3), dtype=np.int64),
        np.empty((metrics, 3), dtype=np.int64),
    )
    for m in range(metrics):
        shares[m] = _variances_without(i, orders, density, relevance[m], lengths[m], smoothness[m], others[m])
        places[m, 0], places[m, 1] = _nearest_relevance(relevance[m, i]), lengths[m, i]
        places[m, 2] = smoothness[m, i]
    for mover in range(-1, metrics if metrics > 1 else 0):
        first, last = (0, metrics) if mover < 0 else (mover, mover + 1)
        copy_rows(places, here, 0, metrics)
        copy_rows(places, tried, 0, metrics)
        best = -np.inf
        for n in range(MOVES.shape[0]):
            fit = 0.0
            for m in range(first, last):
                _move(here[m], MOVES[n], tried[m])
                fit += _evidence(
                    i, tried[m], shares[m], squares[m], number[m], error[m], orders, floor[m], density, others[m]
                )
            fit += _log_prior(tried, relevance.shape[1])
            if fit > best:
                best = fit
                copy_rows(tried, places, first, last)
    for m in range(metrics):
        relevance[m, i], lengths[m, i], smoothness[m, i] = RELEVANCES[places[m, 0]], places[m, 1], places[m, 2]


@in_place
def _move(here: Ints, step: Ints, there: Ints) -> None:
    """Write the place on the three grids (3,) a step from ``here``; after the last smoothness comes the first."""
    there[0] = min(max(here[0] + step[0], 0), RELEVANCES.size - 1)
    there[1] = min(max(here[1] + step[1], 0), LENGTHS.size - 1)
    there[2] = (here[2] + step[2]) % NUS.size


@in_place
def copy_rows(given: Ints, to: Ints, first: int, last: int) -> None:
    """Copy rows of places; assignments to slices take two seconds to compile."""
    for i in range(first, last):
        for c in range(given.shape[1]):
            to[i, c] = given[i, c]


@in_place
def _log_prior(places: Ints, dim: int) -> float:
    """Log density, up to a constant, of the places (M, 3) that all metrics have on the three grids.

    What metrics have in common is their mean on the log scale: it has a weak prior, and they deviate from it by
    METRIC_DEVIATION of its deviation.
    """
    fit = _log_prior_of(RELEVANCES, places, 0, 1.0 / dim, 2.0 * LOG_DEVIATION)
    fit += _log_prior_of(LENGTHS, places, 1, TYPICAL_LENGTH, LOG_DEVIATION)
    return fit + _log_prior_of(NUS, places, 2, NUS[0], LOG_DEVIATION)


@in_place
def _log_prior_of(grid: Floats, places: Ints, column: int, typical: float, deviation: float) -> float:
    """The part of one of the three: ``typical`` is its median, ``deviation`` that of its logarithm."""
    metrics, mean, fit = places.shape[0], 0.0, 0.0
    for m in range(metrics):
        mean += math.log(grid[places[m, column]]) / metrics
    for m in range(metrics):
        fit -= 0.5 * ((math.log(grid[places[m, column]]) - mean) / (METRIC_DEVIATION * deviation)) ** 2
    return fit - 0.5 * ((mean - math.log(typical)) / deviation) ** 2


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
    i: int, orders: Ints, density: Floats, relevance: Floats, lengths: Ints, smoothness: Ints, variances: Floats
) -> float:
    """Write what other coordinates than ``i`` contribute to prior variances (D,); gives prod (1 + r_c) over them."""
    share = 1.0
    variances[:] = 1.0
    for c in range(orders.shape[1]):
        if c != i:
            share *= 1.0 + relevance[c]
            for j in range(orders.shape[0]):
                if orders[j, c] > 0:
                    variances[j] *= relevance[c] * density[smoothness[c], lengths[c], orders[j, c]]
    return share


@in_place
def _evidence(
    i: int,
    place: Ints,
    share: float,
    squares: Floats,
    number: Floats,
    error: Floats,
    orders: Ints,
    floor: Floats,
    density: Floats,
    others: Floats,
) -> float:
    """Log density, up to a constant, of measurements in one metric if coordinate ``i`` has this ``place`` (3,).

    Measurements are normal, with the prior variance of the weight and their error. Prior variances are products of what
    ``others`` contribute (D,) and this coordinate, over the sum of all products of relevances, prod (1 + r_c) - 1, of
    which the others have the ``share`` prod (1 + r_c).
    """
    fit, relevance = 0.0, RELEVANCES[place[0]]
    total = share * (1.0 + relevance) - 1.0
    for j in range(orders.shape[0]):
        variance = others[j] / total
        if orders[j, i] > 0:
            variance *= relevance * density[place[2], place[1], orders[j, i]]
        variance = max(variance, floor[j]) + error[j]
        fit -= 0.5 * (number[j] * math.log(variance) + squares[j] / variance)
    return fit
