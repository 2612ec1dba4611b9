"""States that are published and decisions that edges send: what gets into the log, and what verify finds."""

import contextlib
import io
import json
import math
import random
from collections import OrderedDict
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import pytest

from conebandit.service.engine import edge_desk, remade_states
from conebandit.service.engine import edges as engine
from conebandit.service.engine.batches import TAKEN, Batch
from conebandit.service.engine.edge_desk import EdgeDesk
from conebandit.service.engine.published_states import MAX_KEPT, PublishedStates
from conebandit.service.errors import ConflictError, CorruptionError, NotYetError
from conebandit.service.export import export
from conebandit.service.log import verify_edges
from conebandit.service.log.edges import AtEdge
from conebandit.service.log.entries import By, read
from conebandit.service.log.events import Decided, Published
from conebandit.service.log.published import OtherReleaseError, PublishedState
from conebandit.service.log.replay import fold_page, rebuild
from conebandit.service.log.restore import restore
from conebandit.service.log.selection import Choice, Selection
from conebandit.service.log.verify import verify
from conebandit.service.stores.base import open_store
from conebandit.service.stores.records import Head, from_lines
from tests.service.driver import HOUR, PHONE, Driver

NOW = 1_000_000


@dataclass
class SentChoice:
    arm: str
    propensity: float
    probabilities: dict[str, float] | None


@dataclass
class Sent:
    """A decision as an edge sends it."""

    id: str
    mode: Any
    arm: str
    propensity: float
    active: list[str]
    choice: SentChoice | None
    context: dict[str, Any] = field(default_factory=lambda: dict(PHONE))
    unit: str | None = None
    alias: str | None = None
    at: int = NOW
    stale: bool = False


def decided(published, id_, context=PHONE, **options):
    """What an honest edge sends."""
    x = published.state.experiment.coordinates(context)
    [made] = published.decide([x], [options.get("alias", id_)])
    choice = None if made.choice is None else SentChoice(*made.choice)
    return Sent(id_, made.mode, made.arm, made.propensity, list(made.active), choice, dict(context), **options)


class Edges:
    """A service with an experiment, and edges that send decisions to it."""

    def __init__(self, store, declaration):
        self.run = Driver(store)
        self.run.create(declaration)
        self.store = store

    def send(self, published, *sent, edge="web-1", states=None):
        desk = EdgeDesk(self.store, self.run.ledger.published if states is None else states)
        batch = desk.check("checkout", (published.seq, published.check), edge, sent)
        return self.run.take(batch, None)

    def events(self):
        with self.store.read() as session:
            return [read(record).event for record in session.events("checkout", limit=10**6)]

    def verified(self, **options):
        with self.store.read() as session:
            return verify(session, "checkout", **options)


@pytest.fixture
def edges(store, declaration):
    return Edges(store, declaration)


def forge(published, id_):
    """A decision with a propensity that its state does not give."""
    made = decided(published, id_)
    made.choice.probabilities = {"old": 0.25, "new": 0.75}
    made.arm = made.choice.arm = "new"
    made.propensity = made.choice.propensity = 0.75
    return made


@pytest.mark.untraced
@pytest.mark.parametrize("policy", ["LinearParetoUCB", "ConeKernel"])
@pytest.mark.parametrize("snapshots", [False, True])
def test_no_decision_can_be_forged_from_a_state_that_is_not_in_memory(
    store, declaration, policy, snapshots, monkeypatch
):
    """Whatever has come since: outcomes, corrections, arms; with snapshots, which may know of corrections, too."""
    monkeypatch.setattr(engine, "MIN_APART", 0)
    edges = Edges(store, declaration | {"policy": {"name": policy, "explore": 0.2}})
    run, rng, states = edges.run, random.Random(3), []
    for step in range(24):
        run.now += 60_000
        states.append(run.publish())
        run.ask(f"s{step}", PHONE | {"age": rng.uniform(18, 98)})
        run.tell(f"s{step}", revenue=rng.random(), latency=rng.uniform(0, 5))
        if step % 7 == 5:
            run.tell(f"s{step - 3}", revenue=rng.random())  # a correction
        if step == 12:
            run.add_arm("fresh")
        if snapshots and step % 5 == 2:
            run.write_snapshot()
    desk = EdgeDesk(store, PublishedStates())  # another process, or this one after a start
    for order in (states, rng.sample(states, len(states))):
        for published in order:
            batch = desk.check(
                "checkout",
                (published.seq, published.check),
                "web-1",
                [forge(published, f"f{published.seq}"), decided(published, f"d{published.seq}")],
            )
            assert [told.id for told in batch.refused] == [f"f{published.seq}"]
            assert [one.edge.unchecked for one in batch.decisions.values()] == [False]
            run.take(batch, None)
    report = edges.verified(every=True)
    assert (report.agrees, report.whole, report.unchecked) == (True, True, 0)
    assert len([event for event in edges.events() if isinstance(event, Decided) and event.edge]) == len(states)


