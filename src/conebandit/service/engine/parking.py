"""Requests that wait beside the turns: for a log that must be read first, or for a lock that somebody else holds."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from conebandit.experiment.errors import RefusalError
from conebandit.service.engine.ledger import Ledger
from conebandit.service.engine.readers import LogRead, LogReaders
from conebandit.service.engine.requests import Request, reply_to_all
from conebandit.service.errors import BusyError, CorruptionError
from conebandit.service.log.state import State

MAX_TRIES = 3  # to read a log to its head without its lock, while others append much
MAX_LOCKED, PAUSE = 10.0, 0.25  # seconds to wait for a lock, and between tries


def refuse(requests: list[Request], error: RefusalError) -> None:
    """Answer all of them with an error."""
    reply_to_all([(request, error) for request in requests])


class Parking:
    """Those that wait, by experiment. Requests that come later on the same experiment wait with them.

    Parameters
    ----------
    readers
        Read logs; what came of it is then handed to :meth:`resume`.
    ledger
        Lends the states, and gets those that were read.
    again
        Called, by another thread, when a lock should be tried again; what it is given is for :meth:`resume`, too.

    Attributes
    ----------
    requests
        By experiment.
    """

    def __init__(self, readers: LogReaders, ledger: Ledger, again: Callable[[LogRead], None]) -> None:
        self._readers, self._ledger, self._again = readers, ledger, again
        self.requests: dict[str, list[Request]] = {}
        self._tries: dict[str, int] = {}  # how often a log was read, and others had gone far ahead meanwhile
        self._locked_since: dict[str, float] = {}  # by the monotonic clock

    def may_read(self, experiment: str) -> bool:
        """Whether a log that is far ahead should be read beside the turns; not for ever."""
        return self._tries.get(experiment, 0) < MAX_TRIES

    def until_read(self, experiment: str, requests: list[Request]) -> None:
        """Have a log read; until then its requests wait."""
        self.requests[experiment] = requests
        self._tries[experiment] = self._tries.get(experiment, 0) + 1
        self._readers.read(experiment, self._ledger.lend(experiment))

    def until_unlocked(self, experiment: str, requests: list[Request], error: BusyError, *, closing: bool) -> None:
        """Try again in a moment; after a while, or if there is no time for that, refuse."""
        now = time.monotonic()
        if closing or now > self._locked_since.setdefault(experiment, now) + MAX_LOCKED:
            self._locked_since.pop(experiment, None)
            refuse(requests, error)
            return
        self.requests[experiment] = requests
        timer = threading.Timer(PAUSE, self._again, [LogRead(experiment, None, None)])
        timer.daemon = True
        timer.start()

    def answered(self, experiment: str) -> None:
        """It was neither behind nor locked."""
        self._tries.pop(experiment, None)
        self._locked_since.pop(experiment, None)

    def resume(self, read: LogRead) -> list[Request]:
        """Use what was read; the requests that have waited for it."""
        waiting = self.requests.pop(read.experiment)
        if isinstance(read.found, State):
            self._ledger.put(read.found)
            return waiting
        self._tries.pop(read.experiment, None)
        if isinstance(read.found, CorruptionError) and read.head is not None:
            self._ledger.note_damage(read.experiment, read.head, str(read.found))
        elif read.found is not None:
            refuse(waiting, read.found)
            return []
        return waiting
