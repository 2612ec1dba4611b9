"""A tree over contexts with a quadratic fit of every arm in every leaf, split only where the data show that it misfits.

Contexts live in the unit cube. A node is a box with its own coordinates u in [-1, 1]^d, and phi(u) are p features of a
context: 1, every u_j, every (3 u_j^2 - 1) / 2, and, in few dimensions, every u_i u_j. They are orthogonal on the box.
Each arm k and metric m has in each leaf a Bayesian linear regression on phi: coefficients, and their covariance in
units of the variance of the noise, both updated by one sample at a time (recursive least squares). Rewards are taken
relative to the first one seen (``anchor``), so that adding a constant to all of them changes nothing but rounding.

:func:`choose` and :func:`estimate` read the state, :func:`learn` changes it, :func:`run` does both for a whole chunk.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from conebandit.kernels.compile import compiled, in_place, inlined
from conebandit.kernels.floor import explored
from conebandit.kernels.fronts import draw, keep_undominated
from conebandit.kernels.quadratics import halving, least_squares, prior_variance
from conebandit.kernels.rng import uniform
from conebandit.kernels.types import Bools, Floats, Ints

OBSERVATIONS, NODES = 0, 1  # positions in ``size``
PARENT, CHILD, AXIS, FIRST, LAST, SEEN, NEXT_TEST, TESTS = 0, 1, 2, 3, 4, 5, 6, 7  # in ``links``
MIDDLE, HALF = 0, 1  # in ``boxes``
SQUARES, FREEDOM = 0, 1  # in ``residuals`` and ``noise``
ARM, FOLLOWING = 0, 1  # in ``chain``

WIDTH = 2.0  # standard errors by which an estimate is raised: optimism
DOUBT = 0.01  # chance of ever splitting, on the way to one leaf, where quadratics fit
ENOUGH = 3  # samples for each feature, on either side, for an arm to count in a test; with fewer, tails deceive
FIRST_TEST, NEXT = 64, 1.25  # contexts in a leaf at its first test; and how many times as many at the next one
ROOT_PRIOR = 0.1  # worth of the prior of the root, in observations
TIE = 3.0  # a split is made where the change looks largest, so it is taken for less than it looks
POOL = 10.0  # worth of the pooled variance of the noise beside an arm's own, in observations
SMALLEST = 1e-9  # half side of a box that is not split any more


class State(NamedTuple):
    """The arrays; all from ``links`` to ``covariances`` have one row for each node.

    size          (2,)             observations, nodes
    links         (nodes, 8)       PARENT, CHILD (first of two, -1 at a leaf), AXIS along which it is split, FIRST and
                                   LAST sample of a leaf, SEEN (contexts), SEEN at which to test next, TESTS so far
    boxes         (nodes, d, 2)    MIDDLE and HALF of the side
    ties          (nodes,)         what the prior, the parent's fit, is worth in observations
    counts        (nodes, K, M)    samples
    residuals     (nodes, K, M, 2) sum of squares of standardised errors of prediction, and their number
    coefficients  (nodes, K, M, p)
    covariances   (nodes, K, M, p, p)
    data          (samples, d + M) contexts and rewards
    chain         (samples, 2)     arm, and the next sample of the same leaf, -1 at the end
    known         (K, M)           samples of each arm and metric anywhere
    anchor        (M,)             first reward, nan before
    noise         (M, 2)           sums of ``residuals`` over leaves and arms
    facets        (F, M)           of the cone
    terms         (p, 2)           coordinates that make up a feature, -1 for none
    """

    size: Ints
    links: Ints
    boxes: Floats
    ties: Floats
    counts: Ints
    residuals: Floats
    coefficients: Floats
    covariances: Floats
    data: Floats
    chain: Ints
    known: Ints
    anchor: Floats
    noise: Floats
    facets: Floats
    terms: Ints


# ---- reading ---------------------------------------------------------------------------------------------------------


@in_place
def leaf_of(state: State, points: Floats, i: int) -> int:
    """The leaf whose box contains point ``i``; boxes are closed below."""
    node = 0
    while state.links[node, CHILD] >= 0:
        axis = state.links[node, AXIS]
        node = state.links[node, CHILD] + (points[i, axis] >= state.boxes[node, axis, MIDDLE])
    return node


@in_place
def features(state: State, node: int, points: Floats, i: int, phi: Floats) -> None:
    """Write phi(u) of point ``i`` in the coordinates of a node."""
    boxes, terms = state.boxes, state.terms
    for a in range(phi.size):
        one, two = terms[a, 0], terms[a, 1]
        value = 1.0
        if one >= 0:
            value = (points[i, one] - boxes[node, one, MIDDLE]) / boxes[node, one, HALF]
            if two == one:
                value = 1.5 * value * value - 0.5
            elif two >= 0:
                value *= (points[i, two] - boxes[node, two, MIDDLE]) / boxes[node, two, HALF]
        phi[a] = value


@in_place
def noise_variance(state: State, m: int, squares: float, freedom: float) -> float:
    """Variance of the noise of an arm: from its own residuals, and the pooled one as if it were POOL more of them."""
    pooled = max(state.noise[m, SQUARES], 0.0) / max(state.noise[m, FREEDOM], 1.0)
    return float((POOL * pooled + squares) / (POOL + freedom))


@in_place
def _predict(state: State, leaf: int, phi: Floats, means: Floats, variances: Floats) -> None:
    """Fits at phi (relative to the anchor) and their squared standard errors, infinite where nothing is known."""
    arms, objectives = means.shape
    for m in range(objectives):
        for k in range(arms):
            means[k, m], variances[k, m] = 0.0, np.inf
            if state.known[k, m] == 0 or state.noise[m, FREEDOM] == 0.0:
                continue
            mean = leverage = 0.0
            for a in range(phi.size):
                mean += state.coefficients[leaf, k, m, a] * phi[a]
                half = 0.5 * state.covariances[leaf, k, m, a, a] * phi[a]
                for b in range(a):
                    half += state.covariances[leaf, k, m, a, b] * phi[b]
                leverage += 2.0 * half * phi[a]
            squares, freedom = state.residuals[leaf, k, m, SQUARES], state.residuals[leaf, k, m, FREEDOM]
            means[k, m] = mean
            variances[k, m] = max(leverage, 0.0) * noise_variance(state, m, squares, freedom)


@in_place
def _images(facets: Floats, means: Floats, variances: Floats, middle: Floats, upper: Floats) -> None:
    """On each facet the image of the estimate, and the same raised by WIDTH standard errors."""
    for k in range(means.shape[0]):
        for j in range(facets.shape[0]):
            value = variance = 0.0
            for m in range(facets.shape[1]):
                if facets[j, m] != 0.0:  # so that a facet without weight on an unknown metric stays finite
                    value += facets[j, m] * means[k, m]
                    variance += facets[j, m] ** 2 * variances[k, m]
            middle[k, j] = value
            upper[k, j] = value + WIDTH * np.sqrt(variance)


@in_place
def decide_in(
    state: State,
    leaf: int,
    phi: Floats,
    u: float,
    fits: Floats,
    sides: Floats,
    active: Bools,
    reported: Bools,
    chances: Floats,
) -> int:
    """Active are the arms on the front of the raised images, reported those on the front of the estimates.

    ``fits`` (2, K, M) and ``sides`` (2, K, F) are to write on.
    """
    _predict(state, leaf, phi, fits[0], fits[1])
    _images(state.facets, fits[0], fits[1], sides[0], sides[1])
    found = 0
    for k in range(active.size):
        active[k] = reported[k] = True
        for m in range(state.known.shape[1]):
            reported[k] &= state.known[k, m] > 0
        found += reported[k]
    if found == 0:
        reported[:] = True
    else:
        keep_undominated(sides[0], reported)
    keep_undominated(sides[1], active)
    for k in range(active.size):
        for j in range(sides.shape[2]):
            active[k] |= sides[1, k, j] == np.inf  # who is unknown is not beaten, not even by others that are
    return draw(active, u, chances)


@compiled
def choose(state: State, seed: np.uint64, x: Floats, key: int, active: Bools, reported: Bools, chances: Floats) -> int:
    """One of the active arms at ``x``, uniformly."""
    arms, objectives = state.known.shape
    phi, point = np.empty(state.terms.shape[0]), x.reshape((1, x.size))
    fits, sides = np.empty((2, arms, objectives)), np.empty((2, arms, state.facets.shape[0]))
    leaf = leaf_of(state, point, 0)
    features(state, leaf, point, 0, phi)
    return decide_in(state, leaf, phi, uniform(seed, key), fits, sides, active, reported, chances)


@compiled
def estimate(state: State, x: Floats, means: Floats, radii: Floats) -> None:
    """Means, and WIDTH standard errors, of all arms at ``x``; nan and inf where nothing is known."""
    phi, point = np.empty(state.terms.shape[0]), x.reshape((1, x.size))
    leaf = leaf_of(state, point, 0)
    features(state, leaf, point, 0, phi)
    _predict(state, leaf, phi, means, radii)
    for k in range(means.shape[0]):
        for m in range(means.shape[1]):
            means[k, m] = means[k, m] + state.anchor[m] if state.known[k, m] > 0 else np.nan
            radii[k, m] = WIDTH * np.sqrt(radii[k, m])


@compiled
def raise_images(state: State, x: Floats, upper: Floats) -> None:
    """Fill ``upper`` (K, F): on each facet, the best that each arm may be at ``x``, relative to the anchor."""
    arms, objectives = state.known.shape
    phi, point = np.empty(state.terms.shape[0]), x.reshape((1, x.size))
    fits, middle = np.empty((2, arms, objectives)), np.empty_like(upper)
    leaf = leaf_of(state, point, 0)
    features(state, leaf, point, 0, phi)
    _predict(state, leaf, phi, fits[0], fits[1])
    _images(state.facets, fits[0], fits[1], middle, upper)


# ---- learning --------------------------------------------------------------------------------------------------------


@compiled
def learn(state: State, x: Floats, arm: int, reward: Floats) -> None:
    """One observation."""
    point, rewards = x.reshape((1, x.size)), reward.reshape((1, reward.size))
    phi, gain = np.empty(state.terms.shape[0]), np.empty(state.terms.shape[0])
    _learn(state, leaf_of(state, point, 0), point, 0, arm, rewards, 0, phi, gain)


@compiled
def _learn(
    state: State, leaf: int, points: Floats, i: int, arm: int, rewards: Floats, r: int, phi: Floats, gain: Floats
) -> None:
    """Point ``i`` and reward ``r`` change the leaf they fall into, and may split it."""
    sample, dim = state.size[OBSERVATIONS], points.shape[1]
    state.size[OBSERVATIONS] += 1
    state.chain[sample, ARM] = arm
    for j in range(dim):
        state.data[sample, j] = points[i, j]
    for m in range(rewards.shape[1]):
        reward = rewards[r, m]
        state.data[sample, dim + m] = reward
        if not np.isnan(reward):
            state.known[arm, m] += 1
            if np.isnan(state.anchor[m]):
                state.anchor[m] = reward
    _add(state, leaf, sample, phi, gain)
    if state.links[leaf, SEEN] >= state.links[leaf, NEXT_TEST]:
        _split_if_it_misfits(state, leaf, phi, gain)


@in_place
def _add(state: State, leaf: int, sample: int, phi: Floats, gain: Floats) -> None:
    """Add a stored sample to a leaf: to its chain, and to the fit of its arm for each metric that is known."""
    links, chain = state.links, state.chain
    chain[sample, FOLLOWING] = -1
    if links[leaf, FIRST] < 0:
        links[leaf, FIRST] = sample
    else:
        chain[links[leaf, LAST], FOLLOWING] = sample
    links[leaf, LAST] = sample
    links[leaf, SEEN] += 1
    features(state, leaf, state.data, sample, phi)
    dim = state.boxes.shape[1]
    for m in range(state.anchor.size):
        reward = state.data[sample, dim + m]
        if not np.isnan(reward):
            fit(state, leaf, chain[sample, ARM], m, phi, reward - state.anchor[m], gain)


@in_place
def fit(state: State, leaf: int, k: int, m: int, phi: Floats, reward: float, gain: Floats) -> None:
    """One step of recursive least squares."""
    covariance, coefficients = state.covariances[leaf, k, m], state.coefficients[leaf, k, m]
    error, leverage = reward, 0.0
    for a in range(phi.size):
        error -= coefficients[a] * phi[a]
        total = 0.0
        for b in range(phi.size):
            total += covariance[a, b] * phi[b]
        gain[a] = total
        leverage += total * phi[a]
    for a in range(phi.size):
        step = gain[a] / (1.0 + leverage)
        coefficients[a] += step * error
        for b in range(phi.size):
            covariance[a, b] -= step * gain[b]
    state.counts[leaf, k, m] += 1
    # A prediction that is less sharp than the noise says more about the prior than about the noise.
    if leverage < 1.0:
        square = error * error / (1.0 + leverage)
        state.residuals[leaf, k, m, SQUARES] += square
        state.residuals[leaf, k, m, FREEDOM] += 1.0
        state.noise[m, SQUARES] += square
        state.noise[m, FREEDOM] += 1.0


# ---- splitting -------------------------------------------------------------------------------------------------------


@compiled
def _split_if_it_misfits(state: State, leaf: int, phi: Floats, gain: Floats) -> None:
    """Split a leaf along the coordinate for which two fits beat one by most, if by more than chance would."""
    axis, tie = where_to_split(misfit, state, leaf)
    state.links[leaf, NEXT_TEST] = int(np.ceil(NEXT * state.links[leaf, SEEN]))
    if axis >= 0:
        _split(state, leaf, axis, tie, phi, gain)


@inlined
def where_to_split(misfit_along: Callable[..., Any], state: Any, leaf: int) -> tuple[int, float]:
    """Test a leaf: the coordinate to split it along, or -1, and what the parent's fit is worth to its halves."""
    links, dim = state.links, state.boxes.shape[1]
    tests = links[leaf, TESTS]
    # Each test on the way to a leaf may err with chance DOUBT / (i (i + 1)), which adds up to DOUBT.
    surprise = np.log(dim * (tests + 1.0) * (tests + 2.0) / DOUBT)
    axis, most, tie = -1, 0.0, 0.0
    for j in range(dim):
        gained, freedom, samples = misfit_along(state, leaf, j)
        if freedom > 0.0:
            links[leaf, TESTS] = tests + 1
            # Laurent & Massart (2000), Lemma 1: chi-square exceeds this with probability at most exp(-surprise).
            excess = gained - freedom - 2.0 * np.sqrt(freedom * surprise) - 2.0 * surprise
            if excess > most and state.boxes[leaf, j, HALF] > SMALLEST:
                axis, most, tie = j, excess, TIE * samples / (gained / freedom - 1.0)
    return axis, tie


