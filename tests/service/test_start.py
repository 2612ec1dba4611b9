"""Starting on a log that is there already: it is read before anybody asks, and without keeping anybody waiting."""

import asyncio
import socket
import sqlite3
import time
from contextlib import contextmanager

import httpx
import pytest

import conebandit as cb
from conebandit.experiment.declaration import Experiment
from conebandit.service.engine import transaction
from conebandit.service.engine.ledger import Ledger
from conebandit.service.engine.turn import Turn
from conebandit.service.engine.writer import Writer
from conebandit.service.errors import CorruptionError, NotFoundError, UnavailableError
from conebandit.service.http import server
from conebandit.service.log.replay import MAX_LEFT, read_to_head, rebuild
from conebandit.service.log.state import State
from conebandit.service.stores.base import open_store
from conebandit.service.stores.session import PAGE

LONG = 3 * PAGE
PHONE = {"age": 30, "device": "phone"}


def fill(address, declaration, ids=("checkout",)):
    """Logs of LONG events each, and no snapshots."""
    writer = Writer(open_store(address))
    for id_ in ids:
        experiment = Experiment.from_dict({**declaration, "id": id_})
        writer.submit(id_, lambda turn, experiment=experiment: turn.create(experiment)).result()
        add(writer, id_, LONG - 1)
    writer.close(snapshots=False)


