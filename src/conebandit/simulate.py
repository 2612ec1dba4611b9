"""Runs of a policy in an environment: the only loop over rounds outside the kernels."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import ArrayLike, NDArray

from conebandit.environments.base import Environment
from conebandit.policies.base import Policy
from conebandit.progress import Progress, steps
from conebandit.regret import SERIES, regret_series
from conebandit.validate.arguments import MAX_REWARD, as_arm, as_count, as_integer, as_resolution, is_integer
from conebandit.validate.arrays import FloatArray, as_floats

# Rounds that are drawn at a time. Part of what a seed means: another number gives other random streams.
CHUNK = 4000


@dataclass(frozen=True)
class Run:
    """What happened in a run, and what it cost.

    Attributes
    ----------
    policy
        The policy as it was at the end; the one handed to :func:`simulate` is unchanged.
    contexts, arms, rewards, propensities
        Shapes (T, d), (T,), (T, M), (T,).
    reported, active
        Shape (T, K): the reported front and the arms in the running when each decision was made.
    series
        ``play``, ``front``, ``shortfall``, ``coverage``, ``recall``, ``precision``, ``lost``, ``missed``, ``bad``, each
        (T,); see ``conebandit.regret``.
    change_points
        Of the environment.
    seed
        Of the run.

    Examples
    --------
    >>> import conebandit as cb
    >>> env = cb.environments.paper(n_arms=3, change_point=100)
    >>> run = cb.simulate(cb.RandomArm(n_arms=3, cone=env.cone, context_dim=1), env, horizon=500)
    >>> run.reported.shape, run.cumulative("play", after=100).shape
    ((500, 3), (400,))
    """

    policy: Policy
    contexts: FloatArray
    arms: NDArray[np.int64]
    rewards: FloatArray
    propensities: FloatArray
    reported: NDArray[np.bool_]
    active: NDArray[np.bool_]
    series: dict[str, FloatArray]
    change_points: tuple[int, ...]
    seed: int

    @property
    def horizon(self) -> int:
        """Number of rounds, T."""
        return len(self.arms)

    def total(self, name: str, *, after: int = 0) -> float:
        """Sum of a series over the rounds after the first ``after``."""
        return float(self._series(name)[after:].sum())

    def average(self, name: str, *, after: int = 0) -> float:
        """Mean of a series over the rounds after the first ``after``."""
        first = as_integer(after, "after", least=0, most=self.horizon - 1, hint="so that rounds are left to average")
        return float(self._series(name)[first:].mean())

    def cumulative(self, name: str, *, after: int = 0) -> FloatArray:
        """Running sum of a series, shape (T - after,)."""
        return np.cumsum(self._series(name)[after:])

    def _series(self, name: str) -> FloatArray:
        if name not in self.series:
            raise ValueError(f"name must be one of {', '.join(self.series)}; got {name!r}.")
        return self.series[name]


def simulate(
    policy: Policy, environment: Environment, horizon: int, seed: int = 0, *, resolution: ArrayLike = 0.0
) -> Run:
    """Let a policy decide and learn for ``horizon`` rounds.

    Rewards of *all* arms are drawn in every round, so policies with the same seed meet the same contexts and the same
    luck. Policies with a ``run_chunk`` method run in one compiled loop; any other object with ``decide``, ``observe``
    and ``front`` runs step by step. Both give the same decisions.

    Parameters
    ----------
    policy
        It is copied; the copy learns.
    environment
        Any object that passes :func:`check_environment`.
    horizon
        Number of rounds.
    seed
        Seed of contexts and rewards; it also enters the keys of the decisions. The same seed gives the same run.
    resolution
        The smallest difference that matters: one number, or one for each objective, in its units. It changes what is
        measured (the series ``play``, ``missed`` and ``bad``), not what the policy does.

    Returns
    -------
    Run

    Examples
    --------
    >>> import conebandit as cb
    >>> env = cb.environments.paper(n_arms=5, change_point=100, sigma=0.1)
    >>> policy = cb.ConeTree(n_arms=5, cone=env.cone, context_dim=1, preset="sound", sigma=0.1)
    >>> run = cb.simulate(policy, env, horizon=1000, seed=1)
    >>> run.total("play", after=env.change_points[-1]) > 0
    True
    """
    rounds, seed = _check(policy, environment, horizon), as_integer(seed, "seed", least=0)
    smallest = as_resolution(resolution, environment.n_objectives)
    learner = policy.copy() if hasattr(policy, "copy") else copy.deepcopy(policy)
    context_rng, reward_rng = (np.random.default_rng(s) for s in np.random.SeedSequence(seed).spawn(2))
    parts = []
    for start in range(0, rounds, CHUNK):
        n = min(CHUNK, rounds - start)
        # Whole chunks are drawn even at the end, so that a longer run begins like a shorter one.
        contexts = np.ascontiguousarray(environment.contexts(context_rng, CHUNK, start)[:n])
        means = np.ascontiguousarray(environment.means(contexts))
        outcomes = np.ascontiguousarray(environment.rewards(reward_rng, means))
        _refuse_extreme(outcomes)
        keys = np.arange(start, start + n, dtype=np.uint64) + np.uint64((seed % 2**32) << 32)
        played = _play(learner, contexts, outcomes, keys)
        seen = (played[name] for name in ("arms", "reported", "active"))
        parts.append(played | regret_series(means, environment.cone, *seen, resolution=smallest))
    joined = {name: np.concatenate([p[name] for p in parts]) for name in parts[0]}
    series = {name: joined.pop(name) for name in SERIES}
    return Run(policy=learner, series=series, change_points=tuple(environment.change_points), seed=seed, **joined)


def _refuse_extreme(outcomes: FloatArray) -> None:
    """Refuse rewards that no policy accepts: compiled loops do not check them. Nan is allowed."""
    extreme = np.abs(outcomes) > MAX_REWARD
    if extreme.any():
        value = outcomes[extreme][0]
        raise ValueError(
            f"environment must give rewards of at most {MAX_REWARD:g} in size; got {value:g}. "
            "Give them in other units, or nan for what is not known."
        )


def _play(policy: Any, contexts: FloatArray, outcomes: FloatArray, keys: NDArray[np.uint64]) -> dict[str, Any]:
    """One chunk of rounds, in a compiled loop if the policy has one."""
    run = policy.run_chunk if hasattr(policy, "run_chunk") else partial(step_by_step, policy)
    arms, propensities, active, reported = run(contexts, outcomes, keys)
    return {
        "contexts": contexts,
        "arms": arms,
        "rewards": outcomes[np.arange(len(arms)), arms],
        "propensities": propensities,
        "reported": reported,
        "active": active,
    }


def step_by_step(
    policy: Policy, contexts: FloatArray, outcomes: FloatArray, keys: NDArray[np.uint64]
) -> tuple[NDArray[np.int64], FloatArray, NDArray[np.bool_], NDArray[np.bool_]]:
    """The plain loop, for any policy; arguments and result as for :meth:`ConeTree.run_chunk`."""
    n, n_arms = outcomes.shape[:2]
    arms, propensities = np.empty(n, dtype=np.int64), np.empty(n)
    active, reported = np.zeros((n, n_arms), dtype=np.bool_), np.zeros((n, n_arms), dtype=np.bool_)
    for i, (context, key) in enumerate(zip(contexts, keys.tolist(), strict=True)):
        decision = policy.decide(context, key)
        _check_arms(policy, "decide", (decision.arm,), n_arms)
        arms[i], propensities[i] = decision.arm, decision.propensity
        active[i, list(decision.active)] = True
        front = policy.front(context).arms
        _check_arms(policy, "front", front, n_arms)
        reported[i, list(front)] = True
        policy.observe(context, decision.arm, outcomes[i, decision.arm])
    return arms, propensities, active, reported


def _check_arms(policy: Policy, method: str, arms: Sequence[int], n_arms: int) -> None:
    """A ``ValueError`` if somebody's own policy answers with no arm, or with one that does not exist."""
    try:
        if [as_arm(k, n_arms) for k in arms]:
            return
    except ValueError:
        pass
    raise ValueError(
        f"policy {type(policy).__name__} must answer {method} with arms from 0 to {n_arms - 1}, at least one; "
        f"got {tuple(arms)}. check_policy says what else is wrong with it."
    )


