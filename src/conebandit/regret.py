"""What a run cost, in seven series. No single one is honest: each can be gamed, all together cannot.

play       gap of the played arm to the true front
front      largest gap of any arm in the reported front
shortfall  by what factor (log) the reported arms, by their true means, must improve to weakly dominate the true front
coverage   log-Hausdorff distance between the reported front, by its true means, and the true front
recall     share of true front arms that are reported
precision  share of reported arms that are true front arms
lost       share of true front arms that are no longer active
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from conebandit.geometry.cone import Cone
from conebandit.geometry.gap import shortfalls
from conebandit.kernels import gap as kernels
from conebandit.kernels.order import fronts_of_batch
from conebandit.validate.arrays import FloatArray

BoolArray = NDArray[np.bool_]

SERIES = ("play", "front", "shortfall", "coverage", "recall", "precision", "lost")


def regret_series(
    means: FloatArray, cone: Cone, arms: NDArray[np.int64], reported: BoolArray, active: BoolArray
) -> dict[str, FloatArray]:
    """All series, round by round.

    Parameters
    ----------
    means
        Shape (n, K, M), true means, positive.
    cone
        The preference cone.
    arms
        Shape (n,), what was played.
    reported, active
        Shape (n, K), the reported front and the active arms when the decision was made.

    Returns
    -------
    dict
        Name of the series to an array (n,).

    Examples
    --------
    >>> means = np.array([[[1.0, 0.5], [0.5, 1.0], [0.25, 0.25]]])
    >>> everyone = np.ones((1, 3), dtype=bool)
    >>> series = regret_series(means, Cone.orthant(2), np.array([2]), everyone, everyone)
    >>> round(float(series["play"][0]), 4)
    0.6931
    """
    if not 0.0 < means.min() <= means.max() < np.inf:
        raise ValueError(f"means must be positive and finite; they range from {means.min()} to {means.max()}.")
    # The kernels behind pareto_mask, gap and log_hausdorff, without checking the same array five times.
    true_front = fronts_of_batch(means, cone.facets)
    rounds = np.arange(len(arms))
    wanted = reported.copy()
    wanted[rounds, arms] = True
    freedom = kernels.UNIFORM if cone.contains_orthant else kernels.FREE
    gaps = kernels.escapes(means, means, true_front, wanted, cone.facets, np.zeros(len(cone.facets)), 1.0, freedom)
    both, size = _count(reported & true_front), _count(true_front)
    logs = np.log(means)
    return {
        "play": np.log1p(gaps[rounds, arms]),
        "front": np.log1p(np.max(gaps, axis=1, where=reported, initial=0.0)),
        "shortfall": shortfalls(means, means, reported, true_front, cone),
        "coverage": kernels.hausdorff_of_batch(logs, logs, reported, true_front, kernels.SUP),
        "recall": both / size,
        "precision": both / _count(reported),
        "lost": _count(true_front & ~active) / size,
    }


def _count(mask: BoolArray) -> FloatArray:
    """Number of True in each row; a product is several times faster than a sum of booleans."""
    return mask.view(np.uint8) @ np.ones(mask.shape[1])
