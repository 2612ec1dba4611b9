"""The short way through HTTP answers what the long one does, and leaves to it what it does not understand."""

import asyncio
import json

import httpx
import pytest
from fastapi import FastAPI, Response
from pydantic import TypeAdapter

from conebandit.experiment.declaration import Experiment
from conebandit.service.engine.clock import SteadyClock
from conebandit.service.engine.writer import Writer
from conebandit.service.http.app import create_app
from conebandit.service.http.forms import DecisionsBody
from conebandit.service.http.limits import MAX_BYTES
from conebandit.service.http.quick import ShortWay, ShortWays
from conebandit.service.stores.base import open_store
from tests.service.conftest import DECLARATION
from tests.service.driver import PHONE

JSON = {"content-type": "application/json"}
DECISIONS, OUTCOMES = "/experiments/checkout/decisions", "/experiments/checkout/outcomes"
ONE = json.dumps({"id": "a", "context": PHONE}).encode()
# Path, body and headers of requests: what is sent for each of them depends on those before it.
REQUESTS = {
    "one": (DECISIONS, ONE, JSON),
    "again": (DECISIONS, ONE, JSON),
    "many": (DECISIONS, json.dumps({"decisions": [{"id": f"b{i}", "context": PHONE} for i in range(3)]}), JSON),
    "with a charset": (DECISIONS, ONE, {"content-type": "application/json; charset=utf-8"}),
    "another context": (DECISIONS, b'{"id":"a","context":{"age":31,"device":"phone"}}', JSON),
    "outcome": (OUTCOMES, b'{"id":"a","values":{"revenue":1}}', JSON),
    "outcomes": (OUTCOMES, b'{"outcomes":[{"id":"b1","values":{"revenue":2.5,"latency":3}}]}', JSON),
    "unknown decision": (OUTCOMES, b'{"id":"z","values":{"revenue":1}}', JSON),
    "unknown metric": (OUTCOMES, b'{"id":"a","values":{"profit":1}}', JSON),
    "unknown experiment": ("/experiments/other/decisions", ONE, JSON),
    "no experiment": ("/experiments/no%20such/decisions", ONE, JSON),
    "no such path": (DECISIONS + "/", ONE, JSON),
    "a value that cannot be": (DECISIONS, b'{"id":"c","context":{"age":"old","device":"phone"}}', JSON),
    "not JSON": (DECISIONS, b'{"id":', JSON),
    "nothing": (DECISIONS, b"", JSON),
    "a list": (DECISIONS, b"[]", JSON),
    "an entry too much": (DECISIONS, b'{"id":"c","context":{},"arm":"old"}', JSON),
    "no number": (OUTCOMES, b'{"id":"a","values":{"revenue":true}}', JSON),
    "half of a pair": (DECISIONS, b'{"id":"\\ud800","context":{}}', JSON),
    "UTF-16": (DECISIONS, ONE.decode().encode("utf-16"), JSON),
    "too deep": (DECISIONS, b"[" * 100_000, JSON),
    "too large": (DECISIONS, b" " * (MAX_BYTES + 1), JSON),
    "another type": (DECISIONS, ONE, {"content-type": "text/plain"}),
    "no type": (DECISIONS, ONE, {}),
    "a wrong actor": (DECISIONS, ONE, {**JSON, "x-actor": "a" * 200}),
    "another host": (DECISIONS, ONE, {**JSON, "host": "example.org"}),
    "another origin": (DECISIONS, ONE, {**JSON, "origin": "http://example.org"}),
}
GOOD = ["one", "again", "many", "with a charset", "outcome", "outcomes", "UTF-16"]


async def ask_all(app):
    """Status, headers and body of each answer; in the order of the requests, since they depend on each other."""
    found = {}
    transport = httpx.ASGITransport(app=app, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
        for name, (path, body, headers) in REQUESTS.items():
            answer = await client.post(path, content=body, headers={**headers, "x-request-id": name.replace(" ", "-")})
            found[name] = answer.status_code, dict(answer.headers), answer.content
    return found


def test_both_ways_lead_to_the_same_answers(tmp_path):
    found, logs = {}, {}
    for way in ("short", "long"):
        clock = SteadyClock(lambda: 1_000_000, lambda: 0)
        writer = Writer(open_store(str(tmp_path / f"{way}.db")), clock)
        writer.submit("checkout", lambda turn: turn.create(Experiment.from_dict(DECLARATION))).result()
        app = create_app(writer, reachable=False)
        if way == "long":
            app.user_middleware = [one for one in app.user_middleware if one.cls is not ShortWays]
        found[way] = asyncio.run(ask_all(app))
        with writer.store.read() as session:
            logs[way] = session.events("checkout")
        writer.close()
    for name in REQUESTS:
        assert found["short"][name] == found["long"][name], name
    assert logs["short"] == logs["long"]
    statuses = {name: status for name, (status, *_) in found["short"].items()}
    assert [name for name, status in statuses.items() if status == 200] == GOOD
    assert set(statuses.values()) == {200, 307, 400, 403, 404, 409, 413, 415, 422}


class Open:
    """A door that is open for everybody."""

    async def check(self, request, scope):
        assert scope in ("decide", "report")


def send(path, body, headers=(), *, gone=False):
    """Whether a request takes the long way, and what is received on it; an answer on the short one is its argument."""
    app, received = FastAPI(), []

    @app.post("/experiments/{experiment}/decisions")
    async def decide(experiment: str, asked: DecisionsBody) -> Response:
        return Response(f"{experiment} {asked.id}")

    async def long_way(scope, receive, send):
        message = await receive()
        received.append(message if message["type"] != "http.request" else message["body"])

    async def receive():
        return {"type": "http.disconnect"} if gone else {"type": "http.request", "body": body, "more_body": False}

    async def answer(message):
        received.append(message)

    ways = [ShortWay(app.routes[-1], "decide", TypeAdapter(DecisionsBody), decide)]
    scope = {"type": "http", "method": "POST", "path": path, "headers": [(b"content-type", b"application/json")]}
    asyncio.run(ShortWays(long_way, Open(), ways)({**scope, **dict(headers)}, receive, answer))
    return received


def test_what_is_as_it_should_be_is_answered_at_once():
    start, body = send(DECISIONS, b'{"id":"a","context":{}}')
    assert (start["status"], body["body"]) == (200, b"checkout a")


@pytest.mark.parametrize("body", [b"", b"{", b'{"id":3}', b'{"id":"\\ud800"}', b"nan"])
def test_what_is_not_is_received_once_more_on_the_long_way(body):
    assert send(DECISIONS, body) == [body]


@pytest.mark.parametrize(
    "other",
    [
        {"method": "GET"},
        {"path": OUTCOMES},
        {"path": "/experiments/a b/decisions"},
        {"root_path": "/x"},
        {"headers": []},
    ],
)
def test_other_requests_are_left_alone(other):
    assert send(DECISIONS, ONE, other) == [ONE]


def test_who_has_gone_is_left_to_the_long_way():
    assert send(DECISIONS, ONE, gone=True) == [{"type": "http.disconnect"}]
