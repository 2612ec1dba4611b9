"""Every kind of event is read back as it was written; what is not an event is refused, and named."""

import json
import math
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conebandit.experiment.declaration import MODES, STAGES, Experiment
from conebandit.service.errors import CorruptionError
from conebandit.service.log.bodies import MAX_TIME, VERDICTS
from conebandit.service.log.edges import AtEdge
from conebandit.service.log.entries import By, Entry, read, read_as, seal_decisions, seal_event
from conebandit.service.log.events import (
    KINDS,
    ArmAdded,
    ArmRetired,
    Changed,
    ClockRepaired,
    ContextCorrected,
    Created,
    Decided,
    Erased,
    Event,
    Held,
    Learned,
    Lifted,
    ModeChanged,
    Published,
    Reported,
    Retracted,
    Reviewed,
    Revised,
    Sealed,
    StageChanged,
    Stopped,
    Voided,
)
from conebandit.service.log.replay import rebuild
from conebandit.service.log.restore import restore
from conebandit.service.log.selection import Choice, Selection, Version
from conebandit.service.log.state import State
from conebandit.service.log.texts import body_text, body_texts
from conebandit.service.stores.base import open_store
from conebandit.service.stores.records import BEGINNING, canonical, seal
from conebandit.service.stores.seals import START, UNKEYED

times = st.integers(0, 2**50)
numbers = st.floats(allow_nan=False, allow_infinity=False)
dates = st.integers(0, MAX_TIME)
texts = st.text(max_size=10)
values = st.dictionaries(texts, numbers, max_size=4)
ids = st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1, max_size=10)
contexts = st.dictionaries(texts, st.none() | numbers | st.integers() | texts, max_size=4)
versions = st.builds(Version, st.from_regex(r"[A-Za-z0-9]*", fullmatch=True), texts, st.integers(0, 2**40))
selections = st.builds(
    Selection,
    st.sampled_from(MODES),
    texts,
    numbers,
    st.lists(texts, max_size=3).map(tuple),
    st.none() | st.builds(Choice, texts, numbers, st.none() | st.dictionaries(texts, st.floats(0.0, 1.0), max_size=3)),
    st.none() | versions,
)
EVENTS: dict[type[Event], st.SearchStrategy] = {
    Created: st.builds(Created, times, st.dictionaries(texts, numbers | texts), texts),
    Decided: st.builds(
        Decided,
        times,
        ids,
        contexts,
        st.lists(numbers, max_size=4).map(tuple),
        selections,
        edge=st.none() | st.builds(AtEdge, texts, st.integers(0, 2**40), dates, st.booleans()),
    ),
    Reported: st.builds(Reported, times, ids, values, st.none() | dates),
    Held: st.builds(Held, times, ids, values, st.none() | dates),
    Reviewed: st.builds(Reviewed, times, ids, values, st.sampled_from(VERDICTS), texts),
    Retracted: st.builds(Retracted, times, ids, st.lists(texts, max_size=3).map(tuple), texts),
    Voided: st.builds(Voided, times, ids, st.booleans(), texts),
    ContextCorrected: st.builds(
        ContextCorrected, times, ids, contexts, st.lists(numbers, max_size=4).map(tuple), texts
    ),
    ArmAdded: st.builds(ArmAdded, times, texts),
    ArmRetired: st.builds(ArmRetired, times, texts),
    ModeChanged: st.builds(ModeChanged, times, st.sampled_from(MODES)),
    Changed: st.builds(Changed, times, st.dictionaries(texts, numbers | texts), texts),
    StageChanged: st.builds(StageChanged, times, st.sampled_from(STAGES), texts),
    Stopped: st.builds(Stopped, times, texts, st.none() | texts, texts, numbers, st.dictionaries(texts, numbers)),
    Lifted: st.builds(Lifted, times, texts, texts, texts),
    Revised: st.builds(Revised, times, st.integers(0, 2**40)),
    Learned: st.builds(Learned, times, texts, texts, st.integers(0, 2**40), texts),
    Sealed: st.builds(Sealed, times),
    ClockRepaired: st.builds(ClockRepaired, times, st.integers(0, 2**40), texts),
    Erased: st.builds(Erased, times, texts, st.integers(0, 2**40), st.integers(0, 2**40), texts),
    Published: st.builds(Published, times, texts, texts, st.integers(0, 2**40), texts),
}
CHOICE = Choice("a", 0.5, {"a": 0.5, "b": 0.5})
SELECTION = Selection("live", "a", 0.5, ("a", "b"), CHOICE, Version("ConeTree", "0.1.0", 3))
EXAMPLES: dict[str, Event] = {
    "created": Created(5, {"id": "e"}, "0.1.0"),
    "decided": Decided(5, "d", {"age": 3}, (0.5, 1.0), SELECTION),
    "reported": Reported(5, "d", {"m": 1.0}),
    "held": Held(5, "d", {"m": -1.0}),
    "reviewed": Reviewed(5, "d", {"m": -1.0}, "release", "so it is"),
    "retracted": Retracted(5, "d", ("m",), "of another visitor"),
    "voided": Voided(5, "d", void=True, reason="a robot"),
    "context_corrected": ContextCorrected(5, "d", {"age": 4}, (0.75, 1.0), "a typing error"),
    "arm_added": ArmAdded(5, "c"),
    "arm_retired": ArmRetired(5, "c"),
    "mode_changed": ModeChanged(5, "off"),
    "changed": Changed(5, {"id": "e"}, "why"),
    "stage_changed": StageChanged(5, "paused", "why"),
    "stopped": Stopped(5, "r", "a", "stop", 21.5, {"decisions": 9, "known": 8, "mean": 0.5}),
    "lifted": Lifted(5, "r", "restart", "why"),
    "revised": Revised(5, 4),
    "learned": Learned(5, "log.csv", "ab12", 1, "eJw="),
    "sealed": Sealed(5),
    "clock_repaired": ClockRepaired(5, 3, "no battery"),
    "erased": Erased(5, "u_1", 2, 3, "asked"),
    "published": Published(5, "ConeTree", "0.1.0", 3, "ab12"),
}


