"""Pareto-UCB1 on arrays: one table of counts and sums for all contexts."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from conebandit.kernels.averages import add_reward, ucb1
from conebandit.kernels.compile import compiled, in_place
from conebandit.kernels.loop import always, play
from conebandit.kernels.optimism import play_front_of
from conebandit.kernels.types import Bools, Floats, Ints

OBSERVATIONS = 0


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
    ucb1(state.counts, state.totals, max(state.size[OBSERVATIONS], 1), state.width[0], means, radii)


@compiled
def choose(state: State, seed: np.uint64, x: Floats, key: int, active: Bools, reported: Bools, chances: Floats) -> int:
    """Any arm that is on the front of the upper bounds; those never seen come first."""
    return play_front_of(estimate, state, seed, x, key, active, reported, chances)


@in_place
def learn(state: State, x: Floats, arm: int, reward: Floats) -> None:
    """Add one observation."""
    state.size[OBSERVATIONS] += 1
    add_reward(state.counts[arm], state.totals[arm], reward)


@compiled
def run(state: State, seed: np.uint64, start: int, *chunk: Any) -> int:
    """Decide and observe, round by round."""
    return play(choose, learn, always, state, seed, start, chunk)