@compiled
def misfit(state: State, leaf: int, axis: int) -> tuple[float, float, float]:
    """How much better two fits are than one: the sum of squares gained, in units of the noise, over arms and metrics.

    It is about chi-square where one fit is enough. Also its degrees of freedom, and the number of samples in a half, on
    average over the arms and metrics that have enough of them to tell.
    """
    arms, objectives = state.known.shape
    p = state.terms.shape[0]
    grams, moments = np.zeros((2, arms, objectives, p, p)), np.zeros((2, arms, objectives, p))
    squares, numbers = np.zeros((2, arms, objectives)), np.zeros((2, arms, objectives))
    _sum_halves(state, leaf, axis, np.empty(p), grams, moments, squares, numbers)
    return gained_by_two(state, grams, moments, squares, numbers)


@compiled
def gained_by_two(
    state: State, grams: Floats, moments: Floats, squares: Floats, numbers: Floats
) -> tuple[float, float, float]:
    """What :func:`misfit` says, from sums over the samples of each half, which are written on."""
    _, arms, objectives, p = moments.shape
    gained, freedom, samples, used = 0.0, 0.0, 0.0, 0
    for k in range(arms):
        for m in range(objectives):
            if numbers[:, k, m].min() < ENOUGH * p:
                continue
            size, energy = numbers[:, k, m].sum(), squares[:, k, m].sum()
            both = grams[0, k, m] + grams[1, k, m]
            whole, rank = least_squares(both, moments[0, k, m] + moments[1, k, m], energy)
            low, rank_low = least_squares(grams[0, k, m], moments[0, k, m], squares[0, k, m])
            high, rank_high = least_squares(grams[1, k, m], moments[1, k, m], squares[1, k, m])
            left = size - rank_low - rank_high
            if whole > 1e-10 * energy:  # below that it is rounding
                variance = noise_variance(state, m, low + high, left)
                gained += max(whole - low - high, 0.0) / max(variance, 1e-12 * energy / size)
                freedom += rank_low + rank_high - rank
                samples += 0.5 * size
                used += 1
    return gained, freedom, samples / max(used, 1)


