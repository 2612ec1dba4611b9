"""Runs that fail: what is said of them, and when no more runs of a policy in an environment are tried."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

from conebandit.studies.plan import Job

MAX_IN_A_ROW = 30  # runs of a policy in an environment that may fail, none finished between, before it is given up
MAX_TOLD = 20  # policies in environments that a message names

Cell = tuple[str, str]  # labels of a policy and of an environment


class Failure(NamedTuple):
    """A run that has raised an error, in words."""

    job: Job
    error: str


def tried(run: Callable[[Any, Job], Any], recipe: Any, job: Job, *, here: bool) -> Any:
    """What ``run`` makes of a recipe and a job; a :class:`Failure` if it raises anything, often in somebody's own code.

    A worker of a cluster is not left to deal with it: on Dask nobody would hear of what is no ``Exception``. ``here``
    says whether this is the process that was asked for the study: there, whoever interrupts it ends it.
    """
    try:
        return run(recipe, job)
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt) and here and threading.current_thread() is threading.main_thread():
            raise
        return Failure(job, f"{type(error).__name__}: {error}")


@dataclass
class _Failed:
    """What is known of a policy in an environment of which a run has failed."""

    first: Failure
    runs: int = 0
    in_a_row: int = 0
    given_up: bool = False  # also when one that was under way is finished later

    def add(self, failure: Failure) -> None:
        self.first = min(self.first, failure, key=lambda each: each.job.run)
        self.runs += 1
        self.in_a_row += 1
        self.given_up = self.given_up or self.in_a_row >= MAX_IN_A_ROW


class Failures:
    """Which of some runs have failed, by policy and environment.

    A policy that fails whatever its seed would otherwise be tried with every seed; so it is given up in an environment
    where ``MAX_IN_A_ROW`` runs have failed and none was finished between. All other runs are made.
    """

    def __init__(self, jobs: Iterable[Job]) -> None:
        self._jobs = Counter(map(_cell, jobs))
        self._tried = Counter[Cell]()
        self._found: dict[Cell, _Failed] = {}

    def failed(self, failure: Failure) -> None:
        """Note a run that has failed."""
        cell = _cell(failure.job)
        self._tried[cell] += 1
        self._found.setdefault(cell, _Failed(failure)).add(failure)

    def finished(self, job: Job) -> None:
        """Note a run that was finished."""
        cell = _cell(job)
        self._tried[cell] += 1
        if cell in self._found:
            self._found[cell].in_a_row = 0

    def given_up(self, job: Job) -> bool:
        """Whether a run is not to be tried any more."""
        found = self._found.get(_cell(job))
        return found is not None and found.given_up

    @property
    def untried(self) -> int:
        """How many runs were not tried, since their policy was given up."""
        return sum(map(self._left, self._found))

    def __len__(self) -> int:
        return sum(each.runs for each in self._found.values())

    def in_words(self) -> list[str]:
        """A sentence or two for each policy that has failed in an environment."""
        found = sorted(self._found, key=lambda cell: self._found[cell].first.job.run)
        told = [self._told(cell, self._found[cell]) for cell in found[:MAX_TOLD]]
        others = len(found) - len(told)
        return [*told, f"{others} more policies in environments have failed."] if others else told

    def _left(self, cell: Cell) -> int:
        return self._jobs[cell] - self._tried[cell] if self._found[cell].given_up else 0

    def _told(self, cell: Cell, found: _Failed) -> str:
        which, left = f"Policy {cell[0]} in environment {cell[1]}", self._left(cell)
        number = f" ({found.runs} have failed, this one first)" if found.runs > 1 else ""
        words = f"{which} with seed {found.first.job.seed}{number}: {found.first.error.rstrip('.')}."
        return f"{words} After {MAX_IN_A_ROW} in a row the other {left} were not tried." if left else words


def _cell(job: Job) -> Cell:
    return job.policy.label, job.scene.label
