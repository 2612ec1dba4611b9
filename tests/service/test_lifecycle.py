"""Drafts, pauses, ends, and declarations that are changed on the way."""

import json
import random

import pytest
from typer.testing import CliRunner

from conebandit.cli import app
from conebandit.experiment.declaration import Experiment
from conebandit.experiment.errors import InvalidError
from conebandit.service.archive import archive
from conebandit.service.engine.ledger import Ledger
from conebandit.service.engine.writer import Writer
from conebandit.service.errors import ConflictError, NotFoundError
from conebandit.service.export import export
from conebandit.service.log.held import on_hold
from conebandit.service.log.restore import restore
from conebandit.service.log.verify import verify
from conebandit.service.shift import ShiftWatch
from conebandit.service.stores.base import open_store
from conebandit.service.stores.records import from_lines
from tests.service.driver import HOUR, PHONE, Driver, assert_same
from tests.service.plain_fold import plain_fold
from tests.service.plain_rules import stage

NEVER = 0  # events that a turn may fold anew
WHY = "as the board asked for"


@pytest.fixture
def run(store, declaration):
    run = Driver(store)
    run.create(declaration)
    return run


def fill(run, rounds, first=0):
    for i in range(first, first + rounds):
        made = run.ask(f"d{i}", {"age": 20 + i % 70, "device": "phone"})
        run.tell(f"d{i}", revenue=float(i % 7), latency=float(len(made["arm"])))


def verified(run):
    with run.store.read() as session:
        report = verify(session, "checkout", every=True)
    assert report.problems == ()
    assert report.whole
    assert run.digest()["state"] == report.state
    return report


# ---- stages ---------------------------------------------------------------------------------------------------------


def test_a_log_without_stages_is_running(run):
    assert run.describe()["stage"] == "running"
    assert "stage" not in run.state.plain()


def test_a_paused_experiment_takes_outcomes_and_decides_nothing(run):
    fill(run, 3)
    run.ask("waits")
    assert run.set_stage("paused", WHY)["stage"] == "paused"
    assert run.set_stage("paused", "again")["stage"] == "paused"
    assert run.events[-1].body["reason"] == WHY
    with pytest.raises(ConflictError, match="'checkout' is paused"):
        run.ask("new")
    assert run.ask("waits")["id"] == "waits", "which was decided before"
    assert run.tell("waits", revenue=1.0)["recorded"] == ["revenue"]
    run.set_stage("running", "on again")
    run.ask("new")
    assert stage(run.events) == "running"
    assert verified(run).decisions == 5


def test_an_experiment_that_has_ended_is_frozen(run):
    fill(run, 3)
    run.set_stage("ended", WHY)
    events = len(run.events)
    refused = [
        lambda: run.ask("new"),
        lambda: run.tell("d0", revenue=99.0),
        lambda: run.set_mode("off"),
        lambda: run.add_arm("x"),
        lambda: run.retire_arm("new"),
        lambda: run.set_stage("running", WHY),
        lambda: run.change({"policy": "ParetoUCB1"}, WHY),
    ]
    for request in refused:
        with pytest.raises(ConflictError, match=r"ended|can become nothing else"):
            request()
    assert len(run.events) == events
    assert run.ask("d0", {"age": 20, "device": "phone"})["id"] == "d0"
    assert run.tell("d0", revenue=0.0)["repeated"] == ["revenue"], "requests that are sent again get their answers"
    assert run.front(PHONE)["arms"], "and it can be read"
    assert verified(run).agrees


@pytest.mark.parametrize(("given", "words"), [("draft", "can become paused or ended"), ("resting", "must be one of")])
def test_stages_that_it_cannot_have(run, given, words):
    with pytest.raises((ConflictError, InvalidError), match=words):
        run.set_stage(given, WHY)
    with pytest.raises(InvalidError, match="reason"):
        run.set_stage("paused", None)


