"""Has the population changed? A :class:`ShiftMonitor` over the contexts in the log."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import groupby
from typing import Self

import numpy as np

from conebandit.diagnose.monitor import ShiftMonitor
from conebandit.experiment.columns import Categorical
from conebandit.experiment.declaration import Experiment, ShiftBlock
from conebandit.service.export import declared, pages
from conebandit.service.log.entries import read, read_as
from conebandit.service.log.events import ContextCorrected, Decided, Voided
from conebandit.service.log.replay import erased_units
from conebandit.service.log.times import as_text
from conebandit.service.replies import RecentShift, ShiftAlarm, ShiftReport
from conebandit.service.stores.base import Store
from conebandit.service.stores.records import BEGINNING, Head, Record
from conebandit.service.stores.session import Session

DAY = 86_400_000  # milliseconds
AMENDED = (Voided.kind, ContextCorrected.kind)  # events after which a context is not what it was
MAX_AMENDED = 2**62  # all of them
# Length of a period, when one began (1970 began on a Thursday), and periods of the reference.
PERIODS: dict[ShiftBlock, tuple[int, int, int]] = {"day": (DAY, 0, 15), "week": (7 * DAY, 4 * DAY, 7)}
MAX_TIMES = 4096  # of contexts that are kept; when there are more, every second one goes
REHEARSED, REHEARSED_BLOCK = 1000, 16  # contexts, and at most so many of them in a block


class _Times:
    """When contexts came: all times of a short log, of a long one those of every second, fourth, ... context.

    Examples
    --------
    >>> times = _Times()
    >>> for at in range(5000):
    ...     times.add(at)
    >>> times.of(17), times.of(4999), times.of(10_000)
    (16, 4998, 4998)
    """

    def __init__(self) -> None:
        self._kept: list[int] = []
        self._step, self._n = 1, 0

    def add(self, at: int) -> None:
        """The time of the next context."""
        if self._n % self._step == 0:
            self._kept.append(at)
        self._n += 1
        if len(self._kept) > MAX_TIMES:
            del self._kept[1::2]
            self._step *= 2

    def of(self, number: int) -> int | None:
        """When the context of this number came, from 0, or one shortly before it; None if there was none."""
        return self._kept[min(number // self._step, len(self._kept) - 1)] if self._kept else None


@dataclass
class _Watched:
    """A monitor, what it watches, and up to where in the log it has seen the contexts."""

    monitor: ShiftMonitor
    names: list[str]  # of the coordinates
    block: ShiftBlock
    amended: dict[str, tuple[float, ...] | None]  # contexts by decision; None for those that are void
    seen: Head = BEGINNING
    period: int = -1  # day or week of the last context
    erased: frozenset[str] = frozenset()  # units whose contexts were not seen
    times: _Times = field(default_factory=_Times)

    @classmethod
    def begin(cls, experiment: Experiment, amended: dict[str, tuple[float, ...] | None] | None = None) -> Self:
        """Nothing seen yet."""
        monitor = _monitor(experiment.shift_block, experiment.context_dim, experiment.seed)
        return cls(monitor, _coordinates(experiment), experiment.shift_block, amended or {})

    def see(self, page: list[Record]) -> None:
        """See the contexts of some events; what was seen is noted with them, so that none is seen twice."""
        decided = [read_as(Decided, record) for record in page if record.kind == Decided.kind]
        counted = (event for event in decided if self._counts(event))
        for period, group in groupby(counted, key=self._period):
            events = list(group)
            if self.period not in (-1, period):
                self.monitor.end_block()
            self.monitor.update_many(np.array([self.amended.get(event.id, event.x) for event in events]))
            for event in events:
                self.times.add(event.at)
            self.period = period
        self.seen = page[-1].head

    def _counts(self, event: Decided) -> bool:
        """Whether the context is to be seen: not of what is void or erased, and that of a unit only once."""
        visit = event.visit
        if self.amended.get(event.id, event.x) is None:
            return False
        return visit is None or (visit.number == 1 and not event.erased and visit.unit not in self.erased)

    def _period(self, event: Decided) -> int:
        """The day or week of a decision, in UTC; weeks begin on Mondays."""
        if self.block not in PERIODS:
            return 0
        length, began, _ = PERIODS[self.block]
        return (event.at - began) // length


class ShiftWatch:
    """A monitor for each experiment, fed with what is new in the log when somebody asks.

    Parameters
    ----------
    store
        Where the logs are.
    prepare
        Called before an experiment is watched for the first time; may see to its kernels.
    """

    def __init__(self, store: Store, prepare: Callable[[Experiment], None] = lambda _: None) -> None:
        self._store, self._prepare = store, prepare
        self._locks: dict[str, threading.Lock] = {}  # one for each experiment: a long log keeps only its own waiting
        self._watched: dict[str, _Watched] = {}

    def report(self, experiment_id: str, upto: Head | None = None) -> ShiftReport:
        """What the monitor says now, or after an event; what it has seen beyond that is seen again next time."""
        with self._store.read() as session:
            session.existing_head(experiment_id)  # no lock for what is not there
        # Before the head is read again: it must not lie before what somebody else has seen meanwhile.
        with self._locks.setdefault(experiment_id, threading.Lock()):
            with self._store.read() as session:
                head = upto or session.existing_head(experiment_id)
                watched = self._watched.get(experiment_id)
                if watched is not None and watched.seen.seq > head.seq:
                    watched = None  # somebody asks about the past
                erased = erased_units(session, experiment_id, 2**62)
                if watched is not None and not leads_to(session, experiment_id, watched.seen):
                    watched = None  # another log of the same name
                if watched is not None and not watched.monitor.n_contexts:
                    watched = None  # until then a draft may be declared otherwise
                if watched is not None and session.amendments(experiment_id, AMENDED, watched.seen.seq, head.seq, 1):
                    watched = None  # what it has seen was not so
                if watched is not None and watched.erased != erased:
                    watched = None  # what is erased is forgotten here, too
                amended = {} if watched is not None else _amended(session, experiment_id, head)
            if watched is None:
                experiment = declared(self._store, experiment_id, head)
                self._prepare(experiment)
                watched = self._watched[experiment_id] = _Watched.begin(experiment, amended)
                watched.erased = erased
            for page in pages(self._store, experiment_id, head, watched.seen):
                watched.see(page)
            return _describe(watched)


def _monitor(block: ShiftBlock, coordinates: int, seed: int) -> ShiftMonitor:
    """One that has seen nothing yet; where blocks end by the clock, somebody has to say so."""
    if isinstance(block, str) and block != "auto":
        *_, reference = PERIODS[block]
        return ShiftMonitor(coordinates, seed=seed, block="manual", reference=reference)
    return ShiftMonitor(coordinates, seed=seed, block=block)


def rehearse_shift(experiment: Experiment) -> None:
    """Watch some contexts as those of an experiment would be, so that whatever it takes is compiled."""
    block: ShiftBlock = experiment.shift_block
    block = min(block, REHEARSED_BLOCK) if isinstance(block, int) else block
    contexts = np.random.default_rng(0).uniform(size=(REHEARSED, min(experiment.context_dim, 2)))
    for waves in (0.0, 1.0):  # contexts that depend on each other are watched in blocks
        monitor = _monitor(block, contexts.shape[1], experiment.seed)
        for part in np.split(contexts + waves * np.sin(np.arange(REHEARSED) / 8)[:, None], REHEARSED // 40):
            monitor.update_many(part)
            if monitor.block == "manual":
                monitor.end_block()
        monitor.snapshot()


def leads_to(session: Session, experiment_id: str, seen: Head) -> bool:
    """Whether the log holds the event that was seen last, if there was one; if not, it is another of the same name."""
    return seen == BEGINNING or seen in [
        record.head for record in session.events(experiment_id, seen.seq - 1, seen.seq)
    ]


def _amended(session: Session, experiment_id: str, head: Head) -> dict[str, tuple[float, ...] | None]:
    """Contexts that are not what they were when the decisions were made, by id; None for decisions that are void."""
    contexts: dict[str, tuple[float, ...]] = {}
    void: dict[str, bool] = {}
    for record in session.amendments(experiment_id, AMENDED, 0, head.seq, MAX_AMENDED):
        match read(record).event:
            case Voided() as event:
                void[event.id] = event.void
            case ContextCorrected() as event:
                contexts[event.id] = event.x
    return {**contexts, **{id_: None for id_, is_void in void.items() if is_void}}


def _coordinates(experiment: Experiment) -> list[str]:
    names = []
    for column in experiment.columns:
        if isinstance(column, Categorical):
            names += [f"{column.name} = {level}" for level in column.levels]
        else:
            names.append(column.name)
    return names or ["constant"]


def _describe(watched: _Watched) -> ShiftReport:
    monitor, names, alarm, recent = watched.monitor, watched.names, None, None
    if monitor.alarm is not None:
        coordinate, pair = monitor.alarm.coordinate, monitor.alarm.pair
        name = None if coordinate is None else names[coordinate]
        both = None if pair is None else tuple(names[i] for i in pair)
        times = (watched.times.of(number) for number in (monitor.alarm.at - 1, monitor.alarm.change_point))
        noticed, since = (None if time is None else as_text(time) for time in times)
        alarm = ShiftAlarm(monitor.alarm.at, name, monitor.alarm.change_point, both, noticed, since)
    block: int | str | None = watched.block
    if block not in PERIODS:
        block = monitor.blocks.length if monitor.blocks else None
    if len(monitor.recent()):
        now = monitor.snapshot()
        recent = RecentShift(_finite(float(now.rho.value)), now.h, now.little_support)
    return ShiftReport(
        contexts=monitor.n_contexts,
        reference=monitor.reference,
        alpha=monitor.alpha,
        evidence=_finite(monitor.evidence),
        alarm=alarm,
        recent=recent,
        block=block,
    )


def _finite(value: float) -> float | None:
    """A number for JSON: None if it is not finite."""
    return value if math.isfinite(value) else None
