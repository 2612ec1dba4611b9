"""The function that judges policies from a log."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, get_args

import numpy as np

from conebandit.evaluation.estimators import ESTIMATORS, Problem, Scores, stable_shares
from conebandit.evaluation.log import Log
from conebandit.evaluation.outcomes import Fit, ridge
from conebandit.evaluation.result import Evaluation
from conebandit.evaluation.targets import UNLIKELY, Overlap, PolicyLike, Target, require_support
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
        A :class:`Log`; a :class:`Run` of :func:`simulate`; or, with an experiment, a table of decisions or the path of
        one, such as the service exports (CSV or Parquet).
    policies
        By name: an arm (its index or name), ``"uniform"``, ``"logged"`` (what was done), probabilities (n, K), a
        function from contexts (n, d) to probabilities (n, K), or a policy of this library, which is asked as it is and
        does not learn. Arms and words need no name: ``["uniform", "old"]``.
    experiment
        The declaration, for a table. For other logs its arms, metrics and cone replace those of the log.
    estimator
        ``"ips"`` (inverse propensity), ``"snips"`` (self-normalised), ``"dr"`` (doubly robust), ``"stabilised"``
        (doubly robust, for adaptive logs) or ``"replay"`` (for uniformly random logs; policies learn as they go). By
        default ``"dr"``, and for adaptive logs ``"stabilised"``, unless their population has moved.
    adaptive
        Whether the log comes from a policy that learned while it was made; by default what the log says. Models of
        outcomes are then fitted on earlier rows only.
    level
        Probability with which all intervals and all sure statements hold at once.
    n_folds
        Into how many parts the rows are split to fit models of outcomes on other rows than those they are used for.
    model
        How such a model is fitted: a function of contexts (n, d), arms (n,), rewards (n, M, nan for unknown) and the
        number of arms that gives a function from contexts (m, d) to means (m, K, M). By default a ridge regression.

    Returns
    -------
    Evaluation

    Raises
    ------
    ValueError
        If the log cannot say anything about a policy, because it never plays what the policy would.

    Notes
    -----
    Assumed are right propensities; rewards that depend on context and arm of their own row alone; and, where metrics
    are not known, that this depends at most on the arm. Estimates are means over the population of the log;
    ``"stabilised"`` needs one that does not move. ``docs/evaluate.md`` says more.

    Examples
    --------
    >>> import conebandit as cb
    >>> env = cb.environments.dose_finding(n_arms=3)
    >>> policy = cb.RandomArm(n_arms=3, cone=env.cone, context_dim=env.context_dim)
    >>> run = cb.simulate(policy, env, horizon=1000)
    >>> found = cb.evaluate(run, {"low": 0, "high": 2, "by age": lambda x: np.eye(3)[np.where(x[:, 0] < 0.5, 2, 0)]})
    >>> found.values.shape, found.estimator
    ((3, 2), 'dr')
    """
    rows = _as_log(log, experiment)
    if estimator not in get_args(Estimator):
        raise ValueError(f"estimator must be one of {', '.join(get_args(Estimator))}; got {estimator!r}.")
    if adaptive not in (True, False, "auto"):
        raise ValueError(f"adaptive must be True, False or 'auto'; got {adaptive!r}.")
    chance, parts = as_fraction(level, "level"), as_integer(n_folds, "n_folds", least=2)
    learned = bool(rows.adaptive if adaptive == "auto" else adaptive)
    targets = [Target.of(name, policy, rows) for name, policy in _named(policies).items()]
    for target in targets:
        require_support(target)
    problem = Problem(rows, targets, learned or estimator == "stabilised", parts, model or ridge)
    chosen, notes = _choose(estimator, problem)
    values, covariance = _joint(targets, ESTIMATORS[chosen](problem))
    weights = [t.kept * float(rows.n_arms) if chosen == "replay" else t.weights for t in targets]
    overlap = {t.name: Overlap.of(t, own) for t, own in zip(targets, weights, strict=True)}
    return Evaluation(
        policies=tuple(overlap),
        metrics=rows.metric_names,
        cone=rows.cone,
        values=values,
        covariance=covariance,
        level=chance,
        estimator=chosen,
        adaptive=learned,
        n_rows=len(rows),
        overlap=overlap,
        notes=(*notes, *(note for name, found in overlap.items() for note in found.notes(name))),
    )


def _as_log(log: Any, experiment: Experiment | None) -> Log:
    if experiment is not None and not isinstance(experiment, Experiment):
        raise TypeError(f"experiment must be an Experiment; got {experiment!r}.")
    if isinstance(log, Run):
        log = Log.from_run(log)
    if isinstance(log, Log):
        return log if experiment is None else replace(log, cone=experiment.cone, arm_names=experiment.arms)
    if experiment is None:
        raise TypeError(
            f"log must be a conebandit.Log or a Run; got {log!r}. A table or a file needs an experiment as well, which "
            "says what its columns mean."
        )
    return Log.from_table(log, experiment)


def _named(policies: Any) -> dict[str, PolicyLike]:
    """Policies by name; arms and words are their own names."""
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
        found = {str(policy): policy for policy in several}
        if len(found) < len(several):
            raise ValueError(f"policies must be different from each other; got {several}.")
    if not found:
        raise ValueError("policies must not be empty.")
    return found


def _choose(estimator: str, problem: Problem) -> tuple[str, list[str]]:
    """The estimator to use, and what to say about it."""
    if estimator not in ("auto", "stabilised"):
        return estimator, []
    if not problem.in_time:
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


def _joint(targets: Sequence[Target], scores: Sequence[Scores]) -> tuple[FloatArray, FloatArray]:
    """Values (P, M) of all policies and their covariance (P, M, P, M)."""
    found = [own.mean(target.name) for target, own in zip(targets, scores, strict=True)]
    values = np.stack([value for value, _ in found])
    influence = np.concatenate([moves for _, moves in found], axis=1)  # (n, P M)
    return values, (influence.T @ influence).reshape(*values.shape, *values.shape)
