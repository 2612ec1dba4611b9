"""One line for each request, if asked for: who wanted what, and what became of it. Never bodies, contexts or keys."""

from __future__ import annotations

import logging
import re
import secrets

from starlette.types import Scope

from conebandit.service.http.callers import CALLER
from conebandit.service.http.logs import fields

REQUEST_ID = b"x-request-id"  # header of requests and replies
MAX_TEXT = 128  # characters of what callers give

_ID = re.compile(rb"[\x21-\x7e]{1,128}")

log = logging.getLogger("conebandit.access")


def turn(*, on: bool) -> None:
    """Log requests, or do not; where to and how, :mod:`~conebandit.service.http.logs` says."""
    log.setLevel(logging.INFO if on else logging.WARNING)  # whatever other loggers of ours say


def request_id(scope: Scope) -> str:
    """The id that a request came with, if it can be one; else a new one."""
    given = next((value for name, value in scope["headers"] if name == REQUEST_ID), b"")
    return given.decode("ascii") if _ID.fullmatch(given) else secrets.token_hex(8)


def log_request(scope: Scope, route: str, status: int, seconds: float, id_: str) -> None:
    """A request was answered. The path as it was asked for is not logged: only its route and its experiment."""
    if not log.isEnabledFor(logging.INFO):
        return
    caller, client = CALLER.get(), scope.get("client")
    experiment = scope.get("path_params", {}).get("experiment")
    known = {
        "method": scope["method"][:MAX_TEXT],
        "route": route,
        "remote": None if client is None else client[0],
        "experiment": None if experiment is None else experiment[:MAX_TEXT],
        "status": status,
        "ms": round(1000 * seconds, 1),
        "key": None if caller.key is None else caller.key.name,
        "actor": caller.actor,
        "request": id_,
    }
    log.info("request", extra=fields(**{name: value for name, value in known.items() if value is not None}))
