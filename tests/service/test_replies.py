"""Replies are written as JSON and read back, by the engine's, HTTP's and the client's one type."""

import json
from dataclasses import FrozenInstanceError, fields
from typing import Any, get_args, get_origin, get_type_hints

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

import conebandit as cb
from conebandit.service import client, replies
from conebandit.service.engine.ledger import Ledger
from conebandit.service.http.replies import as_json, as_quick_json
from conebandit.service.http.server import serving
from conebandit.service.replies import (
    Assignment,
    Assignments,
    Description,
    EstimatedFront,
    EventPage,
    Explanation,
    Receipt,
    Receipts,
    Reply,
    ShiftReport,
    StateDigest,
)
from conebandit.service.stores.base import open_store
from tests.service.driver import PHONE, Driver

KINDS = [kind for kind in vars(replies).values() if isinstance(kind, type) and issubclass(kind, Reply)][1:]
SCALARS = {
    str: st.text(max_size=5),
    int: st.integers(),
    bool: st.booleans(),
    float: st.floats(allow_nan=False, allow_infinity=False),
    Any: st.none() | st.integers() | st.lists(st.text(max_size=3), max_size=2),
}


def values(type_):
    """Values of a type that a reply declares."""
    inner = get_args(type_)
    if type(None) in inner:
        return st.none() | values(inner[0])
    if get_origin(type_) is tuple:
        return st.lists(values(inner[0]), max_size=2).map(tuple)
    if get_origin(type_) is dict:
        return st.dictionaries(st.text(max_size=3), values(inner[1]), max_size=2)
    if type_ in SCALARS:
        return SCALARS[type_]
    hints = get_type_hints(type_)
    return st.builds(type_, **{entry.name: values(hints[entry.name]) for entry in fields(type_)})


@pytest.mark.untraced
@pytest.mark.parametrize("kind", KINDS)
def test_every_reply_is_read_back_as_it_was_written(kind):
    @given(values(kind))
    def check(reply):
        plain = reply.to_dict()
        assert list(plain) == [entry.name for entry in fields(kind)]
        assert json.loads(json.dumps(plain)) == plain
        assert kind.from_dict(json.loads(json.dumps(plain))) == reply
        assert kind.from_dict({**plain, "of a later release": 1}) == reply

    check()


@pytest.mark.parametrize("kind", [Assignment, Assignments, Receipt, Receipts])
def test_quick_replies_say_what_others_do(kind):
    @given(values(kind))
    def check(reply):
        quick, plain = as_quick_json(reply), as_json(reply)
        assert json.loads(quick.body) == json.loads(plain.body)
        assert quick.headers["content-type"] == plain.headers["content-type"]

    check()


def test_entries_of_a_wrong_type_are_refused():
    plain = Assignment("a", "old", 0.5, ("old",), "live", None).to_dict()
    for wrong in ({"active": 3}, {"probabilities": 3}, {"probabilities": [3]}):
        with pytest.raises((ValueError, TypeError)):
            Assignment.from_dict({**plain, **wrong})
    with pytest.raises(ValueError, match="must be a table; got 3"):
        Assignments.from_dict({"decisions": [plain, 3]})


@pytest.mark.parametrize("kind", KINDS)
def test_a_reply_that_lacks_an_entry_is_refused(kind):
    name = fields(kind)[0].name
    with pytest.raises(ValueError, match=f"type {kind.__name__} must have an entry '{name}'"):
        kind.from_dict({})


def test_the_public_replies_are_these():
    assert client.Assignment is Assignment
    assert client.Receipt is Receipt
    with pytest.raises(FrozenInstanceError):
        Receipt("a", (), (), (), ()).late = ("revenue",)


@pytest.fixture
def run(begun):
    store = open_store(begun)
    run = Driver(store)
    run.tell("d1", revenue=1.0, latency=2.0)
    yield run
    store.close()


def test_what_goes_over_the_wire_is_what_the_engine_says(run, begun):
    """And what the client gives back is the same again."""
    query = {"context": json.dumps(PHONE)}
    asked: dict[str, tuple[type[Reply], Any, Any]] = {
        "": (Description, run.describe(), lambda c: c.show("checkout")),
        "/front": (EstimatedFront, run.front(PHONE), lambda c: c.front("checkout", PHONE)),
        "/explain": (Explanation, run.explain(PHONE), lambda c: c.explain("checkout", PHONE)),
        "/state": (StateDigest, run.digest(), lambda c: c.state("checkout")),
        "/events": (EventPage, None, lambda c: c.events("checkout")),
        "/shift": (ShiftReport, None, lambda c: c.shift("checkout")),
    }
    with serving(begun) as url, cb.Client(url) as caller:
        for path, (kind, said, ask) in asked.items():
            sent = httpx.get(f"{url}/experiments/checkout{path}", params=query, timeout=120).json()
            assert kind.from_dict(sent).to_dict() == sent == ask(caller), path
            assert said in (None, sent), path
        schema = httpx.get(f"{url}/openapi.json").json()
    for path, (kind, *_) in asked.items():
        answers = schema["paths"][f"/experiments/{{experiment}}{path}"]["get"]["responses"]["200"]
        assert answers["content"]["application/json"]["schema"] == {"$ref": f"#/components/schemas/{kind.__name__}"}


def test_a_batch_is_a_reply_of_replies(run, begun):
    with serving(begun) as url:
        body = {"decisions": [{"id": "d1", "context": PHONE}, {"id": "d2", "context": PHONE}]}
        sent = httpx.post(f"{url}/experiments/checkout/decisions", json=body).json()
    run.ledger = Ledger()
    assert sent == {"decisions": run.decide(body["decisions"])}
    assert [one.id for one in Assignments.from_dict(sent).decisions] == ["d1", "d2"]


@pytest.mark.parametrize("given", [None, [], [3], "text", 3])
def test_what_is_no_table_is_no_reply(given):
    with pytest.raises(ValueError, match="type Assignment must be a table"):
        Assignment.from_dict(given)


def test_null_is_read_only_where_a_reply_may_have_it():
    given = Assignment("d", "a", 1.0, ("a",), "off", None).to_dict()
    assert Assignment.from_dict(given).policy_version is None
    with pytest.raises(ValueError, match="type Assignment must have an entry 'active'"):
        Assignment.from_dict({**given, "active": None})
