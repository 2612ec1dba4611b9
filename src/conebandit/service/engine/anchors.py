"""Telling somebody else, now and then, where the logs end: what was told cannot be taken back by changing the store."""

from __future__ import annotations

import logging
import sys
import threading
import time
import urllib.request
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from conebandit.experiment.errors import InvalidError
from conebandit.service.log.anchors import STORE_LOG, Anchor, head_of, missed_anchors
from conebandit.service.stores.base import Store

EVERY = 3600.0  # seconds between anchors
MAX_RETRY = 60.0  # seconds after which they are sent again if that has failed
TIMEOUT = 10.0  # seconds for a webhook
QUIET = 3600.0  # seconds for which a failure is not said again

log = logging.getLogger("conebandit.service")

Send = Callable[[str], None]


class Anchors:
    """A thread that sends the heads of all logs that have moved: at the start, from time to time, and at the end.

    Nobody waits for it. What could not be sent is sent later, as it is then.

    Parameters
    ----------
    store
        Where the logs are.
    send
        Takes lines of JSON; an ``OSError`` if it could not.
    every
        Seconds.
    """

    def __init__(self, store: Store, send: Send, every: float = EVERY) -> None:
        self._store, self._send, self._every = store, send, every
        self._sent: dict[str, Anchor] = {}
        self._told = -QUIET  # when a failure was last said
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name="conebandit-anchors", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Send what has moved since, and end. The store must be open still."""
        self._closed.set()
        self._thread.join()

    def _run(self) -> None:
        going = True
        while going:
            pause = self._every if self._try_sending() else min(self._every, MAX_RETRY)
            going = not self._closed.wait(pause)
        self._try_sending()

    def _try_sending(self) -> bool:
        try:
            moved = self._moved()
            if moved:
                self._send("".join(anchor.line() for anchor in moved))
        except Exception as error:  # this thread must not end
            if time.monotonic() >= self._told + QUIET:
                self._told = time.monotonic()
                log.warning("anchors could not be sent, which is tried again: %s", error)
            return False
        self._told = -QUIET
        self._sent |= {anchor.experiment: anchor for anchor in moved}
        return True

    def _moved(self) -> list[Anchor]:
        """Where the logs end that do not end where they did; says so if what was sent does not hold any more."""
        now = datetime.now(UTC).isoformat(timespec="seconds")
        moved = []
        with self._store.read() as session:
            for id_ in [*session.experiments(), STORE_LOG]:
                head, sent = head_of(session, id_), self._sent.get(id_)
                if sent is not None and sent.head == head:
                    continue
                for problem in missed_anchors(session, id_, [] if sent is None else [sent]):
                    log.error("%s: somebody has changed the log: %s", id_, problem)
                if head.seq:
                    moved.append(Anchor(id_, head, now))
        return moved


def destination(where: str) -> Send:
    """How to send lines: ``stdout``, an address ``http(s)://...`` that takes a POST, or a file to which they are added.

    Examples
    --------
    >>> destination("stdout")("{}")
    {}
    """
    if where == "stdout":
        return _print
    if where.startswith(("http://", "https://")):
        opener = urllib.request.build_opener(_NoRedirects)
        return lambda lines: _post(opener, where, lines)
    if "://" in where:
        raise InvalidError(f"anchors go to stdout, to a file or to http(s)://...; got {where!a}.")
    path = Path(where)
    _append(path, "")  # fails now, if ever
    return lambda lines: _append(path, lines)


def _print(lines: str) -> None:
    sys.stdout.write(lines)
    sys.stdout.flush()


def _append(path: Path, lines: str) -> None:
    with path.open("a", encoding="utf-8") as file:
        file.write(lines)


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """A POST that is redirected becomes a GET, which would leave the lines behind."""

    def redirect_request(self, *_: object) -> None:
        """Not followed: it is an error then."""


def _post(opener: urllib.request.OpenerDirector, address: str, lines: str) -> None:
    headers = {"content-type": "application/x-ndjson"}
    request = urllib.request.Request(address, lines.encode(), headers, method="POST")
    with opener.open(request, timeout=TIMEOUT) as answer:
        answer.read(1)
