"""What is said about the log afterwards: ranges, late uploads, retractions, voids and corrected contexts."""

import json
import math
import random
from contextlib import suppress
from datetime import UTC, datetime
from unittest.mock import Mock, patch

import pytest

from conebandit.experiment.declaration import Experiment
from conebandit.experiment.errors import InvalidError
from conebandit.service.engine.ledger import Ledger
from conebandit.service.engine.repair import repair_clock
from conebandit.service.errors import ConflictError, CorruptionError, NotFoundError
from conebandit.service.log import windows
from conebandit.service.log.replay import rebuild
from conebandit.service.log.verify import verify
from conebandit.service.stores.base import open_store
from conebandit.service.stores.records import Record, seal
from tests.service.driver import HOUR, PHONE, Driver, assert_same
from tests.service.plain_fold import plain_fold
from tests.service.test_export import learned, outcome, table
from tests.service.test_export import taught as each_metric

DESK = {"age": 60, "device": "desk"}
YEAR = 365 * 24 * HOUR
NEVER = 0  # events that a turn may fold anew


@pytest.fixture
def guarded(declaration):
    """Metrics with all that can be declared about ranges and windows."""
    metrics = [
        {"name": "revenue", "range": [0, 10], "outside": "clip"},
        {"name": "latency", "direction": "min", "worst": 10, "range": [0, 10], "outside": "hold",
         "window": "1h", "default": 10, "upload": "2h"},
        {"name": "pain", "range": [0, 10], "window": "30m", "default": 5},
        {"name": "visits", "range": [0, 10], "outside": "hold"},
    ]  # fmt: skip
    return {**declaration, "metrics": metrics}


@pytest.fixture
def run(tmp_path, guarded):
    """An experiment with one decision, ``a``."""
    store = open_store(str(tmp_path / "log.db"))
    driver = Driver(store)
    driver.create(guarded)
    driver.ask("a")
    yield driver
    store.close()


def kinds(run):
    return [event.kind for event in run.events]


def iso(at):
    return datetime.fromtimestamp(at / 1000, UTC).isoformat()


def tell(run, id_, at=None, **values):
    return run.report([{"id": id_, "values": values, "observed_at": None if at is None else iso(at)}])[0]


def review(run, id_, verdict, **values):
    return run.review([{"id": id_, "values": values, "verdict": verdict, "reason": "seen"}])[0]["changed"]


def retract(run, id_, *metrics):
    return run.retract([{"id": id_, "metrics": list(metrics), "reason": "of another visitor"}])[0]["changed"]


def void(run, id_, *, again=False):
    return run.void([{"id": id_, "void": not again, "reason": "a robot"}])[0]["changed"]


def move(run, id_, context):
    return run.correct_context([{"id": id_, "context": context, "reason": "a typing error"}])[0]["changed"]


def taught(run):
    """The values that the policy has learned, by metric; it is what the plain fold says, and ``verify`` agrees."""
    assert_same(run.policy(), plain_fold(run.events))
    with run.store.read() as session:
        report = verify(session, run.id, every=True)
    assert (report.problems, report.recomputed) == ((), report.decisions)
    found = {}
    metrics = Experiment.from_dict(run.events[0].body["declaration"]).metrics

    def observe(x, _, reward):
        for metric, value in zip(metrics, reward, strict=True):
            if not math.isnan(value):
                found.setdefault(metric.name, []).append(metric.value(value))

    with patch("tests.service.plain_fold.make_policy", return_value=Mock(observe=observe)):
        plain_fold(run.events)
    return found


def contexts(run):
    """The contexts in which something was learned."""
    observe = Mock()
    with patch("tests.service.plain_fold.make_policy", return_value=Mock(observe=observe)):
        plain_fold(run.events)
    return [tuple(call.args[0]) for call in observe.call_args_list]


# ---- ranges ---------------------------------------------------------------------------------------------------------


def test_a_value_outside_its_range_is_refused_by_default(run):
    before = run.digest()
    for value in (-99999.0, 10.001, -1e-9):
        with pytest.raises(InvalidError, match="'pain' must lie in its range, 0 to 10"):
            tell(run, "a", pain=value, revenue=3.0)
    assert run.digest() == before
    assert tell(run, "a", pain=10.0)["recorded"] == ["pain"]


