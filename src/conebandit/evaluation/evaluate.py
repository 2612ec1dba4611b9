"""The function that judges policies from a log."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from conebandit.evaluation.estimators import ESTIMATORS, Problem, Scores, stable_shares
from conebandit.evaluation.log import Log
from conebandit.evaluation.outcomes import Fit, ridge
from conebandit.evaluation.result import Evaluation
from conebandit.evaluation.targets import (
    UNLIKELY,
    PolicyLike,
    Target,
    arm_of_index,
    notes_on,
    overlap_of,
    require_support,
)
from conebandit.experiment.declaration import Experiment
from conebandit.simulate import Run
from conebandit.validate.arguments import as_fraction, as_integer, is_integer
from conebandit.validate.arrays import FloatArray

Estimator = Literal["auto", "ips", "snips", "dr", "stabilised", "replay"]


def evaluate(
    log: Any,
    policies: Mapping[str, PolicyLike] | Sequence[PolicyLike] | PolicyLike,
    *,
    experiment: Experiment | None = None,
    estimator: Estimator = "auto",
    adaptive: bool | Literal["auto"] = "auto",
    level: float = 0.95,
    n_folds: int = 10,
    model: Fit | None = None,
) -> Evaluation:
    """Estimate, from a log, what policies are worth in every metric, and which of them are on the front.

    Parameters
    ----------
    log
        A :class:`Log`, a :class:`Run`, or, with an experiment, a table or file as :meth:`Log.from_table` takes it.
    policies
        By name: an arm (index or name), ``"uniform"``, ``"logged"`` (what was done), an arm for each row,
        probabilities (n, K), a function from contexts (n, d) to either, a policy, which does not learn, or a
        :class:`Learner`, which stands for the arms that it recommends. Arms and words need no name: in a list, an arm
        has its own, even if it is given by its index.
    experiment
        The declaration, for a table or file.
    estimator
        ``"ips"``, ``"snips"`` (self-normalised), ``"dr"`` (doubly robust), ``"stabilised"`` (the same, for adaptive
        logs), ``"replay"`` (for uniformly random logs; policies learn as they go), or what suits the log.
    adaptive
        Whether a policy learned while the log was made: then models of outcomes learn from earlier rows only.
    level
        Probability with which all intervals and all sure statements hold at once.
    n_folds
        Parts of the log; a model of outcomes is used for another part than those it was fitted on.
    model
        Fits such a model: from contexts (n, d), arms (n,), rewards (n, M) with nan, and K, to a function from contexts
        (m, d) to means (m, K, M). A ridge regression by default.

    Raises
    ------
    ValueError
        Also if the log cannot say anything about a policy, because it never plays what the policy would.

    Notes
    -----
    ``docs/evaluate.md`` says what is assumed, and what each estimator is for.

    Examples
    --------
    >>> import conebandit as cb
    >>> env = cb.environments.dose_finding(n_arms=3)
    >>> run = cb.simulate(cb.RandomArm(3, env.cone, env.context_dim), env, horizon=1000)
    >>> cb.evaluate(run, {"low": 0, "by age": lambda x: np.eye(3)[np.where(x[:, 0] < 0.5, 2, 0)]}).front
    ('low', 'by age')
    """
    rows = _as_log(log, experiment)
    learned = _as_adaptive(adaptive, rows)
    targets = [Target.of(name, policy, rows) for name, policy in _named(policies, rows).items()]
    parts = as_integer(n_folds, "n_folds", least=2)
    problem = Problem(rows, targets, learned or estimator == "stabilised", parts, model or ridge)
    return _judge(problem, _as_estimator(estimator), as_fraction(level, "level"), learned)


def _judge(problem: Problem, estimator: str, level: float, adaptive: bool) -> Evaluation:
    log, targets = problem.log, problem.targets
    for target in targets:
        require_support(target)
    chosen, notes = _choose(estimator, problem)
    values, covariance = _joint(targets, ESTIMATORS[chosen](problem), log.units)
    weights = [t.kept * np.float64(log.n_arms) if chosen == "replay" else t.weights for t in targets]
    overlap = {t.name: overlap_of(t, own) for t, own in zip(targets, weights, strict=True)}
    return Evaluation(
        policies=tuple(overlap),
        metrics=log.metric_names,
        cone=log.cone,
        values=values,
        covariance=covariance,
        level=level,
        estimator=chosen,
        adaptive=adaptive,
        n_rows=len(log),
        n_units=None if log.units is None else int(log.units.max()) + 1,
        overlap=overlap,
        notes=(*notes, *(note for name, found in overlap.items() for note in notes_on(name, found))),
    )


def _as_estimator(estimator: Any) -> str:
    if estimator not in get_args(Estimator):
        raise ValueError(f"estimator must be one of {', '.join(get_args(Estimator))}; got {estimator!r}.")
    return str(estimator)


def _as_adaptive(adaptive: Any, log: Log) -> bool:
    if adaptive not in (True, False, "auto"):
        raise ValueError(f"adaptive must be True, False or 'auto'; got {adaptive!r}.")
    return bool(log.adaptive if adaptive == "auto" else adaptive)


def _as_log(log: Any, experiment: Experiment | None) -> Log:
    if isinstance(log, Run | Log):
        if experiment is not None:
            raise TypeError("experiment is for tables and files; a Log and a Run have a cone and names of their own.")
        return log if isinstance(log, Log) else Log.from_run(log)
    if experiment is None:
        raise TypeError(
            f"log must be a conebandit.Log or a Run; got {log!r}. A table or a file needs an experiment as well, which "
            "says what its columns mean."
        )
    return Log.from_table(log, experiment)


def _named(policies: Any, log: Log) -> dict[str, PolicyLike]:
    """Policies by name; arms, by name or index, and words have names of their own."""
    if isinstance(policies, Mapping):
        found = dict(policies)
        if not all(isinstance(name, str) for name in found):
            raise TypeError(f"policies must have texts as names; got {list(found)}.")
    else:
        several = [policies] if isinstance(policies, str) or is_integer(policies) else policies
        if not isinstance(several, list | tuple) or not all(isinstance(p, str) or is_integer(p) for p in several):
            raise TypeError(
                "policies must be a dict from names to policies, or a list of arms, 'uniform' and 'logged'; got "
                f"{policies!r}."
            )
        found = {p if isinstance(p, str) else log.arm_names[arm_of_index(str(p), p, log)]: p for p in several}
        if len(found) < len(several):
            raise ValueError(f"policies must be different from each other; got {several}.")
    if not found:
        raise ValueError("policies must not be empty.")
    return found


def _choose(estimator: str, problem: Problem) -> tuple[str, list[str]]:
    """The estimator to use, and what to say about it."""
    if estimator not in ("auto", "stabilised"):
        return estimator, []
    if not problem.in_time or (estimator == "auto" and problem.log.probabilities is None):
        return "dr", []
    if not any(_moved(problem.log.contexts, stable_shares(target, problem)) for target in problem.targets):
        return "stabilised", []
    moved = "The population of the contexts has moved while the log was made"
    if estimator == "auto":
        return "dr", [f"{moved}: estimator 'dr' is used, since 'stabilised' would weigh some of the time more."]
    return "stabilised", [f"{moved}, and 'stabilised' weighs some of the time more: consider 'dr'."]


def _moved(contexts: FloatArray, shares: FloatArray) -> bool:
    """Whether contexts weighted by these shares have another mean than contexts as they are, beyond chance."""
    tilt = shares / shares.sum() - 1.0 / len(shares)
    size, spread = np.sqrt((tilt**2).sum()), contexts.std(axis=0)
    differ = spread > 1e-12 * np.abs(contexts).max(axis=0)
    if size * len(shares) < 1e-9 or not differ.any():
        return False
    return bool((np.abs(tilt @ contexts)[differ] > UNLIKELY * size * spread[differ]).any())


def _joint(
    targets: Sequence[Target], scores: Sequence[Scores], units: NDArray[np.int64] | None
) -> tuple[FloatArray, FloatArray]:
    """Values (P, M) of all policies and their covariance (P, M, P, M).

    Rows that are about one unit move the values together: then units are what is independent, not rows.
    """
    found = [own.mean(target.name) for target, own in zip(targets, scores, strict=True)]
    values = np.stack([value for value, _ in found])
    influence = np.concatenate([moves for _, moves in found], axis=1)  # (n, P M)
    if units is not None:
        n_units = int(units.max()) + 1
        of_unit = np.zeros((n_units, influence.shape[1]))
        np.add.at(of_unit, units, influence)
        influence = np.sqrt(n_units / (n_units - 1.0)) * of_unit
    return values, (influence.T @ influence).reshape(*values.shape, *values.shape)
