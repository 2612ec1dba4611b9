"""Self-tuning elimination on arrays; the tree of cells is that of :mod:`conebandit.kernels.cells`."""

from __future__ import annotations

from typing import Any

import numpy as np

from conebandit.kernels import cells
from conebandit.kernels.cells import DEEPEST, OBSERVATIONS, SMOOTHNESS, Cells
from conebandit.kernels.compile import compiled, in_place
from conebandit.kernels.fronts import draw
from conebandit.kernels.loop import play
from conebandit.kernels.rng import uniform
from conebandit.kernels.types import Bools, Floats, Ints

estimate = cells.estimate  # the same for all policies on cells


@in_place
def tuned_cell(state: Cells, x: Floats, active: Bools) -> tuple[int, int]:
    """The smallest cell around a point that has seen enough contexts, and its level; ``active`` are the arms in it.

    Enough is when noise, if all arms are played alike, is down to the bias: width sqrt(K log / n) <= smoothness 2^-h.
    """
    enough = active.size * cells.unit_noise(state) ** 2
    cell, level = 0, 0
    for k in range(active.size):
        active[k] = state.active[0, k]
    for h in range(1, DEEPEST + 1):
        child = cells.child_of(state.links, cell, level, x)
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
def choose(state: Cells, seed: np.uint64, x: Floats, key: int, active: Bools, reported: Bools, chances: Floats) -> int:
    """Any arm that is active in the cell, with the same chance."""
    tuned_cell(state, x, active)
    cells.report_front(state, x, active, reported)
    return draw(active, uniform(seed, key), chances)


@compiled
def learn(state: Cells, x: Floats, arm: int, reward: Floats) -> None:
    """Add one observation to every cell around ``x``, and eliminate in the one that the decision was made in."""
    before = np.empty(state.active.shape[1], dtype=np.bool_)
    cell, level = tuned_cell(state, x, before)
    if level < DEEPEST and cells.child_of(state.links, cell, level, x) < 0:
        cells.add_child(state, cell, level, x)  # cells count one level ahead of those in use
    state.size[OBSERVATIONS] += 1
    _add_around(state, x, arm, reward)
    after = before.copy()
    bias = state.constants[SMOOTHNESS] * 0.5**level
    cells.eliminate(state, cell, bias, cells.unit_noise(state), after)
    for k in range(after.size):
        if before[k] and not after[k]:
            state.active[cell, k] = False


@in_place
def _add_around(state: Cells, x: Floats, arm: int, reward: Floats) -> None:
    """Add one observation to every cell around ``x``."""
    cell = 0
    for h in range(DEEPEST + 1):
        cells.add_observation(state.pulls, state.counts, state.totals, cell, arm, reward)
        cell = cells.child_of(state.links, cell, h, x)
        if cell < 0:
            return


@compiled
def run(state: Cells, seed: np.uint64, start: int, *chunk: Any) -> int:
    """Decide and observe, round by round."""
    return play(choose, learn, cells.has_room, state, seed, start, chunk)
