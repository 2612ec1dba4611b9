"""What a second look at the service found, and what it asked to be shown."""

import asyncio
import contextlib
import queue
import socket
import threading
import time
from types import SimpleNamespace

import httpx
import pytest

from conebandit.service import engine, experiment, keys, shared, tables
from conebandit.service.api import create_app
from conebandit.service.errors import ConflictError, CorruptionError
from conebandit.service.events import START, seal
from conebandit.service.imports import restore
from conebandit.service.postgres import PostgresStore
from conebandit.service.server import serving
from conebandit.service.shift import ShiftWatch
from conebandit.service.sqlite import READING
from conebandit.service.store import MOST_IDLE, open_store
from conebandit.service.writer import Writer
from tests.service.test_engine import Driver

PHONE = {"age": 30, "device": "phone"}
POOL = 40  # threads that anyio has for all


@pytest.fixture
def begun(tmp_path, declaration):
    """Where a store with an experiment is, which has 20 decisions."""
    where = str(tmp_path / "log.db")
    store = open_store(where)
    run = Driver(store)
    run.create(declaration)
    run.decide([{"id": f"d{i}", "context": PHONE} for i in range(20)])
    store.close()
    return where


# ---- long reads, and the threads that everybody shares ---------------------------------------------------------------


def test_however_many_ask_for_the_shift_decisions_go_on(begun, monkeypatch):
    opened, held = threading.Event(), []
    report = ShiftWatch.report
    monkeypatch.setattr(ShiftWatch, "report", lambda *given: held.append(given) or (opened.wait(30) and report(*given)))
    monkeypatch.setattr(shared, "KEYS_FOR", 0.0)  # so every request has to read them

    async def crowd(url):
        limits = httpx.Limits(max_connections=None)
        async with httpx.AsyncClient(base_url=url, timeout=30, limits=limits) as client:
            asked = [asyncio.create_task(client.get("/experiments/checkout/shift")) for _ in range(POOL + 5)]
            while len(held) < shared.LONG_READS["shift"]:
                await asyncio.sleep(0.01)
            await asyncio.sleep(0.2)  # time for the others to take whatever they can
            try:
                decision = {"id": "new", "context": PHONE}
                made = await client.post("/experiments/checkout/decisions", json=decision, timeout=5)
                page = await client.get("/experiments/checkout/events", timeout=5)
            finally:
                opened.set()
            return made.status_code, page.status_code, {answer.status_code for answer in await asyncio.gather(*asked)}

    with serving(begun) as url:
        assert asyncio.run(crowd(url)) == (200, 200, {200})


def test_the_shift_of_one_experiment_does_not_wait_for_another(begun, declaration):
    store = open_store(begun)
    other = Driver(store, "other")
    other.create({**declaration, "id": "other"})
    watch = ShiftWatch(store)
    watch.report("checkout")
    with watch._locks["checkout"]:
        answers = []
        asker = threading.Thread(target=lambda: answers.append(watch.report("other")), daemon=True)
        asker.start()
        asker.join(10)
        assert [answer["contexts"] for answer in answers] == [0]
    store.close()


async def _get(app, path, send):
    scope = {
        "type": "http",
        "method": "GET",
        "path": path,
        "query_string": b"",
        "headers": [(b"host", b"localhost")],
    }
    never = asyncio.Event()
    received = iter([{"type": "http.request", "body": b""}])

    async def receive():
        message = next(received, None)
        return message or await never.wait()

    await app(scope, receive, send)


def test_whoever_does_not_read_an_export_holds_no_thread(begun, monkeypatch):
    monkeypatch.setattr(tables, "PART", 100)
    writer = Writer(open_store(begun))
    app = create_app(writer, reachable=False)

    async def crowd():
        stuck, never, parts = [], asyncio.Event(), []

        async def does_not_read(message):
            if message.get("body"):
                stuck.append(message)
                await never.wait()

        async def reads(message):
            parts.append(message.get("body", b""))

        path = "/experiments/checkout/export"
        slow = [asyncio.create_task(_get(app, path, does_not_read)) for _ in range(POOL + 5)]
        while len(stuck) < len(slow):
            await asyncio.sleep(0.01)
        await asyncio.wait_for(_get(app, path, reads), 10)
        for task in slow:
            task.cancel()
        await asyncio.gather(*slow, return_exceptions=True)
        return b"".join(parts)

    content = asyncio.run(asyncio.wait_for(crowd(), 30))
    writer.close()
    assert content.count(b"\n") == 1 + 21 + 1


