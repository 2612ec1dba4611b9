"""One thread that writes: requests that wait together share one transaction, and none is answered before the commit."""

from __future__ import annotations

import itertools
import logging
import queue
import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import Any

from conebandit.experiment.errors import RefusalError
from conebandit.service.engine.clock import MAX_STEP, ClockComparison, SteadyClock
from conebandit.service.engine.ledger import Ledger
from conebandit.service.engine.parking import Parking, refuse
from conebandit.service.engine.readers import CLOSING, FAULT, LogRead, LogReaders
from conebandit.service.engine.rehearsal import Kernels
from conebandit.service.engine.requests import Decide, Request, Work, reply_to_all
from conebandit.service.engine.revisions import Revisions
from conebandit.service.engine.traffic import Ask
from conebandit.service.engine.transaction import Transaction
from conebandit.service.engine.turn import Turn
from conebandit.service.errors import BusyError, CorruptionError, ServiceError, UnavailableError
from conebandit.service.log.entries import By
from conebandit.service.stores.base import Store

MAX_IN_A_TURN = 256
MAX_REPLAYED = 250  # events that a turn may fold: 20 ms
MAX_WARM = 100  # experiments whose logs are read at the start
log = logging.getLogger("conebandit.service")


class Writer:
    """Carries out requests, one after the other, in as few transactions as possible.

    Parameters
    ----------
    store
        Where to write. Several writers, in several processes, may share it.
    clock
        Dates the events.
    tidy_up
        Called after turns 1, 2, 4, 8 and so on: more and more rarely, and each time after something new may have come.
    at_end
        Called when everything is written, before the store is closed.
    kernels
        Asked before an experiment is used for the first time, by threads other than the writer's.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from conebandit.experiment.declaration import Experiment
    >>> from conebandit.service.stores.base import open_store
    >>> experiment = Experiment.from_dict({"id": "e", "arms": ["a", "b"], "metrics": [{"name": "m"}]})
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     writer = Writer(open_store(str(pathlib.Path(folder) / "log.db")))
    ...     _ = writer.submit("e", lambda turn: turn.create(experiment)).result()
    ...     reply = writer.submit("e", lambda turn: turn.decide("e", [{"context": {}}])).result()
    ...     writer.close()
    >>> reply[0].propensity
    0.5
    """

    def __init__(
        self,
        store: Store,
        clock: SteadyClock | None = None,
        tidy_up: Callable[[], None] = lambda: None,
        at_end: Callable[[], None] = lambda: None,
        kernels: Kernels | None = None,
    ) -> None:
        self.store = store
        self.kernels = kernels or Kernels()
        self.events_written = 0
        self.put_aside: Counter[str] = Counter()  # decisions of edges that cannot be put into the log, by experiment
        self.turns = 0
        self._clock, self._tidy_up, self._at_end = clock or SteadyClock(), tidy_up, at_end
        self._comparison = ClockComparison(self._clock, store.now)
        self._ledger = Ledger(MAX_REPLAYED)
        self.published_states = self._ledger.published
        self._queue: queue.SimpleQueue[list[Request] | LogRead | None] = queue.SimpleQueue()
        self._revisions = Revisions(store, self.submit)
        self._readers = LogReaders(store, self._queue.put, self.kernels.for_log)
        self._n_asked = self._n_taken = 0  # requests
        self._parked = Parking(self._readers, self._ledger, self._queue.put)
        self._thread = threading.Thread(target=self._serve, name="conebandit-writer", daemon=True)
        self._closed = False
        self._last_one = threading.Lock()  # nothing comes into the queue after the end of it
        self._thread.start()

    def submit(self, experiment: str, work: Work, by: By | None = None) -> Future[Any]:
        """Do some work on an experiment, for somebody, in the next transaction; the answer comes after its commit."""
        answer: Future[Any] = Future()
        self.submit_all([Request(experiment, work, answer, by)])
        return answer

    def submit_all(self, requests: list[Request]) -> None:
        """Carry out some requests in the next transaction; answers come after its commit."""
        with self._last_one:
            if not self._closed:
                self._n_asked += len(requests)
                self._queue.put(requests)
                return
        refuse(requests, UnavailableError(CLOSING))

    def warm_up(self) -> None:
        """Read the longest logs now, so that no request has to wait for it."""
        with self.store.read() as session:
            heads = {id_: session.head(id_) for id_ in session.experiments()}
        lengths = {id_: head.seq for id_, head in heads.items() if head is not None}
        longest = sorted(lengths, key=lambda id_: -lengths[id_])[:MAX_WARM]
        for id_ in longest:
            error = self.submit(id_, partial(Turn.describe, experiment_id=id_)).exception()
            if isinstance(error, UnavailableError) and not isinstance(error, BusyError):
                raise error  # of other errors, who asks will hear
        for id_, seconds in self.ahead.items():
            log.warning(
                "%s: the log is %.0f s ahead of the clock. If the clock is right, see conebandit "
                "experiment repair-clock; if not, set it.",
                id_,
                seconds,
            )

    @property
    def waiting(self) -> int:
        """How many requests have not been taken up."""
        return self._n_asked - self._n_taken + sum(map(len, list(self._parked.requests.values())))

    @property
    def revising(self) -> int:
        """How many logs are being folded anew."""
        return self._revisions.running

    @property
    def clock_jumped(self) -> float:
        """Seconds between the system's clock and the one that dates events; 0 unless the first has jumped."""
        self._clock()
        return self._clock.jumped / 1000

    @property
    def clock_ahead(self) -> float:
        """Seconds by which this clock was ahead of the database's when that was last asked; 0 if it has none."""
        return self._comparison.ahead / 1000

    @property
    def ahead(self) -> dict[str, float]:
        """Seconds by which logs are ahead of the clock that dates events, by experiment; left out: up to a minute."""
        now = self._clock()
        return {id_: (at - now) / 1000 for id_, at in self._ledger.times().items() if at - now > MAX_STEP}

    @property
    def stopped(self) -> dict[str, int]:
        """How many safety rules have fired and were not lifted, by experiment; left out: those without rules."""
        return self._ledger.stopped()

    def close(self, *, snapshots: bool = True) -> None:
        """Finish what is waiting, keep snapshots for a quick start, and close the store."""
        self.kernels.give_up()
        self._readers.give_up()  # first: a revision may wait for a turn that waits for a log
        self._revisions.close()
        with self._last_one:
            self._closed = True
            self._queue.put(None)
        self._thread.join()
        self._readers.close()
        if snapshots:
            self._write_snapshots()
        self._at_end()
        self.store.close()

    def _write_snapshots(self) -> None:
        for experiment in self._ledger.experiments():
            try:
                with self.store.write() as session:
                    if session.head(experiment) is not None:  # it may have been archived
                        Transaction(self._ledger, session, self._clock()).write_snapshot(experiment)
            except (RefusalError, OSError) as error:
                log.warning("no snapshot of %s was kept: %s", experiment, error)
                if not isinstance(error, BusyError):
                    return  # the others would fail, too

    # ---- the thread -----------------------------------------------------------------------------------------------

    def _serve(self) -> None:
        going = True
        while going or self._parked.requests:
            messages = [self._queue.get()]
            while _n_requests(messages) < MAX_IN_A_TURN and not self._queue.empty():
                messages.append(self._queue.get())
            going &= None not in messages
            wanted = self._wanted(messages)
            try:
                # In order of experiments, so that two processes never wait for each other's locks.
                self._turn(sorted((r for r in wanted if not r.alone), key=lambda request: request.experiment))
                for request in wanted:
                    if request.alone:
                        self._turn([request])
            except Exception:  # this thread must not end
                log.exception("a turn failed in a way that it must not")
                parked = [id(request.answer) for requests in self._parked.requests.values() for request in requests]
                refuse([r for r in wanted if not r.answer.done() and id(r.answer) not in parked], ServiceError(FAULT))

    def _wanted(self, messages: list[list[Request] | LogRead | None]) -> list[Request]:
        """The requests that may be carried out now; first those that have waited for a log."""
        wanted: list[Request] = []
        for message in messages:
            if isinstance(message, LogRead):
                wanted += self._parked.resume(message)
        for message in messages:
            if isinstance(message, list):
                self._n_taken += len(message)
                wanted += [request for request in message if request.begin()]
        return wanted

    def _turn(self, wanted: list[Request]) -> None:
        requests: list[Request] = []
        for request in wanted:
            self._parked.requests.get(request.experiment, requests).append(request)  # some have to wait
        if not requests:
            return
        try:
            transaction, answers, not_now = self._commit(requests)
        except RefusalError as error:
            refuse(requests, error)
        except Exception:
            log.exception("a turn of %d requests failed", len(requests))
            if len(requests) > 1:  # one of them is to blame; the others shall not suffer
                for request in requests:
                    self._turn([request._replace(alone=True)])
            else:
                refuse(requests, ServiceError(FAULT))
        else:
            self._committed(transaction, answers)
            for id_, why in not_now.items():
                waiting = [request for request in requests if request.experiment == id_]
                if why is None:
                    self._parked.until_read(id_, waiting)
                else:
                    self._parked.until_unlocked(id_, waiting, why, closing=self._closed)

    def _commit(
        self, requests: list[Request]
    ) -> tuple[Transaction, list[tuple[Request, Any]], dict[str, BusyError | None]]:
        """One transaction: the answers, and the experiments that must wait, with who is to blame if they are locked."""
        self._comparison.check()
        not_now: dict[str, BusyError | None] = {}
        with self._ledger.transaction(self.store, self._clock()) as transaction:
            for id_ in dict.fromkeys(request.experiment for request in requests):
                try:
                    if self._parked.may_read(id_) and not transaction.catch_up(id_):
                        not_now[id_] = None
                except BusyError as error:
                    not_now[id_] = error
            now = [request for request in requests if request.experiment not in not_now]
            answers = _carry_out_all(now, transaction)
        return transaction, answers, not_now

    def _committed(self, transaction: Transaction, answers: list[tuple[Request, Any]]) -> None:
        """What follows on a commit; whatever fails here, the answers stand."""
        self.turns += 1
        self.events_written += transaction.n_events
        self.put_aside = self.put_aside + transaction.put_aside  # a new one, since other threads look at it
        for request, _ in answers:
            self._parked.answered(request.experiment)
        reply_to_all(answers)
        try:
            self._revisions.update(transaction)
            if self.turns.bit_count() == 1:
                self._tidy_up()
        except Exception:
            log.exception("something failed after a commit; the next turn tries it again")


