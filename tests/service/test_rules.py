"""Safety rules: what fires, what follows, and that every process and ``verify`` agree on it."""

import math
import random
from contextlib import closing
from itertools import pairwise

import pytest

from conebandit.diagnose import bound_watch
from conebandit.experiment.errors import InvalidError
from conebandit.service.engine.adopt import adopt
from conebandit.service.engine.ledger import Ledger
from conebandit.service.engine.turn import Turn
from conebandit.service.errors import ConflictError, NotFoundError
from conebandit.service.export import export
from conebandit.service.log.restore import restore
from conebandit.service.log.verify import verify
from conebandit.service.stores.base import open_store
from conebandit.service.stores.records import BEGINNING, from_lines, seal
from conebandit.service.stores.seals import Seals
from tests.service.driver import HOUR, PHONE, Driver, assert_same
from tests.service.plain_fold import plain_fold
from tests.service.plain_rules import evidence

NEVER = 0  # events that a turn may fold anew
DAY = 24 * HOUR


@pytest.fixture
def trial(declaration):
    """A trial in which 'latency' stands for something harmful, from 0 to 12, that is known within an hour."""
    declaration["metrics"][1] |= {"range": [0, 12], "default": 0.0}
    return declaration


def bound(**entries):
    return {"name": "harm", "metric": "latency", "above": 4, "error": 0.05, "then": "stop", **entries}


def begin(store, trial, *rules, **entries):
    run = Driver(store)
    run.create({**trial, "rules": list(rules), **entries})
    return run


def verified(store):
    with store.read() as session:
        report = verify(session, "checkout", every=True)
    assert report.problems == ()
    assert report.whole
    return report


def harm(run, n, value=12.0, first=0):
    """Decisions with a harmful value, until something happens; how many there were."""
    for i in range(first, first + n):
        run.ask(f"d{i}")
        run.tell(f"d{i}", latency=value)
        if run.state.rules.stopped:
            return i - first + 1
    return None


def kinds(run):
    return [event.kind for event in run.events]


# ---- bounds ---------------------------------------------------------------------------------------------------------


def test_it_stops_in_the_transaction_that_shows_it(store, trial):
    run = begin(store, trial, bound(per="experiment"))
    stopped_after = harm(run, 50)
    assert stopped_after is not None
    assert kinds(run)[-2:] == ["reported", "stopped"]
    body = run.events[-1].body
    assert (body["rule"], body["watched"], body["then"]) == ("harm", None, "stop")
    assert body["evidence"] >= 20
    assert body["seen"] == {"decisions": stopped_after, "known": stopped_after, "mean": 12.0}
    assert "by" not in body, "nobody did it"
    with pytest.raises(ConflictError, match=r"'checkout' may make 0 more decisions, its safety rules say \(harm\)"):
        run.ask("more")
    assert run.ask("d0")["id"] == "d0", "which was decided before"
    run.tell("d0", revenue=1.0)
    assert run.describe()["stopped"] == ["harm"]
    assert verified(store).decisions == stopped_after


def test_harmless_values_stop_nothing(store, trial):
    run = begin(store, trial, bound())
    assert harm(run, 60, value=3.0) is None
    assert verified(store).agrees


@pytest.mark.parametrize("then", ["baseline", "suspend", "stop"])
def test_what_follows(store, trial, then):
    run = begin(store, trial, bound(then=then))
    served = {}
    for i in range(300):
        if run.describe()["stopped"] and i > 100:
            break
        served[f"d{i}"] = arm = run.ask(f"d{i}")["arm"]
        run.tell(f"d{i}", latency=12.0 if arm == "new" else 0.0, revenue=1.0)
        if then == "stop" and run.state.rules.stopped:
            break
    [(name, arm)] = run.state.rules.stopped
    assert (name, arm) == ("harm", "new")
    if then == "stop":
        with pytest.raises(ConflictError):
            run.ask("more")
    else:
        more = run.decide([{"id": f"more{i}", "context": PHONE} for i in range(100)])
        allowed = {"old"} if then == "baseline" else {"old", "bold"}
        assert {m["arm"] for m in more} <= allowed
        assert all(m["mode"] == ("off" if then == "baseline" else "live") for m in more)
        for m in more:
            assert m["propensity"] == m["probabilities"][m["arm"]]
            assert sum(m["probabilities"].values()) == pytest.approx(1)
    assert verified(store).agrees


