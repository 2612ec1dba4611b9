"""How long to wait, when to try again, and when not even to try."""

from __future__ import annotations

import math
import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

FIRST_PAUSE, MAX_PAUSE = 0.05, 2.0  # seconds between tries: doubled from one to the other
RETRIED = (0, 408, 429, 502, 503, 504)  # also 500 would come again: the service is at fault
MAX_FAILURES = 3  # in a row: one may be a restart, two bad luck
CLOSED_FOR = 1.0  # seconds without a try, so a dead service costs one caller a deadline each second, and no other
MAX_WATCHED = 1000  # experiments with failures; names of experiments may come from strangers

_jitter = random.SystemRandom()


class Deadline:
    """A moment by which something must have ended, whatever it is made of.

    Examples
    --------
    >>> now = [0.0]
    >>> deadline = Deadline(2.0, clock=lambda: now[0])
    >>> now[0] = 1.5
    >>> deadline.left()
    0.5
    >>> now[0] = 2.0
    >>> deadline.left()
    Traceback (most recent call last):
        ...
    TimeoutError: no answer within 2 s
    """

    def __init__(self, seconds: float, *, clock: Callable[[], float] | None = None) -> None:
        self._clock = time.monotonic if clock is None else clock
        self._seconds = seconds
        self.restart()

    def restart(self) -> None:
        """From now on, the same time again: for long answers, which may take as long as they keep coming."""
        self._end = self._clock() + self._seconds

    def left(self) -> float:
        """Seconds that are left; there are some, or it raises."""
        left = self._end - self._clock()
        if left <= 0:
            raise TimeoutError(f"no answer within {self._seconds:g} s")
        return left

    def allows(self, pause: float) -> bool:
        """Whether something is left after a pause."""
        return self._clock() + pause < self._end


@dataclass
class Tries:
    """Tries of one request.

    Examples
    --------
    >>> tries = Tries(retries=1)
    >>> 0.025 <= tries.pause_after(503, Deadline(1.0)) <= 0.05
    True
    >>> tries.pause_after(503, Deadline(1.0)) is None           # that was the last one
    True
    """

    retries: int
    made: int = 0

    def pause_after(self, status: int, deadline: Deadline) -> float | None:
        """How long to wait before the next try; None if there is to be no other."""
        pause = jittered(min(FIRST_PAUSE * 2**self.made, MAX_PAUSE))
        self.made += 1
        if status not in RETRIED or self.made > self.retries or not deadline.allows(pause):
            return None
        return pause


def jittered(pause: float) -> float:
    """Half of a pause to the whole of it, so that clients do not come back all at once."""
    return pause * _jitter.uniform(0.5, 1.0)


class Breaker:
    """Knows the experiments that do not get answers, so that not every caller has to find out anew.

    By experiment, since one of them may be in trouble, with a damaged log for instance, while the others are well.

    Examples
    --------
    >>> now = [0.0]
    >>> breaker = Breaker(clock=lambda: now[0])
    >>> for _ in range(MAX_FAILURES):
    ...     _ = breaker.failed("checkout")
    >>> breaker.allows("checkout"), breaker.allows("search")
    (False, True)
    >>> now[0] = CLOSED_FOR
    >>> breaker.allows("checkout"), breaker.allows("checkout")      # one may try
    (True, False)
    """

    def __init__(self, *, clock: Callable[[], float] | None = None) -> None:
        self._clock = time.monotonic if clock is None else clock
        self._lock = threading.Lock()
        self._failures: dict[str, int] = {}
        self._closed_until: dict[str, float] = {}

    def allows(self, experiment: str) -> bool:
        """Whether to ask. Once the pause is over one caller may, and the others wait for what comes of it."""
        if experiment not in self._closed_until:  # without the lock: this is the way of every request
            return True
        with self._lock:
            now = self._clock()
            if now < self._closed_until.get(experiment, -math.inf):
                return False
            self._closed_until[experiment] = now + CLOSED_FOR
            return True

    def failed(self, experiment: str) -> bool:
        """A request had no good answer; whether others are not to try, from now on."""
        with self._lock:
            if len(self._failures) >= MAX_WATCHED and experiment not in self._failures:
                self._failures.clear()
                self._closed_until.clear()
            self._failures[experiment] = self._failures.get(experiment, 0) + 1
            if self._failures[experiment] >= MAX_FAILURES:
                self._closed_until[experiment] = self._clock() + CLOSED_FOR
            return self._failures[experiment] == MAX_FAILURES

    def succeeded(self, experiment: str) -> bool:
        """A request was answered; whether one before it was not."""
        if experiment not in self._failures:
            return False
        with self._lock:
            self._closed_until.pop(experiment, None)
            return self._failures.pop(experiment, None) is not None
