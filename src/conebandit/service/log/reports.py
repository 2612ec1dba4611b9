"""What became of one decision: which values count, where they are learned, and what corrects what."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from conebandit.experiment.declaration import Experiment
from conebandit.experiment.metrics import Metric
from conebandit.service.errors import CorruptionError
from conebandit.service.log.entries import Entry
from conebandit.service.log.events import (
    Amendment,
    ContextCorrected,
    Decided,
    Held,
    Retracted,
    Reviewed,
    Values,
    Voided,
)


class Report(NamedTuple):
    """What one event about a decision does."""

    counts: dict[str, float]  # values that are learned there: the first of their metric in time, as corrected later
    corrects: int  # earliest position at which something else should have been learned; 0 if there is none
    late: list[str]  # metrics of which no value has come in time


class Lesson(NamedTuple):
    """What is learned of a metric: at which position, which value, in which context."""

    place: int
    value: float
    x: tuple[float, ...]


@dataclass(slots=True)
class Slot:
    """What is known of one metric of a decision, from its first report on.

    Attributes
    ----------
    place
        Position of the first report in time, where the metric is learned; 0 as long as there is none.
    value
        The last one that was reported or released, as it was reported; None if there is none, or none any more.
    held, held_at
        The value on hold, and the position at which it came; None and 0 if there is none.
    rejected
        The value on hold that was rejected last, unless another one has come since.
    retracted
        Whether the last word on the metric is that it was retracted.
    observed_at
        When the last value was observed, as far as somebody said it.
    """

    place: int = 0
    value: float | None = None
    held: float | None = None
    held_at: int = 0
    rejected: float | None = None
    retracted: bool = False
    observed_at: int | None = None

    def knows(self, value: float, observed_at: int | None) -> bool:
        """Whether a report would say nothing new."""
        said = value == self.held if self.held is not None else value in (self.value, self.rejected)
        return said and observed_at in (None, self.observed_at)

    def set(self, value: float | None, observed_at: int | None, held: float | None = None, held_at: int = 0) -> None:
        """There is another value, or another one on hold, or none any more."""
        self.value, self.observed_at = value, observed_at
        self.held, self.held_at, self.rejected, self.retracted = held, held_at, None, False


class Reports:
    """All that is known of one decision.

    Each metric has a *slot* from its first report on. The first report that is in time gives the slot its *place*, the
    position in the log where the metric is learned, for good; it does not matter whether that report is held, corrected
    or retracted later. What comes afterwards only changes what is in the slot:

    ==================  ================================================================================
    reported            the value is this one; nothing is on hold any more
    held                this one is on hold, in place of what was; the value stays, if there is one
    reviewed            what is on hold becomes the value (``release``) or is dropped (``reject``)
    retracted           no value, and nothing on hold
    voided              nothing of the decision counts, or all of it again
    context_corrected   all of it is learned in another context
    ==================  ================================================================================

    A report is in time if its values were observed before the window closed and arrived before the time for uploads was
    over. Until there is one in time the metric is *late*: its values are kept, and do not count. A default counts where
    that time is over, and only if no report was in time: one that was retracted or is on hold is not replaced by a
    default, since something did come, and what is true is not known.

    So what is learned at a position, its *lesson*, is a function of the events that are known. The fold learns it with
    all that is known there (and up to the view, see :class:`~conebandit.service.log.state.State`). An event that
    changes the lesson of an earlier position *corrects* it, and counts there from the next revision on.

    Parameters
    ----------
    experiment
        Whose windows count.
    history
        The entries of the decision in the log, as far as they are to be known: the decision first, then what came.

    Attributes
    ----------
    decided
        The decision as it was made.
    context, x
        The context in which it is learned.
    slots
        By metric; only those of which something has come.
    void
        Why nothing is learned from it; None if it counts.
    """

    def __init__(self, experiment: Experiment, history: Sequence[Entry]) -> None:
        self._experiment = experiment
        first = history[0]
        if not isinstance(first.event, Decided):
            raise CorruptionError(f"event {first.seq} ({first.event.kind}) is about a decision that was not made.")
        self.decided, self.position = first.event, first.seq
        self.context, self.x = self.decided.context, self.decided.x
        self.slots: dict[str, Slot] = {}
        self.void: str | None = None
        self._history = [first]
        self._corrects: dict[int, int] = {}
        self._late: dict[int, list[str]] = {}
        for entry in history[1:]:
            self.add(entry)

    def add(self, entry: Entry) -> None:
        """Know of one more event."""
        event, seq = entry.event, entry.seq
        self._history.append(entry)
        if isinstance(event, Values):
            again = [name for name in event.values if name in self.slots]  # a first report corrects nothing
            before = [self._lesson(name, event.at) for name in again]
            for name, value in event.values.items():
                self._receive(seq, event, name, value)
            after = [self._lesson(name, event.at) for name in again]
            self._late[seq] = [name for name in event.values if not self.slots[name].place]
        elif isinstance(event, Amendment):
            before = [self._lesson(name, event.at) for name in self._experiment.metric_index]
            self._amend(seq, event)
            after = [self._lesson(name, event.at) for name in self._experiment.metric_index]
        else:
            raise CorruptionError(f"event {seq} ({event.kind}): decision {self.decided.id!a} was made before.")
        if before != after:
            self._corrects[seq] = _earliest_change(before, after, seq)

    def has_heard(self, report: str | None) -> bool:
        """Whether something came with a report that has a name, this one."""
        if report is None:
            return False
        return any(isinstance(entry.event, Values) and entry.event.report == report for entry in self._history)

    def _receive(self, seq: int, event: Values, name: str, value: float) -> None:
        slot = self.slots.get(name)
        if slot is None:
            slot = self.slots[name] = Slot()
        if not slot.place and self._in_time(name, event):
            slot.place = seq
        if isinstance(event, Held):
            slot.set(slot.value, event.observed_at, value, seq)
        else:
            slot.set(value, event.observed_at)

    def _amend(self, seq: int, event: Reviewed | Retracted | Voided | ContextCorrected) -> None:
        match event:
            case Reviewed():
                for name, value in event.values.items():
                    slot = self.slots[name]
                    if slot.held is None or slot.held != value:
                        raise CorruptionError(f"event {seq} (reviewed): {value!r} of {name!a} is not on hold.")
                    if event.verdict == "release":
                        slot.set(value, slot.observed_at)
                    else:
                        slot.set(slot.value, slot.observed_at)
                        slot.rejected = value
            case Retracted():
                for name in event.metrics:
                    self.slots[name].set(None, None)
                    self.slots[name].retracted = True
            case Voided():
                self.void = event.reason if event.void else None
            case ContextCorrected():
                self.context, self.x = event.context, event.x

    def _in_time(self, name: str, event: Values) -> bool:
        metric = self._experiment.metric(name)
        if metric.window is None:
            return True
        made, observed = self.decided.at, event.at if event.observed_at is None else min(event.observed_at, event.at)
        return observed <= last_observation(metric, made) and event.at <= last_arrival(metric, made)

    def _lesson(self, name: str, at: int) -> Lesson | None:
        """What is learned of a metric by a time, and where.

        Where a default is learned is not known here: after the decision, in any case.
        """
        slot, metric = self.slots.get(name), self._experiment.metric(name)
        if self.void is not None:
            return None
        if slot is not None and slot.place:
            return None if slot.value is None else Lesson(slot.place, metric.counted(slot.value), self.x)
        if metric.default is None or last_arrival(metric, self.decided.at) >= at:
            return None
        return Lesson(self.position, metric.default, self.x)

    def wants_default(self, name: str) -> bool:
        """Whether the default of a metric counts when its time is over."""
        return self.void is None and (name not in self.slots or not self.slots[name].place)

    def at(self, seq: int) -> Report:
        """What the event at a position does, given all the others."""
        counts = {}
        if self.void is None:
            for name, slot in self.slots.items():
                if slot.place == seq and slot.value is not None:
                    counts[name] = self._experiment.metric(name).counted(slot.value)
        return Report(counts, self._corrects.get(seq, 0), self._late.get(seq, []))

    def taught_before(self, seq: int, view: int, closed: Collection[str]) -> bool:
        """Whether a fold that learns something of the decision at ``seq`` has learned something of it before.

        Parameters
        ----------
        seq
            Where something is learned.
        view
            Up to where the fold knows of corrections.
        closed
            Metrics with a default whose time was over before.
        """
        places = {name: slot.place for name, slot in self.slots.items() if 0 < slot.place < seq}
        defaults = [name for name in closed if name not in places]
        if not self._corrects:  # what is known now was known then
            return bool(defaults) or any(self.slots[name].value is not None for name in places)
        return any(self._known(view, place).at(place).counts for place in places.values()) or any(
            self._known(view, at=last_arrival(self._experiment.metric(name), self.decided.at)).wants_default(name)
            for name in defaults
        )

    def _known(self, view: int, seq: int = 0, at: int = 0) -> Reports:
        """What was known where a fold learned something: by position, or by the time at which a default counts."""
        upto = max(view, seq)
        return Reports(self._experiment, [e for e in self._history if e.seq <= upto or e.event.at <= at])


def _earliest_change(before: list[Lesson | None], after: list[Lesson | None], seq: int) -> int:
    """The first position before ``seq`` at which something else is learned now; 0 if there is none."""
    changed = [pair for pair in zip(before, after, strict=True) if pair[0] != pair[1]]
    places = [lesson.place for pair in changed for lesson in pair if lesson is not None]
    return min((place for place in places if place < seq), default=0)


def last_observation(metric: Metric, decided_at: int) -> int:
    """The last millisecond of a window."""
    return decided_at + round((metric.window or 0.0) * 1000)


def last_arrival(metric: Metric, decided_at: int) -> int:
    """The last millisecond at which a value that was observed within the window may arrive."""
    return last_observation(metric, decided_at) + round(metric.upload * 1000)