def test_a_draft_may_become_anything_and_decides_nothing(store, declaration):
    run = Driver(store)
    run.create({**declaration, "stage": "draft"})
    with pytest.raises(ConflictError, match="is a draft"):
        run.ask("d")
    with pytest.raises(ConflictError, match="is a draft: change its declaration"):
        run.add_arm("x")
    run.ledger = Ledger(NEVER)  # a long log would be folded anew beside the turns, but this one need not
    run.change({"arms": ["left", "right"], "context": [{"name": "dose", "low": 0, "high": 1}]}, WHY)
    assert [arm["name"] for arm in run.describe()["arms"]] == ["left", "right"]
    assert not run.describe()["revising"]
    with pytest.raises(ConflictError, match="'stage' cannot be changed"):
        run.change({"stage": "running"}, WHY)
    run.set_stage("running", "all is ready")
    assert run.ask("d", {"dose": 0.5})["arm"] in ("left", "right")
    with pytest.raises(ConflictError, match="'arms' cannot be changed"):
        run.change({"arms": ["left", "right", "both"]}, WHY)
    run.ledger = Ledger()
    assert verified(run).decisions == 1


def test_values_on_hold_are_those_of_what_was_declared_last(store, declaration):
    run = Driver(store)
    run.create({**declaration, "stage": "draft"})
    pain = {"name": "pain", "range": [0, 10], "outside": "hold"}
    run.change({"metrics": [*declaration["metrics"], pain]}, "one more")
    run.set_stage("running", "all is set")
    run.ask("d1")
    run.tell("d1", pain=70.0)
    assert [(held.id, held.value) for held in on_hold(store, "checkout", 0, 100).held] == [("d1", 70.0)]


def test_the_monitor_of_a_draft_watches_what_was_declared_last(store, declaration):
    run, watch = Driver(store), ShiftWatch(store)
    run.create({**declaration, "stage": "draft"})
    assert watch.report("checkout").contexts == 0
    run.change({"context": [{"name": "dose", "low": 0, "high": 1}]}, WHY)
    run.set_stage("running", WHY)
    run.ask("d", {"dose": 0.5})
    assert watch.report("checkout").contexts == 1


# ---- changes --------------------------------------------------------------------------------------------------------


def test_another_policy_has_learned_the_whole_log(run):
    fill(run, 20)
    before = run.state.policy
    told = run.change({"policy": {"name": "ParetoUCB1", "explore": 0.2}}, WHY)
    assert told["declaration"]["policy"] == {"name": "ParetoUCB1", "explore": 0.2}
    assert type(run.state.policy) is not type(before)
    assert run.state.policy.n_observations == before.n_observations
    assert_same(run.state.policy, plain_fold(run.events))
    assert run.ask("more")["policy_version"].startswith("ParetoUCB1-")
    assert [e.kind for e in run.events[-3:]] == ["changed", "revised", "decided"]
    events = len(run.events)
    run.change({"policy": {"name": "ParetoUCB1", "explore": 0.2}}, "sent again")
    assert len(run.events) == events
    run.write_snapshot()
    digest = run.digest()
    run.ledger = Ledger()
    assert run.digest() == digest
    assert verified(run).decisions == 21


def test_cone_and_resolution(run):
    fill(run, 10)
    metrics = run.describe()["declaration"]["metrics"]
    run.change({"metrics": [metrics[0], {**metrics[1], "resolution": 2}], "cone": {"wedge": 0.5}}, WHY)
    assert run.state.experiment.metrics[1].resolution == 2.0
    assert_same(run.state.policy, plain_fold(run.events))
    fill(run, 5, first=50)
    assert verified(run).agrees


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"metrics": [{"name": "revenue"}]}, "of metrics, only resolution and units can be changed"),
        ({"context": []}, "'context' cannot be changed"),
        ({"arms": ["old", "new"]}, "'arms' cannot be changed"),
        ({"id": "other"}, "'id' cannot be changed"),
        ({"mode": "off"}, "'mode' cannot be changed"),
        ({"seed": 8}, "'seed' cannot be changed"),
        ({"policy": "None such"}, "policy.name must be one of"),
        ({"polcy": "ConeTree"}, "has an entry 'polcy' that is not known"),
        ({}, "one or more entries"),
        ([], "must be a table"),
    ],
)
def test_changes_that_cannot_be(run, changes, words):
    run.ask("d")
    with pytest.raises((ConflictError, InvalidError), match=words):
        run.change(changes, WHY)
    assert len(run.events) == 2


