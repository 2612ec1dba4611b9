"""Windows that close: which defaults count, and when. Only the next few are in memory; the others wait in the log.

Times of decisions never decrease in a log, once repairs of the clock are known, so the windows of a metric close in the
order of the decisions, and it is enough to know for each metric which decision was the last.
"""

from __future__ import annotations

import heapq
import itertools
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from conebandit.experiment.declaration import Experiment
from conebandit.experiment.metrics import Metric
from conebandit.service.errors import CorruptionError
from conebandit.service.log.events import Decided
from conebandit.service.log.repairs import Repairs
from conebandit.service.log.reports import Reports, last_arrival
from conebandit.service.stores.session import Session

MAX_AHEAD = 500  # decisions of a metric in memory, at most


class Closing(NamedTuple):
    """A window of a decision; ``deadline`` is the last millisecond at which a value may still arrive."""

    deadline: int
    seq: int
    metric: int
    id: str


class _Queue:
    """The windows of one metric, in the order in which they close."""

    def __init__(self, index: int, metric: Metric) -> None:
        self._index, self._metric, self.name = index, metric, metric.name
        self.closed = 0  # position of the last decision whose window has closed
        self.ahead: deque[Closing] = deque()
        self._latest = 0  # position of the last decision

    def add(self, seq: int, id_: str, at: int) -> None:
        """A decision was made. It is kept in memory only if all before it are."""
        known = self.ahead[-1].seq if self.ahead else self.closed
        if len(self.ahead) < MAX_AHEAD and known == self._latest:
            self.ahead.append(self._closing(seq, id_, at))
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
                    self.ahead.append(self._closing(entry.seq, entry.event.id, entry.event.at))
            if not self.ahead or self.ahead[0].deadline >= at:
                return
            self.closed = self.ahead[0].seq
            yield self.ahead.popleft()

    def _closing(self, seq: int, id_: str, at: int) -> Closing:
        return Closing(last_arrival(self._metric, at), seq, self._index, id_)


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
        self._settled: dict[str, int] = {}  # by metric, the last decision whose window was closed by :meth:`close`
        self._queues = [
            _Queue(m, metric)
            for m, metric in enumerate(experiment.metrics)
            if metric.default is not None and metric.window is not None
        ]

    def add_all(self, first: int, ids: Sequence[str], at: int) -> None:
        """Decisions were made at a time, from position ``first`` on: their windows are open."""
        self._latest = first + len(ids) - 1
        for queue in self._queues:
            for seq, id_ in enumerate(ids, start=first):
                queue.add(seq, id_, at)

    def close(self, at: int, known: int, session: Session) -> Iterable[tuple[int, Reports]]:
        """Windows that closed before ``at`` and whose defaults count, in the order of their deadlines.

        Each as the position of the metric, and what is known of the decision up to position ``known``.
        """
        open_ = [queue for queue in self._queues if queue.may_be_due(at)]
        return self._close(open_, at, known, session) if open_ else ()  # after most events there are none

    def _close(self, open_: list[_Queue], at: int, known: int, session: Session) -> Iterator[tuple[int, Reports]]:
        due = heapq.merge(*(queue.due(at, self._experiment, session, self.repairs) for queue in open_))
        while part := list(itertools.islice(due, MAX_AHEAD)):
            histories = session.histories(self._experiment.id, list({closing.id for closing in part}), known)
            for closing in part:
                if closing.id not in histories:
                    raise CorruptionError(f"decision {closing.id!a} is not in the index of decisions.")
                reports = Reports(self._experiment, list(map(self.repairs.read, histories[closing.id])))
                name = self._experiment.metrics[closing.metric].name
                if reports.wants_default(name):
                    yield closing.metric, reports
                self._settled[name] = closing.seq

    def closed(self, seq: int) -> list[str]:
        """Metrics of which the window of the decision at a position has closed, and was dealt with."""
        return [name for name, last in self._settled.items() if last >= seq]

    def plain(self) -> list[Any]:
        """All that must be kept of it."""
        return [self._latest, [queue.closed for queue in self._queues]]

    def resume(self, plain: list[Any]) -> None:
        """Go on where :meth:`plain` was asked."""
        self._latest, closed = plain
        for queue, seq in zip(self._queues, closed, strict=True):
            queue.resume(seq, self._latest)
            self._settled[queue.name] = seq
