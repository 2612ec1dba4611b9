"""What the service does, without HTTP; every test runs on both stores."""

import contextlib
import random

import numpy as np
import pytest

from conebandit.experiment import declaration as experiment_module
from conebandit.experiment.declaration import Experiment
from conebandit.experiment.errors import InvalidError
from conebandit.experiment.policy import make_policy, policy_names
from conebandit.policies.compiled import CompiledPolicy
from conebandit.service.engine import snapshots as engine_module
from conebandit.service.engine.ledger import Ledger
from conebandit.service.errors import ConflictError, CorruptionError, NotFoundError
from conebandit.service.log import choosing as choosing_module
from conebandit.service.log import snapshots as snapshots_module
from conebandit.service.log import verify as verify_module
from conebandit.service.log import windows
from conebandit.service.log.choosing import choose
from conebandit.service.log.replay import rebuild
from conebandit.service.log.snapshots import from_parts, to_parts
from conebandit.service.log.verify import verify
from conebandit.service.replies import StateDigest
from conebandit.service.stores.base import open_store
from tests.service.driver import HOUR, PHONE, Driver, assert_same
from tests.service.plain_fold import plain_fold

# Where an arm is chosen: for a decision, and when it is made again.
DECIDING, VERIFYING = "conebandit.service.engine.units.choose", "conebandit.service.log.verify.choose"


@pytest.fixture
def run(store, declaration):
    driver = Driver(store)
    driver.create(declaration)
    return driver


def test_a_decision_id_gets_one_answer_for_ever(run):
    first = run.ask("a")
    assert first["arm"] in ("old", "new", "bold")
    assert first["active"]
    for i in range(30):
        run.ask(f"x{i}")
        run.tell(f"x{i}", revenue=float(i))
    assert run.ask("a") == first
    run.ledger.forget()  # a restart
    assert run.ask("a") == first
    with pytest.raises(ConflictError, match="'a' was asked for with another context"):
        run.ask("a", {"age": 31, "device": "phone"})


def test_a_batch_may_repeat_an_id(run):
    replies = run.decide([{"id": "a", "context": PHONE}, {"id": "b", "context": PHONE}, {"id": "a", "context": PHONE}])
    assert replies[0] == replies[2]
    assert len(run.events) == 3
    with pytest.raises(ConflictError):
        run.decide([{"id": "c", "context": PHONE}, {"id": "c", "context": {"device": "desk"}}])
    assert len(run.events) == 3, "all or none"


def test_a_batch_of_outcomes_says_one_thing_of_a_metric(run):
    """Otherwise it would correct itself back and forth when it is sent again."""
    run.ask("a")
    early, late = "1970-01-01T00:16:39+00:00", "1970-01-01T00:16:40+00:00"
    for one, two in [
        ({"values": {"revenue": 1.0}}, {"values": {"revenue": 2.0, "latency": 1.0}}),
        ({"values": {"revenue": 1.0}, "observed_at": early}, {"values": {"revenue": 1.0}, "observed_at": late}),
    ]:
        with pytest.raises(InvalidError, match="two things about 'revenue' of decision 'a'; report one value"):
            run.report([{"id": "a", **one}, {"id": "a", **two}])
    assert len(run.events) == 2, "nothing was changed"
    good = [
        {"id": "a", "values": {"revenue": 1.0}},
        {"id": "a", "values": {"revenue": 1.0}, "observed_at": early},
        {"id": "a", "values": {"latency": 2.0, "revenue": 1}},
    ]
    run.report(good)
    events = len(run.events)
    assert [receipt["repeated"] for receipt in run.report(good)] == [["revenue"], ["revenue"], ["latency", "revenue"]]
    assert len(run.events) == events


def test_ids_are_made_if_none_is_given(run):
    replies = run.decide([{"context": PHONE}] * 2)
    assert replies[0]["id"] != replies[1]["id"]


def test_parts_are_learned_as_they_come(run, declaration):
    arms = [run.ask(str(i))["arm"] for i in range(3)]
    assert run.tell("0", revenue=5.0)["recorded"] == ["revenue"]
    assert run.tell("1", revenue=4.0, latency=2.5)["recorded"] == ["revenue", "latency"]
    assert run.tell("0", latency=20.0)["recorded"] == ["latency"]
    experiment = Experiment.from_dict(declaration)
    policy, x = make_policy(experiment, experiment.arms), experiment.encode(PHONE)
    policy.observe(x, experiment.arms.index(arms[0]), [5.0, np.nan])
    policy.observe(x, experiment.arms.index(arms[1]), [4.0, 7.5])
    policy.observe(x, experiment.arms.index(arms[0]), [np.nan, 0.0])  # worse than the worst counts as the worst
    assert_same(run.policy(), policy)


