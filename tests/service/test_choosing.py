"""Many decisions at once are what they would be one after the other."""

import random
from concurrent.futures import Future

import pytest

from conebandit.experiment.declaration import Experiment
from conebandit.experiment.errors import InvalidError, RefusalError
from conebandit.service.engine.requests import Decide, Request
from conebandit.service.engine.traffic import Ask, assignment
from conebandit.service.engine.turn import Turn
from conebandit.service.engine.writer import Writer
from conebandit.service.errors import NotFoundError
from conebandit.service.log.entries import By
from conebandit.service.replies import Assignment
from conebandit.service.stores.base import open_store
from tests.service.driver import PHONE, Driver


def contexts(count, seed):
    rng = random.Random(seed)
    return [{"age": rng.uniform(18, 98), "device": rng.choice(["phone", "desk"])} for _ in range(count)]


def taught(tmp_path, name, declaration):
    """An experiment that has learned something: the same for every name of a store."""
    run = Driver(open_store(str(tmp_path / f"{name}.db")))
    run.create(declaration)
    for i, context in enumerate(contexts(40, seed=1)):
        run.ask(f"t{i}", context)
        run.tell(f"t{i}", revenue=float(i % 5), latency=float(i % 3))
    return run


@pytest.mark.parametrize("policy", ["LinearParetoUCB", "ConeKernel", "ConeTree", "ParetoUCB1"])
@pytest.mark.parametrize("what", ["live", "shadow", "off", "retired", "explore"])
def test_a_batch_is_decided_as_one_after_the_other(tmp_path, declaration, policy, what):
    settings = {"name": policy, **({"explore": 0.3} if what == "explore" else {})}
    declaration = declaration | {"policy": settings}
    at_once, singly = (taught(tmp_path, name, declaration) for name in ("at_once", "singly"))
    for run in (at_once, singly):
        if what in ("shadow", "off"):
            run.set_mode(what)
        if what == "retired":
            run.ledger.max_replayed = 0  # so that the policy still has the arm
            run.retire_arm("bold")
    asked = [{"id": f"d{i}", "context": context} for i, context in enumerate(contexts(30, seed=2))]
    many = at_once.decide(asked)
    assert many == [singly.decide([one])[0] for one in asked]
    assert [record.body["choice"] for record in at_once.events[-30:]] == [
        record.body["choice"] for record in singly.events[-30:]
    ]


def test_safety_rules_count_within_a_batch(tmp_path, declaration, monkeypatch):
    declaration = declaration | {"rules": [{"arm": "bold", "at_most": 3, "per": "1d"}, {"burn_in": 10}]}
    run = taught(tmp_path, "ruled", declaration)
    monkeypatch.setattr("conebandit.service.engine.units.choose_many", None)  # must not be asked
    arms = [made["arm"] for made in run.decide([{"context": context} for context in contexts(200, seed=3)])]
    before = sum(r.body["arm"] == "bold" for r in run.events if r.kind == "decided") - arms.count("bold")
    assert before + arms.count("bold") <= 3


def asked_by(rng, context):
    """What a caller may ask for: new decisions, some of them known or asked for twice, and now and then nonsense."""
    asked = []
    for _ in range(rng.choice([1, 1, 1, 3])):
        id_ = f"d{rng.randrange(40)}"
        asked.append({"id": id_, "context": context(id_) if rng.random() < 0.9 else {"age": 50, "device": "desk"}})
    if rng.random() < 0.1:
        asked.append(rng.choice([{"id": "a space", "context": {}}, {"context": {"age": -3}}, {"id": "d", "unit": "u"}]))
    return asked if rng.random() < 0.95 else []


def told(answer):
    """What a caller is told of decisions, or of a refusal."""
    return answer if isinstance(answer, RefusalError) else [Assignment(**assignment(made)) for made in answer]


def outline(answer, what):
    """An answer; where there are units, draws depend on random aliases, so only for which decisions it is."""
    if isinstance(answer, RefusalError) or what != "units":
        return repr(answer)
    return [made.id for made in answer]


