"""What was computed for one who looked, kept for the next: a few answers by what they depend on."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from typing import Any, TypeVar

T = TypeVar("T")


class Kept:
    """The answers that were asked for last; threads may share it.

    Parameters
    ----------
    most
        How many are kept.

    Examples
    --------
    >>> kept = Kept(1)
    >>> kept.get("a", lambda: 1), kept.get("a", lambda: 2), kept.get("b", lambda: 3), kept.get("a", lambda: 4)
    (1, 1, 3, 4)
    """

    def __init__(self, most: int) -> None:
        self._most, self._lock = most, threading.Lock()
        self._answers: dict[Hashable, Any] = {}  # the one that was asked for last comes last
        self._making: dict[Hashable, threading.Lock] = {}

    def get(self, key: Hashable, make: Callable[[], T]) -> T:
        """The answer for this key; of several who ask for it at once, one makes it and the others wait."""
        with self._lock:
            making = self._making.setdefault(key, threading.Lock())
        with making:
            with self._lock:
                known, found = key in self._answers, self._answers.pop(key, None)
            try:
                answer: T = found if known else make()
            except BaseException:
                with self._lock:
                    self._making.pop(key, None)
                raise
            with self._lock:
                self._answers[key] = answer
                while len(self._answers) > self._most:
                    self._making.pop(next(iter(self._answers)), None)
                    del self._answers[next(iter(self._answers))]
        return answer
