"""The tree of :mod:`conebandit.kernels.adaptive_tree` without samples: leaves keep sums over their possible halves.

Along each coordinate, each half of a leaf has the sums of 1, y^2, phi y and phi phi' over its samples, for every arm
and metric. They are all that a test for misfit needs, and all that the fits of the halves need: a half begins with its
parent's fit and learns from p samples that have the same sums, the columns of a Cholesky factor.

In few dimensions the halves of these halves have sums as well, the *quarters*. When a half is split off, they become
the sums over its halves: it can be tested at once, and split again, with all samples since its parent was split off.
Otherwise its halves know of samples since it was split off itself. Older ones are in the fit that it begins with.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from conebandit.kernels.adaptive_tree import (
    AXIS,
    CHILD,
    FIRST_TEST,
    FREEDOM,
    HALF,
    MIDDLE,
    NEXT,
    NEXT_TEST,
    NODES,
    OBSERVATIONS,
    SEEN,
    SQUARES,
    begin_half,
    choose,
    decide_in,
    estimate,
    features,
    fit,
    forget_noise,
    gained_by_two,
    leaf_of,
    where_to_split,
)
from conebandit.kernels.compile import compiled, in_place
from conebandit.kernels.floor import explored
from conebandit.kernels.quadratics import least_squares
from conebandit.kernels.rng import uniform
from conebandit.kernels.types import Floats, Ints

__all__ = ["State", "choose", "estimate", "learn", "run"]

NUMBER, SQUARE, MOMENTS = 0, 1, 2  # in ``sums``: 1, y^2, p times phi y, and then phi phi' (lower triangle)


class State(NamedTuple):
    """The arrays of the other tree without its samples, and three of its own.

    sums      (nodes, parts, K, M, 2 + p + p (p + 1) / 2)  over the samples of each part of a leaf: its halves, by
                                                           coordinate and side, and then perhaps its quarters
    contexts  (nodes, parts)                               how many have come into each part
    most      (1,)                                         nodes that there may be
    """

    size: Ints
    links: Ints
    boxes: Floats
    ties: Floats
    counts: Ints
    residuals: Floats
    coefficients: Floats
    covariances: Floats
    sums: Floats
    contexts: Ints
    known: Ints
    anchor: Floats
    noise: Floats
    facets: Floats
    terms: Ints
    most: Ints


# ---- parts of a leaf -------------------------------------------------------------------------------------------------


@in_place
def half(axis: int, side: int) -> int:
    """Number of the half on one side, 0 or 1, along a coordinate."""
    return 2 * axis + side


@in_place
def quarter(dim: int, axis: int, side: int, other: int, other_side: int) -> int:
    """Number of the half on one side along ``other``, which may be the same coordinate, of a half along ``axis``."""
    if other < axis:
        axis, side, other, other_side = other, other_side, axis, side
    return 2 * dim + 4 * (other * (other + 1) // 2 + axis) + 2 * side + other_side


@in_place
def find_parts(state: Any, leaf: int, points: Floats, i: int, parts: Ints) -> None:
    """Write the numbers of all parts of a leaf that point ``i`` is in: d halves, and perhaps d (d + 1) / 2 quarters."""
    boxes, dim = state.boxes, points.shape[1]
    for j in range(dim):
        parts[j] = half(j, int(points[i, j] >= boxes[leaf, j, MIDDLE]))
    place = dim
    while place < parts.size:
        for j in range(dim):
            side = parts[j] - half(j, 0)
            for other in range(j):
                parts[place] = quarter(dim, other, parts[other] - half(other, 0), j, side)
                place += 1
            middle = boxes[leaf, j, MIDDLE] + 0.5 * boxes[leaf, j, HALF] * (1.0 if side == 1 else -1.0)
            parts[place] = quarter(dim, j, side, j, int(points[i, j] >= middle))
            place += 1


# ---- learning --------------------------------------------------------------------------------------------------------


@compiled
def learn(state: Any, x: Floats, arm: int, reward: Floats) -> None:
    """One observation."""
    point, rewards = x.reshape((1, x.size)), reward.reshape((1, reward.size))
    phi, gain, row = np.empty(state.terms.shape[0]), np.empty(state.terms.shape[0]), np.empty(state.sums.shape[4])
    parts = np.empty(parts_of_a_point(state), dtype=np.int64)
    leaf = leaf_of(state, point, 0)
    features(state, leaf, point, 0, phi)
    _learn(state, leaf, point, 0, arm, rewards, 0, phi, gain, row, parts)


@in_place
def parts_of_a_point(state: Any) -> int:
    """How many parts of a leaf a point is in."""
    dim = state.boxes.shape[1]
    return int(dim if state.sums.shape[1] == 2 * dim else dim + dim * (dim + 1) // 2)


@compiled
def _learn(
    state: Any,
    leaf: int,
    points: Floats,
    i: int,
    arm: int,
    rewards: Floats,
    r: int,
    phi: Floats,
    gain: Floats,
    row: Floats,
    parts: Ints,
) -> None:
    """Point ``i``, whose features are ``phi``, and reward ``r`` change the leaf they fall into, and may split it."""
    links = state.links
    state.size[OBSERVATIONS] += 1
    links[leaf, SEEN] += 1
    find_parts(state, leaf, points, i, parts)
    for part in parts:
        state.contexts[leaf, part] += 1
    for m in range(rewards.shape[1]):
        reward = rewards[r, m]
        if not np.isnan(reward):
            state.known[arm, m] += 1
            if np.isnan(state.anchor[m]):
                state.anchor[m] = reward
            _add_to_sums(state, leaf, parts, arm, m, phi, reward - state.anchor[m], row)
            fit(state, leaf, arm, m, phi, reward - state.anchor[m], gain)
    if links[leaf, SEEN] >= links[leaf, NEXT_TEST]:
        axis, tie = where_to_split(_misfit, state, leaf)
        # The tests of the other tree, counted in contexts that halves have sums of; for the root these are all.
        links[leaf, NEXT_TEST] = links[leaf, SEEN] + int(np.ceil((NEXT - 1.0) * _summed(state, leaf)))
        if axis >= 0 and state.size[NODES] + 2 <= state.most[0]:
            _split(state, leaf, axis, tie, gain)


@in_place
def _summed(state: Any, leaf: int) -> int:
    """How many contexts the halves of a leaf have sums of, at most."""
    most = 0
    for j in range(state.boxes.shape[1]):
        most = max(most, state.contexts[leaf, half(j, 0)] + state.contexts[leaf, half(j, 1)])
    return most


@in_place
def _add_to_sums(state: Any, leaf: int, parts: Ints, k: int, m: int, phi: Floats, y: float, row: Floats) -> None:
    """Add a sample to the sums of all parts that it is in; ``row`` is to write on."""
    row[NUMBER], row[SQUARE], place = 1.0, y * y, MOMENTS + phi.size
    for a in range(phi.size):
        row[MOMENTS + a] = phi[a] * y
        for b in range(a + 1):
            row[place] = phi[a] * phi[b]
            place += 1
    for part in parts:
        sums = state.sums[leaf, part, k, m]
        for a in range(row.size):
            sums[a] += row[a]


# ---- splitting -------------------------------------------------------------------------------------------------------


@compiled
def _misfit(state: Any, leaf: int, axis: int) -> tuple[float, float, float]:
    """How much better two fits are than one, from the sums."""
    (arms, objectives), p = state.known.shape, state.terms.shape[0]
    grams, moments = np.zeros((2, arms, objectives, p, p)), np.zeros((2, arms, objectives, p))
    squares, numbers = np.zeros((2, arms, objectives)), np.zeros((2, arms, objectives))
    for side in range(2):
        for k in range(arms):
            for m in range(objectives):
                sums = state.sums[leaf, half(axis, side), k, m]
                numbers[side, k, m], squares[side, k, m] = sums[NUMBER], sums[SQUARE]
                _unpack(sums, grams[side, k, m], moments[side, k, m])
    return gained_by_two(state, grams, moments, squares, numbers)


@in_place
def _unpack(sums: Floats, gram: Floats, moment: Floats) -> None:
    """Write the sums of phi phi' (lower triangle) and of phi y as a matrix and a vector."""
    place = MOMENTS + moment.size
    for a in range(moment.size):
        moment[a] = sums[MOMENTS + a]
        for b in range(a + 1):
            gram[a, b] = sums[place]
            place += 1


