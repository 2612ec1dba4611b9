"""Corrections and changes of arms in long logs: decisions go on, and the log says from where on they count."""

import random
import threading
import time

import pytest

import conebandit as cb
from conebandit.experiment.declaration import Experiment
from conebandit.service.engine import revisions as revision
from conebandit.service.engine import writer
from conebandit.service.engine.ledger import Ledger
from conebandit.service.engine.snapshots import MAX_SNAPSHOTS
from conebandit.service.engine.writer import Writer
from conebandit.service.log import windows
from conebandit.service.log.replay import fold_page, start
from conebandit.service.log.verify import verify
from conebandit.service.replies import StateDigest
from conebandit.service.stores.base import open_store
from conebandit.service.stores.session import Session
from tests.service.driver import HOUR, PHONE, Driver, as_dict, assert_same
from tests.service.load import Process, wait_for_revisions
from tests.service.plain_fold import plain_fold
from tests.service.test_equivalence import folded_anew

NEVER = 0  # events that a turn may fold anew


class Gate:
    """Lets a revision go on when the test says so."""

    def __init__(self, monkeypatch):
        self.open, self.reached = threading.Event(), threading.Event()
        monkeypatch.setattr(revision, "fold_page", self._fold_page)

    def _fold_page(self, *args, **options):
        self.reached.set()
        assert self.open.wait(30)
        return fold_page(*args, **options)


class Service:
    """A writer on a store, asked by name."""

    def __init__(self, address):
        self.writer = Writer(open_store(address))

    def __getattr__(self, name):
        return lambda *args: as_dict(
            self.writer.submit("checkout", lambda turn: getattr(turn, name)("checkout", *args)).result()
        )

    def create(self, declaration):
        declared = Experiment.from_dict(declaration)
        self.writer.submit("checkout", lambda turn: turn.create(declared)).result()

    def fill(self, rounds, wrong=None):
        """Rounds of a decision and its outcome; that of the first one may be wrong."""
        asked = [{"id": f"d{i}", "context": {"age": 20 + i % 70, "device": "phone"}} for i in range(rounds)]
        for i in range(0, rounds, 50):
            made = self.decide(asked[i : i + 50])
            values = [{"revenue": float(int(m["id"][1:]) % 7), "latency": float(len(m["arm"]))} for m in made]
            if i == 0 and wrong is not None:
                values[0]["revenue"] = wrong
            self.report([{"id": m["id"], "values": v} for m, v in zip(made, values, strict=True)])

    def settle(self):
        """Wait until all corrections count."""
        end = time.monotonic() + 30
        while self.describe()["revising"]:
            assert time.monotonic() < end
            time.sleep(0.01)

    def events(self):
        with self.writer.store.read() as session:
            return session.events("checkout", limit=10**6)

    def verify(self):
        with self.writer.store.read() as session:
            return verify(session, "checkout", StateDigest.from_dict(self.digest()), every=True)


@pytest.fixture
def service(address, declaration):
    service = Service(address)
    service.create(declaration)
    yield service
    service.writer.close()


def correct_first(service, value):
    return service.report([{"id": "d0", "values": {"revenue": value}}])[0]["corrected"]


def test_decisions_are_answered_while_the_log_is_folded_anew(service, monkeypatch):
    service.fill(200, wrong=99.0)
    gate = Gate(monkeypatch)
    before = service.digest()["state"]
    assert correct_first(service, 0.0) == ["revenue"]
    assert gate.reached.wait(30)
    made = service.decide([{"id": f"meanwhile{i}", "context": PHONE} for i in range(20)])
    service.report([{"id": m["id"], "values": {"revenue": 1.0}} for m in made])
    assert correct_first(service, -5.0) == ["revenue"], "and another one, which must wait for the next revision"
    assert service.describe()["revising"]
    assert service.digest()["state"] != before, "what is new is learned"
    assert_same(service.policy(), plain_fold(service.events()))
    assert service.verify().agrees
    gate.open.set()
    service.settle()
    events = service.events()
    assert [e.body["upto"] for e in events if e.kind == "revised"] == [402, 444]
    as_if_first = [e._replace(text=e.text.replace("99.0", "-5.0")) for e in events if e.kind != "revised"]
    assert '"revenue":-5.0' in next(e.text for e in as_if_first if e.kind == "reported" and e.decision == "d0")
    assert_same(service.policy(), plain_fold(as_if_first))
    service.decide([{"id": "after", "context": PHONE}])
    report = service.verify()
    assert (report.agrees, report.recomputed, report.decisions) == (True, 221, 221), "every decision, made again"
    with service.writer.store.read() as session:
        assert verify(session, "checkout").whole, "also those that were made in a state that is no more"
        assert session.snapshots("checkout"), "and other processes go on from here"


