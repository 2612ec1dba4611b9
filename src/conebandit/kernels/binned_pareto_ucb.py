"""Pareto-UCB1 in each cell of a fixed grid, on arrays.

Cells that no observation fell into take no memory: ``rows`` says where the statistics of a cell are.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from conebandit.kernels.averages import add_reward, clear_estimates, ucb1
from conebandit.kernels.compile import compiled, in_place
from conebandit.kernels.grid import cell_of
from conebandit.kernels.loop import play
from conebandit.kernels.optimism import play_front_of
from conebandit.kernels.types import Bools, Floats, Ints

OBSERVATIONS, ROWS = 0, 1


class State(NamedTuple):
    """The grid, and statistics of the cells that were visited.

    ``size`` (2,) observations and rows in use; ``rows`` (cells,) row of a cell or -1; ``seen`` (rows,) observations in
    it; ``counts`` and ``totals`` (rows, K, M) of each arm and objective; the cone; ``bins`` (1,) parts of a coordinate;
    ``width`` (1,) of the bonus.
    """

    size: Ints
    rows: Ints
    seen: Ints
    counts: Ints
    totals: Floats
    facets: Floats
    bins: Ints
    width: Floats


@in_place
def estimate(state: State, x: Floats, means: Floats, radii: Floats) -> None:
    """Means (nan where nothing is known) and bonuses (inf there) of all arms in the cell."""
    row = state.rows[cell_of(state.bins[0], x)]
    if row < 0:
        clear_estimates(means, radii)
    else:
        ucb1(state.counts[row], state.totals[row], state.seen[row], state.width[0], means, radii)


@compiled
def choose(state: State, seed: np.uint64, x: Floats, key: int, active: Bools, reported: Bools, chances: Floats) -> int:
    """Any arm that is on the front of the upper bounds in the cell; those with an unknown metric come first."""
    return play_front_of(estimate, state, seed, x, key, active, reported, chances)


@in_place
def learn(state: State, x: Floats, arm: int, reward: Floats) -> None:
    """Add one observation to its cell."""
    cell = cell_of(state.bins[0], x)
    if state.rows[cell] < 0:
        state.rows[cell] = state.size[ROWS]
        state.size[ROWS] += 1
    row = state.rows[cell]
    state.size[OBSERVATIONS] += 1
    state.seen[row] += 1
    add_reward(state.counts[row, arm], state.totals[row, arm], reward)


@in_place
def has_room(state: State, x: Floats) -> bool:
    """Whether there is a row left for a cell that was not seen before."""
    return bool(state.size[ROWS] < state.seen.size)


@compiled
def run(state: State, seed: np.uint64, start: int, *chunk: Any) -> int:
    """Decide and observe, round by round."""
    return play(choose, learn, has_room, state, seed, start, chunk)
