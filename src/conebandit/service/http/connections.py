"""Connections: how many there may be, how long a request may take to arrive, and how much is logged about strangers.

A socket costs whoever opens it nothing and needs no key. So one whose request does not arrive makes way for others.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from typing import Any, cast

from uvicorn.protocols.http.auto import AutoHTTPProtocol

try:
    import resource
except ImportError:  # there is none on Windows
    resource = None  # type: ignore[assignment]

MAX_CONNECTIONS = 1000  # and at most half as many as this process may have files
MAX_SHARE = 0.8  # of them, of one address; a proxy in front of the service has one, too
MAX_HEADER_SECONDS, MAX_BODY_SECONDS = 10.0, 30.0  # from the first byte of a request, or from the beginning
MAX_LINES, PERIOD = 10, 60.0  # lines of a kind in the log, in so many seconds


def allow_files() -> None:
    """Have the system allow this process as many files as it needs, if it may have them."""
    if resource is not None:
        most, allowed = resource.getrlimit(resource.RLIMIT_NOFILE)
        wanted = 2 * MAX_CONNECTIONS if allowed < 0 else min(2 * MAX_CONNECTIONS, allowed)  # below 0: no limit
        if 0 <= most < wanted:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, allowed))


def max_connections() -> int:
    """How many connections there may be: fewer than files, since the store needs some, too."""
    files = 2 * MAX_CONNECTIONS if resource is None else resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return min(MAX_CONNECTIONS, files // 2) if files > 0 else MAX_CONNECTIONS


class Connections:
    """Those that are open. When there are too many, of all or of one address, the one that is idle for longest goes.

    Parameters
    ----------
    most
        How many there may be.
    """

    def __init__(self, most: int) -> None:
        self._most, self._most_of_address = most, max(1, int(MAX_SHARE * most))
        self._open: dict[Connection, None] = {}  # those whose last request came first are first
        self._of_address: Counter[str] = Counter()

    def admit(self, new: Connection) -> bool:
        """Let one in, for which another one may have to go; False if all are busy."""
        if self._of_address[new.address] >= self._most_of_address:
            found = self._drop_idle(new.address)
        else:
            found = len(self._open) < self._most or self._drop_idle(None)
        if found:
            self._open[new] = None
            self._of_address[new.address] += 1
        return found

    def _drop_idle(self, address: str | None) -> bool:
        for connection in self._open:
            if connection.idle and address in (None, connection.address):
                self.forget(connection)
                connection.drop()
                return True
        return False

    def served(self, connection: Connection) -> None:
        """A whole request has come; this one has been idle for the shortest time."""
        if connection in self._open:
            del self._open[connection]
            self._open[connection] = None

    def forget(self, connection: Connection) -> None:
        """It is closed, or will be at once."""
        if connection in self._open:
            del self._open[connection]
            self._of_address[connection.address] -= 1
            if not self._of_address[connection.address]:
                del self._of_address[connection.address]


class Connection(asyncio.Protocol):
    """A connection: passes everything on to uvicorn's protocol, and ends it if a request is too slow to arrive."""

    def __init__(self, connections: Connections, **options: Any) -> None:
        self._connections, self._http = connections, cast("Any", AutoHTTPProtocol)(**options)
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._begun: float | None = None  # when the request that is arriving began to do so
        self._arrived: object = None  # uvicorn's cycle of the last request that came whole
        self._timer: asyncio.TimerHandle | None = None
        self.address = ""

    @property
    def idle(self) -> bool:
        """Whether no request is being answered."""
        cycle = self._http.cycle
        return cycle is None or cycle.response_complete or cycle.more_body

    def drop(self) -> None:
        """End it now."""
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Let it in, or not."""
        self._transport = cast("asyncio.Transport", transport)
        peer = transport.get_extra_info("peername")
        self.address = str(peer[0]) if peer else ""
        self._http.connection_made(transport)
        if self._connections.admit(self):
            self._wait()
        else:
            self.drop()

    def data_received(self, data: bytes) -> None:
        """Note when a request begins to arrive, and when it is whole."""
        if self._begun is None:
            self._wait()
        self._http.data_received(data)
        cycle = self._http.cycle
        if cycle is not None and cycle is not self._arrived and not cycle.more_body:
            self._arrived, self._begun = cycle, None
            self._connections.served(self)

    def eof_received(self) -> None:
        """Pass it on."""
        self._http.eof_received()

    def pause_writing(self) -> None:
        """Pass it on."""
        self._http.pause_writing()

    def resume_writing(self) -> None:
        """Pass it on."""
        self._http.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        """It is closed."""
        self._connections.forget(self)
        if self._timer is not None:
            self._timer.cancel()
        self._http.connection_lost(exc)

    def _wait(self) -> None:
        """A request may arrive from now on."""
        self._begun = self._loop.time()
        if self._timer is None:
            self._timer = self._loop.call_later(MAX_HEADER_SECONDS, self._look)

    def _look(self) -> None:
        """Whether the request that is arriving takes too long."""
        self._timer = None
        if self._begun is None:
            return  # the next byte begins to wait again
        has_header = self._http.cycle is not None and self._http.cycle is not self._arrived
        until = self._begun + (MAX_BODY_SECONDS if has_header else MAX_HEADER_SECONDS)
        if self._loop.time() >= until:
            self.drop()
        else:
            self._timer = self._loop.call_at(until, self._look)


class FewLines(logging.Filter):
    """Lets a few lines of a kind pass in each period; the first one after it says how many were left out.

    Examples
    --------
    >>> few = FewLines()
    >>> record = logging.LogRecord("uvicorn.error", logging.WARNING, "", 0, "Invalid HTTP request received.", (), None)
    >>> sum(few.filter(record) for _ in range(1000)) == MAX_LINES
    True
    """

    def __init__(self) -> None:
        super().__init__()
        self._period, self._lines = 0.0, Counter[str]()

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether it may pass."""
        kind, now = str(record.msg)[:60], time.monotonic()
        if now >= self._period + PERIOD:
            left_out = sum(count - MAX_LINES for count in self._lines.values() if count > MAX_LINES)
            self._period, self._lines = now, Counter()
            if left_out:
                record.msg = f"({left_out} lines were left out) {record.msg}"
        self._lines[kind] += 1
        return self._lines[kind] <= MAX_LINES