def test_the_other_side(store, trial):
    run = begin(store, trial, bound(below=6, above=None) | {"per": "experiment"})
    assert harm(run, 20, value=10.0) is None
    assert harm(run, 100, value=0.0, first=100) is not None
    assert verified(store).agrees


def test_what_is_not_known_counts_as_harmless(store, trial):
    """Bad values come at once; that there was none is only known when the window has closed."""
    run = begin(store, trial, bound(per="experiment"))
    rng = random.Random(1)
    for i in range(400):
        run.now += 60_000
        run.ask(f"d{i}")
        if rng.random() < 1 / 3:  # the mean is at the bound
            run.tell(f"d{i}", latency=12.0)
    assert not run.state.rules.stopped
    seen = run.rules()["rules"][0]
    assert seen["known"] < seen["decisions"] == 400
    assert seen["low"] <= 4.0 <= seen["high"]
    assert verified(store).agrees


def test_values_that_come_late_all_alike_do_not_hide_it(store, trial):
    """A hundred decisions always wait for their values, and what is known of the earlier ones counts all the same."""
    trial["metrics"][1] |= {"window": "30d"}
    run = begin(store, trial, bound(per="experiment"))
    for i in range(600):
        run.ask(f"d{i}")
        if i >= 100:
            run.tell(f"d{i - 100}", latency=12.0 if i % 5 < 3 else 0.0)
        if run.state.rules.stopped:
            break
    assert run.state.rules.stopped
    [watch] = run.state.rules._watches.values()
    assert watch.evidence < 20, "with all those that wait, there is not enough"
    assert i < 250
    assert verified(store).agrees


def test_harm_that_begins_late_is_found(store, trial):
    """Some of the money was not at stake while all was well."""
    run = begin(store, trial, bound(per="experiment"))
    for first in range(0, 600, 200):
        made = run.decide([{"id": f"d{i}", "context": PHONE} for i in range(first, first + 200)])
        run.report([{"id": m["id"], "values": {"latency": 0.0}} for m in made])
    assert harm(run, 60, first=1000) is not None
    assert verified(store).agrees


def test_a_window_that_closes_can_stop_before_a_decision(store, trial):
    """A default that is harmful; then the stop is dated, and written, before the decision that it forbids."""
    trial["metrics"][1]["default"] = 12.0
    run = begin(store, trial, bound(per="experiment"))
    run.decide([{"id": f"d{i}", "context": PHONE} for i in range(30)])
    run.now += 2 * HOUR
    with run.transaction() as transaction, pytest.raises(ConflictError, match="harm"):
        Turn(transaction).decide("checkout", [{"id": "more", "context": PHONE}])
    assert kinds(run)[-1] == "stopped"
    assert run.events[-1].body["at"] == run.now
    before = run.digest()
    run.ledger = Ledger()
    assert run.digest() == before
    assert verified(store).decisions == 30


def test_a_key_that_takes_over_may_close_the_window(tmp_path, trial):
    """Every event that moves the clock may make a rule fire, also one that no turn appends."""
    trial["metrics"][1]["default"] = 12.0
    with closing(open_store(str(tmp_path / "log.db"))) as store:
        run = begin(store, trial, bound(per="experiment"))
        run.decide([{"id": f"d{i}", "context": PHONE} for i in range(30)])
    with closing(open_store(str(tmp_path / "log.db"), seals=Seals({"k": "1" * 43}))) as store:
        adopt(store, "checkout", "somebody", run.now + 2 * HOUR)
        assert kinds(Driver(store))[-2:] == ["sealed", "stopped"]
        assert Driver(store).describe()["stopped"] == ["harm"]
        assert verified(store).snapshots == 1


