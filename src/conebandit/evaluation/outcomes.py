"""Models of the outcome of every arm, fitted on rows other than those for which they are asked."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from conebandit.validate.arrays import FloatArray

Predict = Callable[[FloatArray], FloatArray]  # contexts (n, d) -> means (n, K, M)
Fit = Callable[[FloatArray, NDArray[np.int64], FloatArray, int], Predict]  # contexts, arms, rewards, n_arms
Rows = NDArray[np.int64]


def ridge(contexts: FloatArray, arms: NDArray[np.int64], rewards: FloatArray, n_arms: int) -> Predict:
    """A regression on contexts and their squares for each arm and metric, pulled towards the mean over all arms.

    Coordinates are standardised, and the penalty is one row's worth for each coefficient, so neither units of contexts
    nor of rewards matter. Where nothing is known, the prediction is the mean over all arms, or 0.
    """
    centre, scale = contexts.mean(axis=0), contexts.std(axis=0)
    scale[~(scale > 1e-12 * np.abs(centre))] = 1.0

    def features(x: FloatArray) -> FloatArray:
        z = (x - centre) / scale
        return np.column_stack([np.ones(len(z)), z, z * z - 1.0])

    rows = features(contexts)
    coefficients = np.zeros((n_arms, rewards.shape[1], rows.shape[1]))
    penalty = np.eye(rows.shape[1])
    for m, reward in enumerate(rewards.T):
        known = ~np.isnan(reward)
        level = float(reward[known].mean()) if known.any() else 0.0
        for arm in range(n_arms):
            mine = known & (arms == arm)
            x, y = rows[mine], reward[mine] - level
            coefficients[arm, m] = np.linalg.solve(x.T @ x + penalty, x.T @ y)
        coefficients[:, m, 0] += level
    return lambda x: np.einsum("np,kmp->nkm", features(x), coefficients)


def folds(n: int, count: int, *, in_time: bool, units: Rows | None = None) -> Iterator[tuple[Rows, Rows]]:
    """Pairs of rows to learn from and rows to predict; each row is predicted once, and all of a unit together.

    In time, what is predicted is a block of later rows. Blocks grow, since a policy changes most at the beginning, and
    so does what is known; of ``count`` blocks the first is ``1 / count^2`` of all rows, and there is none before it.
    There, earlier rows of a unit may tell about its later ones, as they did when the log was made.
    """
    rows = np.arange(n)
    if in_time:
        ends = np.ceil(n * (np.arange(count + 1) / count) ** 2).astype(int)
        for start, stop in pairwise(ends):
            yield rows[:start], rows[start:stop]
    else:
        dealt = (rows if units is None else units) % count
        for fold in range(count):
            yield rows[dealt != fold], rows[dealt == fold]
