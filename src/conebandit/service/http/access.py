"""Who may pass: API keys and their scopes or, without keys, only this machine."""

from __future__ import annotations

import asyncio
import math
import re
import time
from collections import Counter
from collections.abc import Callable, Collection, Coroutine
from functools import lru_cache
from typing import Any
from urllib.parse import urlsplit

from fastapi import APIRouter, Request, Response
from fastapi.routing import APIRoute
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException

from conebandit.experiment.entries import short
from conebandit.service.http import keys
from conebandit.service.http.callers import CALLER, Caller, actor_of
from conebandit.service.http.errors import REFUSALS
from conebandit.service.http.key_uses import KeyUses
from conebandit.service.http.rates import Bucket, Rate
from conebandit.service.log.entries import MAX_ACTOR
from conebandit.service.stores.base import Store
from conebandit.service.stores.keys import KeyRow

# Seconds for which keys are remembered, and for which others may go on with them while somebody reads them again: a
# revoked key works for a second, or for five where the store takes that long to say so.
MAX_KEY_AGE, MAX_KEY_AGE_WHILE_READING = 1.0, 5.0
BEARER = re.compile(r"^bearer +", re.IGNORECASE)
NO_KEY = "a valid API key is needed, as header 'X-API-Key' or 'Authorization: Bearer ...'."
LOOPBACK = ("127.0.0.1", "::1", "localhost")
KEY_SCHEMES = {  # how a key is sent, as OpenAPI says it; either will do
    "key": {"type": "apiKey", "in": "header", "name": "X-API-Key"},
    "bearer": {"type": "http", "scheme": "bearer"},
}
Handler = Callable[[Request], Coroutine[Any, Any, Response]]

