"""The policies to be judged, at the contexts of a log, and whether the log can say anything about them."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from conebandit.evaluation.log import MIN_CHANCE, Log, require_probabilities
from conebandit.experiment.errors import InvalidError
from conebandit.experiment.frames import Frame
from conebandit.experiment.learner import Learner
from conebandit.validate.arguments import as_arm, is_integer
from conebandit.validate.arrays import FloatArray, as_floats

PolicyLike = Any  # what Target.of takes; an alias that says so

UNIFORM, LOGGED = "uniform", "logged"

MAX_MISSING = 1e-6  # share of a policy's plays that may be without support: rounding in files
ROUNDED = 0.05  # how far a mean weight may be below 1 by rounded propensities, at most: 0.17 for 1 / 6 makes it 0.98
MAX_DIGITS = 6  # numbers with more digits than these are not taken for rounded ones
WORTH_A_NOTE = 0.005  # how far it may be off before anybody is told: three digits, 0.167, make it 0.998
UNLIKELY = 4.0  # standard errors by which a mean is off by chance once in 16,000 times
IMPOSSIBLE = 8.0  # the same for mean weights, twice as much: a log may not have seen their long tails. By hand
FEW = 50.0  # rows in effect below which normal error bars are not to be trusted. By hand; changes nothing but a note


@dataclass(frozen=True, eq=False)
class Target:
    """A policy at the contexts of a log.

    Attributes
    ----------
    name
        What it is called in the result.
    log
        The log.
    policy
        As it was given.
    probabilities
        Shape (n, K), with which it plays the arms; None for the policy that made the log.
    """

    name: str
    log: Log
    policy: PolicyLike
    probabilities: FloatArray | None

    @classmethod
    def of(cls, name: str, policy: PolicyLike, log: Log) -> Target:
        """Ask a policy for its probabilities at all contexts of the log; it does not learn."""
        if isinstance(policy, str) and policy == LOGGED and LOGGED not in log.arm_names:
            return cls(name, log, policy, log.probabilities)
        return cls(name, log, policy, _probabilities(name, policy, log))

    @property
    def is_logged(self) -> bool:
        """Whether this is the policy that made the log."""
        return self.probabilities is None or self.probabilities is self.log.probabilities

    @property
    def own(self) -> FloatArray:
        """The probabilities of a policy that is not the one that made the log: they are known."""
        assert self.probabilities is not None
        return self.probabilities

    @cached_property
    def weights(self) -> FloatArray:
        """Shape (n,): how much more probable the arm played is under this policy than it was."""
        if self.is_logged:
            return np.ones(len(self.log))
        return np.asarray(self.own[np.arange(len(self.log)), self.log.arms] / self.log.propensities)

    @cached_property
    def expected_squares(self) -> FloatArray:
        """Shape (n,): squared weights, on average over the arms that might have been played, if that is known."""
        if self.is_logged or self.log.probabilities is None:
            return self.weights**2
        possible = self.log.probabilities >= MIN_CHANCE
        ratios = np.divide(self.own**2, self.log.probabilities, out=np.zeros(possible.shape), where=possible)
        return np.asarray(ratios.sum(axis=1))

    @cached_property
    def kept(self) -> NDArray[np.bool_]:
        """Shape (n,): rows in which the policy, shown one row after the other, draws the arm that was played.

        A policy with ``observe`` learns from these, and from no others; a copy of it does.
        """
        log, learner = self.log, self.policy
        if self.is_logged:
            return np.ones(len(log), dtype=np.bool_)
        if not hasattr(learner, "observe"):
            drawn = np.random.default_rng(0).random((len(log), 1)) >= np.cumsum(self.own, axis=1)[:, :-1]
            return np.asarray(drawn.sum(axis=1) == log.arms)
        rewards = log.rewards_for(learner)
        learner = learner.copy() if hasattr(learner, "copy") else copy.deepcopy(learner)
        kept = np.zeros(len(log), dtype=np.bool_)
        for i, (context, arm) in enumerate(zip(log.contexts, log.arms.tolist(), strict=True)):
            if learner.decide(context, i).arm == arm:
                kept[i] = True
                learner.observe(context, arm, rewards[i])
        return kept


def _probabilities(name: str, policy: PolicyLike, log: Log) -> FloatArray:
    n, arms = len(log), log.n_arms
    if isinstance(policy, str) or is_integer(policy):
        return _by_name(name, policy, log)
    if hasattr(policy, "decide_many"):
        _require_sizes(name, policy, log)
        found = policy.decide_many(log.contexts, np.zeros(n, dtype=np.uint64)).probabilities
    elif hasattr(policy, "decide"):
        _require_sizes(name, policy, log)
        found = [policy.decide(context, 0).probabilities for context in log.contexts]
        if any(row is None for row in found):
            raise ValueError(f"policy {name!r} must give probabilities with its decisions; {policy!r} does not.")
    elif isinstance(policy, Learner):
        _require_columns(name, policy, log)
        found = policy.recommended(log.contexts)
    else:
        found = policy(log.contexts) if callable(policy) else policy
    named = _arms_in(found)
    if named is not None:
        return _row_by_row(name, named, log)
    rows = as_floats(found, f"the probabilities of policy {name!r}")
    if rows.shape != (n, arms):
        raise ValueError(
            f"the probabilities of policy {name!r} must have shape ({n}, {arms}), a row for each context and a column "
            f"for each arm; got {rows.shape}. An arm for each row, by name, will do as well."
        )
    require_probabilities(rows, f"the probabilities of policy {name!r}")
    return rows


def _arms_in(given: Any) -> list[Any] | None:
    """The arms in a list, array or column of names or indices; None if it is something else, such as probabilities."""
    try:
        column = Frame({"arm": given}).column("arm")
    except InvalidError:
        return None
    return column if all(isinstance(each, str) or is_integer(each) for each in column) else None


def _row_by_row(name: str, given: list[Any], log: Log) -> FloatArray:
    """An arm for each row, by name or index."""
    if len(given) != len(log):
        raise ValueError(f"policy {name!r} must have an arm for each of the {len(log)} rows; got {len(given)}.")
    unknown = [each for each in given if isinstance(each, str) and each not in log.arm_names]
    if unknown:
        raise ValueError(f"policy {name!r} must give arms ({', '.join(log.arm_names)}); got {unknown[0]!r}.")
    arms = [log.arm_names.index(each) if isinstance(each, str) else arm_of_index(name, each, log) for each in given]
    return np.eye(log.n_arms)[arms]


def arm_of_index(name: str, given: Any, log: Log) -> int:
    """An arm by its index; a ``ValueError`` if another arm has this number as its name."""
    arm = as_arm(given, log.n_arms)
    if log.arm_names[arm] != str(arm) and str(arm) in log.arm_names:
        raise ValueError(
            f"policy {name!r} must give arms by name, as texts: the integer {arm} may mean the arm {str(arm)!r}, or "
            f"that of index {arm}, {log.arm_names[arm]!r}."
        )
    return arm


def _by_name(name: str, policy: str | int, log: Log) -> FloatArray:
    """A fixed arm, by index or name, or all arms alike."""
    n, arms = len(log), log.n_arms
    if policy == UNIFORM and UNIFORM not in log.arm_names:
        return np.full((n, arms), 1.0 / arms)
    if isinstance(policy, str):
        if policy not in log.arm_names:
            raise ValueError(
                f"policy {name!r} must be '{UNIFORM}', '{LOGGED}' or an arm ({', '.join(log.arm_names)}) if it is a "
                f"text; got {policy!r}."
            )
        arm = log.arm_names.index(policy)
    else:
        arm = arm_of_index(name, policy, log)
    return np.tile(np.eye(arms)[arm], (n, 1))


def _require_sizes(name: str, policy: Any, log: Log) -> None:
    for size, own in (("n_arms", log.n_arms), ("context_dim", log.contexts.shape[1])):
        if getattr(policy, size, own) != own:
            raise ValueError(f"policy {name!r} has {size} = {getattr(policy, size)}, but the log has {own}.")


def _require_columns(name: str, learner: Learner, log: Log) -> None:
    """Refuse a learner that would take the coordinates of a context for something else."""
    _require_sizes(name, learner.policy, log)
    own, theirs = learner.experiment.columns, None if log.experiment is None else log.experiment.columns
    if theirs is not None and own != theirs:
        different = sorted({column.name for column in {*own} ^ {*theirs}}) or ["their order"]
        raise ValueError(
            f"policy {name!r} has learned from other columns than the log has: bounds, levels or what stands for "
            f"missing values differ ({', '.join(different)}). Make the log with the learner's own declaration, "
            "learner.experiment, or give the arms that it recommends, learner.recommend(table)['arm']."
        )


# ---- what the log can say ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Overlap:
    """How much a log says about a policy.

    Attributes
    ----------
    effective_rows
        Effective sample size, ``(sum w)^2 / sum w^2`` of the weights: as many rows of the policy itself would say as
        much.
    mean_weight, mean_weight_error
        About 1 if propensities are right and nothing is missing; with its standard error.
    smallest_propensity
        The smallest probability in the log of an arm that the policy plays there: of all of them if they are known,
        otherwise of the arms played.
    largest_weight
        The largest weight that a row has.

    Examples
    --------
    >>> import conebandit as cb
    >>> log = cb.Log([[0.1], [0.7], [0.4]], [0, 1, 1], [[1.0], [0.0], [1.0]], [0.5, 0.5, 0.5], cb.Cone.orthant(1))
    >>> found = cb.evaluate(log, {"new": 1}, estimator="ips").overlap["new"]
    >>> found.effective_rows, round(found.mean_weight, 3), found.smallest_propensity
    (2.0, 1.333, 0.5)
    """

    effective_rows: float
    mean_weight: float
    mean_weight_error: float
    smallest_propensity: float
    largest_weight: float


def overlap_of(target: Target, weights: FloatArray) -> Overlap:
    """How much a log says about a policy, if its rows have these weights (n,)."""
    log = target.log
    if target.is_logged or log.probabilities is None:
        smallest = log.propensities[weights > 0.0].min(initial=1.0)
    else:
        smallest = log.probabilities[target.own > 0.0].min()
    total = float(weights.sum())
    error = float(weights.std(ddof=1)) / np.sqrt(len(log)) if len(log) > 1 else np.inf
    return Overlap(
        effective_rows=total**2 / float((weights**2).sum()) if total else 0.0,
        mean_weight=total / len(log),
        mean_weight_error=float(error),
        smallest_propensity=float(smallest),
        largest_weight=float(weights.max()),
    )


def notes_on(name: str, overlap: Overlap) -> list[str]:
    """What a reader must know, in sentences."""
    found = []
    if overlap.effective_rows < FEW:
        found.append(
            f"{name}: the log says as much as {overlap.effective_rows:.1f} rows would; below {FEW:.0f} errors are not "
            "to be trusted."
        )
    if abs(overlap.mean_weight - 1.0) > UNLIKELY * overlap.mean_weight_error + WORTH_A_NOTE:
        found.append(
            f"{name}: the mean weight is {overlap.mean_weight:.3f} ± {overlap.mean_weight_error:.3f}, not 1: are the "
            "propensities those with which arms were drawn, with all their digits, and could every arm have been?"
        )
    return found


def require_support(target: Target) -> None:
    """A ``ValueError`` that says what is missing, if the policy plays arms where the log could not have."""
    log = target.log
    plays = np.bincount(log.arms, minlength=log.n_arms) > 0
    if not target.is_logged:
        _require_probability(target, plays)
        plays = np.asarray((target.own > 0.0).any(axis=0))
    known = ~np.isnan(log.rewards)
    for m, metric in enumerate(log.metric_names):
        unknown = np.bincount(log.arms[known[:, m]], minlength=log.n_arms) == 0
        if (unknown & plays).any():
            names = ", ".join(log.arm_names[arm] for arm in np.flatnonzero(unknown & plays))
            raise ValueError(
                f"policy {target.name!r} cannot be judged in {metric}: it plays arms of which no value of {metric} is "
                f"known ({names})."
            )


def _require_probability(target: Target, played: NDArray[np.bool_]) -> None:
    """Refuse a policy that plays what the log could not; ``played`` (K,) are the arms that it did play."""
    log = target.log
    if log.probabilities is not None:
        _refuse_zeros(target, np.where(log.probabilities >= MIN_CHANCE, 0.0, target.own), "have probability 0 there")
    else:
        _refuse_zeros(target, np.where(played, 0.0, target.own), "are of arms that were never played there")
        overlap = overlap_of(target, target.weights)
        tolerance = IMPOSSIBLE * overlap.mean_weight_error + rounding_of(target.weights, log.propensities)
        if overlap.mean_weight < 1.0 - tolerance:
            raise ValueError(
                f"policy {target.name!r} cannot be judged from this log: the mean weight is {overlap.mean_weight:.3f} "
                f"± {overlap.mean_weight_error:.3f} and would be 1 if every arm that the policy plays could have been "
                f"played. So about {1.0 - overlap.mean_weight:.0%} of its plays have probability 0 in the log. {ADVICE}"
            )


def rounding_of(weights: FloatArray, propensities: FloatArray) -> float:
    """How far the mean weight may be below 1 because propensities were rounded, by the digits that they have.

    Examples
    --------
    >>> round(rounding_of(np.ones(3), np.array([0.167, 0.167, 0.333])), 4), rounding_of(np.ones(1), np.array([1 / 3]))
    (0.0025, 1e-06)
    """
    for digits in range(1, MAX_DIGITS + 1):
        if np.allclose(propensities, np.round(propensities, digits), rtol=0.0, atol=MAX_MISSING * 10.0**-digits):
            return min(float(np.mean(weights * 0.5 * 10.0**-digits / propensities)) + MAX_MISSING, ROUNDED)
    return MAX_MISSING


ADVICE = (
    "No weighting mends that. Log with a floor (explore=0.1, say), leave out rows without support (log.take), or judge "
    "policies that keep to what was played."
)


def _refuse_zeros(target: Target, missing: FloatArray, problem: str) -> None:
    """Refuse if the policy plays what the log could not; ``missing`` (n, K) are its probabilities of that."""
    lost = missing.sum(axis=1)
    if lost.mean() <= MAX_MISSING:
        return
    rows = np.flatnonzero(lost > 0.0)
    by_arm = missing.mean(axis=0)
    worst = [int(arm) for arm in np.argsort(-by_arm, kind="stable") if by_arm[arm] > 0.0]
    said = ", ".join(f"{target.log.arm_names[arm]} ({by_arm[arm]:.1%})" for arm in worst[:5])
    more = f" and {len(worst) - 5} more" if len(worst) > 5 else ""
    raise ValueError(
        f"policy {target.name!r} cannot be judged from this log: {lost.mean():.1%} of its plays {problem}, "
        f"in {len(rows) / len(lost):.1%} of the rows (the first is row {rows[0]}, the last row {rows[-1]}), "
        f"with arms {said}{more}. {ADVICE}"
    )
