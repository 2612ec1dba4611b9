"""One transaction on the ledger: logs are locked and caught up with, events are folded at once and written together."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from conebandit.service.errors import CorruptionError, SealKeyError
from conebandit.service.log.bodies import MAX_POSITION
from conebandit.service.log.entries import By, Entry, read_as, seal_event
from conebandit.service.log.events import Decided, Event, Revised
from conebandit.service.log.operations import log_operation
from conebandit.service.log.replay import erased_units, follow, latest_declaration, past_rows, rebuild, start
from conebandit.service.log.reports import Reports
from conebandit.service.log.state import State
from conebandit.service.stores.records import Head, Record
from conebandit.service.stores.session import Session, UnfinishedSnapshot

if TYPE_CHECKING:
    from conebandit.service.engine.ledger import Ledger

log = logging.getLogger("conebandit.service")


class Transaction:
    """What happens to some logs until a commit. If anything goes wrong, the ledger must forget what was ``changed``.

    Parameters
    ----------
    ledger
        Holds the states.
    session
        A session of the store that writes.
    now
        Milliseconds since 1970.

    Attributes
    ----------
    n_events, put_aside
        How many events were appended; how many uploaded decisions could not be, by experiment.
    changed
        Experiments whose states are ahead of the store until the commit.
    corrected_by_others
        Experiments in whose logs other processes have put corrections that do not count yet.
    """

    def __init__(self, ledger: Ledger, session: Session, now: int) -> None:
        self._ledger, self._now = ledger, now
        self.session, self.published_states = session, ledger.published
        self.n_events, self.put_aside = 0, Counter[str]()
        self.changed: set[str] = set()
        self.corrected_by_others: set[str] = set()
        self._at_head: set[str] = set()  # experiments whose log is locked and whose state is at its head
        self._begun: list[tuple[str, By | None]] = []  # new experiments, and who has begun them
        self._unwritten: dict[str, tuple[list[Record], set[str | None]]] = {}  # with the decisions they are about

    # ---- catching up --------------------------------------------------------------------------------------------

    def state(self, experiment_id: str) -> State:
        """The state at the head of a log, which is locked until the transaction ends."""
        if experiment_id not in self._at_head:
            head = self.session.existing_head(experiment_id, lock=True)
            self.session.seals.check_head(experiment_id, head.check)
            if damage := self._ledger.damage(experiment_id, head):
                raise CorruptionError(damage)
            if not self._follow(experiment_id, head):
                self._ledger.put(rebuild(self.session, experiment_id, head))
                self._at_head.add(experiment_id)
        return self._in_memory(experiment_id)

    def catch_up(self, experiment_id: str) -> bool:
        """Lock a log and fold what others have appended; False if that is too much to be done under the lock."""
        head = self.session.head(experiment_id, lock=True)
        if head is None or self._ledger.damage(experiment_id, head):
            return True  # whoever asks for the state will be told
        try:
            self.session.seals.check_head(experiment_id, head.check)
        except SealKeyError:
            return True  # as above
        try:
            return self._follow(experiment_id, head, self._ledger.max_replayed)
        except (CorruptionError, SealKeyError):
            return False

    def states(self) -> list[State]:
        """The states of all experiments that were asked for."""
        return [self._in_memory(experiment_id) for experiment_id in self._at_head]

    def _in_memory(self, experiment_id: str) -> State:
        state = self._ledger.state(experiment_id)
        assert state is not None  # it was asked for in this transaction
        return state

    def _follow(self, experiment_id: str, head: Head, most: int | None = None) -> bool:
        """Bring the state in memory to the head of the log; False if there is none, or none that can go on so far."""
        state = self._ledger.lend(experiment_id)  # gone for good if something is wrong with the log
        if state is None:
            return False
        if state.head.seq > head.seq:
            was = state.head.seq
            log.error("%s: the log had %d events, and has %d: its end is gone.", experiment_id, was, head.seq)
            return False
        if most is None or head.seq - state.head.seq <= most:
            was_corrected = state.corrected_from is not None
            follow(self.session, state, head, self.published_states)
            if state.corrected_from is not None and not was_corrected:
                self.corrected_by_others.add(experiment_id)
        self._ledger.put(state)
        there = state.head.seq == head.seq and not state.stale
        if there:
            self._at_head.add(experiment_id)
        return there

    # ---- appending ----------------------------------------------------------------------------------------------

    def begin(self, state: State, by: By | None = None) -> bool:
        """Begin a log with a state at its beginning, and say so in that of the store; False if there is one."""
        self.session.check_operations_seal()  # now, so that nobody else's request fails with this one
        if not self.session.create(state.experiment.id):
            return False
        self._begun.append((state.experiment.id, by))
        self._ledger.put(state)
        self._at_head.add(state.experiment.id)
        return True

    def declared(self, experiment_id: str, *, first: bool = False) -> dict[str, Any]:
        """How an experiment is declared by now, or was ``first``."""
        self.write(experiment_id)
        return latest_declaration(self.session, experiment_id, 1 if first else MAX_POSITION)

    def time(self, state: State) -> int:
        """The time of the next event: now, unless the log is ahead of this clock; times in a log never decrease."""
        return max(self._now, state.at)

    def append(self, state: State, event: Event, reports: Reports | None = None, by: By | None = None) -> int:
        """Fold an event now; it is written before the commit. A report is added to the given ones on its decision.

        If a safety rule fires by it, the next event says so. Returns the position of the event.
        """
        self._append_one(state, event, reports, by)
        seq = state.head.seq
        self.stop_if_due(state)
        return seq

    def stop_if_due(self, state: State) -> bool:
        """Say in the log which safety rules have fired; whether there are any."""
        stopped = False
        while state.rules.rules and (due := state.rules.due(self.time(state), state.arms)) is not None:
            self._append_one(state, due)
            stopped = True
        return stopped

    def _append_one(self, state: State, event: Event, reports: Reports | None = None, by: By | None = None) -> None:
        detach, seals = state.experiment.units is not None, self.session.seals
        record = seal_event(state.head, event, by, detach=detach, seals=seals, experiment=state.experiment.id)
        entry = Entry(record.head, event, by)
        if reports is not None:
            reports.add(entry)
        self.changed.add(state.experiment.id)
        state.fold(entry, self.session, reports)
        self._write_later(state, [record])

    def append_sealed(self, state: State, sealed: Sequence[Record], first: Decided) -> None:
        """What :meth:`append` does with each of some decisions of one moment; not with units or safety rules."""
        self.changed.add(state.experiment.id)
        state.fold_decisions(sealed[-1].head, first, [str(record.decision) for record in sealed], self.session)
        self._write_later(state, sealed)

    def _write_later(self, state: State, new: Sequence[Record]) -> None:
        self.n_events += len(new)
        records, ids = self._unwritten.setdefault(state.experiment.id, ([], set()))
        records += new
        ids.update([record.decision for record in new])

    def close_windows(self, state: State) -> None:
        """Count the defaults of windows that have closed by now, before the next event does so."""
        self.changed.add(state.experiment.id)
        state.close_windows(self.time(state), state.head.seq + 1, self.session)

    def decided(self, experiment_id: str, ids: Sequence[str]) -> dict[str, Decided]:
        """Those of some decisions that have been made, by id."""
        self.write(experiment_id, ids)
        records = self.session.of_decisions(experiment_id, Decided.kind, ids)
        return {id_: read_as(Decided, record) for id_, record in records.items()}

    def reports(self, state: State, ids: Sequence[str]) -> dict[str, Reports]:
        """The reports on some decisions, by id; left out: decisions that were never made."""
        self.write(state.experiment.id, ids)
        histories = self.session.histories(state.experiment.id, ids, state.head.seq)
        read = state.repairs.read
        return {id_: Reports(state.experiment, list(map(read, history))) for id_, history in histories.items()}

    def write(self, experiment_id: str, about: Sequence[str] | None = None) -> None:
        """Write what is not written yet; only if it is ``about`` one of some decisions, if those are given."""
        records, ids = self._unwritten.get(experiment_id, ([], set()))
        if records and (about is None or not ids.isdisjoint(about)):
            self.session.append(experiment_id, records)
            del self._unwritten[experiment_id]

    def finish(self) -> None:
        """Write what is not written yet, and a part of a snapshot where one is due; then the session may commit."""
        for experiment_id in self._at_head:
            self.revise_if_short(experiment_id)
            self.write(experiment_id)
            state = self._in_memory(experiment_id)
            if self._ledger.snapshots.has_work(state):
                self.changed.add(experiment_id)
                self._ledger.snapshots.write_part(self.session, state)
        for id_, by in self._begun:  # last, as whoever archives does it: so nobody waits for each other in a ring
            log_operation(self.session, "created", {"experiment": id_}, by)

    # ---- revisions and snapshots --------------------------------------------------------------------------------

    def revise_if_short(self, experiment_id: str) -> None:
        """Fold a short log anew at once: nobody waits for long."""
        state, most = self._in_memory(experiment_id), self._ledger.max_replayed
        if state.corrected_from is not None and (most is None or self._n_learned(state) <= most):
            self.revise_now(experiment_id)

    def revise_now(self, experiment_id: str) -> None:
        """Fold a log anew for what does not count yet."""
        state = self._in_memory(experiment_id)
        if state.corrected_from is not None:
            self.write(experiment_id)
            self.revise(start(self.session, experiment_id, view=state.head.seq, before=state.corrected_from))

    def _n_learned(self, state: State) -> int:
        """How much there is to fold: events, and past rows, which are all in one of them."""
        known, experiment_id = self._ledger.past_rows, state.experiment.id
        if experiment_id not in known:
            past = past_rows(self.session, experiment_id)
            known[experiment_id] = 0 if past is None else past.rows
        return state.head.seq + known[experiment_id]

    def revise(self, revised: State, begun: UnfinishedSnapshot | None = None) -> bool:
        """Go on from a state with a later view, and say so in the log; False if there is nothing to gain from it.

        Parameters
        ----------
        revised
            A state of this experiment; what it has not folded yet is folded here.
        begun
            A snapshot of it that is in the store, but not said to be complete yet. Other processes go on from there.
        """
        experiment_id = revised.experiment.id
        state = self.state(experiment_id)
        if state.corrected_from is None or revised.view <= state.view or revised.head.seq > state.head.seq:
            return False
        self.write(experiment_id)
        follow(self.session, revised, state.head)
        kept = begun.seq if begun is not None and self.session.complete_snapshot(begun) else None
        self._erase_units(state, revised.view)
        self.session.drop_snapshots(experiment_id, state.corrected_from, but=kept)  # the others are untrue now
        if kept is not None:
            revised.last_snapshot = kept
        self._ledger.put(revised)
        self.append(revised, Revised(self.time(revised), revised.view))
        return True

    def _erase_units(self, state: State, view: int) -> None:
        """Remove the personal data of units that count no more with a new view: from here on, no state rests on them.

        Not before: a process that folds the log up to here must come to the same state as the others.
        """
        if state.experiment.units is not None:
            for unit in erased_units(self.session, state.experiment.id, view, after=state.view):
                self.session.erase(state.experiment.id, unit)

    def write_snapshot(self, experiment_id: str) -> None:
        """Keep the state at once, so that a start need not read the whole log."""
        state = self.state(experiment_id)
        self.write(experiment_id)
        self._ledger.snapshots.write_now(self.session, state)