def test_a_correction_does_not_undo_a_stop(store, trial):
    run = begin(store, trial, bound(per="experiment"))
    n = harm(run, 50)
    for i in range(n):
        run.tell(f"d{i}", latency=0.0)
    assert kinds(run)[-1] == "revised"
    assert run.describe()["stopped"] == ["harm"]
    assert run.rules()["rules"][0]["evidence"] < 1, "though there is no evidence left"
    assert verified(store).agrees
    run.lift("harm", "the device was not calibrated", "restart")
    run.ask("more")
    assert verified(store).agrees


def test_a_correction_can_stop(store, trial):
    """Also when it counts later: the stop then follows on the event from which on it does."""
    run = begin(store, trial, bound(per="experiment"))
    run.ledger = Ledger(NEVER)
    for i in range(30):
        run.ask(f"d{i}")
        run.tell(f"d{i}", latency=0.0)
    for i in range(30):
        run.tell(f"d{i}", latency=12.0)
    assert "stopped" not in kinds(run)
    assert verified(store).agrees
    with run.transaction() as transaction:
        transaction.state("checkout")
        transaction.revise_now("checkout")
    assert kinds(run)[-2:] == ["revised", "stopped"]
    assert verified(store).agrees


def test_corrections_count_for_arms_that_were_retired_since(store, trial):
    """They are nothing to the policy; but a rule on all arms counts them, and snapshots must not be older."""
    run = begin(store, trial, bound(per="experiment", then="baseline"))
    arms = {f"d{i}": run.ask(f"d{i}")["arm"] for i in range(12)}
    new, old = (next(id_ for id_, arm in arms.items() if arm == name) for name in ("new", "old"))
    run.tell(new, latency=0.0)
    run.retire_arm("new")
    run.write_snapshot()
    run.tell(old, latency=1.0)
    run.ledger = Ledger(NEVER)
    run.tell(new, latency=12.0)
    run.tell(old, latency=2.0)
    run.ledger = Ledger()
    run.ask("next")
    assert run.rules()["rules"][0]["mean"] == 7.0
    assert verified(store).state == run.digest()["state"]


def test_lifting(store, trial):
    run = begin(store, trial, bound(per="experiment"), {"at_most": 1000})
    with pytest.raises(NotFoundError, match="no rule 'other'"):
        run.lift("other", "why not", "restart")
    with pytest.raises(InvalidError, match="then must be one of restart, disable"):
        run.lift("harm", "why not", "stop")
    with pytest.raises(InvalidError, match="reason must be a text"):
        run.lift("harm", "", "restart")
    run.lift("harm", "it has done nothing", "restart")
    assert kinds(run) == ["created"], "nothing to lift"
    first = harm(run, 50)
    run.lift("harm", "reviewed", "restart")
    assert harm(run, 50, first=100) == first, "it begins anew, and values from before do not count"
    run.lift("harm", "reviewed again", "disable")
    run.lift("harm", "reviewed again", "disable")
    assert harm(run, 30, first=200) is None
    assert run.rules()["rules"][0]["status"] == "disabled"
    run.lift("harm", "on again", "restart")
    assert harm(run, 30, first=300) is not None
    assert kinds(run).count("lifted") == 3
    assert verified(store).agrees


# ---- caps, burn-in --------------------------------------------------------------------------------------------------


def test_an_arm_at_its_cap_is_not_served(store, trial):
    run = begin(store, trial, {"arm": "new", "at_most": 3, "per": "1d"})
    for day in range(3):
        run.now = (20_000 + day) * DAY
        made = run.decide([{"id": f"{day}-{i}", "context": PHONE} for i in range(40)])
        assert [m["arm"] for m in made].count("new") == 3
        last = made[-1]
        assert set(last["probabilities"]) == set(last["active"]) == {"old", "bold"}
        assert last["probabilities"] == pytest.approx({"old": 0.5, "bold": 0.5})
    assert run.rules()["rules"][0]["status"] == "reached"
    assert verified(store).decisions == 120


