"""A log of decisions: what was known, what was done with which probability, and what came of it."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from conebandit.evaluation.table import as_experiment, read_table
from conebandit.experiment.declaration import Experiment
from conebandit.geometry.cone import Cone, as_cone
from conebandit.policies.base import Policy
from conebandit.policies.oracle import Oracle
from conebandit.policies.random_arm import RandomArm
from conebandit.simulate import Run
from conebandit.validate.arrays import FloatArray, as_floats

MAX_SIZE = 1e100  # of contexts and rewards; squares of larger ones, times weights, may overflow
MAX_UNNAMED = 10_000  # larger indices are taken for ids
MIN_CHANCE = 1e-12  # smaller probabilities are taken for 0: nothing can be learned from them
ROUNDING = 1e-6  # by which probabilities may miss what they must be: files often keep seven digits


@dataclass(frozen=True, eq=False, repr=False)
class Log:
    """Decisions that were made, in the order in which they were made.

    Parameters
    ----------
    contexts
        Shape (n, d), numbers in any units.
    arms
        Shape (n,), indices of the arms that were played.
    rewards
        Shape (n, M), in the units of the cone; nan where a metric is not known.
    propensities
        Shape (n,), the probabilities with which these arms were drawn: above 0, at most 1.
    cone
        The preference cone; its names are those of the metrics.
    probabilities
        Shape (n, K), those of all arms, if they are known. With them, missing support is seen for certain.
    arm_names
        Names of the K arms; by default ``"0"``, ``"1"``, ... up to the largest index or to the last column of
        ``probabilities``.
    adaptive
        Whether probabilities depend on earlier rewards, as those of a policy that learns do. By default: unless they
        depend on the arm alone.
    worst
        Shape (M,), of costs the values that count as reward 0, nan where that is not known. Only ``"replay"`` asks for
        it, where policies learn: it tells them rewards, as they were told when the log was made.
    units
        Shape (n,), numbers or texts: whom each decision is about, such as a patient. What is seen of one unit is not
        independent; errors are then those between units. By default every decision is about another one.
    experiment
        The declaration by which contexts were made of columns, if they were: a learner of another one sees others.

    Examples
    --------
    >>> import conebandit as cb
    >>> log = cb.Log(
    ...     contexts=[[0.1], [0.7], [0.4], [0.9]],
    ...     arms=[0, 1, 1, 0],
    ...     rewards=[[1.0, 0.2], [0.0, 0.9], [1.0, 0.8], [0.0, 0.1]],
    ...     propensities=[0.5, 0.5, 0.5, 0.5],
    ...     cone=cb.Cone.orthant(2, names=("sales", "comfort")),
    ...     arm_names=("old", "new"),
    ... )
    >>> len(log), log.metric_names, log.adaptive
    (4, ('sales', 'comfort'), False)
    """

    contexts: FloatArray
    arms: NDArray[np.int64]
    rewards: FloatArray
    propensities: FloatArray
    cone: Cone
    probabilities: FloatArray | None = None
    arm_names: tuple[str, ...] = ()
    adaptive: bool | None = None
    worst: FloatArray | None = None
    units: NDArray[np.int64] | None = None
    experiment: Experiment | None = None

    def __post_init__(self) -> None:
        n, n_objectives = len(as_floats(self.arms, "arms")), as_cone(self.cone).dim
        if not n:
            raise ValueError("arms must not be empty: a log needs at least one decision.")
        self._set("contexts", _known(_shaped(self.contexts, "contexts", (n, None))))
        self._set("rewards", _not_extreme(_shaped(self.rewards, "rewards", (n, n_objectives))))
        self._set("propensities", _shaped(self.propensities, "propensities", (n,)))
        if self.probabilities is not None:
            self._set("probabilities", _shaped(self.probabilities, "probabilities", (n, None)))
        self._set("arm_names", _names(self.arm_names, self.arms, self.probabilities))
        self._set("arms", _indices(self.arms, self.n_arms))
        self._check_chances()
        if not (self.adaptive is None or isinstance(self.adaptive, bool | np.bool_)):
            raise ValueError(f"adaptive must be True, False or None; got {self.adaptive!r}.")
        if self.adaptive is None:
            self._set("adaptive", not self._depend_on_the_arm_alone())
        if self.worst is not None:
            self._set("worst", _shaped(self.worst, "worst", (n_objectives,)))
        if self.units is not None:
            self._set("units", _numbered(self.units, n))

    @classmethod
    def from_run(cls, run: Run, *, policy: Policy | None = None, arm_names: Sequence[str] = ()) -> Log:
        """The log of a simulated run.

        Parameters
        ----------
        run
            From :func:`simulate`.
        policy
            The policy that was handed to :func:`simulate`. If it is given, a copy of it learns from the log once more,
            to find the probabilities of all arms; otherwise only those of the arms played are known.
        arm_names
            Names of the arms.

        Examples
        --------
        >>> import conebandit as cb
        >>> env = cb.environments.paper(n_arms=3, change_point=0)
        >>> policy = cb.ParetoUCB1(n_arms=3, cone=env.cone, context_dim=1, explore=0.3)
        >>> log = cb.Log.from_run(cb.simulate(policy, env, horizon=100), policy=policy)
        >>> log.probabilities.shape, log.adaptive, bool(log.probabilities.min() > 0.09)
        ((100, 3), True, True)
        """
        if not isinstance(run, Run):
            raise TypeError(f"run must be a Run, from conebandit.simulate; got {run!r}.")
        names = tuple(arm_names) or tuple(map(str, range(run.reported.shape[1])))
        log = cls(
            contexts=run.contexts,
            arms=run.arms,
            rewards=run.rewards,
            propensities=run.propensities,
            cone=_cone_of(run.policy),
            arm_names=names,
            adaptive=not isinstance(run.policy, RandomArm | Oracle),
        )
        return log if policy is None else replace(log, probabilities=_learned_again(policy, log))

    @classmethod
    def from_table(
        cls, table: Any, experiment: Experiment, *, arm: str | None = None, propensity: str | None = None
    ) -> Log:
        """The log in a table with a row for each decision, such as the service exports.

        Parameters
        ----------
        table
            Path of a CSV or Parquet file, a data frame, or a mapping from names to columns. Contexts and metrics have
            the names of the declaration, with ``context.`` and ``metric.`` before them or without; if there is a column
            ``choice_probabilities``, as the service writes it, the probabilities of all arms are known.
        experiment
            The declaration: it says what the columns mean. Rewards are as they were measured, and
            the cone is one of measured values: it minimises metrics with direction "min".
        arm, propensity
            Names of the columns with the arm that was served and its probability; by default those that are declared,
            or ``arm`` and ``propensity``.

        Examples
        --------
        >>> import conebandit as cb
        >>> experiment = cb.Experiment.from_dict({
        ...     "id": "checkout",
        ...     "arms": ["old", "new"],
        ...     "metrics": [{"name": "revenue"}, {"name": "latency", "direction": "min", "worst": 2000}],
        ...     "context": [{"name": "device", "levels": ["phone", "desk"]}],
        ... })
        >>> log = cb.Log.from_table({
        ...     "arm": ["old", "new"],
        ...     "propensity": [0.5, 0.5],
        ...     "device": ["desk", "phone"],
        ...     "revenue": [3.5, None],
        ...     "latency": [300, 800],
        ... }, experiment)
        >>> log.rewards.tolist(), log.metric_names, log.cone.minimise
        ([[3.5, 300.0], [nan, 800.0]], ('revenue', 'latency'), ('latency',))
        """
        columns = read_table(table, as_experiment(experiment), arm=arm, propensity=propensity)
        worst = np.array([np.nan if metric.worst is None else metric.worst for metric in experiment.metrics])
        return cls(**columns, worst=worst, experiment=experiment)

    def __len__(self) -> int:
        return len(self.arms)

    def __repr__(self) -> str:
        known = "all" if self.probabilities is not None else "those of the arms played"
        return (
            f"Log({len(self)} rows, arms {', '.join(self.arm_names)}, metrics {', '.join(self.metric_names)}, "
            f"probabilities: {known}, {'' if self.adaptive else 'not '}adaptive)"
        )

    @property
    def n_arms(self) -> int:
        """Number of arms, K."""
        return len(self.arm_names)

    @property
    def metric_names(self) -> tuple[str, ...]:
        """Names of the M metrics."""
        return self.cone.names or tuple(f"metric {m}" for m in range(self.cone.dim))

    def rewards_for(self, policy: Any) -> FloatArray:
        """Rewards (n, M) as a policy learns them: costs are turned around unless the policy minimises them itself.

        The reward of a cost is what is left to its worst value, at least 0, as in an experiment; without a worst value
        it is minus the cost. A policy without a cone is taken to want more of everything.

        Examples
        --------
        >>> import conebandit as cb
        >>> cone = cb.Cone.orthant(1, names=["latency"], minimise=["latency"])
        >>> log = cb.Log([[0.1], [0.7]], [0, 1], [[300.0], [800.0]], [0.5, 0.5], cone, worst=[2000.0])
        >>> log.rewards_for(cb.default_policy(n_arms=2, cone=cb.Cone.orthant(1), context_dim=1)).tolist()
        [[1700.0], [1200.0]]
        """
        turned = self.cone.costs != (policy.cone.costs if hasattr(policy, "cone") else False)
        worst = np.full(self.cone.dim, np.nan) if self.worst is None else self.worst
        left = np.where(np.isnan(worst), -self.rewards, np.maximum(worst - self.rewards, 0.0))
        return np.where(turned, left, self.rewards)

    def take(self, rows: Any) -> Log:
        """The log of some of the decisions.

        Parameters
        ----------
        rows
            Anything that picks rows of an array: a slice, a mask, indices. The order must stay that of the decisions.

        Examples
        --------
        >>> import conebandit as cb
        >>> log = cb.Log([[0.1], [0.7]], [0, 1], [[1.0], [0.0]], [0.5, 0.5], cb.Cone.orthant(1))
        >>> len(log.take(slice(1, None)))
        1
        """
        every = {name: getattr(self, name)[rows] for name in ("contexts", "arms", "rewards", "propensities")}
        chances = None if self.probabilities is None else self.probabilities[rows]
        units = None if self.units is None else self.units[rows]
        return replace(self, **every, probabilities=chances, units=units)

    def _set(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, value)

    def _check_chances(self) -> None:
        """Propensities from ``MIN_CHANCE`` to 1; probabilities that add up to 1 and agree with the propensities."""
        bad = ~((self.propensities >= MIN_CHANCE) & (self.propensities <= 1.0 + ROUNDING))
        if bad.any():
            row = int(bad.argmax())
            raise ValueError(
                f"propensities must lie from {MIN_CHANCE:g} to 1; that of row {row} is {self.propensities[row]}. An "
                "arm that was played had a positive probability: log that of the draw, not an estimate of it."
            )
        if self.probabilities is None:
            return
        require_probabilities(self.probabilities, "probabilities")
        played = self.probabilities[np.arange(len(self)), self.arms]
        wrong = np.abs(played - self.propensities) > ROUNDING
        if wrong.any():
            row = int(wrong.argmax())
            raise ValueError(
                f"propensities must be the probabilities of the arms played; in row {row} they are "
                f"{self.propensities[row]} and {played[row]}."
            )

    def _depend_on_the_arm_alone(self) -> bool:
        """Whether each arm has the same propensity in all rows."""
        spread = [float(np.ptp(self.propensities[self.arms == arm])) for arm in np.unique(self.arms)]
        return max(spread) <= ROUNDING


def require_probabilities(rows: FloatArray, name: str) -> None:
    """A ``ValueError`` unless each row is at least 0 and adds up to 1."""
    with np.errstate(invalid="ignore"):
        bad = ~((rows >= 0.0).all(axis=1) & (np.abs(rows.sum(axis=1) - 1.0) <= ROUNDING))
    if bad.any():
        row = int(bad.argmax())
        raise ValueError(f"{name} must be at least 0 and add up to 1; row {row} is {rows[row].tolist()}.")


def _shaped(values: ArrayLike, name: str, shape: tuple[int | None, ...]) -> FloatArray:
    """An array of this shape; None stands for any number above 0."""
    array = as_floats(values, name)
    fits = array.ndim == len(shape) and all(
        size == want or (want is None and size > 0) for size, want in zip(array.shape, shape, strict=True)
    )
    if not fits:
        wanted = ", ".join("any" if want is None else str(want) for want in shape)
        raise ValueError(f"{name} must have shape ({wanted}), a row for each decision; got shape {array.shape}.")
    return array


def _known(contexts: FloatArray) -> FloatArray:
    bad = ~(np.abs(contexts) <= MAX_SIZE).all(axis=1)
    if bad.any():
        row = int(bad.argmax())
        raise ValueError(
            f"contexts must be numbers of at most {MAX_SIZE:g} in size; row {row} is {contexts[row].tolist()}. Leave "
            "such rows out, or fill in a value."
        )
    return contexts


def _not_extreme(rewards: FloatArray) -> FloatArray:
    sizes = np.abs(np.nan_to_num(rewards, nan=0.0, posinf=np.inf, neginf=np.inf))
    if sizes.max() > MAX_SIZE:
        worst = rewards.flat[sizes.argmax()]
        raise ValueError(f"rewards must be at most {MAX_SIZE:g} in size, or nan for what is not known; got {worst}.")
    largest = sizes.max(axis=0)
    tiny = (largest > 0.0) & (largest < 1.0 / MAX_SIZE)
    if tiny.any():
        raise ValueError(
            f"rewards must be above {1.0 / MAX_SIZE:g} in size, so that squares are not lost; the largest of a metric "
            f"is {largest[tiny][0]}. Give them in other units."
        )
    return rewards


def _numbered(units: ArrayLike, n: int) -> NDArray[np.int64]:
    """Units as numbers from 0 on; a ``ValueError`` if there are too few for an error to be known."""
    labels = np.asarray(units)
    if labels.dtype.kind == "O" and all(isinstance(label, str) for label in labels.flat):
        labels = labels.astype(str)  # as columns of pandas are
    if labels.shape != (n,):
        raise ValueError(f"units must be {n} numbers or texts, one for each decision; got shape {labels.shape}.")
    if labels.dtype.kind not in "iufU" or (labels.dtype.kind == "f" and np.isnan(labels).any()):
        raise ValueError(
            "units must be numbers or texts, and none may be missing: give each decision of an unknown unit a unit of "
            "its own, or leave it out."
        )
    found, numbers = np.unique(labels, return_inverse=True)
    if len(found) < 2:
        raise ValueError("units must be at least two different ones: what is seen of one says nothing about errors.")
    return numbers.astype(np.int64)


def _names(given: Sequence[str], arms: ArrayLike, probabilities: FloatArray | None) -> tuple[str, ...]:
    """Names of all arms, by default the numbers up to the largest index or to the last column of ``probabilities``."""
    columns = None if probabilities is None else probabilities.shape[1]
    if not given:
        numbers = as_floats(arms, "arms")
        highest = int(np.max(numbers[np.isfinite(numbers)], initial=0.0))
        if columns is None and highest >= MAX_UNNAMED:
            raise ValueError(
                f"arms must be indices from 0 on; got {highest}. With {MAX_UNNAMED:,} arms or more give arm_names."
            )
        return tuple(map(str, range(highest + 1 if columns is None else columns)))
    names = tuple(given)
    if isinstance(given, str) or not all(isinstance(name, str) for name in names):
        raise TypeError(f"arm_names must be a sequence of strings, one for each arm; got {given!r}.")
    if len(set(names)) < len(names):
        raise ValueError(f"arm_names must be different from each other; got {names}.")
    if columns is not None and columns != len(names):
        raise ValueError(f"probabilities must have {len(names)} columns, one for each arm; got {columns}.")
    return names


def _indices(arms: ArrayLike, n_arms: int) -> NDArray[np.int64]:
    numbers = as_floats(arms, "arms")
    good = (numbers == np.floor(numbers)) & (numbers >= 0) & (numbers < n_arms)
    if numbers.ndim != 1 or not good.all():
        found = numbers.shape if numbers.ndim != 1 else numbers[~good][0]
        raise ValueError(f"arms must be integers from 0 to {n_arms - 1}, one for each decision; got {found}.")
    return numbers.astype(np.int64)


def _cone_of(policy: Any) -> Cone:
    if not hasattr(policy, "cone"):
        raise TypeError(
            f"run must be that of a policy with a cone; {policy!r} has none. Make the log from the arrays of the run: "
            "Log(run.contexts, run.arms, run.rewards, run.propensities, cone)."
        )
    return as_cone(policy.cone)


def _learned_again(policy: Any, log: Log) -> FloatArray:
    """Probabilities (n, K) of all arms, by letting a copy of the policy decide and learn as it did."""
    learner = policy.copy() if hasattr(policy, "copy") else copy.deepcopy(policy)
    chances = np.empty((len(log), log.n_arms))
    for i, (context, arm, reward) in enumerate(zip(log.contexts, log.arms.tolist(), log.rewards, strict=True)):
        decision = learner.decide(context, key=0)  # probabilities are those over all keys
        if decision.probabilities is None or decision.probabilities[arm] != log.propensities[i]:
            raise ValueError(
                "policy must be the one that was handed to simulate, as it was then, and give probabilities; at row "
                f"{i} {policy!r} does not give arm {arm} the propensity {log.propensities[i]} of the run."
            )
        chances[i] = decision.probabilities
        learner.observe(context, arm, reward)
    return chances