def test_repeats_change_nothing(run):
    run.ask("a")
    run.tell("a", revenue=5.0)
    before = run.digest()
    assert run.tell("a", revenue=5.0) == {
        "id": "a", "recorded": [], "corrected": [], "repeated": ["revenue"], "late": [],
        "held": [], "clipped": [], "void": False,
    }  # fmt: skip
    assert run.digest() == before
    run.tell("a", revenue=5.0, latency=1.0)
    assert run.events[-1].body["values"] == {"latency": 1.0}


@pytest.mark.parametrize("snapshot", [False, True])
def test_a_correction_is_as_if_the_first_value_had_never_been(run, store, declaration, snapshot):
    twin = Driver(store, "twin")
    twin.create({**declaration, "id": "twin"})
    for driver in (run, twin):
        for i in range(40):
            driver.ask(str(i), {"age": 20 + i, "device": "desk" if i % 3 else "phone"})
    for i in range(40):
        arm = {e.decision: e.body["arm"] for e in run.events if e.kind == "decided"}
        assert arm == {e.decision: e.body["arm"] for e in twin.events if e.kind == "decided"}
        run.tell(str(i), revenue=float(i % 7))
        twin.tell(str(i), revenue=-3.0 if i == 11 else float(i % 7))
        if snapshot and i == 20:
            run.write_snapshot()
    assert run.digest()["state"] != twin.digest()["state"]
    assert run.tell("11", revenue=-3.0)["corrected"] == ["revenue"]
    assert_same(run.policy(), twin.policy())
    run.ledger.forget()
    assert_same(run.policy(), twin.policy())
    assert [e.body["values"]["revenue"] for e in run.events if e.decision == "11" and e.kind == "reported"] == [4, -3]


def test_windows_close_with_the_default_and_late_values_do_not_count(run):
    run.ask("a")
    run.ask("b")
    run.tell("b", latency=1.0)
    run.now += HOUR
    assert run.tell("a", revenue=1.0)["recorded"] == ["revenue"]
    observed = run.policy().n_observations
    run.now += 1  # the window of a has closed; it is counted with the next event
    run.ask("c")
    assert run.policy().n_observations == observed + 1
    assert run.tell("a", latency=1.0)["late"] == ["latency"]
    assert run.policy().n_observations == observed + 1
    assert run.tell("b", latency=2.0)["corrected"] == ["latency"], "it was in time, so it can be corrected later"
    assert_same(run.policy(), plain_fold(run.events))


def test_open_windows_wait_in_the_log_and_not_in_memory(run, monkeypatch):
    monkeypatch.setattr(windows, "MAX_AHEAD", 10)
    for i in range(10):
        run.decide([{"id": f"{i}-{k}", "context": PHONE} for k in range(20)])
        run.now += 1000
    run.tell("3-3", latency=4.0)
    state = run.state
    assert [len(queue.ahead) for queue in state._windows._queues] == [10]
    run.now += HOUR
    run.set_mode("shadow")  # any event will do
    assert run.policy().n_observations == 200, "one value and 199 defaults"
    assert [len(queue.ahead) for queue in state._windows._queues] == [0]
    assert_same(run.policy(), plain_fold(run.events))


def test_unknown_decisions_and_metrics(run):
    with pytest.raises(NotFoundError, match="no decision 'nobody'"):
        run.tell("nobody", revenue=1.0)
    run.ask("a")
    with pytest.raises(InvalidError, match="no metric 'speed'; this experiment has revenue, latency"):
        run.tell("a", speed=1.0)
    with pytest.raises(InvalidError, match="must be a number"):
        run.tell("a", revenue=float("nan"))
    with pytest.raises(NotFoundError):
        run.report([{"id": "a", "values": {"revenue": 1.0}}, {"id": "nobody", "values": {"revenue": 1.0}}])
    assert len(run.events) == 2


