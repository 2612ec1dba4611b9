"""Every refusal is ``{"error": "..."}``; nothing of our insides is shown."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from starlette.exceptions import HTTPException

from conebandit.experiment.errors import RefusalError
from conebandit.service.errors import NotYetError, UnavailableError
from conebandit.service.http.forms import MANY, ONE

FAULT = "the service is at fault; its log says more."
UNAVAILABLE = "the store did not take it; try again with the same ids."
MAX_REPORTED = 5  # of what is wrong with the form of a request

log = logging.getLogger("conebandit.service")

_FORM = {"type": "object", "properties": {"error": {"type": "string"}}, "required": ["error"]}
# What OpenAPI says of every route that needs a key.
REFUSALS: dict[int | str, dict[str, Any]] = {
    status: {"description": words, "content": {"application/json": {"schema": _FORM}}}
    for status, words in {
        401: "There is no valid API key, or it has expired.",
        403: "The API key has not the scope, or is not for the experiment; without keys: it comes from elsewhere.",
        404: "There is no such experiment, decision or arm.",
        409: "It contradicts what is in the log.",
        413: "The body is too large.",
        415: "The body does not come as JSON.",
        422: "Something in the request is not valid.",
        429: "The API key has asked for too many decisions and outcomes; try again after `Retry-After` seconds.",
        500: "The service is at fault.",
        503: "The store did not take it; try again with the same ids.",
    }.items()
}


def add_error_handlers(app: FastAPI) -> None:
    """Have the application answer expected errors. Unexpected ones are answered in ``limits``, around everything."""

    @app.exception_handler(RefusalError)
    @app.exception_handler(HTTPException)
    async def refused(_: Request, error: RefusalError | HTTPException) -> Response:
        return refusal_reply(error)

    @app.exception_handler(RequestValidationError)
    async def malformed(request: Request, error: RequestValidationError) -> Response:
        if error.errors()[0]["loc"][:1] == ("body",) and "json" not in request.headers.get("content-type", "").lower():
            return error_reply("the body must come with the header 'Content-Type: application/json'.", 415)
        found = [f"{_place(e['loc'])}: {e['msg']}" for e in error.errors()]
        return error_reply("; ".join(found[:MAX_REPORTED]), 422)


def refusal_reply(error: RefusalError | HTTPException) -> Response:
    """What is answered to a request that is refused; logged if that is not for the caller to mend."""
    if isinstance(error, HTTPException):
        return error_reply(error.detail, error.status_code, error.headers)
    if isinstance(error, NotYetError):
        return error_reply(str(error), error.status, {"retry-after": "1"})
    if isinstance(error, UnavailableError):
        log.warning("%s", error)
        return error_reply(UNAVAILABLE, 503, {"retry-after": "1"})
    if error.status >= 500:
        log.error("%s", error)
        return error_reply(FAULT, error.status)
    return error_reply(str(error), error.status)


def error_reply(text: str, status: int, headers: Mapping[str, str] | None = None) -> Response:
    """The form that every refusal has.

    Examples
    --------
    >>> error_reply("the store is closed.", 503).body
    b'{"error":"the store is closed."}'
    """
    sendable = text.encode("utf-8", "backslashreplace").decode()  # half a character may come back from a request
    return JSONResponse({"error": sendable}, status, headers=headers)


def _place(loc: Sequence[int | str]) -> str:
    """Where in a request something is wrong, such as ``body.values.revenue``."""
    form = loc[:1] == ("body",) and loc[1:2] in ((ONE,), (MANY,))
    return ".".join(ascii(p)[1:-1] if isinstance(p, str) else str(p) for p in (*loc[:1], *loc[1 + form :]))
