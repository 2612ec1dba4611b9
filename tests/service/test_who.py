"""Every event that somebody caused says who did; who did what can be asked for; requests are logged."""

import io
import itertools
import json
import logging
import random
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Any

import httpx
import polars
import pytest

from conebandit.experiment.declaration import Experiment
from conebandit.experiment.errors import InvalidError
from conebandit.service import audit as auditing
from conebandit.service.audit import Wanted, audit, milliseconds, whole_audit
from conebandit.service.client import Client
from conebandit.service.engine.repair import repair_clock
from conebandit.service.engine.turn import Turn
from conebandit.service.errors import CorruptionError
from conebandit.service.http import keys
from conebandit.service.http.logs import TextLines
from conebandit.service.http.server import serving
from conebandit.service.log.entries import MAX_ACTOR, By, read
from conebandit.service.past import begin
from conebandit.service.stores.base import open_store
from tests.service.driver import HOUR, PHONE, Driver

REVIEWED = {"name": "dose", "range": [0, 10], "outside": "hold"}
WHO = {"x-actor": "Dr. Müller".encode()}
# What to send to each route that writes, in an order in which each of them appends an event. A new one belongs here.
REQUESTS: dict[str, dict[str, Any]] = {
    "/experiments": {"id": "second", "arms": ["a"], "metrics": [{"name": "m"}], "policy": {"name": "ParetoUCB1"}},
    "/experiments/{experiment}/copy": {"id": "third", "changes": {"mode": "off"}},
    "/experiments/{experiment}/decisions": {"decisions": [{"id": f"d{i}", "context": PHONE} for i in range(3)]},
    "/experiments/{experiment}/outcomes": {
        "outcomes": [{"id": "d0", "values": {"revenue": 1.0}}, {"id": "d1", "values": {"dose": 99.0}}]
    },
    "/experiments/{experiment}/held": {"id": "d1", "values": {"dose": 99.0}, "verdict": "release", "reason": "seen"},
    "/experiments/{experiment}/retractions": {"id": "d0", "metrics": ["revenue"], "reason": "of another"},
    "/experiments/{experiment}/voids": {"id": "d0", "reason": "a test"},
    "/experiments/{experiment}/contexts": {"id": "d2", "context": {"age": 31, "device": "desk"}, "reason": "misread"},
    "/experiments/{experiment}/arms": {"add": "fresh"},
    "/experiments/{experiment}/mode": {"mode": "shadow"},
    "/experiments/{experiment}/lift": {"rule": "few", "reason": "enough", "then": "disable"},
    "/experiments/{experiment}/change": {"changes": {"policy": {"name": "ParetoUCB1"}}, "reason": "simpler"},
    "/experiments/{experiment}/stage": {"stage": "paused", "reason": "a look"},
    "/experiments/{experiment}/erasures": {"unit": "ann", "reason": "asked"},
    "/experiments/{experiment}/edge/decisions": {},  # what to send follows from the published state: see the test
}
UNITS = {"id": "units", "arms": ["a"], "metrics": [{"name": "m"}], "policy": {"name": "ParetoUCB1"}, "unit": {}}
EDGE = "/experiments/{experiment}/edge/decisions"


def decisions_of_edge(store):
    """What an edge sends that has decided from the state that was published last."""
    published = events_of(store, "units")[-1]
    made = {"mode": "live", "arm": "a", "propensity": 1.0, "active": ["a"]}
    choice = {"arm": "a", "propensity": 1.0, "probabilities": {"a": 1.0}}
    decision = {"id": "e1", "unit": "bob", "alias": "d_0123456789abcdef", "at": 5, **made, "choice": choice}
    return {"edge": "web-1", "state": published.seq, "check": published.event.check, "decisions": [decision]}


def wait_for_uploads(store):
    """Until what edges have sent is in the log."""
    end = time.monotonic() + 30
    while time.monotonic() < end:
        with store.read() as session:
            if not session.experiments_with_uploads():
                return
        time.sleep(0.05)
    raise TimeoutError("uploads wait.")


def events_of(store, id_):
    with store.read() as session:
        return [read(record) for record in session.events(id_, limit=10**6)]


