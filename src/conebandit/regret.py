"""What a run cost, in six series. No single one is honest: each can be gamed, all together cannot.

play       gap of the played arm to the true front
front      largest gap of any arm in the reported front
coverage   log-Hausdorff distance between the reported front, by its true means, and the true front
recall     share of true front arms that are reported
precision  share of reported arms that are true front arms
lost       share of true front arms that are no longer active
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from conebandit._validate import FloatArray
from conebandit.cone import Cone
from conebandit.gap import gap, log_hausdorff
from conebandit.pareto import pareto_mask

BoolArray = NDArray[np.bool_]

SERIES = ("play", "front", "coverage", "recall", "precision", "lost")


def regret_series(
    means: FloatArray, cone: Cone, arms: NDArray[np.int64], reported: BoolArray, active: BoolArray
) -> dict[str, FloatArray]:
    """All six series, round by round.

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
    true_front = pareto_mask(means, cone)
    rounds = np.arange(len(arms))
    wanted = reported.copy()
    wanted[rounds, arms] = True
    gaps = gap(means, true_front, cone, where=wanted)
    both, size = _count(reported & true_front), _count(true_front)
    coverage = log_hausdorff(means, means, in_a=reported, in_b=true_front)
    return {
        "play": gaps[rounds, arms],
        "front": np.where(reported, gaps, 0.0).max(axis=1),
        "coverage": np.asarray(coverage),
        "recall": both / size,
        "precision": both / _count(reported),
        "lost": _count(true_front & ~active) / size,
    }


def _count(mask: BoolArray) -> FloatArray:
    """Number of True in each row; a product is several times faster than a sum of booleans."""
    return mask.view(np.uint8) @ np.ones(mask.shape[1])
