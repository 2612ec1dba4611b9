"""Requests over sockets, each within a time that nothing prolongs: no name server, handshake or dripping answer."""

from __future__ import annotations

import os
import socket
import ssl
import threading
import time
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from conebandit.service.client import names
from conebandit.service.client.errors import ClientError, refusal
from conebandit.service.client.patience import Deadline, Tries
from conebandit.service.client.requests import R, Request
from conebandit.service.client.wire import Answer, Incoming, WireError, request_bytes

MAX_IDLE = 100  # connections kept open; threads beyond that connect anew
PIECE = 65_536


@dataclass(frozen=True)
class Site:
    """Where the service is, and who asks."""

    host: str
    port: int
    prefix: str  # of every path
    tls: ssl.SSLContext | None
    headers: dict[str, str]

    @classmethod
    def at(cls, address: str, key: str | None = None, actor: str | None = None) -> Site:
        """The service at an address such as ``http://127.0.0.1:8000``.

        Examples
        --------
        >>> site = Site.at("http://example.org/bandits/", actor="dr.lee")
        >>> site.port, site.prefix, site.headers["host"], site.headers["x-actor"]
        (80, '/bandits', 'example.org', 'dr.lee')
        """
        parts = urlsplit(address)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"address must look like http://127.0.0.1:8000; got {address!r}.")
        name = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
        headers = {
            "host": name if parts.port is None else f"{name}:{parts.port}",
            "content-type": "application/json",
            **({"x-api-key": _header("key", key)} if key else {}),
            **({"x-actor": _header("actor", actor)} if actor else {}),
        }
        secure = parts.scheme == "https"
        port = parts.port or (443 if secure else 80)
        tls = ssl.create_default_context() if secure else None
        return cls(parts.hostname, port, parts.path.rstrip("/"), tls, headers)

    def encoded(self, request: Request[Any]) -> bytes:
        """A request as bytes."""
        headers = self.headers if request.actor is None else self.headers | {"x-actor": request.actor}
        headers = {**headers, **request.headers}
        return request_bytes(request.method, self.prefix + request.path, headers, request.payload)


def _header(name: str, value: str) -> str:
    if not isinstance(value, str) or not value.isprintable() or value != value.strip():
        raise ValueError(f"{name} must be printable text, without spaces around it; got {value!r}.")
    return value


def content_of(answer: Answer, request: Request[R]) -> R:
    """What a request asked for, or why not."""
    if answer.status // 100 != 2:
        raise refusal(answer.status, answer.content)
    try:
        return request.read(answer.content)
    except (ValueError, TypeError, AttributeError, LookupError, RecursionError) as error:  # a page of some proxy, say
        raise ClientError(502, f"the answer is none of the service's: {error}") from error


def no_answer(error: Exception) -> Answer:
    """What stands for an answer that did not come."""
    return Answer(0, (str(error) or type(error).__name__).encode())


class Transport:
    """Sends requests over connections that it keeps. Threads may share it, and it may be taken over a fork."""

    def __init__(self, site: Site, retries: int) -> None:
        self.site = site
        self._retries = retries
        self._lock = threading.Lock()
        self._idle: list[socket.socket] = []
        self._process = os.getpid()

    def ask(self, request: Request[R], deadline: Deadline) -> R:
        """What a request asks for. Sent again while it does not get through and there is time."""
        payload = self.site.encoded(request)
        tries = Tries(self._retries)
        while True:
            answer = self._try(payload, deadline, long=request.long)
            pause = tries.pause_after(answer.status, deadline)
            if pause is None:
                return content_of(answer, request)
            time.sleep(pause)

    def close(self) -> None:
        """Close the connections that are not in use."""
        with self._lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    def _try(self, payload: bytes, deadline: Deadline, *, long: bool) -> Answer:
        try:
            connection = self._take()
            if connection is not None:
                try:
                    return self._exchange(connection, payload, deadline, long=long)
                except ConnectionError:  # the service ends connections that are idle for some seconds
                    pass
            return self._exchange(_connect(self.site, deadline), payload, deadline, long=long)
        except (OSError, WireError) as error:
            return no_answer(error)

    def _exchange(self, connection: socket.socket, payload: bytes, deadline: Deadline, *, long: bool) -> Answer:
        answer = None
        try:
            answer = _exchange(connection, payload, deadline, long=long)
            return answer
        finally:
            if answer is not None and answer.reusable:
                self._give_back(connection)
            else:
                connection.close()

    def _take(self) -> socket.socket | None:
        with self._lock:
            if self._process != os.getpid():  # those of the parent are the parent's
                self._idle, self._process = [], os.getpid()
            return self._idle.pop() if self._idle else None

    def _give_back(self, connection: socket.socket) -> None:
        with self._lock:
            if len(self._idle) < MAX_IDLE:
                self._idle.append(connection)
                return
        connection.close()


def _exchange(connection: socket.socket, payload: bytes, deadline: Deadline, *, long: bool) -> Answer:
    """One request and its answer. A time-out of a socket is for one call, so each gets what is left."""
    unsent = memoryview(payload)
    while unsent:
        connection.settimeout(deadline.left())
        unsent = unsent[connection.send(unsent) :]
    incoming = Incoming()
    while True:
        connection.settimeout(deadline.left())
        answer = incoming.feed(connection.recv(PIECE))
        if answer is not None:
            return answer
        if long:
            deadline.restart()


def _connect(site: Site, deadline: Deadline) -> socket.socket:
    try:
        found = names.look_up(site.host, site.port).result(deadline.left())
    except TimeoutError:
        raise TimeoutError(f"the address of {site.host} was not found in time") from None
    for i, (family, kind, protocol, _, address) in enumerate(found):
        connection = socket.socket(family, kind, protocol)
        try:
            connection.settimeout(deadline.left() / (len(found) - i))  # so that one dead address does not take all
            connection.connect(address)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if site.tls is None:
                return connection
            connection.settimeout(deadline.left())  # for the handshake as a whole
            return site.tls.wrap_socket(connection, server_hostname=site.host)
        except OSError:
            connection.close()
            if i == len(found) - 1:
                raise
    raise OSError(f"{site.host} has no address")
