"""Counting over a log, a page at a time: a second fold, of what :class:`~conebandit.service.log.state.State` drops.

Made for speed, since a log may have millions of events: of the two frequent kinds, decisions and reports, only the few
entries that are counted are read, by where they stand in the one form that JSON has on disk; other kinds, and whatever
is not found there, are read as everywhere else. Seals are not checked: that is for the fold, which nothing gets past,
and for ``verify``.
"""

from __future__ import annotations

import json
import re
from array import array
from collections import deque
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from conebandit.experiment.declaration import Experiment
from conebandit.experiment.metrics import Metric
from conebandit.service.dashboard.counts.decisions import Drawn, Index, Sampler, as_sample, uniformly
from conebandit.service.dashboard.counts.periods import YOUNG, Series, by_day, by_hour
from conebandit.service.dashboard.counts.tally import MAX_RECENT, MAX_SAMPLE, Sample, Standing, Tally
from conebandit.service.errors import CorruptionError
from conebandit.service.log import events
from conebandit.service.log.entries import Entry, read, read_as
from conebandit.service.log.events import Decided, Values
from conebandit.service.log.repairs import Repairs
from conebandit.service.log.replay import declared_at, erased_units
from conebandit.service.log.reports import last_arrival, last_observation
from conebandit.service.stores.records import BEGINNING, Head, Record, canonical
from conebandit.service.stores.session import Session

MAX_ORDERS = 2000  # the latest ones are kept
# Events about no decision that are nobody's order, or of which there is nothing to show.
NO_ORDERS = tuple(
    kind.kind for kind in (events.Revised, events.Learned, events.Sealed, events.Erased, events.Published)
)
VALUES = (events.Reported.kind, events.Held.kind)
# What has happened to one metric of one decision.
CAME, IN_TIME, KNOWN, ON_HOLD = 1, 2, 4, 8  # anything; something in time; there is a value; there is one on hold
VOID, ERASED = 1, 2  # what a decision may be

# Keys are sorted, so that `arm` and `at` are neighbours, and only `active`, a list of texts, stands before them. No
# text can look like these: its quotes would be escaped.
_ARM_AND_TIME = re.compile(r'"arm":("[^"\\]*"),"at":([0-9]+),')
_OBSERVED_AT = re.compile(r'"observed_at":(-?[0-9]+),')
_UNIT = re.compile(r'"unit":"([^"\\]*)"')
_KEY = re.compile(r'("[^"\\]*"):')
_TIME, _VALUES = '{"at":', '"values":{'


class _Window(NamedTuple):
    """After how many milliseconds values of a metric must have been observed, and must have arrived, to count."""

    observation: int
    arrival: int

    @classmethod
    def of(cls, metric: Metric) -> _Window:
        return cls(last_observation(metric, 0), last_arrival(metric, 0))

    def is_open(self, made: int, at: int, observed_at: int | None) -> bool:
        """Whether what came at a time is in time; as :class:`~conebandit.service.log.reports.Reports` has it."""
        observed = at if observed_at is None or observed_at > at else observed_at
        return observed <= made + self.observation and at <= made + self.arrival


