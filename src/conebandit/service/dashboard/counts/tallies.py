"""Tallies of all experiments that somebody looks at, counted beside the writer by one thread, a page at a time.

After each page, of a few milliseconds, there is a pause, so that decisions in this process come first. Nothing is read
while nobody looks.
"""

from __future__ import annotations

import asyncio
import logging
import math
import threading
import time
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import replace

from starlette.concurrency import run_in_threadpool

from conebandit.service.dashboard.counts.counting import Counting
from conebandit.service.dashboard.counts.tally import Tally
from conebandit.service.errors import CorruptionError, NotFoundError, ServiceError, UnavailableError
from conebandit.service.stores.base import Store
from conebandit.service.stores.records import BEGINNING, Record
from conebandit.service.stores.session import PAGE, Session

PATIENCE = 0.3  # seconds that somebody waits for the end of a log before they see what has been counted until then
PAUSE, MAX_PAUSE = 0.5, 0.01  # after a page, as a share of the time that it took, and in seconds at most
MIN_INTERVAL = 0.25  # seconds between two tallies of a log that is being read
MAX_SHARE = 0.1  # of the time that may be spent on them
MAX_DECISIONS = 20_000_000  # of all logs together that are kept in memory, some 30 bytes for each

log = logging.getLogger("conebandit.service")


