"""Draws from the true fronts of many rounds."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from conebandit.kernels.compile import compiled
from conebandit.kernels.fronts import draw
from conebandit.kernels.rng import uniform


@compiled
def draw_many(
    seed: np.uint64, keys: NDArray[np.uint64], fronts: NDArray[np.bool_]
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """For each round one of its flagged arms, by its key, and the chances (n, K) of all arms."""
    arms, chances = np.empty(keys.size, dtype=np.int64), np.empty(fronts.shape)
    for i in range(keys.size):
        arms[i] = draw(fronts[i], uniform(seed, keys[i]), chances[i])
    return arms, chances
