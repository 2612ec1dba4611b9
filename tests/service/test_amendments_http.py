"""Values on hold, retractions, voids and corrected contexts over HTTP, in the shift monitor and on the command line."""

import asyncio
import json
from datetime import UTC, datetime

import httpx
import pytest
from typer.testing import CliRunner

import conebandit as cb
from conebandit.cli import app
from conebandit.service.http.keys import create_key
from conebandit.service.http.server import serving
from conebandit.service.log.held import on_hold
from conebandit.service.shift import ShiftWatch
from conebandit.service.stores.base import open_store
from tests.service.driver import PHONE, Driver

DESK = {"age": 60, "device": "desk"}
E = "/experiments/checkout"


@pytest.fixture
def held(declaration):
    """With a metric whose strange values are held."""
    metrics = [{"name": "revenue"}, {"name": "pain", "range": [0, 10], "outside": "hold"}]
    return {**declaration, "metrics": metrics}


@pytest.fixture
def where(tmp_path):
    return str(tmp_path / "log.db")


@pytest.fixture
def ask(where, held):
    """Ask a service that has two decisions, a and b."""
    with serving(where) as url, httpx.Client(base_url=url, timeout=60) as client:

        def ask(path, body=None):
            answer = client.get(E + path) if body is None else client.post(E + path, json=body)
            return answer.status_code, answer.json()

        assert client.post("/experiments", json=held).status_code == 201
        assert ask("/decisions", {"decisions": [{"id": i, "context": PHONE} for i in "ab"]})[0] == 200
        yield ask


def test_a_value_on_hold_is_listed_and_released(ask):
    status, receipt = ask("/outcomes", {"id": "a", "values": {"pain": 70, "revenue": 1}})
    assert (status, receipt["held"], receipt["recorded"]) == (200, ["pain"], ["revenue"])
    status, listed = ask("/held")
    [value] = listed["held"]
    assert (status, value["id"], value["metric"], value["value"], value["late"]) == (200, "a", "pain", 70.0, False)
    assert value["seq"] == listed["next"] == 5
    assert ask("/held?after=5")[1] == {"held": [], "next": 5}
    review = {"id": "a", "values": {"pain": 71}, "verdict": "release", "reason": "seen"}
    assert ask("/held", review)[0] == 409
    assert ask("/held", {**review, "values": {"pain": 70}}) == (200, {"id": "a", "changed": True})
    assert ask("/held", {**review, "values": {"pain": 70}}) == (200, {"id": "a", "changed": False})
    assert ask("/held")[1] == {"held": [], "next": 5}
    assert ask("/front")[0] == 422
    kinds = [event["kind"] for event in ask("/events?after=3")[1]["events"]]
    assert kinds == ["reported", "held", "reviewed", "revised"]


def test_a_batch_is_all_or_none(ask):
    outcomes = {"outcomes": [{"id": i, "values": {"revenue": 1, "pain": 70}} for i in "ab"]}
    assert ask("/outcomes", outcomes)[0] == 200
    before = ask("/state")
    reviews = [{"id": i, "values": {"pain": 70}, "verdict": "reject", "reason": "r"} for i in "ab"]
    assert ask("/held", {"reviews": [*reviews, {**reviews[0], "id": "c"}]})[0] == 404
    retractions = [{"id": i, "metrics": ["revenue"], "reason": "r"} for i in "ab"]
    assert ask("/retractions", {"retractions": [retractions[0], {**retractions[1], "metrics": ["speed"]}]})[0] == 422
    voids = [{"id": i, "reason": "r"} for i in "ab"]
    assert ask("/voids", {"voids": [*voids, {"id": "c", "reason": "r"}]})[0] == 404
    contexts = [{"id": i, "context": DESK, "reason": "r"} for i in "ab"]
    assert ask("/contexts", {"contexts": [contexts[0], {**contexts[1], "context": {"age": 3}}]})[0] == 422
    assert ask("/state") == before
    done = {"amendments": [{"id": "a", "changed": True}, {"id": "b", "changed": True}]}
    assert ask("/held", {"reviews": reviews}) == (200, done)
    assert ask("/retractions", {"retractions": retractions}) == (200, done)
    assert ask("/contexts", {"contexts": contexts}) == (200, done)
    assert ask("/voids", {"voids": voids}) == (200, done)
    assert ask("/voids", {"id": "a", "void": False, "reason": "it was none"}) == (200, {"id": "a", "changed": True})
    assert ask("/outcomes", {"id": "b", "values": {"revenue": 2}})[1]["void"]