@in_place
def _sum_halves(
    state: State, leaf: int, axis: int, phi: Floats, grams: Floats, moments: Floats, squares: Floats, numbers: Floats
) -> None:
    """Sums of phi phi' (lower triangle), phi y and y^2 over the samples of each half of a leaf."""
    dim, middle, sample = state.boxes.shape[1], state.boxes[leaf, axis, MIDDLE], state.links[leaf, FIRST]
    while sample >= 0:
        k, side = state.chain[sample, ARM], int(state.data[sample, axis] >= middle)
        features(state, leaf, state.data, sample, phi)
        for m in range(state.anchor.size):
            y = state.data[sample, dim + m] - state.anchor[m]
            if not np.isnan(y):
                numbers[side, k, m] += 1.0
                squares[side, k, m] += y * y
                for a in range(phi.size):
                    moments[side, k, m, a] += phi[a] * y
                    for b in range(a + 1):
                        grams[side, k, m, a, b] += phi[a] * phi[b]
        sample = state.chain[sample, FOLLOWING]


@compiled
def _split(state: State, leaf: int, axis: int, tie: float, phi: Floats, gain: Floats) -> None:
    """Replace a leaf by its two halves and deal its samples to them, oldest first."""
    links, boxes, first = state.links, state.boxes, state.size[NODES]
    state.size[NODES] += 2
    forget_noise(state, leaf)
    for new in range(first, first + 2):
        begin_half(state, leaf, axis, new, new > first, tie)
    links[leaf, CHILD], links[leaf, AXIS] = first, axis
    sample = links[leaf, FIRST]
    links[leaf, FIRST] = links[leaf, LAST] = -1
    while sample >= 0:
        following = state.chain[sample, FOLLOWING]
        _add(state, first + int(state.data[sample, axis] >= boxes[leaf, axis, MIDDLE]), sample, phi, gain)
        sample = following
    for new in range(first, first + 2):
        links[new, NEXT_TEST] = max(FIRST_TEST, links[new, SEEN] + 1)


