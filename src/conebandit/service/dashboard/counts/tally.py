"""What views are told of a whole log: numbers over time, what is still missing, and a sample of the decisions.

A :class:`Tally` never changes: whoever has one may compute with it in any thread.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from conebandit.service.log.entries import Entry

HOUR, DAY = 3_600_000, 86_400_000  # milliseconds
MAX_SAMPLE = 5000  # decisions in a sample of the whole log
MAX_RECENT = 1000  # of the latest ones


class Standing(NamedTuple):
    """How many decisions stand how with one metric, without those that are void or erased.

    As in the column ``status`` of an export, but for ``reported``, which has clipped values too, and ``withdrawn``.

    Attributes
    ----------
    reported
        A value counts.
    default
        Nothing came in time, so the default counts.
    open
        Nothing has come, and something still may.
    missing
        Nothing came in time, and there is no default.
    late
        Something came too late to count.
    held
        A value is on hold, and there is no other.
    withdrawn
        The value was retracted, or rejected when it was on hold.
    late_default
        Of those that are late: the default counts for them, since nothing can come in time any more.

    Examples
    --------
    >>> standing = Standing(reported=6, default=1, open=2, held=1)
    >>> standing.total, standing.lacking, standing.share_lacking
    (10, 3, 0.3)
    """

    reported: int = 0
    default: int = 0
    open: int = 0
    missing: int = 0
    late: int = 0
    held: int = 0
    withdrawn: int = 0
    late_default: int = 0

    @property
    def by_status(self) -> tuple[int, ...]:
        """The numbers that add up to all decisions."""
        return self[:-1]

    @property
    def total(self) -> int:
        """All decisions that are not void or erased."""
        return sum(self.by_status)

    @property
    def lacking(self) -> int:
        """Those of which neither a value nor a default counts."""
        return self.total - self.reported - self.default - self.late_default

    @property
    def share_lacking(self) -> float | None:
        """Their share; None if there are no decisions."""
        return self.lacking / self.total if self.total else None


@dataclass(frozen=True)
class Periods:
    """Numbers by hour or by day, in UTC; only those in which there was something.

    Attributes
    ----------
    length
        Of a period, in milliseconds: ``HOUR`` or ``DAY``.
    starts
        When each begins, in milliseconds since 1970, in order.
    decisions
        By period; those that are void or erased by now as well, here and below: they were made.
    by_arm
        The same for each arm that was served, in the order of ``Tally.arms``.
    outcomes
        For each metric, how many values came in by period: first ones, corrections and values to be held, of whatever
        has not been erased.
    """

    length: int
    starts: NDArray[np.int64]
    decisions: NDArray[np.int64]
    by_arm: Mapping[str, NDArray[np.int64]]
    outcomes: Mapping[str, NDArray[np.int64]]


@dataclass(frozen=True)
class Sample:
    """Some decisions in the order of the log, without those that are void or erased.

    Attributes
    ----------
    seq
        Their positions in the log.
    at
        When they were made, in milliseconds since 1970.
    x
        Their contexts as the policy sees them, corrected ones as corrected: a row for each.
    arm
        What was served, as a number: the place of its name in ``Tally.arms``.
    propensity
        How likely that was.
    visit
        Which decision of its unit each is, from 1; always 1 in experiments without units.
    """

    seq: NDArray[np.int64]
    at: NDArray[np.int64]
    x: NDArray[np.float64]
    arm: NDArray[np.int64]
    propensity: NDArray[np.float64]
    visit: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.seq)

    def __getitem__(self, which: slice | NDArray[np.bool_] | NDArray[np.int64]) -> Sample:
        """Some of them."""
        return Sample(*(getattr(self, field.name)[which] for field in fields(self)))


@dataclass(frozen=True)
class Tally:
    """What the log of an experiment adds up to, as far as it has been read.

    Attributes
    ----------
    experiment
        Its id.
    seen, events
        How many events have been read, and how many there are.
    problem
        Why no more can be read; empty if it can.
    began, at
        Times of the first event and of the last one that was read, in milliseconds since 1970; None before.
    arms
        Every arm that there was, in the order in which they came.
    decisions
        How many were made, by arm; those that are void or erased as well. Arms that were never served have 0.
    days, hours
        Numbers over time; ``hours`` is None once an experiment is older than three days.
    standing
        For each metric in the order of the declaration, how many decisions have a value, lack it, and why.
    void, erased
        How many decisions are void now, and how many are of units that are erased.
    corrections, retractions, voids, late
        How often a value that was known was replaced by another, values were retracted, a decision was declared void,
        and a value came too late to count. Of what has not been erased.
    on_hold
        How many values wait for somebody to look at them; not those of void decisions.
    orders
        What people and rules did, in order, with their times: stages, modes, arms, declarations, stops, lifted rules
        and repairs of the clock.
    sample
        A uniform sample of all decisions that were read: the ``MAX_SAMPLE`` with the smallest hash of their position.
        It is the same whenever somebody looks, and grows only by what is new.
    recent
        The latest ``MAX_RECENT``.
    """

    experiment: str
    seen: int
    events: int
    problem: str
    began: int | None
    at: int | None
    arms: tuple[str, ...]
    decisions: Mapping[str, int]
    days: Periods
    hours: Periods | None
    standing: Mapping[str, Standing]
    void: int
    erased: int
    corrections: int
    retractions: int
    voids: int
    late: int
    on_hold: int
    orders: tuple[Entry, ...]
    sample: Sample
    recent: Sample

    @property
    def share_read(self) -> float:
        """How much of the log has been read, from 0 to 1."""
        return self.seen / self.events if self.events else 1.0

    @property
    def complete(self) -> bool:
        """Whether all of it has been."""
        return self.seen >= self.events

    @property
    def traffic(self) -> Periods:
        """By hour while the experiment is young, by day later."""
        return self.days if self.hours is None else self.hours

    @property
    def n_decisions(self) -> int:
        """How many decisions were made."""
        return sum(self.decisions.values())