class Clock:
    """One that goes on when somebody sleeps."""

    now = 0.0

    def monotonic(self):
        return self.now

    def sleep(self, seconds):
        self.now += seconds


def test_a_state_that_takes_long_to_make_is_made_in_several_requests(edges, monkeypatch):
    run = edges.run
    for step in range(250):
        run.ask(f"s{step}")
    published = run.publish()
    run.ask("later")
    desk = EdgeDesk(edges.store, PublishedStates())
    sent = "checkout", (published.seq, published.check), "web-1", [forge(published, "d")]
    monkeypatch.setattr(remade_states, "time", clock := Clock())
    monkeypatch.setattr(
        remade_states, "fold_page", lambda *args, **options: clock.sleep(9.0) or fold_page(*args, **options)
    )
    for reached in (100, 200):
        with pytest.raises(NotYetError, match="is being made again, to check decisions with; try again"):
            desk.check(*sent)
        assert [fold.state.head.seq for fold in desk._remade._folds.values()] == [reached]
    assert [told.id for told in desk.check(*sent).refused] == ["d"], "the third one goes on from there"
    with desk._remade._making, pytest.raises(NotYetError):
        desk._remade.make("checkout", Head(1, ""), Published(0, "p", published.version.library, 1, "other"))


def test_a_snapshot_that_leads_nowhere_is_left_out(edges, monkeypatch):
    for step in range(5):
        edges.run.ask(f"s{step}")
    edges.run.write_snapshot()
    edges.run.tell("s0", revenue=1.0)
    published, begun = edges.run.publish(), []

    def fold(session, state, head, **options):
        begun.append(state.head.seq)
        if state.last_snapshot:
            raise CorruptionError("it is of another view")
        return fold_page(session, state, head, **options)

    monkeypatch.setattr(remade_states, "fold_page", fold)
    told = edges.send(published, forge(published, "f"), decided(published, "d"), states=PublishedStates())
    assert ([one["id"] for one in told["refused"]], told["taken"], told["unchecked"]) == (["f"], 1, 0)
    assert begun == [6, 0]


def test_what_nobody_can_make_again_is_marked_in_the_log_and_counted(store, declaration, caplog):
    edges = Edges(store, declaration | {"unit": {}})
    run = edges.run
    run.decide([{"id": "a", "unit": "ann", "context": PHONE}])
    run.tell("a", revenue=1.0)
    published = run.publish()
    run.erase("ann", "asked")
    sent = forge(published, "d")
    sent.unit, sent.alias = "bob", "d_00000000000000aa"
    answer = edges.send(published, sent, states=PublishedStates())
    assert (answer["taken"], answer["unchecked"]) == (1, 1)
    assert "1 decisions of edge web-1 cannot be checked" in caplog.text
    assert edges.send(published, sent, states=PublishedStates())["repeated"] == 1
    made = [event.edge for event in edges.events() if isinstance(event, Decided) and event.edge]
    assert [edge.unchecked for edge in made] == [True]
    report = edges.verified()
    assert (report.unchecked, report.agrees) == (1, True)
    # In memory it is, so this process need not trust anybody.
    assert len(edges.send(published, Sent(**{**vars(sent), "id": "e", "alias": "d_00000000000000ab"}))["refused"]) == 1


