"""Self-tuning elimination on arrays; the tree of cells is that of :mod:`conebandit.kernels.cells`."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from conebandit.kernels.cells import (
    CELLS,
    DEEPEST,
    OBSERVATIONS,
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
def tuned_cell(state: Cells, x: Floats, active: Bools) -> tuple[int, int]:
    """The smallest cell around a point that has seen enough contexts, and its level; ``active`` are the arms in it.

    Enough is when noise, if all arms are played alike, is down to the bias: width sqrt(K log / n) <= smoothness 2^-h.
    """
    enough = active.size * unit_noise(state) ** 2
    cell, level = 0, 0
    for k in range(active.size):
        active[k] = state.active[0, k]
    for h in range(1, DEEPEST + 1):
        child = child_of(state.links, cell, level, x)
        bias = state.constants[SMOOTHNESS] * 0.5**h
        if child < 0 or enough > _seen(state.pulls, child) * bias**2:
            break
        cell, level = child, h
        _inherit(state.active, cell, active)
    return cell, level


@in_place
def _seen(pulls: Ints, cell: int) -> int:
    """Number of contexts that a cell has seen."""
    n = 0
    for k in range(pulls.shape[1]):
        n += pulls[cell, k]
    return n


@in_place
def _inherit(own: Bools, cell: int, active: Bools) -> None:
    """Leave active what is so in this cell too; but if that were no arm, the verdict of larger cells counts."""
    left = 0
    for k in range(active.size):
        left += active[k] and own[cell, k]
    if left > 0:
        for k in range(active.size):
            active[k] &= own[cell, k]


@compiled
def choose(
    state: Cells, seed: np.uint64, x: Floats, key: np.uint64, active: Bools, reported: Bools
) -> tuple[int, float]:
    """Any arm that is active in the cell, with the same chance."""
    arms, (rows, objectives) = active.size, state.facets.shape
    means, radii, values = np.empty((arms, objectives)), np.empty((arms, objectives)), np.empty((arms, rows))
    tuned_cell(state, x, active)
    estimate(state, x, means, radii)
    report(state.facets, means, radii, active, values, reported)
    return draw(active, uniform(seed, key))


@compiled
def learn(state: Cells, x: Floats, arm: int, reward: Floats) -> None:
    """Add one observation to every cell around ``x``, and eliminate in the one that the decision was made in."""
    arms, (rows, objectives) = state.active.shape[1], state.facets.shape
    before = np.empty(arms, dtype=np.bool_)
    cell, level = tuned_cell(state, x, before)
    if level < DEEPEST and child_of(state.links, cell, level, x) < 0:
        add_child(state, cell, level, x)  # cells count one level ahead of those in use
    state.size[OBSERVATIONS] += 1
    _add_around(state, x, arm, reward)
    means, radii = np.empty((arms, objectives)), np.empty((arms, objectives))
    forget(means, radii)
    bias = state.constants[SMOOTHNESS] * 0.5**level
    sharpen(state.counts, state.totals, cell, bias, unit_noise(state), means, radii)
    after = before.copy()
    eliminate(state.facets, means, radii, np.empty((arms, rows)), np.empty((arms, rows)), after)
    for k in range(arms):
        if before[k] and not after[k]:
            state.active[cell, k] = False


@in_place
def _add_around(state: Cells, x: Floats, arm: int, reward: Floats) -> None:
    """Add one observation to every cell around ``x``."""
    cell = 0
    for h in range(DEEPEST + 1):
        add(state.pulls, state.counts, state.totals, cell, arm, reward)
        cell = child_of(state.links, cell, h, x)
        if cell < 0:
            return


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