def test_a_value_is_clipped_and_the_log_has_it_as_it_was_reported(run):
    receipt = tell(run, "a", revenue=99.0)
    assert (receipt["recorded"], receipt["clipped"]) == (["revenue"], ["revenue"])
    assert run.events[-1].body["values"] == {"revenue": 99.0}
    assert taught(run) == {"revenue": [10.0]}
    assert tell(run, "a", revenue=99.0)["repeated"] == ["revenue"]
    before = run.digest()["state"]
    receipt = tell(run, "a", revenue=1000.0)
    assert (receipt["corrected"], receipt["clipped"]) == (["revenue"], ["revenue"])
    assert "revised" not in kinds(run), "what counts is the same"
    assert run.digest()["state"] != before, "but the log went on"
    assert tell(run, "a", revenue=10.0)["clipped"] == [], "the boundary is in the range"
    assert tell(run, "a", revenue=-5.0)["clipped"] == ["revenue"]
    assert taught(run) == {"revenue": [0.0]}


def test_a_value_on_hold_counts_once_it_is_released(run):
    receipt = tell(run, "a", visits=-99999.0, revenue=1.0)
    assert (receipt["held"], receipt["recorded"]) == (["visits"], ["revenue"])
    assert kinds(run)[-2:] == ["reported", "held"]
    assert taught(run) == {"revenue": [1.0]}
    assert review(run, "a", "release", visits=-99999.0)
    assert kinds(run)[-2:] == ["reviewed", "revised"]
    assert sorted(taught(run)) == ["revenue", "visits"]
    assert taught(run)["visits"] == [-99999.0]
    before = run.digest()
    assert not review(run, "a", "release", visits=-99999.0)
    assert tell(run, "a", visits=-99999.0)["repeated"] == ["visits"]
    with pytest.raises(ConflictError, match="not on hold for 'a': nothing is"):
        review(run, "a", "reject", visits=-99999.0)
    assert run.digest() == before


def test_a_value_that_is_rejected_stays_away_until_another_one_comes(run):
    tell(run, "a", visits=77.0)
    assert review(run, "a", "reject", visits=77.0)
    before = run.digest()
    assert not review(run, "a", "reject", visits=77.0)
    assert tell(run, "a", visits=77.0)["repeated"] == ["visits"], "a client that sends again does not undo a review"
    with pytest.raises(ConflictError, match="nothing is"):
        review(run, "a", "release", visits=77.0)
    assert run.digest() == before
    assert taught(run) == {}
    assert tell(run, "a", visits=78.0)["held"] == ["visits"]
    assert tell(run, "a", visits=7.0)["recorded"] == ["visits"]
    assert taught(run) == {"visits": [7.0]}


def test_another_value_replaces_the_one_on_hold(run):
    tell(run, "a", visits=77.0)
    tell(run, "a", visits=78.0)
    with pytest.raises(ConflictError, match=r"77.0 of 'visits' is not on hold for 'a': 78.0 is"):
        review(run, "a", "release", visits=77.0)
    assert review(run, "a", "release", visits=78.0)
    assert taught(run) == {"visits": [78.0]}
    tell(run, "a", visits=5.0)
    assert taught(run) == {"visits": [5.0]}
    tell(run, "a", visits=90.0)
    assert taught(run) == {"visits": [5.0]}, "what counted counts as long as its correction is on hold"
    review(run, "a", "reject", visits=90.0)
    assert taught(run) == {"visits": [5.0]}
    tell(run, "a", visits=91.0)
    tell(run, "a", visits=5.0)
    with pytest.raises(ConflictError, match="nothing is"):
        review(run, "a", "release", visits=91.0)
    assert taught(run) == {"visits": [5.0]}


