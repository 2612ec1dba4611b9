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
        self._most, self._lock, self._answers = most, threading.Lock(), dict[Hashable, Any]()

    def get(self, key: Hashable, make: Callable[[], T]) -> T:
        """The answer for this key. Two who ask for it at once may both make it: nobody waits for another."""
        with self._lock:
            found: T | None = self._answers.get(key)
        if found is None:
            found = make()
        with self._lock:
            self._answers.pop(key, None)
            self._answers[key] = found  # the last one that was asked for comes last
            while len(self._answers) > self._most:
                del self._answers[next(iter(self._answers))]
        return found