def test_states_of_other_releases_are_trusted_and_that_is_said(edges, monkeypatch):
    published = edges.run.publish()
    monkeypatch.setattr(remade_states, "__version__", "9.9.9")
    assert edges.send(published, decided(published, "d"), states=PublishedStates())["unchecked"] == 1
    assert edges.verified().unchecked == 1


class Watched(OrderedDict):
    """Nobody may look at it, or change it, without the lock: an iterator would fail if another thread changes it."""

    def __init__(self, lock):
        super().__init__()
        self._lock = lock

    def get(self, *args):
        assert self._lock.locked()
        return super().get(*args)

    def __setitem__(self, *args):
        assert self._lock.locked()
        super().__setitem__(*args)

    def popitem(self, last=True):
        assert self._lock.locked()
        return super().popitem(last)


def test_threads_may_share_a_desk_that_knows_many_states(edges, monkeypatch):
    monkeypatch.setattr(edge_desk, "MAX_KNOWN", 2)
    monkeypatch.setattr(engine, "MIN_APART", 0)
    run, states = edges.run, []
    for step in range(6):
        states.append(run.publish())
        run.ask(f"s{step}")
        run.tell(f"s{step}", revenue=step / 3)
    desk = EdgeDesk(edges.store, run.ledger.published)
    desk._known = Watched(desk._knowing)
    with ThreadPoolExecutor(4) as threads:
        asked = [threads.submit(desk.find, "checkout", (p.seq, p.check), "web") for _ in range(3) for p in states]
        assert all(one.result() is not None for one in asked)
    assert len(desk._known) == 2


def test_a_state_is_published_once_until_there_is_something_new(edges, monkeypatch):
    run, seqs = edges.run, []

    def publish():
        seqs.append(run.publish().seq)

    publish()
    publish()
    run.ask("d1")
    publish()  # a decision is nothing new
    run.tell("d1", revenue=1.0)
    publish()  # it is too soon for what was learned
    run.set_mode("shadow")
    publish()  # but not for this
    run.now += engine.MIN_APART
    publish()
    run.tell("d1", latency=1.0)
    run.now += engine.MIN_APART
    publish()
    assert seqs == [2, 2, 2, 2, 6, 6, 8]
    assert [event.kind for event in edges.events()].count("published") == 3
    other = Driver(edges.store)  # another process, which has seen nothing
    other.now = run.now
    published = other.publish()
    assert (published.seq, published.check) == (8, run.publish().check)
    run.ask("d2")
    run.now += 2 * HOUR  # its window closes by the next state
    state = run.publish()
    assert state.seq == 10
    assert state.state.version == 10
    assert edges.verified().agrees
    with edges.store.read() as session:
        head = session.existing_head("checkout")
        assert rebuild(session, "checkout", head, snapshots=False).digest() == run.state.digest()
    run.write_snapshot()
    again = Driver(edges.store)
    again.now = run.now
    assert again.publish().seq == 10
    assert again.state.digest() == run.state.digest()


def test_a_published_state_travels_whole_or_not_at_all(edges):
    published = edges.run.publish()
    there = PublishedState.read(published.content)
    assert (there.seq, there.at, there.check) == (published.seq, published.at, published.check)
    xs, keys = [[0.1 * i, 1.0, 0.0] for i in range(10)], [f"k{i}" for i in range(10)]
    assert there.decide(xs, keys) == published.decide(xs, keys)
    assert there.decide(xs, keys) == [there.decide([x], [key])[0] for x, key in zip(xs, keys, strict=True)]
    for content in (b"", b"{}\n", published.content[:-100], published.content.replace(b'"live"', b'"off"', 1)):
        with pytest.raises(CorruptionError):
            PublishedState.read(content)
    with pytest.raises(OtherReleaseError, match=r"release 9\.9"):
        PublishedState.read(published.content.replace(published.version.library.encode(), b"9.9.0", 1))