@in_place
def forget_noise(state: State, leaf: int) -> None:
    """Leave out what a leaf knew of the noise: it is found anew, with the better fits of its halves."""
    for k in range(state.known.shape[0]):
        for m in range(state.known.shape[1]):
            state.noise[m, SQUARES] -= state.residuals[leaf, k, m, SQUARES]
            state.noise[m, FREEDOM] -= state.residuals[leaf, k, m, FREEDOM]


@compiled
def begin_half(state: State, leaf: int, axis: int, new: int, upper: bool, tie: float) -> Floats:
    """Make a node one half of a leaf, without samples; the matrix that takes fits there (see ``halving``)."""
    links, boxes, matrix = state.links, state.boxes, halving(state.terms, axis, upper)
    links[new] = -1
    links[new, PARENT], links[new, SEEN], links[new, TESTS] = leaf, 0, links[leaf, TESTS]
    boxes[new] = boxes[leaf]
    boxes[new, axis, HALF] *= 0.5
    boxes[new, axis, MIDDLE] += boxes[new, axis, HALF] * (1.0 if upper else -1.0)
    state.ties[new] = tie
    _inherit(state, leaf, new, matrix)
    return matrix


@compiled
def _inherit(state: State, parent: int, node: int, matrix: Floats) -> None:
    """Begin with the parent's fits, each feature off by a change that is worth ``ties`` observations."""
    arms, objectives = state.known.shape
    for k in range(arms):
        for m in range(objectives):
            state.counts[node, k, m] = 0
            state.residuals[node, k, m] = 0.0
            state.coefficients[node, k, m] = np.dot(matrix, state.coefficients[parent, k, m])
            covariance = np.dot(np.dot(matrix, state.covariances[parent, k, m]), matrix.T)
            for a in range(matrix.shape[0]):
                covariance[a, a] += prior_variance(state.terms, a) / state.ties[node]
            state.covariances[node, k, m] = covariance


