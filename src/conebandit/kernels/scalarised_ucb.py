"""Upper confidence bounds in static bins, one number made of them by a random weighting of the facets, on arrays."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from conebandit.kernels.averages import add_reward
from conebandit.kernels.compile import compiled, in_place
from conebandit.kernels.fronts import draw, images, report
from conebandit.kernels.grid import cell_of
from conebandit.kernels.loop import always, play
from conebandit.kernels.optimism import flag_candidates, spread
from conebandit.kernels.rng import uniform
from conebandit.kernels.types import Bools, Floats, Ints

OBSERVATIONS = 0
AUGMENTED = 0.05  # weight of the sum of all shortfalls beside the largest weighted one; above zero, it breaks ties


class State(NamedTuple):
    """Observations; ``counts`` and ``totals`` (bins, K, M); ``weights`` (n, F) to draw from; the rest is constant.

    ``side`` is the number of bins along a coordinate.
    """

    size: Ints
    counts: Ints
    totals: Floats
    weights: Floats
    side: Ints
    facets: Floats
    width: Floats


@in_place
def estimate(state: State, x: Floats, means: Floats, radii: Floats) -> None:
    """Means and bonuses of all arms in the bin of ``x``."""
    place, width = cell_of(state.side[0], x), spread(state.width[0], state.size[OBSERVATIONS])
    for k in range(means.shape[0]):
        for m in range(means.shape[1]):
            n = state.counts[place, k, m]
            means[k, m] = state.totals[place, k, m] / n if n > 0 else np.nan
            radii[k, m] = width / np.sqrt(n)


@in_place
def shortfalls(values: Floats) -> None:
    """Turn images (K, F) into how far each arm is below the best one on each facet, as a share of the range."""
    for j in range(values.shape[1]):
        low, high = values[0, j], values[0, j]
        for k in range(values.shape[0]):
            low, high = min(low, values[k, j]), max(high, values[k, j])
        for k in range(values.shape[0]):
            values[k, j] = (high - values[k, j]) / (high - low) if high > low else 0.0


@in_place
def closest(values: Floats, weight: Floats) -> int:
    """The first arm of the smallest augmented Chebyshev distance to the best values."""
    chosen, least = 0, np.inf
    for k in range(values.shape[0]):
        worst, total = 0.0, 0.0
        for j in range(weight.size):
            worst = max(worst, weight[j] * values[k, j])
            total += values[k, j]
        if worst + AUGMENTED * total < least:
            chosen, least = k, worst + AUGMENTED * total
    return chosen


@compiled
def choose(state: State, seed: np.uint64, x: Floats, key: int, active: Bools, reported: Bools, chances: Floats) -> int:
    """The best arm under the weights that the key draws; while a metric of some arms is unknown, any of them.

    The chance of an arm is the share of weights under which it is the best.
    """
    arms, objectives = state.counts.shape[1:]
    means, radii = np.empty((arms, objectives)), np.empty((arms, objectives))
    values, flags = np.empty((arms, state.facets.shape[0])), np.empty(arms, dtype=np.bool_)
    estimate(state, x, means, radii)
    active[:] = True
    known = report(state.facets, means, radii, active, values, reported)
    u = uniform(seed, key)
    if known < arms:
        flag_candidates(values, radii, known, flags)
        return draw(flags, u, chances)
    images(state.facets, means, radii, 1.0, values)
    shortfalls(values)
    n, chosen = state.weights.shape[0], 0
    drawn = int(u * n)
    chances[:] = 0.0
    for i in range(n):
        arm = closest(values, state.weights[i])
        chances[arm] += 1.0
        if i == drawn:
            chosen = arm
    for k in range(arms):
        chances[k] /= n
    return chosen


@in_place
def learn(state: State, x: Floats, arm: int, reward: Floats) -> None:
    """Add one observation to its bin."""
    state.size[OBSERVATIONS] += 1
    place = cell_of(state.side[0], x)
    add_reward(state.counts[place, arm], state.totals[place, arm], reward)


@compiled
def run(state: State, seed: np.uint64, start: int, *chunk: Any) -> int:
    """Decide and observe, round by round."""
    return play(choose, learn, always, state, seed, start, chunk)
