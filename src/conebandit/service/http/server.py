"""Running the service: in the foreground for the command line, in the background for notebooks and tests."""

from __future__ import annotations

import asyncio
import gc
import ipaddress
import logging
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import cast

import uvicorn

from conebandit._garbage import starting
from conebandit.experiment.errors import InvalidError, RefusalError
from conebandit.kernels.compile import kept_in
from conebandit.service.engine.anchors import EVERY, Anchors, destination
from conebandit.service.engine.clock import SteadyClock
from conebandit.service.engine.rehearsal import Kernels, prepare_start
from conebandit.service.engine.writer import Writer
from conebandit.service.errors import SealKeyError, UnavailableError
from conebandit.service.http import access_log
from conebandit.service.http.app import create_app
from conebandit.service.http.connections import Connection, Connections, FewLines, allow_files, max_connections
from conebandit.service.http.rates import Rate
from conebandit.service.log.bodies import MAX_POSITION
from conebandit.service.log.replay import DECLARATIONS
from conebandit.service.stores.base import Store, open_store
from conebandit.service.stores.records import Record
from conebandit.service.stores.seals import Seals, key_of

BACKLOG = 2048  # callers that may wait to be let in
AT_ONCE = 100  # of them are let in before those that are too many can make way
PATIENCE, PAUSE = 30.0, 1.0  # seconds for which a start tries again while the store does not answer, and between tries
GRACE = 10  # seconds for requests that are being answered when the service is told to end
QUIET = 1.0  # seconds of a start before it says why it takes so long
COMPILING = "Compiling kernels (first use on this machine; `conebandit warm` does it beforehand) ..."
# When garbage in cycles is looked for: after so many new objects, and so many of the smaller searches. Whoever reads a
# log keeps a few thousand objects for a moment; by Python's own choice (700, 10, 10) they would set off a search of all
# memory again and again, which stops every thread for 30 ms or more.
GARBAGE = (20_000, 20, 20)
SWITCH = 0.0005  # seconds for which a thread may keep the others from running; Python's own choice is ten times that

log = logging.getLogger("conebandit.service")


class _Server(uvicorn.Server):
    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        for listener in sockets or []:
            listener.listen(BACKLOG)  # for asyncio both numbers are the same


def serve(
    where: str,
    host: str = "127.0.0.1",
    port: int = 8000,
    allow_hosts: Sequence[str] = (),
    say: Callable[[str], None] = lambda _: None,
    *,
    seals: Seals | None = None,
    anchor: str | None = None,
    anchor_every: float = EVERY,
    rate: Rate | None = None,
    session_key: bytes | None = None,
    log_requests: bool = False,
) -> None:
    """Serve until interrupted.

    Parameters
    ----------
    where
        A path for SQLite, or a ``postgresql://`` address.
    host, port
        Where to listen. Beyond this machine only if there are API keys.
    allow_hosts
        Names by which it may be called while there are no API keys, beside ``host`` and those of loopback.
    say
        Called with what may interest whoever has started it.
    seals
        What the logs are sealed with; by default the keys of the environment, if there are any.
    anchor, anchor_every
        Where to send the ends of the logs (see :func:`~conebandit.service.engine.anchors.destination`), if anywhere,
        and every so many seconds.
    rate
        How many decisions and outcomes each key may ask for, unless it has a rate of its own; None: any number.
    session_key
        What sessions of the dashboard are signed with; None: a random one, which no other process knows.
    log_requests
        Whether each request is a line of the access log.
    """
    access_log.turn(on=log_requests)
    _share_time()
    allow_files()
    anchors = None if anchor is None else partial(Anchors, send=destination(anchor), every=anchor_every)
    prepare = partial(
        _prepare,
        where,
        host,
        port,
        allow_hosts,
        rate=rate,
        session_key=session_key,
        own_process=True,
        kernels=Kernels(apart=True),
        say=say,
        seals=seals,
        anchors=anchors,
    )
    with starting():
        server, listener = _patiently(prepare, say)
    with listener:
        server.run(sockets=[listener])


