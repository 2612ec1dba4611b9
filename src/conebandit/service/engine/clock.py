"""The clock that events are dated by: the system's, unless that jumps."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

MAX_STEP = 60_000  # milliseconds by which the system's clock may be set while the service runs

log = logging.getLogger("conebandit.service")


def _since_boot() -> int:
    """Milliseconds that nobody can set; where that is known, with the time that the machine was asleep."""
    clock = getattr(time, "CLOCK_BOOTTIME", None)
    return (time.monotonic_ns() if clock is None else time.clock_gettime_ns(clock)) // 1_000_000


class SteadyClock:
    """Milliseconds since 1970. If the system's clock jumps, time goes on as if it had not, until it has come back.

    Times in a log never decrease. So an event from a clock that was a year ahead for a second would date all later ones
    a year ahead: windows would not close, and timely values would be late. A clock that was wrong when the process
    started, and was then set right, is not followed either; that takes a restart.

    Parameters
    ----------
    system
        The system's clock, which somebody may set: milliseconds since 1970.
    steady
        A clock that nobody sets: milliseconds since any moment.

    Attributes
    ----------
    jumped
        How far the system's clock is from the time that we go by, in milliseconds; 0 while we go by it.

    Examples
    --------
    >>> system, steady = iter([1000, 90_000, 3000]), iter([0, 1000, 2000])
    >>> clock = SteadyClock(lambda: next(system), lambda: next(steady))
    >>> clock(), clock.jumped
    (2000, 88000)
    >>> clock(), clock.jumped
    (3000, 0)
    """

    def __init__(
        self,
        system: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
        steady: Callable[[], int] = _since_boot,
    ) -> None:
        self._system, self._steady = system, steady
        self._offset = system() - steady()
        self.jumped = 0
        self._one_at_a_time = threading.Lock()

    def __call__(self) -> int:
        """The time."""
        with self._one_at_a_time:
            return self._tell(self._system(), self._steady())

    def _tell(self, system: int, steady: int) -> int:
        jumped = system - steady - self._offset
        if abs(jumped) <= MAX_STEP:
            if self.jumped:
                log.warning("the system's clock is right again; events are dated by it.")
            self._offset, self.jumped = system - steady, 0
            return system
        if not self.jumped:
            log.error(
                "the system's clock has jumped by %.0f s. Events are dated as if it had not; if it is right now, and "
                "was wrong before, restart the service.",
                jumped / 1000,
            )
        self.jumped = jumped
        return steady + self._offset