def test_to_create_it_again_is_still_a_no_op(run, declaration):
    """With what was declared first, as a script does at every start, or with what is declared now."""
    run.change({"policy": "ParetoUCB1"}, WHY)
    events = len(run.events)
    run.create(declaration)
    run.create({**declaration, "policy": "ParetoUCB1"})
    with pytest.raises(ConflictError, match="another declaration"):
        run.create({**declaration, "seed": 8})
    assert len(run.events) == events


def test_a_rule_that_is_added_counts_from_there_on(store, declaration):
    declaration["metrics"][1]["range"] = [0, 12]
    rule = {"name": "harm", "metric": "latency", "above": 2, "per": "experiment", "error": 0.05, "then": "stop"}
    run = Driver(store)
    run.create(declaration)
    for i in range(40):
        run.ask(f"d{i}")
        run.tell(f"d{i}", latency=12.0)
    run.ask("before")
    run.change({"rules": [rule]}, WHY)
    run.tell("before", latency=12.0)
    assert run.rules()["rules"][0]["decisions"] == 0
    for i in range(40):
        if run.describe()["stopped"]:
            break
        run.ask(f"e{i}")
        run.tell(f"e{i}", latency=12.0)
    assert 2 < i < 15
    for rules in (None, [], [{**rule, "above": 11}]):
        with pytest.raises(ConflictError, match="rule 'harm' has stopped something"):
            run.change({"rules": rules}, WHY)
    run.change({"policy": "ParetoUCB1"}, WHY)
    assert run.describe()["stopped"] == ["harm"], "another change does not touch it"
    run.lift("harm", WHY, "disable")
    run.change({"rules": None}, WHY)
    run.ask("after")
    assert verified(run).agrees


def test_a_limit_that_is_raised_keeps_its_count(store, declaration):
    run = Driver(store)
    run.create({**declaration, "rules": [{"at_most": 5}]})
    run.decide([{"id": f"d{i}", "context": PHONE} for i in range(5)])
    with pytest.raises(ConflictError):
        run.ask("d5")
    run.change({"rules": [{"at_most": 7}]}, WHY)
    run.decide([{"id": f"d{i}", "context": PHONE} for i in range(5, 7)])
    with pytest.raises(ConflictError):
        run.ask("d7")
    assert verified(run).agrees