class Counting:
    """What the log of an experiment adds up to, up to ``seen``.

    What was erased is known from the beginning, as are repairs of the clock: one that is logged later makes all that
    was counted ``outdated``, and somebody must begin anew. So what is told follows from the log alone.

    Parameters
    ----------
    experiment
        As it is declared at ``head``; after the first decision nothing of it changes that matters here.
    head
        The end of the log, up to which ``repairs`` and ``erased`` are known.
    repairs
        Of the clock.
    erased
        Aliases of the units that are erased.

    Attributes
    ----------
    seen
        The last event that was counted.
    outdated
        Whether an event says that what was counted is not so.
    """

    def __init__(self, experiment: Experiment, head: Head, repairs: Repairs, erased: frozenset[str]) -> None:
        self.experiment, self.seen, self.outdated = experiment, BEGINNING, False
        self._known, self._repairs, self._erased_units = head.seq, repairs, erased
        self._began = self._at = 0  # times of the first event and of the last one
        self._index = Index()
        # By row; a decision has the number of those before it.
        self._made_at, self._gone, self._slots = array("q"), bytearray(), [bytearray() for _ in experiment.metrics]
        self._arms: dict[str, int] = {}
        self._arm_numbers: dict[str, int] = {}  # by how they stand on disk
        for arm in experiment.arms:
            self._add_arm(arm)
        self._windows = [None if metric.window is None else _Window.of(metric) for metric in experiment.metrics]
        self._metric_numbers = {canonical(metric.name): k for k, metric in enumerate(experiment.metrics)}
        self._served, self._came = Series(), Series()
        self._corrections = self._retractions = self._voids = self._late = 0
        self._orders: list[Entry] = []
        self._sample = Sampler(MAX_SAMPLE, uniformly(experiment.id))
        self._recent: deque[Drawn] = deque(maxlen=MAX_RECENT)
        self._contexts: dict[int, tuple[float, ...]] = {}  # corrected ones, by row

    @classmethod
    def begin(cls, session: Session, experiment_id: str) -> Counting:
        """Nothing counted yet."""
        head = session.existing_head(experiment_id)
        experiment = declared_at(session, experiment_id, head.seq)
        erased = erased_units(session, experiment_id, head.seq)
        return cls(experiment, head, Repairs.find(session, experiment_id, head.seq), erased)

    @property
    def n_decisions(self) -> int:
        """How many have been counted."""
        return len(self._made_at)

    # ---- a page of the log --------------------------------------------------------------------------------------

    def take(self, page: Sequence[Record]) -> None:
        """Count the next events; after a ``CorruptionError`` nothing that is told here can be relied on."""
        try:
            self._take(page)
        except (LookupError, TypeError, ValueError) as error:
            raise CorruptionError(f"events {page[0].seq} to {page[-1].seq} cannot be counted: {error!r}.") from None

    def _take(self, page: Sequence[Record]) -> None:
        if not self.seen.seq:
            self._began = _time(page[0])
        for record in page:
            if record.decision is None:
                self._order(record)
        if self.outdated:
            return
        self._decide([record for record in page if record.kind == Decided.kind])
        about = [record for record in page if record.decision is not None and record.kind != Decided.kind]
        rows = self._index.find([record.decision or "" for record in about])
        times: list[int] = []
        metrics: list[int] = []
        for record, row in zip(about, rows, strict=True):
            if row < 0:
                raise CorruptionError(f"event {record.seq} ({record.kind}): its decision is not before it.")
            if self._gone[row] & ERASED:
                continue
            if record.kind in VALUES:
                at, came = self._receive(record, row)
                metrics += came
                times += [at] * len(came)
            else:
                self._amend(read(record).event, row)
        self._came.add(self._began, times, metrics)
        self._at, self.seen = _time(page[-1]), page[-1].head

    def _decide(self, records: Sequence[Record]) -> None:
        """Count decisions."""
        if not records:
            return
        first = len(self._made_at)
        arms, times = self._arms_and_times(records)
        self._served.add(self._began, times, arms)
        self._index.add([record.decision or "" for record in records], first)
        self._made_at.extend(times)
        if self.experiment.units is None:
            self._gone.extend(bytes(len(records)))
        else:
            self._gone.extend(ERASED if self._is_erased(record) else 0 for record in records)
        for slots in self._slots:
            slots.extend(bytes(len(records)))
        self._sample.offer(records, first)
        self._recent.extend(map(Drawn, range(first, first + len(records)), records))

    def _arms_and_times(self, records: Sequence[Record]) -> tuple[list[int], list[int]]:
        """Numbers of the arms that decisions served, and when they were made."""
        found = [_ARM_AND_TIME.search(record.text) for record in records]
        texts, dates = zip(
            *[_arm_and_time(r) if f is None else f.groups() for f, r in zip(found, records, strict=True)], strict=True
        )
        for text in set(texts) - self._arm_numbers.keys():
            self._add_arm(json.loads(text))
        times = list(map(int, dates))
        if self._repairs:
            times = [self._repairs.latest(record.seq, at) for record, at in zip(records, times, strict=True)]
        return [self._arm_numbers[text] for text in texts], times

    def _is_erased(self, record: Record) -> bool:
        """Whether a decision is of a unit that is to be forgotten, or already is."""
        found = _UNIT.search(record.text)
        return record.personal is None or (found is not None and found[1] in self._erased_units)

    def _receive(self, record: Record, row: int) -> tuple[int, list[int]]:
        """Take note of values that came in; gives the time, and the numbers of their metrics."""
        at, observed_at, names = _arrived(record)
        if self._repairs:
            at = self._repairs.earliest(record.seq, at)
        metrics, held = [self._metric_numbers[name] for name in names], record.kind == events.Held.kind
        for number in metrics:
            slots, window = self._slots[number], self._windows[number]
            slot = slots[row] | CAME
            if window is None or window.is_open(self._made_at[row], at, observed_at):
                slot |= IN_TIME
            self._late += not slot & IN_TIME
            self._corrections += not held and bool(slot & KNOWN)
            slots[row] = slot | ON_HOLD if held else (slot | KNOWN) & ~ON_HOLD
        return at, metrics

    def _amend(self, event: events.Event, row: int) -> None:
        match event:
            case events.Reviewed():
                for slots in self._slots_of(event.values):
                    slots[row] = slots[row] & ~ON_HOLD | (KNOWN if event.verdict == "release" else 0)
            case events.Retracted():
                self._retractions += len(event.metrics)
                for slots in self._slots_of(event.metrics):
                    slots[row] &= ~(KNOWN | ON_HOLD)
            case events.Voided():
                self._voids += event.void
                self._gone[row] = VOID if event.void else 0
            case events.ContextCorrected():
                self._contexts[row] = event.x

    def _slots_of(self, names: Iterable[str]) -> list[bytearray]:
        return [self._slots[self.experiment.metric_index[name]] for name in names]

    def _order(self, record: Record) -> None:
        """Take note of an event that is about no decision."""
        if record.seq > self._known:
            redeclared = record.kind == events.Changed.kind and not self._made_at
            self.outdated |= redeclared or record.kind in {events.Erased.kind, events.ClockRepaired.kind}
        if record.kind in NO_ORDERS:
            return
        entry = read(record)
        if isinstance(entry.event, events.ArmAdded):
            self._add_arm(entry.event.arm)
        self._orders = [*self._orders[1 - MAX_ORDERS :], entry]

    def _add_arm(self, name: str) -> int:
        number = self._arms.setdefault(name, len(self._arms))
        self._arm_numbers[canonical(name)] = number
        return number

    # ---- what is told -------------------------------------------------------------------------------------------

    def tally(self, n_events: int = 0, problem: str = "") -> Tally:
        """All of it; ``n_events`` says how many there are, and ``problem`` why no more can be read."""
        arms, metrics = tuple(self._arms), [metric.name for metric in self.experiment.metrics]
        gone = np.frombuffer(self._gone, np.uint8)
        slots = [np.frombuffer(slots, np.uint8) for slots in self._slots]
        young = self._at - self._began < YOUNG
        sample, recent = self._drawn()
        return Tally(
            experiment=self.experiment.id,
            seen=self.seen.seq,
            events=max(self.seen.seq, n_events),
            problem=problem,
            began=self._began if self.seen.seq else None,
            at=self._at if self.seen.seq else None,
            arms=arms,
            decisions=dict(zip(arms, self._served.totals(len(arms)), strict=True)),
            days=by_day(self._served, self._came, arms, metrics),
            hours=by_hour(self._served, self._came, arms, metrics) if young else None,
            standing={metric.name: self._standing(k, gone == 0) for k, metric in enumerate(self.experiment.metrics)},
            void=int(np.count_nonzero(gone == VOID)),
            erased=int(np.count_nonzero(gone == ERASED)),
            corrections=self._corrections,
            retractions=self._retractions,
            voids=self._voids,
            late=self._late,
            on_hold=sum(int(np.count_nonzero(slot[gone == 0] & ON_HOLD)) for slot in slots),
            orders=tuple(self._orders),
            sample=sample,
            recent=recent,
        )

    def _standing(self, number: int, counts: NDArray[np.bool_]) -> Standing:
        """How decisions stand with a metric, those of which something ``counts``."""
        slots, window = np.frombuffer(self._slots[number], np.uint8), self._windows[number]
        default = self.experiment.metrics[number].default
        by_slot = np.bincount(slots[counts], minlength=16).tolist()
        closed = np.zeros_like(counts)  # nothing more can come in time
        if window is not None:
            closed = np.frombuffer(self._made_at, np.int64) < self._at - window.arrival
        over = int(np.count_nonzero(closed & counts & (slots == 0)))
        in_time = {slot: n for slot, n in enumerate(by_slot) if slot & IN_TIME}
        late = counts & (slots & (CAME | IN_TIME) == CAME)
        return Standing(
            reported=sum(n for slot, n in in_time.items() if slot & KNOWN),
            default=0 if default is None else over,
            open=by_slot[0] - over,
            missing=over if default is None else 0,
            late=int(np.count_nonzero(late)),
            held=sum(n for slot, n in in_time.items() if not slot & KNOWN and slot & ON_HOLD),
            withdrawn=sum(n for slot, n in in_time.items() if not slot & (KNOWN | ON_HOLD)),
            late_default=0 if default is None else int(np.count_nonzero(late & closed)),
        )

    def _drawn(self) -> tuple[Sample, Sample]:
        """A sample of all decisions, and the latest ones."""
        kept = self._sample.kept(), self._recent
        drawn = [[one for one in some if not self._gone[one.row]] for some in kept]
        width = self.experiment.context_dim
        try:
            sample, recent = [as_sample(some, width, self._made_at, self._arms, self._contexts) for some in drawn]
        except (LookupError, TypeError, ValueError) as error:
            raise CorruptionError(f"decisions of {self.experiment.id} cannot be read: {error!r}.") from None
        return sample, recent


# ---- what is read of a record -------------------------------------------------------------------------------------


def _time(record: Record) -> int:
    return read(record).event.at


def _arm_and_time(record: Record) -> tuple[str, int]:
    """Of a decision that does not look as we write them."""
    decided = read_as(Decided, record)
    return canonical(decided.selection.arm), decided.at


def _arrived(record: Record) -> tuple[int, int | None, list[str]]:
    """Of values that came in: the time, when they were observed if somebody said it, and the metrics, as on disk.

    Values stand last, in the body or in the part beside it that is personal.
    """
    text, within = record.text, record.personal or record.text
    start = within.rfind(_VALUES)
    if start >= 0 and within.endswith("}}") and "\\" not in within and text.startswith(_TIME):
        observed = _OBSERVED_AT.search(text) if '"observed_at"' in text else None
        at = int(text[len(_TIME) : text.index(",")])
        return at, None if observed is None else int(observed[1]), _KEY.findall(within, start + len(_VALUES))
    event = read(record).event
    assert isinstance(event, Values)  # by its kind
    return event.at, event.observed_at, [canonical(name) for name in event.values]
