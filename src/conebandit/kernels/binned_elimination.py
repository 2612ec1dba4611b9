"""Adaptively binned successive elimination on arrays; the tree of cells is that of :mod:`conebandit.kernels.cells`."""

from __future__ import annotations

from typing import Any

import numpy as np

from conebandit.kernels import cells
from conebandit.kernels.cells import DEEPEST, OBSERVATIONS, OPEN, SMOOTHNESS, Cells
from conebandit.kernels.compile import compiled, in_place
from conebandit.kernels.fronts import draw
from conebandit.kernels.loop import play
from conebandit.kernels.rng import uniform
from conebandit.kernels.types import Bools, Floats

estimate = cells.estimate  # the same for all policies on cells


@in_place
def leaf_of(state: Cells, x: Floats) -> tuple[int, int]:
    """The deepest cell around a point that is there, and its level."""
    cell = 0
    for h in range(DEEPEST):
        child = cells.child_of(state.links, cell, h, x)
        if child < 0:
            return cell, h
        cell = child
    return cell, DEEPEST


@compiled
def choose(state: Cells, seed: np.uint64, x: Floats, key: int, active: Bools, reported: Bools, chances: Floats) -> int:
    """Round robin: any of the active arms that were pulled least in the cell."""
    arms, flags = active.size, np.empty(active.size, dtype=np.bool_)
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
    cells.report_front(state, x, active, reported)
    return draw(flags, uniform(seed, key), chances)


@compiled
def learn(state: Cells, x: Floats, arm: int, reward: Floats) -> None:
    """Add one observation to the leaf, eliminate, and open the leaf once its radii are down to its bias."""
    leaf, h = leaf_of(state, x)
    if state.links[leaf, OPEN] == 1:
        leaf, h = cells.add_child(state, leaf, h, x), h + 1
    state.size[OBSERVATIONS] += 1
    cells.add_observation(state.pulls, state.counts, state.totals, leaf, arm, reward)
    noise = cells.unit_noise(state)
    # While the cell is a leaf noise outweighs bias, so there is no need to add it.
    cells.eliminate(state, leaf, 0.0, noise, state.active[leaf])
    least = state.size[OBSERVATIONS]
    for k in range(state.pulls.shape[1]):
        if state.active[leaf, k]:
            least = min(least, state.pulls[leaf, k])
    bias = state.constants[SMOOTHNESS] * 0.5**h
    if h < DEEPEST and noise**2 <= least * bias**2:
        state.links[leaf, OPEN] = 1


@compiled
def run(state: Cells, seed: np.uint64, start: int, *chunk: Any) -> int:
    """Decide and observe, round by round."""
    return play(choose, learn, cells.has_room, state, seed, start, chunk)
