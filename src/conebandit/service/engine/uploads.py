"""Uploads of edges where several processes share a store: written at once, each edge for itself, and folded later.

Whoever appends to a log holds its lock, and has folded all that others have appended. An edge need not wait for that:
its decisions are put into a partition of their own, and acknowledged. Then one process puts them into the log.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection
from concurrent.futures import Future
from functools import partial
from typing import Any

from conebandit.experiment.errors import RefusalError
from conebandit.service.engine.batches import TAKEN, Batch, unchecked
from conebandit.service.engine.ready import Ready
from conebandit.service.engine.turn import Turn
from conebandit.service.errors import NotYetError
from conebandit.service.log.entries import By, read_as
from conebandit.service.log.events import Decided
from conebandit.service.replies import RefusedDecision, ReturnedDecision, Upload
from conebandit.service.stores.base import Store
from conebandit.service.stores.personal import DECISION
from conebandit.service.stores.session import Session

MAX_PAUSE = 1.0  # seconds after which it is tried again, where the store does not answer
MAX_WAITING = 500  # uploads of an experiment, up to 1000 decisions and a megabyte each; then edges have to wait
MAX_ROWS_RETURNED, MAX_RETURNED = 20, 100  # uploads that are looked at, and decisions that an edge is told of at once
MAX_WAIT = 0.3  # seconds within which another process, if one is at it, takes the next uploads
log = logging.getLogger("conebandit.service")


class Uploads:
    """Puts uploads into the log, in a thread; the process that did it last goes on with it, as its state is at the end.

    Parameters
    ----------
    store
        Where uploads wait.
    submit
        Has the writer do something: :meth:`Writer.submit`.
    """

    def __init__(self, store: Store, submit: Callable[[str, Callable[[Turn], Any]], Future[Any]]) -> None:
        self._store, self._submit = store, submit
        self._lock, self._wake, self._ended = threading.Lock(), threading.Event(), threading.Event()
        self._wanted: set[str] = set()
        self._mine: set[str] = set()  # experiments whose uploads this process took last
        # Of others: what was to be taken next, and since when that has been so.
        self._left: dict[str, tuple[tuple[str, int], float]] = {}
        self._thread = threading.Thread(target=self._serve, name="conebandit-uploads", daemon=True)

    def begin(self) -> None:
        """Take what others have left."""
        with self._store.read() as session:
            self._wanted.update(session.experiments_with_uploads())
        self._wake.set()
        self._thread.start()

    def add(self, experiment: str, edge: str, batch: Batch, by: By | None, heard: Collection[str] = ()) -> Upload:
        """Keep what an edge has sent; it will be in the log soon.

        ``heard``: ids of what it has been told of before, and need not be kept here any more.
        """
        with self._store.write() as session:
            returned = _admit(session, experiment, edge, by, heard)
            new, refused = batch.news(_decided(session, experiment, batch))
            if new:
                session.add_upload(experiment, edge, Batch(batch.since, new, []).to_text(by))
        self._want(experiment)
        told = [*batch.refused, *(RefusedDecision(id_, reason) for id_, reason in refused.items())]
        repeated = len(batch.decisions) - len(new) - len(refused)
        return Upload(len(new), repeated, tuple(told), unchecked(new), returned)

    def add_ready(self, experiment: str, edge: str, ready: Ready, by: By | None) -> Upload:
        """What :meth:`add` does with decisions that are written as the log will have them."""
        with self._store.write() as session:
            returned = _admit(session, experiment, edge, by)
            repeated = session.has_any_decision(experiment, ready.ids)
            if not repeated:
                session.add_upload(experiment, edge, ready.to_text())
        if repeated:
            return self.add(experiment, edge, *ready.to_batch())
        self._want(experiment)
        return Upload(len(ready.ids), 0, (), 0, returned)

    def _want(self, experiment: str) -> None:
        with self._lock:
            self._wanted.add(experiment)
        self._wake.set()

    def _serve(self) -> None:
        while not self._ended.is_set():
            self._wake.wait(MAX_WAIT if self._left else None)
            self._wake.clear()
            with self._lock:
                wanted, self._wanted = self._wanted | self._left.keys(), set()
            for experiment in sorted(wanted):
                try:
                    self._take(experiment)
                except (RefusalError, OSError) as error:
                    log.warning("%s: uploads of edges wait: %s", experiment, error)
                    self._again_later(experiment)
                except Exception:  # this thread must not end
                    log.exception("%s: uploads of edges could not be taken", experiment)
                    self._again_later(experiment)

    def _take(self, experiment: str) -> None:
        """Put all that waits for an experiment into its log; if another process does, leave it to that."""
        if experiment not in self._mine and self._may_be_taken(experiment):
            return
        n_taken = 0
        while not self._ended.is_set() and self._next(experiment) is not None:
            n_taken += self._submit(experiment, partial(Turn.take_uploads, experiment_id=experiment)).result()
        (self._mine.add if n_taken else self._mine.discard)(experiment)

    def _may_be_taken(self, experiment: str) -> bool:
        """Whether another process may take what waits. To take turns with it would mean to fold what it appends."""
        first, now = self._next(experiment), time.monotonic()
        was, since = self._left.pop(experiment, (None, now))
        if first is None:
            return True
        if first == was and now >= since + MAX_WAIT:
            return False  # nobody does
        self._left[experiment] = first, since if first == was else now
        return True

    def _next(self, experiment: str) -> tuple[str, int] | None:
        """What is to be taken next; None if nothing waits."""
        with self._store.read() as session:
            return None if session.head(experiment) is None else session.next_upload(experiment)

    def _again_later(self, experiment: str) -> None:
        with self._lock:
            self._wanted.add(experiment)
        if not self._ended.wait(MAX_PAUSE):
            self._wake.set()

    def close(self) -> None:
        """End the thread; what waits will be taken by another process, or by the next."""
        self._ended.set()
        self._wake.set()
        if self._thread.ident is not None:
            self._thread.join()


def _admit(
    session: Session, experiment: str, edge: str, by: By | None, heard: Collection[str] = ()
) -> tuple[ReturnedDecision, ...]:
    """Let an edge upload something, and say what comes back to it.

    A ``NotYetError`` if so much waits that it had better keep what it has; some may come in at the same time.
    """
    waiting, aside = session.count_uploads(experiment, edge)
    if waiting >= MAX_WAITING:
        raise NotYetError(f"{waiting} uploads of edges wait to be put into the log of {experiment!r}; try again.")
    return _returned(session, experiment, edge, by, heard) if aside else ()


def _returned(
    session: Session, experiment: str, edge: str, by: By | None, heard: Collection[str]
) -> tuple[ReturnedDecision, ...]:
    """Some of the decisions of an edge that could not be put into the log; not kept any more: what it has ``heard``.

    For the API key that they came with alone: anybody can say that he is an edge of some name, and they have contexts.
    """
    returned: list[ReturnedDecision] = []
    for row in session.uploads_aside_of(experiment, edge, MAX_ROWS_RETURNED):
        batch, sender = Batch.from_text(row.content)
        if (sender and sender.key) != (by and by.key):
            continue
        left = {id_: one for id_, one in batch.decisions.items() if id_ not in heard}
        if len(left) < len(batch.decisions):
            text = Batch(batch.since, left, []).to_text(sender) if left else None
            session.leave_of_upload(experiment, row, text)
        returned += [ReturnedDecision(id_, TAKEN, one.to_table()) for id_, one in left.items()]
    return tuple(returned[:MAX_RETURNED])


def _decided(session: Session, experiment: str, batch: Batch) -> dict[str, Decided]:
    """Those of some decisions that are in the log."""
    ids = list(batch.decisions)
    aliases = {id_: id_ for id_ in ids}
    if any(one.unit is not None for one in batch.decisions.values()):
        aliases = session.aliases(experiment, DECISION, ids)
    found = session.of_decisions(experiment, Decided.kind, list(aliases.values()))
    return {id_: read_as(Decided, found[alias]) for id_, alias in aliases.items() if alias in found}
