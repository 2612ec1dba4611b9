"""Requests over asyncio's streams; what ``transport`` does, for callers that must not block."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from conebandit.service.client import names
from conebandit.service.client.patience import Deadline, Tries
from conebandit.service.client.requests import R, Request
from conebandit.service.client.transport import PIECE, Site, content_of, no_answer
from conebandit.service.client.wire import Answer, Incoming, WireError

MAX_CONNECTIONS = 100  # the service takes 800 from one address; requests beyond these wait for one that is free

Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class AsyncTransport:
    """Sends requests over connections that it keeps, for one event loop at a time."""

    def __init__(self, site: Site, retries: int) -> None:
        self.site = site
        self._retries = retries
        self._loop: asyncio.AbstractEventLoop | None = None
        self._idle: list[Connection] = []
        self._free = asyncio.Semaphore(MAX_CONNECTIONS)

    async def ask(self, request: Request[R], deadline: Deadline) -> R:
        """What a request asks for. Sent again while it does not get through and there is time."""
        self._settle_in_this_loop()
        payload = self.site.encoded(request)
        tries = Tries(self._retries)
        while True:
            answer = await self._try(payload, deadline, long=request.long)
            pause = tries.pause_after(answer.status, deadline)
            if pause is None:
                return content_of(answer, request)
            await asyncio.sleep(pause)

    def close(self) -> None:
        """Close the connections that are not in use."""
        idle, self._idle = self._idle, []
        for connection in idle:
            _drop(connection)

    def _settle_in_this_loop(self) -> None:
        """Connections belong to the loop in which they were made; in another one, or after a fork, there are none."""
        loop = asyncio.get_running_loop()
        if loop is not self._loop:
            self.close()
            self._loop, self._free = loop, asyncio.Semaphore(MAX_CONNECTIONS)

    async def _try(self, payload: bytes, deadline: Deadline, *, long: bool) -> Answer:
        try:
            async with asyncio.timeout(deadline.left()) as limit, self._free:
                if self._idle:
                    with suppress(ConnectionError):  # the service ends connections that are idle for some seconds
                        return await self._exchange(self._idle.pop(), payload, limit if long else None, deadline)
                return await self._exchange(await _connect(self.site), payload, limit if long else None, deadline)
        except TimeoutError:
            return no_answer(TimeoutError("no answer in time"))
        except (OSError, WireError) as error:
            return no_answer(error)

    async def _exchange(
        self, connection: Connection, payload: bytes, limit: asyncio.Timeout | None, deadline: Deadline
    ) -> Answer:
        """One request and its answer; ``limit`` is put off with each piece. What ends it early ends the connection."""
        answer = None
        reader, writer = connection
        try:
            writer.write(payload)
            await writer.drain()
            incoming = Incoming()
            while answer is None:
                answer = incoming.feed(await reader.read(PIECE))
                if limit is not None:
                    deadline.restart()
                    limit.reschedule(asyncio.get_running_loop().time() + deadline.left())
            return answer
        finally:
            if answer is not None and answer.reusable:
                self._idle.append(connection)
            else:
                _drop(connection)


async def _connect(site: Site) -> Connection:
    found = await asyncio.shield(asyncio.wrap_future(names.look_up(site.host, site.port)))
    name = site.host if site.tls is not None else None
    for i, (*_, address) in enumerate(found):
        try:
            return await asyncio.open_connection(address[0], address[1], ssl=site.tls, server_hostname=name)
        except OSError:
            if i == len(found) - 1:
                raise
    raise OSError(f"{site.host} has no address")


def _drop(connection: Connection) -> None:
    """Close a connection without a word; its loop may have ended before."""
    with suppress(RuntimeError):
        connection[1].transport.abort()