def test_there_are_never_more_than_three_snapshots(service, monkeypatch):
    """However many corrections there are, and however recent the values that they concern."""
    began, counts = Session.begin_snapshot, []

    def begin_and_count(session, *args):
        begun = began(session, *args)
        counts.append(len(session.snapshot_heads("checkout")))
        return begun

    monkeypatch.setattr(Session, "begin_snapshot", begin_and_count)
    service.fill(200)
    for i in range(12):
        made = service.decide([{"id": f"more{i}-{j}", "context": PHONE} for j in range(20)])
        service.report([{"id": m["id"], "values": {"revenue": 1.0}} for m in made])
        service.report([{"id": made[-1]["id"], "values": {"revenue": 2.0}}])
        service.settle()
    assert len(counts) >= 12
    assert max(counts) == MAX_SNAPSHOTS
    assert_same(service.policy(), plain_fold(service.events()))
    assert service.verify().agrees


@pytest.mark.parametrize("policy", ["LinearParetoUCB", "ScalarisedUCB"])
def test_a_retired_arm_is_not_served_while_the_policy_still_has_it(tmp_path, declaration, monkeypatch, policy):
    service = Service(str(tmp_path / "log.db"))
    service.create({**declaration, "policy": policy})
    service.fill(200)
    gate = Gate(monkeypatch)
    some = [{"context": {"age": 18 + i % 80, "device": "phone"}} for i in range(300)]
    assert "new" in {arm for made in service.decide(some) for arm in made["active"]}
    service.retire_arm("new")
    service.add_arm("fresh")
    assert gate.reached.wait(30)
    replies = service.decide(some)
    assert {arm for made in replies for arm in (made["arm"], *made["active"])} <= {"old", "bold"}
    assert all(made["propensity"] == 1.0 for made in replies if len(made["active"]) == 1)
    for made in replies:
        assert made["probabilities"] == dict.fromkeys(made["active"], made["propensity"])
    assert {row["arm"] for row in service.front(PHONE)["arms"]} <= {"old", "bold"}
    assert set(service.explain(PHONE)["active"]) <= {"old", "bold"}
    assert service.verify().agrees
    gate.open.set()
    service.settle()
    assert "fresh" in {made["arm"] for made in service.decide(some)}
    report = service.verify()
    assert (report.agrees, report.recomputed) == (True, report.decisions)
    assert_same(service.policy(), plain_fold(service.events()))
    service.writer.close()


def test_the_floor_holds_while_a_retired_arm_is_still_in_the_policy(tmp_path, declaration, monkeypatch):
    """Half of the decisions are drawn from the arms that may be served (false alarm: 1e-5)."""
    service = Service(str(tmp_path / "log.db"))
    service.create({**declaration, "policy": {"name": "LinearParetoUCB", "explore": 0.5}})
    service.fill(200)
    some = [{"context": {"age": 18 + i % 80, "device": "phone"}} for i in range(1000)]
    for made in service.decide(some):
        assert min(made["probabilities"].values()) >= 0.5 / 3
        assert made["active"] == ["old", "new", "bold"]
    gate = Gate(monkeypatch)
    service.retire_arm("new")
    assert gate.reached.wait(30)
    replies = service.decide(some)
    expected = played = 0.0
    for made in replies:
        chances = made["probabilities"]
        assert set(chances) == set(made["active"]) == {"old", "bold"}
        assert sorted(chances.values()) in ([0.25, 0.75], [0.5, 0.5])
        assert made["propensity"] == chances[made["arm"]]
        expected, played = expected + chances["bold"], played + (made["arm"] == "bold")
    assert abs(played - expected) < 4.5 * 0.5 * len(replies) ** 0.5
    unlikely = [made for made in replies if made["propensity"] == 0.25]
    assert unlikely, "what the policy would not have played is played"
    assert service.verify().agrees
    gate.open.set()
    service.settle()
    assert min(min(made["probabilities"].values()) for made in service.decide(some)) >= 0.5 / 2
    report = service.verify()
    assert (report.agrees, report.recomputed) == (True, report.decisions)
    service.writer.close()


def test_a_revision_that_was_cut_off_is_begun_again(address, declaration, monkeypatch):
    service = Service(address)
    service.create(declaration)
    service.fill(200, wrong=99.0)
    gate = Gate(monkeypatch)
    correct_first(service, 0.0)
    assert gate.reached.wait(30)
    threading.Timer(0.1, gate.open.set).start()
    service.writer.close()  # gives up, and keeps a snapshot of the state as it was served
    again = Service(address)
    assert again.describe()["revising"]
    assert [e.kind for e in again.events()].count("revised") == 0
    again.settle()
    assert_same(again.policy(), plain_fold(again.events()))
    assert again.verify().agrees
    again.writer.close()


def test_a_service_that_is_killed_while_it_revises(tmp_path, declaration):
    address = str(tmp_path / "log.db")
    server = Process(address)
    server.wait_until_ready()
    with cb.Client(server.url, retries=100, timeout=120.0) as client:
        client.create(declaration)
        ids = [f"d{i}" for i in range(1000)]
        made = client.decide_many("checkout", [PHONE] * 1000, ids=ids)
        client.report_many("checkout", {m.id: {"revenue": float(len(m.arm))} for m in made})
        for value in (5.0, 6.0, 7.0):
            client.report("checkout", "d0", {"revenue": value})
            server.kill()
            server.start()
        server.wait_until_ready()
        wait_for_revisions(client)
        served = client.state("checkout")
    server.stop()
    events, state, report = folded_anew(address, served)
    assert (report.agrees, report.recomputed) == (True, 1000)
    assert_same(state.policy, plain_fold([e for e in events if e.kind != "revised" or e.body["upto"] > 2001]))


