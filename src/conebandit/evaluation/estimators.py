"""Estimators of the value of a policy. Each of them is a weighted mean of scores, one for each row and metric.

So one formula gives the error of all of them: with shares s and scores G the value is V = sum s G / sum s, and a row
moves it by s (G - V) / sum s, its *influence*. Influences of several policies on the same rows give the covariance of
everything with everything.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from conebandit.evaluation.log import ROUNDING, Log
from conebandit.evaluation.outcomes import Fit, Rows, folds, ridge
from conebandit.evaluation.targets import ROUNDED, Target
from conebandit.validate.arrays import FloatArray, as_floats


class Scores(NamedTuple):
    """Of one policy: scores and shares, both (n, M)."""

    scores: FloatArray
    shares: FloatArray

    def mean(self, name: str) -> tuple[FloatArray, FloatArray]:
        """The value (M,) and the influence of each row (n, M); a ``ValueError`` if too few rows have a share."""
        total, squares = self.shares.sum(axis=0), (self.shares**2).sum(axis=0)
        if not (total**2 > (1.0 + 1e-9) * squares).all():
            raise ValueError(
                f"policy {name!r} cannot be judged from this log: at least two rows must speak for it in every metric."
            )
        value = (self.shares * self.scores).sum(axis=0) / total
        rows = total**2 / squares  # in effect; n if all shares are equal
        return value, np.sqrt(rows / (rows - 1.0)) * self.shares / total * (self.scores - value)


@dataclass(frozen=True, eq=False)
class Problem:
    """What every estimator is given.

    Attributes
    ----------
    log
        The log; rewards are 0 in ``rewards`` where they are not known.
    targets
        The policies.
    in_time
        Whether models may learn from earlier rows only.
    n_folds
        Into how many parts rows are split for that.
    model
        How a model of the outcomes is fitted.
    """

    log: Log
    targets: Sequence[Target]
    in_time: bool
    n_folds: int = 10
    model: Fit = ridge

    @property
    def rewards(self) -> FloatArray:
        """Shape (n, M), 0 where not known."""
        return np.nan_to_num(self.log.rewards, nan=0.0)

    def known(self) -> FloatArray:
        """Shape (n, M): 0 where a reward is not known, otherwise 1 over the share of the arm's that are.

        Shares are weighted by propensities, so that they are those of all rows, whichever arm was likely in which.
        """
        known = ~np.isnan(self.log.rewards)
        if known.all():
            return np.ones(known.shape)
        weights = 1.0 / self.log.propensities
        of_arm = np.zeros((self.log.n_arms, known.shape[1]))
        np.add.at(of_arm, self.log.arms, weights[:, None] * known)
        total = np.bincount(self.log.arms, weights, minlength=self.log.n_arms)
        shares = np.divide(of_arm, total[:, None], out=np.ones_like(of_arm), where=of_arm > 0.0)
        return np.where(known, 1.0 / shares[self.log.arms], 0.0)


def inverse_propensity(problem: Problem) -> list[Scores]:
    """Rewards times weights."""
    rewards, known = problem.rewards, problem.known()
    return [Scores(target.weights[:, None] * known * rewards, np.ones_like(rewards)) for target in problem.targets]


def self_normalised(problem: Problem) -> list[Scores]:
    """The weighted mean of rewards."""
    rewards, known = problem.rewards, problem.known()
    return [Scores(rewards, target.weights[:, None] * known) for target in problem.targets]


def doubly_robust(problem: Problem) -> list[Scores]:
    """What a model of the outcomes expects of the policy, and the weighted error of the model."""
    log, rewards, known = problem.log, problem.rewards, problem.known()
    expected = np.empty((len(problem.targets), *rewards.shape))
    fitted = np.empty_like(rewards)
    for past, rows in folds(len(log), problem.n_folds, in_time=problem.in_time, units=log.units):
        means = _predictions(problem, past, rows)  # (rows, K, M)
        fitted[rows] = means[np.arange(len(rows)), log.arms[rows]]
        for own, target in zip(expected, problem.targets, strict=True):
            chances = target.probabilities
            own[rows] = fitted[rows] if chances is None else np.einsum("nk,nkm->nm", chances[rows], means)
    every = np.ones_like(rewards)
    return [
        Scores(own + target.weights[:, None] * known * (rewards - fitted), every)
        for own, target in zip(expected, problem.targets, strict=True)
    ]


def _predictions(problem: Problem, past: Rows, rows: Rows) -> FloatArray:
    """Means (rows, K, M) by a model of other rows; where there are none, the mean of all rewards.

    That mean is of later rows, too, but one number for a few rows: it spares a large error if rewards are far from 0.
    """
    log, shape = problem.log, (len(rows), problem.log.n_arms, problem.log.cone.dim)
    if not len(past):
        return np.broadcast_to(np.nanmean(log.rewards, axis=0), shape)
    predict = problem.model(log.contexts[past], log.arms[past], log.rewards[past], log.n_arms)
    means = as_floats(predict(log.contexts[rows]), "the means of model")
    if means.shape != shape or not np.isfinite(means).all():
        raise ValueError(
            f"model must predict finite means of shape {shape}: contexts, arms and metrics; got shape {means.shape}."
        )
    return means


def stabilised(problem: Problem) -> list[Scores]:
    """Doubly robust scores, with smaller shares where the policy that made the log left little to learn from."""
    found = doubly_robust(problem)
    return [
        Scores(scores, np.tile(stable_shares(target, problem)[:, None], scores.shape[1]))
        for target, (scores, _) in zip(problem.targets, found, strict=True)
    ]


def stable_shares(target: Target, problem: Problem) -> FloatArray:
    """Shape (n,): 1 over the deviation that scores are expected to have, as seen from the rows before.

    So every row brings about as much variance as every other, which is what makes the mean of an adaptive log normal.
    The rows of the first block have none before them and share what is expected of themselves.
    """
    squares, shares = target.expected_squares, np.empty(len(target.log))
    for past, rows in folds(len(target.log), problem.n_folds, in_time=True):
        seen = past[len(past) // 2 :] if len(past) else rows
        shares[rows] = 1.0 / np.sqrt(max(squares[seen].mean(), 1.0))  # the mean weight is 1, so that of squares is more
    return shares


def replay(problem: Problem) -> list[Scores]:
    """Rewards of the rows in which the policy draws the arm that was played; policies that learn do so as they go.

    Right only for logs in which every arm had the same probability: then what is kept is a sample of what would have
    happened (Li et al. 2011).
    """
    log = problem.log
    off = abs(log.propensities[0] * log.n_arms - 1.0)
    if np.ptp(log.propensities) > ROUNDING or off > max(ROUNDED, ROUNDING * log.n_arms):
        raise ValueError(
            f"estimator 'replay' needs a log in which each of the {log.n_arms} arms was played with probability "
            f"{1.0 / log.n_arms:.4g}; propensities here go from {log.propensities.min():.4g} to "
            f"{log.propensities.max():.4g}. Use 'dr', for policies as they are."
        )
    known = problem.known()
    return [Scores(problem.rewards, target.kept[:, None] * known) for target in problem.targets]


ESTIMATORS: dict[str, Callable[[Problem], list[Scores]]] = {
    "ips": inverse_propensity,
    "snips": self_normalised,
    "dr": doubly_robust,
    "stabilised": stabilised,
    "replay": replay,
}