@pytest.mark.parametrize("what", ["plain", "window", "paused", "ruled", "units"])
def test_callers_who_ask_at_once_are_answered_as_one_after_the_other(tmp_path, declaration, what):
    more = {"ruled": {"rules": [{"at_most": 30}, {"arm": "bold", "at_most": 5}]}, "units": {"unit": {}}}
    if what == "window":
        more[what] = {"metrics": [{**metric, "window": "1s", "default": 1.0} for metric in declaration["metrics"]]}
    declaration = declaration | {"policy": "LinearParetoUCB"} | more.get(what, {})
    singly, at_once = (Driver(open_store(str(tmp_path / f"{name}.db"))) for name in ("singly", "at_once"))
    rng, drawn = random.Random(5), dict(zip((f"d{i}" for i in range(40)), contexts(40, seed=6), strict=True))
    for run in (singly, at_once):
        run.create(declaration)
        if what == "paused":
            run.set_stage("paused", "lunch")
    unit, refused = {"unit": "u"} if what == "units" else {}, 0
    for turn in range(30):
        asked = [[one | unit for one in asked_by(rng, drawn.__getitem__)] for _ in range(5)]
        with at_once.transaction() as transaction:
            asks = [Ask(requests, By(None, f"caller {i}")) for i, requests in enumerate(asked)]
            together = [told(answer) for answer in Turn(transaction).decide_all("checkout", asks)]
        one_by_one = []
        with singly.transaction() as transaction:
            for i, requests in enumerate(asked):
                try:
                    one_by_one.append(Turn(transaction, By(None, f"caller {i}")).decide("checkout", requests))
                except RefusalError as error:
                    one_by_one.append(error)
        assert [outline(answer, what) for answer in together] == [outline(answer, what) for answer in one_by_one]
        refused += sum(isinstance(answer, RefusalError) for answer in together)
        answered = [made.id for answer in together if not isinstance(answer, RefusalError) for made in answer]
        for run in (singly, at_once):
            run.now += 700
            if answered:
                run.tell(answered[0], revenue=float(turn))
    assert refused == 150 if what == "paused" else 10 < refused < 140
    assert len(singly.events) == len(at_once.events)
    if what != "units":
        assert singly.events == at_once.events
        assert singly.state.digest() == at_once.state.digest()


def test_what_waits_for_the_writer_is_done_in_its_order(tmp_path, declaration):
    """Decisions are made together only where nothing else is between them."""
    writer = Writer(open_store(str(tmp_path / "log.db")))
    writer.submit("checkout", lambda turn: turn.create(Experiment.from_dict(declaration))).result()
    works = [
        Decide("checkout", [{"id": "a", "context": PHONE}]),
        Decide("checkout", [{"id": "b", "context": {"age": "?"}}]),
        Decide("checkout", [{"id": "a", "context": PHONE}, {"id": "c", "context": PHONE}]),
        lambda turn: turn.report("checkout", [{"id": "c", "values": {"revenue": 1.0}}]),
        Decide("elsewhere", [{"id": "a", "context": {}}]),
        Decide("checkout", [{"id": "d", "context": PHONE}]),
    ]
    requests = [Request(getattr(work, "experiment", "checkout"), work, Future()) for work in works]
    writer.submit_all(requests)
    first, wrong, second, receipt, unknown, last = (request.answer for request in requests)
    assert [made.id for made in first.result() + second.result() + last.result()] == ["a", "a", "c", "d"]
    assert first.result()[0] == second.result()[0]
    assert receipt.result()[0].recorded == ("revenue",)
    assert isinstance(wrong.exception(), InvalidError)
    assert isinstance(unknown.exception(), NotFoundError)
    with writer.store.read() as session:
        found = [(record.kind, record.decision) for record in session.events("checkout")]
    assert found[1:] == [("decided", "a"), ("decided", "c"), ("reported", "c"), ("decided", "d")]
    assert writer.turns == 2
    writer.close()
