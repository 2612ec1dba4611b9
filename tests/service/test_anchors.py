"""The ends of the logs are told to somebody else, who can tell later whether they still hold."""

import http.server
import json
import logging
import threading
from contextlib import closing, contextmanager

import pytest

from conebandit.experiment.declaration import Experiment
from conebandit.experiment.errors import InvalidError
from conebandit.service.engine.anchors import Anchors, destination
from conebandit.service.engine.writer import Writer
from conebandit.service.log.anchors import STORE_LOG, Anchor, missed_anchors, read_anchors
from conebandit.service.stores.base import open_store
from conebandit.service.stores.records import Head
from conebandit.service.stores.seals import Seals, key_of
from tests.service.driver import PHONE, Driver

KEYS = Seals({"k1": "1" * 43})


class Receiver:
    """Takes lines, or not; knows what it was sent."""

    def __init__(self):
        self.received, self.broken, self.called = [], False, threading.Semaphore(0)

    def __call__(self, lines):
        self.called.release()
        if self.broken:
            raise OSError("nobody is there")
        self.received.append([Anchor.parse(line) for line in lines.splitlines(keepends=True)])

    def wait(self):
        assert self.called.acquire(timeout=20)


@contextmanager
def sent_from(store, send, every=0.01):
    anchors = Anchors(store, send, every)
    try:
        yield
    finally:
        anchors.close()


@pytest.fixture
def run(address, declaration):
    with closing(open_store(address, seals=KEYS)) as store:
        run = Driver(store)
        run.create(declaration)
        yield run


def heads(run):
    return [record.head for record in run.events]


def test_what_has_moved_is_sent_at_the_start_and_at_the_end(run, declaration):
    receiver = Receiver()
    with sent_from(run.store, receiver, every=3600.0):
        receiver.wait()
        run.ask("d1")
        other = Driver(run.store, "other")
        other.create({**declaration, "id": "other"})
    first, second = receiver.received
    with run.store.read() as session:
        begun = [(STORE_LOG, record.head) for record in session.operations()]
    assert [(a.experiment, a.head) for a in first] == [("checkout", heads(run)[0]), begun[0]]
    moved = [("checkout", heads(run)[1]), ("other", heads(other)[0]), begun[1]]
    assert [(a.experiment, a.head) for a in second] == moved
    with sent_from(run.store, receiver, every=3600.0):
        pass
    assert len(receiver.received) == 3, "nothing has moved between start and end"
    table = json.loads(second[0].line())
    assert table.keys() == {"time", "experiment", "seq", "check", "keyed"}
    assert (table["seq"], table["keyed"], key_of(table["check"])) == (2, True, "k1")


def test_what_could_not_be_sent_is_sent_later_and_said_once(run, caplog):
    receiver = Receiver()
    receiver.broken = True
    with caplog.at_level(logging.WARNING), sent_from(run.store, receiver):
        for _ in range(5):
            receiver.wait()
        run.ask("d1")
        receiver.broken = False
        while not receiver.received:
            receiver.wait()
    assert [a.head.seq for sent in receiver.received for a in sent if a.experiment == "checkout"][-1] == 2
    assert [record.message for record in caplog.records] == [
        "anchors could not be sent, which is tried again: nobody is there"
    ]


def test_a_log_that_was_cut_off_is_said(run, caplog):
    receiver = Receiver()
    run.ask("d1")
    with caplog.at_level(logging.ERROR), sent_from(run.store, receiver):
        receiver.wait()
        with run.store.write() as session:
            session._run("UPDATE experiments SET head = ?, last_check = ?", heads(run)[0])
        receiver.wait()
    assert "checkout: somebody has changed the log: the log was cut off" in caplog.text


