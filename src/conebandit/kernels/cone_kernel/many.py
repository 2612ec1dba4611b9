"""Decisions at many contexts: bit for bit what :func:`~conebandit.kernels.cone_kernel.steps.choose` says at each.

Contexts are taken together, some dozens at a time, arm by arm and metric by metric: what is known of an arm then stays
in a cache near the processor, and its covariance is read once for four contexts.
"""

from __future__ import annotations

import numpy as np

from conebandit.kernels.compile import compiled, in_place
from conebandit.kernels.cone_kernel import choice
from conebandit.kernels.cone_kernel.constants import CONTEXTS_AT_ONCE, VARIANCE_FACTOR
from conebandit.kernels.cone_kernel.features import highest_order, write_features
from conebandit.kernels.cone_kernel.state import FITTED, State
from conebandit.kernels.cone_kernel.steps import choose_among, choose_least_seen
from conebandit.kernels.symmetric import VECTORS, multiply_symmetric, multiply_symmetric_by_four
from conebandit.kernels.types import Bools, Floats, Ints


@compiled
def choose_many(
    state: State,
    seed: np.uint64,
    contexts: Floats,
    keys: Ints,
    arms: Ints,
    active: Bools,
    reported: Bools,
    chances: Floats,
) -> None:
    """``choose`` at each of many contexts (n, d), with the other arrays row by row."""
    if state.size[FITTED] == 0:
        for i in range(contexts.shape[0]):
            arms[i] = choose_least_seen(state.counts, seed, keys[i], active[i], reported[i], chances[i])
        return
    n_arms, objectives, features, _ = state.weights.shape
    together, units = min(CONTEXTS_AT_ONCE, contexts.shape[0]), np.empty(state.slack.size)
    phi, reach = np.empty((together, features)), np.empty((together, n_arms))
    means, variances = np.empty((together, n_arms, objectives)), np.empty((together, n_arms, objectives))
    choice.write_units(state.facets, state.scales, units)
    for first in range(0, contexts.shape[0], CONTEXTS_AT_ONCE):
        here = slice(first, min(first + CONTEXTS_AT_ONCE, contexts.shape[0]))
        _predict(state, contexts[here], phi, means, variances)
        for i in range(here.start, here.stop):
            choice.find_active(state.facets, state.scales, means[i - first], variances[i - first], active[i])
        _exact_variances(state.covs, phi, active[here], variances, reach)
        for i in range(here.start, here.stop):
            few, mean, variance = choice.flagged(active[i]), means[i - first], variances[i - first]
            tells = np.empty(few.size)
            for c in range(few.size):
                tells[c] = reach[i - first, few[c]]
            arms[i] = choose_among(
                state, seed, contexts[i], keys[i], few, mean, variance, tells, units, reported[i], chances[i]
            )


@compiled
def _predict(state: State, contexts: Floats, phi: Floats, means: Floats, variances: Floats) -> None:
    """Write features, means and the variances that draws tell, of as many rows as there are contexts."""
    arms, objectives, _, columns = state.weights.shape
    dim = contexts.shape[1]
    cosines, values = np.empty(1 + dim * highest_order(dim)), np.empty(columns)
    for i in range(contexts.shape[0]):
        write_features(state.parts, contexts[i], cosines, phi[i])
    for k in range(arms):
        for m in range(objectives):
            for i in range(contexts.shape[0]):
                means[i, k, m], variances[i, k, m] = choice.predict(state.weights[k, m], phi[i], values)


@compiled
def _exact_variances(covs: Floats, phi: Floats, active: Bools, variances: Floats, reach: Floats) -> None:
    """What ``choice.exact_variances`` writes for the active arms of each context, where there are several."""
    contexts, arms = active.shape
    features, objectives = phi.shape[1], covs.shape[1]
    rows, several = np.empty(contexts, dtype=np.int64), np.empty(contexts, dtype=np.bool_)
    x, gains = np.empty((VECTORS, features)), np.empty((VECTORS, features))
    found = np.empty((VECTORS, 2))
    for i in range(contexts):
        count = 0
        for k in range(arms):
            count += active[i, k]
        several[i] = count > 1
    for k in range(arms):
        count = 0
        for i in range(contexts):
            if several[i] and active[i, k]:
                rows[count], count = i, count + 1
                reach[i, k] = 0.0
        for m in range(objectives):
            for first in range(0, count, VECTORS):
                those = rows[first : min(first + VECTORS, count)]
                _variances_at(covs[k, m], phi, those, x, gains, found)
                for c in range(those.size):
                    variances[those[c], k, m] = VARIANCE_FACTOR * found[c, 0]
                    reach[those[c], k] += found[c, 1] / objectives


@in_place
def _variances_at(cov: Floats, phi: Floats, rows: Ints, x: Floats, gains: Floats, found: Floats) -> None:
    """Write variance and reach (n, 2) at up to four rows of ``phi``; ``x`` and ``gains`` are scratch."""
    if rows.size < VECTORS:
        for c in range(rows.size):
            multiply_symmetric(cov, phi[rows[c]], gains[0])
            products, squares = choice.sum_products(phi[rows[c]], gains[0])
            found[c, 0], found[c, 1] = choice.variance_and_reach(products, squares)
        return
    for c in range(VECTORS):
        row, copy = phi[rows[c]], x[c]
        for j in range(row.size):
            copy[j] = row[j]
    multiply_symmetric_by_four(cov, x, gains)
    _sum_four(x, gains, found)
    for c in range(VECTORS):
        found[c, 0], found[c, 1] = choice.variance_and_reach(found[c, 0], found[c, 1])


@in_place
def _sum_four(x: Floats, gains: Floats, found: Floats) -> None:
    """Write the sums that ``choice.sum_products`` gives for each of four rows: side by side, each in its order."""
    a = b = c = d = e = f = g = h = 0.0
    for j in range(x.shape[1]):
        p, q, r, s = gains[0, j], gains[1, j], gains[2, j], gains[3, j]
        a, b, c, d = a + x[0, j] * p, b + x[1, j] * q, c + x[2, j] * r, d + x[3, j] * s
        e, f, g, h = e + p * p, f + q * q, g + r * r, h + s * s
    found[0, 0], found[1, 0], found[2, 0], found[3, 0] = a, b, c, d
    found[0, 1], found[1, 1], found[2, 1], found[3, 1] = e, f, g, h
