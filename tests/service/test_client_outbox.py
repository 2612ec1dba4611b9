"""Outcomes that the service did not take: on disk, in order, delivered once."""

import asyncio
import json
import multiprocessing
import os
import stat
import threading
import time
from collections import defaultdict

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

import conebandit as cb
from conebandit.cli import app
from conebandit.service.client import ClientError, courier, journal, outbox
from conebandit.service.client.courier import Courier, batches, deliver
from conebandit.service.client.outbox import Entry, Outbox
from conebandit.service.client.transport import Site, Transport
from conebandit.service.http.keys import create_key
from conebandit.service.http.server import serving
from conebandit.service.stores.base import open_store
from tests.service import hostile
from tests.service.databases import free_port
from tests.service.hostile import answer, listening, read_request


@pytest.fixture
def box(tmp_path):
    return Outbox(tmp_path / "outbox.jsonl")


@pytest.fixture
def nowhere():
    return f"http://127.0.0.1:{free_port()}"


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(courier, "FIRST_PAUSE", 0.02)
    monkeypatch.setattr(courier, "MAX_PAUSE", 0.1)


def outcome(id_, value):
    return {"id": id_, "values": {"m": value}}


def waiting(box):
    return [(entry.experiment, entry.outcome["id"], entry.outcome["values"]["m"]) for entry in box.entries()]


def wait_until(condition):
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


class Service:
    """Takes outcomes, if it knows the decision and is not told otherwise, and remembers what it was sent."""

    def __init__(self):
        self.values = defaultdict(list)  # by experiment and id: values in the order in which they had an effect
        self.sent = []  # outcomes, again and again
        self.actors, self.batches = [], []
        self.status = {}  # by experiment
        self.unknown = set()  # ids
        self.lose = 0  # answers

    def __call__(self, connection, stop):
        while (request := read_request(connection)) is not None:
            _, path, headers, body = request
            status, reply = self._take(path.split("/")[2], body.get("outcomes", [body]), headers.get("x-actor"))
            if self.lose and status == 200:
                self.lose -= 1
                return
            single = reply["outcomes"][0] if status == 200 and "outcomes" not in body else reply
            connection.sendall(answer(single, status))

    def _take(self, experiment, outcomes, actor):
        status = self.status.get(experiment, 200)
        if status == 200 and any(one["id"] in self.unknown for one in outcomes):
            status = 404
        if status != 200:
            return status, {"error": f"no: {status}."}
        self.actors.append(actor)
        self.batches.append(len(outcomes))
        for one in outcomes:
            self.sent.append(one["id"])
            held = self.values[experiment, one["id"]]
            if held[-1:] != [one["values"]]:
                held.append(one["values"])
        receipt = {"recorded": ["m"], "corrected": [], "repeated": [], "late": []}
        return 200, {"outcomes": [{"id": one["id"], **receipt} for one in outcomes]}


def deliver_to(address, box):
    transport = Transport(Site.at(address), retries=0)
    try:
        return deliver(box, transport, 10.0)
    finally:
        transport.close()


# ---- lines ----------------------------------------------------------------------------------------------------------


@given(st.dictionaries(st.text(max_size=5), st.none() | st.integers() | st.text(max_size=9), max_size=4), st.data())
def test_a_line_that_was_changed_or_torn_is_recognised(table, data):
    line = journal.sealed(table)
    assert journal.unsealed(line) == table
    assert line.count(b"\n") == 1
    cut = data.draw(st.integers(0, len(line) - 2))
    assert journal.unsealed(line[:cut]) is None
    changed = bytearray(line)
    changed[cut] ^= data.draw(st.integers(1, 255))
    assert journal.unsealed(bytes(changed)) is None


def test_a_torn_line_is_set_aside_and_spoils_no_other(box):
    box.add("e", [outcome("a", 1)])
    torn = journal.sealed({"entry": "x", "experiment": "e", "outcome": outcome("torn", 1), "actor": None, "at": 0})[:30]
    with box.path.open("ab") as file:
        file.write(torn)
    assert waiting(box) == [("e", "a", 1)]
    box.add("e", [outcome("b", 2)])  # not glued to what is there
    assert waiting(box) == [("e", "a", 1), ("e", "b", 2)]
    box.tidy()
    assert waiting(box) == [("e", "a", 1), ("e", "b", 2)]
    assert [refusal["line"].encode() for refusal in box.refusals()] == [torn]


