"""Pareto-UCB1 on arrays: one table of counts and sums for all contexts."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from conebandit.kernels.compile import compiled, in_place
from conebandit.kernels.optimism import play_front
from conebandit.kernels.rng import uniform

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


class State(NamedTuple):
    """Observations; ``counts`` and ``totals`` (K, M) of each arm and objective; the cone; the width of the bonus."""

    size: Ints
    counts: Ints
    totals: Floats
    facets: Floats
    width: Floats


@in_place
def estimate(state: State, x: Floats, means: Floats, radii: Floats) -> None:
    """Means (nan where nothing is known) and bonuses (inf there) of all arms."""
    arms, objectives = means.shape
    log_term = np.log(max(state.size[0], 1) * (objectives * arms) ** 0.25)
    for k in range(arms):
        for m in range(objectives):
            n = state.counts[k, m]
            means[k, m] = state.totals[k, m] / n if n > 0 else np.nan
            radii[k, m] = state.width[0] * np.sqrt(2.0 * log_term / n) if n > 0 else np.inf


@compiled
def choose(
    state: State, seed: np.uint64, x: Floats, key: np.uint64, active: Bools, reported: Bools
) -> tuple[int, float]:
    """Any arm that is on the front of the upper bounds; those never seen come first."""
    arms, objectives = state.totals.shape
    means, radii = np.empty((arms, objectives)), np.empty((arms, objectives))
    estimate(state, x, means, radii)
    return play_front(state.facets, means, radii, uniform(seed, key), active, reported)


@in_place
def learn(state: State, x: Floats, arm: int, reward: Floats) -> None:
    """Add one observation."""
    state.size[0] += 1
    for m in range(reward.size):
        if not np.isnan(reward[m]):
            state.counts[arm, m] += 1
            state.totals[arm, m] += reward[m]


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
    """Decide and observe, round by round."""
    for i in range(start, contexts.shape[0]):
        arms[i], chances[i] = choose(state, seed, contexts[i], keys[i], active[i], reported[i])
        learn(state, contexts[i], arms[i], outcomes[i, arms[i]])
    return int(contexts.shape[0])
