"""Folding a long log anew for corrections and changes of arms, beside the turns, so that no decision waits for it."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from conebandit.experiment.errors import RefusalError
from conebandit.service.engine.snapshots import begin_snapshot
from conebandit.service.engine.transaction import Transaction
from conebandit.service.engine.turn import Turn
from conebandit.service.log.replay import MAX_LEFT, fold_page, start
from conebandit.service.log.snapshots import to_parts
from conebandit.service.log.state import State
from conebandit.service.stores.base import Store
from conebandit.service.stores.session import UnfinishedSnapshot

AT_ONCE = 100  # events between pauses of as long as they took: decisions in this process come first
MAX_PAUSE = 0.02  # seconds
RETRY = 10.0  # seconds after a revision that came to nothing
REPLAYED = 3000  # events a second, with pauses; after so long a process does what another one should have done

log = logging.getLogger("conebandit.service")

Submit = Callable[[str, Callable[[Turn], Any]], Future[Any]]


class GivenUpError(Exception):
    """A revision from which nothing is to be gained any more."""


class Revision:
    """A thread that folds the log of an experiment with all corrections up to now, and has a turn go on from there.

    It reads page by page, and asks for turns as every caller does: a short one for each part of a snapshot, from which
    other processes will go on, and a last one that writes ``revised`` into the log.

    Parameters
    ----------
    store
        Where to read.
    submit
        How to ask for a turn.
    state
        As it is now: ``corrected_from`` is not None. Only looked at here, not later.
    """

    def __init__(self, store: Store, submit: Submit, state: State) -> None:
        assert state.corrected_from is not None
        self._store, self._submit = store, submit
        self._id, self._view, self._before = state.experiment.id, state.head.seq, state.corrected_from
        self._given_up = threading.Event()
        self.failed = False
        self.ended: float | None = None  # by the monotonic clock
        self._thread = threading.Thread(target=self._run, name="conebandit-revision", daemon=True)
        self._thread.start()

    def give_up(self) -> None:
        """End soon."""
        self._given_up.set()

    def join(self) -> None:
        """Wait for the end."""
        self._thread.join()

    def _run(self) -> None:
        try:
            self._revise()
        except GivenUpError:
            pass
        except Exception as error:
            self.failed = True
            log.warning("%s: corrections must wait: %s", self._id, error, exc_info=not isinstance(error, RefusalError))
        self.ended = time.monotonic()
        if not self._given_up.is_set():
            self._submit(self._id, lambda turn: turn.describe(self._id))  # for corrections that came meanwhile

    def _revise(self) -> None:
        with self._store.read() as session:
            state = start(session, self._id, self._view, self._before)
        self._catch_up(state)
        begun = self._write_snapshot(state)
        self._turn(lambda turn: self._hand_over(state, begun, turn.transaction))

    def _hand_over(self, state: State, begun: UnfinishedSnapshot | None, transaction: Transaction) -> None:
        """Let the service go on from our state."""
        if transaction.revise(state, begun) and (begun is None or state.last_snapshot != begun.seq):
            transaction.write_snapshot(self._id)

    def _catch_up(self, state: State) -> None:
        """Fold until the end of the log is near."""
        left = MAX_LEFT + 1
        while left > MAX_LEFT:
            if self._given_up.is_set() or state.stale:
                raise GivenUpError
            began = time.perf_counter()
            with self._store.read() as session:
                head = session.head(self._id)
                if head is None or head.seq < state.head.seq:
                    raise GivenUpError  # another log of the same name
                fold_page(session, state, head, limit=AT_ONCE)
            left = head.seq - state.head.seq
            time.sleep(min(time.perf_counter() - began, MAX_PAUSE))

    def _write_snapshot(self, state: State) -> UnfinishedSnapshot | None:
        """Write a snapshot, which is completed by the turn that goes on from it.

        None if somebody else has kept, or has begun to keep, a state at this position.
        """
        seq = state.head.seq
        begun: UnfinishedSnapshot | None = self._turn(
            lambda turn: begin_snapshot(turn.transaction.session, self._id, seq)
        )
        if begun is None:
            return None
        for number, part in enumerate(to_parts(state, self._store.seals)):  # as it is at the first of them
            if not self._write_part(begun, number, part):
                return None
            self._catch_up(state)
        return begun

    def _write_part(self, begun: UnfinishedSnapshot, number: int, part: bytes) -> bool:
        return bool(self._turn(lambda turn: turn.transaction.session.add_snapshot_part(begun, number, part)))

    def _turn(self, work: Callable[[Turn], Any]) -> Any:
        return self._submit(self._id, work).result()


class Revisions:
    """One revision at a time for each experiment that needs one.

    Parameters
    ----------
    store, submit
        See :class:`Revision`.
    """

    def __init__(self, store: Store, submit: Submit) -> None:
        self._store, self._submit = store, submit
        self._lock = threading.Lock()
        self._closed = False
        self._running: dict[str, Revision] = {}
        self._not_before: dict[str, float] = {}

    def update(self, transaction: Transaction) -> None:
        """Begin what a transaction has made necessary, and end what is not necessary any more."""
        with self._lock:
            for state in transaction.states():
                id_ = state.experiment.id
                running = self._still_running(id_)
                if id_ in transaction.corrected_by_others:
                    self._not_before[id_] = time.monotonic() + RETRY + state.head.seq / REPLAYED
                if running is not None and state.corrected_from is None:
                    running.give_up()
                wanted = running is None and state.corrected_from is not None and not self._closed
                if wanted and time.monotonic() >= self._not_before.get(id_, 0.0):
                    self._running[id_] = Revision(self._store, self._submit, state)

    @property
    def running(self) -> int:
        """How many there are."""
        with self._lock:
            return sum(revision.ended is None for revision in self._running.values())

    def _still_running(self, id_: str) -> Revision | None:
        running = self._running.get(id_)
        if running is None or running.ended is None:
            return running
        if running.failed:
            self._not_before[id_] = running.ended + RETRY
        del self._running[id_]
        return None

    def close(self) -> None:
        """Give all up; the next start begins them anew."""
        with self._lock:
            self._closed = True
            running = list(self._running.values())
        for revision in running:
            revision.give_up()
        for revision in running:
            revision.join()