def test_a_torn_line_alone_does_not_keep_the_outbox_waiting(box):
    box.path.write_bytes(b'{"entry":"x","exper')
    assert box.is_waiting
    assert deliver_to("http://127.0.0.1:9", box).error is None
    assert not box.is_waiting
    assert "torn by a crash" in box.refusals()[0]["reason"]


def test_no_half_a_line_is_left_on_a_full_disk(box, monkeypatch):
    box.add("e", [outcome("a", 1)])
    before, write = box.path.read_bytes(), os.write

    left = [100]

    def full(descriptor, text):
        if not left[0]:
            raise OSError(28, "No space left on device")
        done = write(descriptor, text[: left[0]])
        left[0] -= done
        return done

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(ClientError, match=r"cannot be written: .*No space left"):
        box.add("e", [outcome("b", 2)])
    assert box.path.read_bytes() == before
    left[0] = 300
    with pytest.raises(ClientError, match=r"cannot be written: .*No space left"):
        box.add("e", [outcome("b", 2), outcome("c", 3)])
    monkeypatch.undo()
    assert waiting(box) == [("e", "a", 1), ("e", "b", 2)]  # whole lines stay: somebody may have read them
    assert journal.unsealed(box.path.read_bytes().splitlines()[-1]) is not None


def test_only_the_owner_may_read_it(box):
    box.add("e", [outcome("a", 1), outcome("b", 1)])
    first, _ = box.entries()
    box.refuse(first, 404, "no.")
    box.tidy()
    for path in box.path.parent.iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == 0o600, path


def test_it_is_bounded(box, nowhere, monkeypatch):
    monkeypatch.setattr(outbox, "MAX_BYTES", 500)
    with cb.Client(nowhere, outbox=box.path) as client:
        for i in range(4):
            assert client.report("e", f"d{i}", {"m": 1.0}).queued
        with pytest.raises(ClientError, match=r"outbox is full.*conebandit outbox send") as error:
            client.report("e", "d9", {"m": 1.0})
    assert error.value.status == 0
    assert len(waiting(box)) == 4


@pytest.mark.parametrize("path", [".", "missing/outbox"])
def test_where_it_cannot_be(tmp_path, path):
    with pytest.raises(ValueError, match="outbox must be a file, in a folder that exists"):
        cb.Client("http://127.0.0.1:9", outbox=tmp_path / path)


# ---- delivering -----------------------------------------------------------------------------------------------------


steps = st.lists(
    st.tuples(st.sampled_from("ef"), st.sampled_from("abc"), st.integers(0, 3), st.sampled_from([None, "lee"])),
    max_size=30,
)


@given(steps)
def test_batches_keep_the_order_and_hold_no_decision_twice(added):
    entries = [Entry(str(i), e, outcome(id_, v), actor, 0) for i, (e, id_, v, actor) in enumerate(added)]
    found = list(batches(entries))
    assert [entry for batch in found for entry in batch] == entries
    for batch in found:
        assert len({(entry.experiment, entry.actor) for entry in batch}) == 1
        assert len({entry.outcome["id"] for entry in batch}) == len(batch)


def test_large_batches_are_split(monkeypatch):
    monkeypatch.setattr(courier, "MAX_BATCH", 3)
    entries = [Entry(str(i), "e", outcome(f"d{i}", 1), None, 0) for i in range(7)]
    assert [len(batch) for batch in batches(entries)] == [3, 3, 1]
    monkeypatch.setattr(courier, "MAX_BATCH_BYTES", 10)
    assert [len(batch) for batch in batches(entries)] == [1] * 7


def test_corrections_are_not_overtaken(box, nowhere):
    """Not by what is reported while the service is back and the older ones still wait."""
    service = Service()
    with listening(service) as (address, _):
        service.status["e"] = 503
        with cb.Client(address, outbox=box.path, retries=0) as client:
            for value in range(4):
                assert client.report("e", "d", {"m": value}).queued
                client.report("e", f"other-{value}", {"m": 1})
            service.status.clear()
            for value in range(4, 8):
                client.report("e", "d", {"m": value})
            assert client.flush() == 0
    assert [values["m"] for values in service.values["e", "d"]] == list(range(8))