@pytest.mark.parametrize(
    ("path", "body", "words"),
    [
        ("/voids", {"id": "a"}, "reason"),
        ("/voids", {"id": "a", "reason": ""}, "reason"),
        ("/voids", {"id": "a", "reason": "x" * 501}, "reason"),
        ("/voids", {"id": "a", "reason": "two\nlines"}, "reason must be a text of 1 to 500 printable characters"),
        ("/voids", {"id": "a", "reason": "r", "void": "no"}, "void"),
        ("/voids", {"voids": []}, "voids"),
        ("/retractions", {"id": "a", "metrics": [], "reason": "r"}, "metrics"),
        ("/retractions", {"id": "a", "metrics": ["revenue", "revenue"], "reason": "r"}, "'revenue' is there twice"),
        ("/held", {"id": "a", "values": {"pain": 70}, "verdict": "keep", "reason": "r"}, "verdict"),
        ("/held", {"id": "a", "values": {}, "verdict": "reject", "reason": "r"}, "values"),
        ("/held", {"id": "a", "values": {"speed": 1}, "verdict": "reject", "reason": "r"}, "no metric 'speed'"),
        ("/contexts", {"id": "a", "reason": "r"}, "context"),
        ("/outcomes", {"id": "a", "values": {"revenue": 1}, "observed_at": "noon"}, "observed_at must be a date"),
        ("/outcomes", {"id": "a", "values": {"revenue": 1}, "observed_at": 5}, "observed_at"),
        ("/outcomes", {"id": "a", "values": {"revenue": 1}, "observed_at": "1999-01-01T00:00Z"}, "must lie between"),
    ],
)
def test_what_is_wrong_is_said(ask, path, body, words):
    status, answer = ask(path, body)
    assert status == 422
    assert words in answer["error"]


def test_who_may_do_what(where, held):
    store = open_store(where)
    Driver(store).create(held)
    with store.write() as session:
        keys = {scope: create_key(session, scope, [scope]) for scope in ("decide", "report", "read", "admin")}
    store.close()
    nobody = {"id": "nobody", "reason": "r"}
    wanted = {
        "/retractions": ({**nobody, "metrics": ["revenue"]}, {"report", "admin"}),
        "/voids": (nobody, {"admin"}),
        "/contexts": ({**nobody, "context": PHONE}, {"admin"}),
        "/held": ({**nobody, "values": {"pain": 70}, "verdict": "reject"}, {"admin"}),
    }
    with serving(where) as url, httpx.Client(base_url=url, timeout=60) as client:
        for path, (body, allowed) in wanted.items():
            statuses = {s: client.post(E + path, json=body, headers={"x-api-key": key}) for s, key in keys.items()}
            assert {s for s, answer in statuses.items() if answer.status_code == 404} == allowed, "let through"
            assert {answer.status_code for s, answer in statuses.items() if s not in allowed} == {403}
        looked = {s: client.get(E + "/held", headers={"x-api-key": key}).status_code for s, key in keys.items()}
        assert looked == {"decide": 403, "report": 403, "read": 200, "admin": 200}


def test_values_on_hold_come_in_pages(store, held):
    run = Driver(store)
    run.create(held)
    run.decide([{"id": f"d{i}", "context": PHONE} for i in range(7)])
    for i in range(7):
        run.tell(f"d{i}", pain=float(70 + i))
    run.tell("d1", pain=99.0)  # in place of the one before
    run.tell("d2", pain=3.0)
    run.void([{"id": "d3", "reason": "r"}])
    run.review([{"id": "d4", "values": {"pain": 74.0}, "verdict": "reject", "reason": "r"}])
    pages, after = [], 0
    while not pages or pages[-1].next > after:
        after = pages[-1].next if pages else 0
        pages.append(on_hold(store, "checkout", after, 2))
    assert [(v.id, v.value) for page in pages for v in page.held] == [
        ("d0", 70.0), ("d5", 75.0), ("d6", 76.0), ("d1", 99.0),
    ]  # fmt: skip
    assert len(pages) == 5


