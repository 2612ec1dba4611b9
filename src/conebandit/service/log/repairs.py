"""Repairs of the clock: which times hold for events that carry wrong dates.

Between the last event with a right date and the repair nobody knows what time it was, so nobody is called late for it:
decisions count as made when the clock was repaired, and all else as having happened when it was last right.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from conebandit.service.errors import CorruptionError
from conebandit.service.log.entries import Entry, read, read_as
from conebandit.service.log.events import ClockRepaired, Decided
from conebandit.service.stores.records import Record
from conebandit.service.stores.session import Session


class Repair(NamedTuple):
    """Events after position ``after``, whose time is ``since``, have wrong dates up to the repair itself."""

    seq: int
    at: int
    after: int
    since: int

    def concerns(self, seq: int) -> bool:
        """Whether the event at a position has a wrong date."""
        return self.after < seq < self.seq


class Repairs:
    """The repairs in a log that are known, earliest first.

    Parameters
    ----------
    repairs
        None by default, as in almost every log.

    Examples
    --------
    >>> repairs = Repairs((Repair(seq=9, at=500, after=3, since=100),))
    >>> repairs.earliest(5, 99_000), repairs.latest(5, 99_000)
    (100, 500)
    >>> repairs.earliest(3, 100), repairs.latest(10, 600)
    (100, 600)
    """

    def __init__(self, repairs: tuple[Repair, ...] = ()) -> None:
        self._repairs = repairs

    def __bool__(self) -> bool:
        return bool(self._repairs)

    @classmethod
    def find(cls, session: Session, experiment_id: str, upto: int) -> Repairs:
        """Those up to a position; a ``CorruptionError`` if one cannot be."""
        known = cls()
        for record in session.of_kinds(experiment_id, (ClockRepaired.kind,), upto):
            at, after = (event := read_as(ClockRepaired, record)).at, event.after
            last = [read(found).event.at for found in session.events(experiment_id, after - 1, after)]
            since = known.earliest(after, last[0]) if last else 0
            if after >= record.seq or since > at:
                raise CorruptionError(f"event {record.seq} (clock_repaired): it is not after event {after}.")
            known = cls((*known._repairs, Repair(record.seq, at, after, since)))
        return known

    def upto(self, view: int) -> Repairs:
        """Those up to a position."""
        return Repairs(tuple(repair for repair in self._repairs if repair.seq <= view))

    def read(self, record: Record) -> Entry:
        """The event in a record, with the time that holds for it."""
        entry = read(record)
        if not self.concern(entry.seq):
            return entry
        holds = self.latest if isinstance(entry.event, Decided) else self.earliest
        return entry._replace(event=replace(entry.event, at=holds(entry.seq, entry.event.at)))

    def concern(self, seq: int) -> bool:
        """Whether the event at a position has a wrong date."""
        return bool(self._repairs) and any(repair.concerns(seq) for repair in self._repairs)

    def earliest(self, seq: int, at: int) -> int:
        """When an event happened that carries this date, at the earliest; repairs may have been repaired."""
        for repair in reversed(self._repairs):
            if repair.concerns(seq):
                seq, at = repair.after, repair.since
        return at

    def latest(self, seq: int, at: int) -> int:
        """And at the latest."""
        for repair in self._repairs:
            if repair.concerns(seq):
                seq, at = repair.seq, repair.at
        return at
