"""What the view of a log asks for: the last events, those of a decision or a unit, those that somebody caused.

Only what is asked for is read, by index; nothing here reads a whole log.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from conebandit.experiment.units import as_unit
from conebandit.service.audit import Wanted, find_events
from conebandit.service.dashboard.words.telling import KINDS, by_whom, exact, history, told
from conebandit.service.engine.traffic import decision_id
from conebandit.service.errors import NotFoundError
from conebandit.service.log.entries import read_as
from conebandit.service.log.events import ERASED, Erased, Held
from conebandit.service.log.held import on_hold
from conebandit.service.log.repairs import Repairs
from conebandit.service.log.replay import declared_at
from conebandit.service.replies import HeldValue
from conebandit.service.stores.base import Store
from conebandit.service.stores.personal import DECISION, ERASING, UNIT
from conebandit.service.stores.records import Head, Record, check
from conebandit.service.stores.seals import START
from conebandit.service.stores.session import Session

MAX_SHOWN = 50  # events of a page, or decisions of a unit
MAX_HISTORY = 500  # events of one search that are told


@dataclass(frozen=True)
class Line:
    """An event as it is shown.

    Attributes
    ----------
    seq, check
        Its position and its checksum.
    at, kind, who
        When it was, what it is, and who caused it, in words.
    decision, called
        What the log calls the decision that it is about, and what callers do, if they are not erased; empty if it is
        about none.
    erased
        Whether its personal part is gone, or is about to go.
    words
        What it says: a sentence, and maybe more.
    """

    seq: int
    check: str
    at: str
    kind: str
    who: str
    decision: str
    called: str
    erased: bool
    words: tuple[str, ...]


@dataclass(frozen=True)
class LogPage:
    """Some lines of a log.

    Attributes
    ----------
    lines
        In the order in which they are shown.
    head
        Where the log ends.
    more
        Position to go on from; 0 if there are no more.
    units
        Whether the experiment has units.
    left_out
        How many events there are beside those that are shown.
    """

    lines: tuple[Line, ...]
    head: Head
    more: int
    units: bool
    left_out: int = 0


class Logbook:
    """The log of an experiment, as far as it is asked for.

    Parameters
    ----------
    session
        In which it is read.
    experiment_id
        Which one.
    """

    def __init__(self, session: Session, experiment_id: str) -> None:
        self._session, self._id = session, experiment_id
        self.head = session.existing_head(experiment_id)
        self._experiment = declared_at(session, experiment_id, self.head.seq)
        self._repairs = Repairs.find(session, experiment_id, self.head.seq)
        self.has_units = self._experiment.units is not None

    def latest(self, before: int) -> LogPage:
        """The last events before a position, newest first; 0: the last of all."""
        upto = self.head.seq if before == 0 else min(self.head.seq, before - 1)
        after = max(upto - MAX_SHOWN, 0)
        start = self._session.events(self._id, after - 1, after)
        page = check(
            self._session.events(self._id, after, upto),
            start[0].check if start else START,
            after,
            seals=self._session.seals,
            experiment=self._id,
        )
        return self._page(self.tell(page[::-1]), more=after + 1 if after else 0)

    def of_decision(self, asked: str) -> LogPage:
        """All events of a decision, in order, by the id that callers or the log have for it."""
        wanted = decision_id(asked, generate=False)
        known = self._session.aliases(self._id, DECISION, [wanted]) if self.has_units else {}
        found = self._histories([known.get(wanted, wanted)])
        if not found:
            erased = ", or it was erased" if self.has_units else ""
            raise NotFoundError(f"there is no decision {wanted!a} in this experiment{erased}.")
        return self._of_histories(found)

    def of_unit(self, asked: str, after: int) -> LogPage:
        """The events of the decisions of a unit after a position, in order; named as callers or the log do."""
        wanted = as_unit(asked, self._experiment.units) or ""
        alias = self._session.aliases(self._id, UNIT, [wanted]).get(wanted, wanted)
        rows = self._session.some_of_unit(self._id, alias, after, MAX_SHOWN + 1)
        if not rows:
            raise NotFoundError(self._no_unit(wanted))
        page = self._of_histories(self._histories([row.alias for row in rows[:MAX_SHOWN]]))
        more = rows[MAX_SHOWN - 1].seq if len(rows) > MAX_SHOWN else 0
        return self._page(page.lines, more, page.left_out)

    def _no_unit(self, wanted: str) -> str:
        for record in self._session.of_kinds(self._id, (Erased.kind,), self.head.seq):
            if (event := read_as(Erased, record)).unit == wanted:
                return f"unit {wanted!a} was erased {exact(event.at)}, with {event.decisions:,} decisions."
        return f"there is no unit {wanted!a} in this experiment, or it was erased."

    def _histories(self, ids: Sequence[str]) -> dict[str, list[Record]]:
        return self._session.histories(self._id, ids, self.head.seq)

    def _of_histories(self, found: dict[str, list[Record]]) -> LogPage:
        """What became of some decisions, in the order of the log."""
        records = sorted(record for history_ in found.values() for record in history_)
        words: dict[int, list[str]] = {}
        for id_, gone in self._erased(list(found)).items():
            if not gone:
                entries = list(map(self._repairs.read, found[id_]))
                words |= dict(zip([entry.seq for entry in entries], history(self._experiment, entries), strict=True))
        left_out = max(len(records) - MAX_HISTORY, 0)
        return self._page(self.tell(records[:MAX_HISTORY], words), 0, left_out)

    def _page(self, lines: Sequence[Line], more: int, left_out: int = 0) -> LogPage:
        return LogPage(tuple(lines), self.head, more, self.has_units, left_out)

    def tell(self, records: Sequence[Record], words: dict[int, list[str]] | None = None) -> list[Line]:
        """Events as they are shown; with other words for some, by position."""
        ids = list({record.decision for record in records if record.decision is not None})
        erased = self._erased(ids)
        names = self._session.names(self._id, ids) if self.has_units else {}
        lines = []
        for record in records:
            id_ = record.decision or ""
            gone = erased.get(id_, False)
            entry = self._repairs.read(record._replace(personal=None) if gone else record)
            sentences = (words or {}).get(record.seq) or told(self._experiment, entry.event, erased=gone)
            lines.append(
                Line(
                    record.seq,
                    record.check,
                    exact(entry.event.at),
                    KINDS[record.kind],
                    by_whom(entry.by),
                    id_,
                    ERASED if gone else names.get(id_, id_),
                    gone,
                    tuple(sentences),
                )
            )
        return lines

    def _erased(self, ids: Sequence[str]) -> dict[str, bool]:
        """Whether each of some decisions was erased, or is to be: then nothing personal of it is shown any more."""
        if not self.has_units:
            return dict.fromkeys(ids, False)
        rows = self._session.rows_of_aliases(self._id, ids)
        return {id_: id_ not in rows or rows[id_].kind == ERASING for id_ in ids}


def latest(store: Store, experiment_id: str, before: int) -> LogPage:
    """The last events before a position, newest first."""
    with store.read() as session:
        return Logbook(session, experiment_id).latest(before)


def of_decision(store: Store, experiment_id: str, asked: str) -> LogPage:
    """All events of a decision."""
    with store.read() as session:
        return Logbook(session, experiment_id).of_decision(asked)


def of_unit(store: Store, experiment_id: str, asked: str, after: int) -> LogPage:
    """The events of some decisions of a unit."""
    with store.read() as session:
        return Logbook(session, experiment_id).of_unit(asked, after)


@dataclass(frozen=True)
class HeldPage:
    """Values on hold, the units of metrics by name, and a position to go on from; 0 if there are no more."""

    held: tuple[HeldValue, ...]
    units: dict[str, str]
    more: int


def held(store: Store, experiment_id: str, after: int) -> HeldPage:
    """Values that somebody must look at, oldest first."""
    page = on_hold(store, experiment_id, after, MAX_SHOWN)
    with store.read() as session:
        head = session.existing_head(experiment_id)
        later = session.amendments(experiment_id, (Held.kind,), page.next, head.seq, 1)
        metrics = declared_at(session, experiment_id, head.seq).metrics
    units = {metric.name: metric.units for metric in metrics if metric.units is not None}
    return HeldPage(page.held, units, page.next if later else 0)


def audited(store: Store, experiment_id: str, wanted: Wanted, after: int) -> LogPage:
    """Some of the wanted events after a position, oldest first."""
    found = find_events(store, experiment_id, wanted, after, MAX_SHOWN)
    with store.read() as session:
        book = Logbook(session, experiment_id)
        lines = tuple(book.tell(found.records))
    return LogPage(lines, book.head, found.next if found.more else 0, book.has_units)
