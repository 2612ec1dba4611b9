"""Adaptively binned successive elimination on arrays; the tree of cells is that of :mod:`conebandit.kernels.cells`."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from conebandit.kernels.cells import (
    CELLS,
    DEEPEST,
    OBSERVATIONS,
    OPEN,
    SMOOTHNESS,
    Cells,
    add,
    add_child,
    child_of,
    eliminate,
    estimate,
    forget,
    sharpen,
    unit_noise,
)
from conebandit.kernels.compile import compiled, in_place
from conebandit.kernels.fronts import draw, report
from conebandit.kernels.rng import uniform

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


@in_place
def leaf_of(state: Cells, x: Floats) -> tuple[int, int]:
    """The deepest cell around a point that is there, and its level."""
    cell = 0
    for h in range(DEEPEST):
        child = child_of(state.links, cell, h, x)
        if child < 0:
            return cell, h
        cell = child
    return cell, DEEPEST


@compiled
def choose(
    state: Cells, seed: np.uint64, x: Floats, key: np.uint64, active: Bools, reported: Bools
) -> tuple[int, float]:
    """Round robin: any of the active arms that were pulled least in the cell."""
    arms, (rows, objectives) = active.size, state.facets.shape
    means, radii, values = np.empty((arms, objectives)), np.empty((arms, objectives)), np.empty((arms, rows))
    flags = np.empty(arms, dtype=np.bool_)
    leaf, _ = leaf_of(state, x)
    empty = state.links[leaf, OPEN] == 1  # its child around x was not visited yet
    least = -1
    for k in range(arms):
        active[k] = state.active[leaf, k]
        pulls = 0 if empty else state.pulls[leaf, k]
        if active[k] and (least < 0 or pulls < least):
            least = pulls
    for k in range(arms):
        flags[k] = active[k] and (empty or state.pulls[leaf, k] == least)
    estimate(state, x, means, radii)
    report(state.facets, means, radii, active, values, reported)
    return draw(flags, uniform(seed, key))


@compiled
def learn(state: Cells, x: Floats, arm: int, reward: Floats) -> None:
    """Add one observation to the leaf, eliminate, and open the leaf once its radii are down to its bias."""
    leaf, h = leaf_of(state, x)
    if state.links[leaf, OPEN] == 1:
        leaf, h = add_child(state, leaf, h, x), h + 1
    state.size[OBSERVATIONS] += 1
    add(state.pulls, state.counts, state.totals, leaf, arm, reward)
    arms, (rows, objectives) = state.pulls.shape[1], state.facets.shape
    means, radii = np.empty((arms, objectives)), np.empty((arms, objectives))
    forget(means, radii)
    noise = unit_noise(state)
    # While the cell is a leaf noise outweighs bias, so there is no need to add it.
    sharpen(state.counts, state.totals, leaf, 0.0, noise, means, radii)
    eliminate(state.facets, means, radii, np.empty((arms, rows)), np.empty((arms, rows)), state.active[leaf])
    least = state.size[OBSERVATIONS]
    for k in range(arms):
        if state.active[leaf, k]:
            least = min(least, state.pulls[leaf, k])
    bias = state.constants[SMOOTHNESS] * 0.5**h
    if h < DEEPEST and noise**2 <= least * bias**2:
        state.links[leaf, OPEN] = 1


@compiled
def run(
    state: Cells,
    seed: np.uint64,
    contexts: Floats,
    outcomes: Floats,
    keys: NDArray[np.uint64],
    start: int,
    arms: Ints,
    chances: Floats,
    active: Bools,
    reported: Bools,
) -> int:
    """Decide and observe, round by round, while there is room for a cell."""
    for i in range(start, contexts.shape[0]):
        if state.size[CELLS] == state.links.shape[0]:
            return i
        arms[i], chances[i] = choose(state, seed, contexts[i], keys[i], active[i], reported[i])
        learn(state, contexts[i], arms[i], outcomes[i, arms[i]])
    return int(contexts.shape[0])
