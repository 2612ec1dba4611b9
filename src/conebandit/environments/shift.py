"""How the law of contexts changes: schedules that say which distribution is in force when, and the distributions.

Examples
--------
>>> import numpy as np
>>> from conebandit.environments import shift
>>> source, target = shift.power_law(3), shift.uniform()
>>> round(float(source.mass([0.5], [1.0])), 4)      # 1 - 0.5^4
0.9375
>>> schedule = shift.change_point(source, target, at=1000)
>>> schedule.sample(np.random.default_rng(0), 3, start=999).shape
(3, 1)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from conebandit.environments.distributions import (
    Distribution,
    Empirical,
    Mixture,
    as_labels,
    beta,
    empirical,
    exponential,
    mixture,
    power_law,
    product,
    sample_parts,
    truncated_normal,
    uniform,
)
from conebandit.validate.arguments import as_count, as_increasing, as_integer
from conebandit.validate.arrays import FloatArray

__all__ = [
    "Distribution",
    "Empirical",
    "Mixture",
    "Schedule",
    "beta",
    "by_column",
    "by_group",
    "change_point",
    "empirical",
    "exponential",
    "gradual",
    "mixture",
    "power_law",
    "product",
    "recurring",
    "shifts",
    "stationary",
    "truncated_normal",
    "uniform",
]


@dataclass(frozen=True)
class Schedule:
    """Which distribution contexts come from, round by round. Rounds count from 0.

    Attributes
    ----------
    parts
        The distributions.
    weights
        Function from round numbers (n,) to the probability of each part, (n, parts).
    change_points
        Number of rounds after which the law changes for good; the last one is where the target phase begins.
    """

    parts: tuple[Distribution, ...]
    weights: Callable[[NDArray[np.int64]], FloatArray]
    change_points: tuple[int, ...] = field(default=())

    @property
    def context_dim(self) -> int:
        """Number of coordinates, d."""
        return self.parts[0].context_dim

    @property
    def bounds(self) -> FloatArray:
        """Smallest box around all contexts."""
        return mixture(self.parts).bounds

    def sample(self, rng: np.random.Generator, n: int, start: int = 0) -> FloatArray:
        """Contexts of rounds start, ..., start + n - 1, shape (n, d)."""
        if len(self.parts) == 1:
            return self.parts[0].sample(rng, n)
        cumulated = np.cumsum(self.weights(np.arange(start, start + n)), axis=1)[:, :-1]
        which = (rng.random(n)[:, None] >= cumulated).sum(axis=1)
        return sample_parts(self.parts, which, rng)

    def mixture(self, until: int) -> Mixture:
        """Law of a context picked at random among the first ``until`` rounds: the effective source."""
        rounds = np.arange(as_count(until, "until"))
        return mixture(self.parts, self.weights(rounds).mean(axis=0))


def stationary(law: Distribution) -> Schedule:
    """Always the same law: no shift.

    Examples
    --------
    >>> stationary(uniform(2)).change_points
    ()
    """
    return Schedule((law,), lambda t: np.ones((len(t), 1)))


def change_point(source: Distribution, target: Distribution, at: int) -> Schedule:
    """The paper's shift: ``at`` rounds from the source, then the target.

    Examples
    --------
    >>> change_point(power_law(1), uniform(), at=2000).change_points
    (2000,)
    """
    return shifts([source, target], at=[at])


def shifts(laws: Sequence[Distribution], at: Sequence[int]) -> Schedule:
    """P1 -> ... -> Pn -> Q: law i is in force until ``at[i]`` rounds have passed.

    Examples
    --------
    >>> shifts([beta(2, 5), beta(5, 2), uniform()], at=[1000, 3000]).change_points
    (1000, 3000)
    """
    points = as_increasing(at, "at", least=0)
    if len(laws) != len(points) + 1:
        raise ValueError(f"at must have one entry less than laws, of which there are {len(laws)}; got {list(at)}.")
    eye = np.eye(len(laws))
    return Schedule(
        _of_one_dim(laws), lambda t: eye[np.searchsorted(points, t, side="right")], tuple(p for p in points if p > 0)
    )


def gradual(source: Distribution, target: Distribution, start: int, stop: int) -> Schedule:
    """From source to target, the target's share growing evenly from round ``start`` to round ``stop``.

    Examples
    --------
    >>> gradual(beta(2, 5), uniform(), start=1000, stop=3000).weights(np.array([500, 2000, 4000]))
    array([[1. , 0. ],
           [0.5, 0.5],
           [0. , 1. ]])
    """
    first, last = as_integer(start, "start"), as_integer(stop, "stop")
    if not 0 <= first < last:
        raise ValueError(f"start and stop must satisfy 0 <= start < stop; got {start!r} and {stop!r}.")

    def weights(t: NDArray[np.int64]) -> FloatArray:
        share = np.clip((t - first) / (last - first), 0.0, 1.0)
        return np.column_stack([1.0 - share, share])

    return Schedule(_of_one_dim([source, target]), weights, (last,))


def recurring(laws: Sequence[Distribution], period: int) -> Schedule:
    """Each law in turn for ``period`` rounds, then from the first again.

    Examples
    --------
    >>> recurring([beta(2, 5), beta(5, 2)], period=1000).weights(np.array([0, 1000, 2000]))[:, 0]
    array([1., 0., 1.])
    """
    length = as_count(period, "period")
    eye = np.eye(len(laws))
    return Schedule(_of_one_dim(laws), lambda t: eye[(t // length) % len(laws)])


def by_group(
    contexts: ArrayLike, groups: ArrayLike, at: Sequence[int], *, phases: Sequence[Any] | None = None
) -> Schedule:
    """Rows of a table, group after group: site to site.

    Parameters
    ----------
    contexts
        Shape (n, d).
    groups
        Shape (n,), a label for each row.
    at
        The rounds at which each phase but the first begins.
    phases
        Which groups come, one after the other: labels, or lists of labels. By default each in turn, in sorted order.

    Examples
    --------
    >>> schedule = by_group([[0.1], [0.2], [0.8], [0.9]], ["b", "b", "a", "a"], at=[100], phases=["b", "a"])
    >>> bool((schedule.sample(np.random.default_rng(0), 100) < 0.5).all())
    True
    """
    table = empirical(contexts).rows
    labels, which = as_labels(groups, "groups", len(table))
    wanted = [[label] for label in labels.tolist()] if phases is None else [_as_list(phase) for phase in phases]
    for phase in wanted:
        if not phase or not set(phase) <= set(labels.tolist()):
            raise ValueError(f"phases must name groups of rows, which are {labels.tolist()}; got {phase}.")
    return _one_after_the_other(table, [np.isin(labels[which], phase) for phase in wanted], at)


def by_column(contexts: ArrayLike, column: int, at: Sequence[int]) -> Schedule:
    """Rows of a table, those with the smallest values of a column first: the young first.

    Parts are of equal size, one more than there are entries of ``at``; ties are broken by the order of the rows.

    Examples
    --------
    >>> schedule = by_column([[70.0], [20.0], [30.0], [60.0]], 0, at=[100])
    >>> sorted(set(schedule.sample(np.random.default_rng(0), 100)[:, 0].tolist()))
    [20.0, 30.0]
    """
    table = empirical(contexts).rows
    place = as_integer(column, "column", least=0, most=table.shape[1] - 1)
    order = np.argsort(table[:, place], kind="stable")
    parts = [part for part in np.array_split(order, len(at) + 1) if len(part)]
    return _one_after_the_other(table, parts, at)


def _one_after_the_other(table: FloatArray, parts: Sequence[NDArray[Any]], at: Sequence[int]) -> Schedule:
    """A phase for each selection of rows, on the box of the whole table."""
    bounds = empirical(table).bounds
    return shifts([empirical(table[rows], bounds) for rows in parts], at)


def _as_list(phase: Any) -> list[Any]:
    """The labels of a phase; a single label stands for itself."""
    return list(phase) if isinstance(phase, Sequence | np.ndarray) and not isinstance(phase, str | bytes) else [phase]


def _of_one_dim(laws: Sequence[Distribution]) -> tuple[Distribution, ...]:
    dims = [law.context_dim for law in laws]
    if len(set(dims)) != 1:
        raise ValueError(f"all laws must have the same dimension; got {dims}.")
    return tuple(laws)