def test_a_value_that_was_held_in_time_is_in_time_when_it_is_released(run):
    run.now += HOUR
    assert tell(run, "a", latency=-1.0)["held"] == ["latency"]
    run.now += 10 * HOUR
    run.ask("b")
    assert taught(run) == {"pain": [5.0]}, "no default in place of a value that has come"
    review(run, "a", "release", latency=-1.0)
    assert sorted(taught(run)["latency"]) == [-1.0]
    receipt = tell(run, "b", latency=-2.0)
    run.now += 10 * HOUR
    assert (receipt["held"], receipt["late"]) == (["latency"], [])
    run.ask("c")
    run.now += 10 * HOUR
    receipt = tell(run, "c", latency=-2.0)
    assert (receipt["held"], receipt["late"]) == (["latency"], ["latency"])
    review(run, "c", "release", latency=-2.0)
    assert taught(run)["latency"] == [-1.0, 10.0], "late, whoever releases it"


def test_past_rows_are_clipped_and_never_held(declaration):
    def learn(outside):
        metric = {"name": "m", "range": [0, 10], "outside": outside}
        experiment = Experiment.from_dict({**declaration, "metrics": [metric], "context": []})
        return experiment.learn({"arm": ["old", "new"], "m": [3.0, 99.0]})

    assert learn("clip").policy.state()["counts"].sum() == 2
    for outside in ("hold", "refuse"):
        with pytest.raises(ValueError, match=r"'m' must lie in its range, 0 to 10; got 99"):
            learn(outside)


@pytest.mark.parametrize("wrong", [{"outside": "drop"}, {"outside": "clip", "range": None}, {"upload": "1h"}])
def test_what_makes_no_sense_is_not_declared(declaration, wrong):
    metric = {"name": "m", "range": [0, 1], **wrong}
    with pytest.raises(InvalidError, match=r"outside|upload"):
        Experiment.from_dict({**declaration, "metrics": [{k: v for k, v in metric.items() if v is not None}]})


def test_a_default_that_can_never_be_is_warned_of(declaration):
    metric = {"name": "m", "direction": "min", "range": [0, 1], "worst": 100, "window": 5, "default": -3}
    warnings = Experiment.from_dict({**declaration, "metrics": [metric]}).warnings
    assert [w.split(" lies")[0] for w in warnings] == ["metrics: worst 100 of 'm'", "metrics: default -3 of 'm'"]


# ---- when it was observed -------------------------------------------------------------------------------------------


def test_a_late_upload_is_not_a_late_observation(run):
    made = run.now
    run.ask("b")
    run.now = made + 2 * HOUR
    assert tell(run, "a", made + HOUR, latency=3.0)["recorded"] == ["latency"]
    assert tell(run, "b", made + HOUR + 1000, latency=3.0)["late"] == ["latency"], "observed after the window"
    assert taught(run) == {"pain": [5.0, 5.0], "latency": [3.0]}, "the time for uploads is not over yet"
    assert tell(run, "b", latency=3.0)["repeated"] == ["latency"]
    assert tell(run, "b", made + HOUR, latency=3.0)["recorded"] == ["latency"], "it was observed earlier, after all"
    run.now = made + 3 * HOUR + 1
    run.ask("c")
    assert taught(run) == {"pain": [5.0, 5.0], "latency": [3.0, 3.0]}


def test_the_last_millisecond_of_an_upload(run):
    made = run.now
    run.ask("b")
    run.ask("c")
    run.now = made + 3 * HOUR
    assert tell(run, "a", made, latency=1.0)["recorded"] == ["latency"]
    run.now += 1
    assert tell(run, "b", made, latency=1.0)["late"] == ["latency"]
    assert taught(run) == {"pain": [5.0] * 3, "latency": [1.0, 10.0, 10.0]}


def test_without_an_upload_time_it_is_only_recorded(run):
    made = run.now
    run.now += HOUR
    assert tell(run, "a", made + 1000, pain=1.0)["late"] == ["pain"]
    assert run.events[-1].body["observed_at"] == made + 1000
    assert tell(run, "a", made + 1000, pain=1.0)["repeated"] == ["pain"]
    assert tell(run, "a", made + 2000, pain=1.0)["late"] == ["pain"], "another word on when it was, which is kept"
    assert run.events[-1].body["observed_at"] == made + 2000


