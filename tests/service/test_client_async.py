"""The asynchronous client: the same answers, many at once, and cancellation that hurts nobody."""

import asyncio
import inspect
import socket
import threading
import time

import pytest

import conebandit as cb
from conebandit.service.client import ClientError, async_transport, patience
from conebandit.service.http.server import serving
from conebandit.service.stores.base import open_store
from tests.service import hostile
from tests.service.databases import free_port
from tests.service.driver import PHONE
from tests.service.hostile import HOSTILE, listening
from tests.service.test_client_fallback import BIG, LATE, Slow

NOWHERE = "http://127.0.0.1:9"


def public(kind):
    return {name: member for name, member in inspect.getmembers(kind, inspect.isfunction) if not name.startswith("_")}


def test_both_clients_have_the_same_methods():
    waiting, awaited = public(cb.Client), public(cb.AsyncClient)
    assert waiting.keys() == awaited.keys()
    for name, method in awaited.items():
        assert inspect.iscoroutinefunction(method), name
        assert list(inspect.signature(method).parameters) == list(inspect.signature(waiting[name]).parameters), name
        assert method.__doc__ == waiting[name].__doc__, name
        assert method.__doc__, name
    assert (
        str(inspect.signature(cb.Client(NOWHERE).events)) == "(experiment: 'str', after: 'int' = 0, limit: 'int' = 100)"
    )
    assert inspect.signature(cb.Client) == inspect.signature(cb.AsyncClient)


def test_both_clients_get_the_same_answers(begun):
    async def ask(address):
        async with cb.AsyncClient(address) as client:
            return [
                await client.decide("checkout", PHONE, id="d1"),
                await client.decide_many("checkout", [PHONE, PHONE], ids=["d2", "d3"]),
                await client.report("checkout", "d1", {"revenue": 1.0}),
                await client.report_many("checkout", {"d2": {"revenue": 1.0}, "d3": {"revenue": 2.0}}),
                await client.experiments(),
                await client.show("checkout"),
                await client.front("checkout", PHONE),
                await client.explain("checkout", PHONE),
                await client.events("checkout", after=3, limit=2),
                await client.export("checkout", "jsonl"),
                await client.state("checkout"),
            ]

    with serving(begun) as address:
        awaited = asyncio.run(ask(address))
        with cb.Client(address) as client:
            waited = [
                client.decide("checkout", PHONE, id="d1"),
                client.decide_many("checkout", [PHONE, PHONE], ids=["d2", "d3"]),
                *awaited[2:4],
                client.experiments(),
                client.show("checkout"),
                client.front("checkout", PHONE),
                client.explain("checkout", PHONE),
                client.events("checkout", after=3, limit=2),
                client.export("checkout", "jsonl"),
                client.state("checkout"),
            ]
            assert client.report("checkout", "d1", {"revenue": 1.0}).repeated == ("revenue",)
    assert awaited == waited
    assert awaited[2].recorded == ("revenue",)
    assert [one.recorded for one in awaited[3]] == [("revenue",), ("revenue",)]


def test_hundreds_of_calls_at_once(begun):
    """Some are cancelled on the way: nobody gets the answer of another."""

    async def visit(client, i):
        served = await client.decide("checkout", PHONE, id=f"visit-{i}")
        assert served.id == f"visit-{i}"
        receipt = await client.report("checkout", served.id, {"revenue": float(i)})
        assert receipt.id == served.id
        return served.id

    async def run(address):
        async with cb.AsyncClient(address) as client:
            tasks = [asyncio.create_task(visit(client, i)) for i in range(400)]
            while sum(task.done() for task in tasks) < 50:
                await asyncio.sleep(0.001)
            for task in tasks[::3]:
                task.cancel()
            done = await asyncio.gather(*tasks, return_exceptions=True)
            assert all(isinstance(one, str | asyncio.CancelledError) for one in done), done
            served = {one for one in done if isinstance(one, str)}
            assert served >= {f"visit-{i}" for i in range(400) if i % 3}
            assert len(client._transport._idle) <= async_transport.MAX_CONNECTIONS
            again = await asyncio.gather(*(visit(client, i) for i in range(400)))  # cancelled or not
            return served, again

    with serving(begun) as address:
        served, again = asyncio.run(run(address))
    store = open_store(begun)
    with store.read() as session:
        events = session.events("checkout", limit=10_000)
    store.close()
    assert served <= set(again) == {f"visit-{i}" for i in range(400)}
    for kind, before in ("decided", 20), ("reported", 0):
        ids = [event.decision for event in events if event.kind == kind]
        assert len(set(ids)) == len(ids) == before + 400  # none twice


@pytest.mark.parametrize("behave", HOSTILE)
def test_a_hostile_service_costs_no_more_than_the_deadline(behave):
    async def run(address):
        async with cb.AsyncClient(address, fallback={"e": "old"}, deadline=0.1) as client:
            return await asyncio.gather(
                *(client.decide("e", BIG if behave is hostile.deaf else {}, id=f"visit-{i}") for i in range(20))
            )

    with listening(behave) as (address, _):
        began = time.monotonic()
        served = asyncio.run(run(address))
        assert time.monotonic() - began < LATE
    assert served == [
        cb.Assignment(f"visit-{i}", "old", 1.0, ("old",), "fallback", None, {"old": 1.0}) for i in range(20)
    ]


