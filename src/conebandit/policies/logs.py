"""Policies that learn from whole logs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from conebandit.formats.rows import LogColumns, LogRows, read_log
from conebandit.policies.common import LearningPolicy
from conebandit.policies.merging import require_alike
from conebandit.validate.arguments import MAX_REWARD, as_arm, refuse_extreme
from conebandit.validate.arrays import FloatArray

Learning = TypeVar("Learning", bound="LogPolicy")


class LogPolicy(LearningPolicy, ABC):
    """A policy with a state that learns from whole logs, and can be merged if it has ``_merged``.

    ``_observe_rows`` is its compiled loop over rows; see :class:`~conebandit.policies.compiled.CompiledPolicy`.
    """

    _state: Any
    _observe_rows: ClassVar[Any]
    _why_not_merged: ClassVar[str] = "it does not say how"

    @property
    def n_observations(self) -> int:
        """How many observations the policy has learned from."""
        return int(self._state.size[0])

    def learn(
        self, log: Any, *, contexts: Sequence[str] | None = None, arm: str = "arm", rewards: Sequence[str] | None = None
    ) -> Self:
        """Learn from a log of any size: from all rows, in their order, or, if one does not fit, from none.

        Bit for bit what :meth:`observe` does row by row, many times faster. Files are read a part at a time, so that
        they may be larger than memory; whether the policy itself is of bounded size, ``docs/large-logs.md`` says.

        Parameters
        ----------
        log
            Parquet files: one, a folder of them, a pattern such as ``"log/*.parquet"``, or a list of any of these;
            those of a folder or pattern are read in the order of their paths. Or a data frame (pandas, polars, Arrow),
            or a dict of columns. Or arrays, ``(contexts, arms, rewards)`` of shapes (n, d), (n,), (n, M), or any object
            with these attributes, such as a :class:`Run`; or a :class:`Log`, whose costs become rewards unless the cone
            of the policy minimises them as well.
        contexts
            Names of the d columns that make up the context, in the order of its coordinates; by default those that
            begin with ``context.``, as the service exports them.
        arm
            Name of the column that says which arm was played: integers from 0 on.
        rewards
            Names of the M columns of rewards, in the order of the cone; by default those that begin with ``metric.``.
            More is better; null or nan where one is not known.

        Returns
        -------
        The policy itself.

        Raises
        ------
        ValueError, TypeError
            If a column is missing or holds something else, or a row does not fit, by file and number of the row. The
            policy is then as it was.

        Examples
        --------
        >>> import numpy as np, conebandit as cb
        >>> rng = np.random.default_rng(0)
        >>> log = {"age": rng.random(1000), "arm": rng.integers(0, 2, 1000)}
        >>> log["sales"] = (log["age"] > 0.5) == log["arm"]
        >>> policy = cb.default_policy(n_arms=2, cone=cb.Cone.orthant(1), context_dim=1)
        >>> policy.learn(log, contexts=["age"], rewards=["sales"]).n_observations
        1000
        >>> policy.front([0.9]).arms
        (1,)
        """
        columns = LogColumns(contexts, arm, rewards, self.context_dim, self.n_objectives)
        if hasattr(log, "rewards_for") and log.cone.dim == self.n_objectives:
            log = log.contexts, log.arms, log.rewards_for(self)
        vars(self).update(vars(learned_from(self, read_log(log, columns))))
        return self

    def _checked_rows(self, rows: LogRows) -> tuple[FloatArray, NDArray[np.int64], FloatArray]:
        """Rows in the form that kernels take; a ``ValueError`` names the first that does not fit."""
        x = self.box.scaled_rows(rows.contexts)
        good = ((x >= 0.0) & (x <= 1.0)).all(axis=1)
        good &= (rows.arms >= 0) & (rows.arms < self.n_arms)
        good &= ~(np.abs(rows.rewards) > MAX_REWARD).any(axis=1)  # nan is allowed
        if not good.all():
            self._refuse(rows, int(np.argmin(good)))
        return _for_kernels(x, np.float64), _for_kernels(rows.arms, np.int64), _for_kernels(rows.rewards, np.float64)

    def _refuse(self, rows: LogRows, i: int) -> None:
        """Say what is wrong with row ``i``."""
        try:
            self.box.point(rows.contexts[i])
            as_arm(int(rows.arms[i]), self.n_arms)
            refuse_extreme(rows.rewards[i])
        except ValueError as error:
            raise ValueError(f"{rows.origin}row {rows.first + i}: {error}") from None

    def merge(self, other: Self, *, since: Self | None = None) -> Self:
        """Add what another policy of the same kind has learned, from other rows: another site, region or shard.

        What is then equal to a policy that learned from all rows, and what is not, depends on the family:
        ``docs/large-logs.md`` has a table.

        Parameters
        ----------
        other
            Of the same kind with the same arguments, but for the seed. It stays as it is.
        since
            A copy of the policy that both were before they went on apart, if they had a common past; what they knew
            then counts once. :class:`ConeKernel` needs it once it has made its last fit.

        Returns
        -------
        The policy itself.

        Raises
        ------
        ValueError
            If the two differ in more than what they learned: it says in what. The policy is then as it was.
        TypeError
            If ``other`` is of another kind, or policies of this kind cannot be merged: it says why.

        Examples
        --------
        >>> import conebandit as cb
        >>> north, south = (cb.ParetoUCB1(n_arms=2, cone=cb.Cone.orthant(1), context_dim=1) for _ in range(2))
        >>> north.observe([0.5], 0, [1.0])
        >>> south.observe([0.5], 1, [0.4])
        >>> north.merge(south).n_observations
        2
        """
        require_alike(self, other, "other")
        start = self.clone()
        if since is not None:
            require_alike(self, since, "since")
            start = since
        merged = self._merged(other, start)
        if other.n_observations > start.n_observations:  # else this policy is to stay as it is, to the last bit
            vars(self).update(vars(merged))
        return self

    @property
    def _needs_a_start(self) -> bool:
        """Whether it has to learn more before copies of it can go on apart and be merged."""
        return False

    def _merged(self, other: Self, start: Self, /) -> Self:
        """A policy that has learned what this one and another have, from ``start`` on, which both were once."""
        raise TypeError(
            f"a {type(self).__name__} cannot be merged: {self._why_not_merged}. Learn from all rows in one place "
            "instead: its method learn takes many files."
        )

    def _learn_rows(self, x: FloatArray, arms: NDArray[np.int64], rewards: FloatArray) -> None:
        """Learn from rows, in their order, at points of the unit cube; nothing is checked."""
        done = 0
        while done < len(arms):
            self._make_room(len(arms) - done)
            done = self._observe_rows(self._state, done, x, arms, rewards)
            self._settle()

    @abstractmethod
    def copy(self) -> Self:
        """An independent policy in the same state."""

    @abstractmethod
    def _make_room(self, observations: int) -> None:
        """Let the growing arrays hold this many more observations; of other rows, what the next one may add."""

    def _settle(self) -> None:
        """What is due from time to time after an observation; loops must return before a row that needs it."""


def learned_from(policy: Learning, parts: Iterable[LogRows]) -> Learning:
    """A copy of a policy that has learned from all parts of a log; a ``ValueError`` names the first bad row."""
    learned = policy.copy()
    for rows in parts:
        learned._learn_rows(*learned._checked_rows(rows))
    return learned


def needs_a_start(policy: LogPolicy) -> bool:
    """Whether a policy has to learn more before copies of it can go on apart and be merged."""
    return policy._needs_a_start


def _for_kernels(array: NDArray[Any], dtype: type) -> NDArray[Any]:
    """An array as kernels take it: for every combination of types they would be compiled anew."""
    return np.require(array, dtype, ("C_CONTIGUOUS", "WRITEABLE"))
