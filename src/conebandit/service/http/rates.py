"""How many decisions and outcomes a caller may ask for: a bucket of tokens for each API key, in this process."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

from conebandit.experiment.entries import UNITS, short
from conebandit.experiment.errors import InvalidError

_RATE = re.compile(r"([1-9]\d{0,8})/([smhd])")


@dataclass(frozen=True)
class Rate:
    """So many in so many seconds; they may all come at once."""

    count: int
    seconds: int

    @classmethod
    def parse(cls, text: str, where: str) -> Self:
        """From text such as ``100/s``.

        Examples
        --------
        >>> Rate.parse("6000/m", "rate")
        Rate(count=6000, seconds=60)
        >>> Rate.parse("many", "rate")
        Traceback (most recent call last):
            ...
        conebandit.experiment.errors.InvalidError: rate must look like 100/s, 6000/m, 50000/h or 100000/d; got 'many'.
        """
        match = _RATE.fullmatch(text)
        if match is None:
            raise InvalidError(f"{where} must look like 100/s, 6000/m, 50000/h or 100000/d; got {short(text)}.")
        return cls(int(match[1]), UNITS[match[2]])


class Bucket:
    """What is left of a rate. A batch that is larger than that passes once, and those that follow wait the longer.

    So a request can be refused before its body is read, and no batch is too large to pass at all.

    Examples
    --------
    >>> now = 0.0
    >>> bucket = Bucket(Rate(100, 1), clock=lambda: now)
    >>> bucket.take(400), bucket.wait()
    (None, 3.01)
    >>> now = 3.5
    >>> bucket.wait()
    0.0
    """

    def __init__(self, rate: Rate, clock: Callable[[], float] = time.monotonic) -> None:
        self._rate, self._clock = rate, clock
        self._left, self._at = float(rate.count), clock()

    def wait(self) -> float:
        """Seconds until something may pass; 0 if it may now."""
        now = self._clock()
        per_second = self._rate.count / self._rate.seconds
        self._left = min(self._left + (now - self._at) * per_second, float(self._rate.count))
        self._at = now
        return max(1.0 - self._left, 0.0) / per_second

    def take(self, count: int) -> None:
        """So many have passed."""
        self._left -= count