def test_what_is_refused_for_good_does_not_block_the_rest(box):
    service = Service()
    service.unknown = {"d3", "d7"}
    box.add("e", [outcome(f"d{i}", i) for i in range(10)], "dr.lee")
    box.add("e", [outcome("d3", 30)])
    with listening(service) as (address, _):
        made = deliver_to(address, box)
    assert (made.delivered, made.refused, made.error) == (8, 3, None)
    assert not box.is_waiting
    assert {id_ for _, id_ in service.values} == {f"d{i}" for i in range(10)} - service.unknown
    refused = box.refusals()
    assert [(one["outcome"]["id"], one["status"], one["reason"]) for one in refused] == [
        ("d3", 404, "no: 404."),
        ("d7", 404, "no: 404."),
        ("d3", 404, "no: 404."),
    ]
    assert refused[0]["actor"] == "dr.lee"
    assert abs(refused[0]["at"] / 1000 - time.time()) < 3600


@pytest.mark.parametrize("status", [401, 403, 429, 500, 503])
def test_an_experiment_that_must_wait_does_not_keep_the_others(box, status):
    service = Service()
    service.status["e"] = status
    box.add("e", [outcome("d", 1)])
    box.add("f", [outcome("d", 1)])
    box.add("e", [outcome("d", 2)])
    box.add("f", [outcome("d", 2)])
    with listening(service) as (address, _):
        made = deliver_to(address, box)
        assert (made.delivered, made.refused, made.error) == (2, 0, f"no: {status}.")
        assert waiting(box) == [("e", "d", 1), ("e", "d", 2)]
        service.status.clear()
        assert deliver_to(address, box).delivered == 2
    assert [[values["m"] for values in held] for held in service.values.values()] == [[1, 2], [1, 2]]
    assert not box.is_waiting
    assert box.refusals() == []


def test_a_page_of_a_proxy_is_no_refusal(box):
    """A wrong address must not empty the outbox."""
    box.add("e", [outcome("d", 1)])
    with listening(hostile.saying("<h1>Not Found</h1>", 404)) as (address, _):
        assert deliver_to(address, box).error == "the service answered 404"
    assert waiting(box) == [("e", "d", 1)]


def test_an_answer_that_was_lost_has_no_effect_twice(box):
    service = Service()
    with listening(service) as (address, _):
        for value in range(3):
            box.add("e", [outcome("d", value)])
        for _ in range(3):
            service.lose = 1
            assert deliver_to(address, box).error is not None
        assert deliver_to(address, box).error is None
    assert [values["m"] for values in service.values["e", "d"]] == [0, 1, 2]
    assert len(service.sent) == 6


def test_many_go_in_few_requests_with_their_actors(box):
    service = Service()
    box.add("e", [outcome(f"d{i}", i) for i in range(1200)])
    box.add("e", [outcome(f"l{i}", i) for i in range(5)], "dr.lee")
    with listening(service) as (address, _):
        assert deliver_to(address, box).delivered == 1205
    assert service.batches == [500, 500, 200, 5]
    assert service.actors == [None, None, None, "dr.lee"]


def test_the_file_is_written_anew_when_most_of_it_is_done(box):
    service = Service()
    service.status["e"] = 403
    box.add("e", [outcome("d", 1)])
    with listening(service) as (address, _):
        for _ in range(10):
            box.add("f", [outcome(f"d{i}", i) for i in range(20)])
            deliver_to(address, box)
    assert len(box.path.read_bytes().splitlines()) < 10
    assert waiting(box) == [("e", "d", 1)]


def test_what_is_added_while_it_is_tidied_stays(box, monkeypatch):
    box.add("e", [outcome(f"d{i}", i) for i in range(20)])
    box.finish(list(box.entries())[:19])
    locked = journal.locked

    def late(path, **options):
        monkeypatch.setattr(journal, "locked", locked)
        box.add("e", [outcome("late", 1)])
        return locked(path, **options)

    monkeypatch.setattr(journal, "locked", late)
    box.tidy()
    assert [id_ for _, id_, _ in waiting(box)] == ["d19", "late"]
    assert len(box.path.read_bytes().splitlines()) == 2


@given(
    st.lists(st.tuples(st.sampled_from(["add", "done", "tidy"]), st.sampled_from("abc"), st.booleans()), max_size=25)
)
def test_every_process_knows_which_decisions_wait(tmp_path_factory, steps):
    """Whoever adds, finishes and tidies; the twin is a list."""
    path = tmp_path_factory.mktemp("outbox") / "outbox"
    boxes = [Outbox(path), Outbox(path)]
    held = []
    for step, id_, which in steps:
        if step == "add":
            boxes[which].add("e", [outcome(id_, 1)])
            held.append(id_)
        elif step == "done" and held:
            boxes[which].finish([next(boxes[which].entries())])
            held.pop(0)
        elif step == "tidy" and boxes[which].is_waiting:
            boxes[which].tidy()
        assert [id_ for _, id_, _ in waiting(boxes[which])] == held
        for one in boxes:
            assert [one.holds("e", [id_]) for id_ in "abc"] == [id_ in held for id_ in "abc"]
            assert not one.holds("f", "abc")


