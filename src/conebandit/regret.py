"""What a run cost, in nine series. No single one is honest: each can be gamed, all together cannot.

play       gap of the played arm to the true front
front      largest gap of any arm in the reported front
shortfall  by what factor (log) the reported arms, by their true means, must improve to weakly dominate the true front
coverage   log-Hausdorff distance between the reported front, by its true means, and the true front
recall     share of true front arms that are reported
precision  share of reported arms that are true front arms
lost       share of true front arms that are no longer active
missed     share of essential arms that no reported arm covers
bad        share of reported arms that are unacceptable

A resolution, the smallest difference that matters, changes three of them: ``missed`` and ``bad``, and ``play``, which
is then by what factor (log) the played arm must improve so that it is not unacceptable any more. Let eps be the
resolution of a facet. Arm b is *inessential* if another one is at least b - eps on all facets and above b + eps on one,
*unacceptable* if another one is above b + eps on all; an arm *covers* b if it is at least b - eps on all. Without a
resolution ``missed`` is the share of front arms that no reported one weakly dominates, ``bad`` that of reported ones
that are strongly dominated.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from conebandit.geometry.cone import Cone
from conebandit.geometry.gap import require_rewards, shortfalls
from conebandit.geometry.pareto import essential, facet_slack
from conebandit.kernels import gap as kernels
from conebandit.kernels.order import fronts_of_batch, matched
from conebandit.kernels.shortfall import shortfalls_by_logs
from conebandit.validate.arguments import as_resolution
from conebandit.validate.arrays import FloatArray

BoolArray = NDArray[np.bool_]

SERIES = ("play", "front", "shortfall", "coverage", "recall", "precision", "lost", "missed", "bad")
RESOLVED = ("play", "missed", "bad")  # which depend on a resolution
SHARES = ("recall", "precision", "lost", "missed", "bad")  # of arms, between 0 and 1


def regret_series(
    means: FloatArray,
    cone: Cone,
    arms: NDArray[np.int64],
    reported: BoolArray,
    active: BoolArray,
    *,
    resolution: ArrayLike = 0.0,
) -> dict[str, FloatArray]:
    """All series, round by round.

    Parameters
    ----------
    means
        Shape (n, K, M), true means, positive.
    cone
        The preference cone.
    arms, reported, active
        Shapes (n,), (n, K), (n, K): what was played, the reported front and the active arms when it was decided.
    resolution
        The smallest difference that matters: one number, or one for each objective, in its units.

    Returns
    -------
    dict
        Name of the series to an array (n,).

    Examples
    --------
    >>> means = np.array([[[1.0, 0.5], [0.5, 1.0], [0.25, 0.25]]])
    >>> everyone = np.ones((1, 3), dtype=bool)
    >>> regret_series(means, Cone.orthant(2), np.array([2]), everyone, everyone)["play"].round(4)
    array([0.6931])
    """
    if not 0.0 < means.min() <= means.max() < np.inf:
        raise ValueError(f"means must be positive and finite; they range from {means.min()} to {means.max()}.")
    slack = facet_slack(require_rewards(cone), as_resolution(resolution, cone.dim))
    # The kernels behind pareto_mask, gap and log_hausdorff, without checking the same array five times.
    true_front = fronts_of_batch(means, cone.facets)
    rounds = np.arange(len(arms))
    wanted = reported.copy()
    wanted[rounds, arms] = True
    gaps = excess = _moves(means, cone, true_front, wanted, np.zeros_like(slack))
    needed = true_front
    if slack.any():
        excess = _moves(means, cone, true_front, wanted, slack)
        needed = essential(means, true_front, cone, slack)
    both, size, n_reported = _count(reported & true_front), _count(true_front), _count(reported)
    absent, logs = needed & ~reported, np.log(means)
    return {
        "play": np.log1p(excess[rounds, arms]),
        "front": np.log1p(np.max(gaps, axis=1, where=reported, initial=0.0)),
        "shortfall": _shortfalls(means, logs, reported, true_front, cone),
        "coverage": kernels.hausdorff_of_batch(logs, logs, reported, true_front, kernels.SUP),
        "recall": both / size,
        "precision": both / n_reported,
        "lost": _count(true_front & ~active) / size,
        "missed": _count(absent & ~matched(means, absent, reported, cone.facets, slack, False)) / _count(needed),
        "bad": _count(reported & (excess > 0.0)) / n_reported,
    }


def _moves(means: FloatArray, cone: Cone, front: BoolArray, wanted: BoolArray, slack: FloatArray) -> FloatArray:
    """How far each wanted arm must move, relative to its means, so that no front arm is above it by more than slack."""
    freedom = kernels.UNIFORM if cone.contains_orthant else kernels.FREE
    return kernels.escapes(means, means, front, wanted, cone.facets, slack, 1.0, freedom)


def _shortfalls(means: FloatArray, logs: FloatArray, reported: BoolArray, front: BoolArray, cone: Cone) -> FloatArray:
    """Of the reported arms; for the orthant from the logs, which are there already."""
    if cone.is_orthant:
        return shortfalls_by_logs(logs, logs, reported, front)
    return shortfalls(means, means, reported, front, cone)


def _count(mask: BoolArray) -> FloatArray:
    """Number of True in each row; a product is several times faster than a sum of booleans."""
    return mask.view(np.uint8) @ np.ones(mask.shape[1])
