"""Decisions and estimates at many contexts: for each policy one compiled loop, from which nothing is learned.

Each takes a state, a seed and a :class:`~conebandit.kernels.types.Batch`, array by array.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from conebandit.kernels import (
    adaptive_tree,
    binned_elimination,
    binned_pareto_ucb,
    cone_kernel,
    fourier_sampling,
    linear_ucb,
    neighbours,
    pareto_ucb,
    scalarised_ucb,
    self_tuning,
    tree,
    zooming,
)
from conebandit.kernels.compile import compiled, in_place
from conebandit.kernels.floor import explored
from conebandit.kernels.loop import ask
from conebandit.kernels.types import Bools, Floats


@in_place
def _choose_in_tree(
    state: tree.State, seed: np.uint64, x: Floats, key: int, active: Bools, reported: Bools, chances: Floats
) -> int:
    """``choose`` of the dyadic tree, which takes the arrays one by one."""
    size, links, tallies, constants = state.size, state.links, state.tallies, state.constants
    return tree.choose(size, links, tallies, constants, seed, x, key, active, reported, chances)


@compiled
def ask_dyadic_tree(state: Any, seed: np.uint64, *batch: Any) -> None:
    """For presets ``"paper"`` and ``"sound"`` of ``ConeTree``."""
    ask(_choose_in_tree, tree.estimate, state, seed, batch)


@compiled
def ask_adaptive_tree(state: Any, seed: np.uint64, *batch: Any) -> None:
    """For preset ``"adaptive"`` of ``ConeTree``."""
    ask(adaptive_tree.choose, adaptive_tree.estimate, state, seed, batch)


@compiled
def ask_binned_elimination(state: Any, seed: np.uint64, *batch: Any) -> None:
    """For ``BinnedElimination``."""
    ask(binned_elimination.choose, binned_elimination.estimate, state, seed, batch)


@compiled
def ask_binned_pareto_ucb(state: Any, seed: np.uint64, *batch: Any) -> None:
    """For ``BinnedParetoUCB``."""
    ask(binned_pareto_ucb.choose, binned_pareto_ucb.estimate, state, seed, batch)


@compiled
def ask_cone_kernel(state: Any, seed: np.uint64, *batch: Any) -> None:
    """For ``ConeKernel``, which decides at many contexts together."""
    contexts, keys, explore, arms, active, reported, chances, means, radii = batch
    cone_kernel.choose_many(state, seed, contexts, keys, arms, active, reported, chances)
    for i in range(contexts.shape[0]):
        arms[i] = explored(explore, seed, keys[i], arms[i], active[i], chances[i])
    for i in range(means.shape[0]):
        cone_kernel.estimate(state, contexts[i], means[i], radii[i])


@compiled
def ask_fourier_sampling(state: Any, seed: np.uint64, *batch: Any) -> None:
    """For ``FourierSampling``."""
    ask(fourier_sampling.choose, fourier_sampling.estimate, state, seed, batch)


@compiled
def ask_linear_ucb(state: Any, seed: np.uint64, *batch: Any) -> None:
    """For ``LinearParetoUCB``."""
    ask(linear_ucb.choose, linear_ucb.estimate, state, seed, batch)


@compiled
def ask_neighbours(state: Any, seed: np.uint64, *batch: Any) -> None:
    """For ``NeighbourParetoUCB``."""
    ask(neighbours.choose, neighbours.estimate, state, seed, batch)


@compiled
def ask_pareto_ucb(state: Any, seed: np.uint64, *batch: Any) -> None:
    """For ``ParetoUCB1``."""
    ask(pareto_ucb.choose, pareto_ucb.estimate, state, seed, batch)


@compiled
def ask_scalarised_ucb(state: Any, seed: np.uint64, *batch: Any) -> None:
    """For ``ScalarisedUCB``."""
    ask(scalarised_ucb.choose, scalarised_ucb.estimate, state, seed, batch)


@compiled
def ask_self_tuning(state: Any, seed: np.uint64, *batch: Any) -> None:
    """For ``SelfTuning``."""
    ask(self_tuning.choose, self_tuning.estimate, state, seed, batch)


@compiled
def ask_zooming(state: Any, seed: np.uint64, *batch: Any) -> None:
    """For ``ParetoZooming``."""
    ask(zooming.choose, zooming.estimate, state, seed, batch)
