"""Experiments whose locks somebody else holds for long: they are tried again now and then, and the others go on."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

MAX_LOCKED, PAUSE = 10.0, 0.25  # seconds to wait for a lock, and between tries


class LockedLogs:
    """Until when it is worth while to try again.

    Parameters
    ----------
    try_again
        Called with an experiment, by another thread, when it should be tried again.

    Examples
    --------
    >>> tried = threading.Event()
    >>> locked = LockedLogs(lambda experiment: tried.set())
    >>> locked.wait("checkout"), tried.wait(60)
    (True, True)
    """

    def __init__(self, try_again: Callable[[str], None]) -> None:
        self._try_again = try_again
        self._since: dict[str, float] = {}  # by the monotonic clock

    def wait(self, experiment: str) -> bool:
        """Have it tried again in a moment; False if that has been done for long enough."""
        now = time.monotonic()
        if now > self._since.setdefault(experiment, now) + MAX_LOCKED:
            self.forget(experiment)
            return False
        timer = threading.Timer(PAUSE, self._try_again, [experiment])
        timer.daemon = True
        timer.start()
        return True

    def forget(self, experiment: str) -> None:
        """It is not locked, or nobody waits any more."""
        self._since.pop(experiment, None)
