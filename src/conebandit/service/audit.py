"""Who did what, and when: events of a log by actor, key, kind and time, a page at a time."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import NamedTuple

from conebandit.experiment.entries import short
from conebandit.experiment.errors import InvalidError
from conebandit.service.errors import CorruptionError
from conebandit.service.export import pages
from conebandit.service.log.entries import NOBODY, By, read, shown_body
from conebandit.service.log.events import KINDS, ClockRepaired, Decided, Reported
from conebandit.service.log.operations import read_operation
from conebandit.service.log.times import as_text
from conebandit.service.replies import AuditedEvent, AuditPage
from conebandit.service.stores.base import Store
from conebandit.service.stores.records import BEGINNING, Head, Record, canonical
from conebandit.service.stores.session import PAGE, Session

MAX_AUDITED = 1000  # events of a page
MAX_SEARCHED = 10_000  # events that are looked at for a page; where it ended, the next page goes on
# Events that are few, and found without reading the log: those about no decision, and what is said of one afterwards.
ABOUT_NO_DECISION = frozenset(name for name, kind in KINDS.items() if kind.decision is None)
AMENDMENTS = frozenset(KINDS) - ABOUT_NO_DECISION - {Decided.kind, Reported.kind}


class Wanted(NamedTuple):
    """Which events are asked for; what is None or empty, or not given, is not asked.

    Attributes
    ----------
    actor, key
        Who caused them.
    kinds
        Of events.
    since, until
        Milliseconds since 1970: from the first on, and before the second.
    """

    actor: str | None = None
    key: str | None = None
    kinds: Sequence[str] = ()
    since: int | None = None
    until: int | None = None

    def asks_for(self, kind: str, at: int, by: By | None) -> bool:
        """Whether an event is one of them."""
        return (
            (not self.kinds or kind in self.kinds)
            and (self.actor is None or (by is not None and by.actor == self.actor))
            and (self.key is None or (by is not None and by.key == self.key))
            and (self.since is None or at >= self.since)
            and (self.until is None or at < self.until)
        )


class Found(NamedTuple):
    """Events that were asked for; ``causes`` has when each of them was, and who caused it."""

    records: list[Record]
    causes: list[tuple[int, By | None]]
    next: int
    more: bool


def audit(store: Store, experiment_id: str, wanted: Wanted, after: int = 0, limit: int = 100) -> AuditPage:
    """Some of the wanted events after a position, oldest first; ``next`` of the page is where to go on.

    A page may be empty although more follow: a long log is searched a part at a time. At the end of the log ``more`` is
    false; whoever asks again with ``next`` gets what was appended since.
    """
    found = find_events(store, experiment_id, wanted, after, limit)
    with store.read() as session:
        records = session.without_erased(experiment_id, found.records)
    shown = tuple(_shown(record, at, by) for record, (at, by) in zip(records, found.causes, strict=True))
    return AuditPage(shown, found.next, more=found.more)


def find_events(store: Store, experiment_id: str, wanted: Wanted, after: int, limit: int) -> Found:
    """The records of such a page."""
    unknown = set(wanted.kinds) - set(KINDS)
    if unknown:
        raise InvalidError(f"kind must be one of {', '.join(KINDS)}; got {short(min(unknown))}.")
    with store.read() as session:
        start, end = _span(session, experiment_id, wanted, after)
    records: list[Record] = []
    causes: list[tuple[int, By | None]] = []
    for searched, record in enumerate(_candidates(store, experiment_id, wanted.kinds, start, end), start=1):
        if _may_be_by(record, wanted):
            entry = read(record)
            if wanted.asks_for(record.kind, entry.event.at, entry.by):
                records.append(record)
                causes.append((entry.event.at, entry.by))
        if len(records) == limit or searched == MAX_SEARCHED:
            return Found(records, causes, record.seq, more=record.seq < end.seq)
    return Found(records, causes, end.seq, more=False)


def _span(session: Session, experiment_id: str, wanted: Wanted, after: int) -> tuple[Head, Head]:
    """Between which heads of a log the wanted events are: after a position, and within the time that is asked for."""
    head = session.existing_head(experiment_id)
    first, last = 0, head.seq
    if not session.of_kinds(experiment_id, (ClockRepaired.kind,), head.seq):  # else dates, as written, may decrease
        first = first if wanted.since is None else _last_before(session, experiment_id, head, wanted.since)
        last = last if wanted.until is None else _last_before(session, experiment_id, head, wanted.until)
    first = min(max(first, after), head.seq)
    return _head_at(session, experiment_id, first), _head_at(session, experiment_id, max(first, last))


def _candidates(store: Store, experiment_id: str, kinds: Sequence[str], start: Head, end: Head) -> Iterator[Record]:
    """Events among which the wanted ones are, checked, in order."""
    amendments = AMENDMENTS.issuperset(kinds)
    if not kinds or not (amendments or ABOUT_NO_DECISION.issuperset(kinds)):
        for page in pages(store, experiment_id, end, start):
            yield from page
        return
    after, going = start.seq, True
    while going:
        with store.read() as session:
            look_up = session.amendments if amendments else session.next_about_no_decision
            page = look_up(experiment_id, kinds, after, end.seq, PAGE)
        yield from page
        after, going = page[-1].seq if page else after, len(page) == PAGE


def _may_be_by(record: Record, wanted: Wanted) -> bool:
    """False for most events that others have caused; told without reading them, since JSON takes its time."""
    return all(canonical(text) in record.text for text in (wanted.actor, wanted.key) if text is not None)


def _head_at(session: Session, experiment_id: str, seq: int) -> Head:
    return Head(seq, _record(session, experiment_id, seq).check) if seq else BEGINNING


def _last_before(session: Session, experiment_id: str, head: Head, time: int) -> int:
    """Position of the last event before a time, 0 if there is none; a few looks, if times do not decrease."""
    positions = range(1, head.seq + 1)
    return bisect_left(positions, time, key=lambda seq: read(_record(session, experiment_id, seq)).event.at)


def _record(session: Session, experiment_id: str, seq: int) -> Record:
    found = session.events(experiment_id, seq - 1, seq)
    if not found:
        raise CorruptionError(f"{experiment_id}: event {seq} is missing from the log.")
    return found[0]


def _shown(record: Record, at: int, by: By | None) -> AuditedEvent:
    key, actor = by or NOBODY
    return AuditedEvent(
        seq=record.seq, at=as_text(at), kind=record.kind, key=key, actor=actor, decision=record.decision,
        check=record.check, body=shown_body(record),
    )  # fmt: skip


def whole_audit(store: Store, experiment_id: str, wanted: Wanted) -> Iterable[AuditedEvent]:
    """All wanted events, page after page."""
    page = AuditPage((), 0, more=True)
    while page.more:
        page = audit(store, experiment_id, wanted, page.next, MAX_AUDITED)
        yield from page.events


def whole_store_audit(store: Store, wanted: Wanted) -> Iterable[AuditedEvent]:
    """All wanted operations on the store itself; a ``CorruptionError`` if its log is not what was written."""
    with store.read() as session:
        records = session.operations()
    for record in records:
        at, by = read_operation(record)
        if wanted.asks_for(record.kind, at, by):
            yield _shown(record, at, by)


def milliseconds(given: str, where: str) -> int:
    """Milliseconds since 1970 of a date, or a date and time, of ISO 8601; in UTC if it names no zone.

    Examples
    --------
    >>> milliseconds("1970-01-02", "from"), milliseconds("1970-01-01T01:00+01:00", "from")
    (86400000, 0)
    """
    try:
        at = datetime.fromisoformat(given)
        return round((at.replace(tzinfo=UTC) if at.tzinfo is None else at).timestamp() * 1000)
    except (ValueError, OverflowError):
        raise InvalidError(
            f"{where} must be a date or a time of ISO 8601, such as 2026-11-16T09:00Z (a + in a query is %2B); "
            f"got {short(given)}."
        ) from None
