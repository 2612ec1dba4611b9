"""Bayesian regression on products of cosines, shared by all arms: deciding and observing.

The mean of arm k in metric m is modelled as a sum of D features with Gaussian weights. A feature is a product of
sqrt(2) cos(pi j u_i) over a few coordinates, u_i the i-th context coordinate within a box a little larger than the unit
cube (so that slopes at its edge are free); this is the Hilbert-space form of a Gaussian process (Solin & Sarkka 2020).
For each arm and metric the state holds the covariance of the weights and a table of L columns: the posterior mean and
L - 1 draws from the posterior, which are kept up to date by perturbed observations (ensemble sampling, Lu & Van Roy
2017). The spread of the draws tells how sure a prediction is without a quadratic form for each arm.

    size    (3,)          OBSERVATIONS; NEXT_FIT, the number of observations at which the model is fitted anew; FITTED
    orders  (D, d)        order j of each feature in each coordinate
    parts   (D, Q)        the same as positions in the table of one-dimensional cosines, 0 for none
    weights (K, M, D, L)  posterior mean and draws; covs (K, M, D, D)
    prior   (D,)          variance of the weights, in units of the amplitude of a metric
    scales  (4, M)        CENTRE and SPREAD of the rewards; NOISE and AMPLITUDE, variances in units of the spread
    relevance, lengths    (d,), share and position of the length scale of each coordinate; see ``spectral_fit``
    levels  (6,)          CONSTANT, variance of the weight of the constant; TIE and PLAY_TIE, for reporting and
                          for playing, see :func:`undominated`; from LEADS on see ``ConeKernel._learn_ties``
    counts  (K, M); data (n, d + M); chosen (n,); facets (F, M)

Loops run along the last axis and add to a vector: the compiler can use vector instructions without changing the order
of any sum, so that results are the same on every machine.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from conebandit.kernels import spectral_choice as choice
from conebandit.kernels.compile import compiled, in_place
from conebandit.kernels.fronts import draw
from conebandit.kernels.loop import play
from conebandit.kernels.rng import hash_vector, mix, uniform
from conebandit.kernels.spectral_choice import CENTRE, GOLDEN, NOISE, SPREAD
from conebandit.kernels.types import Chunk

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

OBSERVATIONS, NEXT_FIT, FITTED = 0, 1, 2
CONSTANT, TIE, PLAY_TIE, LEADS = 0, 1, 2, 3

PAD = 0.15  # how far the cosines' box reaches beyond the unit cube on each side


class State(NamedTuple):
    """What the policy knows; see the top of this file."""

    size: Ints
    orders: Ints
    parts: Ints
    weights: Floats
    covs: Floats
    prior: Floats
    scales: Floats
    relevance: Floats
    lengths: Ints
    levels: Floats
    counts: Ints
    data: Floats
    chosen: Ints
    facets: Floats


@in_place
def featurise(parts: Ints, x: Floats, table: Floats, phi: Floats) -> None:
    """Write the features at ``x`` into ``phi``; ``table`` is scratch of length 1 + d J."""
    table[0] = 1.0
    highest = (table.size - 1) // x.size
    for i in range(x.size):
        step = math.cos(math.pi * (x[i] + PAD) / (1.0 + 2.0 * PAD))
        before, now = 1.0, step  # cos((j - 1) v) and cos(j v)
        for j in range(highest):
            table[1 + i * highest + j] = math.sqrt(2.0) * now
            before, now = now, 2.0 * step * now - before
    for f in range(parts.shape[0]):
        value = 1.0
        for q in range(parts.shape[1]):
            value *= table[parts[f, q]]
        phi[f] = value


@compiled
def features_at(state: State, x: Floats, highest: int) -> Floats:
    """The features at one context."""
    phi = np.empty(state.parts.shape[0])
    featurise(state.parts, x, np.empty(1 + x.size * highest), phi)
    return phi


@in_place
def add_rows(total: Floats, shares: Floats, rows: Floats) -> None:
    """Add ``shares[k] * rows[k]`` for k = 0, ... to ``total``, which may be shorter than the rows.

    Four rows are added at once, so that ``total`` is read and written a quarter as often.
    """
    whole = shares.size - shares.size % 4
    for k in range(0, whole, 4):
        a, b, c, d = shares[k], shares[k + 1], shares[k + 2], shares[k + 3]
        p, q, r, s = rows[k], rows[k + 1], rows[k + 2], rows[k + 3]
        for i in range(total.size):
            total[i] = (((total[i] + a * p[i]) + b * q[i]) + c * r[i]) + d * s[i]
    for k in range(whole, shares.size):
        share, row = shares[k], rows[k]
        for i in range(total.size):
            total[i] += share * row[i]


@in_place
def predict(weights: Floats, phi: Floats, values: Floats) -> None:
    """Write the prediction of every column of the weights into ``values`` (K, M, L), in units of the spread."""
    for k in range(weights.shape[0]):
        for m in range(weights.shape[1]):
            values[k, m, :] = 0.0
            add_rows(values[k, m], phi, weights[k, m])


@compiled
def choose(
    state: State, seed: np.uint64, x: Floats, key: np.uint64, active: Bools, reported: Bools
) -> tuple[int, float]:
    """An arm on the front of perturbed predictions; before the first fit, one of those seen least."""
    arms, objectives, _, columns = state.weights.shape
    facets, scales = state.facets, state.scales
    active[:] = True
    flags = np.empty(arms, dtype=np.bool_)
    if state.size[FITTED] == 0:
        reported[:] = True
        fewest = state.counts.min()
        for k in range(arms):
            flags[k] = state.counts[k].min() == fewest
        return draw(flags, uniform(seed, key))
    values = np.empty((arms, objectives, columns))
    predict(state.weights, features_at(state, x, highest_order(x.size)), values)
    y, variances = np.empty((arms, facets.shape[0], columns)), np.empty((arms, facets.shape[0]))
    choice.see(facets, scales, values, y)
    choice.spread_of_draws(y, variances)
    few = choice.in_the_running(y, variances, active)
    unsure, unsureness = np.empty((arms, objectives)), np.empty(arms)
    nearby = choice.how_unsure(values, scales, unsure, unsureness)
    values, y, unsure, unsureness = values[few], y[few], unsure[few], unsureness[few]  # only these from here on
    apart, chances = np.empty((few.size, few.size, facets.shape[0])), np.empty(few.size)
    front, worth, shown = np.empty((3, few.size), dtype=np.bool_)
    choice.tell_apart(variances, few, apart)
    choice.undominated(y, apart, state.levels[TIE], front)
    noise_key = mix(hash_vector(x.view(np.uint64)) ^ mix(seed + np.uint64(state.size[OBSERVATIONS])))
    choice.perturb(values, unsure, noise_key)
    choice.see(facets, scales, values, y)
    choice.worthwhile(facets, scales, values, y, front, unsureness, nearby, worth, chances)
    choice.report(front, chances, shown)
    reported[:] = False
    reported[few] = shown
    choice.cool(y)
    arm, chance = choice.pick(y, apart, state.levels[PLAY_TIE], unsureness, front, worth, uniform(seed, key))
    return few[arm], chance


@in_place
def highest_order(dim: int) -> int:
    """Highest order of a cosine in one coordinate."""
    return 64 if dim == 1 else 31


@compiled
def estimate(state: State, x: Floats, means: Floats, radii: Floats) -> None:
    """Posterior means and two posterior deviations of all arms; nan and inf before the first fit."""
    means[:], radii[:] = np.nan, np.inf
    if state.size[FITTED] == 0:
        return
    phi = features_at(state, x, highest_order(x.size))
    for k in range(means.shape[0]):
        for m in range(means.shape[1]):
            value = variance = 0.0
            for i in range(phi.size):
                value += phi[i] * state.weights[k, m, i, 0]
                for j in range(phi.size):
                    variance += phi[i] * phi[j] * state.covs[k, m, i, j]
            means[k, m] = state.scales[CENTRE, m] + state.scales[SPREAD, m] * value
            radii[k, m] = 2.0 * state.scales[SPREAD, m] * math.sqrt(max(variance, 0.0))


@compiled
def learn(state: State, x: Floats, arm: int, reward: Floats) -> None:
    """One observation: store it, and update the posterior of the arm in every known metric."""
    sample, dim = state.size[OBSERVATIONS], x.size
    state.data[sample, :dim] = x
    state.data[sample, dim:] = reward
    state.chosen[sample] = arm
    state.size[OBSERVATIONS] += 1
    features, columns = state.weights.shape[2:]
    phi = features_at(state, x, highest_order(dim))
    gain, error = np.empty(features), np.empty(columns)
    for m in range(reward.size):
        if not np.isnan(reward[m]):
            state.counts[arm, m] += 1
            if state.size[FITTED] == 1:
                target = (reward[m] - state.scales[CENTRE, m]) / state.scales[SPREAD, m]
                signs = mix(np.uint64(sample) * GOLDEN + np.uint64(m))
                condition(
                    state.weights[arm, m], state.covs[arm, m], phi, target, state.scales[NOISE, m], signs, gain, error
                )


@in_place
def condition(
    weights: Floats,
    cov: Floats,
    phi: Floats,
    target: float,
    noise: float,
    signs: np.uint64,
    gain: Floats,
    error: Floats,
) -> None:
    """Sherman-Morrison update of covariance, mean and draws; draws see the target plus or minus the noise."""
    features, columns = weights.shape
    gain[:] = 0.0
    add_rows(gain, phi, cov)
    total = noise
    for j in range(features):
        total += phi[j] * gain[j]
    deviation = math.sqrt(noise)
    error[:] = 0.0
    add_rows(error, phi, weights)
    error[0] = target - error[0]
    for c in range(1, columns):
        error[c] = target + (deviation if (signs >> np.uint64(c)) & np.uint64(1) else -deviation) - error[c]
    for j in range(features):
        share = gain[j] / total
        for c in range(columns):
            weights[j, c] += share * error[c]
        for i in range(features):
            cov[j, i] -= share * gain[i]


@in_place
def is_fit_far(state: State, x: Floats) -> bool:
    """Whether the model need not be fitted anew before the next observation."""
    return bool(state.size[OBSERVATIONS] < state.size[NEXT_FIT])


@compiled
def run(state: State, seed: np.uint64, chunk: Chunk, start: int) -> int:
    """Decide and observe, round by round, up to the next fit."""
    return play(choose, learn, is_fit_far, state, seed, chunk, start)