@pytest.mark.parametrize("then", ["stop", "baseline"])
def test_enrolment_is_limited(store, trial, then):
    run = begin(store, trial, {"at_most": 10, "then": then})
    run.decide([{"id": f"d{i}", "context": PHONE} for i in range(8)])
    rest = [{"id": f"e{i}", "context": PHONE} for i in range(3)]
    if then == "stop":
        with pytest.raises(ConflictError, match="may make 2 more decisions"):
            run.decide(rest)
        assert len(run.events) == 9, "all or none"
        run.decide(rest[:2])
        with pytest.raises(ConflictError, match=r"0 more decisions, its safety rules say \(at most\)"):
            run.ask("last")
        run.lift("at most", "more are needed", "disable")
        run.ask("last")
    else:
        assert [m["mode"] for m in run.decide(rest)] == ["live", "live", "off"]
    assert verified(store).agrees


def test_the_first_decisions_are_drawn_from_all_arms(store, trial):
    run = begin(store, trial, {"burn_in": 300}, {"arm": "bold", "at_most": 50})
    made = run.decide([{"id": f"d{i}", "context": PHONE} for i in range(310)])
    early = [m for m in made if "bold" in m["probabilities"]]
    assert [m["arm"] for m in made].count("bold") == 50
    assert all(p == pytest.approx(1 / 3) for m in early[:100] for p in m["probabilities"].values())
    counts = [[m["arm"] for m in made[:150]].count(arm) for arm in ("old", "new", "bold")]
    assert min(counts) > 25
    assert made[250]["probabilities"] == pytest.approx({"old": 0.5, "new": 0.5})
    assert verified(store).decisions == 310


# ---- what the log says ----------------------------------------------------------------------------------------------


