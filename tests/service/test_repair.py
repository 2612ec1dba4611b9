"""A log that a wrong clock has dated ahead goes on from the right time, and nothing is late that was not."""

import csv
import io
import json
import random
from contextlib import closing

import pytest
from typer.testing import CliRunner

from conebandit.cli import app
from conebandit.experiment.errors import InvalidError
from conebandit.service.engine import repair as repairing
from conebandit.service.engine.ledger import Ledger
from conebandit.service.engine.repair import repair_clock
from conebandit.service.engine.writer import Writer
from conebandit.service.errors import ConflictError, CorruptionError
from conebandit.service.export import export
from conebandit.service.log import windows
from conebandit.service.log.entries import By, read
from conebandit.service.log.events import ClockRepaired
from conebandit.service.log.replay import start
from conebandit.service.log.restore import restore
from conebandit.service.log.times import as_text
from conebandit.service.log.verify import verify
from conebandit.service.stores.base import open_store
from conebandit.service.stores.records import from_lines, seal
from tests.service.driver import HOUR, PHONE, Driver, assert_same
from tests.service.plain_fold import plain_fold

DAY, MINUTE = 24 * HOUR, HOUR // 60


@pytest.fixture
def run(store, declaration):
    run = Driver(store)
    run.create(declaration)
    return run


def wait(run, time):
    run.now += time


def repair(run, **options):
    return repair_clock(run.store, run.id, "the battery was empty", "ada", now=run.now, **options)


def verified(run):
    with run.store.read() as session:
        report = verify(session, run.id, every=True)
    assert (report.problems, report.whole) == ((), True)
    return report


def rows(run):
    table = b"".join(export(run.store, run.id, "csv")).decode()
    return {row["id"]: row for row in csv.DictReader(io.StringIO(table))}


def jump(run):
    """Decisions before and while the clock is 400 days ahead; the window of latency is an hour."""
    run.ask("before")
    run.ask("silent")
    wait(run, 10 * MINUTE + 400 * DAY)
    assert run.tell("before", latency=3.0)["late"] == ["latency"], "it is not, but the clock says so"
    run.ask("meanwhile")
    wait(run, -400 * DAY + 5 * MINUTE)


def test_what_was_observed_before_the_repair_may_be_reported_after_it(run):
    """The decision counts as made when the clock was repaired, and was made before: nobody knows when."""
    run.ask("before")
    wait(run, 400 * DAY)
    run.ask("meanwhile")
    wait(run, -400 * DAY + 30 * MINUTE)
    observed, long_before = (as_text(run.now - minutes * MINUTE) for minutes in (15, 45))
    repair(run)
    wait(run, 5 * MINUTE)
    receipt = run.report([{"id": "meanwhile", "values": {"latency": 3.0}, "observed_at": observed}])[0]
    assert (receipt["recorded"], receipt["late"]) == (["latency"], [])
    with pytest.raises(InvalidError, match="observed_at must lie between"):
        run.report([{"id": "meanwhile", "values": {"revenue": 3.0}, "observed_at": long_before}])
    assert_same(run.policy(), plain_fold(run.events))
    verified(run)


def test_a_repair_undoes_what_the_jump_has_done(run):
    jump(run)
    run.ask("stuck")
    assert read(run.events[-1]).event.at > run.now + 399 * DAY, "all later events carry the future date"
    event = repair(run)
    assert event == ClockRepaired(run.now, 3, "the battery was empty")
    logged = [read(record) for record in run.events if record.kind == "clock_repaired"]
    assert [(entry.event, entry.by) for entry in logged] == [(event, By(None, "ada"))]
    wait(run, 30 * MINUTE)
    assert run.tell("meanwhile", latency=1.0)["late"] == []
    assert read(run.events[-1]).event.at == run.now
    wait(run, 45 * MINUTE)  # the window of stuck, which counts from the repair on, closes
    assert run.tell("stuck", latency=1.0)["late"] == ["latency"]
    found = {id_: (row["status.latency"], row["metric.latency"]) for id_, row in rows(run).items()}
    assert found == {
        "before": ("reported", "3.0"),
        "silent": ("default", "10.0"),
        "meanwhile": ("reported", "1.0"),
        "stuck": ("late", "10.0"),
    }
    times = {id_: row["at"] for id_, row in rows(run).items()}
    assert times["before"] == times["silent"] < times["meanwhile"] == times["stuck"] < "1970-01-02"
    verified(run)
    assert_same(run.state.policy, plain_fold(run.events))
    with pytest.raises(ConflictError, match="is not ahead of the clock"):
        repair(run)


def test_a_repair_may_come_when_the_clock_has_caught_up(run):
    """If somebody says from where on dates are wrong."""
    jump(run)
    wait(run, 401 * DAY)
    run.ask("after")
    with pytest.raises(ConflictError, match="--after"):
        repair(run)
    assert rows(run)["before"]["status.latency"] == "late"
    repair(run, after=3)
    run.ask("now")
    assert rows(run)["before"]["status.latency"] == "reported"
    assert rows(run)["meanwhile"]["status.latency"] == "open"
    verified(run)
    assert_same(run.state.policy, plain_fold(run.events))


def driver(store, at_once):
    """One whose ledger folds a log anew at once when that is due, or never."""
    made = Driver(store)
    made.ledger = Ledger(None if at_once else 0)
    return made


def revise(run):
    """Fold the log anew now, if that is due."""
    with run.transaction() as transaction:
        state = transaction.state(run.id)
        if state.corrected_from is not None:
            before = state.corrected_from
            transaction.revise(start(transaction.session, run.id, view=state.head.seq, before=before))