def test_decisions_are_taken_once_and_those_that_differ_are_refused(edges):
    published = edges.run.publish()
    sent = [decided(published, f"d{i}", {"age": 20 + i, "device": "desk"}) for i in range(5)]
    none = {"taken": 0, "repeated": 0, "refused": [], "unchecked": 0, "returned": []}
    assert edges.send(published, *sent) == none | {"taken": 5}
    assert edges.send(published, *sent, decided(published, "new")) == none | {"taken": 1, "repeated": 5}
    other = [reason["id"] for reason in edges.send(published, sent[0], edge="web-2")["refused"]]
    assert other == ["d0"]
    edges.run.ask("asked")
    forged = decided(published, "forged")
    forged.choice.probabilities = {"old": 0.5, "new": 0.5}
    forged.arm = forged.choice.arm = "new"
    forged.propensity = forged.choice.propensity = 0.5
    refused = edges.send(published, decided(published, "asked"), forged)["refused"]
    assert refused[0]["id"] == "forged"
    assert "from state 2, " in refused[0]["reason"]
    assert refused[1] == {"id": "asked", "reason": TAKEN}
    report = edges.verified()
    assert (report.agrees, report.decisions, report.recomputed) == (True, 7, 7)
    # A process that has not seen the state makes it again.
    [told] = edges.send(published, forged, states=PublishedStates())["refused"]
    assert "from state 2, " in told["reason"]
    with edges.run.transaction() as transaction:  # somebody else than the service; verify finds it
        edge = AtEdge("web-1", published.seq, NOW)
        chosen = Choice(forged.arm, 0.5, forged.choice.probabilities)
        selection = Selection("live", "new", 0.5, tuple(forged.active), chosen, published.version)
        x = tuple(published.state.experiment.coordinates(PHONE))
        transaction.append(transaction.state("checkout"), Decided(NOW, "forged", PHONE, x, selection, edge=edge))
    report = edges.verified()
    assert not report.agrees
    assert "from the published state" in report.problems[0]


def test_what_has_not_the_form_of_a_decision_is_refused(edges):
    published, nothing = edges.run.publish(), PublishedStates()
    with pytest.raises(ConflictError, match="published no such state at event 1"):
        edges.send(PublishedState(1, 0, published.state, published.check), decided(published, "d"))
    with pytest.raises(ConflictError, match="published no such state"):
        edges.send(PublishedState(2, 0, published.state, "ab"), decided(published, "d"))
    with pytest.raises(ConflictError, match="published no such state"):
        edges.send(PublishedState(99, 0, published.state, "ab"), decided(published, "d"))
    with pytest.raises(ValueError, match="edge must be"):
        edges.send(published, decided(published, "d"), edge="a b")
    good = decided(published, "d")
    for changes in [
        {"mode": "off"},
        {"mode": "shadow"},
        {"arm": "bold" if good.arm != "bold" else "old"},
        {"propensity": 0.9},
        {"propensity": float("nan")},
        {"choice": None},
        {"choice": SentChoice(good.arm, good.propensity, {good.arm: good.propensity})},
        {"choice": SentChoice(good.arm, 2.0, {good.arm: 2.0, "x": -1.0}), "propensity": 2.0},
        {"choice": SentChoice("zzz", 1.0, {"zzz": 1.0}), "arm": "zzz", "propensity": 1.0, "active": ["zzz"]},
        {"choice": SentChoice(good.arm, 1.0, {good.arm: 1.0, "zzz": 0.0}), "propensity": 1.0},
        {"active": [*good.active, "\ud800"]},
        {"choice": SentChoice(good.arm, math.nan, None), "mode": "shadow", "arm": "old", "propensity": 1.0},
        {"choice": SentChoice(good.arm, math.inf, None), "mode": "shadow", "arm": "old", "propensity": 1.0},
        {"choice": SentChoice(good.arm, 0.5, {good.arm: 0.5, "old": math.inf, "new": -math.inf}), "propensity": 0.5},
        {"choice": SentChoice(good.arm, 0.5, {good.arm: 0.5, "old": 1e308, "new": 1e308}), "propensity": 0.5},
        {"context": {"age": 30}},
        {"id": "a b"},
        {"unit": "ann"},
    ]:
        for states in (nothing, None):
            answer = edges.send(published, Sent(**{**vars(good), **changes}), states=states)
            assert len(answer["refused"]) == 1, changes
            assert answer["taken"] == 0
    assert [event.kind for event in edges.events()] == ["created", "published"]


