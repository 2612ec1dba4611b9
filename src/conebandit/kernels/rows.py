"""Learning from many rows of a log: for each policy one compiled loop, in which nothing is decided.

Each takes a state, the first row to learn from, and contexts (n, d) in the unit cube, arms (n,) and rewards (n, M). It
gives the row before which it had to stop, for want of room or since a fit is due. Bit for bit it is what ``learn`` does
row by row.
"""

from __future__ import annotations

from typing import Any

from conebandit.kernels import (
    binned_elimination,
    binned_pareto_ucb,
    cells,
    fourier_sampling,
    linear_ucb,
    neighbours,
    pareto_ucb,
    scalarised_ucb,
    self_tuning,
    zooming,
)
from conebandit.kernels.compile import compiled
from conebandit.kernels.loop import always, observe


@compiled
def observe_binned_elimination(state: Any, start: int, *rows: Any) -> int:
    """For ``BinnedElimination``."""
    return observe(binned_elimination.learn, cells.has_room, state, start, rows)


@compiled
def observe_binned_pareto_ucb(state: Any, start: int, *rows: Any) -> int:
    """For ``BinnedParetoUCB``."""
    return observe(binned_pareto_ucb.learn, binned_pareto_ucb.has_room, state, start, rows)


@compiled
def observe_fourier_sampling(state: Any, start: int, *rows: Any) -> int:
    """For ``FourierSampling``."""
    return observe(fourier_sampling.learn, always, state, start, rows)


@compiled
def observe_linear_ucb(state: Any, start: int, *rows: Any) -> int:
    """For ``LinearParetoUCB``."""
    return observe(linear_ucb.learn, always, state, start, rows)


@compiled
def observe_neighbours(state: Any, start: int, *rows: Any) -> int:
    """For ``NeighbourParetoUCB``."""
    return observe(neighbours.learn, always, state, start, rows)


@compiled
def observe_pareto_ucb(state: Any, start: int, *rows: Any) -> int:
    """For ``ParetoUCB1``."""
    return observe(pareto_ucb.learn, always, state, start, rows)


@compiled
def observe_scalarised_ucb(state: Any, start: int, *rows: Any) -> int:
    """For ``ScalarisedUCB``."""
    return observe(scalarised_ucb.learn, always, state, start, rows)


@compiled
def observe_self_tuning(state: Any, start: int, *rows: Any) -> int:
    """For ``SelfTuning``."""
    return observe(self_tuning.learn, cells.has_room, state, start, rows)


@compiled
def observe_zooming(state: Any, start: int, *rows: Any) -> int:
    """For ``ParetoZooming``."""
    return observe(zooming.learn, zooming.has_room, state, start, rows)
