"""Windows that close: which defaults count, and when. Only the next few are in memory; the others wait in the log.

Times of decisions never decrease in a log, once repairs of the clock are known, so the windows of a metric close in the
order of the decisions, and it is enough to know for each metric which decision was the last.
"""

from __future__ import annotations

import heapq
import itertools
from collections import deque
from collections.abc import Iterator
from typing import Any, NamedTuple

from conebandit.experiment.declaration import Experiment
from conebandit.service.log.events import Decided, Reported
from conebandit.service.log.repairs import Repairs
from conebandit.service.stores.records import Record
from conebandit.service.stores.session import Session

MAX_AHEAD = 500  # decisions of a metric in memory, at most


class Closing(NamedTuple):
    """A window of a decision; ``deadline`` is the last millisecond at which a value counts."""

    deadline: int
    seq: int
    metric: int
    id: str
    arm: str
    x: tuple[float, ...]


def deadline(decided_at: int, window: float) -> int:
    """The last millisecond at which a value counts."""
    return decided_at + round(window * 1000)


class _Queue:
    """The windows of one metric, in the order in which they close."""

    def __init__(self, metric: int, window: float) -> None:
        self.metric, self._window = metric, window
        self.closed = 0  # position of the last decision whose window has closed
        self.ahead: deque[Closing] = deque()
        self._latest = 0  # position of the last decision

    def add(self, seq: int, decided: Decided) -> None:
        """A decision was made. It is kept in memory only if all before it are."""
        known = self.ahead[-1].seq if self.ahead else self.closed
        if len(self.ahead) < MAX_AHEAD and known == self._latest:
            self.ahead.append(self._closing(seq, decided))
        self._latest = seq

    def resume(self, closed: int, latest: int) -> None:
        """Go on where a snapshot was made."""
        self.closed, self._latest = closed, latest

    def may_be_due(self, at: int) -> bool:
        """False if no window closed before ``at``; asked for every event, so it is quick."""
        return self.ahead[0].deadline < at if self.ahead else self.closed < self._latest

    def due(self, at: int, experiment: Experiment, session: Session, repairs: Repairs) -> Iterator[Closing]:
        """Windows that closed before ``at``, once each."""
        while True:
            if not self.ahead and self.closed < self._latest:
                page = session.next_of_kind(experiment.id, Decided.kind, self.closed, self._latest, MAX_AHEAD)
                for entry in map(repairs.read, page):
                    assert isinstance(entry.event, Decided)  # such were asked for
                    self.ahead.append(self._closing(entry.seq, entry.event))
            if not self.ahead or self.ahead[0].deadline >= at:
                return
            self.closed = self.ahead[0].seq
            yield self.ahead.popleft()

    def _closing(self, seq: int, made: Decided) -> Closing:
        return Closing(deadline(made.at, self._window), seq, self.metric, made.id, made.selection.arm, made.x)


class Windows:
    """The windows of an experiment's metrics that have a default.

    Parameters
    ----------
    experiment
        Whose metrics.
    """

    def __init__(self, experiment: Experiment) -> None:
        self._experiment = experiment
        self.repairs = Repairs()  # of the clock, as far as they are known
        self._latest = 0
        self._queues = [
            _Queue(m, metric.window)
            for m, metric in enumerate(experiment.metrics)
            if metric.default is not None and metric.window is not None
        ]

    def add(self, seq: int, decided: Decided) -> None:
        """A decision was made: its windows are open."""
        self._latest = seq
        for queue in self._queues:
            queue.add(seq, decided)

    def close(self, at: int, known: int, session: Session) -> Iterator[Closing]:
        """Windows that closed before ``at`` and in which no value came, in the order of their deadlines.

        Reports are known up to position ``known``.
        """
        open_ = [queue for queue in self._queues if queue.may_be_due(at)]
        queues = [queue.due(at, self._experiment, session, self.repairs) for queue in open_]
        if not queues:
            return  # as after most events
        due = heapq.merge(*queues)
        while part := list(itertools.islice(due, MAX_AHEAD)):
            histories = session.histories(self._experiment.id, list({closing.id for closing in part}), known)
            for closing in part:
                if not self._came(closing, histories.get(closing.id, [])):
                    yield closing

    def _came(self, closing: Closing, history: list[Record]) -> bool:
        """Whether a value came in time."""
        name = self._experiment.metrics[closing.metric].name
        reports = (self.repairs.read(record).event for record in history if record.kind == Reported.kind)
        return any(r.at <= closing.deadline and isinstance(r, Reported) and name in r.values for r in reports)

    def plain(self) -> list[Any]:
        """All that must be kept of it."""
        return [self._latest, [queue.closed for queue in self._queues]]

    def resume(self, plain: list[Any]) -> None:
        """Go on where :meth:`plain` was asked."""
        self._latest, closed = plain
        for queue, seq in zip(self._queues, closed, strict=True):
            queue.resume(seq, self._latest)