def test_held_on_the_command_line(where, held):
    store = open_store(where)
    run = Driver(store)
    run.create(held)
    run.ask("a")
    run.tell("a", pain=70.0)
    store.close()
    shown = CliRunner().invoke(app, ["experiment", "held", "checkout", "--store", where])
    assert (shown.exit_code, [json.loads(line)["value"] for line in shown.output.splitlines()]) == (0, [70.0])
    assert CliRunner().invoke(app, ["experiment", "held", "nothing", "--store", where]).exit_code == 1


def test_the_index_is_used(tmp_path, held):
    store = open_store(str(tmp_path / "log.db"))
    Driver(store).create(held)
    with store.read() as session:
        asked = []
        session._run = lambda sql, values=(): asked.append((sql, values)) or []
        session.amendments("checkout", ("held",), 0, 10, 5)
        [(sql, values)] = asked
        plan = [row[-1] for row in session._connection.execute(f"EXPLAIN QUERY PLAN {sql}", values)]
    store.close()
    assert any("USING INDEX events_of_review (experiment=? AND kind=? AND seq>?" in step for step in plan), plan


def test_the_shift_monitor_sees_contexts_as_they_are_known_to_be(store, declaration):
    run, other = Driver(store), Driver(store, "other")
    run.create(declaration)
    other.create({**declaration, "id": "other"})
    ages = [18 + 7 * i % 80 for i in range(400)]
    run.decide([{"id": f"d{i}", "context": {"age": age, "device": "phone"}} for i, age in enumerate(ages)])
    watch = ShiftWatch(store)
    assert watch.report("checkout").contexts == 400
    run.void([{"id": f"d{i}", "reason": "r"} for i in range(0, 400, 4)])
    run.correct_context([{"id": f"d{i}", "context": DESK, "reason": "r"} for i in range(0, 400, 5)])
    run.void([{"id": "d8", "void": False, "reason": "r"}])
    true = {i: DESK if i % 5 == 0 else {"age": age, "device": "phone"} for i, age in enumerate(ages)}
    counted = [i for i in true if i % 4 or i == 8]
    other.decide([{"id": f"d{i}", "context": true[i]} for i in counted])
    assert watch.report("checkout") == ShiftWatch(store).report("checkout") == watch.report("other")
    assert watch.report("checkout").contexts == len(counted)


def test_the_client_has_a_method_for_each(where, held):
    with serving(where) as url, cb.Client(url) as client:
        client.create(held)
        client.decide_many("checkout", [PHONE] * 3, ids=["a", "b", "c"])
        now = datetime.now(UTC)
        times = {"a": now, "b": now.isoformat()}
        receipts = client.report_many("checkout", {i: {"pain": 70, "revenue": 1} for i in "abc"}, observed_at=times)
        assert {receipt.held for receipt in receipts} == {("pain",)}
        values = client.held("checkout", limit=50)["held"]
        assert [(v["id"], v["observed_at"] is None) for v in values] == [("a", False), ("b", False), ("c", True)]
        seen = {"pain": 70.0}
        assert client.release("checkout", "a", seen, reason="so it is")
        assert not client.release("checkout", "a", seen, reason="so it is")
        assert client.reject("checkout", "b", seen, reason="in percent")
        assert client.retract("checkout", "a", ["pain", "revenue"], reason="of another visitor")
        assert client.correct_context("checkout", "a", DESK, reason="a typing error")
        assert client.void_many("checkout", ["a", "b"], reason="robots") == [True, True]
        assert client.void_many("checkout", ["b", "c"], reason="robots") == [False, True]
        assert client.unvoid("checkout", "b", reason="it was none")
        assert client.void("checkout", "b", reason="but it was")
        assert client.report("checkout", "b", {"revenue": 2}, observed_at=now).void
        with pytest.raises(cb.ClientError, match="no decision 'd'") as refused:
            client.void("checkout", "d", reason="r")
        assert refused.value.status == 404
        with pytest.raises(ValueError, match="observed_at must have a time zone"):
            client.report("checkout", "a", {"revenue": 2}, observed_at=datetime(2026, 1, 1))


def test_the_asynchronous_client_has_them_too(where, held):
    async def amend(url):
        async with cb.AsyncClient(url) as client:
            await client.create(held)
            await client.decide("checkout", PHONE, id="a")
            receipt = await client.report("checkout", "a", {"pain": 70}, observed_at=datetime.now(UTC))
            return receipt.held, await client.void("checkout", "a", reason="r"), await client.held("checkout")

    with serving(where) as url:
        assert asyncio.run(amend(url)) == (("pain",), True, {"held": [], "next": 3})
