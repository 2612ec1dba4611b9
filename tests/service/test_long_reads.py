"""Who asks for much: it takes a while, and keeps decisions from nothing."""

import asyncio
import threading

import httpx

from conebandit.service import export as tables
from conebandit.service.engine.writer import Writer
from conebandit.service.http import access, backend
from conebandit.service.http.app import create_app
from conebandit.service.http.server import serving
from conebandit.service.shift import ShiftWatch
from conebandit.service.stores.base import open_store
from tests.service.driver import PHONE, Driver

POOL = 40  # threads that anyio has for all


def test_however_many_ask_for_the_shift_decisions_go_on(begun, monkeypatch):
    opened, held = threading.Event(), []
    report = ShiftWatch.report
    monkeypatch.setattr(ShiftWatch, "report", lambda *given: held.append(given) or (opened.wait(30) and report(*given)))
    monkeypatch.setattr(access, "MAX_KEY_AGE", 0.0)  # so every request has to read them

    async def crowd(url):
        limits = httpx.Limits(max_connections=None)
        async with httpx.AsyncClient(base_url=url, timeout=30, limits=limits) as client:
            asked = [asyncio.create_task(client.get("/experiments/checkout/shift")) for _ in range(POOL + 5)]
            while len(held) < backend.MAX_LONG_READS["shift"]:
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
        assert [answer.contexts for answer in answers] == [0]
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