class Tallies:
    """Tallies of experiments, each as new as it can be had without making anybody wait.

    Parameters
    ----------
    store
        Where the logs are.

    Examples
    --------
    >>> import asyncio, pathlib, tempfile
    >>> from conebandit.service.client import Client
    >>> from conebandit.service.http.server import serving
    >>> from conebandit.service.stores.base import open_store
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = str(pathlib.Path(folder) / "log.db")
    ...     with serving(path) as address, Client(address) as client:
    ...         _ = client.create({"id": "trial", "arms": ["old", "new"], "metrics": [{"name": "pain"}]})
    ...         _ = client.decide("trial", id="patient-1")
    ...     store = open_store(path)
    ...     tallies = Tallies(store)
    ...     tally = asyncio.run(tallies.get("trial", patience=10))
    ...     tallies.close()
    ...     store.close()
    >>> tally.complete, tally.n_decisions, tally.standing["pain"].open
    (True, 1, 1)
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._counted: dict[str, _Counted] = {}
        self._waiting: dict[str, list[Future[None]]] = {}  # for the ends of logs
        self._changed = threading.Condition()  # of what is waited for
        self._thread: threading.Thread | None = None
        self._closed = False

    async def get(self, experiment_id: str, patience: float = PATIENCE) -> Tally:
        """What the log of an experiment adds up to, all of it or, after some seconds, as far as it has been read.

        Raises
        ------
        NotFoundError
            If there is no such experiment.
        UnavailableError
            If the store does not answer.
        """
        n_events = await run_in_threadpool(_n_events, self._store, experiment_id)
        if (known := self._counted.get(experiment_id)) is not None:
            known.given_up = False
        told = (await self.get_all([experiment_id], patience))[experiment_id]
        if told is None:  # there are many before it
            return await run_in_threadpool(_nothing_read, self._store, experiment_id)
        return replace(told, events=max(told.seen, n_events))

    async def get_all(self, experiment_ids: Sequence[str], patience: float = PATIENCE) -> dict[str, Tally | None]:
        """The same for several experiments; None for those of which nothing has been read, or that there are not.

        Where there is no room for all of them, some are told as they were when they had to make room.
        """
        done: dict[str, Future[None]] = {id_: Future() for id_ in experiment_ids}
        with self._changed:
            if self._closed:
                raise UnavailableError("the service is shutting down.")
            for id_, future in done.items():
                self._waiting.setdefault(id_, []).append(future)
            self._changed.notify()
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="conebandit-tallies", daemon=True)
                self._thread.start()
        if done:
            await asyncio.wait([asyncio.wrap_future(future) for future in done.values()], timeout=patience)
        counted = {id_: self._counted.get(id_) for id_ in done}
        return {id_: None if one is None else one.told for id_, one in counted.items()}

    def close(self) -> None:
        """Read nothing any more."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        """Read a page of each log that somebody waits for, and again, until nobody waits."""
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting or self._closed)
                if self._closed:
                    return
                waiting = {id_: list(futures) for id_, futures in self._waiting.items()}
            for id_, futures in waiting.items():
                if self._closed:
                    return
                start = time.perf_counter()
                if not self._has_more(id_):
                    self._forget(id_, futures)
                time.sleep(min(PAUSE * (time.perf_counter() - start), MAX_PAUSE))

    def _has_more(self, experiment_id: str) -> bool:
        """Read a page of a log; whether there is more of it that can be read."""
        counted = self._counted.setdefault(experiment_id, _Counted(experiment_id))
        if counted.given_up:
            return False  # else many logs would make each other begin anew for ever
        try:
            more = counted.read_page(self._store)
        except NotFoundError:
            del self._counted[experiment_id]
            return False
        except ServiceError:
            more = False  # whoever waits sees what was told before, and whoever has nothing to see is told why
        except Exception:
            more = False  # of one log; others are still read
            log.exception("%s: the log could not be counted", experiment_id)
        counted.used = time.monotonic()
        in_memory = [one for one in self._counted.values() if one.n_decisions]
        while len(in_memory) > 1 and sum(one.n_decisions for one in in_memory) > MAX_DECISIONS:
            oldest = min(in_memory, key=lambda one: one.used)
            oldest.give_up()
            in_memory.remove(oldest)
        return more

    def _forget(self, experiment_id: str, done: list[Future[None]]) -> None:
        """Nobody waits for this any more, unless they have begun meanwhile."""
        with self._changed:
            left = [future for future in self._waiting[experiment_id] if future not in done]
            if left:
                self._waiting[experiment_id] = left
            else:
                del self._waiting[experiment_id]
        for future in done:
            future.set_result(None)


def read_tally(store: Store, experiment_id: str) -> Tally:
    """What the whole log of an experiment adds up to, however long that takes."""
    counted = _Counted(experiment_id, on_the_way=False)
    while counted.read_page(store):
        pass
    assert counted.told is not None  # at the end of a log it is told
    return counted.told


class _Counted:
    """The log of one experiment, as far as it has been counted, and what was told of it last; perhaps on the way."""

    def __init__(self, experiment_id: str, *, on_the_way: bool = True) -> None:
        self._id = experiment_id
        self.told: Tally | None = None
        self.used = 0.0  # when it was read last
        self.given_up = False  # whether it had to make room, and nobody has asked for it alone since
        self._tell_from = 0.0 if on_the_way else math.inf  # when it is time to tell something before the end
        self._counting: Counting | None = None
        self._problem = ""

    @property
    def n_decisions(self) -> int:
        """How many are in memory."""
        return 0 if self._counting is None else self._counting.n_decisions

    def read_page(self, store: Store) -> bool:
        """Count some more events; whether there are more that can be counted."""
        with store.read() as session:
            n_events = session.existing_head(self._id).seq
            counting, page = self._next_page(session)
        if not self._problem and page:
            try:
                counting.take(page)
            except CorruptionError as error:
                self._note(error)
        if counting.outdated:
            self._begin_anew()
            return True
        more = bool(page) and not self._problem and counting.seen.seq < n_events
        if not more or time.monotonic() >= self._tell_from:
            self._tell(counting, n_events, at_end=not more)
        return more

    def give_up(self) -> None:
        """Make room: of what was counted, only what was told is left."""
        self._begin_anew()
        self.given_up = True

    def _note(self, error: CorruptionError) -> None:
        self._problem = str(error)
        log.error("%s: the log cannot be counted any further: %s", self._id, error)

    def _next_page(self, session: Session) -> tuple[Counting, list[Record]]:
        """Events that were not counted yet, and what they are to be counted with."""
        counting = self._counting
        if counting is not None and counting.seen != BEGINNING:
            page = session.events(self._id, counting.seen.seq - 1, limit=PAGE + 1)
            if page and page[0].head == counting.seen:
                return counting, page[1:]
            counting = self.told = None  # another log of the same name
        if counting is None:
            counting, self._problem = Counting.begin(session, self._id), ""
        self._counting = counting
        return counting, session.events(self._id, limit=PAGE)

    def _begin_anew(self) -> None:
        """What was counted is not so. It is told until the log was read again, but for contexts: they may be erased."""
        self._counting = None
        if self.told is not None:
            self.told = replace(self.told, sample=self.told.sample[:0], recent=self.told.recent[:0])

    def _tell(self, counting: Counting, n_events: int, *, at_end: bool) -> None:
        if not at_end and self.told is not None and counting.seen.seq < self.told.seen:
            return  # it is read again
        if self.told is not None and counting.seen.seq == self.told.seen and self._problem == self.told.problem:
            return
        start = time.monotonic()
        try:
            self.told = counting.tally(n_events, self._problem)
        except CorruptionError as error:
            self._note(error)
        end = time.monotonic()
        self._tell_from = max(self._tell_from, end + max(MIN_INTERVAL, (end - start) / MAX_SHARE))


def _n_events(store: Store, experiment_id: str) -> int:
    with store.read() as session:
        return session.existing_head(experiment_id).seq


def _nothing_read(store: Store, experiment_id: str) -> Tally:
    with store.read() as session:
        return Counting.begin(session, experiment_id).tally(session.existing_head(experiment_id).seq)