@pytest.fixture
def guarded(address, declaration):
    """A service with keys: its address and theirs."""
    store = open_store(address)
    rules = [{"name": "few", "at_most": 1000}]
    declaration = declaration | {"metrics": [*declaration["metrics"], REVIEWED], "rules": rules}
    Driver(store).create(declaration)
    with store.write() as session:
        made = {name: keys.create_key(session, name, [scope]) for name, scope in KEYS.items()}
    with serving(address) as url, httpx.Client(base_url=url, timeout=60) as client:
        yield client, made, store
    store.close()


KEYS = {"office": "admin", "page": "decide", "ward": "report", "board": "read"}


def test_whatever_is_sent_to_the_service_is_logged_with_who_sent_it(guarded):
    client, made, store = guarded
    paths = client.get("/openapi.json").json()["paths"]
    assert {path for path, methods in paths.items() if methods.keys() - {"get"}} == set(REQUESTS), (
        "say here what to send to a route that writes"
    )
    with_units = Driver(store, "units")
    with_units.create(UNITS)
    with_units.decide([{"unit": "ann"}])
    with_units.publish()
    for path, body in {**REQUESTS, EDGE: decisions_of_edge(store)}.items():
        begins = path == "/experiments" or path.endswith("/copy")
        experiment = "units" if path.endswith("/erasures") or path == EDGE else "checkout"
        id_ = body["id"] if begins else experiment  # where the events go
        known = [] if begins else events_of(store, id_)
        headers = {"x-api-key": made["office"], **WHO}
        for _ in range(2):  # again is a no-op
            reply = client.post(path.format(experiment=experiment), json=body, headers=headers)
            assert reply.status_code in (200, 201), reply.text
        wait_for_uploads(store)
        new = events_of(store, id_)[len(known) :]
        assert {entry.event.kind for entry in new} - {"revised"}, path
        for entry in new:
            by = None if entry.event.kind == "revised" else By("office", "Dr. Müller")
            assert entry.by == by, (path, entry)
    shown = client.get("/experiments/checkout/events", headers={"x-api-key": made["board"]}).json()["events"]
    assert shown[1]["body"]["by"] == {"actor": "Dr. Müller", "key": "office"}


@pytest.mark.parametrize("name", ["Müller", "ÿþ", "高橋"])
def test_actors_come_in_utf_8_or_as_many_clients_send_them(guarded, name):
    client, made, store = guarded
    sent = [name.encode()] + ([name.encode("latin-1")] if max(name) <= "\xff" else [])
    for mode, actor in zip(("off", "live"), sent, strict=False):
        headers = {"x-api-key": made["office"], "x-actor": actor}
        assert client.post("/experiments/checkout/mode", json={"mode": mode}, headers=headers).status_code == 200
    assert [e.by.actor for e in events_of(store, "checkout")[1:]] == [name] * len(sent)


def test_each_request_of_many_keeps_its_own_caller(guarded):
    client, made, store = guarded
    for i, actor in enumerate(["a", "b", None]):
        headers = {"x-api-key": made["page"]} | ({} if actor is None else {"x-actor": actor})
        body = {"id": f"d{i}", "context": PHONE}
        assert client.post("/experiments/checkout/decisions", json=body, headers=headers).status_code == 200
    assert [e.by for e in events_of(store, "checkout")] == [None, By("page", "a"), By("page", "b"), By("page", None)]
    read_only = {"x-api-key": made["board"]}
    table = client.get("/experiments/checkout/export?format=parquet", headers=read_only).content
    frame = polars.read_parquet(io.BytesIO(table))
    assert frame["decided_by"].to_list() == ["page"] * 3
    assert frame["actor"].to_list() == ["a", "b", None]


def test_callers_that_share_a_turn_are_not_mixed_up(guarded):
    client, made, store = guarded
    names = [(key, f"{key}-{i}") for key in ("page", "office") for i in range(60)]

    def ask(name):
        headers = {"x-api-key": made[name[0]], "x-actor": name[1]}
        body = {"id": name[1], "context": PHONE}
        return client.post("/experiments/checkout/decisions", json=body, headers=headers).status_code

    with ThreadPoolExecutor(12) as together:
        assert set(together.map(ask, names)) == {200}
    decided = events_of(store, "checkout")[1:]
    assert sorted(e.by for e in decided) == sorted(By(*name) for name in names)
    assert all(e.by.actor == e.event.id for e in decided)


