"""Connections that are too many, or too slow."""

import contextlib
import logging
import socket
import time
from types import SimpleNamespace

import httpx
import pytest

from conebandit.service.http import connections
from conebandit.service.http.server import serving

HALF = b"GET /healthz HTTP/1.1\r\nhost: localhost\r\nx-half:"
WHOLE = b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n"
BODY = (
    b"POST /experiments HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 100\r\n\r\n{"
)


@pytest.fixture
def served(tmp_path, monkeypatch, request):
    for name, value in request.param.items():
        monkeypatch.setattr(connections, name, value)
    with serving(str(tmp_path / "log.db")) as url:
        yield url


@pytest.fixture
def sockets(served):
    """Opens sockets, sends something on each, and closes them in the end."""
    with contextlib.ExitStack() as stack:

        def open_some(number, sent):
            host, port = served.removeprefix("http://").split(":")
            made = [stack.enter_context(socket.create_connection((host, int(port)), timeout=30)) for _ in range(number)]
            for one in made:
                with contextlib.suppress(ConnectionError):
                    one.sendall(sent)
            return made

        yield open_some


def is_ended(one):
    """Whether the service ends it; waits for that."""
    try:
        while one.recv(4096):
            pass
    except ConnectionError:
        pass
    return True


def is_open(one):
    one.settimeout(0.05)
    try:
        return one.recv(1) != b""
    except TimeoutError:
        return True
    except ConnectionError:
        return False


@pytest.mark.parametrize("served", [{"MAX_CONNECTIONS": 40}], indirect=True)
@pytest.mark.parametrize("sent", [b"", HALF, BODY], ids=["nothing", "half a header", "half a body"])
def test_whoever_is_slow_makes_way(served, sockets, sent):
    slow = sockets(200, sent)
    with httpx.Client(base_url=served, timeout=30) as client:
        for _ in range(3):
            assert client.get("/healthz").json() == {"status": "ok"}
    assert sum(map(is_open, slow[:-40])) == 0, "the first that came are gone"


@pytest.mark.parametrize("served", [{"MAX_HEADER_SECONDS": 0.2, "MAX_BODY_SECONDS": 0.4}], indirect=True)
@pytest.mark.parametrize("sent", [b"", HALF, BODY, WHOLE + HALF], ids=["nothing", "header", "body", "second"])
def test_a_request_must_arrive_in_time(served, sockets, sent):
    assert all(map(is_ended, sockets(3, sent)))


@pytest.mark.parametrize("served", [{"MAX_HEADER_SECONDS": 0.1, "MAX_BODY_SECONDS": 0.2}], indirect=True)
def test_a_connection_may_stay_between_requests(served, sockets):
    [one] = sockets(1, b"")
    for _ in range(4):
        one.sendall(WHOLE)
        answer = b""
        while not answer.endswith(b"}"):
            part = one.recv(4096)
            assert part, "it is open"
            answer += part
        assert answer.startswith(b"HTTP/1.1 200")
        time.sleep(0.3)  # longer than a request may take to arrive


class Made:
    """A connection that is idle, or not."""

    def __init__(self, address="a", *, idle=True):
        self.address, self.idle, self.dropped = address, idle, False

    def drop(self):
        self.dropped = True


def test_who_makes_way():
    few = connections.Connections(4)
    few._most_of_address = 2
    one, two, three, four = Made("a"), Made("a", idle=False), Made("b"), Made("b")
    assert all(few.admit(made) for made in (one, two, three, four))
    few.served(three)
    assert few.admit(five := Made("c"))
    assert [made.dropped for made in (one, two, three, four)] == [True, False, False, False], "the first that is idle"
    assert few.admit(Made("c"))
    assert (four.dropped, three.dropped) == (True, False)
    assert few.admit(Made("c")), "two of an address at most"
    assert five.dropped
    for made in (busy := [Made("d", idle=False), Made("d", idle=False)]):
        assert few.admit(made)
    assert not few.admit(Made("d")), "both are busy"
    few.forget(busy[0])
    few.forget(busy[0])
    assert few.admit(Made("d"))


def test_few_lines_are_logged_of_a_kind(monkeypatch):
    few, now = connections.FewLines(), [1000.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])

    def lines(text, number):
        records = [logging.LogRecord("n", logging.WARNING, "", 0, text, (), None) for _ in range(number)]
        return [record.getMessage() for record in records if few.filter(record)]

    assert len(lines("the same", 500)) == connections.MAX_LINES
    assert len(lines("another", 3)) == 3
    now[0] += connections.PERIOD
    assert lines("the same", 1) == ["(490 lines were left out) the same"]
    assert lines("the same", 1) == ["the same"]


def test_there_are_files_left_for_the_store(monkeypatch):
    assert 1 <= connections.max_connections() <= connections.MAX_CONNECTIONS
    limits = {"now": (256, 4096)}
    fake = SimpleNamespace(
        RLIMIT_NOFILE=0, getrlimit=lambda _: limits["now"], setrlimit=lambda _, new: limits.update(now=new)
    )
    monkeypatch.setattr(connections, "resource", fake)
    assert connections.max_connections() == 128
    for allowed, now in ((300, 300), (4096, 2000), (-1, 2000)):
        limits["now"] = (256, allowed)
        connections.allow_files()
        assert limits["now"] == (now, allowed)
        assert connections.max_connections() == now // 2
    limits["now"] = (-1, -1)
    connections.allow_files()
    assert limits["now"] == (-1, -1)
    assert connections.max_connections() == connections.MAX_CONNECTIONS
    monkeypatch.setattr(connections, "resource", None)
    connections.allow_files()
    assert connections.max_connections() == connections.MAX_CONNECTIONS


@pytest.mark.parametrize("served", [{}], indirect=True)
@pytest.mark.parametrize("route", ["decisions", "outcomes", "mode"])
def test_whoever_goes_away_in_the_middle_is_no_fault_of_ours(served, sockets, route, caplog):
    asked = BODY.replace(b"/experiments", f"/experiments/checkout/{route}".encode())
    [gone] = sockets(1, asked)
    gone.close()
    counted = 'conebandit_requests_total{method="POST",route="/experiments/{experiment}/' + route + '",status="400"} 1'
    for _ in range(100):
        metrics = httpx.get(f"{served}/metrics").text
        if f"/{route}" in metrics:
            break
        time.sleep(0.05)
    assert counted in metrics
    assert [record for record in caplog.records if record.levelno >= logging.ERROR] == []
