"""The reports on one decision: which values count, which ones correct others, and which ones came too late."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from conebandit.experiment.declaration import Experiment
from conebandit.service.errors import CorruptionError
from conebandit.service.log.events import Decided, Entry, Reported
from conebandit.service.log.windows import deadline


class Report(NamedTuple):
    """What one report does."""

    counts: dict[str, float]  # values that are learned there: first of their metric, in time; as corrected later
    corrects: int  # position of the earliest report whose value it changes; 0 if none
    late: list[str]  # metrics whose window had closed


class Reports:
    """The reports on one decision, each in the light of the others.

    Parameters
    ----------
    experiment
        Whose windows count.
    history
        The entries of the decision in the log, as far as they are to be known: the decision first, then reports.
    """

    def __init__(self, experiment: Experiment, history: Sequence[Entry]) -> None:
        self._experiment = experiment
        first = history[0]
        if not isinstance(first.event, Decided):
            raise CorruptionError(f"event {first.seq} ({first.event.kind}) is about a decision that was not made.")
        self.decided = first.event
        self.values: dict[str, float] = {}  # the last value of each metric, late or not
        self._first: dict[str, int] = {}
        self._late: set[str] = set()
        self._reported: dict[int, tuple[list[str], int, list[str]]] = {}
        for entry in history[1:]:
            self.add(entry)

    def add(self, entry: Entry) -> None:
        """Know of one more report."""
        event = entry.event
        if not isinstance(event, Reported):
            raise CorruptionError(f"event {entry.seq} ({event.kind}): decision {self.decided.id!a} was made before.")
        new, corrects, late = [], 0, []
        for name, value in event.values.items():
            if name not in self._first:
                self._first[name] = entry.seq
                if self._closed(name, event.at):
                    self._late.add(name)
                else:
                    new.append(name)
            elif name not in self._late and self.values[name] != value:
                corrects = min(corrects or entry.seq, self._first[name])
            if name in self._late:
                late.append(name)
            self.values[name] = value
        self._reported[entry.seq] = (new, corrects, late)

    def _closed(self, name: str, at: int) -> bool:
        """Whether the window of a metric has closed."""
        window = self._experiment.metrics[self._experiment.metric_index[name]].window
        return window is not None and at > deadline(self.decided.at, window)

    def at(self, seq: int) -> Report:
        """What the report at a position does, given all the others."""
        new, corrects, late = self._reported[seq]
        return Report({name: self.values[name] for name in new}, corrects, late)