def test_arms_that_came_later_are_known_to_later_states_alone(edges):
    before, nothing = edges.run.publish(), PublishedStates()
    edges.run.add_arm("late")
    after = edges.run.publish()
    forged = {"arm": "late", "propensity": 1.0, "active": ["late"], "choice": SentChoice("late", 1.0, None)}
    for published, why in ((before, "there was no arm 'late'"), (after, "from state 5, ")):
        sent = Sent(**{**vars(decided(published, "d")), **forged})
        [told] = edges.send(published, sent, states=nothing)["refused"]
        assert why in told["reason"]


def test_a_batch_with_two_of_an_id_keeps_the_first(edges):
    published = edges.run.publish()
    one, two = decided(published, "d"), decided(published, "d", PHONE | {"age": 50})
    answer = edges.send(published, one, one, two)
    assert answer["taken"] == 1
    assert [each["id"] for each in answer["refused"]] == ["d"]


def test_times_of_edges_are_kept_within_what_can_be(edges):
    published = edges.run.publish()
    edges.run.now += 1000
    given = {"early": 0, "right": NOW + 500, "late": NOW + HOUR}
    edges.send(published, *(decided(published, id_, at=at) for id_, at in given.items()))
    made = {event.id: event for event in edges.events() if isinstance(event, Decided)}
    assert {id_: event.edge.at for id_, event in made.items()} == {
        "early": NOW,
        "right": NOW + 500,
        "late": NOW + 1000,
    }
    assert {event.at for event in made.values()} == {NOW + 1000}
    again = edges.send(published, *(decided(published, id_, at=at) for id_, at in given.items()))
    assert again["repeated"] == 3
    observed = "1970-01-01T00:16:40.600+00:00"  # after it was made, and before it was uploaded
    assert edges.run.report([{"id": "right", "values": {"revenue": 1.0}, "observed_at": observed}])[0]["recorded"]


def test_what_was_served_is_taken_in_every_stage(edges):
    published = edges.run.publish()
    edges.run.set_stage("paused", "a look")
    with pytest.raises(ConflictError, match="is paused"):
        edges.run.publish()
    edges.send(published, decided(published, "paused"))
    edges.run.set_stage("ended", "enough")
    edges.send(published, decided(published, "ended"))
    report = edges.verified()
    assert (report.agrees, report.recomputed) == (True, 2)


def test_an_arm_that_a_rule_has_suspended_is_not_served_at_edges(store, declaration):
    metrics = [{**metric, "range": [0, 10]} for metric in declaration["metrics"]]
    rule = {"name": "slow", "metric": "latency", "above": 1.0, "error": 0.05, "then": "suspend"}
    edges = Edges(store, declaration | {"metrics": metrics, "rules": [rule]})
    run, rng = edges.run, random.Random(0)
    before = run.publish()
    step = 0
    while not run.state.rules.stopped:
        step += 1
        made = run.ask(f"s{step}", {"age": rng.uniform(18, 98), "device": "phone"})
        run.tell(f"s{step}", latency=10.0 if made["arm"] == "bold" else 0.0, revenue=1.0)
    run.now += engine.MIN_APART
    after = run.publish()
    ids = [f"d{i}" for i in range(100)]
    assert "bold" in {decided(before, id_).arm for id_ in ids}
    sent = [decided(after, id_) for id_ in ids]
    assert "bold" not in {one.arm for one in sent}
    assert all("bold" not in one.choice.probabilities for one in sent)
    assert edges.send(after, *sent)["taken"] == 100
    assert edges.send(before, decided(before, "stale"))["taken"] == 1, "it was served before anybody knew"
    assert edges.verified().agrees