def test_arms_come_and_go(run):
    for i in range(60):
        run.ask(str(i))
        run.tell(str(i), revenue=1.0, latency=1.0)
    run.add_arm("late")
    assert run.policy().n_arms == 4
    assert run.ask("first")["arm"] == "late", "an arm never seen comes first"
    run.tell("first", revenue=9.0)
    described = run.retire_arm("new")
    assert {"name": "new", "active": False} in described["arms"]
    replies = run.decide([{"id": f"y{i}", "context": PHONE} for i in range(200)])
    assert "new" not in {r["arm"] for r in replies} | {a for r in replies for a in r["active"]}
    assert any(e.body.get("arm") == "new" for e in run.events), "its data stay"
    played = next(e.decision for e in run.events if e.kind == "decided" and e.body["arm"] == "new")
    assert run.tell(played, revenue=2.0)["corrected"] == ["revenue"], "and can still be corrected"
    with pytest.raises(ConflictError, match="never served again"):
        run.add_arm("new")
    with pytest.raises(ConflictError, match="baseline"):
        run.retire_arm("old")
    with pytest.raises(NotFoundError):
        run.retire_arm("nobody")
    assert_same(run.policy(), plain_fold(run.events))


def test_modes(run):
    run.set_mode("shadow")
    replies = [run.ask(f"s{i}") for i in range(20)]
    assert {(r["arm"], r["propensity"], r["mode"]) for r in replies} == {("old", 1.0, "shadow")}
    choices = [e.body["choice"] for e in run.events if e.kind == "decided"]
    assert len({c["arm"] for c in choices}) > 1, "what the policy would have done is in the log"
    run.set_mode("off")
    assert run.ask("off")["active"] == ["old"]
    assert run.events[-1].body["choice"] is None
    run.set_mode("live")
    assert len({run.ask(f"l{i}")["arm"] for i in range(20)}) > 1


def test_the_log_keeps_the_probabilities_of_all_arms(run):
    for i in range(40):
        run.set_mode(("live", "shadow", "off")[i % 3])
        reply, logged = run.ask(f"d{i}"), run.events[-1].body
        if reply["mode"] == "live":
            assert reply["probabilities"] == logged["choice"]["probabilities"]
        else:
            assert reply["probabilities"] == {"old": 1.0}
        assert reply["probabilities"][reply["arm"]] == reply["propensity"]
        if reply["mode"] != "off":
            choice, version = logged["choice"], logged["version"]
            assert choice["probabilities"][choice["arm"]] == choice["propensity"]
            assert sum(choice["probabilities"].values()) == pytest.approx(1.0)
            assert set(choice["probabilities"]) <= set(logged["active"])
            assert set(version) == {"policy", "library", "position"}
        assert run.ask(f"d{i}") == reply, "a retry gets the same"
        run.tell(f"d{i}", revenue=float(i % 5), latency=float(i % 3))


def test_verify_compares_probabilities_unless_they_were_not_kept(run, store, monkeypatch):
    for i in range(5):
        run.ask(str(i))

    def choose_otherwise(chances):
        def chosen(state, x, key, at):
            made = choose(state, x, key, at)
            return made._replace(choice=made.choice._replace(probabilities=chances))

        return chosen

    with store.read() as session:
        assert verify(session, "checkout").agrees
        monkeypatch.setattr(VERIFYING, choose_otherwise({"old": 1.0}))
        report = verify(session, "checkout")
    assert len(report.problems) == 5
    assert "choice is {" in report.problems[0]
    monkeypatch.setattr(DECIDING, choose_otherwise(None))
    run.ask("as-before")
    monkeypatch.undo()
    assert "probabilities" not in run.events[-1].body["choice"]
    with store.read() as session:
        assert verify(session, "checkout").agrees


def test_a_policy_may_leave_probabilities_out(run, store, monkeypatch):
    """As one of another package may that decides in its own way."""
    decide = CompiledPolicy.decide
    monkeypatch.setattr(CompiledPolicy, "decide", lambda *args: decide(*args)._replace(probabilities=None))
    reply = run.ask("d")
    assert (reply["probabilities"], run.ask("d")) == (None, reply)
    assert "probabilities" not in run.events[-1].body["choice"]
    run.tell("d", revenue=1.0)
    with store.read() as session:
        assert verify(session, "checkout").agrees


