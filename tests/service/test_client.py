"""The client, where connections break and ids are odd."""

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace

import pytest

import conebandit as cb
from conebandit.service.client import ClientError, patience, transport
from conebandit.service.http.server import serving
from tests.service.driver import PHONE


class Impatient(BaseHTTPRequestHandler):
    """Ends every connection after an answer without saying so, as a service does when it was idle for too long."""

    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.server.seen.append(body["id"])
        arm = {"id": body["id"], "arm": "a", "propensity": 1, "active": ["a"], "mode": "live", "policy_version": "v"}
        self._answer(json.dumps(arm).encode())

    def do_GET(self):
        self.server.seen.append(self.path)
        self._answer(b"[]")

    def _answer(self, content):
        self.close_connection = self.server.impatient
        if self.server.drop:  # heard, carried out, but the answer is lost
            self.server.drop -= 1
            self.close_connection = True
            return
        self.send_response(200)
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_):
        pass


@pytest.fixture
def server():
    with ThreadingHTTPServer(("127.0.0.1", 0), Impatient) as server:
        server.seen, server.drop, server.impatient = [], 0, True
        server.address = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def test_a_connection_that_was_ended_while_idle_needs_no_retry(server):
    with cb.Client(server.address, retries=0) as client:
        for _ in range(5):
            assert client.decide("e").arm == "a"
            assert client.export("e", "csv") == b"[]"
            assert client.experiments() == []
    assert len(server.seen) == 15


def test_what_is_sent_again_has_the_same_id(server):
    server.impatient = False
    with cb.Client(server.address, retries=0) as client:
        first = client.decide("e").id
        server.drop = 1
        second = client.decide("e").id
    assert first != second
    assert server.seen == [first, second, second]


def test_a_new_connection_that_breaks_counts(server):
    server.drop = 1
    with cb.Client(server.address, retries=0) as client, pytest.raises(ClientError, match="cannot be reached"):
        client.decide("e")
    server.drop = 2
    with cb.Client(server.address, retries=1) as client, pytest.raises(ClientError, match="cannot be reached"):
        client.decide("e")
    assert len(server.seen) == 3


@pytest.mark.parametrize("answers", [False, True], ids=["silent", "busy"])
def test_all_tries_together_take_no_longer_than_the_deadline(answers, monkeypatch):
    """By the clock of the client: each try and each pause gets what is left."""
    waited, now = [], [100.0]

    class Connection:
        def settimeout(self, seconds):
            self.timeout = seconds

        def send(self, unsent):
            now[0] += 0.25
            return len(unsent)

        def recv(self, _):
            waited.append(self.timeout)
            now[0] += 0.5 if answers else self.timeout
            if not answers:
                raise TimeoutError("timed out")
            return b"HTTP/1.1 503 Unavailable\r\nconnection: close\r\ncontent-length: 2\r\n\r\n{}"

        def close(self):
            pass

    clock = SimpleNamespace(monotonic=lambda: now[0], sleep=lambda seconds: now.__setitem__(0, now[0] + seconds))
    monkeypatch.setattr(transport, "_connect", lambda *_: Connection())
    monkeypatch.setattr(transport, "time", clock)
    monkeypatch.setattr(patience, "time", clock)
    with cb.Client("http://127.0.0.1:9", timeout=3.0, retries=50) as client, pytest.raises(ClientError):
        client.decide("e")
    assert now[0] <= 103.0 + 0.5
    assert waited == sorted(waited, reverse=True)
    assert (len(waited) > 2) == answers


def test_an_empty_id_is_refused_and_not_replaced(tmp_path, declaration):
    with serving(str(tmp_path / "log.db")) as url, cb.Client(url) as client:
        client.create(declaration)
        with pytest.raises(ClientError, match="1 to 128 printable") as refusal:
            client.decide("checkout", {"device": "desk"}, id="")
        assert refusal.value.status == 422
        assert client.show("checkout")["events"] == 1


def test_threads_share_a_client(begun):
    """Each gets its own answers."""
    with serving(begun) as address, cb.Client(address) as client, ThreadPoolExecutor(16) as threads:
        ids = [f"visit-{i}" for i in range(300)]
        served = list(threads.map(lambda id_: client.decide("checkout", PHONE, id=id_), ids))
        receipts = list(threads.map(lambda id_: client.report("checkout", id_, {"revenue": 1.0}), ids))
    assert [one.id for one in served] == [one.id for one in receipts] == ids
    assert all(one.recorded == ("revenue",) for one in receipts)