def test_processes_that_share_a_database_go_on_from_the_same_state(postgres, declaration, monkeypatch):
    address = postgres.fresh_database("revisions")
    one, two = Service(address), Service(address)
    one.create(declaration)
    one.fill(200, wrong=99.0)
    assert two.digest() == one.digest()
    gate = Gate(monkeypatch)
    correct_first(one, 0.0)
    assert gate.reached.wait(30)
    first = two.decide([{"id": "asked-of-two", "context": PHONE}])
    assert one.decide([{"id": "asked-of-two", "context": PHONE}]) == first
    assert two.digest() == one.digest()
    gate.open.set()
    one.settle()
    assert not two.describe()["revising"]
    assert two.digest() == one.digest()
    with two.writer.store.read() as session:
        assert [two.writer._ledger.state("checkout").last_snapshot] == session.snapshots("checkout"), "not folded anew"
    assert two.verify().agrees
    for service in (one, two):
        service.writer.close()


def test_another_process_takes_over_if_the_first_is_gone(postgres, declaration, monkeypatch):
    monkeypatch.setattr(revision, "RETRY", 0.0)
    address = postgres.fresh_database("takeover")
    one, two = Service(address), Service(address)
    one.create(declaration)
    one.fill(200, wrong=99.0)
    two.describe()
    gate = Gate(monkeypatch)
    correct_first(one, 0.0)
    assert gate.reached.wait(30)
    threading.Timer(0.1, gate.open.set).start()
    one.writer.close()
    two.settle()
    assert_same(two.policy(), plain_fold(two.events()))
    assert two.verify().agrees
    two.writer.close()


def test_a_revision_that_fails_is_tried_again(service, monkeypatch):
    monkeypatch.setattr(revision, "RETRY", 0.2)
    service.fill(200, wrong=99.0)
    times = []

    def fails_once(*args):
        times.append(time.monotonic())
        if len(times) == 1:
            raise RuntimeError("a slip")
        return start(*args)

    monkeypatch.setattr(revision, "start", fails_once)
    correct_first(service, 0.0)
    service.settle()
    assert times[1] - times[0] >= 0.2
    assert_same(service.policy(), plain_fold(service.events()))


def test_short_logs_are_folded_anew_at_once(service):
    service.fill(100, wrong=99.0)
    correct_first(service, 0.0)
    assert service.events()[-1].kind == "revised"
    assert len(service.events()) <= writer.MAX_REPLAYED
    assert_same(service.policy(), plain_fold(service.events()))


@pytest.mark.untraced
@pytest.mark.parametrize("seed", range(4))
def test_any_log_with_late_revisions_means_what_the_plain_fold_says(store, declaration, seed, monkeypatch):
    """Two ledgers that take turns; revisions begin and end at any moment, overlap, and are sometimes of no use."""
    rng = random.Random(seed)
    monkeypatch.setattr(windows, "MAX_AHEAD", 3)
    run = Driver(store)
    run.ledger = Ledger(NEVER)
    run.create(declaration)
    ledgers, ids, begun = [run.ledger, Ledger(NEVER)], [], []
    for step in range(160):
        run.ledger = rng.choice(ledgers)
        run.now += rng.choice([0, 0, 1, 60_000, HOUR // 2])
        what = rng.random()
        if what < 0.4 or not ids:
            run.ask_at_random(rng, ids, step)
        elif what < 0.76:
            run.tell_at_random(rng, ids)
        elif what < 0.84 and run.awaits_revision:
            begun.append(run.begin_revision(fold=rng.random() < 0.5))
        elif what < 0.9 and begun:
            revise(run, begun.pop(rng.randrange(len(begun))))
            assert_same(run.policy(), plain_fold(run.events))
        elif what < 0.94:
            run.write_snapshot()
        elif what < 0.96:
            run.set_mode(rng.choice(["live", "live", "shadow", "off"]))
        elif what < 0.98:
            run.add_arm(f"arm{step}")
        else:
            run.retire_arm(rng.choice(["new", "bold"]))
    plain, digests = plain_fold(run.events), []
    assert [e.kind for e in run.events].count("revised") > 1
    for ledger in [*ledgers, Ledger(NEVER)]:
        run.ledger = ledger
        assert_same(run.policy(), plain)
        digests.append(run.digest())
    with store.read() as session:
        report = verify(session, "checkout", every=True)
        assert verify(session, "checkout").agrees
    assert report.problems == ()
    assert report.recomputed == report.decisions
    assert {d["state"] for d in digests} == {report.state}


def revise(run, revised):
    with run.transaction() as transaction:
        transaction.revise(revised)