def test_propensities_are_the_shares_of_the_draws(run):
    for i in range(30):
        run.ask(str(i))
        run.tell(str(i), revenue=float(i % 5), latency=float(i % 3))
    replies = run.decide([{"context": PHONE} for _ in range(1000)])
    shares = {arm: sum(r["arm"] == arm for r in replies) / 1000 for arm in replies[0]["active"]}
    for reply in replies:
        assert abs(shares[reply["arm"]] - reply["propensity"]) < 0.08


def test_snapshots_only_save_time(run, store, monkeypatch):
    monkeypatch.setattr(engine_module, "SNAPSHOT_EVERY", 20)
    monkeypatch.setattr(engine_module, "SNAPSHOT_GROWTH", 1.0)
    for i in range(60):
        run.ask(str(i))
        run.tell(str(i), revenue=float(i))
    with store.read() as session:
        assert len(session.snapshot_heads("checkout")) == engine_module.MAX_SNAPSHOTS
        assert verify(session, "checkout").agrees
        latest = session.snapshots("checkout")[0]
    before = run.digest()
    run.ledger.forget()
    assert run.digest() == before
    with store.write() as session:  # a damaged one is not used, an untrue one is found
        content = list(session.snapshot("checkout", latest))
        session.drop_snapshots("checkout", latest, latest)
        session.save_snapshot("checkout", latest, [content[0], content[1][:-1], *content[2:]])
    run.ledger.forget()
    assert run.digest() == before
    state = from_parts(Experiment.from_dict(run.describe()["declaration"]), iter(content))
    state.policy.observe(np.full(3, 0.5), 0, [1.0, 1.0])
    with store.write() as session:
        session.drop_snapshots("checkout", 0)
        session.save_snapshot("checkout", latest, to_parts(state))
    with store.read() as session:
        assert verify(session, "checkout").problems == (
            f"the snapshot at event {latest} is not the state that the log leads to.",
        )


def test_a_snapshot_is_written_in_parts_and_given_up_when_a_correction_makes_it_untrue(run, store, monkeypatch):
    monkeypatch.setattr(engine_module, "SNAPSHOT_EVERY", 20)
    monkeypatch.setattr(snapshots_module, "PART", 300)
    for i in range(11):
        run.ask(str(i))
        run.tell(str(i), revenue=float(i))
    begun = run.ledger.snapshots.in_progress("checkout")
    begun._thread.join()
    run.ask("more")
    with store.read() as session:
        assert session.snapshots("checkout") == [], "not complete yet"
        assert len(list(session.snapshot("checkout", begun.seq))) > 0, "and begun"
    for i in range(40):
        run.ask(f"m{i}")
    with store.read() as session:
        assert session.snapshots("checkout")[-1] == begun.seq
        report = verify(session, "checkout")
    assert (report.agrees, report.snapshots > 0) == (True, True)
    while run.ledger.snapshots.in_progress("checkout") is None:
        run.ask(f"n{len(run.events)}")
    begun = run.ledger.snapshots.in_progress("checkout")
    begun._thread.join()
    run.ask("another")
    run.tell("3", revenue=-1.0)
    run.ask("after")
    with store.read() as session:
        assert session.snapshots("checkout") == []
        assert list(session.snapshot("checkout", begun.seq)) == []
        assert verify(session, "checkout").agrees


def test_verify_notices_a_service_that_decided_from_another_state(run, store):
    """No snapshot is needed for it: decisions are functions of the state that they were made in."""
    for i in range(30):
        run.ask(str(i))
        run.tell(str(i), revenue=float(i % 7), latency=1.0)
    with store.read() as session:
        report = verify(session, "checkout")
    assert (report.agrees, report.decisions, report.recomputed, report.snapshots) == (True, 30, 30, 0)
    played = ["old", "new", "bold"].index(run.explain(PHONE)["active"][0])
    for _ in range(20):  # a slip of the memory of this process only
        run.policy().observe([0.15, 1.0, 0.0], played, [-100.0, -100.0])
    for i in range(30, 40):
        run.ask(str(i))
    with store.read() as session:
        report = verify(session, "checkout")
        served = run.digest()
        asked = verify(session, "checkout", StateDigest.from_dict(served))
    assert report.problems
    assert report.problems[0].startswith("decision at event ")
    assert f"the service has state {served['state']}" in asked.problems[0]


