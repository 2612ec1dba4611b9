"""One thread that writes: requests that wait together share one transaction, and none is answered before the commit."""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import Any, NamedTuple

from conebandit.service.engine import Engine, Turn
from conebandit.service.errors import CorruptionError, ServiceError, UnavailableError
from conebandit.service.revision import Revisions
from conebandit.service.store import Store

MOST_IN_A_TURN = 256
MOST_REPLAYED = 250  # events that a turn may fold: 20 ms
MOST_TRIES = 3  # to come near the head of a log without its lock
MOST_WARM = 100  # experiments whose logs are read at the start
log = logging.getLogger("conebandit.service")

Work = Callable[[Turn], Any]


class _Request(NamedTuple):
    experiment: str
    work: Work
    answer: Future[Any]


class Writer:
    """Carries out requests, one after the other, in as few transactions as possible.

    Parameters
    ----------
    store
        Where to write. Several writers, in several processes, may share it.
    clock
        Gives milliseconds since 1970.
    tidy_up
        Called after turns 1, 2, 4, 8 and so on: more and more rarely, and each time after something new may have come.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from conebandit.service.experiment import Experiment
    >>> from conebandit.service.store import open_store
    >>> experiment = Experiment.from_dict({"id": "e", "arms": ["a", "b"], "metrics": [{"name": "m"}]})
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     writer = Writer(open_store(str(pathlib.Path(folder) / "log.db")))
    ...     _ = writer.submit("e", lambda turn: turn.create(experiment)).result()
    ...     reply = writer.submit("e", lambda turn: turn.decide("e", [{"context": {}}])).result()
    ...     writer.close()
    >>> reply[0]["propensity"]
    0.5
    """

    def __init__(
        self,
        store: Store,
        clock: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
        tidy_up: Callable[[], None] = lambda: None,
    ) -> None:
        self.store = store
        self.events_written = 0
        self.turns = 0
        self._clock, self._tidy_up = clock, tidy_up
        self._engine = Engine(MOST_REPLAYED)
        self._revisions = Revisions(store, self.submit)
        self._queue: queue.SimpleQueue[_Request | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._serve, name="conebandit-writer", daemon=True)
        self._closed = False
        self._thread.start()

    def submit(self, experiment: str, work: Work) -> Future[Any]:
        """Do some work on an experiment in the next transaction; the answer comes after its commit."""
        answer: Future[Any] = Future()
        if self._closed:
            answer.set_exception(UnavailableError("the service is shutting down; try again."))
        else:
            self._queue.put(_Request(experiment, work, answer))
        return answer

    def warm_up(self) -> None:
        """Read the longest logs now, so that no request has to wait for it."""
        with self.store.read() as session:
            heads = {id_: session.head(id_) for id_ in session.experiments()}
        lengths = {id_: head.seq for id_, head in heads.items() if head is not None}
        longest = sorted(lengths, key=lambda id_: -lengths[id_])[:MOST_WARM]
        for id_ in longest:
            self.submit(id_, partial(Turn.describe, experiment_id=id_)).exception()  # who asks for it will hear of it

    @property
    def waiting(self) -> int:
        """How many requests have not been taken up."""
        return self._queue.qsize()

    @property
    def revising(self) -> int:
        """How many logs are being folded anew."""
        return self._revisions.running

    def close(self, *, snapshots: bool = True) -> None:
        """Finish what is waiting, keep snapshots for a quick start, and close the store."""
        self._revisions.close()
        self._closed = True
        self._queue.put(None)
        self._thread.join()
        if snapshots:
            try:
                self._keep_all()
            except ServiceError as error:
                log.warning("no snapshots were kept: %s", error)
        self.store.close()

    def _keep_all(self) -> None:
        for experiment in sorted(self._engine.states):
            with self.store.write() as session:
                turn = Turn(self._engine, session, self._clock())
                turn.snapshot(experiment)

    def _serve(self) -> None:
        going = True
        while going:
            requests = [self._queue.get()]
            while len(requests) < MOST_IN_A_TURN and not self._queue.empty():
                requests.append(self._queue.get())
            going = None not in requests
            wanted = [r for r in requests if r is not None and r.answer.set_running_or_notify_cancel()]
            # In order of experiments, so that two processes never wait for each other's locks.
            self._turn(sorted(wanted, key=lambda r: r.experiment))

    def _turn(self, requests: list[_Request]) -> None:
        if not requests:
            return
        try:
            answers = self._commit(requests)
        except Exception as error:
            self._engine.forget()  # what was folded was not written
            if not isinstance(error, ServiceError):
                log.exception("a turn of %d requests failed", len(requests))
                error = ServiceError("something unexpected went wrong; nothing was changed.")
            answers = [error] * len(requests)
        for request, answer in zip(requests, answers, strict=True):
            if isinstance(answer, Exception):
                request.answer.set_exception(answer)
            else:
                request.answer.set_result(answer)
        if self.turns.bit_count() == 1:
            self._tidy_up()

    def _commit(self, requests: list[_Request]) -> list[Any]:
        """One transaction, in which nothing is done unless all states are near the heads of their logs."""
        tries = dict.fromkeys((request.experiment for request in requests), 0)
        while True:
            with self.store.write() as session:
                turn = Turn(self._engine, session, self._clock())
                behind = [id_ for id_, n in tries.items() if n < MOST_TRIES and not turn.meet(id_)]
                if not behind:
                    answers = _carry_out(requests, turn)
                    turn.finish()
                    break
            for id_ in behind:
                tries[id_] += 1 if self._engine.catch_up(self.store, id_) else MOST_TRIES
        self.turns += 1
        self.events_written += turn.events_taken
        self._revisions.look_after(turn)
        return answers


def _carry_out(requests: list[_Request], turn: Turn) -> list[Any]:
    """Answers. A request that is refused has changed nothing and does not stop the others."""
    answers: list[Any] = []
    for request in requests:
        try:
            answers.append(request.work(turn))
        except UnavailableError:
            raise
        except CorruptionError as error:
            log.error("%s: %s", request.experiment, error)
            answers.append(error)
        except ServiceError as error:
            answers.append(error)
    return answers