@pytest.mark.parametrize("given", [b"x" * (MAX_ACTOR + 1), b"a\tb", b"\x85\xff", "right\u202eleft".encode()])
def test_actors_that_cannot_be_are_refused_before_anything_is_done(guarded, given):
    client, made, store = guarded
    headers = {"x-api-key": made["office"], "x-actor": given}
    reply = client.post("/experiments/checkout/mode", json={"mode": "off"}, headers=headers)
    assert (reply.status_code, "X-Actor" in reply.json()["error"]) == (422, True)
    twice = [("x-api-key", made["office"]), ("x-actor", "a"), ("x-actor", "b")]
    assert client.post("/experiments/checkout/mode", json={"mode": "off"}, headers=twice).status_code == 422
    assert len(events_of(store, "checkout")) == 1


def test_the_service_itself_is_nobody(store, declaration):
    """Events that a request causes carry its caller; those that follow from it do not."""
    run = Driver(store)
    run.create(declaration)
    with run.transaction() as transaction:
        turn = Turn(transaction, By("page", None))
        turn.decide("checkout", [{"id": "d", "context": PHONE}])
        turn.report("checkout", [{"id": "d", "values": {"revenue": 1.0}}])
        turn.report("checkout", [{"id": "d", "values": {"revenue": 2.0}}])
    entries = events_of(store, "checkout")
    assert [e.event.kind for e in entries] == ["created", "decided", "reported", "reported", "revised"]
    assert [e.by for e in entries] == [None, *[By("page", None)] * 3, None]


# ---- asking who did what --------------------------------------------------------------------------------------------


@pytest.fixture
def busy(store, declaration):
    """A log in which several have done several things, over some hours."""
    rng, run = random.Random(5), Driver(store)
    run.create(declaration)
    callers = [None, By("page", None), By("page", "eve"), By(None, "eve"), By("ward", 'o"neil'), By("eve", "page")]
    for step in range(120):
        run.now += rng.choice([0, 0, 1000, HOUR])
        with run.transaction() as transaction:
            turn, kind = Turn(transaction, rng.choice(callers)), rng.choice(["decide", "decide", "mode", "report"])
            if kind == "mode":
                turn.set_mode("checkout", rng.choice(["live", "shadow", "off"]))
            elif kind == "decide" or step < 5:
                turn.decide("checkout", [{"id": f"d{step}", "context": PHONE}])
            else:
                turn.report("checkout", [{"id": next(iter(sent(run))), "values": {"revenue": float(step)}}])
                turn.void("checkout", [{"id": next(iter(sent(run))), "void": bool(step % 2), "reason": "a test"}])
    return store


def sent(run):
    return [e.decision for e in run.events if e.kind == "decided"]


def plain_audit(records, wanted):
    """The twin: every event, parsed."""
    for record in records:
        body = json.loads(record.text)
        by = body.get("by", {})
        if (
            (wanted.actor is None or by.get("actor") == wanted.actor)
            and (wanted.key is None or by.get("key") == wanted.key)
            and (not wanted.kinds or record.kind in wanted.kinds)
            and not (wanted.since is not None and body["at"] < wanted.since)
            and not (wanted.until is not None and body["at"] >= wanted.until)
        ):
            yield record.seq