def test_a_file_is_added_to_and_read_by_verify(run, tmp_path):
    file = tmp_path / "anchors.jsonl"
    for name in ("d1", "d2"):
        with sent_from(run.store, destination(str(file)), every=3600.0):
            run.ask(name)
    found = [anchor for anchor in read_anchors(file) if anchor.experiment == "checkout"]
    assert {anchor.head.seq for anchor in found} >= {2, 3}
    with run.store.read() as session:
        assert missed_anchors(session, "checkout", found) == []
        wrong = [Anchor("checkout", Head(4, found[0].head.check)), Anchor("checkout", Head(1, "0" * 32))]
        missed = missed_anchors(session, "checkout", wrong)
    assert missed[0].startswith("event 1 has not the checksum 0000")
    assert missed[1] == "the log was cut off: it has 3 events, and there was an event 4."
    file.write_text(found[0].line() + "something\n")
    with pytest.raises(InvalidError, match=r"anchors.jsonl, line 2: an anchor is a line"):
        list(read_anchors(file))


@pytest.mark.parametrize(
    "line", ["", "[]", "1", "{", '{"experiment":"e","seq":1}', '{"experiment":1,"seq":1,"check":"' + "0" * 32 + '"}',
             '{"experiment":"e","seq":true,"check":"' + "0" * 32 + '"}', '{"experiment":"e","seq":1,"check":"x"}']
)  # fmt: skip
def test_what_is_no_anchor_is_refused(line):
    with pytest.raises(InvalidError, match="an anchor is a line"):
        Anchor.parse(line)


def test_a_destination_that_cannot_be_is_refused_at_once(tmp_path):
    with pytest.raises(InvalidError, match="stdout, to a file or to http"):
        destination("ftp://example.org/anchors")
    with pytest.raises(OSError, match="No such file"):
        destination(str(tmp_path / "missing" / "anchors.jsonl"))


class Hook(http.server.BaseHTTPRequestHandler):
    """Answers as it is told, and keeps what it was sent."""

    bodies: list[str]
    statuses: list[int]

    def do_POST(self):
        self.bodies.append(self.rfile.read(int(self.headers["content-length"])).decode())
        status = self.statuses.pop(0) if self.statuses else 204
        self.send_response(status)
        self.send_header("location", "/elsewhere")
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


@pytest.fixture
def hook():
    class Mine(Hook):
        bodies, statuses = [], []

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Mine) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield Mine, f"http://127.0.0.1:{server.server_port}/anchors"
        server.shutdown()
        thread.join()


def test_a_webhook_gets_the_lines_until_it_takes_them(run, hook):
    taken, address = hook
    taken.statuses += [500, 302, 404]
    with sent_from(run.store, destination(address)):
        while len(taken.bodies) < 4:
            threading.Event().wait(0.01)
    assert {Anchor.parse(body.splitlines()[0]).head for body in taken.bodies} == {heads(run)[0]}
    assert len(taken.bodies) == 4, "what was taken is not sent again"


def test_nobody_waits_for_a_webhook_that_hangs(run):
    hanging, release = threading.Event(), threading.Event()

    def hang(_):
        hanging.set()
        release.wait(20)
        raise OSError("too slow")

    with sent_from(run.store, hang):
        assert hanging.wait(20)
        assert run.ask("d1")["id"] == "d1"
        release.set()


def test_the_last_events_are_sent_before_the_store_is_closed(tmp_path, declaration):
    receiver = Receiver()
    store = open_store(str(tmp_path / "log.db"), seals=KEYS)
    writer = Writer(store, at_end=Anchors(store, receiver, 3600.0).close)
    declared = Experiment.from_dict(declaration)
    answers = [writer.submit("checkout", lambda turn: turn.create(declared))]
    answers += [writer.submit("checkout", lambda turn: turn.decide("checkout", [{"context": PHONE}])) for _ in range(9)]
    writer.close()
    assert all(answer.result() for answer in answers)
    assert {anchor.experiment: anchor.head.seq for anchor in receiver.received[-1]}["checkout"] == 10