def test_the_table_of_kinds_is_complete():
    assert list(KINDS) == list(EXAMPLES) == [kind.kind for kind in EVENTS]
    assert list(KINDS.values()) == list(EVENTS) == [type(event) for event in EXAMPLES.values()]


@pytest.mark.untraced
@pytest.mark.parametrize("kind", EVENTS)
def test_every_event_is_read_back_as_it_was_written(kind):
    @given(EVENTS[kind])
    def check(event):
        record = seal_event(BEGINNING, event)
        assert record.kind == kind.kind
        assert read(record) == Entry(record.head, event)
        assert read_as(kind, record) == event
        assert canonical(read(record).event.to_body()) == record.text

    check()


@given(EVENTS[Decided], st.none() | st.builds(By, st.none() | texts, st.none() | texts))
def test_decisions_are_written_as_all_events_are(event, by):
    caused = {} if by is None else by.to_body()
    assert body_text(event, caused) == canonical({**event.to_body(), **caused})
    assert read(seal_event(BEGINNING, event, by)).by == (by if caused else None)


ODD_NUMBERS = [0.0, -0.0, 1e-4, 9.9e-5, -1e-5, 5e-324, 1e15, 9999999999999998.0, 1e16, -1e22, 0.1 + 0.2, 1.0, 1 / 3]
ODD_VALUES = [*ODD_NUMBERS, 1, 2**70, True, None, "", 'a"%s\\', "\x00\x1f\x7f\n", "é😀\u2028", "\ud800"]


@given(
    st.lists(
        st.tuples(EVENTS[Decided], st.sampled_from([None, By(None, None), By("k", "é"), By(None, "a")])), max_size=6
    )
)
def test_decisions_that_are_sealed_together_are_sealed_as_one_by_one(given):
    records, before = [], BEGINNING
    for event, by in given:
        records.append(seal_event(before, event, by))
        before = records[-1].head
        assert records[-1].text == canonical({**event.to_body(), **({} if by is None else by.to_body())})
    events, who = [event for event, _ in given], [by for _, by in given]
    assert seal_decisions(BEGINNING, events, who, UNKEYED, "e") == records