@pytest.mark.untraced
def test_an_audit_finds_what_a_plain_scan_finds(busy, monkeypatch):
    with busy.read() as session:
        records = session.events("checkout", limit=10**6)
    times = sorted({json.loads(record.text)["at"] for record in records})
    some_times = [None, times[0], times[len(times) // 2], times[len(times) // 2] + 1, times[-1] + 1]
    kinds = [
        (),
        ("decided",),
        ("mode_changed", "created"),
        ("revised",),
        ("reported", "mode_changed"),
        ("voided",),
        ("retracted", "voided"),
        ("voided", "created"),
    ]
    rng = random.Random(1)
    combinations = list(itertools.product([None, "eve", 'o"neil', "page", "nobody"], [None, "page", "eve"], kinds,
                                          some_times, some_times))  # fmt: skip
    found_something = 0
    for searched, asked in itertools.product((7, 10_000), rng.sample(combinations, 120)):
        monkeypatch.setattr(auditing, "MAX_SEARCHED", searched)
        wanted, limit = Wanted(*asked), rng.choice([1, 3, 1000])
        expected, seen, after, more = list(plain_audit(records, wanted)), [], 0, True
        pages = 0
        while more:
            page = audit(busy, "checkout", wanted, after, limit)
            assert len(page.events) <= limit
            seen += [event.seq for event in page.events]
            assert page.next > after or not page.more, "it goes on"
            after, more, pages = page.next, page.more, pages + 1
        assert seen == expected, wanted
        assert pages <= 1 + len(records) // min(searched, limit)
        assert [event.seq for event in whole_audit(busy, "checkout", wanted)] == expected
        found_something += bool(expected)
    assert found_something > 30


def test_an_audit_goes_by_the_dates_in_a_log_whose_clock_was_repaired(store, declaration):
    run = Driver(store)
    run.create(declaration)
    for id_, now in {"a": 2_000_000, "b": 9_000_000, "c": 9_000_000}.items():
        run.now = now
        run.ask(id_)
    repair_clock(store, "checkout", "the battery was empty", "ada", now=3_000_000)
    run = Driver(store)
    run.now = 4_000_000
    run.ask("d")
    for since, until in itertools.product([None, *range(1_000_000, 10_000_000, 1_000_000)], repeat=2):
        wanted = Wanted(since=since, until=until)
        found = [event.seq for event in whole_audit(store, "checkout", wanted)]
        assert found == list(plain_audit(run.events, wanted))
    [repaired] = whole_audit(store, "checkout", Wanted(actor="ada"))
    assert repaired.kind == "clock_repaired"


def test_an_audit_goes_on_with_what_was_appended(busy):
    page = audit(busy, "checkout", Wanted(), limit=1000)
    assert not page.more
    with busy.read() as session:
        assert page.next == session.existing_head("checkout").seq
    run = Driver(busy)
    run.now = 10**12
    run.ask("late")
    [event] = audit(busy, "checkout", Wanted(), page.next).events
    assert (event.kind, event.decision, event.key, event.actor) == ("decided", "late", None, None)
    assert audit(busy, "checkout", Wanted(), 10**9).next == event.seq, "no cursor beyond the end, where events will be"


def test_an_audit_shows_nothing_that_was_changed(busy, address):
    with busy.write() as session:
        changed = next(r for r in session.events("checkout", limit=10**6) if '"actor":"eve"' in r.text)
        text = changed.text.replace('"actor":"eve"', '"actor":"bob"')
        session._run("UPDATE events SET body = ? WHERE experiment = ? AND seq = ?", (text, "checkout", changed.seq))
    for wanted in (Wanted(actor="bob"), Wanted(kinds=(changed.kind,))):
        with pytest.raises(CorruptionError, match=f"event {changed.seq} "):
            list(whole_audit(busy, "checkout", wanted))


def test_the_route_of_the_audit(guarded):
    client, made, _ = guarded
    board = {"x-api-key": made["board"]}
    body = {"decisions": [{"id": f"d{i}", "context": PHONE} for i in range(3)]}
    client.post("/experiments/checkout/decisions", json=body, headers={"x-api-key": made["page"], "x-actor": "eve"})
    client.post("/experiments/checkout/mode", json={"mode": "off"}, headers={"x-api-key": made["office"]})

    def ask(**query):
        reply = client.get("/experiments/checkout/audit", params=query, headers=board)
        assert reply.status_code == 200, reply.text
        return reply.json()

    today = datetime.now(UTC).date().isoformat()
    assert [(e["seq"], e["decision"]) for e in ask(actor="eve")["events"]] == [(2, "d0"), (3, "d1"), (4, "d2")]
    assert [e["seq"] for e in ask(key="office")["events"]] == [5]
    assert [e["seq"] for e in ask(kind=["created", "mode_changed"])["events"]] == [1, 5]
    assert [e["seq"] for e in ask(**{"from": today, "to": "9999-01-01"})["events"]] == [2, 3, 4, 5]
    first = ask(limit=2)
    assert (first["next"], first["more"]) == (2, True)
    assert [e["seq"] for e in ask(limit=2, after=2)["events"]] == [3, 4]
    event = ask(actor="eve", limit=1)["events"][0]
    assert milliseconds(event["at"], "at") == event["body"]["at"]
    for wrong in ({"from": "yesterday"}, {"kind": "nothing"}, {"limit": 0}, {"limit": 1001}, {"acter": "eve"}):
        assert client.get("/experiments/checkout/audit", params=wrong, headers=board).status_code == 422, wrong
    assert client.get("/experiments/no/audit", headers=board).status_code == 404
    assert client.get("/experiments/checkout/audit", headers={"x-api-key": made["page"]}).status_code == 403


def test_the_client_names_its_actor_and_asks_who(guarded):
    client, made, _ = guarded
    with Client(str(client.base_url), key=made["office"], actor="Dr. Müller") as office:
        office.decide("checkout", PHONE, id="d0")
        office.set_mode("checkout", "off")
        page = office.audit("checkout", actor="Dr. Müller", kinds=["decided", "mode_changed"], since="2020-01-01")
        assert [e["kind"] for e in page["events"]] == ["decided", "mode_changed"]
        assert office.audit("checkout", key="ward", until="2999-01-01")["events"] == []
        assert office.audit("checkout", limit=1)["more"]


@pytest.mark.parametrize("given", ["", "now", "2026-13-01", "2026-11-16T09:00 02:00", "9999-12-31T23:59-24:01"])
def test_times_that_are_none(given):
    with pytest.raises(InvalidError, match="to must be a date or a time"):
        milliseconds(given, "to")


# ---- the access log -------------------------------------------------------------------------------------------------


@pytest.fixture
def lines(caplog):
    caplog.set_level(logging.INFO, logger="conebandit.access")

    def wait_for(count):
        """A line is written after the reply."""
        for _ in range(1000):
            found = [record.fields for record in caplog.records if record.name == "conebandit.access"]
            if len(found) >= count:
                break
            time.sleep(0.01)
        assert len(found) == count
        return found

    return wait_for


def test_each_request_is_a_line_without_what_it_holds(guarded, lines, caplog):
    client, made, _ = guarded
    secret = {"id": "secret-id", "context": {"age": 33.25, "device": "phone"}}
    headers = {"x-api-key": made["page"], "x-actor": "eve", "x-request-id": "r-1"}
    reply = client.post("/experiments/checkout/decisions", json=secret, headers=headers)
    assert reply.headers["x-request-id"] == "r-1"
    refused = client.get("/experiments/checkout/events?after=7", headers={"x-api-key": made["page"]})
    stranger = client.get("/experiments/che%0Ackout", headers={"x-api-key": "cb_1_guess"})
    lost = client.get("/nowhere/very-secret", headers={"x-request-id": "two words"})
    assert [r.status_code for r in (refused, stranger, lost)] == [403, 401, 404]
    first, second, third, fourth = lines(4)
    ms = first.pop("ms")
    assert 0 < ms < 60_000
    assert first == {
        "method": "POST", "route": "/experiments/{experiment}/decisions", "remote": "127.0.0.1",
        "experiment": "checkout", "status": 200, "key": "page", "actor": "eve", "request": "r-1",
    }  # fmt: skip
    assert (second["key"], second["status"], second["request"]) == ("page", 403, refused.headers["x-request-id"])
    assert "key" not in third
    assert third["experiment"] == "che\nckout"
    assert (fourth["route"], fourth["status"]) == ("unknown", 404)
    assert len(fourth["request"]) == 16
    formatter = TextLines()
    shown = [formatter.format(r) for r in caplog.records if r.name == "conebandit.access"]
    assert not any("\n" in line for line in shown)
    for hidden in ("secret", "33.25", "guess", made["page"].split("_", 2)[2]):
        assert not any(hidden in line for line in shown)
    assert "experiment=che\\nckout" in shown[2]


def test_a_pipelined_request_has_a_caller_of_its_own(guarded, lines):
    """The server may begin it within the one before: nobody is taken for the other."""
    client, made, _ = guarded
    host, port = client.base_url.host, client.base_url.port
    with socket.create_connection((host, port), timeout=30) as raw:
        one = f"GET /experiments HTTP/1.1\r\nhost: x\r\nx-api-key: {made['board']}\r\nx-actor: eve\r\n\r\n"
        two = "GET /nowhere HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n"
        raw.sendall((one + two).encode())
        while raw.recv(65536):
            pass
    assert [(line.get("key"), line.get("actor")) for line in lines(2)] == [("board", "eve"), (None, None)]


def test_without_being_asked_nothing_is_logged(guarded, caplog):
    client, made, _ = guarded
    client.get("/experiments", headers={"x-api-key": made["board"]})
    assert not [record for record in caplog.records if record.name == "conebandit.access"]


def test_experiments_begun_elsewhere_name_their_actor(store, declaration):
    begin(store, Experiment.from_dict(declaration), None, By(None, "command line"))
    assert [e.by for e in events_of(store, "checkout")] == [By(None, "command line")]
