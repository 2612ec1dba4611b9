"""Reading long logs without their locks, beside the turns: neither other experiments nor processes wait for it."""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from typing import NamedTuple

from conebandit.experiment.errors import RefusalError
from conebandit.service.errors import ServiceError, UnavailableError
from conebandit.service.log.bodies import MAX_POSITION
from conebandit.service.log.replay import DECLARATIONS, read_to_head
from conebandit.service.log.state import State
from conebandit.service.stores.base import Store
from conebandit.service.stores.records import Head, Record
from conebandit.service.stores.session import Session

THREADS = 2  # few: each has a connection to the store, and takes time from the decisions
CLOSING = "the service is shutting down; try again."
FAULT = "something unexpected went wrong; nothing was changed."

log = logging.getLogger("conebandit.service")


class LogRead(NamedTuple):
    """What came of reading a log: a state, nothing, or what went wrong before this head."""

    experiment: str
    found: State | RefusalError | None
    head: Head | None


class LogReaders:
    """A few threads that read one log after the other.

    Parameters
    ----------
    store
        Where to read.
    done
        Called, by one of the threads, with what came of it.
    prepare
        Called, by one of the threads, with what a log declares, first and later, before it is folded; may see to its
        kernels.
    """

    def __init__(
        self, store: Store, done: Callable[[LogRead], None], prepare: Callable[[Record], None] = lambda _: None
    ) -> None:
        self._store, self._done, self._prepare = store, done, prepare
        self._given_up = False
        self._wanted: queue.SimpleQueue[tuple[str, State | None] | None] = queue.SimpleQueue()
        self._threads = [
            threading.Thread(target=self._run, name="conebandit-reader", daemon=True) for _ in range(THREADS)
        ]
        for thread in self._threads:
            thread.start()

    def read(self, experiment: str, state: State | None) -> None:
        """Bring a state, or a new one, to the end of a log; it is ours until that is done."""
        self._wanted.put((experiment, state))

    def give_up(self) -> None:
        """End what is being read, and refuse what is asked for from now on."""
        self._given_up = True

    def close(self) -> None:
        """Wait for the end."""
        self.give_up()
        for _ in self._threads:
            self._wanted.put(None)
        for thread in self._threads:
            thread.join()

    def _run(self) -> None:
        while (wanted := self._wanted.get()) is not None:
            self._done(self._read(*wanted))

    def _read(self, experiment: str, state: State | None) -> LogRead:
        head = None
        try:
            with self._look() as session:
                head = session.head(experiment)
            if head is not None and (state is None or state.stale):
                self._prepare_for(experiment)
            return LogRead(experiment, read_to_head(self._look, experiment, state), head)
        except RefusalError as error:
            return LogRead(experiment, error, head)
        except Exception:
            log.exception("the log of %s could not be read", experiment)
            return LogRead(experiment, ServiceError(FAULT), head)

    def _prepare_for(self, experiment: str) -> None:
        with suppress(RefusalError):  # whoever reads the log will hear of it
            with self._look() as session:
                declared = session.of_kinds(experiment, DECLARATIONS, MAX_POSITION)
            for record in declared:
                self._prepare(record)

    def _look(self) -> AbstractContextManager[Session]:
        if self._given_up:
            raise UnavailableError(CLOSING)
        return self._store.read()