def test_mistakes_of_the_caller_are_raised():
    async def run(address):
        async with cb.AsyncClient(address, fallback="old", deadline=LATE) as client:
            await client.decide("e")

    with (
        listening(hostile.saying({"error": "it is your fault."}, 422)) as (address, _),
        pytest.raises(ClientError, match="your fault"),
    ):
        asyncio.run(run(address))


def test_a_client_outlives_event_loops_and_the_service(begun):
    """Connections belong to a loop, and there may be another one later; the baseline stays known."""

    async def before(i):
        served = await client.decide("checkout", PHONE, id=f"loop-{i}")
        await client.close()
        return served

    with serving(begun) as address:
        client = cb.AsyncClient(address, fallback="baseline", deadline=LATE)
        for i in range(3):
            assert not asyncio.run(before(i)).fallback

    async def afterwards():
        served = [await client.decide("checkout", PHONE, id=f"out-{i}") for i in range(2 * patience.MAX_FAILURES)]
        receipt = await client.report("checkout", "out-0", {"revenue": 1.0})
        await client.close()
        return served, receipt

    served, receipt = asyncio.run(afterwards())
    assert {(one.arm, one.fallback) for one in served} == {("old", True)}
    assert receipt.fallback


def test_the_outbox_of_an_asynchronous_client(begun, tmp_path):
    port = free_port()

    async def report():
        async with cb.AsyncClient(f"http://127.0.0.1:{port}", outbox=tmp_path / "outbox", actor="dr.lee") as client:
            receipts = await asyncio.gather(
                *(client.report("checkout", f"d{i}", {"revenue": float(i)}) for i in range(20))
            )
            assert all(receipt.queued for receipt in receipts)

    async def flush():
        async with cb.AsyncClient(f"http://127.0.0.1:{port}", outbox=tmp_path / "outbox") as client:
            return await client.flush()

    asyncio.run(report())
    with serving(begun, port=port) as address, cb.Client(address) as client:
        assert asyncio.run(flush()) == 0
        for i in range(20):
            assert client.report("checkout", f"d{i}", {"revenue": float(i)}).repeated == ("revenue",)


@pytest.mark.parametrize("pause", [0.02, None])
def test_a_long_answer_may_take_as_long_as_it_keeps_coming(pause):
    """Longer than the time-out in all; but if it stands still, that is the end."""
    parts = 60

    def behave(connection, stop):
        while hostile.read_request(connection) is not None:
            connection.sendall(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")
            for _ in range(parts):
                connection.sendall(b"2\r\nab\r\n")
                stop.wait(pause)
            connection.sendall(b"0\r\n\r\n")

    async def export(address):
        async with cb.AsyncClient(address, timeout=0.5, retries=0) as client:
            return await client.export("e")

    def export_waiting(address):
        with cb.Client(address, timeout=0.5, retries=0) as client:
            return client.export("e")

    with listening(behave) as (address, _):
        for ask in export_waiting, lambda where: asyncio.run(export(where)):
            if pause is not None:
                assert ask(address) == b"ab" * parts
            else:
                with pytest.raises(ClientError, match="cannot be reached"):
                    ask(address)


def test_a_name_server_that_does_not_answer_costs_no_more_than_the_deadline(monkeypatch, tmp_path):
    """Nor does it keep outcomes from the disk."""
    answered = threading.Event()

    def hang(*_, flags=0, **__):
        if not flags & socket.AI_NUMERICHOST:
            answered.wait()
        raise socket.gaierror("no such name")

    async def run():
        async with cb.AsyncClient(
            "http://service.example", fallback="old", deadline=0.05, outbox=tmp_path / "outbox", timeout=0.1
        ) as client:
            served = await asyncio.gather(*(client.decide("e") for _ in range(50)))
            receipts = await asyncio.gather(*(client.report("e", f"d{i}", {"m": 1.0}) for i in range(50)))
        answered.set()
        return served, receipts

    monkeypatch.setattr(socket, "getaddrinfo", hang)
    began = time.monotonic()
    try:
        served, receipts = asyncio.run(run())
    finally:
        answered.set()
    assert time.monotonic() - began < LATE
    assert all(one.fallback for one in served)
    assert all(one.queued for one in receipts)


def test_a_request_that_was_cancelled_ends_its_connection():
    slow = Slow()

    async def run(address):
        async with cb.AsyncClient(address) as client:
            task = asyncio.create_task(client.decide("e", id="visit-1"))
            while not slow.heard:
                await asyncio.sleep(0.001)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert client._transport._idle == []
            assert (await client.report("e", "visit-2", {"m": 1.0})).recorded == ("m",)

    with listening(slow) as (address, connections):
        asyncio.run(run(address))
        assert len(connections) == 2
