"""Work in small units, so that a long computation can be spread over many observations.

A piece of work is a generator. After each unit it yields what the unit cost, in multiply-adds, as counted from sizes
alone: so how far the work gets with a budget depends neither on the machine nor on what happens to be known already.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import Generic, TypeVar

from conebandit.kernels.cone_kernel.constants import UNIT

Result = TypeVar("Result")
Work = Generator[int, None, Result]


class Job(Generic[Result]):
    """Work that is done in installments.

    Attributes
    ----------
    spent
        What all units so far cost.
    result
        None until the work is done.

    Examples
    --------
    >>> def count():
    ...     for _ in range(3):
    ...         yield 10
    ...     return "done"
    >>> job = Job(count())
    >>> job.advance(15), job.advance(20), job.advance(35)       # two units, none that is not paid for, the last one
    (None, None, 'done')
    """

    def __init__(self, work: Work[Result]) -> None:
        self._work = work
        self.spent = 0
        self.result: Result | None = None

    def advance(self, paid: float) -> Result | None:
        """Go on until as much as was ``paid`` since the beginning is spent; the result at the end."""
        while self.result is None and self.spent < paid:
            try:
                self.spent += next(self._work)
            except StopIteration as end:
                self.result = end.value
        return self.result


def in_units(n: int, cost: int) -> Iterator[tuple[int, int]]:
    """Ranges of ``n`` like pieces, each of this ``cost``: as many at once as a unit of work can have, at least one.

    Examples
    --------
    >>> list(in_units(5, 100_000))
    [(0, 2), (2, 4), (4, 5)]
    """
    step = max(UNIT // cost, 1)
    return ((first, min(first + step, n)) for first in range(0, n, step))


def in_one_go(work: Work[Result]) -> Result:
    """The result of all units, one after the other."""
    while True:
        try:
            next(work)
        except StopIteration as end:
            result: Result = end.value
            return result