def simulate_many(
    policy: Policy,
    environment: Environment,
    horizon: int,
    seeds: Iterable[int],
    *,
    resolution: ArrayLike = 0.0,
    n_jobs: int = 1,
    threads: int = 1,
    progress: Progress = True,
) -> list[Run]:
    """One run for each seed, in several threads or processes if wanted; the result does not depend on how many.

    Kernels let go of Python's lock, so threads run at the same time as long as they are in compiled loops, which for
    our policies is most of the time. They begin at once and share the environment and the compiled code; processes take
    a second or more to start, and runs are sent back from them. A policy or an environment that spends its time in
    Python needs processes.

    Parameters
    ----------
    policy, environment, horizon
        As for :func:`simulate`.
    seeds
        Seeds of the runs.
    resolution
        As for :func:`simulate`.
    n_jobs
        Number of processes; -1 for one on each core.
    threads
        Number of threads in this process; -1 for one on each core. Not together with several processes.
    progress
        Whether to show a progress bar; or a function, called with a few words after each run.

    Examples
    --------
    >>> import conebandit as cb
    >>> env = cb.environments.smooth(n_arms=3, context_dim=1, change_point=50)
    >>> policy = cb.RandomArm(n_arms=3, cone=env.cone, context_dim=1)
    >>> runs = cb.simulate_many(policy, env, 200, seeds=range(3), threads=2, progress=False)
    >>> [run.seed for run in runs]
    [0, 1, 2]
    """
    if not isinstance(seeds, Iterable):
        raise TypeError(f"seeds must be a sequence of integers, such as range(3); got {seeds!r}.")
    wanted: Sequence[int] = list(seeds)
    _check(policy, environment, horizon)
    smallest = as_resolution(resolution, environment.n_objectives)
    jobs = _workers(n_jobs, threads)(
        delayed(simulate)(policy, environment, horizon, seed, resolution=smallest) for seed in wanted
    )
    runs = []
    with steps(progress, "simulating", len(wanted)) as step:
        for run in jobs:
            runs.append(run)
            step(f"seed {run.seed}")
    return runs