def test_verify_leaves_out_decisions_whose_state_is_no_more_if_that_takes_too_long(run, store, monkeypatch):
    monkeypatch.setattr(verify_module, "MAX_FOLDED_AGAIN", 0)
    for i in range(30):
        run.ask(str(i))
        run.tell(str(i), revenue=float(i % 7), latency=1.0)
    run.tell("20", revenue=50.0)  # reported as event 43
    run.ask("after")
    with store.read() as session:
        report = verify(session, "checkout")
    assert (report.agrees, report.decisions, report.recomputed) == (True, 31, 22), "21 before, 1 after"
    run.add_arm("fourth")
    run.ask("last")
    with store.read() as session:
        report = verify(session, "checkout")
    assert (report.agrees, report.whole, report.decisions, report.recomputed) == (True, False, 32, 1)
    with store.read() as session:
        report = verify(session, "checkout", every=True)
    assert (report.agrees, report.whole, report.recomputed) == (True, True, 32)


@pytest.mark.untraced
@pytest.mark.parametrize("others", ["few", "many"])
def test_verify_makes_every_decision_of_a_small_log_again(run, store, monkeypatch, others):
    """And finds one that was changed, in whichever state it was made; whether or not earlier states are at hand."""
    monkeypatch.setattr(verify_module, "MAX_STATES", {"few": 1, "many": 50}[others])
    monkeypatch.setattr(verify_module, "STEP", 3)
    for i in range(25):
        run.ask(str(i))
        run.tell(str(i), revenue=float(i % 7), latency=1.0)
        run.tell(str(i * i % (i + 1)), revenue=float(i % 5))
    run.retire_arm("bold")
    run.ask("last")
    with store.read() as session:
        report = verify(session, "checkout")
        for seq in [record.seq for record in run.events if record.kind == "decided"][1::6]:
            wrong = run.events[seq - 1].body["id"]
            monkeypatch.setattr(
                VERIFYING,
                lambda state, x, key, at, wrong=wrong: (
                    choose(state, x, key, at)._replace(propensity=0.123) if key == wrong else choose(state, x, key, at)
                ),
            )
            assert [words[:30].split(":")[0] for words in verify(session, "checkout").problems] == [
                f"decision at event {seq}"
            ]
    assert [event.kind for event in run.events].count("revised") > 15
    assert (report.agrees, report.whole, report.recomputed) == (True, True, 26)


def test_another_version_uses_no_snapshots_and_makes_no_decisions_again(run, store, monkeypatch):
    for i in range(10):
        run.ask(str(i))
        run.tell(str(i), revenue=float(i))
    run.write_snapshot()
    before = run.policy()
    monkeypatch.setattr(choosing_module, "__version__", "99.0")
    monkeypatch.setattr(snapshots_module, "__version__", "99.0")
    monkeypatch.setattr(verify_module, "__version__", "99.0")
    with store.read() as session:
        report = verify(session, "checkout")
        state = rebuild(session, "checkout", session.head("checkout"))
    assert (report.agrees, report.recomputed, report.other_version, report.snapshots) == (True, 0, 10, 0)
    assert not report.whole
    assert state.last_snapshot == 0, "from the first event"
    assert_same(state.policy, before)


def test_every_change_of_the_log_is_found(run, store):
    for i in range(20):
        run.ask(str(i))
        run.tell(str(i), revenue=float(i))
    rng = random.Random(3)
    with store.read() as session:
        verify(session, "checkout")
    for column in ("body", "kind", "decision", "sealed", "seq", None, "tail"):
        seq = rng.randrange(2, 41)
        with contextlib.suppress(UndoError), store.write() as session:
            old = session.events("checkout", seq - 1, seq)[0]
            if column is None:
                session._run("DELETE FROM events WHERE seq = ?", (seq,))
            elif column == "tail":
                session._run("DELETE FROM events WHERE seq > ?", (seq,))
            elif column == "seq":
                session._run("UPDATE events SET seq = 1000 WHERE seq = ?", (seq,))
            else:
                new = {"body": old.text.replace("a", "b", 1), "kind": "mode_changed", "decision": "z", "sealed": "0"}
                session._run(f"UPDATE events SET {column} = ? WHERE seq = ?", (new[column], seq))
            with pytest.raises(CorruptionError, match=r"event"):
                verify(session, "checkout")
            raise UndoError
    with store.read() as session:
        assert verify(session, "checkout").agrees


class UndoError(Exception):
    pass