def add(writer, id_, count, first=0):
    asked = [{"id": f"d{i}", "context": PHONE} for i in range(first, first + count)]
    writer.submit(id_, lambda turn: turn.decide(id_, asked[: count // 2])).result()
    writer.submit(id_, lambda turn: turn.decide(id_, asked[count // 2 :])).result()


def correct(writer, decision, value):
    """Report it, and wait until it counts; the first report of a value does so at once."""
    told = [{"id": decision, "values": {"revenue": value}}]
    writer.submit("checkout", lambda turn: turn.report("checkout", told)).result()
    while writer.submit("checkout", lambda turn: turn.describe("checkout")).result().revising:
        pass


def at_the_end(store, id_="checkout"):
    """Checksum of the state to which the whole log leads."""
    with store.read() as session:
        return rebuild(session, id_, session.head(id_), snapshots=False).digest()


@pytest.fixture
def folds(monkeypatch):
    """Counts events that are folded, with and without a lock: {True: ..., False: ...}."""
    counts, locked, fold = {True: 0, False: 0}, [], State.fold

    def counting(self, *arguments):
        counts[bool(locked)] += 1
        return fold(self, *arguments)

    def watch(store):
        write = store.write

        @contextmanager
        def noticing():
            with write() as session:
                locked.append(session)
                yield session
            locked.pop()

        monkeypatch.setattr(store, "write", noticing)
        return store

    monkeypatch.setattr(State, "fold", counting)
    counts["watch"] = watch
    return counts


def test_a_long_log_is_read_without_a_lock(address, declaration, folds):
    fill(address, declaration)
    writer = Writer(folds["watch"](open_store(address)))
    folds[True] = folds[False] = 0
    digest = writer.submit("checkout", lambda turn: turn.digest("checkout")).result()
    assert (digest.events, digest.state) == (LONG, at_the_end(writer.store))
    assert folds[True] <= MAX_LEFT
    writer.close()


def test_warm_up_leaves_nothing_to_read(address, declaration, folds):
    fill(address, declaration, ["one", "two"])
    writer = Writer(folds["watch"](open_store(address)))
    writer.warm_up()
    folds[True] = folds[False] = 0
    for id_ in ("one", "two"):
        writer.submit(id_, lambda turn, id_=id_: turn.decide(id_, [{"context": PHONE}])).result()
    assert (folds[True], folds[False]) == (2, 0), "the two decisions themselves"
    writer.close()


def test_warm_up_goes_on_after_a_log_that_is_damaged(tmp_path, declaration):
    address = str(tmp_path / "log.db")
    fill(address, declaration, ["good", "worse"])
    with sqlite3.connect(address) as database:
        database.execute(
            "UPDATE events SET body = replace(body, 'phone', 'phony') WHERE experiment = 'worse' AND seq > 1"
        )
    database.close()
    writer = Writer(open_store(address))
    writer.warm_up()
    assert writer.submit("good", lambda turn: turn.describe("good")).result().events == LONG
    with pytest.raises(CorruptionError, match=r"event 2 .*checksum"):
        writer.submit("worse", lambda turn: turn.describe("worse")).result()
    writer.close()


def test_others_write_and_revise_meanwhile(address, declaration):
    fill(address, declaration)
    other, store = Writer(open_store(address)), open_store(address)
    steps = iter(range(3))

    @contextmanager
    def read():
        """After each page, somebody else adds to the log; in the middle of it, something that makes us start anew."""
        with store.read() as session:
            yield session
        step = next(steps, None)
        if step is not None:
            add(other, "checkout", 300, first=10_000 + 300 * step)
            correct(other, "d3", float(step))

    state = read_to_head(read, "checkout")
    other.close()
    with store.read() as session:
        head = session.head("checkout")
    assert 0 <= head.seq - state.head.seq <= MAX_LEFT
    ledger = Ledger()
    ledger.put(state)
    with ledger.transaction(store, now=0) as begun:
        assert Turn(begun).digest("checkout").state == at_the_end(store)
    store.close()


def test_what_others_have_appended_meanwhile_is_read_without_a_lock(address, declaration, folds, monkeypatch):
    """A process that has slept for long is far behind; or what it knows has been revised."""
    fill(address, declaration)
    monkeypatch.setattr(
        transaction, "rebuild", None
    )  # under the lock, nothing is built from a snapshot or the first event
    writer, other = Writer(folds["watch"](open_store(address))), Writer(open_store(address))

    def twice():
        correct(other, "d3", 5.0)
        correct(other, "d3", 6.0)

    for change in (lambda: add(other, "checkout", LONG, first=10_000), twice):
        writer.submit("checkout", lambda turn: turn.describe("checkout")).result()
        change()
        folds[True] = folds[False] = 0
        digest = writer.submit("checkout", lambda turn: turn.digest("checkout")).result()
        assert folds[True] <= MAX_LEFT
        assert digest.state == at_the_end(writer.store)
    writer.close()
    other.close()


def test_no_such_experiment(store):
    assert read_to_head(store.read, "nothing") is None
    writer = Writer(store)
    with pytest.raises(NotFoundError):
        writer.submit("nothing", lambda turn: turn.describe("nothing")).result()
    writer.close()


@pytest.fixture
def while_logs_are_read(monkeypatch):
    """Have something done, with the address that we have reserved, before logs are read; gives what was reserved."""
    reserved, warm_up, bind = [], Writer.warm_up, server._bind

    def noting(host, port):
        reserved.append(bind(host, port))
        return reserved[-1]

    def do(act):
        def first_act(writer):
            act(reserved[0].getsockname())
            warm_up(writer)

        monkeypatch.setattr(server, "_bind", noting)
        monkeypatch.setattr(Writer, "warm_up", first_act)
        return reserved

    return do


def test_callers_are_refused_until_the_logs_are_read(tmp_path, declaration, while_logs_are_read):
    """Not left waiting: behind nginx they go to another process."""
    address, refused = str(tmp_path / "log.db"), []
    fill(address, declaration)

    def call(at):
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(at, timeout=5)
        refused.append(at)

    while_logs_are_read(call)
    with server.serving(address) as url, cb.Client(url) as client:
        assert len(refused) == 1
        assert client.show("checkout")["events"] == LONG


def test_a_port_that_is_taken_is_named(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(OSError, match=f"in use .*{port}"):
            server.serve(str(tmp_path / "log.db"), port=port)


def test_nobody_else_gets_the_port_while_logs_are_read(tmp_path, declaration, while_logs_are_read):
    address = str(tmp_path / "log.db")
    fill(address, declaration)

    def take(at):
        with pytest.raises(OSError, match=f"in use .*{at[1]}"):
            server.serve(str(tmp_path / "other.db"), port=at[1])

    reserved = while_logs_are_read(take)
    with server.serving(address) as url, cb.Client(url) as client:
        assert client.show("checkout")["events"] == LONG
    assert len(reserved) == 1, "the other one got nothing"


def leave_lingering(address, port=0):
    """Serve, and end a connection from our side, which keeps the port from being taken anew for a minute."""
    with server.serving(address, port=port) as url:
        at = "127.0.0.1", int(url.rpartition(":")[2])
        with socket.create_connection(at) as caller:
            caller.sendall(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
            while caller.recv(4096):
                pass
    with socket.socket() as lingering, pytest.raises(OSError, match="in use"):
        lingering.bind(at)
    return at[1]


def test_a_restart_does_not_wait_for_connections_that_linger(tmp_path):
    address = str(tmp_path / "log.db")
    port = leave_lingering(address)
    assert leave_lingering(address, port) == port
    assert leave_lingering(address, port) == port, "and those of a start beside them do not linger otherwise"


def test_a_port_that_is_lost_while_logs_are_read(tmp_path, declaration, monkeypatch):
    """Possible only beside connections that linger. No false word that we serve; what was read is kept."""
    address, said, warm_up = str(tmp_path / "log.db"), [], Writer.warm_up
    port = leave_lingering(str(tmp_path / "other.db"))
    fill(address, declaration)

    with socket.socket() as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)

        def lose(writer):
            other.bind(("127.0.0.1", port))
            other.listen()
            warm_up(writer)

        monkeypatch.setattr(Writer, "warm_up", lose)
        with pytest.raises(OSError, match=f"in use .*{port}"):
            server.serve(address, port=port, say=said.append)
    assert said == ["Reading the logs of 1 experiment ..."]
    store = open_store(address)
    with store.read() as session:
        assert session.snapshots("checkout")[0] == LONG
    store.close()


def test_a_start_waits_for_a_store_that_is_not_there_yet(tmp_path, declaration, monkeypatch):
    address, said, failures = str(tmp_path / "log.db"), [], iter(["away.", "away.", "starting up."])
    fill(address, declaration)

    def opening(where, **options):
        if reason := next(failures, None):
            raise UnavailableError(f"the database is {reason}")
        return open_store(where, **options)

    async def run_once(app):
        async with app.router.lifespan_context(app):
            pass

    monkeypatch.setattr(server, "open_store", opening)
    monkeypatch.setattr(server, "PAUSE", 0.01)
    monkeypatch.setattr(server.uvicorn.Server, "run", lambda self, sockets: asyncio.run(run_once(self.config.app)))
    server.serve(address, port=0, say=said.append)
    again = "Trying again for 30 seconds ..."
    assert said[:2] == [f"the database is away. {again}", f"the database is starting up. {again}"]
    assert said[-1].startswith("Serving on http://127.0.0.1:")


def test_a_store_that_goes_away_while_logs_are_read(tmp_path, declaration, monkeypatch):
    monkeypatch.setattr(server, "PATIENCE", 0.0)
    address, said = str(tmp_path / "log.db"), []
    fill(address, declaration)

    def vanish(writer):
        def unreachable():
            raise UnavailableError("the store cannot be reached.")

        monkeypatch.setattr(writer.store, "read", unreachable)

    monkeypatch.setattr(Writer, "warm_up", vanish)
    with pytest.raises(UnavailableError, match="cannot be reached"):
        server.serve(address, port=0, say=said.append)
    assert said == ["Reading the logs of 1 experiment ..."]


def test_a_client_that_does_not_read_does_not_keep_the_service_from_ending(tmp_path, declaration, monkeypatch):
    monkeypatch.setattr(server, "GRACE", 1)
    address = str(tmp_path / "log.db")
    fill(address, declaration)
    with server.serving(address) as url:
        port = int(url.rpartition(":")[2])
        waiting = [socket.create_connection(("127.0.0.1", port)) for _ in range(3)]
        for connection in waiting:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            connection.sendall(b"GET /experiments/checkout/export HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert waiting[0].recv(12) == b"HTTP/1.1 200"
        start = time.monotonic()
    assert time.monotonic() - start < 30, "it would wait for ever"
    for connection in waiting:
        connection.close()
    store = open_store(address)
    with store.read() as session:
        assert session.snapshots("checkout") == [LONG], "it has ended in good order"
    store.close()


def _has_ipv6():
    try:
        with socket.socket(socket.AF_INET6) as s:
            s.bind(("::1", 0))
    except OSError:
        return False
    return True


@pytest.mark.skipif(not _has_ipv6(), reason="this machine has no IPv6")
def test_an_address_of_ipv6_is_in_brackets(begun):
    with server.serving(begun, host="::1") as url:
        assert url.startswith("http://[::1]:")
        assert httpx.get(f"{url}/healthz").json() == {"status": "ok"}