def test_a_time_that_cannot_be_is_refused(run):
    made = run.now
    run.now += HOUR
    before = run.digest()
    for at in (made - 60_001, run.now + 60_001):
        with pytest.raises(InvalidError, match="observed_at must lie between the decision 'a', 1970-01-01T00:16:40"):
            tell(run, "a", at, revenue=1.0)
    for text in ("yesterday", "2026-11-16T09:30:00", 12, "9999-12-31T23:59:59-23:59", ""):
        with pytest.raises(InvalidError, match="observed_at must"):
            run.report([{"id": "a", "values": {"revenue": 1.0}, "observed_at": text}])
    assert run.digest() == before
    assert tell(run, "a", made - 60_000, revenue=1.0)["recorded"] == ["revenue"]
    assert tell(run, "a", run.now + 60_000, revenue=2.0)["corrected"] == ["revenue"]


def test_a_clock_that_is_ahead_does_not_make_a_report_late(run):
    made = run.now
    run.now += HOUR // 2
    assert tell(run, "a", made + HOUR // 2 + 30_000, pain=1.0)["recorded"] == ["pain"]


# ---- retractions ----------------------------------------------------------------------------------------------------


def test_a_retracted_value_is_unknown_until_another_one_comes(run):
    tell(run, "a", revenue=3.0, pain=2.0)
    assert retract(run, "a", "pain")
    assert kinds(run)[-2:] == ["retracted", "revised"]
    assert taught(run) == {"revenue": [3.0]}
    before = run.digest()
    assert not retract(run, "a", "pain")
    assert run.digest() == before
    run.now += 5 * HOUR
    run.ask("b")
    assert taught(run) == {"revenue": [3.0], "latency": [10.0]}, "no default in place of what was retracted"
    assert tell(run, "a", pain=2.0)["recorded"] == ["pain"], "its first report was in time"
    assert taught(run) == {"revenue": [3.0], "pain": [2.0], "latency": [10.0]}
    assert retract(run, "a", "revenue", "pain")
    assert taught(run) == {"latency": [10.0]}


def test_what_cannot_be_retracted(run):
    tell(run, "a", revenue=3.0)
    tell(run, "a", visits=33.0)
    before = run.digest()
    with pytest.raises(ConflictError, match="'a' has no value of 'pain' that could be retracted"):
        retract(run, "a", "revenue", "pain")
    with pytest.raises(InvalidError, match="there is no metric 'speed'"):
        retract(run, "a", "speed")
    with pytest.raises(InvalidError, match="metrics must be a list"):
        retract(run, "a")
    with pytest.raises(NotFoundError, match="no decision 'nobody'"):
        retract(run, "nobody", "revenue")
    with pytest.raises(InvalidError, match="reason must be a text"):
        run.retract([{"id": "a", "metrics": ["revenue"], "reason": ""}])
    assert run.digest() == before
    assert retract(run, "a", "visits"), "also what is on hold"
    with pytest.raises(ConflictError, match="nothing is"):
        review(run, "a", "release", visits=33.0)


def test_a_late_value_can_be_retracted_and_the_default_stays(run):
    run.now += 5 * HOUR
    tell(run, "a", pain=1.0)
    assert taught(run) == {"pain": [5.0], "latency": [10.0]}
    assert retract(run, "a", "pain")
    assert "revised" not in kinds(run)
    assert taught(run) == {"pain": [5.0], "latency": [10.0]}


# ---- voids ----------------------------------------------------------------------------------------------------------


def test_nothing_is_learned_from_a_void_decision(run):
    run.ask("b")
    tell(run, "a", revenue=3.0)
    assert void(run, "a")
    assert taught(run) == {}
    before = run.digest()
    assert not void(run, "a")
    assert run.digest() == before
    receipt = tell(run, "a", pain=3.0)
    assert (receipt["recorded"], receipt["void"]) == (["pain"], True)
    run.now += 5 * HOUR
    run.ask("c")
    assert taught(run) == {"pain": [5.0], "latency": [10.0]}, "the defaults of b only"
    assert void(run, "b")
    assert taught(run) == {}, "nor defaults that have counted"
    assert void(run, "a", again=True)
    assert taught(run) == {"revenue": [3.0], "pain": [3.0], "latency": [10.0]}
    assert not void(run, "a", again=True)


def test_a_void_before_anything_was_learned_costs_nothing(run):
    assert void(run, "a")
    assert "revised" not in kinds(run)
    tell(run, "a", revenue=3.0)
    assert taught(run) == {}


@pytest.mark.parametrize("change", [void, lambda run, id_: move(run, id_, DESK)])
def test_the_event_that_closes_a_window_may_change_what_its_default_does(run, change):
    """The default counts before it, so it must be taken back, or learned elsewhere."""
    run.ledger = Ledger(NEVER)
    run.now += 5 * HOUR
    assert change(run, "a")
    assert taught(run) == {"pain": [5.0], "latency": [10.0]}
    assert run.describe()["revising"]
    run.ledger = Ledger()
    run.describe()
    assert taught(run) == ({} if change is void else {"pain": [5.0], "latency": [10.0]})
    assert not run.describe()["revising"]


def test_void_of_nothing(run):
    before = run.digest()
    with pytest.raises(NotFoundError, match="no decision 'nobody'"):
        run.void([{"id": "a", "reason": "r"}, {"id": "nobody", "reason": "r"}])
    with pytest.raises(InvalidError, match="'a' is there twice"):
        run.void([{"id": "a", "reason": "r"}, {"id": "a", "reason": "r"}])
    with pytest.raises(InvalidError, match="reason must be"):
        run.void([{"id": "a"}])
    with pytest.raises(InvalidError, match="void must be true or false"):
        run.void([{"id": "a", "void": 1, "reason": "r"}])
    assert run.digest() == before, "all or none"


# ---- contexts -------------------------------------------------------------------------------------------------------


def test_what_is_learned_is_learned_in_the_corrected_context(run):
    made = run.ask("b")
    tell(run, "b", revenue=3.0)
    [old] = contexts(run)
    assert move(run, "b", DESK)
    taught(run)
    [new] = contexts(run)
    assert new == tuple(Experiment.from_dict(run.events[0].body["declaration"]).encode(DESK)) != old
    before = run.digest()
    assert not move(run, "b", DESK)
    assert run.ask("b") == made, "the decision stays as it was made"
    with pytest.raises(ConflictError, match="another context"):
        run.ask("b", DESK)
    with pytest.raises(InvalidError, match="device"):
        move(run, "b", {"age": 3})
    assert run.digest() == before
    tell(run, "b", pain=1.0)
    run.now += 5 * HOUR
    run.ask("c")
    assert contexts(run).count(new) == 3, "reports and defaults that come later, too"
    assert move(run, "b", PHONE)
    assert set(contexts(run)) == {old}
    taught(run)


def test_a_context_that_is_corrected_before_anything_was_learned_costs_nothing(run):
    assert move(run, "a", DESK)
    assert "revised" not in kinds(run)
    tell(run, "a", revenue=3.0)
    taught(run)


# ---- all of it ------------------------------------------------------------------------------------------------------


def amend_at_random(run, rng, ids):
    """One more word about one of the latest decisions; it may be refused."""
    id_ = rng.choice([*ids[-12:], "nobody"])
    values = {name: float(rng.randint(-2, 12)) for name in rng.sample(["revenue", "latency", "visits"], 2)}
    what = rng.random()
    try:
        if what < 0.45:
            tell(run, id_, rng.choice([None, run.now - rng.randint(0, 3 * HOUR)]), **values)
        elif what < 0.6:
            held = [e for e in run.events if e.kind == "held"] or run.events[-1:]
            event = rng.choice(held[-5:])
            review(
                run, event.decision or "nobody", rng.choice(["release", "reject"]), **event.body.get("values", values)
            )
        elif what < 0.75:
            retract(run, id_, rng.choice(["revenue", "latency", "visits", "pain"]))
        elif what < 0.9:
            void(run, id_, again=rng.random() < 0.4)
        else:
            move(run, id_, rng.choice([PHONE, DESK]))
    except (ConflictError, InvalidError, NotFoundError):
        return False
    return True


def clock_at_random(run):
    """The clock jumps ahead, or is right again, and somebody repairs the log."""
    if run.now < YEAR:
        run.now += YEAR
    else:
        run.now -= YEAR
        with suppress(ConflictError):  # nothing came meanwhile
            repair_clock(run.store, run.id, "the battery was empty", "ada", now=run.now)


def revise_at_random(run, rng, begun):
    """Begin to fold the log anew, or go on from what was begun at some time, which may be of no use any more."""
    if begun and rng.random() < 0.5:
        run.go_on_from(begun.pop(rng.randrange(len(begun))))
        assert_same(run.policy(), plain_fold(run.events))
    elif run.awaits_revision:
        begun.append(run.begin_revision(fold=rng.random() < 0.5))


def assert_as_plain(run):
    """Policy and observations are those of the plain fold."""
    told = []
    assert_same(run.policy(), plain_fold(run.events, told))
    assert run.explain(PHONE)["observations"] == len({decision for _, decision in told})


@pytest.mark.untraced
@pytest.mark.parametrize("seed", range(8))
def test_any_log_means_what_the_plain_fold_says(store, guarded, seed, monkeypatch):
    """Two ledgers that take turns, restarts, snapshots, revisions that begin and end at any moment."""
    rng = random.Random(seed)
    monkeypatch.setattr(windows, "MAX_AHEAD", 3)
    run = Driver(store)
    run.ledger = Ledger(NEVER)
    run.create(guarded)
    ledgers, ids, begun, step = [run.ledger, Ledger(NEVER)], [], [], 0
    steps = {
        "ask": (0.25, lambda: run.ask_at_random(rng, ids, step)),
        "amend": (0.52, lambda: amend_at_random(run, rng, ids)),
        "revise": (0.15, lambda: revise_at_random(run, rng, begun)),
        "snapshot": (0.03, run.write_snapshot),
        "restart": (0.01, lambda: ledgers.__setitem__(ledgers.index(run.ledger), Ledger(NEVER))),
        "clock": (0.01, lambda: clock_at_random(run)),
        "add": (0.02, lambda: run.add_arm(f"arm{step}")),
        "retire": (0.01, lambda: run.retire_arm(rng.choice(["new", "bold"]))),
    }
    while step < 200:
        step += 1
        run.ledger = rng.choice(ledgers)
        run.now += rng.choice([0, 0, 1, 60_000, HOUR // 2])
        [(_, do)] = (
            rng.choices(list(steps.values()), [weight for weight, _ in steps.values()]) if ids else [steps["ask"]]
        )
        do()
        if step % 10 == 0:
            assert_as_plain(run)
    digests = []
    for ledger in [*ledgers, Ledger(NEVER)]:
        run.ledger = ledger
        assert_as_plain(run)
        digests.append(run.digest())
    assert digests[0] == digests[1] == digests[2]
    with store.read() as session:
        report = verify(session, run.id, every=True)
        assert verify(session, run.id).agrees
    assert (report.problems, report.recomputed, report.state) == ((), report.decisions, digests[0]["state"])
    run.ledger = Ledger()
    run.describe()  # all that is pending counts now
    everything = Record(0, "revised", None, f'{{"at":{run.now},"upto":1000000}}', "")
    assert_same(run.policy(), plain_fold([*run.events, everything]))


def test_the_random_logs_have_everything_in_them(tmp_path, guarded):
    found = set()
    for seed in range(6):
        run = Driver(open_store(str(tmp_path / f"{seed}.db")))
        run.create(guarded)
        rng, ids = random.Random(seed), []
        for step in range(60):
            run.now += rng.choice([0, 60_000, HOUR // 2])
            run.ask_at_random(rng, ids, step)
            amend_at_random(run, rng, ids)
        found |= {(e.kind, e.body.get("verdict"), e.body.get("void")) for e in run.events}
        assert "revised" in kinds(run)
        taught(run)
        run.store.close()
    assert {("reviewed", verdict, None) for verdict in ("release", "reject")} <= found
    assert {("voided", None, value) for value in (True, False)} <= found
    assert {"held", "retracted", "context_corrected", "reported"} <= {kind for kind, *_ in found}


def test_a_request_that_is_sent_twice_does_nothing_twice(run):
    requests = [
        lambda: tell(run, "a", revenue=50.0, visits=50.0),
        lambda: review(run, "a", "release", visits=50.0),
        lambda: retract(run, "a", "revenue"),
        lambda: void(run, "a"),
        lambda: move(run, "a", DESK),
        lambda: void(run, "a", again=True),
    ]
    for request in requests:
        request()
        before = run.digest()
        request()
        assert run.digest() == before


@pytest.mark.parametrize(
    ("kind", "body", "message"),
    [
        ("reviewed", {"values": {"visits": 1.0}, "verdict": "release", "reason": "r"}, "cannot be folded: KeyError"),
        ("retracted", {"metrics": ["visits"], "reason": "r"}, "cannot be folded: KeyError"),
        ("retracted", {"metrics": ["speed"], "reason": "r"}, "cannot be folded: KeyError"),
        ("reviewed", {"values": {"pain": 1.0}, "verdict": "reject", "reason": "r"}, "1.0 of 'pain' is not on hold"),
    ],
)
def test_a_log_that_takes_back_what_never_was_is_refused(run, kind, body, message):
    tell(run, "a", pain=2.0)
    last = run.events[-1]
    record = seal(last.check, last.seq + 1, kind, "a", {"at": run.now, "id": "a", **body})
    with run.store.write() as session:
        session.append(run.id, [record])
        with pytest.raises(CorruptionError, match=message):
            rebuild(session, run.id, session.head(run.id))


# ---- tables ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("format_", ["csv", "parquet"])
def test_a_table_says_what_counts_and_why(run, format_):
    made = run.now
    for id_ in ("void", "moved", "held", "rejected", "retracted", "clipped", "uploaded"):
        run.ask(id_)
        run.now += 1
    tell(run, "void", revenue=1.0)
    void(run, "void")
    move(run, "moved", DESK)
    tell(run, "held", visits=99.0)
    tell(run, "rejected", visits=99.0)
    review(run, "rejected", "reject", visits=99.0)
    tell(run, "retracted", visits=3.0)
    retract(run, "retracted", "visits")
    tell(run, "clipped", revenue=99.0)
    run.now = made + 2 * HOUR
    tell(run, "uploaded", made + HOUR, latency=3.0)
    tell(run, "moved", made + 2 * HOUR - 1, latency=3.0)
    rows = table(run.store, format_)
    seen = {id_: outcome(rows[id_], "visits") for id_ in ("void", "held", "rejected", "retracted", "clipped")}
    assert seen == {
        "void": (None, "void"), "held": (None, "held"), "rejected": (None, "rejected"),
        "retracted": (None, "retracted"), "clipped": (None, "open"),
    }  # fmt: skip
    assert {id_: row["void"] for id_, row in rows.items() if row["void"]} == {"void": "a robot"}
    assert outcome(rows["void"], "revenue") == outcome(rows["void"]) == (None, "void")
    assert rows["held"]["held.visits"] == 99.0
    assert rows["rejected"]["held.visits"] is None
    assert outcome(rows["clipped"], "revenue") == (10.0, "clipped")
    assert outcome(rows["uploaded"]) == (3.0, "reported")
    assert rows["uploaded"]["observed_at.latency"] == "1970-01-01T01:16:40.000+00:00"
    assert outcome(rows["moved"]) == (None, "late"), "the default counts when the time for uploads is over"
    assert json.loads(rows["moved"]["corrected_context"]) == DESK
    assert (rows["moved"]["context.age"], rows["held"]["corrected_context"]) == (30.0, None)
    run.now = made + 4 * HOUR
    run.ask("later")
    assert outcome(table(run.store, format_)["moved"]) == (10.0, "late")


@pytest.mark.parametrize("seed", range(4))
def test_a_table_has_what_the_policy_has_learned(run, seed):
    rng, ids = random.Random(seed), []
    for step in range(80):
        run.now += rng.choice([0, 60_000, HOUR // 2])
        run.ask_at_random(rng, ids, step)
        amend_at_random(run, rng, ids)
        amend_at_random(run, rng, ids)
    experiment, shown = Experiment.from_dict(run.events[0].body["declaration"]), []
    for row in table(run.store).values():
        context = {name: row[f"context.{name}"] for name in ("age", "device")}
        x = experiment.encode(json.loads(row["corrected_context"]) if row["corrected_context"] else context)
        values = [row[f"metric.{metric.name}"] for metric in experiment.metrics]
        rewards = [math.nan if v is None else m.reward(v) for m, v in zip(experiment.metrics, values, strict=True)]
        shown += each_metric(x, experiment.arms.index(row["arm"]), rewards)
    assert sorted(shown) == learned(run.events)
