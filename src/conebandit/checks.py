"""Contract checks for policies and environments, ours and those of users. One error lists all that is wrong."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np

from conebandit.environments.base import Environment
from conebandit.geometry.cone import Cone
from conebandit.policies.base import Decision, Front, Policy
from conebandit.validate.arguments import as_increasing


def check_environment(environment: Environment) -> None:
    """Raise a ``ValueError`` that lists everything wrong with an environment; return quietly if nothing is.

    Checked: members and shapes, finite and positive means, determinism under a seed, that asking for contexts does not
    change the past, and that rewards average to their means (20,000 draws, at six standard errors).

    Parameters
    ----------
    environment
        Any object.

    Examples
    --------
    >>> import conebandit as cb
    >>> cb.check_environment(cb.environments.dose_finding())
    """
    problems: list[str] = []
    _require(problems, environment, ("n_arms", "n_objectives", "context_dim", "cone", "change_points"))
    _require(problems, environment, ("contexts", "means", "rewards"), callable_=True)
    if not problems:
        _try(problems, "contexts, means or rewards", lambda: _check_draws(problems, environment))
    _finish(problems, environment)


def _check_draws(problems: list[str], env: Environment) -> None:
    n, shape = 64, (64, env.n_arms, env.n_objectives)
    if not isinstance(env.cone, Cone) or env.cone.dim != env.n_objectives:
        problems.append(f"cone must be a Cone of dimension n_objectives = {env.n_objectives}; got {env.cone!r}")
    try:
        as_increasing(env.change_points, "change_points")
    except ValueError as error:
        problems.append(str(error).removesuffix("."))
    x = np.asarray(env.contexts(np.random.default_rng(1), n, 0))
    if x.shape != (n, env.context_dim) or not np.isfinite(x).all():
        problems.append(f"contexts(rng, {n}, 0) must be finite with shape {(n, env.context_dim)}; got {x.shape}")
        return
    if not np.array_equal(x, env.contexts(np.random.default_rng(1), n, 0)):
        problems.append("contexts must depend on nothing but rng, n and start; two calls with equal seeds differ")
    mu = np.asarray(env.means(x))
    if mu.shape != shape:
        problems.append(f"means of {n} contexts must have shape {shape}; got {mu.shape}")
        return
    _check_means(problems, env, x, mu)
    if np.isfinite(mu).all():  # rewards around anything else cannot be right
        _check_rewards(problems, env, mu)
    _check_later_rounds(problems, env, x.shape)


def _check_means(problems: list[str], env: Environment, x: Any, mu: Any) -> None:
    if not _is_positive(mu):
        problems.append(f"means must be finite and positive (for the gap); the smallest is {mu.min()}")
    repeats = np.array_equal(mu, env.means(x), equal_nan=True)
    if not repeats or not np.allclose(mu[:3], env.means(x[:3]), rtol=1e-12, equal_nan=True):
        problems.append("means must be a function of each context alone; repeated or shorter calls differ")


def _check_later_rounds(problems: list[str], env: Environment, shape: tuple[int, int]) -> None:
    n = shape[0]
    for start in (*env.change_points, 10**6):
        later = np.asarray(env.contexts(np.random.default_rng(5), n, int(start)))
        if later.shape != shape or not np.isfinite(later).all():
            problems.append(f"contexts(rng, {n}, {start}) must be finite with shape {shape}; got {later.shape}")
            return
        values = np.asarray(env.means(later))
        if not _is_positive(values):
            problems.append(f"means must be finite and positive; from round {start} on the smallest is {values.min()}")


def _is_positive(means: Any) -> bool:
    return bool(np.isfinite(means).all() and means.min() > 0)


def _check_rewards(problems: list[str], env: Environment, mu: Any) -> None:
    before = mu.copy()
    draws = [np.asarray(env.rewards(np.random.default_rng(2), mu)) for _ in range(2)]
    if not np.array_equal(mu, before):
        problems.append("rewards must not write into the means it is given")
        return
    if draws[0].shape != mu.shape or not np.isfinite(draws[0]).all():
        problems.append(f"rewards(rng, means) must be finite with the shape of means, {mu.shape}; got {draws[0].shape}")
        return
    if not np.array_equal(draws[0], draws[1]):
        problems.append("rewards must depend on nothing but rng and means; two calls with equal seeds differ")
    count = 20_000
    one = np.broadcast_to(mu[0], (count, *mu[0].shape))
    many = np.asarray(env.rewards(np.random.default_rng(3), np.ascontiguousarray(one)))
    error = np.abs(many.mean(axis=0) - mu[0])
    allowed = 6.0 * many.std(axis=0) / np.sqrt(count) + 1e-9
    if (error > allowed).any():
        k, m = np.unravel_index(int(np.argmax(error - allowed)), error.shape)
        problems.append(
            f"rewards must average to their means; arm {k}, objective {m} has mean {mu[0, k, m]:.4g} but "
            f"{count} rewards average {many.mean(axis=0)[k, m]:.4g}"
        )


def check_policy(policy: Policy) -> None:
    """Raise a ``ValueError`` that lists everything wrong with a policy; return quietly if nothing is.

    Checked on a copy: members, that decisions are valid and repeat for the same key, that they do not change when
    others are asked for, that all arms of positive propensity are active, that probabilities (if given) are a
    distribution over the active arms that agrees with the propensity, that fronts are not empty, that unknown metrics
    (nan) are accepted, and that bad arguments are refused and leave no trace. If it has ``merge`` and ``clone``, also
    that merging leaves the other policy as it is, counts all observations, and adds nothing that nobody has learned;
    a ``TypeError`` says that it cannot be merged.

    Parameters
    ----------
    policy
        Any object. Contexts used are in the unit cube, or within ``policy.box.bounds`` if it has them.

    Examples
    --------
    >>> import conebandit as cb
    >>> cb.check_policy(cb.ConeTree(n_arms=3, cone=cb.Cone.orthant(2), context_dim=2))
    """
    problems: list[str] = []
    _require(problems, policy, ("n_arms", "n_objectives", "context_dim"))
    _require(problems, policy, ("decide", "observe", "front"), callable_=True)
    if not problems:
        learner = policy.copy() if hasattr(policy, "copy") else copy.deepcopy(policy)
        _try(problems, "decide, observe or front", lambda: _check_learning(problems, learner))
        _try(problems, "bad arguments", lambda: _check_refusals(problems, learner))
        if hasattr(policy, "merge") and hasattr(policy, "clone"):
            _try(problems, "merge", lambda: _check_merging(problems, policy))
    _finish(problems, policy)


def _contexts(policy: Any, n: int) -> Any:
    u = np.random.default_rng(0).random((n, policy.context_dim))
    box = getattr(policy, "box", None)
    return u if box is None else box.bounds[:, 0] + u * np.ptp(box.bounds, axis=1)


def _check_learning(problems: list[str], policy: Policy) -> None:
    rng = np.random.default_rng(4)
    for i, x in enumerate(_contexts(policy, 200)):
        decision = policy.decide(x, i)
        policy.decide(x, i + 1)
        again = policy.decide(x, i)
        if (decision.arm, decision.propensity) != (again.arm, again.propensity):
            problems.append("decide must be a function of state, context and key; two equal calls differ")
        _check_decision(problems, policy, decision)
        _check_front(problems, policy, policy.front(x))
        reward = rng.random(policy.n_objectives)
        if i % 7 == 0:
            reward[i % policy.n_objectives] = np.nan
        policy.observe(x, decision.arm, reward)
        if problems:
            return


def _check_decision(problems: list[str], policy: Policy, decision: Decision) -> None:
    if not 0 <= decision.arm < policy.n_arms or not 0 < decision.propensity <= 1:
        problems.append(f"decide must give an arm below {policy.n_arms} with a propensity in (0, 1]: {decision}")
    mask = np.asarray(decision.mask)
    if mask.shape != (policy.n_arms,) or mask.dtype != np.bool_:
        problems.append(f"the mask of a decision must be a boolean array of shape ({policy.n_arms},); got {mask!r}")
    elif decision.arm not in decision.active:
        problems.append(f"the arm must be among the active ones; got {decision.arm} and {decision.active}")
    elif decision.probabilities is not None:
        _check_probabilities(problems, policy, decision, np.asarray(decision.probabilities))


def _check_probabilities(problems: list[str], policy: Policy, decision: Decision, chances: Any) -> None:
    if chances.shape != (policy.n_arms,) or chances.dtype.kind != "f":
        problems.append(f"probabilities must be an array of {policy.n_arms} floats; got {chances!r}")
    elif not (chances >= 0.0).all() or not abs(chances.sum() - 1.0) <= 1e-9:
        problems.append(f"probabilities must be at least 0 and add up to 1; got {chances.tolist()}")
    elif chances[decision.arm] != decision.propensity:
        problems.append(f"the probability of the arm must be the propensity: {decision}")
    elif chances[~np.asarray(decision.mask)].any():
        problems.append(f"only active arms may have a positive probability: {decision}")


def _check_front(problems: list[str], policy: Policy, front: Front) -> None:
    if not front.arms or not all(0 <= k < policy.n_arms for k in front.arms):
        problems.append(f"front must name one or more arms below {policy.n_arms}; got {front.arms}")
    if list(front.arms) != sorted(set(front.arms)):
        problems.append(f"the arms of a front must be ascending and different; got {front.arms}")
    wanted = (len(front.arms), policy.n_objectives)
    if np.shape(front.means) != wanted or np.shape(front.radii) != wanted:
        problems.append(f"means and radii of a front of {len(front.arms)} arms must have shape {wanted}")


def _check_refusals(problems: list[str], policy: Policy) -> None:
    x, good = _contexts(policy, 1)[0], np.full(policy.n_objectives, 0.5)
    before = [(d.arm, d.propensity, policy.front(x).arms) for d in (policy.decide(x, k) for k in range(20))]
    attempts: dict[str, Callable[[], object]] = {
        "a context of the wrong length": lambda: policy.decide(np.append(x, 0.5), 0),
        "a nan context": lambda: policy.decide(np.full_like(x, np.nan), 0),
        "a nan context in observe": lambda: policy.observe(np.full_like(x, np.nan), 0, good),
        "an unknown arm": lambda: policy.observe(x, policy.n_arms, good),
        "a negative arm": lambda: policy.observe(x, -1, good),
        "a reward of the wrong length": lambda: policy.observe(x, 0, np.append(good, 0.5)),
    }
    for what, attempt in attempts.items():
        try:
            attempt()
        except (ValueError, TypeError, IndexError):
            continue
        problems.append(f"{what} must be refused with a ValueError")
    after = [(d.arm, d.propensity, policy.front(x).arms) for d in (policy.decide(x, k) for k in range(20))]
    if before != after:
        problems.append("refused arguments must leave no trace; decisions changed")


def _check_merging(problems: list[str], policy: Any) -> None:
    rng = np.random.default_rng(5)
    mine, theirs = policy.clone(), policy.clone()
    for i, x in enumerate(_contexts(policy, 100)):
        (mine if i % 3 else theirs).observe(x, i % policy.n_arms, rng.random(policy.n_objectives))
    answers = _answers(mine), _answers(theirs)
    try:
        mine.merge(policy.clone())
        if _answers(mine) != answers[0]:
            problems.append("merge with a policy that has learned nothing must change nothing; decisions changed")
        mine.merge(theirs)
    except TypeError:
        if (_answers(mine), _answers(theirs)) != answers:
            problems.append("a merge that is refused must leave no trace; decisions changed")
        return
    if _answers(theirs) != answers[1]:
        problems.append("merge must leave the other policy as it is; its decisions changed")
    if getattr(mine, "n_observations", 100) != 100:
        problems.append(f"merge must count the observations of both, 100; n_observations is {mine.n_observations}")


def _answers(policy: Any) -> list[Any]:
    """What a policy says in some contexts, to be compared."""
    x = _contexts(policy, 20)
    return [(policy.decide(x[i], i).arm, policy.front(x[i]).arms) for i in range(len(x))]


def _require(problems: list[str], thing: object, names: tuple[str, ...], *, callable_: bool = False) -> None:
    for name in names:
        if not hasattr(thing, name):
            problems.append(f"it has no {'method' if callable_ else 'attribute'} {name!r}")
        elif callable_ and not callable(getattr(thing, name)):
            problems.append(f"{name!r} must be a method")


def _try(problems: list[str], what: str, check: Callable[[], None]) -> None:
    try:
        check()
    except Exception as error:
        problems.append(f"{what} raised {type(error).__name__}: {error}")


def _finish(problems: list[str], thing: object) -> None:
    if problems:
        unique = list(dict.fromkeys(problems))
        raise ValueError(f"{type(thing).__name__} does not keep the contract:\n" + "\n".join(f"- {p}" for p in unique))
