"""One line for each request, if asked for: who wanted what, and what became of it. Never bodies, contexts or keys."""

from __future__ import annotations

import json
import logging
import re
import secrets
import sys
from typing import Any

from starlette.types import Scope

from conebandit.service.http.callers import CALLER

REQUEST_ID = b"x-request-id"  # header of requests and replies
MAX_TEXT = 128  # characters of what callers give

_PLAIN = re.compile(r"[\w.:/{}@+-]+", re.ASCII)
_ID = re.compile(rb"[\x21-\x7e]{1,128}")

log = logging.getLogger("conebandit.access")


class FieldsFormatter(logging.Formatter):
    """Lines for people: the time, the message, and the fields as ``name=value``, quoted where they could mislead.

    Examples
    --------
    >>> record = logging.makeLogRecord({"msg": "request", "fields": {"status": 200, "actor": "a b"}})
    >>> FieldsFormatter("%(message)s").format(record)
    'request status=200 actor="a b"'
    """

    def format(self, record: logging.LogRecord) -> str:
        """One line."""
        fields: dict[str, Any] = getattr(record, "fields", {})
        return " ".join([super().format(record), *(f"{name}={_shown(value)}" for name, value in fields.items())])


def turn(*, on: bool) -> None:
    """Log requests, or do not: to whatever logging was set up for, or else to standard output."""
    log.setLevel(logging.INFO if on else logging.WARNING)  # whatever other loggers of ours say
    if on and not log.hasHandlers():
        handler = logging.StreamHandler(sys.stdout)
        handler.setFormatter(FieldsFormatter("%(asctime)s %(message)s", "%Y-%m-%dT%H:%M:%S%z"))
        log.addHandler(handler)


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
    log.info("request", extra={"fields": {name: value for name, value in known.items() if value is not None}})


def _shown(value: Any) -> str:
    text = str(value)
    return text if _PLAIN.fullmatch(text) else json.dumps(text)