@pytest.mark.untraced
@pytest.mark.parametrize(("seed", "kept"), [(0, 100), (1, 100), (2, 100), (3, 3)])
def test_any_traffic_means_what_the_twin_says(store, trial, seed, kept, monkeypatch):
    """Two ledgers that take turns, corrections that count late, snapshots, changes, lifts: all agree at every step."""
    monkeypatch.setattr(bound_watch, "RESTART", 4)
    monkeypatch.setattr(bound_watch, "MAX_BETS", kept)
    rng = random.Random(seed)
    trial["metrics"][1]["default"] = 9.0
    rules = [
        bound(above=2, error=0.2, then="suspend"),
        bound(name="all", above=2, per="experiment", error=0.1, then="baseline"),
    ]
    rules += [{"arm": "bold", "at_most": 3, "per": "12h"}, {"burn_in": 10}]
    run = begin(store, trial, *rules)
    ledgers, ids = [Ledger(NEVER), Ledger(NEVER)], []
    for step in range(170):
        run.ledger = rng.choice(ledgers)
        run.now += rng.choice([0, 0, 1, 60_000, HOUR // 2])
        what = rng.random()
        try:
            if what < 0.42 or not ids:
                run.ask_at_random(rng, ids, step)
            elif what < 0.82:
                run.tell_at_random(rng, ids)
            elif what < 0.88 and run.awaits_revision:
                run.go_on_from(run.begin_revision())
            elif what < 0.92:
                run.write_snapshot()
            elif what < 0.96:
                run.lift(rng.choice(["harm", "all"]), "to go on", "restart")
            elif what < 0.97:
                run.retire_arm(rng.choice(["new", "bold"]))
            else:
                run.set_stage(rng.choice(["paused", "running", "running", "running"]), "a while")
        except ConflictError:
            ids[:] = [id_ for id_ in ids if id_ in {e.decision for e in run.events}]
        run.describe()  # at the head
        check_against_the_twin(run, rules[:2])
    assert "stopped" in kinds(run)
    plain, digests = plain_fold(run.events), set()
    for ledger in [*ledgers, Ledger(NEVER)]:
        run.ledger = ledger
        assert_same(run.policy(), plain)
        digests.add(run.digest()["state"])
    assert digests == {verified(store).state}


def check_against_the_twin(run, rules):
    """The evidence is that of all decisions; when it was enough, at most that of some first ones."""
    events = run.events
    for (name, arm), watch in run.state.rules._watches.items():
        rule = next(rule for rule in rules if rule["name"] == name)
        now, largest = evidence(events, rule, arm, restart=4)
        assert watch.evidence <= now * (1 + 1e-9)
        if watch.fired is None:
            assert watch.evidence < watch.rule.needed
        else:
            assert math.log(watch.rule.needed) <= watch.fired <= math.log(largest) + 1e-9
        if bound_watch.MAX_BETS > 50:  # so that none are given up
            assert watch.evidence == pytest.approx(now, rel=1e-9)


def forged(store, change):
    """A log with some records changed, dropped or added, sealed again; as a store."""
    with store.read() as session:
        records = session.events("checkout", limit=10**6)
    head, sealed = BEGINNING, []
    for kind, decision, body in change([(r.kind, r.decision, r.body) for r in records]):
        record = seal(head.check, head.seq + 1, kind, decision, body)
        sealed.append(record)
        head = record.head
    return sealed


@pytest.fixture
def elsewhere(tmp_path):
    other = open_store(str(tmp_path / "elsewhere.db"))
    yield other
    other.close()


def problems(other, records):
    restore(other, iter(records))
    with other.read() as session:
        return verify(session, "checkout").problems


def test_a_stop_that_was_taken_out_is_missed(store, elsewhere, trial):
    run = begin(store, trial, bound(then="suspend", arm="new"))
    for i in range(60):
        arm = run.ask(f"d{i}")["arm"]
        run.tell(f"d{i}", latency=12.0 if arm == "new" else 0.0, revenue=0.0)
    assert kinds(run).count("stopped") == 1
    found = problems(elsewhere, forged(store, lambda log: [e for e in log if e[0] != "stopped"]))
    assert any("rule 'harm' should have stopped here" in problem for problem in found)


def test_a_stop_that_was_put_in_is_found(store, elsewhere, trial):
    run = begin(store, trial, bound(per="experiment", then="baseline"))
    harm(run, 3)
    body = {"at": run.now, "rule": "harm", "watched": None, "then": "baseline", "evidence": 21.0, "seen": {}}
    found = problems(elsewhere, forged(store, lambda log: [*log, ("stopped", None, body)]))
    assert len(found) == 1
    assert "event 8: rule 'harm' has stopped, and from the state follows None" in found[0]


def test_a_decision_that_was_made_in_spite_of_a_stop_is_found(store, elsewhere, trial):
    run = begin(store, trial, bound(per="experiment"))
    harm(run, 50)

    def move_last_decision_behind_the_stop(log):
        return [*log, ("decided", "x", {**log[1][2], "id": "x", "at": run.now})]

    found = problems(elsewhere, forged(store, move_last_decision_behind_the_stop))
    assert any("there should be no decision" in problem for problem in found)


def test_export_and_import(store, elsewhere, trial):
    run = begin(store, trial, bound(per="experiment"), {"burn_in": 3})
    harm(run, 50)
    run.lift("harm", "reviewed", "restart")
    harm(run, 5, first=100)
    lines = b"".join(export(store, "checkout", "jsonl")).decode().splitlines(keepends=True)
    restore(elsewhere, from_lines(iter(lines)))
    there = Driver(elsewhere)
    assert there.digest() == run.digest()
    assert there.rules() == run.rules()
    assert b"d0" in b"".join(export(elsewhere, "checkout", "csv"))


def test_every_rule_is_in_a_snapshot(store, trial):
    run = begin(
        store, trial, bound(), bound(name="low", above=None, below=1), {"at_most": 5, "arm": "new"}, {"burn_in": 9}
    )
    rng, ids = random.Random(3), []
    for step in range(60):
        run.ask_at_random(rng, ids, step)
        run.tell_at_random(rng, ids)
    run.write_snapshot()
    before, rules = run.digest(), run.rules()
    run.ledger = Ledger()
    assert run.digest() == before
    assert run.rules() == rules
    assert run.state.last_snapshot == run.state.head.seq, "it was read from there"
    assert all(a.seq < b.seq for a, b in pairwise(run.events))