ACTOR_PARAMETER = {
    "name": "X-Actor",
    "in": "header",
    "required": False,
    "description": "Who is behind the request; the log and the access log keep it beside the name of the key.",
    "schema": {"type": "string", "minLength": 1, "maxLength": MAX_ACTOR},
    "example": "dr.smith@example.org",
}
METERED = ("decide", "report")  # scopes of routes that are refused when a caller has asked for too much
# Routes that name no experiment and show or change only what a key is for; others need a key for all experiments.
FOR_SOME = ("/experiments", "/dashboard")


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
    rate
        How many decisions and outcomes a key may ask for that has no rate of its own; None: any number.
    refusals
        Counts why requests were refused, by reason and name of the key.
    """

    def __init__(
        self,
        store: Store,
        hosts: Collection[str],
        *,
        reachable: bool,
        rate: Rate | None = None,
        refusals: Counter[tuple[str, str]] | None = None,
    ) -> None:
        self._keys, self._uses = RememberedKeys(store), KeyUses(store)
        self._rate, self._buckets = rate, dict[str, Bucket]()
        self._refusals: Counter[tuple[str, str]] = Counter() if refusals is None else refusals
        self._hosts = {*LOOPBACK, *(host.lower() for host in hosts)}
        self._reachable = reachable

    async def check(self, request: Request, scope: str) -> None:
        """Let the request pass if its key opens this, or if there are no keys and only this machine can ask."""
        if await self.is_open():
            self._refuse_other_pages(request)
            CALLER.set(Caller(None, actor_of(request)))
        else:
            given = request.headers.get("x-api-key") or BEARER.sub("", request.headers.get("authorization", ""))
            found = await self.find(given)
            self._admit(found, request, scope)
            CALLER.set(Caller(found, actor_of(request)))
        if scope in METERED:
            self.charge(0)

    async def check_session(self, request: Request, scope: str, key_id: str, actor: str | None) -> None:
        """The same for who has signed in with the key of this id, or without one while there are no keys."""
        if await self.is_open():
            self._refuse_other_pages(request)
            found = None
        else:
            found = next((key for key in await self._keys.get() if key.id == key_id), None)
            self._admit(found, request, scope)
        CALLER.set(Caller(found, actor))

    async def sign_in(self, given: str) -> KeyRow:
        """The key with which somebody signs in to look at experiments; refused as a request would be."""
        found = await self.find(given)
        if found is None:
            raise self._refusal("key", 401, NO_KEY)
        CALLER.set(Caller(found))
        self._check_terms(found, "read")
        self._uses.note(found.id)
        return found

    async def is_open(self) -> bool:
        """Whether there are no keys and only this machine can ask."""
        return not await self._keys.get() and not self._reachable

    async def find(self, given: str) -> KeyRow | None:
        """The key that was given, if there is such a one."""
        return keys.find_key(await self._keys.get(), given)

    def _admit(self, found: KeyRow | None, request: Request, scope: str) -> None:
        """Refuse the request unless its key opens this."""
        if found is None:
            raise self._refusal("key", 401, NO_KEY)
        CALLER.set(Caller(found))  # known from here on, also to the access log
        self._check_key(found, request, scope)
        self._uses.note(found.id)

    def _check_key(self, key: KeyRow, request: Request, scope: str) -> None:
        """Refuse what a key does not open."""
        self._check_terms(key, scope)
        experiment = request.path_params.get("experiment")
        if experiment is not None:
            self.check_experiment(experiment)
        elif key.experiments and request.scope["route"].path not in FOR_SOME:
            raise self._refusal("experiment", 403, "this needs an API key for all experiments; this one is for some.")

    def _check_terms(self, key: KeyRow, scope: str) -> None:
        """Refuse a key that has expired, or has not the scope."""
        if keys.has_expired(key):
            raise self._refusal("expired", 401, f"this API key has expired on {key.expires}; ask for another one.")
        if not keys.may(key, scope):
            raise self._refusal("scope", 403, f"this API key has not the scope {scope!r}.")

    def check_experiment(self, id_: str) -> None:
        """Refuse the request if its key is not for this experiment."""
        if not keys.may_use(CALLER.get().key, id_):
            raise self._refusal("experiment", 403, f"this API key is not for experiment {short(id_)}.")

    def charge(self, count: int) -> None:
        """Count decisions or outcomes that are asked for; refuse them if the caller has asked for too many."""
        key = CALLER.get().key
        rate = Rate.parse(key.rate, "rate") if key is not None and key.rate else self._rate
        if rate is None:
            return
        bucket = self._buckets.setdefault("" if key is None else key.id, Bucket(rate))
        wait = bucket.wait()
        if wait > 0.0:
            words = f"too many decisions and outcomes: {rate.count} in {rate.seconds} s are allowed; try again later."
            raise self._refusal("rate", 429, words, {"retry-after": str(math.ceil(wait))})
        bucket.take(count)

    def _refusal(self, reason: str, status: int, words: str, headers: dict[str, str] | None = None) -> HTTPException:
        """Why a request is refused; counted."""
        key = CALLER.get().key
        self._refusals[reason, "" if key is None else key.name] += 1
        return HTTPException(status, words, headers)

    async def close(self) -> None:
        """Write down what is only remembered; the store is still open."""
        await self._uses.close()

    def _refuse_other_pages(self, request: Request) -> None:
        """Without keys, whoever reaches us may do everything; pages of others, in a browser on this machine, may not.

        Such a page is given away by its origin or, if it let its own name point here (DNS rebinding), by our name.
        """
        host, origin = request.headers.get("host", ""), request.headers.get("origin")
        if _hostname(host) not in self._hosts:
            names = ", ".join(sorted(self._hosts))
            raise self._refusal(
                "origin",
                403,
                f"without API keys only requests to {names} are answered; see --allow-host. Got {ascii(host)[:80]}.",
            )
        if origin is not None and origin.partition("://")[2] != host:
            raise self._refusal("origin", 403, "without API keys no page of another origin may ask.")


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
            extra = {"security": [{name: []} for name in KEY_SCHEMES], "parameters": [ACTOR_PARAMETER]}
            super().__init__(*args, **{**options, "openapi_extra": extra})

        def get_route_handler(self) -> Handler:
            handle = super().get_route_handler()

            async def check_first(request: Request) -> Response:
                await door.check(request, scope)
                return await handle(request)

            return check_first

    return APIRouter(route_class=Guarded, responses=REFUSALS)


@lru_cache(maxsize=64)  # callers use few
def _hostname(host: str) -> str | None:
    """The name in a ``Host`` header, without the port."""
    try:
        return urlsplit(f"//{host}").hostname
    except ValueError:
        return None
