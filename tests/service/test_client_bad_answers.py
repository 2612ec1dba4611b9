"""Answers with a good status that are none of the service's: for the caller they are as good as none."""

import asyncio
import json

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


@given(
    st.fixed_dictionaries(
        {"id": st.just("d"), "active": st.lists(NAMES, max_size=2) | NAMES},
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
)
@example({**ARM, "probabilities": {"a": 0.5, "b": 0.5}, "repeated": False, "propensity": 0.5, "policy_version": "v"})
def test_a_quick_look_finds_what_a_thorough_one_does(table):
    def found(read):
        try:
            return repr(read(table))
        except (ValueError, TypeError) as error:
            return type(error), str(error)

    assert found(answers._assignment) == found(answers._checked_assignment)


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