@pytest.mark.parametrize("at_once", [1, 50])
@pytest.mark.parametrize("library", [True, False])
def test_odd_values_are_written_as_ever(at_once, library, monkeypatch):
    if not library:  # as where nobody serves
        monkeypatch.setattr("conebandit.service.log.texts._quick_json", lambda: None)
    plain = EXAMPLES["decided"]
    assert plain.selection.choice.probabilities
    made = [
        *(replace(plain, context={"z": value, "a": 1.5}) for value in ODD_VALUES),
        *(replace(plain, x=(0.5, number)) for number in ODD_NUMBERS),
        *(
            replace(plain, selection=plain.selection._replace(choice=Choice("a", number, {"b": number, "a": 0.5})))
            for number in ODD_NUMBERS
        ),
        *(replace(plain, id=chr(33 + i)) for i in range(94)),
    ]
    for first in range(0, len(made), at_once):
        some = made[first : first + at_once]
        assert body_texts(some, [{}] * len(some)) == [canonical(decided.to_body()) for decided in some]
    for number in (math.nan, math.inf):
        with pytest.raises(ValueError, match="not JSON compliant"):
            body_texts([*made[:at_once], replace(plain, context={"a": number})], [{}] * (at_once + 1))


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_no_decision_is_written_with_a_number_that_is_none(number):
    decided, choice = EXAMPLES["decided"], CHOICE._replace(probabilities={"a": number})
    for wrong in (
        replace(decided, x=(0.5, number)),
        replace(decided, context={"age": number}),
        replace(decided, selection=SELECTION._replace(propensity=number)),
        replace(decided, selection=SELECTION._replace(choice=CHOICE._replace(propensity=number))),
        replace(decided, selection=SELECTION._replace(choice=choice)),
    ):
        with pytest.raises(ValueError, match="Out of range float values are not JSON compliant"):
            seal_event(BEGINNING, wrong)


def test_bodies_on_disk_have_the_keys_that_they_always_had():
    """Texts like these must be read for ever, and written in the same way."""
    texts = {
        "created": '{"at":5,"declaration":{"id":"e"},"library":"0.1.0"}',
        "decided": '{"active":["a","b"],"arm":"a","at":5,"choice":{"arm":"a","probabilities":{"a":0.5,"b":0.5},'
        '"propensity":0.5},"context":{"age":3},"id":"d","mode":"live","propensity":0.5,'
        '"version":{"library":"0.1.0","policy":"ConeTree","position":3},"x":[0.5,1.0]}',
        "reported": '{"at":5,"id":"d","values":{"m":1.0}}',
        "held": '{"at":5,"id":"d","values":{"m":-1.0}}',
        "reviewed": '{"at":5,"id":"d","reason":"so it is","values":{"m":-1.0},"verdict":"release"}',
        "retracted": '{"at":5,"id":"d","metrics":["m"],"reason":"of another visitor"}',
        "voided": '{"at":5,"id":"d","reason":"a robot","void":true}',
        "context_corrected": '{"at":5,"context":{"age":4},"id":"d","reason":"a typing error","x":[0.75,1.0]}',
        "arm_added": '{"arm":"c","at":5}',
        "arm_retired": '{"arm":"c","at":5}',
        "mode_changed": '{"at":5,"mode":"off"}',
        "revised": '{"at":5,"upto":4}',
        "learned": '{"at":5,"data":"eJw=","file":"log.csv","rows":1,"sha256":"ab12"}',
        "sealed": '{"at":5}',
        "clock_repaired": '{"after":3,"at":5,"reason":"no battery"}',
        "erased": '{"at":5,"decisions":2,"first":3,"reason":"asked","unit":"u_1"}',
        "published": '{"at":5,"check":"ab12","library":"0.1.0","policy":"ConeTree","position":3}',
        "changed": '{"at":5,"declaration":{"id":"e"},"reason":"why"}',
        "stage_changed": '{"at":5,"reason":"why","stage":"paused"}',
        "stopped": '{"at":5,"evidence":21.5,"rule":"r","seen":{"decisions":9,"known":8,"mean":0.5},"then":"stop",'
        '"watched":"a"}',
        "lifted": '{"at":5,"reason":"why","rule":"r","then":"restart"}',
    }
    assert {kind: canonical(event.to_body()) for kind, event in EXAMPLES.items()} == texts
    observed = Reported(5, "d", {"m": 1.0}, observed_at=4)
    assert canonical(observed.to_body()) == '{"at":5,"id":"d","observed_at":4,"values":{"m":1.0}}'
    named = Reported(5, "d", {"m": 1.0}, report="r1")
    assert canonical(named.to_body()) == '{"at":5,"id":"d","report":"r1","values":{"m":1.0}}'
    assert Reported.from_body(named.to_body()) == named


def test_decisions_that_were_written_before_are_read():
    """Their version is text, and they keep no probabilities."""
    text = (
        '{"active":["a","b"],"arm":"a","at":5,"choice":{"arm":"a","propensity":0.5},"context":{"age":3},'
        '"id":"d","mode":"live","propensity":0.5,"version":"ConeTree-0.1.0-3","x":[0.5,1.0]}'
    )
    record = seal(START, 1, "decided", "d", json.loads(text))
    assert record.text == text
    before = SELECTION._replace(choice=Choice("a", 0.5, None))
    assert read(record).event == Decided(5, "d", {"age": 3}, (0.5, 1.0), before)
    assert before.probabilities is None


