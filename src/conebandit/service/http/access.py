"""What the handlers of requests share: the writer, the store, and who may pass."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable, Collection, Coroutine
from typing import Annotated, Any
from urllib.parse import urlsplit

from fastapi import APIRouter, Path, Request, Response
from fastapi.routing import APIRoute
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException

from conebandit.experiment.declaration import ID
from conebandit.service.engine.turn import Turn
from conebandit.service.engine.writer import Writer
from conebandit.service.http import keys
from conebandit.service.http.metrics import Metrics
from conebandit.service.shift import ShiftWatch
from conebandit.service.stores.base import KeyRow, Store

# Seconds for which keys are remembered, and for which others may go on with them while somebody reads them again: a
# revoked key works for a second, or for five where the store takes that long to say so.
KEYS_FOR, KEYS_AT_MOST = 1.0, 5.0
# How many reads of a kind are done at once; more wait. Together far fewer than there are threads, so that those who
# read little, as every request may have to for its key, find one.
LONG_READS = {"shift": 4, "export": 8, "events": 4}
BEARER = re.compile(r"^bearer +", re.IGNORECASE)
LOOPBACK = ("127.0.0.1", "::1", "localhost")

ExperimentId = Annotated[str, Path(pattern=f"^{ID.pattern}$", examples=["checkout"])]


class Shared:
    """What the handlers share."""

    def __init__(self, writer: Writer, hosts: Collection[str], *, reachable: bool) -> None:
        self.writer = writer
        self.reachable = reachable
        self.hosts = {*LOOPBACK, *(host.lower() for host in hosts)}
        self.store: Store = writer.store
        self.shift = ShiftWatch(writer.store)
        self.metrics = Metrics()
        self._long_reads = {kind: asyncio.Semaphore(most) for kind, most in LONG_READS.items()}
        self._keys: list[KeyRow] | None = None
        self._keys_read = 0.0
        self._reading_keys = asyncio.Lock()

    async def ask(self, experiment: str, work: Callable[[Turn], Any]) -> Any:
        """Have the writer do something, and wait for its commit."""
        return await asyncio.wrap_future(self.writer.submit(experiment, work))

    async def read(self, work: Callable[..., Any], *args: Any) -> Any:
        """Do something short that reads the store, beside the writer."""
        return await run_in_threadpool(work, *args)

    async def read_long(self, kind: str, work: Callable[..., Any], *args: Any) -> Any:
        """Do something that may take a while; ``kind`` is one of ``LONG_READS``."""
        async with self._long_reads[kind]:
            return await run_in_threadpool(work, *args)

    async def check(self, request: Request, scope: str) -> None:
        """Let the request pass if its key has the scope, or if there are no keys and only this machine can ask."""
        kept = await self._known_keys()
        if not kept and not self.reachable:
            self._refuse_other_pages(request)
            return
        given = request.headers.get("x-api-key") or BEARER.sub("", request.headers.get("authorization", ""))
        found = keys.find_key(kept, given)
        if found is None:
            raise HTTPException(401, "a valid API key is needed, as header 'X-API-Key' or 'Authorization: Bearer ...'.")
        if not keys.may(found, scope):
            raise HTTPException(403, f"this API key has not the scope {scope!r}.")

    def _refuse_other_pages(self, request: Request) -> None:
        """Without keys, whoever reaches us may do everything; pages of others, in a browser on this machine, may not.

        Such a page is given away by its origin or, if it let its own name point here (DNS rebinding), by our name.
        """
        host, origin = request.headers.get("host", ""), request.headers.get("origin")
        if _hostname(host) not in self.hosts:
            names = ", ".join(sorted(self.hosts))
            raise HTTPException(
                403,
                f"without API keys only requests to {names} are answered; see --allow-host. Got {ascii(host)[:80]}.",
            )
        if origin is not None and origin.partition("://")[2] != host:
            raise HTTPException(403, "without API keys no page of another origin may ask.")

    async def _known_keys(self) -> list[KeyRow]:
        """The keys. Whoever finds them old reads them; meanwhile the others go on with those that they have."""
        busy = self._reading_keys.locked()
        if self._keys is None or self._keys_are_older(KEYS_AT_MOST if busy else KEYS_FOR):
            async with self._reading_keys:
                if self._keys is None or self._keys_are_older(KEYS_FOR):  # nobody has read them while we waited
                    begun = time.monotonic()
                    self._keys = await self.read(self._read_keys)
                    self._keys_read = begun
        return self._keys

    def _keys_are_older(self, seconds: float) -> bool:
        return time.monotonic() - self._keys_read > seconds

    def _read_keys(self) -> list[KeyRow]:
        with self.store.read() as session:
            return session.api_keys()


def _hostname(host: str) -> str | None:
    """The name in a ``Host`` header, without the port."""
    try:
        return urlsplit(f"//{host}").hostname
    except ValueError:
        return None


def guarded(shared: Shared, scope: str) -> APIRouter:
    """For routes that need a key of this scope. It is checked before the body is read: strangers cost little."""

    class Guarded(APIRoute):
        def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
            handle = super().get_route_handler()

            async def check_first(request: Request) -> Response:
                await shared.check(request, scope)
                return await handle(request)

            return check_first

    return APIRouter(route_class=Guarded)
