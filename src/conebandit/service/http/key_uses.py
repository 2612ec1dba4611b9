"""When API keys were last used: remembered by requests, written beside them, at most once a minute."""

from __future__ import annotations

import asyncio
import logging
import time
from contextlib import suppress
from datetime import UTC, datetime

from starlette.concurrency import run_in_threadpool

from conebandit.experiment.errors import RefusalError
from conebandit.service.stores.base import Store

PERIOD = 60.0  # seconds between writes

log = logging.getLogger("conebandit.service")


class KeyUses:
    """Notes uses of keys. No request waits for it: what is written is one short transaction for all keys.

    Parameters
    ----------
    store
        Where to write.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._last: dict[str, float] = {}  # seconds since 1970, by id; what is not written yet
        self._due = 0.0  # by the monotonic clock
        self._task: asyncio.Task[None] | None = None

    def note(self, id_: str) -> None:
        """A key is used now."""
        self._last[id_] = time.time()
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._write_when_due())

    async def close(self) -> None:
        """Write what is left; the store is still open."""
        if self._task is not None:
            self._due = 0.0
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task
        await run_in_threadpool(self._write)

    async def _write_when_due(self) -> None:
        await asyncio.sleep(max(self._due - time.monotonic(), 0.0))
        self._due = time.monotonic() + PERIOD
        await run_in_threadpool(self._write)

    def _write(self) -> None:
        written = dict(self._last)
        if not written:
            return
        try:
            with self._store.write() as session:
                session.note_uses({id_: _iso(at) for id_, at in written.items()})
        except (RefusalError, OSError) as error:
            log.warning("when keys were last used could not be written: %s", error)
            return
        for id_, at in written.items():
            if self._last.get(id_) == at:
                self._last.pop(id_, None)


def _iso(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")