@compiled
def _split(state: Any, leaf: int, axis: int, tie: float, gain: Floats) -> None:
    """Replace a leaf by its two halves, which learn from the sums over theirs."""
    links, first = state.links, state.size[NODES]
    (arms, objectives), p = state.known.shape, state.terms.shape[0]
    gram, moment, phi = np.empty((p, p)), np.empty(p), np.empty(p)
    state.size[NODES] += 2
    forget_noise(state, leaf)
    for side in range(2):
        new, part = first + side, half(axis, side)
        matrix = begin_half(state, leaf, axis, new, side == 1, tie)
        for k in range(arms):
            for m in range(objectives):
                _learn_from_sums(state, new, k, m, state.sums[leaf, part, k, m], matrix, gram, moment, phi, gain)
        _take_quarters(state, leaf, axis, side, new, matrix, gram, moment)
        links[new, SEEN] = state.contexts[leaf, part]
        links[new, NEXT_TEST] = links[new, SEEN] + max(1, FIRST_TEST - _summed(state, new))
    links[leaf, CHILD], links[leaf, AXIS] = first, axis


@in_place
def to_half(matrix: Floats, phi: Floats) -> None:
    """Turn features of a point in a box into those in one of its halves, in place.

    The transpose of the matrix (see ``halving``), which is upper triangular, takes them back.
    """
    for a in range(phi.size):
        for b in range(a):
            phi[a] -= matrix[b, a] * phi[b]
        phi[a] /= matrix[a, a]