def test_units_are_named_and_erased_as_those_of_the_service(store, declaration):
    edges = Edges(store, declaration | {"unit": {}})
    run = edges.run
    published = run.publish()
    sent = [
        decided(published, f"d{i}", unit="ann" if i % 2 else "bob", alias=f"d_{i:016x}", at=NOW + i) for i in range(6)
    ]
    assert edges.send(published, *sent)["taken"] == 6
    assert edges.send(published, *sent)["repeated"] == 6
    clash = decided(published, "other", unit="eve", alias=sent[0].alias)
    assert edges.send(published, clash)["refused"] == [{"id": "other", "reason": "the log calls another decision so"}]
    assert len(edges.send(published, decided(published, "x", unit="eve", alias="d_1"))["refused"]) == 1
    run.decide([{"id": "here", "unit": "ann", "context": PHONE}])
    run.tell("d1", revenue=1.0)
    visits = [event.visit.number for event in edges.events() if isinstance(event, Decided) and event.id != "here"]
    assert visits == [1, 1, 2, 2, 3, 3, 4]
    assert edges.verified().agrees
    run.erase("ann", "asked")
    run.now += engine.MIN_APART
    later = run.publish()
    assert edges.send(later, decided(later, "later", unit="eve", alias="d_00000000000000ff"))["taken"] == 1
    report = edges.verified()
    assert report.agrees
    assert report.whole
    assert (report.erased, report.recomputed) == (4, 4)
    with store.read() as session:
        text = "".join(f"{record.text} {record.personal}" for record in session.events("checkout"))
    assert "bob" in text
    assert "ann" not in text


@pytest.mark.parametrize("reported", [False, True])
def test_what_was_erased_is_not_brought_back_by_an_edge_that_sends_it_again(store, declaration, reported):
    edges = Edges(store, declaration | {"unit": {}})
    run = edges.run
    published = run.publish()
    sent = [decided(published, f"d{i}", unit=unit, alias=f"d_{i:016x}") for i, unit in enumerate(["ann", "bob"])]
    assert edges.send(published, *sent)["taken"] == 2
    if reported:
        run.tell("d0", revenue=1.0)
    run.erase("ann", "asked")
    before = len(edges.events())
    answer = edges.send(published, *sent)
    assert (answer["taken"], answer["repeated"], answer["refused"]) == (0, 2, [])
    assert len(edges.events()) == before
    clash = decided(published, "other", unit="bob", alias=sent[1].alias)
    assert len(edges.send(published, clash)["refused"]) == 1
    assert edges.verified().agrees
    with store.read() as session:
        assert "ann" not in "".join(f"{record.text} {record.personal}" for record in session.events("checkout"))


@pytest.mark.untraced
@pytest.mark.parametrize("policy", ["LinearParetoUCB", "ConeTree", "ConeKernel"])
def test_decisions_from_states_that_were_revised_are_made_again_as_they_were(store, declaration, policy, monkeypatch):
    monkeypatch.setattr(engine, "MIN_APART", 0)
    edges = Edges(store, declaration | {"policy": {"name": policy, "explore": 0.2}})
    run, rng, states = edges.run, random.Random(2), []
    for step in range(40):
        run.now += 60_000
        states.append(run.publish())
        for published in rng.sample(states, min(3, len(states))):
            id_ = f"d{step}-{published.seq}"
            answer = edges.send(published, decided(published, id_, PHONE | {"age": rng.uniform(18, 98)}))
            if rng.random() < 0.7 and answer["taken"]:
                run.tell(id_, revenue=rng.random(), latency=rng.uniform(0, 5))
        if step % 9 == 5:
            run.tell(id_, revenue=rng.random())  # a correction, perhaps
        if step == 20:
            run.add_arm("fresh")
        if step == 30:
            run.retire_arm("bold")
    report = edges.verified(every=True)
    assert (report.agrees, report.whole) == (True, True)
    made = [event for event in edges.events() if isinstance(event, Decided)]
    assert report.recomputed == len(made) >= 100
    assert {arm for event in made for arm in event.selection.active} == {"old", "new", "bold", "fresh"}
    published = [event for event in edges.events() if isinstance(event, Published)]
    assert len({event.check for event in published}) >= 30


