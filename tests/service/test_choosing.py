"""Many decisions at once are what they would be one after the other."""

import random

import pytest

from conebandit.service.stores.base import open_store
from tests.service.driver import Driver


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