@in_place
def _learn_from_sums(
    state: Any,
    node: int,
    k: int,
    m: int,
    sums: Floats,
    matrix: Floats,
    gram: Floats,
    moment: Floats,
    phi: Floats,
    gain: Floats,
) -> None:
    """Let a half learn from samples with these sums, which are in features of its parent.

    By Cholesky's method they are the sums over p samples, the columns of the factor, up to a rest of y^2 that no fit
    can explain: noise, with as many degrees of freedom as there are further samples.
    """
    _unpack(sums, gram, moment)
    rest, rank = least_squares(gram, moment, sums[SQUARE])
    for c in range(phi.size):
        if gram[c, c] != 0.0:  # otherwise a feature that depends on others
            for a in range(phi.size):
                phi[a] = gram[a, c] if a >= c else 0.0
            to_half(matrix, phi)
            fit(state, node, k, m, phi, moment[c], gain)
    state.counts[node, k, m] = int(sums[NUMBER])
    state.residuals[node, k, m, SQUARES] += rest
    state.residuals[node, k, m, FREEDOM] += sums[NUMBER] - rank
    state.noise[m, SQUARES] += rest
    state.noise[m, FREEDOM] += sums[NUMBER] - rank


@in_place
def _take_quarters(
    state: Any, leaf: int, axis: int, side: int, new: int, matrix: Floats, gram: Floats, moment: Floats
) -> None:
    """Let the quarters of a leaf become the halves of its half, in features of the half; its own quarters are empty."""
    sums, contexts, dim = state.sums, state.contexts, state.boxes.shape[1]
    for part in range(sums.shape[1]):
        contexts[new, part] = 0
        for k in range(sums.shape[2]):
            for m in range(sums.shape[3]):
                for place in range(sums.shape[4]):
                    sums[new, part, k, m, place] = 0.0
    if sums.shape[1] == 2 * dim:
        return
    for j in range(dim):
        for side_of_half in range(2):
            part, taken = half(j, side_of_half), quarter(dim, axis, side, j, side_of_half)
            contexts[new, part] = contexts[leaf, taken]
            for k in range(sums.shape[2]):
                for m in range(sums.shape[3]):
                    _sums_in_half(sums[leaf, taken, k, m], matrix, gram, moment, sums[new, part, k, m])


@in_place
def _sums_in_half(sums: Floats, matrix: Floats, gram: Floats, moment: Floats, found: Floats) -> None:
    """Write sums in features of a box as they are in features of one of its halves."""
    p = moment.size
    _unpack(sums, gram, moment)
    for a in range(p):
        for b in range(a):
            gram[b, a] = gram[a, b]
    to_half(matrix, moment)
    for a in range(p):
        to_half(matrix, gram[a])
    for a in range(p):
        to_half(matrix, gram[:, a])
    found[NUMBER], found[SQUARE], place = sums[NUMBER], sums[SQUARE], MOMENTS + p
    for a in range(p):
        found[MOMENTS + a] = moment[a]
        for b in range(a + 1):
            found[place] = gram[a, b]
            place += 1


@compiled
def run(state: Any, seed: np.uint64, start: int, *chunk: Any) -> int:
    """Decide and observe, round by round, as long as there is room for a split."""
    contexts, outcomes, keys, explore, arms, propensities, active, reported = chunk
    n_arms, objectives = state.known.shape
    phi, gain, row = np.empty(state.terms.shape[0]), np.empty(state.terms.shape[0]), np.empty(state.sums.shape[4])
    parts = np.empty(parts_of_a_point(state), dtype=np.int64)
    fits, sides = np.empty((2, n_arms, objectives)), np.empty((2, n_arms, state.facets.shape[0]))
    rewards, chances = outcomes.reshape((-1, objectives)), np.empty(n_arms)
    for i in range(start, contexts.shape[0]):
        if state.size[NODES] + 2 > state.links.shape[0]:
            return i
        leaf = leaf_of(state, contexts, i)
        features(state, leaf, contexts, i, phi)
        own = decide_in(state, leaf, phi, uniform(seed, keys[i]), fits, sides, active[i], reported[i], chances)
        arms[i] = explored(explore, seed, keys[i], own, active[i], chances)
        propensities[i] = chances[arms[i]]
        _learn(state, leaf, contexts, i, arms[i], rewards, i * n_arms + arms[i], phi, gain, row, parts)
    return int(contexts.shape[0])


@compiled
def learn_rows(state: Any, start: int, contexts: Floats, arms: Ints, rewards: Floats) -> int:
    """Observe rows ``start``, ... of a log one after the other, as long as there is room for a split."""
    phi, gain, row = np.empty(state.terms.shape[0]), np.empty(state.terms.shape[0]), np.empty(state.sums.shape[4])
    parts = np.empty(parts_of_a_point(state), dtype=np.int64)
    for i in range(start, contexts.shape[0]):
        if state.size[NODES] + 2 > state.links.shape[0]:
            return i
        leaf = leaf_of(state, contexts, i)
        features(state, leaf, contexts, i, phi)
        _learn(state, leaf, contexts, i, arms[i], rewards, i, phi, gain, row, parts)
    return int(contexts.shape[0])
