"""Around every request: bodies are bounded, unexpected failures answered, requests counted, timed and logged."""

from __future__ import annotations

import logging
import time

from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from conebandit.service.http import callers
from conebandit.service.http.access_log import REQUEST_ID, log_request, request_id
from conebandit.service.http.callers import CALLER
from conebandit.service.http.errors import FAULT, error_reply
from conebandit.service.http.metrics import RequestCounts

MAX_BYTES = 1 << 20  # of a request's body
UNKNOWN = "unknown"  # stands for every path that is no route

log = logging.getLogger("conebandit.service")


class RequestMiddleware:
    """Refuses bodies that are too large, answers what fails unexpectedly, counts requests, times and logs them."""

    def __init__(self, app: ASGIApp, counts: RequestCounts) -> None:
        self._app, self._counts = app, counts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, as ASGI does."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        start, status = time.perf_counter(), 0
        id_ = request_id(scope)
        CALLER.set(callers.UNKNOWN)  # the server may have begun this request within another one

        async def note_status(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message.get("headers", ()), (REQUEST_ID, id_.encode())]
            await send(message)

        try:
            await self._app(scope, _bounded(receive), note_status)
        except Exception:
            log.exception("%s %s failed (request %s)", scope["method"], _route(scope), id_)
            if status:
                raise  # too late for another answer
            await error_reply(FAULT, 500)(scope, receive, note_status)
        finally:
            log_request(scope, _route(scope), status, time.perf_counter() - start, id_)
        method = scope["method"] if scope["method"] in ("GET", "POST") else "other"
        experiment = scope.get("path_params", {}).get("experiment")
        self._counts.answered(method, _route(scope), status, time.perf_counter() - start, experiment)


def _bounded(receive: Receive) -> Receive:
    """Receive a body, and refuse it once it is too large. What its header says of its length does not count."""
    received = 0

    async def receive_bounded() -> Message:
        nonlocal received
        message = await receive()
        received += len(message.get("body", b""))
        if received > MAX_BYTES:
            raise HTTPException(413, f"the body has more than {MAX_BYTES} bytes; send smaller batches.")
        return message

    return receive_bounded


def _route(scope: Scope) -> str:
    """The route that the router has found, such as ``/experiments/{experiment}``."""
    return getattr(scope.get("route"), "path", UNKNOWN)
