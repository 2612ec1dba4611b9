"""How far metrics put arms into the same order, learned from all pairs of arms.

Take the arms in the order of one metric: their order by another one is a permutation. If the metrics have nothing to do
with each other, all permutations are alike; with doses it is nearly always the reverse. Mallows' model (1957) has one
number for what lies between: the probability of a permutation is proportional to q^(pairs in the same order), so that q
is the odds of a pair of neighbours. Its logarithm is the agreement of the two metrics.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from conebandit.kernels.cone_kernel.constants import (
    BLOCK,
    BUDGET,
    COST_OF_A_FUNCTION,
    LOG_DEVIATION,
    N_FRONTS,
    N_HALVINGS,
    N_SITES,
    ROUNDING,
)
from conebandit.kernels.cone_kernel.each_arm import add_agreeing_at_each
from conebandit.kernels.cone_kernel.state import OBSERVATIONS, State
from conebandit.policies.cone_kernel.work import Work, in_units

# Below it the first terms of series are more accurate than differences of large numbers.
_NEARLY_ZERO = ROUNDING ** (1.0 / 3)


def learn_agreement(state: State, seed: int) -> Work[State]:
    """One step of expectation and maximisation, from the contexts that were seen last.

    Contexts tell much the same about arms, so they count as one permutation: with few arms that is little.
    """
    n, dim = int(state.size[OBSERVATIONS]), state.orders.shape[1]
    arms, metrics, features, columns = state.weights.shape
    cost = metrics * arms * features * columns + metrics**2 * arms**2 * N_FRONTS // 2
    sites = min(max(BLOCK * BUDGET // cost, N_SITES // BLOCK), N_SITES)
    contexts, agreeing = np.ascontiguousarray(state.data[max(n - sites, 0) : n, :dim]), np.zeros((metrics, metrics))
    for first, last in in_units(len(contexts), cost):
        add_agreeing_at_each(state, np.uint64(seed), contexts[first:last], agreeing)
        yield (last - first) * cost
    agreement = np.zeros((metrics, metrics))
    for m, other in zip(*np.tril_indices(metrics, -1), strict=True):
        found = estimated_agreement(arms, float(agreeing[m, other]) / len(contexts))
        agreement[m, other] = agreement[other, m] = found
        yield N_HALVINGS * COST_OF_A_FUNCTION * arms
    return state._replace(agreement=agreement)


def estimated_agreement(arms: int, agreeing: float) -> float:
    """Posterior mean of the agreement, given how many pairs of arms are in the same order.

    As probable as not, metrics have nothing to do with each other, and it is 0; otherwise it is normal around 0. Which
    it is the data say by the quotient of their probabilities, for which Laplace's approximation will do.

    Examples
    --------
    >>> round(estimated_agreement(6, 0.0), 2), round(estimated_agreement(6, 5.0), 2)      # of 15 pairs
    (-1.38, -0.11)
    >>> abs(round(estimated_agreement(6, 7.5), 9))
    0.0
    """
    if arms == 1:
        return 0.0
    most = LOG_DEVIATION**2 * arms * (arms - 1) / 2
    low, high = -most, most
    for _ in range(N_HALVINGS):
        middle = (low + high) / 2.0
        if agreeing - mallows(arms, middle).expected > middle / LOG_DEVIATION**2:
            low = middle
        else:
            high = middle
    here, nothing = mallows(arms, middle), mallows(arms, 0.0)
    gain = middle * agreeing - (here.log_total - nothing.log_total) - 0.5 * (middle / LOG_DEVIATION) ** 2
    gain -= 0.5 * math.log1p(LOG_DEVIATION**2 * here.variance)
    return middle / (1.0 + math.exp(-gain))


class Mallows(NamedTuple):
    """The logarithm of the sum of q^agreeing over all permutations, and mean and variance of how many pairs agree."""

    log_total: float
    expected: float
    variance: float


def mallows(arms: int, agreement: float) -> Mallows:
    """Mallows' model of permutations of so many arms, at q = exp(agreement).

    The i-th arm of one order is put among the i before it, independently of these: the number of pairs in the same
    order that it adds is geometric, cut off at i places. The sum is a product over arms; mean and variance are the
    derivatives of its logarithm.

    Examples
    --------
    >>> mallows(4, 0.0).expected, round(mallows(4, 5.0).expected, 2), round(mallows(4, -5.0).expected, 2)
    (3.0, 5.98, 0.02)
    """
    if agreement > 0.0:
        pairs, reverse = arms * (arms - 1) / 2, mallows(arms, -agreement)
        return Mallows(reverse.log_total + agreement * pairs, pairs - reverse.expected, reverse.variance)
    places, slope = np.arange(2.0, arms + 1), -agreement
    if slope < _NEARLY_ZERO:
        mean, variance = (places - 1.0) / 2.0, (places**2 - 1.0) / (2 * 6)
        totals, means = np.log(places) - slope * mean, mean - slope * variance
    else:
        with np.errstate(over="ignore"):  # what is past the largest number has no part in it
            totals = np.log(np.expm1(-slope * places) / np.expm1(-slope))
            means = 1.0 / np.expm1(slope) - places / np.expm1(slope * places)
            ends = places / np.sinh(slope * places / 2.0)
            variance = (1.0 / np.sinh(slope / 2.0) ** 2 - ends**2) / 4
    return Mallows(float(totals.sum()), float(means.sum()), float(variance.sum()))