def test_probabilities_are_those_of_what_is_served():
    assert SELECTION.probabilities == {"a": 0.5, "b": 0.5}
    assert SELECTION._replace(mode="shadow", arm="b", propensity=1.0).probabilities == {"b": 1.0}
    off = Selection("off", "b", 1.0, ("b",), choice=None, version=None)
    assert off.probabilities == {"b": 1.0}


@pytest.mark.parametrize("chance", ["NaN", "Infinity", "-Infinity", "-0.5"])
def test_numbers_that_are_no_probabilities_are_refused(chance):
    """Tables and replies hold them as JSON, which has no word for some of these."""
    text = canonical(EXAMPLES["decided"].to_body()).replace('"b":0.5', f'"b":{chance}')
    assert chance in text
    record = seal(START, 1, "decided", "d", {})._replace(text=text)
    with pytest.raises(CorruptionError, match=r"event 1 .*'probabilities' must be a table of finite numbers"):
        read(record)


def refusal(kind, body, decision):
    with pytest.raises(CorruptionError) as refused:
        read(seal(START, 1, kind, decision, body))
    return str(refused.value)


@pytest.mark.parametrize("kind", EXAMPLES)
def test_a_body_without_one_of_its_entries_is_refused(kind):
    event = EXAMPLES[kind]
    for name in event.to_body():
        body = event.to_body()
        del body[name]
        assert refusal(kind, body, event.decision) == f"event 1 ({kind}): '{name}' is missing."


@pytest.mark.parametrize("kind", EXAMPLES)
def test_a_body_with_an_entry_of_a_wrong_type_is_refused(kind):
    event = EXAMPLES[kind]
    for name, value in event.to_body().items():
        for wrong in (True, [[]], {"a": []}, 3 if isinstance(value, str) else "3"):
            body = {**event.to_body(), name: wrong}
            if (name in ("context", "declaration") and isinstance(wrong, dict)) or (name == "void" and wrong is True):
                continue  # these tables may hold anything
            assert f"event 1 ({kind}): '" in refusal(kind, body, event.decision)
    for body in ([], "text", None):
        assert refusal(kind, body, event.decision) == f"event 1 ({kind}): its body is not a table."


@pytest.mark.parametrize(
    ("kind", "entry", "words"),
    [
        ("mode_changed", {"mode": "on"}, "'mode' must be one of live, shadow, off; got 'on'"),
        ("decided", {"mode": None}, "'mode' must be one of"),
        ("decided", {"version": "ConeTree"}, "'version' must be POLICY-LIBRARY-POSITION; got 'ConeTree'"),
        ("decided", {"version": "ConeTree-0.1.0-x"}, "'version' must be"),
        ("decided", {"version": 3}, "'version' must be a table; got 3"),
        ("decided", {"version": {"policy": "ConeTree", "library": "1"}}, "'position' is missing"),
        ("decided", {"choice": {"arm": "a", "propensity": 1, "probabilities": [1]}}, "'probabilities' must be a table"),
        ("decided", {"choice": {"arm": "a"}}, "'propensity' is missing"),
        ("decided", {"x": [0.5, None]}, "'x' must be a list of numbers"),
        ("reported", {"values": {"m": "1"}}, "'values' must be a table of numbers; got {'m': '1'}"),
        ("reported", {"observed_at": "1970"}, "'observed_at' must be whole milliseconds since 1970; got '1970'"),
        (
            "held",
            {"observed_at": MAX_TIME + 1},
            "'observed_at' must be milliseconds since 1970, at most 253402300799999",
        ),
        ("reviewed", {"verdict": "keep"}, "'verdict' must be one of release, reject; got 'keep'"),
        ("voided", {"void": 1}, "'void' must be true or false; got 1"),
        ("revised", {"upto": -1}, "'upto' must be a position"),
        ("revised", {"upto": 10**30}, "'upto' must be a position"),
        ("stage_changed", {"stage": "resting"}, "'stage' must be one of draft, running, paused, ended; got 'resting'"),
        ("reported", {"id": "another"}, "it is filed under decision 'd', and not under 'another'"),
    ],
)
def test_what_is_wrong_with_a_body_is_said(kind, entry, words):
    event = EXAMPLES[kind]
    assert words in refusal(kind, {**event.to_body(), **entry}, event.decision)