def _patiently(
    prepare: Callable[[], tuple[uvicorn.Server, socket.socket]], say: Callable[[str], None]
) -> tuple[uvicorn.Server, socket.socket]:
    """Prepare, and try again for a while: a database is often restarted together with what needs it."""
    until, told = time.monotonic() + PATIENCE, ""
    while True:
        try:
            return prepare()
        except UnavailableError as error:
            if time.monotonic() >= until:
                raise
            if str(error) != told:
                told = str(error)
                say(f"{told} Trying again for {PATIENCE:g} seconds ...")
            time.sleep(PAUSE)


@contextmanager
def serving(
    where: str,
    host: str = "127.0.0.1",
    port: int = 0,
    *,
    rate: Rate | None = None,
    session_key: bytes | None = None,
    clock: SteadyClock | None = None,
) -> Iterator[str]:
    """Serve from a thread while the block runs; gives the address. ``clock`` dates the events: the system's by default.

    Examples
    --------
    >>> import tempfile, pathlib, urllib.request
    >>> with tempfile.TemporaryDirectory() as folder, serving(str(pathlib.Path(folder) / "log.db")) as address:
    ...     urllib.request.urlopen(address + "/healthz").read()
    b'{"status":"ok"}'
    """
    server, listener = _prepare(where, host, port, rate=rate, session_key=session_key, clock=clock)
    with listener:
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
        thread.start()
        while not server.started and thread.is_alive():
            time.sleep(0.001)
        try:
            yield _address(listener, host)
        finally:
            server.should_exit = True
            thread.join()


def _share_time() -> None:
    """Let no thread keep the others from running for long.

    A decision changes hands between threads a dozen times; beside an export each of them may have to wait for a switch.
    """
    sys.setswitchinterval(SWITCH)
    gc.set_threshold(*GARBAGE)


def _nothing() -> None:
    """Do nothing."""


def _freeze_memory() -> None:
    """What is in memory now will stay; searching it for garbage, again and again, would stop everything for 0.1 s."""
    gc.collect()
    gc.freeze()


def _prepare(
    where: str,
    host: str,
    port: int,
    allow_hosts: Sequence[str] = (),
    *,
    rate: Rate | None = None,
    session_key: bytes | None = None,
    own_process: bool = False,
    kernels: Kernels | None = None,
    say: Callable[[str], None] = lambda _: None,
    seals: Seals | None = None,
    anchors: Callable[[Store], Anchors] | None = None,
    clock: SteadyClock | None = None,
) -> tuple[uvicorn.Server, socket.socket]:
    """Open the store, compile, read the logs, and only then listen: whoever is let in is answered at once.

    ``own_process``: nobody else's objects are in memory, so what is there can be kept from being searched for garbage.
    """
    store = open_store(where, seals=seals)
    try:
        _look_around(store, host, say)
    except RefusalError:
        store.close()
        raise
    listener = _bind(host, port)
    send_last = _nothing if anchors is None else anchors(store).close
    tidy_up, freeze = (_freeze_memory, gc.freeze) if own_process else (_nothing, _nothing)
    writer = Writer(store, clock, tidy_up=tidy_up, at_end=send_last, kernels=kernels)
    try:
        _warm_up(writer, say, freeze)
        _listen(listener, host)
    except (OSError, RefusalError):
        writer.close()
        listener.close()
        raise
    say(f"Serving on {_address(listener, host)} (pages: /dashboard and /docs); stop with Ctrl-C.")
    connections = Connections(max_connections())
    config = uvicorn.Config(
        create_app(writer, (host, *allow_hosts), reachable=not is_loopback(host), rate=rate, session_key=session_key),
        log_config=None,  # how and where is up to the process: see logs.py
        log_level="warning",
        access_log=False,
        server_header=False,
        lifespan="on",
        backlog=AT_ONCE,
        http=cast("type[asyncio.Protocol]", partial(Connection, connections)),
        timeout_graceful_shutdown=GRACE,
    )
    for name in ("asyncio", "uvicorn.error"):  # what strangers cause is said there
        logger = logging.getLogger(name)
        if not any(isinstance(known, FewLines) for known in logger.filters):
            logger.addFilter(FewLines())
    return _Server(config), listener


