"""What the routes call: the writer for its turns, threads for what only reads."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable
from typing import Any, Literal, TypeVar

from starlette.concurrency import run_in_threadpool

from conebandit.service.engine.edge_desk import EdgeDesk
from conebandit.service.engine.edges import MAX_UPLOADS
from conebandit.service.engine.requests import Gathering
from conebandit.service.engine.turn import Turn
from conebandit.service.engine.uploads import Uploads
from conebandit.service.engine.writer import Writer
from conebandit.service.http.callers import CALLER
from conebandit.service.shift import ShiftWatch
from conebandit.service.stores.base import Store
from conebandit.service.stores.session import NOBODY

LongRead = Literal["shift", "export", "events", "declaration"]
# How many reads of a kind are done at once; more wait. Together far fewer than there are threads, so that short reads
# find one: every request may have to read the API keys. What is declared may have to be compiled.
MAX_LONG_READS: dict[LongRead, int] = {"shift": 4, "export": 8, "events": 4, "declaration": 4}

MAX_READY_AGE = 1.0  # seconds for which it is believed that the store can be written to

T = TypeVar("T")


class Backend:
    """The engine as the routes see it: nothing here blocks the event loop.

    Parameters
    ----------
    writer
        Takes the turns; its store is read beside them.
    """

    def __init__(self, writer: Writer) -> None:
        self.writer = writer
        self.store: Store = writer.store
        self.shift = ShiftWatch(writer.store, writer.kernels.for_shift)
        self.edge_desk = EdgeDesk(writer.store, writer.published_states)
        self.uploads = Uploads(writer.store, writer.submit)
        if writer.store.shared:
            self.uploads.begin()
        self._gathering = Gathering(writer.submit_all)
        self._written = -math.inf  # when it was last seen that the store can be written to
        self._long_reads = {kind: asyncio.Semaphore(most) for kind, most in MAX_LONG_READS.items()}

    async def in_turn(self, experiment: str, work: Callable[[Turn], T]) -> T:
        """Have the writer do something for whoever sent the request, and wait for its commit."""
        answer: T = await self._gathering.ask(experiment, work, CALLER.get().by)
        return answer

    async def in_thread(self, work: Callable[..., T], *args: Any) -> T:
        """Do something short beside the writer."""
        return await run_in_threadpool(work, *args)

    async def read_long(self, kind: LongRead, work: Callable[..., T], *args: Any) -> T:
        """Read something that may take a while."""
        async with self._long_reads[kind]:
            return await run_in_threadpool(work, *args)

    async def settle_uploads(self, experiment: str) -> None:
        """Put what edges have uploaded up to now into the log, for those who want all of it."""
        n_waiting = await self.in_thread(_n_uploads, self.store, experiment) if self.store.shared else 0
        for _ in range(0, n_waiting, MAX_UPLOADS):
            await self.in_turn(experiment, lambda turn: turn.take_uploads(experiment))

    async def try_writing(self) -> None:
        """Whether the writer works and the store takes something; strangers may ask, so not each time."""
        if time.monotonic() >= self._written + MAX_READY_AGE:
            await self.in_turn(NOBODY, lambda turn: turn.transaction.session.try_writing())
            self._written = time.monotonic()

    async def experiments(self) -> list[str]:
        """Ids of all experiments."""
        return await self.in_thread(_experiments, self.store)


def _n_uploads(store: Store, experiment: str) -> int:
    with store.read() as session:
        return session.n_uploads(experiment)


def _experiments(store: Store) -> list[str]:
    with store.read() as session:
        return session.experiments()