def test_what_was_added_to_a_body_by_a_later_release_is_no_reason_to_refuse_it():
    for kind, event in EXAMPLES.items():
        record = seal(START, 1, kind, event.decision, {**event.to_body(), "probabilities": [0.5, 0.5]})
        assert read(record).event == event


@pytest.mark.parametrize("library", ["0.1.0", "1.0-rc-2", ""])
def test_a_version_is_data(library):
    text = f"ConeTree-{library}-17"
    assert Version.parse(text) == Version("ConeTree", library, 17)
    assert str(Version.parse(text)) == text


@pytest.mark.parametrize("text", ["Cone-Tree-0.1.0-17", "a--b--0"])
def test_a_policy_whose_name_has_dashes_keeps_its_version_as_text(text):
    assert str(Version.parse(text)) == text


@pytest.mark.parametrize(
    "text", ["", "17", "ConeTree-17", "ConeTree-0.1.0-", "ConeTree-0.1.0-017", "a-b-\u0663", f"a-b-{'9' * 5000}"]
)
def test_what_is_no_version_is_refused(text):
    with pytest.raises(CorruptionError, match="version"):
        Version.parse(text)


# ---- folding --------------------------------------------------------------------------------------------------------


@pytest.fixture
def state(declaration):
    return State(Experiment.from_dict(declaration), tuple(declaration["arms"]))


def following(state, event):
    return Entry(seal_event(state.head, event).head, event)


def test_a_report_without_its_history_is_not_skipped(state, store):
    with store.read() as session:
        state.fold(following(state, Created(5, state.experiment.declaration, "0")), session)
        with pytest.raises(CorruptionError, match=r"event 2 \(reported\): there is no decision 'd' before it"):
            state.fold(following(state, Reported(5, "d", {"revenue": 1.0})), session)


def test_an_event_that_the_fold_does_not_know_is_refused(state, store):
    class Unknown:
        at, kind = 5, "unknown"

    with store.read() as session:
        state.fold(following(state, Created(5, state.experiment.declaration, "0")), session)
        with pytest.raises(CorruptionError, match="event 2: it is not known what"):
            state.fold(Entry(state.head._replace(seq=2), Unknown()), session)


def sealed(*events):
    """A log of events (kind, decision, body), each with the seal that it needs."""
    log, before = [], START
    for seq, (kind, decision, body) in enumerate(events, start=1):
        log.append(seal(before, seq, kind, decision, body))
        before = log[-1].check
    assert all(b.seq == a.seq + 1 for a, b in pairwise(log))
    return log


IMPOSSIBLE = {
    "an unknown kind": ([("paused", None, {"at": 1})], r"event 2 \(paused\): no such kind of event is known"),
    "an unknown kind about a decision": ([("seen", "d", {"at": 1})], r"event 2 \(seen\): no such kind"),
    "a report on nothing": (
        [("reported", "d", {"at": 1, "id": "d", "values": {"revenue": 1.0}})],
        r"event 2 \(reported\) is about a decision that was not made",
    ),
    "a report on no decision": (
        [("reported", None, {"at": 1, "id": "d", "values": {"revenue": 1.0}})],
        "filed under decision None",
    ),
    "a stop by no rule": (
        [("stopped", None, {**EXAMPLES["stopped"].to_body(), "at": 1})],
        r"event 2 \(stopped\): there is no rule 'r'",
    ),
    "a metric that is not there": (
        [
            ("decided", "d", json.loads(canonical({**EXAMPLES["decided"].to_body(), "at": 1, "arm": "old"}))),
            ("reported", "d", {"at": 1, "id": "d", "values": {"speed": 1.0}}),
        ],
        "event 3 cannot be folded: KeyError",
    ),
}


@pytest.mark.parametrize(("events", "message"), IMPOSSIBLE.values(), ids=IMPOSSIBLE)
def test_a_log_that_means_nothing_is_refused_wherever_it_comes_from(tmp_path, declaration, events, message):
    log = sealed(("created", None, {"at": 1, "declaration": declaration, "library": "0"}), *events)
    store = open_store(str(tmp_path / "log.db"))
    with pytest.raises(CorruptionError, match=message):
        restore(store, iter(log))
    with store.write() as session:
        assert session.experiments() == []
        session.create("checkout")
        session.append("checkout", log)
        with pytest.raises(CorruptionError, match=message):
            rebuild(session, "checkout", session.head("checkout"))
    store.close()
