"""Answers with a good status that are none of the service's: for the caller they are as good as none."""

import asyncio
import dataclasses
import json
import pickle

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import conebandit as cb
from conebandit.service.client import ClientError, answers
from tests.service import hostile
from tests.service.hostile import ARM, listening

RECEIPT = {"id": "d", "recorded": ["m"], "corrected": [], "repeated": [], "late": []}
SHOWN = {
    "id": "e",
    "mode": "live",
    "arms": [{"name": "old", "active": True}],
    "events": 1,
    "revising": False,
    "declaration": {"id": "e", "arms": ["old"], "metrics": [{"name": "m"}]},
}
WRONG_ASSIGNMENTS = [
    {"id": "other"},
    {"id": 5},
    {"arm": None},
    {"arm": 5},
    {"arm": ""},
    {"arm": ["a"]},
    {"propensity": "1"},
    {"propensity": True},
    {"propensity": 0},
    {"propensity": 1.5},
    {"propensity": float("nan")},
    {"active": "a"},
    {"active": [1]},
    {"active": None},
    {"mode": 7},
    {"probabilities": 7},
    {"probabilities": ["a"]},
    {"probabilities": {"a": "1"}},
    {"probabilities": {"a": -1}},
    {"repeated": "no"},
]


@pytest.mark.parametrize("wrong", WRONG_ASSIGNMENTS, ids=str)
def test_an_assignment_that_is_none(wrong):
    with listening(hostile.saying({**ARM, **wrong})) as (address, connections):
        with cb.Client(address, fallback="old", deadline=5.0) as client:
            assert client.decide("e", id="d").fallback
            assert len(connections) == 1, "it is not asked again: the answer would be the same"
        with cb.Client(address) as client, pytest.raises(ClientError, match="none of the service's") as error:
            client.decide("e", id="d")
    assert error.value.status == 502


@pytest.mark.parametrize(
    "reply",
    [
        ARM,
        {"decisions": [ARM]},
        {"decisions": [ARM, ARM]},
        {"decisions": [{**ARM, "id": "d2"}, ARM]},
        {"decisions": [ARM, {**ARM, "id": "d2"}, ARM]},
        {"decisions": {"d": ARM, "d2": ARM}},
        {"decisions": ["d", "d2"]},
        [ARM, {**ARM, "id": "d2"}],
    ],
    ids=str,
)
def test_a_batch_with_other_answers_than_were_asked_for(reply):
    with listening(hostile.saying(reply)) as (address, _), cb.Client(address, fallback="old", deadline=5.0) as client:
        served = client.decide_many("e", [{}, {}], ids=["d", "d2"])
    assert [(one.id, one.fallback) for one in served] == [("d", True), ("d2", True)]


CHANCES = st.sampled_from([0, 0.0, 0.25, 1, 1.0, 1.5, -0.1, float("nan"), True, "1", None])
NAMES = st.sampled_from(["a", "", 5, None, 0.5])


TABLES = st.fixed_dictionaries(
    {"active": st.lists(NAMES, max_size=2) | NAMES},
    optional={
        "arm": NAMES,
        "propensity": CHANCES,
        "mode": NAMES,
        "policy_version": NAMES,
        "probabilities": st.none() | st.dictionaries(st.sampled_from("ab"), CHANCES, max_size=2),
        "repeated": st.booleans() | NAMES,
        "news": NAMES,
    },
)
PLAIN = {  # as a service sends it
    "id": "d",
    "arm": "a",
    "propensity": 0.5,
    "active": ["a", "b"],
    "mode": "live",
    "policy_version": "v",
    "probabilities": {"a": 0.5, "b": 0.5},
    "repeated": False,
}


@given(st.lists(st.just(PLAIN) | TABLES | TABLES.map(lambda table: {**PLAIN, **table}), min_size=1, max_size=3))
@example([PLAIN, PLAIN])
@example([PLAIN, {**PLAIN, "probabilities": {}, "active": []}])
@example([PLAIN, {**PLAIN, "probabilities": {"a": float("nan")}}])
@example([PLAIN, {**PLAIN, "propensity": 0.0}])
def test_a_quick_look_finds_what_a_thorough_one_does(tables):
    def found(read):
        try:
            return repr(read())
        except (ValueError, TypeError) as error:
            return type(error), str(error)

    tables = [{**table, "id": f"d{i}"} for i, table in enumerate(tables)]
    content = json.dumps(tables[0] if len(tables) == 1 else {"decisions": tables}).encode()
    ids = [table["id"] for table in tables]
    plain = found(lambda: [answers._checked_assignment(table) for table in tables])
    assert found(lambda: answers.assignments(ids, content)) == plain


def test_a_quick_look_is_enough_for_what_a_service_sends():
    quick = answers._plain_assignments([dict(PLAIN), {**PLAIN, "id": "d2"}])
    assert quick == [answers._checked_assignment(PLAIN), answers._checked_assignment({**PLAIN, "id": "d2"})]
    assert (hash(quick[0].active), quick[0]) == (hash(("a", "b")), pickle.loads(pickle.dumps(quick[0])))
    assert dataclasses.replace(quick[0], arm="b").arm == "b"
    with pytest.raises(dataclasses.FrozenInstanceError):
        quick[0].arm = "b"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(exclude_categories=())),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


