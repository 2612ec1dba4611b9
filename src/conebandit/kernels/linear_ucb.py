"""Ridge regression for each arm and metric on arrays, with upper confidence bounds.

    inverses (K, M, D, D)   of the Gram matrix A = ridge * I + sum z z', with features z = (1, x) and D = d + 1
    weights  (K, M, D)      A^-1 times the sum of reward * z

Each metric has its own Gram matrix, since it may be unknown where others are not.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from conebandit.kernels.compile import compiled, in_place
from conebandit.kernels.loop import always, play
from conebandit.kernels.optimism import play_front_of
from conebandit.kernels.types import Bools, Floats, Ints

OBSERVATIONS = 0


class State(NamedTuple):
    """Observations; ``counts`` (K, M) of known rewards; the regressions; the cone; the width of the bonus."""

    size: Ints
    counts: Ints
    inverses: Floats
    weights: Floats
    facets: Floats
    width: Floats


@in_place
def _feature(x: Floats, i: int) -> float:
    return x[i - 1] if i > 0 else 1.0


@in_place
def _through(matrix: Floats, i: int, x: Floats) -> float:
    """Row ``i`` of a matrix times the features of ``x``."""
    total = 0.0
    for j in range(matrix.shape[1]):
        total += matrix[i, j] * _feature(x, j)
    return total


@in_place
def estimate(state: State, x: Floats, means: Floats, radii: Floats) -> None:
    """Predictions and ``width`` times the root of z' A^-1 z."""
    arms, objectives, features = state.weights.shape
    for k in range(arms):
        for m in range(objectives):
            if state.counts[k, m] == 0:
                means[k, m], radii[k, m] = np.nan, np.inf
                continue
            mean, spread = 0.0, 0.0
            for i in range(features):
                z = _feature(x, i)
                mean += state.weights[k, m, i] * z
                spread += z * _through(state.inverses[k, m], i, x)
            means[k, m], radii[k, m] = mean, state.width[0] * np.sqrt(max(spread, 0.0))


@compiled
def choose(state: State, seed: np.uint64, x: Floats, key: int, active: Bools, reported: Bools, chances: Floats) -> int:
    """Any arm that is on the front of the upper bounds; those with an unknown metric come first."""
    return play_front_of(estimate, state, seed, x, key, active, reported, chances)


@compiled
def learn(state: State, x: Floats, arm: int, reward: Floats) -> None:
    """One step of recursive least squares for each metric that is known."""
    state.size[OBSERVATIONS] += 1
    gain = np.empty(x.size + 1)
    for m in range(reward.size):
        if not np.isnan(reward[m]):
            state.counts[arm, m] += 1
            _regress(state.inverses[arm, m], state.weights[arm, m], x, reward[m], gain)


@in_place
def _regress(inverse: Floats, weights: Floats, x: Floats, reward: float, gain: Floats) -> None:
    """Sherman-Morrison: A^-1 loses (A^-1 z)(A^-1 z)' / (1 + z' A^-1 z), written so that it stays symmetric."""
    scale, surprise = 1.0, reward
    for i in range(gain.size):
        gain[i] = _through(inverse, i, x)
        scale += _feature(x, i) * gain[i]
        surprise -= _feature(x, i) * weights[i]
    for i in range(gain.size):
        weights[i] += gain[i] * surprise / scale
        for j in range(gain.size):
            inverse[i, j] -= gain[i] * gain[j] / scale


@compiled
def run(state: State, seed: np.uint64, start: int, *chunk: Any) -> int:
    """Decide and observe, round by round."""
    return play(choose, learn, always, state, seed, start, chunk)