@pytest.mark.untraced
@pytest.mark.parametrize("seed", range(4))
def test_any_log_means_what_the_plain_fold_says(store, declaration, seed, monkeypatch):
    """Random delays, parts, repeats, corrections, arms and modes, with two ledgers that take turns on one store."""
    rng = random.Random(seed)
    if seed % 2:
        monkeypatch.setattr(windows, "MAX_AHEAD", 2)  # windows must be read from the log again and again
    run = Driver(store)
    run.create(declaration)
    ledgers, ids = [run.ledger, Ledger()], []
    for step in range(150):
        run.ledger = rng.choice(ledgers)
        run.now += rng.choice([0, 0, 1, 60_000, HOUR // 2])
        what = rng.random()
        if what < 0.4 or not ids:
            run.ask_at_random(rng, ids, step)
        elif what < 0.92:
            run.tell_at_random(rng, ids)
        elif what < 0.94:
            run.write_snapshot()
        elif what < 0.96:
            run.set_mode(rng.choice(["live", "shadow", "off"]))
        elif what < 0.98:
            run.add_arm(f"arm{step}")
        else:
            run.retire_arm(rng.choice(["new", "bold"]))
    plain, digests = plain_fold(run.events), []
    for ledger in [*ledgers, Ledger()]:
        run.ledger = ledger
        assert_same(run.policy(), plain)
        digests.append(run.digest())
    with store.read() as session:
        report = verify(session, "checkout")
        head = session.head("checkout")
        assert rebuild(session, "checkout", head, snapshots=False).digest() == report.state
    assert report.agrees
    assert {d["state"] for d in digests} == {report.state}


@pytest.mark.parametrize("name", policy_names())
def test_every_policy_can_be_served(tmp_path, declaration, name):
    store = open_store(str(tmp_path / "log.db"))
    run = Driver(store)
    run.create({**declaration, "policy": {"name": name}})
    for i in range(40):
        run.ask(str(i))
        run.tell(str(i), revenue=float(i % 4))
    run.tell("3", revenue=8.0)
    run.write_snapshot()
    assert run.front(PHONE)["arms"]
    assert set(run.explain(PHONE)["active"]) <= {"old", "new", "bold"}
    assert_same(run.policy(), plain_fold(run.events))
    digest = run.digest()
    run.ledger.forget()
    assert run.digest() == digest
    store.close()


def _snapshots(store):
    with store.read() as session:
        return session.snapshots("checkout"), session.snapshot_heads("checkout")


@pytest.mark.parametrize("killed", [False, True], ids=["closed", "killed"])
def test_a_snapshot_that_was_begun_at_the_last_event_is_kept_in_the_end(store, declaration, monkeypatch, killed):
    monkeypatch.setattr(engine_module, "SNAPSHOT_EVERY", 10)
    run = Driver(store)
    run.create(declaration)
    run.decide([{"id": f"d{i}", "context": PHONE} for i in range(20)])
    assert _snapshots(store) == ([], {21: False})
    if killed:
        run.ledger = Ledger()
    run.write_snapshot()
    assert _snapshots(store) == ([21], {21: True})
    assert run.digest() == Driver(store).digest()
    run.write_snapshot()
    assert _snapshots(store) == ([21], {21: True})


def test_a_snapshot_that_a_revision_has_begun_is_left_to_it(store, declaration):
    run = Driver(store)
    run.ledger = Ledger(max_replayed=0)  # corrections are somebody else's task
    run.create(declaration)
    run.ask("one")
    run.tell("one", revenue=1.0)
    run.tell("one", revenue=2.0)
    with store.write() as session:
        begun = session.begin_snapshot("checkout", 4)
        assert session.add_snapshot_part(begun, 0, b"of the revision")
    run.write_snapshot()
    assert _snapshots(store) == ([], {4: False})
    with store.read() as session:
        assert list(session.snapshot("checkout", 4)) == [b"of the revision"]


def test_whoever_began_a_snapshot_does_not_complete_the_one_that_took_its_place(run, store):
    with store.write() as session:
        mine = session.begin_snapshot("checkout", 1)
        assert session.begin_snapshot("checkout", 1) is None
        session.add_snapshot_part(mine, 0, b"mine")
        session.drop_snapshots("checkout", 1)
        theirs = session.begin_snapshot("checkout", 1)
        assert session.add_snapshot_part(theirs, 0, b"theirs")
        assert not session.add_snapshot_part(mine, 1, b"mine")
        assert not session.complete_snapshot(mine)
        assert session.snapshot_heads("checkout") == {1: False}
        assert session.complete_snapshot(theirs)
        assert list(session.snapshot("checkout", 1)) == [b"theirs"]


def test_snapshots_make_way_for_a_new_one(run, store):
    """First those that nobody completed, be they of an earlier release; then the one that is missed least."""
    with store.write() as session:
        for seq in range(1, 9):
            session.save_snapshot("checkout", seq, [b"a part"])
        session._run("UPDATE snapshot_heads SET complete = 0 WHERE seq > 6")
        assert engine_module.begin_snapshot(session, "checkout", 8) is None, "there is one"
        assert len(session.snapshot_heads("checkout")) == 8
        assert engine_module.begin_snapshot(session, "checkout", 9)
        assert session.snapshot_heads("checkout") == {4: True, 6: True, 9: False}, "apart from each other"
        assert list(session.snapshot("checkout", 5)) == []


def test_of_many_snapshots_a_few_make_way_at_once(run, store):
    """An earlier release may have left hundreds; to drop them all would keep everybody waiting."""
    with store.write() as session:
        for seq in range(1, 30):
            session.save_snapshot("checkout", seq, [b"a part"])
        left = []
        for seq in range(30, 34):
            assert engine_module.begin_snapshot(session, "checkout", seq)
            left.append(len(session.snapshot_heads("checkout")))
    assert left == [20, 11, 3, 3]


@pytest.mark.parametrize("deepest", [50, 500, 2000, 100_000])
def test_with_three_snapshots_corrections_cost_hardly_more_than_with_all(deepest):
    rng = random.Random(deepest)
    few, every, folded = [], [], {"few": 0, "every": 0}
    for seq in range(200, 100_001, 200):
        first = max(1, seq - int(deepest ** rng.random()))  # the event whose value is corrected
        few, every = ([kept for kept in snapshots if kept < first] for snapshots in (few, every))
        folded["few"] += seq - max(few, default=0)
        folded["every"] += seq - max(every, default=0)
        while len(few) >= engine_module.MAX_SNAPSHOTS:
            few.remove(snapshots_module.least_missed(few, seq))
        few.append(seq)
        every.append(seq)
    assert folded["few"] <= 2 * folded["every"]


@pytest.mark.parametrize("seq", [1, 50, 150, 250, 350, 10**6])
def test_which_snapshot_makes_way_wherever_the_new_one_is(seq):
    """A revision may write one before the last event."""
    for kept in ([100, 200, 300], [300, 100, 200], [298, 299, 300], [2, 3, 300]):
        assert snapshots_module.least_missed(kept, seq) in kept


def test_arms_are_added_up_to_the_size_that_could_be_declared(store, declaration, monkeypatch):
    run = Driver(store)
    run.create(declaration)  # 3 arms, 2 metrics, 3 coordinates
    monkeypatch.setattr(experiment_module, "MAX_ESTIMATES", 4 * 2 * 3**2)
    run.add_arm("fourth")
    with pytest.raises(ConflictError, match=r"arm 'fifth' cannot be added: .* at most 72; got 5 x 2 x 3\^2"):
        run.add_arm("fifth")
    assert len(run.describe()["arms"]) == 4
    run.retire_arm("new")
    assert len(run.add_arm("fifth")["arms"]) == 5


def test_front_and_explain_count_every_arm(store, declaration):
    run = Driver(store)
    run.create({**declaration, "policy": {"name": "ConeKernel"}})
    assert run.front(PHONE)["chances"] == {"old": None, "new": None, "bold": None}, "nothing is known yet"
    for i in range(60):
        arm = run.ask(f"c{i}")["arm"]
        run.tell(f"c{i}", revenue=10.0 * (arm == "bold"), latency=1.0 + (arm == "old"))
    front, told = run.front(PHONE), run.explain(PHONE)
    assert set(front["chances"]) == {"old", "new", "bold"}
    reported = {row["arm"] for row in front["arms"]}
    assert {row["arm"] for row in told["beaten"]} == {"old", "new", "bold"} - reported
    assert told["beaten"]
    for row in told["beaten"]:
        assert row["by"] != row["arm"]
        assert row["chance"] == 1 - front["chances"][row["arm"]]
        assert len(row["leads"]) == len(row["deviations"]) == 2
