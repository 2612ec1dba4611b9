"""Reading a log into a state: from the first event or a snapshot on, with or without the lock of the log."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

from conebandit.experiment.arms import read_arms
from conebandit.experiment.declaration import Experiment
from conebandit.service.errors import CorruptionError
from conebandit.service.log.bodies import MAX_POSITION
from conebandit.service.log.entries import Entry, read, read_as
from conebandit.service.log.events import (
    AMENDMENTS,
    Amendment,
    ArmAdded,
    ArmRetired,
    Changed,
    Created,
    Decided,
    Erased,
    Learned,
    Revised,
)
from conebandit.service.log.repairs import Repairs
from conebandit.service.log.reports import Reports
from conebandit.service.log.snapshots import OtherVersionError, from_parts
from conebandit.service.log.state import State, check_order
from conebandit.service.stores.records import Head, Record
from conebandit.service.stores.session import PAGE, Session

MAX_LEFT = 50  # events that may be left to fold within a turn
DECLARATIONS = (Created.kind, Changed.kind)
POLICY_KINDS = (*DECLARATIONS, ArmAdded.kind, ArmRetired.kind)  # events that say what policy there is, for which arms


class Watch(Protocol):
    """Looks on while a log is folded."""

    def before(self, state: State, entry: Entry) -> None:
        """Windows have closed by the time of an event, and what it does is still to come."""

    def after(self, state: State, entry: Entry, reports: Reports | None) -> None:
        """An event was folded."""


def rebuild(
    session: Session, experiment_id: str, head: Head, *, snapshots: bool = True, watch: Watch | None = None
) -> State:
    """The state at a head, from the log; from the latest snapshot on, if that is allowed and there is one.

    A snapshot is dropped when a new view makes it untrue, so those that are there can be used.
    """
    view = view_at(session, experiment_id, head.seq)
    state = start(session, experiment_id, view, before=head.seq + 1 if snapshots else 0)
    follow(session, state, head, watch)
    return state


def read_to_head(
    look: Callable[[], AbstractContextManager[Session]], experiment_id: str, state: State | None = None
) -> State | None:
    """The state at the end of a log, going on from ``state`` if that is possible; None if there is no such log.

    No lock is held, so nobody else waits: events are read page by page, and a turn folds the few that came meanwhile.
    """
    while True:
        with look() as session:
            head = session.head(experiment_id)
            if head is None:
                return None
            if state is None or state.stale or state.head.seq > head.seq:
                state = start(session, experiment_id, view_at(session, experiment_id, head.seq), before=head.seq + 1)
            fold_page(session, state, head)
            if state.head == head and not state.stale:
                return state


def revisions(session: Session, experiment_id: str, upto: int) -> list[tuple[int, int]]:
    """Every revision up to a position: where it is, and the view from there on."""
    found = session.of_kinds(experiment_id, (Revised.kind,), upto)
    return [(record.seq, read_as(Revised, record).upto) for record in found]


def view_at(session: Session, experiment_id: str, seq: int) -> int:
    """Up to where corrections are known in the state at a position."""
    found = revisions(session, experiment_id, seq)
    return found[-1][1] if found else 0


def erased_units(session: Session, experiment_id: str, upto: int, after: int = 0) -> frozenset[str]:
    """Aliases of the units that are to be forgotten, by what the log says between two positions."""
    found = session.of_kinds(experiment_id, (Erased.kind,), upto, after)
    return frozenset(read_as(Erased, record).unit for record in found)


def see_up_to(session: Session, state: State, view: int, repairs: Repairs) -> State:
    """Let a state know of corrections up to a position, and of the repairs and erasures until then."""
    units = state.experiment.units
    state.see(view, repairs, frozenset() if units is None else erased_units(session, state.experiment.id, view))
    return state


def declaration_of(record: Record | None) -> dict[str, Any]:
    """The declaration in a record: the first one of a log, or a later change."""
    event = None if record is None else read(record).event
    if not isinstance(event, Created | Changed):
        raise CorruptionError("the log does not begin with a declaration.")
    return event.declaration


def declared(record: Record | None) -> Experiment:
    """What a record declares."""
    return Experiment.from_dict(declaration_of(record))


def declared_at(session: Session, experiment_id: str, seq: int) -> Experiment:
    """What an experiment is declared to be at a position, with all changes until then."""
    return _declared_last(session.of_kinds(experiment_id, DECLARATIONS, seq))


def latest_declaration(session: Session, experiment_id: str, upto: int = MAX_POSITION) -> dict[str, Any]:
    """How an experiment is declared by now."""
    records = session.of_kinds(experiment_id, DECLARATIONS, upto)
    return declaration_of(records[-1] if records else None)


def all_arms(session: Session, experiment_id: str, upto: int = MAX_POSITION) -> list[str]:
    """Every arm that an experiment has had, in the order in which they came."""
    declared, _ = read_arms(latest_declaration(session, experiment_id, upto).get("arms"))
    added = session.of_kinds(experiment_id, (ArmAdded.kind,), upto)
    return list(dict.fromkeys([*declared, *(read_as(ArmAdded, record).arm for record in added)]))


def _declared_last(records: Sequence[Record]) -> Experiment:
    """What the last of some records declares that do; the first of them begins the log."""
    if not records or records[0].kind != Created.kind:
        raise CorruptionError("the log does not begin with a declaration.")
    return declared([record for record in records if record.kind in DECLARATIONS][-1])


def start(session: Session, experiment_id: str, view: int, before: int) -> State:
    """A state to go on from: the latest snapshot before a position, or a policy that knows nothing yet."""
    records = session.of_kinds(experiment_id, POLICY_KINDS, max(view, 1))
    experiment = _declared_last(records)
    if experiment.id != experiment_id:
        raise CorruptionError(f"{experiment_id}: this is the log of {experiment.id!a}.")
    for seq in session.snapshots(experiment_id):
        if seq < before:
            try:
                state = from_parts(experiment, session.snapshot(experiment_id, seq), session.seals)
            except (CorruptionError, OtherVersionError, ValueError, KeyError, TypeError, OSError):
                continue  # a snapshot only saves time: without it, an earlier one or the log will do
            session.check_presence(experiment_id, state.head)
            break
    else:
        state = State(experiment, _active_arms(experiment, records[1:]))
    return see_up_to(session, state, view, Repairs.find(session, experiment_id, view))


def _active_arms(experiment: Experiment, changes: Sequence[Record]) -> tuple[str, ...]:
    """The arms that can be served after some changes, in the order in which they came."""
    arms = dict.fromkeys(experiment.arms, True)
    for entry in map(read, changes):
        check_order(entry, 0)
        if isinstance(entry.event, ArmAdded | ArmRetired):
            arms[entry.event.arm] = isinstance(entry.event, ArmAdded)
    return tuple(name for name, active in arms.items() if active)


def follow(session: Session, state: State, head: Head, watch: Watch | None = None) -> None:
    """Fold what the log holds up to a head, unless the state becomes stale on the way."""
    while not state.stale and fold_page(session, state, head, watch):
        pass


def fold_page(session: Session, state: State, head: Head, watch: Watch | None = None, *, limit: int = PAGE) -> bool:
    """Fold some events, not beyond a head; False if there are no more."""
    id_ = state.experiment.id
    page = next(session.checked(id_, state.head, head, limit), None)
    if page is None:
        return False
    histories = _histories(session, state, page)
    known_entries = {entry.seq: entry for history in histories.values() for entry in history}
    for record in page:
        try:
            entry, reports = known_entries.get(record.seq) or state.repairs.read(record), None
            if isinstance(entry.event, Amendment) and entry.event.id in histories:
                known = max(state.view, entry.seq)
                reports = Reports(state.experiment, [e for e in histories[entry.event.id] if e.seq <= known])
            if isinstance(entry.event, Decided) and entry.event.erased:
                _check_erased(session, state, entry.event)
            state.fold(entry, session, reports, None if watch is None else watch.before)
            if watch is not None:
                watch.after(state, entry, reports)
        except (LookupError, TypeError, ValueError) as error:
            raise CorruptionError(f"{id_}: event {record.seq} cannot be folded: {error!r}.") from None
        if state.stale:
            break
    return True


def _check_erased(session: Session, state: State, decided: Decided) -> None:
    """A ``CorruptionError`` if personal data are missing, and nobody has erased them.

    Somebody may have after the view, or after what is folded here: then this state is not where we are going.
    """
    if decided.unit not in state.erased and decided.unit not in erased_units(session, state.experiment.id, 2**62):
        raise CorruptionError(f"the personal data of decision {decided.id!a} are missing, and no event says why.")


def _histories(session: Session, state: State, page: Sequence[Record]) -> dict[str, list[Entry]]:
    """All that is known of the decisions about which something comes on a page, by id."""
    ids = list({record.decision for record in page if record.kind in AMENDMENTS and record.decision is not None})
    found = session.histories(state.experiment.id, ids, max(state.view, page[-1].seq), page)
    return {id_: list(map(state.repairs.read, history)) for id_, history in found.items()}


def past_rows(session: Session, experiment_id: str) -> Learned | None:
    """The past rows that an experiment began with, if there were any."""
    for record in session.events(experiment_id, after=1, limit=1):
        if record.kind == Learned.kind:
            return read_as(Learned, record)
    return None