@given(JSON)
@example("\ud800")
@example({"a": [float("nan"), -0.0, 1e-320, 5e-324, 1.7976931348623157e308, 2**70, 0.1 + 0.2]})
def test_long_answers_are_read_as_short_ones_are(value):
    content = json.dumps({"value": value, "filling": "." * answers._LONG}).encode()
    assert repr(answers._parsed(content)) == repr(json.loads(content))


@pytest.mark.parametrize("content", [b"[" * 100_000, b"{" + b" " * 100_000, b"\xff" * 100_000, b" " * 100_000])
def test_long_answers_that_are_none_are_refused_as_short_ones_are(content):
    for read in (answers._parsed, json.loads):
        with pytest.raises((ValueError, RecursionError)):
            read(content)


def test_long_answers_are_read_without_what_comes_with_the_service(monkeypatch):
    monkeypatch.setattr(answers, "_quick_reader", lambda: None)
    assert answers._parsed(b"[" + b"1," * answers._LONG + b"1]") == [1] * (answers._LONG + 1)


def test_what_a_later_release_may_send_is_taken():
    reply = {**ARM, "propensity": 1, "policy_version": None, "news": {"of": "a later release"}}
    with listening(hostile.saying(reply)) as (address, _), cb.Client(address) as client:
        assert client.decide("e", id="d") == cb.Assignment("d", "a", 1, ("a",), "live", None)


@pytest.mark.parametrize("status", [300, 301, 302, 303, 304, 307, 308])
def test_a_redirect_is_not_followed_and_not_raised_past_fallback_and_outbox(status, tmp_path):
    outbox = tmp_path / "outbox.jsonl"
    behave = hostile.saying({"error": "it is over there."}, status)
    with listening(behave) as (address, _):
        with cb.Client(address, fallback="old", outbox=outbox, deadline=5.0) as client:
            assert client.decide("e", id="d").fallback
            assert client.report("e", "of-the-service", {"m": 1.0}).queued
            assert client.flush() == 1, "it stays, and is not refused for good"
        with cb.Client(address) as client, pytest.raises(ClientError, match=rf"a redirect \({status}\)") as error:
            client.decide("e", id="d")
    assert error.value.status == status
    assert not list(tmp_path.glob("*refused*"))


@pytest.mark.parametrize(
    "wrong", [{"id": "other"}, {"recorded": "m"}, {"recorded": None}, {"late": [1]}, {"void": "no"}], ids=str
)
def test_a_receipt_that_is_none(wrong, tmp_path):
    with listening(hostile.saying({**RECEIPT, **wrong})) as (address, _):
        with cb.Client(address, outbox=tmp_path / "outbox.jsonl", deadline=5.0) as client:
            assert client.report("e", "d", {"m": 1.0}).queued
            assert client.flush() == 1
        with cb.Client(address) as client, pytest.raises(ClientError, match="none of the service's"):
            client.report("e", "d", {"m": 1.0})


@pytest.mark.parametrize("reply", [RECEIPT, {"outcomes": [RECEIPT]}, {"outcomes": None}, []], ids=str)
def test_fewer_receipts_than_outcomes(reply):
    with (
        listening(hostile.saying(reply)) as (address, _),
        cb.Client(address) as client,
        pytest.raises(ClientError, match="none of the service's"),
    ):
        client.report_many("e", {"d": {"m": 1.0}, "d2": {"m": 1.0}})


@pytest.mark.parametrize(
    "wrong",
    [
        {"id": "other"},
        {"id": ["e"]},
        {"arms": []},
        {"arms": [{"name": 5, "active": True}]},
        {"arms": 5},
        {"declaration": {"baseline": 5}},
        {"declaration": 5},
        {"declaration": None},
    ],
    ids=str,
)
def test_a_baseline_that_is_none(wrong):
    """The client asks for it after the first decision, which must not fail for that."""

    def behave(connection, stop):
        while (request := hostile.read_request(connection)) is not None:
            reply = {**SHOWN, **wrong} if request[0] == "GET" else ARM
            connection.sendall(hostile.answer(reply))

    with listening(behave) as (address, _), cb.Client(address, fallback="baseline", deadline=5.0) as client:
        assert client.decide("e", id="d").arm == "a"
        with pytest.raises(ClientError, match="none of the service's"):
            client.show("e")


def test_a_description_is_read_as_it_is():
    told = answers.description("e", json.dumps({**SHOWN, "news": 1}).encode())
    assert {name: told[name] for name in SHOWN} == SHOWN


def test_the_asynchronous_client(tmp_path):
    async def run(address):
        outbox = tmp_path / "outbox.jsonl"
        async with cb.AsyncClient(address, fallback="old", outbox=outbox, deadline=5.0) as client:
            decided = await client.decide("e", id="d")
            return decided.fallback, (await client.report("e", "of-the-service", {"m": 1.0})).queued

    for reply, status in (({**ARM, "id": "other"}, 200), ({**ARM, "arm": 5}, 200), (ARM, 302)):
        with listening(hostile.saying(reply, status)) as (address, _):
            assert asyncio.run(run(address)) == (True, True)
