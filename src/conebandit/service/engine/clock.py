"""The clock that events are dated by: the system's, unless that jumps, and only if the database's agrees."""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable

from conebandit.service.errors import UnavailableError
from conebandit.service.stores.base import Store

MAX_STEP = 60_000  # milliseconds by which the system's clock may be set while the service runs, or differ from others
AGREED, DISAGREED = 60.0, 1.0  # seconds until the database's clock is asked again

log = logging.getLogger("conebandit.service")


def system_clock() -> int:
    """Milliseconds since 1970 by the system's clock."""
    return time.time_ns() // 1_000_000


def since_boot() -> int:
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
        system: Callable[[], int] = system_clock,
        steady: Callable[[], int] = since_boot,
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


class ClockComparison:
    """Compares a clock with the database's, now and then; while they disagree, nothing may be dated.

    A clock that is wrong when a process starts jumps nowhere. Several processes that share a database can be held to
    its clock.

    Parameters
    ----------
    clock
        Ours: milliseconds since 1970.
    database
        The other one; None if there is none.

    Attributes
    ----------
    ahead
        By how much ours was ahead of the other when it was last asked, in milliseconds; below 0: behind.

    Examples
    --------
    >>> comparison = ClockComparison(lambda: 100_000, lambda: 1000)
    >>> comparison.check()
    Traceback (most recent call last):
        ...
    conebandit.service.errors.UnavailableError: the clock of this machine is 99 s ahead of the database's: ...
    """

    def __init__(self, clock: Callable[[], int], database: Callable[[], int | None]) -> None:
        self._clock, self._database = clock, database
        self.ahead = 0
        self._asked_until = -math.inf

    def check(self) -> None:
        """An ``UnavailableError`` if the clocks differ by more than a minute, and longer than it took to ask."""
        if time.monotonic() >= self._asked_until:
            before, theirs, after = self._clock(), self._database(), self._clock()
            if theirs is not None:  # ours was somewhere between the two when theirs was read
                self.ahead = max(before - theirs, 0) + min(after - theirs, 0)
            self._asked_until = time.monotonic() + (DISAGREED if self._disagree else AGREED)
        if self._disagree:
            raise UnavailableError(
                f"the clock of this machine is {abs(self.ahead) / 1000:.0f} s "
                f"{'ahead of' if self.ahead > 0 else 'behind'} the database's: set the one that is wrong. Until then "
                "nothing is written."
            )

    @property
    def _disagree(self) -> bool:
        return abs(self.ahead) > MAX_STEP


def plausible_now(store: Store) -> int:
    """Milliseconds since 1970; an ``UnavailableError`` if the clock of the database is another one."""
    ClockComparison(system_clock, store.now).check()
    return system_clock()
