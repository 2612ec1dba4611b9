"""Pareto-UCB1 in each cell of a fixed grid, on arrays.

Cells that no observation fell into take no memory: ``rows`` says where the statistics of a cell are.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from conebandit.kernels.compile import compiled, in_place
from conebandit.kernels.grid import cell_of
from conebandit.kernels.optimism import play_front
from conebandit.kernels.rng import uniform

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

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
    arms, objectives = means.shape
    row = state.rows[cell_of(state.bins[0], x)]
    log_term = np.log(state.seen[row] * (objectives * arms) ** 0.25) if row >= 0 else 0.0
    for k in range(arms):
        for m in range(objectives):
            n = state.counts[row, k, m] if row >= 0 else 0
            means[k, m] = state.totals[row, k, m] / n if n > 0 else np.nan
            radii[k, m] = state.width[0] * np.sqrt(2.0 * log_term / n) if n > 0 else np.inf


@compiled
def choose(
    state: State, seed: np.uint64, x: Floats, key: np.uint64, active: Bools, reported: Bools
) -> tuple[int, float]:
    """Any arm that is on the front of the upper bounds in the cell; those with an unknown metric come first."""
    arms, objectives = active.size, state.facets.shape[1]
    means, radii = np.empty((arms, objectives)), np.empty((arms, objectives))
    estimate(state, x, means, radii)
    return play_front(state.facets, means, radii, uniform(seed, key), active, reported)


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
    for m in range(reward.size):
        if not np.isnan(reward[m]):
            state.counts[row, arm, m] += 1
            state.totals[row, arm, m] += reward[m]


@compiled
def run(
    state: State,
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
    """Decide and observe, round by round, while there is a row left for a cell not seen before."""
    for i in range(start, contexts.shape[0]):
        if state.size[ROWS] == state.seen.size:
            return i
        arms[i], chances[i] = choose(state, seed, contexts[i], keys[i], active[i], reported[i])
        learn(state, contexts[i], arms[i], outcomes[i, arms[i]])
    return int(contexts.shape[0])
