"""Contextual zooming on arrays: for each arm a lazily grown tree of dyadic cells, each with its own counts and sums.

A step down the tree halves one coordinate, so d steps lead from a cell to one of half its side. Only every d-th node is
a cell; those between are signposts, which keeps the way to a cell O(d) long instead of 2^d wide. Nodes 0 ... K-1 are
the roots of the arms. Hence 0 is nobody's child and stands for "none".
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from conebandit.kernels.averages import add_reward
from conebandit.kernels.compile import compiled, in_place
from conebandit.kernels.fronts import draw, report
from conebandit.kernels.loop import play
from conebandit.kernels.optimism import flag_candidates, spread
from conebandit.kernels.rng import uniform
from conebandit.kernels.types import Bools, Floats, Ints

OBSERVATIONS, NODES = 0, 1
WIDTH, SMOOTHNESS = 0, 1
DEEPEST = 30  # a cell of side 2^-30 is a point


class State(NamedTuple):
    """Observations and nodes; the tree; the cone; width and smoothness.

    ``links`` (nodes, 2) lead to the lower and upper half; ``counts`` and ``totals`` are (nodes, M).
    """

    size: Ints
    links: Ints
    counts: Ints
    totals: Floats
    facets: Floats
    constants: Floats


@in_place
def half(coordinate: float, level: int) -> int:
    """In which half of its cell of a level a point lies, along one coordinate."""
    place = min(int(coordinate * (1 << DEEPEST)), (1 << DEEPEST) - 1)
    return (place >> (DEEPEST - 1 - level)) & 1


@in_place
def descend(links: Ints, node: int, x: Floats, level: int) -> int:
    """The active cell of half the side around ``x``, or 0."""
    for m in range(x.size):
        node = links[node, half(x[m], level)]
        if node == 0:
            break
    return node


@in_place
def estimate(state: State, x: Floats, means: Floats, radii: Floats) -> None:
    """Of all active cells around ``x``, what the one of the smallest radius says, for each arm and metric."""
    width = spread(state.constants[WIDTH], state.size[OBSERVATIONS])
    for k in range(means.shape[0]):
        for m in range(means.shape[1]):
            means[k, m], radii[k, m] = np.nan, np.inf
        node, level = k, 0
        while node != 0 or level == 0:
            size = state.constants[SMOOTHNESS] * 0.5**level
            for m in range(means.shape[1]):
                radius = width / np.sqrt(state.counts[node, m]) + size
                if radius < radii[k, m]:
                    means[k, m], radii[k, m] = state.totals[node, m] / state.counts[node, m], radius
            node = descend(state.links, node, x, level) if level < DEEPEST else 0
            level += 1


@in_place
def indices(state: State, x: Floats, values: Floats) -> None:
    """The index of each arm on each facet (K, F): the least upper bound that an active cell around ``x`` gives."""
    width = spread(state.constants[WIDTH], state.size[OBSERVATIONS])
    for k in range(values.shape[0]):
        for j in range(values.shape[1]):
            values[k, j] = np.inf
        node, level = k, 0
        while node != 0 or level == 0:
            size = state.constants[SMOOTHNESS] * 0.5**level
            for j in range(values.shape[1]):
                values[k, j] = min(values[k, j], _upper(state, node, width, size, j))
            node = descend(state.links, node, x, level) if level < DEEPEST else 0
            level += 1


@in_place
def _upper(state: State, node: int, width: float, size: float, j: int) -> float:
    """Mean + confidence + radius of a cell on facet ``j``."""
    upper = 0.0
    for m in range(state.facets.shape[1]):
        w, n = state.facets[j, m], state.counts[node, m]
        if w != 0.0:
            if n == 0:
                return np.inf
            upper += w * (state.totals[node, m] / n) + abs(w) * (width / np.sqrt(n) + size)
    return upper


@compiled
def choose(state: State, seed: np.uint64, x: Floats, key: int, active: Bools, reported: Bools, chances: Floats) -> int:
    """Any arm whose index is on the front of the indices; those with an unknown metric come first."""
    arms = active.size
    means, radii = np.empty((arms, state.counts.shape[1])), np.empty((arms, state.counts.shape[1]))
    values, flags = np.empty((arms, state.facets.shape[0])), np.empty(arms, dtype=np.bool_)
    estimate(state, x, means, radii)
    active[:] = True
    known = report(state.facets, means, radii, active, values, reported)
    indices(state, x, values)
    flag_candidates(values, radii, known, flags)
    return draw(flags, uniform(seed, key), chances)


@in_place
def learn(state: State, x: Floats, arm: int, reward: Floats) -> None:
    """Add an observation to the smallest active cell around it; activate a smaller one if that cell is known well."""
    state.size[OBSERVATIONS] += 1
    node, level = arm, 0
    while level < DEEPEST:
        smaller = descend(state.links, node, x, level)
        if smaller == 0:
            break
        node, level = smaller, level + 1
    least = state.size[OBSERVATIONS]
    add_reward(state.counts[node], state.totals[node], reward)
    for m in range(reward.size):
        least = min(least, state.counts[node, m])
    confidence = spread(state.constants[WIDTH], state.size[OBSERVATIONS]) / np.sqrt(least)
    if level < DEEPEST and confidence <= state.constants[SMOOTHNESS] * 0.5**level:
        _activate(state, node, x, level)


@in_place
def _activate(state: State, node: int, x: Floats, level: int) -> None:
    """Add the cell of half the side around ``x``, with the signposts that lead there."""
    for m in range(x.size):
        which = half(x[m], level)
        if state.links[node, which] == 0:
            state.links[node, which] = state.size[NODES]
            state.size[NODES] += 1
        node = state.links[node, which]


@in_place
def has_room(state: State, x: Floats) -> bool:
    """Whether there is room for a cell and the signposts that lead to it."""
    return bool(state.size[NODES] + x.size <= state.links.shape[0])


@compiled
def run(state: State, seed: np.uint64, start: int, *chunk: Any) -> int:
    """Decide and observe, round by round."""
    return play(choose, learn, has_room, state, seed, start, chunk)