@pytest.mark.untraced
@pytest.mark.parametrize("seed", range(3))
def test_any_log_with_changes_means_what_the_plain_fold_says(store, declaration, seed, tmp_path):
    """Two ledgers that take turns; corrections, arms and changes count when a revision says so."""
    rng = random.Random(seed)
    run = Driver(store)
    run.create(declaration)
    ledgers, ids = [Ledger(NEVER), Ledger(NEVER)], []
    policies = ["LinearParetoUCB", {"name": "ParetoUCB1", "explore": 0.1}, {"name": "LinearParetoUCB", "width": 0.5}]
    for step in range(150):
        run.ledger = rng.choice(ledgers)
        run.now += rng.choice([0, 0, 1, 60_000, HOUR // 2])
        what = rng.random()
        if what < 0.4 or not ids:
            run.ask_at_random(rng, ids, step)
        elif what < 0.76:
            run.tell_at_random(rng, ids)
        elif what < 0.86 and run.awaits_revision:
            run.go_on_from(run.begin_revision())
            assert_same(run.policy(), plain_fold(run.events))
        elif what < 0.9:
            run.write_snapshot()
        elif what < 0.97:
            run.change({"policy": rng.choice(policies)}, f"step {step}")
        else:
            run.add_arm(f"arm{step}")
    kinds = [e.kind for e in run.events]
    assert kinds.count("changed") > 1
    assert kinds.count("revised") > 1
    plain, digests = plain_fold(run.events), set()
    for ledger in [*ledgers, Ledger(NEVER)]:
        run.ledger = ledger
        assert_same(run.policy(), plain)
        digests.add(run.digest()["state"])
    assert digests == {verified(run).state}
    other = open_store(str(tmp_path / "elsewhere.db"))
    restore(other, from_lines(iter(b"".join(export(store, "checkout", "jsonl")).decode().splitlines(keepends=True))))
    assert Driver(other).digest() == run.digest()
    other.close()


# ---- commands and archives ------------------------------------------------------------------------------------------


@pytest.fixture
def call(tmp_path, monkeypatch):
    monkeypatch.setenv("CONEBANDIT_STORE", str(tmp_path / "log.db"))
    return lambda *args: CliRunner().invoke(app, [str(a) for a in args])


def test_commands_lead_an_experiment_through_its_life(call, begun, tmp_path):
    changes = tmp_path / "changes.toml"
    changes.write_text('policy = { name = "ParetoUCB1", explore = 0.1 }\nrules = [{ at_most = 30 }]\n')
    assert call("experiment", "change", "checkout", changes, "--reason", WHY).output == "checkout: changed\n"
    assert json.loads(call("experiment", "rules", "checkout").output)["rules"][0]["rule"] == "at most"
    off = call("experiment", "lift", "checkout", "at most", "--reason", WHY, "--then", "disable")
    assert off.output == "checkout: stopped by no rule\n"
    (tmp_path / "broken.toml").write_text("policy = ")
    broken = call("experiment", "change", "checkout", tmp_path / "broken.toml", "--reason", WHY)
    assert broken.exit_code == 1
    assert "broken.toml is not TOML" in broken.output
    file = tmp_path / "old.jsonl"
    refused = call("experiment", "archive", "checkout", file)
    assert refused.exit_code == 1
    assert "is running; only one that has ended can be archived" in refused.output
    assert call("experiment", "stage", "checkout", "ended", "--reason", WHY).output == "checkout: ended\n"
    assert call("verify").exit_code == 0
    store = open_store(begun)
    with store.read() as session:
        head = session.head("checkout")
    store.close()
    archived = call("experiment", "archive", "checkout", file)
    assert archived.output.split("jsonl: ")[1] == f"{head.seq} events, {head.check}\n"
    assert call("experiment", "list").output == ""
    [begun_first, done] = map(json.loads, call("experiment", "audit").output.splitlines())
    assert (begun_first["kind"], done["kind"], done["body"]["check"]) == ("created", "archived", head.check)
    assert call("experiment", "import", file).exit_code == 0
    store = open_store(begun)
    with store.read() as session:
        assert session.head("checkout") == head
    store.close()
    assert "never overwrites" in call("experiment", "archive", "checkout", file).output


def test_a_service_goes_on_when_an_experiment_is_archived(address, declaration, tmp_path):
    writer = Writer(open_store(address))
    for id_ in ("checkout", "other"):
        declared = Experiment.from_dict({**declaration, "id": id_})
        writer.submit(id_, lambda turn, declared=declared: turn.create(declared)).result()
    writer.submit("checkout", lambda turn: turn.set_stage("checkout", "ended", WHY)).result()
    store = open_store(address)
    archive(store, "checkout", tmp_path / "checkout.jsonl")
    with pytest.raises(NotFoundError):
        writer.submit("checkout", lambda turn: turn.describe("checkout")).result()
    writer.submit("other", lambda turn: turn.decide("other", [{"context": PHONE}])).result()
    writer.close()
    with store.read() as session:
        assert session.experiments() == ["other"]
        assert session.snapshots("checkout") == []
        assert session.snapshots("other") == [2], "what is left keeps its snapshots"
        assert session.events("checkout") == []
    store.close()