def test_an_export_leads_to_the_same_log_elsewhere(edges, tmp_path):
    published = edges.run.publish()
    edges.send(published, *(decided(published, f"d{i}") for i in range(5)))
    edges.run.tell("d0", revenue=2.0)
    lines = b"".join(export(edges.store, "checkout", "jsonl")).decode()
    with contextlib.closing(open_store(str(tmp_path / "copy.db"))) as copy:
        restore(copy, from_lines(io.StringIO(lines)))
        with copy.read() as session:
            report = verify(session, "checkout")
    assert (report.agrees, report.recomputed) == (True, 5)
    assert report.state == edges.verified().state
    table = b"".join(export(edges.store, "checkout", "csv")).decode()
    assert len(table.splitlines()) == 6


def test_states_are_kept_in_memory_up_to_a_number(edges):
    states = PublishedStates()
    published = [PublishedState.of(edges.run.publish().state, seq, 0) for seq in range(1, MAX_KEPT + 10)]
    for one in published:
        states.keep(one)
    there = [one.seq for one in published if states.find("checkout", one.seq, one.check) is not None]
    assert there == list(range(10, MAX_KEPT + 10))
    assert states.find("checkout", 10, "another") is None
    assert all(a < b for a, b in pairwise(there))


def test_a_batch_is_kept_as_text_and_read_back(edges):
    published = edges.run.publish()
    desk = EdgeDesk(edges.store, edges.run.ledger.published)
    sent = [decided(published, f"d{i}", PHONE | {"age": 20 + 0.1 * i}) for i in range(5)]
    batch = desk.check("checkout", (published.seq, published.check), "web-1", sent)
    assert batch.refused == []
    for by in (None, By("key", None), By(None, "ann")):
        assert Batch.from_text(batch.to_text(by)) == (batch, by)
        assert {len(row[-1]) for row in json.loads(batch.to_text(by))["decisions"]} == {4}, "earlier releases read four"
    trusted = {id_: one._replace(edge=one.edge._replace(unchecked=True)) for id_, one in batch.decisions.items()}
    batch = batch._replace(decisions=trusted)
    assert Batch.from_text(batch.to_text(None)) == (batch, None)


@pytest.mark.parametrize("apart", [0, 700])
def test_verify_finds_an_id_that_is_in_the_log_twice(edges, tmp_path, apart):
    published = edges.run.publish()
    edges.send(published, *(decided(published, f"d{i}") for i in range(10)))
    assert edges.verified().agrees
    [made] = [event for event in edges.events() if isinstance(event, Decided) and event.id == "d7"]
    for _ in range(0, apart, 350):
        edges.run.decide([{"context": PHONE}] * 350)
    with edges.run.transaction() as transaction:
        transaction.append(transaction.state("checkout"), made)  # somebody else than the service
    report = edges.verified()
    twice = 13 + apart
    assert report.problems == (f"decision at event {twice}: event 10 is about a decision of the same id, 'd7'.",)
    lines = b"".join(export(edges.store, "checkout", "jsonl")).decode()
    with (
        contextlib.closing(open_store(str(tmp_path / "copy.db"))) as copy,
        pytest.raises(CorruptionError, match="event 10 is about a decision of the same id"),
    ):
        restore(copy, from_lines(io.StringIO(lines)))


def test_experiments_are_what_they_were_where_nobody_publishes(edges):
    edges.run.ask("d")
    assert "published" not in edges.run.state.plain()


def test_verify_keeps_states_that_do_not_fit_into_memory_in_files(edges, monkeypatch):
    monkeypatch.setattr(engine, "MIN_APART", 0)
    monkeypatch.setattr(verify_edges, "MAX_IN_MEMORY", 2)
    run, states = edges.run, []
    for step in range(8):
        states.append(run.publish())
        run.ask(f"s{step}")
        run.tell(f"s{step}", revenue=step / 3)
    for published in states:
        assert edges.send(published, decided(published, f"d{published.seq}"))["taken"] == 1
    report = edges.verified()
    assert (report.agrees, report.whole, report.recomputed) == (True, True, 16)
    monkeypatch.setattr(verify_edges, "MAX_ON_DISK", 1)
    report = edges.verified()
    assert (report.agrees, report.whole, report.recomputed) == (True, False, 10)
    assert edges.verified(every=True).whole
