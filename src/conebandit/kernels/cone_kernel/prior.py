"""The prior of the weights: its form, and how it is learned from the posterior.

The prior variance of a feature is a product over its coordinates, r_i s(j; l_i), up to a common factor: r_i is the
*relevance* of coordinate i (a coordinate that does not matter has r_i near 0), l_i its length scale, and s the spectral
density of a Matern kernel at the frequency of order j, adding up to 1. Products of this form are an analysis of
variance: main effects, interactions of two, of three. Relevances and length scales are shared by all arms and metrics,
which together know them much sooner than each alone.

They are learned by a fixed-point iteration on the evidence (MacKay 1992): with g_j = 1 - cov_jj / prior_j the number of
parameters that the data determine, the best variance of a weight is mean_j^2 / g_j; :func:`improve_prior` chooses among
the products above the one that fits these best. There is a weak prior on relevance and length, too: a relevance is a
variance, and its root is as uncertain as a length, on the log scale.
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
    MIN_LENGTH,
    MIN_RELEVANCE,
    N_LENGTHS,
    N_RELEVANCES,
    RELEVANCE_REACH,
    TYPICAL_LENGTH,
    TYPICAL_RELEVANCE,
)
from conebandit.kernels.types import Floats, Ints

LENGTHS = np.geomspace(MIN_LENGTH, MAX_LENGTH, N_LENGTHS)
RELEVANCES = np.geomspace(MIN_RELEVANCE, MAX_RELEVANCE, N_RELEVANCES)


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
    """One step of the iteration for coordinate ``i``; changes its entry of ``relevance`` and ``lengths``.

    ``moments`` and ``known`` (D,) are sums over arms and metrics of mean_j^2 (in units of the amplitude) and g_j;
    ``floor`` (D,) are least prior variances.
    """
    others = np.empty(orders.shape[0])
    share = _variances_without(i, orders, density, relevance, lengths, others)
    here = _nearest_relevance(relevance[i])
    best, best_relevance, best_length = -np.inf, here, lengths[i]
    for r in range(max(here - RELEVANCE_REACH, 0), min(here + RELEVANCE_REACH + 1, RELEVANCES.size)):
        for length in range(max(lengths[i] - LENGTH_REACH, 0), min(lengths[i] + LENGTH_REACH + 1, LENGTHS.size)):
            total = share * (1.0 + RELEVANCES[r]) - 1.0
            fit = _evidence(i, r, length, total, moments, known, orders, floor, density, others)
            if fit > best:
                best, best_relevance, best_length = fit, r, length
    relevance[i], lengths[i] = RELEVANCES[best_relevance], best_length


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
    """Write what other coordinates than ``i`` contribute to each prior variance; gives prod (1 + r_c) over them."""
    share = 1.0
    variances[:] = 1.0
    for c in range(orders.shape[1]):
        if c != i:
            share *= 1.0 + relevance[c]
            for j in range(orders.shape[0]):
                if orders[j, c] > 0:
                    variances[j] *= relevance[c] * density[lengths[c], orders[j, c]]
    return share


@in_place
def _evidence(
    i: int,
    r: int,
    length: int,
    total: float,
    moments: Floats,
    known: Floats,
    orders: Ints,
    floor: Floats,
    density: Floats,
    others: Floats,
) -> float:
    """Log evidence, up to a constant, if coordinate ``i`` has relevance ``r`` and length scale ``length`` of the grids.

    ``total`` is the sum of all products of relevances, prod (1 + r_c) - 1, by which variances are divided.
    """
    fit: float = -0.5 * (math.log(RELEVANCES[r] / TYPICAL_RELEVANCE) / (2.0 * LOG_DEVIATION)) ** 2
    fit -= 0.5 * (math.log(LENGTHS[length] / TYPICAL_LENGTH) / LOG_DEVIATION) ** 2
    for j in range(orders.shape[0]):
        variance = others[j] / total
        if orders[j, i] > 0:
            variance *= RELEVANCES[r] * density[length, orders[j, i]]
        variance = max(variance, floor[j])
        fit -= 0.5 * (known[j] * math.log(variance) + moments[j] / variance)
    return fit