# ---- the client -----------------------------------------------------------------------------------------------------


def test_it_is_delivered_in_the_background_when_the_service_is_back(begun, box):
    port = free_port()
    with cb.Client(f"http://127.0.0.1:{port}", outbox=box.path) as client:
        receipt = client.report("checkout", "d1", {"revenue": 1.0})
        assert (receipt.queued, receipt.recorded) == (True, ())
        assert client.report("checkout", "d1", {"revenue": 2.0}).queued
        with serving(begun, port=port) as address:
            wait_until(lambda: not box.is_waiting)
            assert not client.report("checkout", "d2", {"revenue": 1.0}).queued
            with cb.Client(address) as looking:
                events = looking.events("checkout", after=21)["events"]
    values = [event["body"]["values"] for event in events if event["kind"] == "reported"]
    assert values == [{"revenue": 1.0}, {"revenue": 2.0}, {"revenue": 1.0}]


def test_it_is_delivered_by_the_next_process(begun, box):
    box.add("checkout", [{"id": "d1", "values": {"revenue": 1.0}}])
    with serving(begun) as address, cb.Client(address, outbox=box.path):
        wait_until(lambda: not box.is_waiting)


def test_it_is_delivered_at_once_when_somebody_is_answered(begun, box, monkeypatch):
    monkeypatch.setattr(courier, "FIRST_PAUSE", 3600.0)
    monkeypatch.setattr(courier, "MAX_PAUSE", 3600.0)
    port = free_port()
    with cb.Client(f"http://127.0.0.1:{port}", outbox=box.path, fallback="old", deadline=10.0) as client:
        assert client.report("checkout", "d1", {"revenue": 1.0}).queued
        with serving(begun, port=port):
            assert not client.decide("checkout", {"device": "desk"}).fallback
            wait_until(lambda: not box.is_waiting)


def test_a_refusal_is_raised_and_not_kept(begun, box):
    with serving(begun) as address, cb.Client(address, outbox=box.path, deadline=10.0) as client:
        for id_, values, status in ("unknown", {"revenue": 1.0}, 404), ("d1", {"sales": 1.0}, 422):
            with pytest.raises(ClientError) as error:
                client.report("checkout", id_, values)
            assert error.value.status == status
    assert not box.is_waiting
    assert box.refusals() == []


def test_an_outcome_that_is_no_json_is_refused_whether_the_service_is_there_or_not(box, nowhere):
    with cb.Client(nowhere, outbox=box.path) as client:
        client.report("e", "d", {"m": 1.0})
        with pytest.raises(ValueError, match="not JSON compliant"):
            client.report("e", "d", {"m": float("nan")})
    assert waiting(box) == [("e", "d", 1.0)]


@pytest.mark.parametrize("behave", hostile.HOSTILE)
def test_a_hostile_service_costs_no_more_than_the_deadline(behave, box):
    with listening(behave) as (address, _), cb.Client(address, outbox=box.path, deadline=0.1, timeout=0.2) as client:
        began = time.monotonic()
        assert client.report("e", "d", {"m": 1.0}).queued
        assert time.monotonic() - began < 10
    assert waiting(box) == [("e", "d", 1.0)]


def test_a_courier_that_is_done_leaves_no_thread(begun, box):
    box.add("checkout", [{"id": "d1", "values": {"revenue": 1.0}}])
    with serving(begun) as address:
        courier_ = Courier(box, Transport(Site.at(address), retries=0), 10.0)
        wait_until(lambda: courier_._thread is None)
        assert not box.is_waiting
        courier_.stop()


def add_many(path, k):
    box = Outbox(path)
    for i in range(50):
        box.add("e", [outcome(f"p{k}", i), outcome(f"p{k}-{i}", i)])


def test_processes_and_threads_share_it(box):
    """While it is being delivered: nothing is lost, and each decision's outcomes stay in order."""
    service = Service()
    context = multiprocessing.get_context("fork")
    adding = [context.Process(target=add_many, args=(box.path, k)) for k in range(2)]
    adding += [threading.Thread(target=add_many, args=(box.path, k)) for k in (2, 3)]
    with listening(service) as (address, _):
        for one in adding:
            one.start()
        couriers = [Courier(box, Transport(Site.at(address), retries=0), 10.0) for _ in range(2)]
        while any(one.is_alive() for one in adding):
            for each in couriers:
                each.wake(at_once=True)
            time.sleep(0.005)
        for one in adding:
            one.join()
        couriers[0].wake()
        wait_until(lambda: not box.is_waiting)
        for each in couriers:
            each.stop()
    assert box.refusals() == []
    for k in range(4):
        assert [values["m"] for values in service.values["e", f"p{k}"]] == list(range(50))
        assert all(service.values["e", f"p{k}-{i}"] == [{"m": i}] for i in range(50))
    assert len(service.sent) == 4 * 100  # nobody was killed, so none was sent twice