def _workers(n_jobs: int, threads: int) -> Any:
    """Who makes the runs: threads of this process, or else processes."""
    if threads == 1:
        return Parallel(n_jobs=n_jobs, return_as="generator")
    if not is_integer(threads) or not (threads > 0 or threads == -1):
        raise ValueError(f"threads must be a number of threads, or -1 for one on each core; got {threads!r}.")
    if n_jobs != 1:
        raise ValueError(f"give threads or n_jobs, not both; got threads = {threads} and n_jobs = {n_jobs}.")
    return Parallel(n_jobs=threads, backend="threading", return_as="generator")


def _check(policy: Policy, environment: Environment, horizon: int) -> int:
    rounds = as_count(horizon, "horizon")
    for name in ("n_arms", "n_objectives", "context_dim"):
        for role, thing in (("policy", policy), ("environment", environment)):
            if not hasattr(thing, name):
                raise TypeError(f"{role} must have {name}; got {thing!r}, which check_{role} says more about.")
        mine, theirs = getattr(policy, name), getattr(environment, name)
        if mine != theirs:
            raise ValueError(f"policy has {name} = {mine}, but the environment has {theirs}; they must agree.")
    return rounds


@dataclass(frozen=True)
class Replay:
    """What a policy did on randomised data.

    Attributes
    ----------
    policy
        The policy as it was at the end; the one handed to :func:`replay` is unchanged.
    rows
        Shape (kept,), numbers of the rows that counted, in the order in which they came.
    rewards
        Shape (kept, M), their rewards.

    Examples
    --------
    >>> import numpy as np, conebandit as cb
    >>> data = [[0.2], [0.6], [0.9]], [0, 1, 0], [[0.5], [0.7], [0.4]]
    >>> played = cb.replay(cb.RandomArm(n_arms=2, cone=cb.Cone.orthant(1), context_dim=1), *data)
    >>> played.rewards.shape == (len(played.rows), 1)
    True
    """

    policy: Policy
    rows: NDArray[np.intp]
    rewards: FloatArray


