"""Who may pass: API keys and their scopes or, without keys, only this machine."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable, Collection, Coroutine
from typing import Any
from urllib.parse import urlsplit

from fastapi import APIRouter, Request, Response
from fastapi.routing import APIRoute
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException

from conebandit.service.http import keys
from conebandit.service.http.errors import REFUSALS
from conebandit.service.stores.base import Store
from conebandit.service.stores.session import KeyRow

# Seconds for which keys are remembered, and for which others may go on with them while somebody reads them again: a
# revoked key works for a second, or for five where the store takes that long to say so.
MAX_KEY_AGE, MAX_KEY_AGE_WHILE_READING = 1.0, 5.0
BEARER = re.compile(r"^bearer +", re.IGNORECASE)
LOOPBACK = ("127.0.0.1", "::1", "localhost")
KEY_SCHEMES = {  # how a key is sent, as OpenAPI says it; either will do
    "key": {"type": "apiKey", "in": "header", "name": "X-API-Key"},
    "bearer": {"type": "http", "scheme": "bearer"},
}


class Doorkeeper:
    """Lets requests pass or refuses them.

    Parameters
    ----------
    store
        Keeps the API keys.
    hosts
        Names by which the service may be called while there are no API keys, beside those of loopback.
    reachable
        Whether other machines can reach the service. Then nobody passes without a key, even if there are none.
    """

    def __init__(self, store: Store, hosts: Collection[str], *, reachable: bool) -> None:
        self._keys = RememberedKeys(store)
        self._hosts = {*LOOPBACK, *(host.lower() for host in hosts)}
        self._reachable = reachable

    async def check(self, request: Request, scope: str) -> None:
        """Let the request pass if its key has the scope, or if there are no keys and only this machine can ask."""
        kept = await self._keys.get()
        if not kept and not self._reachable:
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
        if _hostname(host) not in self._hosts:
            names = ", ".join(sorted(self._hosts))
            raise HTTPException(
                403,
                f"without API keys only requests to {names} are answered; see --allow-host. Got {ascii(host)[:80]}.",
            )
        if origin is not None and origin.partition("://")[2] != host:
            raise HTTPException(403, "without API keys no page of another origin may ask.")


class RememberedKeys:
    """The API keys of a store, remembered for a moment, so that not every request has to read them."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._known: list[KeyRow] | None = None
        self._read_at = 0.0
        self._reading = asyncio.Lock()

    async def get(self) -> list[KeyRow]:
        """The keys. Whoever finds them old reads them; meanwhile the others go on with those that they have."""
        busy = self._reading.locked()
        if self._known is None or self._older_than(MAX_KEY_AGE_WHILE_READING if busy else MAX_KEY_AGE):
            async with self._reading:
                if self._known is None or self._older_than(MAX_KEY_AGE):  # nobody has read them while we waited
                    begun = time.monotonic()
                    self._known = await run_in_threadpool(self._read)
                    self._read_at = begun
        return self._known

    def _older_than(self, seconds: float) -> bool:
        return time.monotonic() - self._read_at > seconds

    def _read(self) -> list[KeyRow]:
        with self._store.read() as session:
            return session.api_keys()


def guarded(door: Doorkeeper, scope: str) -> APIRouter:
    """For routes that need a key of this scope. It is checked before the body is read: strangers cost little."""

    class Guarded(APIRoute):
        def __init__(self, *args: Any, **options: Any) -> None:
            super().__init__(*args, **{**options, "openapi_extra": {"security": [{name: []} for name in KEY_SCHEMES]}})

        def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
            handle = super().get_route_handler()

            async def check_first(request: Request) -> Response:
                await door.check(request, scope)
                return await handle(request)

            return check_first

    return APIRouter(route_class=Guarded, responses=REFUSALS)


def _hostname(host: str) -> str | None:
    """The name in a ``Host`` header, without the port."""
    try:
        return urlsplit(f"//{host}").hostname
    except ValueError:
        return None