@pytest.mark.parametrize("kind", [cb.Client, cb.AsyncClient])
def test_what_is_said_about_a_decision_does_not_overtake_its_outcomes(begun, box, kind, monkeypatch):
    monkeypatch.setattr(courier.Courier, "wake", lambda *_, **__: None)  # nothing is delivered meanwhile

    def call(client, name, *args):
        async def run():
            try:
                return await getattr(client, name)("checkout", *args, reason="a mistake")
            finally:
                await client.close()

        if kind is cb.AsyncClient:
            return asyncio.run(run())
        with client:
            return getattr(client, name)("checkout", *args, reason="a mistake")

    box.add("checkout", [{"id": "d1", "values": {"revenue": 1.0}}, {"id": "d2", "values": {"revenue": 1.0}}])
    dead = kind(f"http://127.0.0.1:{free_port()}", outbox=box.path, timeout=0.2)
    for name, *args in ("retract", "d1", ["revenue"]), ("void", "d1"), ("void_many", ["d0", "d1"]):
        with pytest.raises(ClientError, match="are still in the outbox"):
            call(dead, name, *args)
    with serving(begun) as address:
        assert call(kind(address, outbox=box.path), "retract", "d1", ["revenue"])
        assert not box.is_waiting
        with cb.Client(address) as looking:
            events = looking.events("checkout", after=21)["events"]
    assert [event["kind"] for event in events[:3]] == ["reported", "reported", "retracted"]


# ---- the command ----------------------------------------------------------------------------------------------------


def test_the_command_sends_and_shows(begun, box, nowhere):
    run = CliRunner().invoke
    box.add("checkout", [{"id": "d1", "values": {"revenue": 1.0}}, {"id": "unknown", "values": {"revenue": 1.0}}])
    shown = run(app, ["outbox", "show", str(box.path)])
    assert (shown.exit_code, shown.output) == (0, "waiting: 2\nrefused: 0\n")
    failed = run(app, ["outbox", "send", str(box.path), nowhere])
    assert failed.exit_code == 1
    assert "delivered 0, refused 0, waiting 2" in failed.output
    assert "cannot be reached" in failed.output
    with serving(begun) as address:
        sent = run(app, ["outbox", "send", str(box.path), address])
        assert sent.exit_code == 1
        assert "delivered 1, refused 1, waiting 0" in sent.output
        again = run(app, ["outbox", "send", str(box.path), address])
        assert (again.exit_code, again.output) == (0, "delivered 0, refused 0, waiting 0\n")
    shown = run(app, ["outbox", "show", str(box.path)])
    assert "waiting: 0\nrefused: 1\n" in shown.output
    assert "404" in shown.output
    assert '"unknown"' in shown.output


def test_the_command_takes_a_key(begun, box):
    store = open_store(begun)
    with store.write() as session:
        key = create_key(session, "sender", ["report"])
    store.close()
    box.add("checkout", [{"id": "d1", "values": {"revenue": 1.0}}])
    with serving(begun) as address:
        refused = CliRunner().invoke(app, ["outbox", "send", str(box.path), address])
        assert refused.exit_code == 1
        assert "waiting 1" in refused.output
        sent = CliRunner().invoke(app, ["outbox", "send", str(box.path), address], env={"CONEBANDIT_KEY": key})
    assert sent.exit_code == 0


def test_the_command_wants_a_file_that_is_there(tmp_path):
    for name in "send", "show":
        address = ["http://127.0.0.1:9"] if name == "send" else []
        missing = CliRunner().invoke(app, ["outbox", name, str(tmp_path / "none"), *address])
        assert missing.exit_code != 0
        assert "none" in missing.output


def test_refusals_are_lines_of_json(box):
    box.add("e", [outcome("a", 1)])
    box.refuse(next(box.entries()), 422, "no.")
    table = json.loads(box.refused.read_text())
    assert (table["outcome"], table["status"], table["reason"]) == (outcome("a", 1), 422, "no.")