@compiled
def run(state: State, seed: np.uint64, start: int, *chunk: Any) -> int:
    """Decide and observe, round by round, as long as there is room for a split.

    Not the shared loop: here the leaf of a context is found once for both steps, and room to work in is made once for
    all rounds, which saves a fifth of the time.
    """
    contexts, outcomes, keys, explore, arms, propensities, active, reported = chunk
    n_arms, objectives = state.known.shape
    phi, gain = np.empty(state.terms.shape[0]), np.empty(state.terms.shape[0])
    fits, sides = np.empty((2, n_arms, objectives)), np.empty((2, n_arms, state.facets.shape[0]))
    rewards, chances = outcomes.reshape((-1, objectives)), np.empty(n_arms)
    for i in range(start, contexts.shape[0]):
        if state.size[NODES] + 2 > state.links.shape[0]:
            return i
        leaf = leaf_of(state, contexts, i)
        features(state, leaf, contexts, i, phi)
        u = uniform(seed, keys[i])
        own = decide_in(state, leaf, phi, u, fits, sides, active[i], reported[i], chances)
        arms[i] = explored(explore, seed, keys[i], own, active[i], chances)
        propensities[i] = chances[arms[i]]
        _learn(state, leaf, contexts, i, arms[i], rewards, i * n_arms + arms[i], phi, gain)
    return int(contexts.shape[0])


@compiled
def learn_rows(state: State, start: int, contexts: Floats, arms: Ints, rewards: Floats) -> int:
    """Observe rows ``start``, ... of a log one after the other, as long as there is room for a split."""
    phi, gain = np.empty(state.terms.shape[0]), np.empty(state.terms.shape[0])
    for i in range(start, contexts.shape[0]):
        if state.size[NODES] + 2 > state.links.shape[0]:
            return i
        _learn(state, leaf_of(state, contexts, i), contexts, i, arms[i], rewards, i, phi, gain)
    return int(contexts.shape[0])