def test_keys_are_read_by_one_and_the_others_go_on(begun, monkeypatch):
    with serving(begun) as url, httpx.Client(base_url=url, timeout=10) as client:
        assert client.get("/experiments").status_code == 200
        opened, reading, reads = threading.Event(), threading.Event(), []
        read = shared.Shared._read_keys

        def slowly(self):
            reads.append(time.monotonic())
            reading.set()
            assert opened.wait(30)
            return read(self)

        monkeypatch.setattr(shared.Shared, "_read_keys", slowly)
        monkeypatch.setattr(shared, "KEYS_FOR", 0.0)
        first = threading.Thread(target=lambda: httpx.get(f"{url}/experiments", timeout=30))
        first.start()
        assert reading.wait(10)
        assert [client.get("/experiments").status_code for _ in range(3)] == [200] * 3
        assert len(reads) == 1
        opened.set()
        first.join()


# ---- connections -----------------------------------------------------------------------------------------------------


class Unhurried(queue.LifoQueue):
    """Two who find out together that something is in it get one each, or one of them finds that it is gone."""

    def empty(self):
        found = super().empty()
        time.sleep(0.02)
        return found


def test_idle_connections_can_be_dropped_by_several_at_once():
    store, closed, errors = PostgresStore.__new__(PostgresStore), [], []
    store._idle = Unhurried()
    for number in range(3):
        raw = SimpleNamespace(close=lambda number=number: closed.append(number))
        store._idle.put(SimpleNamespace(raw=raw))

    def drop():
        try:
            store._drop_idle()
        except queue.Empty as error:
            errors.append(error)

    threads = [threading.Thread(target=drop) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (errors, sorted(closed)) == ([], [0, 1, 2])


def test_after_a_rush_few_connections_stay(address):
    store = open_store(address)
    with contextlib.ExitStack() as rush:
        sessions = [rush.enter_context(store.read()) for _ in range(MOST_IDLE + 4)]
        assert len(sessions) == MOST_IDLE + 4
    idle = store._idle if isinstance(store, PostgresStore) else store._idle[READING]
    assert idle.qsize() == MOST_IDLE
    with store.read() as session:
        assert session.experiments() == []
    store.close()


# ---- snapshots -------------------------------------------------------------------------------------------------------


def _snapshots(store):
    with store.read() as session:
        heads = [tuple(row) for row in session._run("SELECT seq, complete FROM snapshot_heads ORDER BY seq")]
        return session.snapshots("checkout"), heads


@pytest.mark.parametrize("killed", [False, True], ids=["closed", "killed"])
def test_a_snapshot_that_was_begun_at_the_last_event_is_kept_in_the_end(store, declaration, monkeypatch, killed):
    monkeypatch.setattr(engine, "SNAPSHOT_EVERY", 10)
    run = Driver(store)
    run.create(declaration)
    run.decide([{"id": f"d{i}", "context": PHONE} for i in range(20)])
    assert _snapshots(store) == ([], [(21, 0)])
    if killed:
        run.engine = engine.Engine()
    run.snapshot()
    assert _snapshots(store) == ([21], [(21, 1)])
    assert run.digest() == Driver(store).digest()
    run.snapshot()
    assert _snapshots(store) == ([21], [(21, 1)])


def test_a_snapshot_that_a_revision_has_begun_is_left_to_it(store, declaration):
    run = Driver(store)
    run.engine = engine.Engine(most_replayed=0)  # corrections are somebody else's task
    run.create(declaration)
    run.ask("one")
    run.tell("one", revenue=1.0)
    run.tell("one", revenue=2.0)
    with store.write() as session:
        assert session.begin_snapshot("checkout", 4)
        assert session.add_snapshot_part("checkout", 4, 0, b"of the revision")
    run.snapshot()
    assert _snapshots(store) == ([], [(4, 0)])
    with store.read() as session:
        assert list(session.snapshot("checkout", 4)) == [b"of the revision"]


# ---- what is refused -------------------------------------------------------------------------------------------------


def test_arms_are_added_up_to_the_size_that_could_be_declared(store, declaration, monkeypatch):
    run = Driver(store)
    run.create(declaration)  # 3 arms, 2 metrics, 3 coordinates
    monkeypatch.setattr(experiment, "MOST_ESTIMATES", 4 * 2 * 3**2)
    run.add_arm("fourth")
    with pytest.raises(ConflictError, match=r"arm 'fifth' cannot be added: .* at most 72; got 5 x 2 x 3\^2"):
        run.add_arm("fifth")
    assert len(run.describe()["arms"]) == 4
    run.retire_arm("new")
    assert len(run.add_arm("fifth")["arms"]) == 5


def test_changed_events_are_not_shown(begun):
    with serving(begun) as url, httpx.Client(base_url=f"{url}/experiments/checkout", timeout=10) as client:

        def page(after, limit=5):
            return client.get("/events", params={"after": after, "limit": limit})

        for after in (0, 1, 16, 20):
            seqs = [event["seq"] for event in page(after).json()["events"]]
            assert seqs == list(range(after + 1, min(after + 5, 21) + 1))
        assert [page(after).json() for after in (21, 50)] == [{"events": [], "next": n} for n in (21, 50)]
        with contextlib.closing(open_store(begun)) as store, store.write() as session:
            session._run("UPDATE events SET body = replace(body, 'phone', 'desk') WHERE seq = 8")
            session._run("DELETE FROM events WHERE seq IN (15, 21)")
        statuses = {after: page(after).status_code for after in (0, 2, 3, 7, 8, 9, 10, 14, 15, 16, 20)}
        bad = {3, 7, 10, 14, 15, 20}  # the changed one is on the page, or one is missing from it or before it
        assert statuses == {after: 500 if after in bad else 200 for after in statuses}


def _sealed(*events):
    """A log of events (kind, body), each with the seal that it needs."""
    log, before = [], START
    for seq, (kind, body) in enumerate(events, start=1):
        log.append(seal(before, seq, kind, None, body))
        before = log[-1].check
    return iter(log)


OFF = {"mode": "off"}
NOT_IMPORTED = {
    "a time that is text": (1, [("mode_changed", {**OFF, "at": "x"})], "event 2 .*'at' must be"),
    "no time": (1, [("mode_changed", {**OFF, "at": None})], "event 2 .*'at' must be"),
    "a fraction": (1.5, [], "event 1 .*'at' must be"),
    "true": (True, [], "event 1 .*'at' must be"),
    "after the year 9999": (10**30, [], "event 1 .*'at' must be"),
    "before 1970": (-1, [], "event 1 .*'at' must be"),
    "a time before the last": (5, [("mode_changed", {**OFF, "at": 4})], "event 2 .*not before the event before"),
    "a revision of nothing": (1, [("revised", {"upto": "x", "at": 1})], "leads to no state"),
}


@pytest.mark.parametrize(("at", "more", "message"), NOT_IMPORTED.values(), ids=NOT_IMPORTED)
def test_a_log_with_impossible_events_is_not_imported(store, declaration, at, more, message):
    first = ("created", {"declaration": declaration, "library": "0", "at": at})
    with pytest.raises(CorruptionError, match=message):
        restore(store, _sealed(first, *more))
    with store.read() as session:
        assert session.experiments() == []


@pytest.mark.parametrize("more", [[], [("revised", {"upto": 2, "at": 1})]], ids=["plain", "revised"])
def test_a_log_with_two_declarations_is_not_imported(store, declaration, more):
    first = ("created", {"declaration": declaration, "library": "0", "at": 1})
    with pytest.raises(CorruptionError, match=r"event 2 \(created\)"):
        restore(store, _sealed(first, first, *more))


def test_a_log_of_the_last_millisecond_can_be_used(store, declaration):
    last = 253_402_300_799_999
    first = ("created", {"declaration": declaration, "library": "0", "at": last})
    restore(store, _sealed(first, ("mode_changed", {**OFF, "at": last})))
    run = Driver(store)
    assert run.ask("one")["arm"] == "old"
    assert b"9999-12-31T23:59:59" in b"".join(tables.export(store, "checkout", "csv"))


# ---- addresses and headers -------------------------------------------------------------------------------------------


def _has_ipv6():
    try:
        with socket.socket(socket.AF_INET6) as s:
            s.bind(("::1", 0))
    except OSError:
        return False
    return True


@pytest.mark.skipif(not _has_ipv6(), reason="this machine has no IPv6")
def test_an_address_of_ipv6_is_in_brackets(begun):
    with serving(begun, host="::1") as url:
        assert url.startswith("http://[::1]:")
        assert httpx.get(f"{url}/healthz").json() == {"status": "ok"}


def test_the_scheme_of_a_key_may_be_in_any_case(begun):
    with contextlib.closing(open_store(begun)) as store, store.write() as session:
        key = keys.create_key(session, "reader", ["read"])
    with serving(begun) as url:
        given = {f"{scheme} {key}": 200 for scheme in ("Bearer", "bearer", "BEARER")} | {f"Basic {key}": 401}
        found = {v: httpx.get(f"{url}/experiments", headers={"authorization": v}).status_code for v in given}
        assert found == given