def _warm_up(writer: Writer, say: Callable[[str], None], freeze: Callable[[], None] = _nothing) -> None:
    """Have machine code and states in memory; ``freeze`` what is there before the first turn, which would search it."""
    declared: list[Record] = []
    with writer.store.read() as session:
        experiments = session.experiments()
        for id_ in experiments:
            with suppress(RefusalError):  # of a damaged log, who asks will hear
                declared += session.of_kinds(id_, DECLARATIONS, MAX_POSITION)
    if kept_in() is None:
        log.warning("there is no folder to keep machine code in, so it is compiled at each start: set NUMBA_CACHE_DIR")
    begun, notice = time.monotonic(), threading.Timer(QUIET, say, [COMPILING])
    notice.start()  # what was compiled before is found in less time
    try:
        compiled = prepare_start(declared)
    finally:
        notice.cancel()
    if compiled:
        gc.collect()  # to read kernels leaves no garbage, to compile them does
        say(f"Compiled {compiled} kernels in {time.monotonic() - begun:.0f} s.")
    freeze()
    if experiments:
        say(f"Reading the logs of {len(experiments)} experiment{'s' if len(experiments) > 1 else ''} ...")
        writer.warm_up()
        with writer.store.read() as session:  # a store that went away meanwhile says so here
            session.experiments()


def _look_around(store: Store, host: str, say: Callable[[str], None]) -> None:
    """An error if the store must not be served like this.

    A log that is not sealed although there is a key is not served, but the others are.
    """
    with store.read() as session:
        if not is_loopback(host) and not session.api_keys():
            raise InvalidError(
                f"will not listen on {host}, which others can reach, without API keys. Make one first: "
                "conebandit key create NAME --scope admin"
            )
        heads = {id_: session.existing_head(id_) for id_ in session.experiments()}
    for id_, head in heads.items():
        try:
            store.seals.check_head(id_, head.check)
        except SealKeyError as error:
            if key_of(head.check) is not None:
                raise
            say(f"Not served: {error}")


def _address(listener: socket.socket, host: str) -> str:
    return f"http://{f'[{host}]' if ':' in host else host}:{listener.getsockname()[1]}"


def _bind(host: str, port: int) -> socket.socket:
    """Reserve an address. Callers are refused, and go to another process, until we listen there.

    Without SO_REUSEADDR, so that nobody else can have it meanwhile. For a minute after a restart, while connections of
    the process before us linger, there is no address to be had without; then whoever listens first gets it.
    """
    listener = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    # asyncio does this only for sockets that name their protocol; without it replies wait 40 ms for a receipt.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    try:
        try:
            listener.bind((host, port))
        except OSError:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind((host, port))
    except OSError as error:
        listener.close()
        raise _with_address(error, host, port) from None
    return listener


def _listen(listener: socket.socket, host: str) -> None:
    """Let callers in. Their connections inherit SO_REUSEADDR, without which they would bar the next start."""
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.listen(BACKLOG)
    except OSError as error:
        raise _with_address(error, host, listener.getsockname()[1]) from None


def _with_address(error: OSError, host: str, port: int) -> OSError:
    """The same error, with the address."""
    return OSError(error.errno, f"{error.strerror} ({host}, port {port})")


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach it.

    Examples
    --------
    >>> [is_loopback(host) for host in ("127.0.0.1", "::1", "localhost", "0.0.0.0", "example.org")]
    [True, True, True, False, False]
    """
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