@pytest.mark.untraced
@pytest.mark.parametrize("at_once", [True, False])
@pytest.mark.parametrize("seed", range(5))
def test_random_jumps_and_repairs(tmp_path, declaration, monkeypatch, seed, at_once):
    """The state is that of a plain fold, in every process and from a snapshot, whenever the log is folded anew."""
    monkeypatch.setattr(repairing, "MAX_REPLAYED", 250 if at_once else 0)
    monkeypatch.setattr(windows, "MAX_AHEAD", 3)  # most windows wait in the log
    rng, ids, true, ahead = random.Random(seed), [], 1_000_000, 0
    with closing(open_store(str(tmp_path / "log.db"))) as store:
        run, other = driver(store, at_once), driver(store, at_once)
        run.create(declaration)
        for step in range(60):
            true += rng.choice([MINUTE, 20 * MINUTE])
            who = rng.choice([run, other])
            who.now = true + ahead
            action = rng.random()
            if action < 0.06:
                ahead = rng.choice([0, 2 * HOUR, 30 * DAY])
            elif action < 0.12:
                who.now = true + rng.choice([0, 0, HOUR])  # a repair may have to be repaired
                if read(run.events[-1]).event.at > who.now:
                    repair(who)
            elif action < 0.16:
                who.write_snapshot()
            elif action < 0.18:
                who.ledger.forget()
            elif action < 0.22:
                revise(who)
            elif action < 0.6 or not ids:
                who.ask_at_random(rng, ids, step)
            else:
                who.tell_at_random(rng, ids)
            if step % 10 == 9:
                assert len({each.digest()["state"] for each in (run, other, driver(store, at_once))}) == 1
                if at_once:
                    assert_same(run.state.policy, plain_fold(run.events))
        verified(run)
        run.now = true + ahead
        revise(run)
        assert_same(run.state.policy, plain_fold(run.events))
        state = verified(run).state
        assert {each.digest()["state"] for each in (run, other, driver(store, at_once))} == {state}
        content = b"".join(export(store, run.id, "jsonl")).decode()
    with closing(open_store(str(tmp_path / "copy.db"))) as copy:
        assert restore(copy, from_lines(io.StringIO(content))) == run.id
        assert Driver(copy).digest()["state"] == state


def test_a_long_log_is_repaired_beside_the_decisions(address, declaration, monkeypatch):
    """A service folds it anew when it hears of the repair."""
    monkeypatch.setattr(repairing, "MAX_REPLAYED", 5)
    writer = Writer(open_store(address))
    with closing(open_store(address)) as store:
        run = Driver(store)
        run.now = writer._clock()
        run.create(declaration)
        jump(run)
        run.now = writer._clock()
        repair(run)
        assert run.events[-1].kind == "clock_repaired"
        writer.submit("checkout", lambda turn: turn.decide("checkout", [{"id": "d", "context": PHONE}])).result()
        kinds = [record.kind for record in run.events][-3:]
        assert kinds == ["clock_repaired", "decided", "revised"]
        assert abs(read(run.events[-1]).event.at - writer._clock()) < MINUTE
        verified(run)
        assert_same(Driver(store).digest() and run.describe() and run.state.policy, plain_fold(run.events))
    writer.close()


@pytest.mark.parametrize("after", [-1, 4, 5, 99])
def test_a_position_that_cannot_be_is_refused(run, after):
    jump(run)
    with pytest.raises(InvalidError, match=f"got {after}"):
        repair(run, after=after)
    assert run.events[-1].kind == "decided"


def test_the_first_event_may_be_wrong(store, declaration):
    run = Driver(store)
    wait(run, 400 * DAY)
    run.create(declaration)
    run.ask("d1")
    wait(run, -400 * DAY)
    assert repair(run).after == 0
    wait(run, 2 * HOUR)
    run.ask("d2")
    assert rows(run)["d1"]["status.latency"] == "default"
    verified(run)
    assert_same(run.state.policy, plain_fold(run.events))


@pytest.mark.parametrize(("after", "at"), [(2, 5), (9, 10**13), (1, -1)])
def test_a_repair_that_cannot_be_is_not_imported(tmp_path, declaration, after, at):
    bodies = {
        "created": {"declaration": declaration, "library": "0", "at": 10},
        "mode_changed": {"mode": "off", "at": 20},
        "clock_repaired": {"after": after, "at": at, "reason": "r"},
        "revised": {"upto": 3, "at": 10**13},
    }
    log = []
    for seq, (kind, body) in enumerate(bodies.items(), start=1):
        log.append(seal(log[-1].check if log else "0" * 32, seq, kind, None, body))
    with closing(open_store(str(tmp_path / "log.db"))) as store, pytest.raises(CorruptionError, match="event 3"):
        restore(store, iter(log))


def test_the_command(tmp_path, declaration):
    path = str(tmp_path / "log.db")
    (tmp_path / "e.json").write_text(json.dumps(declaration))

    def call(*args):
        return CliRunner().invoke(app, ["experiment", *map(str, args), "--store", path])

    assert call("create", tmp_path / "e.json").exit_code == 0
    early = call("repair-clock", "checkout", "--reason", "none")
    assert early.exit_code == 1
    assert "is not ahead of the clock" in early.output
    with closing(open_store(path)) as store:
        run = Driver(store)
        run.now = read(run.events[0]).event.at + 400 * DAY
        run.ask("d1", PHONE)
    assert call("repair-clock", "checkout").exit_code == 2, "a reason is required"
    assert "reason must be a text" in call("repair-clock", "checkout", "--reason", "").output
    done = call("repair-clock", "checkout", "--reason", "the battery was empty", "--actor", "ada")
    assert done.output == "checkout: dates after event 1 are repaired\n"
    assert CliRunner().invoke(app, ["verify", "--store", path]).exit_code == 0