def replay(
    policy: Policy,
    contexts: ArrayLike,
    arms: ArrayLike,
    rewards: ArrayLike,
    *,
    propensities: ArrayLike | None = None,
    shuffle: bool = True,
    seed: int = 0,
) -> Replay:
    """Let a policy decide and learn on randomised data, where only the outcome of the arm that was given is known.

    Row by row the policy is asked. Where it names the arm that was given, the row counts and the policy learns from it;
    other rows are passed over as if they had not come (Li et al. 2011). Rewards that counted are distributed as if the
    policy had been in charge. That holds if arms were equally likely; with ``propensities`` rows of likelier arms are
    left out at random until they are. An arm that was never given in some contexts cannot be judged there.

    Parameters
    ----------
    policy
        It is copied; the copy learns.
    contexts, arms, rewards
        Shapes (n, d), (n,), (n, M): the data.
    propensities
        Shape (n,), with what probability each row got its arm; by default the same for all arms.
    shuffle
        Whether rows come in random order; otherwise as they stand.
    seed
        Of the order, of rows left out, and of the keys of decisions.

    Examples
    --------
    >>> import numpy as np, conebandit as cb
    >>> rng = np.random.default_rng(0)
    >>> x, arms = rng.random((400, 1)), rng.integers(2, size=400)
    >>> rewards = np.column_stack([arms + rng.random(400)])
    >>> policy = cb.ParetoUCB1(n_arms=2, cone=cb.Cone.orthant(1), context_dim=1)
    >>> played = cb.replay(policy, x, arms, rewards)
    >>> bool(played.rewards.mean() > rewards.mean())
    True
    """
    x, given, y, chances = _logged(policy, contexts, arms, rewards, propensities)
    learner = policy.copy() if hasattr(policy, "copy") else copy.deepcopy(policy)
    seed = as_integer(seed, "seed", least=0)
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(x)) if shuffle else np.arange(len(x))
    offered = order[rng.random(len(x)) * chances[order] < chances.min()]
    kept = []
    for row in offered.tolist():
        if learner.decide(x[row], key=row + (seed % 2**32 << 32)).arm == given[row]:
            learner.observe(x[row], int(given[row]), y[row])
            kept.append(row)
    rows = np.array(kept, dtype=np.intp)
    return Replay(learner, rows, y[rows])


def _logged(
    policy: Policy, contexts: ArrayLike, arms: ArrayLike, rewards: ArrayLike, propensities: ArrayLike | None
) -> tuple[FloatArray, NDArray[np.int64], FloatArray, FloatArray]:
    """Data to replay as arrays, checked."""
    x, y = as_floats(contexts, "contexts"), as_floats(rewards, "rewards")
    if np.ndim(arms) != 1:
        raise ValueError(f"arms must have shape (n,), one for each row; got shape {np.shape(arms)}.")
    given = np.array([as_arm(arm, policy.n_arms) for arm in np.asarray(arms).tolist()], dtype=np.int64)
    chances = np.ones(len(given)) if propensities is None else as_floats(propensities, "propensities")
    shapes = {"contexts": (len(given), policy.context_dim), "rewards": (len(given), policy.n_objectives)}
    for name, array in (("contexts", x), ("rewards", y), ("propensities", chances)):
        wanted = shapes.get(name, (len(given),))
        if array.shape != wanted or not len(given):
            raise ValueError(f"{name} must have shape {wanted}, a row for each of the arms; got {array.shape}.")
    if not ((chances > 0.0) & (chances <= 1.0)).all():
        raise ValueError("propensities must lie above 0 and be at most 1: an arm that was given had a chance.")
    return x, given, y, chances