def _n_requests(messages: list[list[Request] | LogRead | None]) -> int:
    return sum(len(message) for message in messages if isinstance(message, list))


def _carry_out_all(requests: list[Request], transaction: Transaction) -> list[tuple[Request, Any]]:
    """The answers, in the order of the requests; decisions that follow each other are made together."""
    answers: list[tuple[Request, Any]] = []
    for deciding, group in itertools.groupby(requests, lambda r: r.experiment if isinstance(r.work, Decide) else None):
        some = list(group)
        if deciding is None:
            answers += [(r, _carry_out(r.experiment, partial(r.work, Turn(transaction, r.by)))) for r in some]
        else:
            asks = [Ask(r.work.requests, r.by) for r in some if isinstance(r.work, Decide)]
            told = _carry_out(deciding, partial(Turn(transaction).decide_all, deciding, asks))
            answers += zip(some, [told] * len(some) if isinstance(told, Exception) else told, strict=True)
    return answers


def _carry_out(experiment: str, work: Callable[[], Any]) -> Any:
    """The answer; an exception if it is refused, and then it has changed nothing."""
    try:
        return work()
    except BusyError as error:
        return error
    except UnavailableError:
        raise
    except CorruptionError as error:
        log.error("%s: %s", experiment, error)
        return error
    except RefusalError as error:
        return error
