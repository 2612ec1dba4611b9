"""Erasure: personal data are gone from the files, the policy has forgotten them, and the log still holds."""

import csv
import io
import json
import random
import signal
import sqlite3
import subprocess
import tempfile
from contextlib import closing, suppress
from pathlib import Path

import polars
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

import conebandit as cb
from conebandit.cli import app
from conebandit.experiment.errors import InvalidError
from conebandit.service import erasure
from conebandit.service import export as exporting
from conebandit.service.archive import archive
from conebandit.service.audit import Wanted, whole_audit
from conebandit.service.engine.ledger import Ledger
from conebandit.service.errors import ConflictError, CorruptionError, NotFoundError, UnavailableError
from conebandit.service.export import export
from conebandit.service.http.routes.queries import _events
from conebandit.service.http.server import serving
from conebandit.service.log.entries import read
from conebandit.service.log.held import on_hold
from conebandit.service.log.restore import restore
from conebandit.service.log.verify import verify
from conebandit.service.stores.base import open_store
from conebandit.service.stores.records import Record, commitment_to, from_lines, seal
from conebandit.service.stores.seals import START
from tests.service.driver import HOUR, PHONE, Driver, assert_same
from tests.service.load import command
from tests.service.plain_fold import plain_fold
from tests.service.test_backup import backup_by_sqlite, backup_by_vacuum
from tests.service.test_revision import Gate, Service
from tests.service.test_units import begin, verified, visit

ANN = "Ann Smith, born 1961"
DEVICE = {"name": "device", "levels": ["phone", "desk"]}
SECRETS = ("Ann Smith", "visit-of-ann", "born 1961", "37.4375", "0.24296875", "8.8125")


def fill(run, units=5, decisions=20):
    """Decisions and outcomes of some units; those of one of them are secret."""
    for i in range(decisions):
        unit = f"p{i % units}"
        visit(run, f"d{i}", unit, {"age": 20.0 + i, "device": "phone"})
        run.tell(f"d{i}", revenue=float(i % 7))
    visit(run, "visit-of-ann", ANN, {"age": 37.4375, "device": "desk"})
    run.tell("visit-of-ann", revenue=8.8125)
    for i in range(decisions, 2 * decisions):
        visit(run, f"d{i}", f"p{i % units}", {"age": 20.0 + i, "device": "phone"})


def of_unit(events, name):
    """The alias of a unit that is still known."""
    return next(e.body["unit"] for e in events if e.kind == "decided" and f'"unit":"{name}"' in (e.personal or ""))


def bytes_of(path):
    """All that is in the file of a store, and beside it."""
    return b"".join(Path(f"{path}{suffix}").read_bytes() for suffix in ("", "-wal") if Path(f"{path}{suffix}").exists())


# ---- what is gone, and what stays -----------------------------------------------------------------------------------


def test_what_is_erased_is_gone_and_the_rest_is_as_if_it_had_never_been(store, declaration):
    run = begin(store, declaration)
    fill(run)
    before = run.events
    alias = of_unit(before, ANN)
    done = run.erase(ANN, "consent withdrawn")
    assert (done["unit"], done["decisions"], done["experiment"]) == (alias, 1, "checkout")
    events = run.events
    assert [e.kind for e in events[len(before) :]] == ["erased", "revised"]
    assert [e[:5] for e in events[: len(before)]] == [e[:5] for e in before], "the sealed log is as it was"
    gone = [a for a, b in zip(before, events, strict=False) if a.personal != b.personal]
    assert [(e.kind, e.seq) for e in gone] == [("decided", 42), ("reported", 43)]
    for secret in SECRETS:
        assert secret not in str(events)
    without = [e for e in before if e.seq not in (42, 43)]
    as_if_all_counted = Record(0, "revised", None, '{"at":0,"upto":1000000}', "")
    assert_same(run.policy(), plain_fold([*without, as_if_all_counted]))
    assert_same(run.policy(), plain_fold(events))
    assert run.explain(PHONE)["units"] == 5
    assert Driver(store).digest() == run.digest()
    report = verified(store)
    assert (report.agrees, report.whole, report.erased, report.recomputed) == (True, True, 21, 20)
    run.now += 2 * HOUR  # windows close
    visit(run, "after", "p1")
    report = verified(store)
    assert (report.agrees, report.erased, report.recomputed) == (True, 21, 21), "what comes later is made again"
    assert_same(run.policy(), plain_fold(run.events))


def test_nobody_is_archived_who_is_still_to_be_erased(store, declaration, tmp_path):
    run = begin(store, declaration)
    fill(run)
    run.ledger.max_replayed = 0  # a revision is somebody else's business: nobody's so far
    run.erase(ANN, "consent withdrawn")
    run.set_stage("ended", "all are seen")
    with pytest.raises(ConflictError, match="still being erased"):
        archive(store, "checkout", tmp_path / "checkout.jsonl")
    assert list(tmp_path.glob("*jsonl*")) == []
    Driver(store).describe()  # now it counts
    archive(store, "checkout", tmp_path / "checkout.jsonl")
    text = (tmp_path / "checkout.jsonl").read_text()
    assert [secret for secret in SECRETS if secret in text] == []


def test_what_was_said_about_its_decisions_is_erased_with_it(store, declaration):
    """Values on hold, retractions, voids and corrected contexts, of which some are known by other words only."""
    metrics = [{"name": "revenue", "range": [0, 10], "outside": "hold"}, declaration["metrics"][1]]
    run = begin(store, {**declaration, "metrics": metrics})
    fill(run, decisions=8)
    reason = "her sister Eve said so"
    for i in range(4):
        visit(run, f"ann-{i}", ANN)
    run.tell("ann-0", revenue=77.125)
    run.tell("ann-1", revenue=66.25)
    assert [held.id for held in on_hold(store, "checkout", 0, 100).held] == ["ann-0", "ann-1"]
    assert run.review([{"id": "ann-1", "values": {"revenue": 66.25}, "verdict": "release", "reason": reason}])[0] == {
        "id": "ann-1",
        "changed": True,
    }
    run.retract([{"id": "visit-of-ann", "metrics": ["revenue"], "reason": reason}])
    run.void([{"id": "ann-2", "reason": reason}])
    context = {"age": 91.5, "device": "phone"}
    run.correct_context([{"id": "visit-of-ann", "context": context, "reason": reason}])
    before = run.events
    sealed = "".join(str(event[:5]) for event in before[1:])
    assert not any(text in sealed for text in ("77.125", "66.25", "91.5", "Eve"))
    assert_same(run.policy(), plain_fold(before))
    assert verified(store).whole
    lagging = Driver(store)
    lagging.describe()
    with pytest.raises(ConflictError, match="'ann-3' has no value"):
        run.retract([{"id": "ann-3", "metrics": ["revenue"], "reason": reason}])
    run.erase(ANN, "asked")
    assert not any(text in str(run.events) for text in (*SECRETS, "77.125", "66.25", "91.5", "Eve"))
    assert on_hold(store, "checkout", 0, 100).held == ()
    theirs = {e.decision for e in before if e.kind == "decided" and ANN in (e.personal or "")}
    at_the_end = Record(10**6, "revised", None, f'{{"at":{run.now},"upto":1000000}}', "")
    assert_same(run.policy(), plain_fold([*(e for e in before if e.decision not in theirs), at_the_end]))
    assert_same(run.policy(), plain_fold(run.events))
    assert Driver(store).digest() == lagging.digest() == run.digest()
    assert verified(store).whole
    rows = b"".join(export(store, "checkout", "csv")).decode()
    assert not any(text in rows for text in (*SECRETS, "77.125", "66.25", "91.5", "Eve"))


def test_names_are_free_again(store, declaration):
    run = begin(store, declaration, sticky=True)
    fill(run)
    run.erase(ANN, "asked")
    with pytest.raises(NotFoundError, match=r"there is no decision 'visit-of-ann' .* or it was erased"):
        run.tell("visit-of-ann", revenue=1.0)
    nothing = run.erase(ANN, "asked")
    assert (nothing["unit"], nothing["decisions"]) == (None, 0), "asked twice, done once"
    made = visit(run, "visit-of-ann", ANN, {"age": 50, "device": "desk"})
    assert not made["repeated"], "a new unit, as far as anybody can tell"
    assert run.tell("visit-of-ann", revenue=2.0)["recorded"] == ["revenue"]
    assert verified(store).whole
    run.erase(ANN, "asked")
    assert verified(store).whole
    assert_same(run.policy(), plain_fold(run.events))


def test_what_cannot_be_erased(store, declaration):
    run = Driver(store)
    run.create(declaration)
    with pytest.raises(ConflictError, match="has no units: its log holds contexts and ids for good"):
        run.erase("ann", "asked")
    units = Driver(store, "other")
    units.create({**declaration, "id": "other", "unit": {}})
    for reason in ("", "x" * 201, None, "a\nb"):
        with pytest.raises(InvalidError, match="reason must be a text of 1 to 200"):
            units.erase("ann", reason)
    assert len(units.events) == 1


def test_tables_and_events_show_that_it_is_erased(tmp_path, declaration):
    store = open_store(str(tmp_path / "log.db"))
    run = begin(store, declaration, sticky=True)
    fill(run)
    visit(run, "visit-of-ann-2", ANN)
    run.erase(ANN, "asked")
    rows = list(csv.DictReader(io.StringIO(b"".join(export(store, "checkout", "csv")).decode(), newline="")))
    erased = [row for row in rows if row["id"] == "erased"]
    assert len(rows) == 42
    assert [row["repeats"] for row in erased] == ["", "erased"]
    for row in erased:
        shown = ("context.age", "context.device", "metric.revenue", "status.revenue", "status.latency")
        assert [row[name] for name in shown] == ["", "erased", "", "erased", "erased"]
        assert row["arm"]
    frame = polars.read_parquet(io.BytesIO(b"".join(export(store, "checkout", "parquet"))))
    assert frame.filter(polars.col("id") == "erased")["context.age"].to_list() == [None, None]
    lines = b"".join(export(store, "checkout", "jsonl")).decode()
    for secret in SECRETS:
        assert secret not in lines + str(rows) + str(frame.to_dicts())
    copy = open_store(str(tmp_path / "copy.db"))
    restore(copy, from_lines(io.StringIO(lines, newline="\n")))
    assert Driver(copy).events == run.events
    assert verified(copy) == verified(store)
    assert visit(Driver(copy), "d3", "p3", {"age": 23.0, "device": "phone"})["id"] == "d3"
    store.close()
    copy.close()


def test_an_import_checks_commitments(tmp_path, declaration):
    store = open_store(str(tmp_path / "log.db"))
    fill(begin(store, declaration))
    lines = b"".join(export(store, "checkout", "jsonl")).decode()
    copy = open_store(str(tmp_path / "copy.db"))
    with pytest.raises(CorruptionError, match="line 43: the personal part of event 42"):
        restore(copy, from_lines(io.StringIO(lines.replace("37.4375", "37.4374"), newline="\n")))
    parts = lines.splitlines(keepends=True)
    parts[42] = json.dumps(json.loads(parts[42])[:5], separators=(",", ":")) + "\n"
    with pytest.raises(CorruptionError, match=r"leads to no state: .*are missing, and no event says why"):
        restore(copy, from_lines(io.StringIO("".join(parts), newline="\n")))
    store.close()
    copy.close()


@pytest.mark.parametrize("long_log", [False, True])
def test_nothing_is_left_in_the_files(tmp_path, declaration, long_log):
    path = str(tmp_path / "log.db")
    store = open_store(path)
    run = begin(store, {**declaration, "policy": {"name": "ConeTree"}}, sticky=True)
    fill(run, decisions=300 if long_log else 20)
    run.write_snapshot()
    assert all(secret.encode() in bytes_of(path) for secret in ("Ann Smith", "visit-of-ann", "37.4375", "8.8125"))
    run.erase(ANN, "asked")
    assert [secret for secret in SECRETS if secret.encode() in bytes_of(path)] == [], "overwritten at once"
    store.vacuum()
    left = bytes_of(path)
    assert [secret for secret in SECRETS if secret.encode() in left] == []
    assert run.state.known == ("old", "new", "bold")
    assert verified(store).whole
    with store.read() as session:
        assert session.snapshots("checkout") == [], "they knew it"
    store.close()


def test_vacuum_leaves_the_rest(store, declaration):
    run = begin(store, declaration)
    fill(run)
    run.erase(ANN, "asked")
    store.vacuum()
    assert verified(store).whole
    visit(run, "more", "p1")
    assert Driver(store).digest() == run.digest()


# ---- long logs, several processes, kills ----------------------------------------------------------------------------


@pytest.fixture
def service(address, declaration):
    service = Service(address)
    service.create({**declaration, "unit": {"sticky": True}})
    yield service
    service.writer.close()


def fill_service(service, rounds=200):
    asked = [
        {"id": f"d{i}", "context": {"age": 20 + i % 70, "device": "phone"}, "unit": f"p{i % 40}"} for i in range(rounds)
    ]
    for i in range(0, rounds, 50):
        service.decide(asked[i : i + 50])
        service.report([{"id": one["id"], "values": {"revenue": float(len(one["id"]))}} for one in asked[i : i + 50]])


def test_decisions_go_on_while_a_long_log_forgets(service, monkeypatch):
    fill_service(service)
    gate = Gate(monkeypatch)
    before = service.events()
    alias = of_unit(before, "p7")
    assert service.erase("p7", "asked")["unit"] == alias
    assert gate.reached.wait(30)
    assert service.describe()["revising"]
    made = service.decide([{"id": f"more{i}", "context": PHONE, "unit": f"p{i}"} for i in range(6, 9)])
    assert [m["repeated"] for m in made] == [True, False, True], "its name is forgotten at once"
    assert [e.personal for e in service.events()[: len(before)]] == [e.personal for e in before], "its data are not"
    assert_same(service.policy(), plain_fold(service.events()))
    report = service.verify()
    assert (report.agrees, report.recomputed, report.erased) == (True, 203, 0), "nothing rests on what is gone"
    with pytest.raises(NotFoundError):
        service.report([{"id": "d7", "values": {"revenue": 1.0}}])
    rows = b"".join(export(service.writer.store, "checkout", "csv")).decode()
    assert rows.count("erased") > 5, "tables do not show them any more"
    gate.open.set()
    service.settle()
    events = service.events()
    gone = {read(e).event.id for e in events if e.kind == "decided" and e.personal is None}
    assert gone == {e.decision for e in before if e.kind == "decided" and e.body["unit"] == alias}
    assert all(e.personal is None for e in events if e.decision in gone)
    assert_same(service.policy(), plain_fold(events))
    service.decide([{"id": "after", "context": PHONE, "unit": "p9"}])
    report = service.verify()
    assert (report.agrees, report.whole, report.decisions) == (True, True, 204)
    assert report.recomputed == 8, "the first ones, and the last"


def test_nobody_sees_what_is_being_erased(service, monkeypatch):
    fill_service(service)
    gate = Gate(monkeypatch)
    alias = of_unit(service.events(), "p7")
    ids = {e.decision for e in service.events() if e.kind == "decided" and e.body["unit"] == alias}
    service.erase("p7", "asked")
    assert gate.reached.wait(30)
    store = service.writer.store
    audited = list(whole_audit(store, "checkout", Wanted()))
    listed = _events(store, "checkout", 0, 1000).events
    assert [e.body for e in audited] == [e.body for e in listed]
    assert {e.seq for e in service.events() if e.personal is not None and e.decision in ids}, "it is still there"
    hidden = [e.seq for e in audited if "erased" in (e.body.get("context"), e.body.get("values"))]
    assert hidden == [e.seq for e in service.events() if e.decision in ids]
    gate.open.set()
    service.settle()
    assert [e.body for e in whole_audit(store, "checkout", Wanted())][: len(audited)] == [e.body for e in audited]


def test_another_process_that_lags_behind_comes_to_the_same_state(address, declaration):
    """It folds events whose data are gone, and learns later that this does not matter."""
    one, two = (Driver(open_store(address)) for _ in range(2))
    one.create({**declaration, "unit": {}})
    for i in range(5):
        visit(one, f"early{i}", ANN)
        one.tell(f"early{i}", revenue=1.0)
    two.describe()
    for i in range(30):
        visit(one, f"d{i}", ANN if i % 5 == 0 else "bob", {"age": 30 + i, "device": "desk"})
        one.tell(f"d{i}", revenue=float(i))
    one.now += 2 * HOUR
    two.now = one.now
    one.erase(ANN, "asked")
    visit(one, "then", "bob")
    assert two.state.head.seq == 11
    assert two.digest() == one.digest()
    assert verified(one.store).whole
    for run in (one, two):
        run.store.close()


def test_a_revision_that_began_before_the_erasure(service, monkeypatch):
    """It hands over a state without the erasure, and the data stay for those who are in its view; then they go."""
    fill_service(service)
    gate = Gate(monkeypatch)
    service.report([{"id": "d1", "values": {"revenue": 99.0}}])
    assert gate.reached.wait(30)
    service.erase("p7", "asked")
    gate.open.set()
    service.settle()
    events = service.events()
    assert [e.kind for e in events if e.kind in ("erased", "revised")] == ["erased", "revised", "revised"]
    assert len([e for e in events if e.has_commitment and e.personal is None]) == 10
    assert_same(service.policy(), plain_fold(events))
    assert service.verify().whole


def test_an_export_that_is_overtaken_by_an_erasure_says_so(tmp_path, declaration, monkeypatch):
    store = open_store(str(tmp_path / "log.db"))
    run = begin(store, declaration)
    fill(run)
    monkeypatch.setattr(exporting, "PART", 100)
    parts = export(store, "checkout", "jsonl")
    next(parts)
    run.erase(ANN, "asked")
    with pytest.raises(UnavailableError, match="somebody was erased while the log was exported"):
        list(parts)
    store.close()


def test_an_erasure_that_is_under_way_is_completed_where_the_log_is_imported(tmp_path, declaration):
    """Although its names are in use again."""
    store = open_store(str(tmp_path / "log.db"))
    run = begin(store, declaration, sticky=True)
    fill(run, decisions=40)
    run.ledger.max_replayed = 0
    run.erase(ANN, "asked")
    visit(run, "visit-of-ann", ANN)
    lines = b"".join(export(store, "checkout", "jsonl")).decode()
    assert lines.count(ANN) == 2
    store.close()
    path = str(tmp_path / "copy.db")
    copy = open_store(path)
    restore(copy, from_lines(io.StringIO(lines, newline="\n")))
    assert verified(copy).whole
    assert visit(Driver(copy), "visit-of-ann", ANN)["id"] == "visit-of-ann", "the one that is there now"
    copy.close()
    service = Service(path)
    service.settle()
    assert str(service.events()).count(ANN) == 1
    assert service.verify().whole
    service.writer.close()


def test_an_import_with_two_of_a_name_is_refused(tmp_path, declaration):
    store = open_store(str(tmp_path / "log.db"))
    run = begin(store, declaration)
    visit(run, "d1", "ann")
    visit(run, "d2", "bob")
    log, before = [], START
    for event in run.events:
        text, body = (event.personal or "").replace('"d2"', '"d1"'), event.body
        if text:
            body["personal"] = commitment_to(text)
        log.append(seal(before, event.seq, event.kind, event.decision, body)._replace(personal=text or None))
        before = log[-1].check
    copy = open_store(str(tmp_path / "copy.db"))
    with pytest.raises(CorruptionError, match="two of the same name"):
        restore(copy, iter(log))
    with copy.read() as session:
        assert session.experiments() == []
    store.close()
    copy.close()


KILLED = """
import os, signal, sys
from conebandit.service.stores.session import Session
from conebandit.service.engine.transaction import Transaction
where, name = sys.argv.pop(1), sys.argv.pop(1)
owner = {"Session": Session, "Transaction": Transaction}[where]
real = getattr(owner, name)
def and_die(*args, **options):
    found = real(*args, **options)
    os.kill(os.getpid(), signal.SIGKILL)
setattr(owner, name, and_die)
from conebandit.cli import main
main()
"""


@pytest.mark.parametrize(
    ("owner", "name"),
    [("Session", "release_names"), ("Session", "erase"), ("Transaction", "revise"), ("Transaction", "finish")],
)
def test_killed_on_the_way_nothing_or_all_of_it_is_done(address, declaration, owner, name):
    """Wherever it is killed: the names, the data and the event go together, and it can be asked again."""
    store = open_store(address)
    run = begin(store, declaration)
    fill(run)
    before, state = run.events, run.digest()
    store.close()
    arguments = ["erase", "--experiment", "checkout", "--unit", ANN, "--reason", "asked", "--store", address]
    python = command()[0]
    killed = subprocess.run([python, "-c", KILLED, owner, name, *arguments], capture_output=True, check=False)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    store = open_store(address)
    run = Driver(store)
    assert (run.events, run.digest()) == (before, state), "nothing was done"
    store.close()
    assert CliRunner().invoke(app, arguments).exit_code == 0
    store = open_store(address)
    assert not any(secret in str(Driver(store).events) for secret in SECRETS)
    assert verified(store).whole
    store.close()


def test_killed_between_the_event_and_the_revision_the_next_process_goes_on(address, declaration):
    store = open_store(address)
    run = begin(store, declaration)
    fill(run, decisions=200)
    run.ledger.max_replayed = 0  # a revision is somebody else's business: nobody's, as if the process had been killed
    run.erase(ANN, "asked")
    assert run.describe()["revising"]
    assert ANN in str(run.events)
    store.close()
    service = Service(address)
    service.settle()
    assert not any(secret in str(service.events()) for secret in SECRETS)
    assert service.verify().whole
    service.writer.close()


def at_random(run, rng, erased):
    """Decisions, outcomes, corrections, snapshots and erasures; which units were to be erased and are not yet."""
    ids, left = [], sorted(erased)
    for step in range(60):
        run.now += rng.randrange(HOUR // 2)
        choice = rng.random()
        if choice < 0.5 or not ids:
            ids.append(f"d{step}")
            context = {"age": rng.uniform(0, 120), "device": rng.choice(["phone", "desk"])}
            visit(run, ids[-1], f"p{rng.randrange(7)}", context)
        elif choice < 0.9:
            with suppress(NotFoundError):  # it was erased
                run.tell_at_random(rng, ids)
        elif choice < 0.95 and left:
            run.erase(f"p{left.pop()}", "asked")
        else:
            run.write_snapshot()
    return left


@settings(max_examples=15, deadline=None)
@given(
    st.integers(0, 2**32), st.sampled_from([False, True, "1d"]), st.sets(st.integers(0, 6), min_size=1), st.booleans()
)
def test_erasing_some_units_is_as_if_they_had_never_taught_anything(seed, sticky, erased, at_once):
    """Bit for bit, whatever comes before, between and after, and from a snapshot as from the first event."""
    declaration = {
        "id": "checkout",
        "arms": ["old", "new", "bold"],
        "metrics": [{"name": "revenue"}, {"name": "latency", "window": "1h", "default": 10.0}],
        "context": [{"name": "age", "low": 18, "high": 98, "out_of_range": "clip"}, DEVICE],
        "policy": {"name": "LinearParetoUCB"},
    }
    with tempfile.TemporaryDirectory() as folder, closing(open_store(f"{folder}/log.db")) as store:
        run = begin(store, declaration, sticky)
        run.ledger = Ledger(None if at_once else 40)  # otherwise erasures wait in a log of more events
        for unit in at_random(run, random.Random(seed), erased):
            run.erase(f"p{unit}", "asked")
        run.ledger = Ledger()
        run.describe()
        events = run.events
        gone = {e.body["unit"] for e in events if e.kind == "erased"}
        theirs = {e.decision for e in events if e.kind == "decided" and e.body["unit"] in gone}
        assert all((e.personal is None) == (e.decision in theirs) for e in events if e.has_commitment)
        at_the_end = f'{{"at":{events[-1].body["at"]},"upto":1000000}}'  # windows have closed by then
        as_if_all_counted = Record(10**6, "revised", None, at_the_end, "")
        never_been = [e for e in events if e.kind != "revised" and e.decision not in theirs]
        assert_same(run.policy(), plain_fold(events))
        assert_same(run.policy(), plain_fold([*never_been, as_if_all_counted]))
        assert (verified(store).problems, verified(store).whole) == ((), True)
        assert Driver(store).digest() == run.digest()


# ---- backups --------------------------------------------------------------------------------------------------------


def cli(*arguments):
    return CliRunner().invoke(app, ["erase", *map(str, arguments)])


def assert_erased_again(address, erasures):
    """A restored backup has the data again, until the list is carried out."""
    store = open_store(address)
    assert ANN in str(Driver(store).events)
    store.close()
    for expected in ("1 decisions of u_", ""):
        done = cli("--again", erasures, "--store", address, "--vacuum")
        assert (done.exit_code, expected in done.output) == (0, True), done.output
    assert done.output == "", "what is done is not done again"
    store = open_store(address)
    events = Driver(store).events
    assert not any(secret in str(events) for secret in SECRETS)
    assert [e.kind for e in events].count("erased") == 1
    assert verified(store).whole
    store.close()


@pytest.mark.parametrize("backup", [backup_by_sqlite, backup_by_vacuum])
def test_a_backup_of_sqlite(tmp_path, declaration, backup):
    path, copy, erasures = str(tmp_path / "log.db"), str(tmp_path / "copy.db"), tmp_path / "erasures.jsonl"
    store = open_store(path)
    run = begin(store, declaration)
    fill(run)
    backup(path, copy)
    visit(run, "later", "somebody who came later")
    run.erase(ANN, "asked")
    run.erase("somebody who came later", "asked")
    other = Driver(store, "other")
    other.create({**declaration, "id": "other", "unit": {}})
    visit(other, "d1", "ann")
    other.erase("ann", "asked")
    store.close()
    erasures.write_text(cli("--list", "--store", path).output)
    assert len(erasures.read_text().splitlines()) == 3
    assert not any(secret in erasures.read_text() for secret in SECRETS)
    assert_erased_again(copy, erasures)
    assert not any(secret.encode() in bytes_of(copy) for secret in SECRETS)


def test_a_backup_of_postgres(postgres, tmp_path, declaration):
    address, file, erasures = postgres.fresh_database("erased"), postgres.folder / "e.dump", tmp_path / "erasures.jsonl"
    store = open_store(address)
    run = begin(store, declaration)
    fill(run)
    postgres.run("pg_dump", *postgres.connection, "-Fc", "-f", file, "erased")
    run.erase(ANN, "asked")
    store.close()
    erasures.write_text(cli("--list", "--store", address, "--experiment", "checkout").output)
    restored = postgres.fresh_database("erased_restored")
    postgres.run("pg_restore", *postgres.connection, "-d", "erased_restored", file)
    assert_erased_again(restored, erasures)


def test_an_export_is_a_backup_too(tmp_path, declaration):
    path, erasures = str(tmp_path / "log.db"), tmp_path / "erasures.jsonl"
    store = open_store(path)
    run = begin(store, declaration)
    fill(run)
    lines = b"".join(export(store, "checkout", "jsonl")).decode()
    run.erase(ANN, "asked")
    store.close()
    erasures.write_text(cli("--list", "--store", path).output)
    copy = open_store(str(tmp_path / "copy.db"))
    restore(copy, from_lines(io.StringIO(lines, newline="\n")))
    copy.close()
    assert_erased_again(str(tmp_path / "copy.db"), erasures)


# ---- asking for it --------------------------------------------------------------------------------------------------


def test_from_the_command_line(address, declaration):
    store = open_store(address)
    run = begin(store, declaration)
    fill(run, decisions=200)
    store.close()
    asked = ("--experiment", "checkout", "--unit", ANN, "--reason", "asked", "--store", address)
    done = cli(*asked)
    assert (done.exit_code, "1 decisions of u_" in done.output) == (0, True), done.output
    assert cli(*asked).exit_code == 1, "nothing is known of it"
    assert cli("--unit", ANN, "--store", address).exit_code == 2
    assert cli("--experiment", "none", "--unit", ANN, "--reason", "asked", "--store", address).exit_code == 1
    checked = CliRunner().invoke(app, ["verify", "--store", address])
    assert checked.exit_code == 0, checked.output
    assert "agrees; 201 decisions cannot be made again: they rest on data that were erased" in checked.output
    store = open_store(address)
    assert not any(secret in str(Driver(store).events) for secret in SECRETS)
    store.close()


def test_a_list_that_is_none_is_refused(tmp_path, begun):
    erasures = tmp_path / "erasures.jsonl"
    erasures.write_text('{"unit": "u_1"}\n')
    done = cli("--again", erasures, "--store", begun)
    assert (done.exit_code, "line 1: this is no erasure" in done.output) == (1, True)


def test_beside_a_running_service(address, declaration):
    """From the command line, while decisions go on; and by those who may."""
    with serving(address) as url, cb.Client(url) as client:
        client.create({**declaration, "unit": {"sticky": True}})
        for i in range(40):
            client.decide("checkout", {"age": 37.4375, "device": "desk"}, id=f"d{i}", unit=f"p{i % 4}")
            client.report("checkout", f"d{i}", {"revenue": float(i)})
        assert [e.decisions for e in erasure.erase_units(address, "checkout", ["p1", "p9"], "asked")] == [10, 0]
        assert client.decide("checkout", PHONE, id="more", unit="p2").repeated
        done = client.erase("checkout", "p2", "asked")
        assert done["decisions"] == 11
        assert client.explain("checkout", PHONE)["units"] == 2
        shown = client.events("checkout")["events"]
        assert (shown[3]["kind"], shown[3]["body"]["context"], shown[3]["body"]["names"]) == (
            "decided",
            "erased",
            "erased",
        )
        assert shown[4]["body"]["values"] == "erased"
        assert shown[1]["body"]["context"] == {"age": 37.4375, "device": "desk"}
        state = client.state("checkout")
    store = open_store(address)
    with store.read() as session:
        report = verify(session, "checkout")
    assert (report.agrees, report.whole, report.state) == (True, True, state["state"])
    store.close()


def test_old_stores_learn_to_erase(tmp_path, begun, declaration):
    """Tables that they lack are made when they are opened; a read-only one is read without them."""
    damaged = sqlite3.connect(begun)
    with damaged:
        for table in ("personal", "aliases"):
            damaged.execute(f"DROP TABLE {table}")
    damaged.close()
    run = Driver(open_store(begun, create=False), "other")
    run.create({**declaration, "id": "other", "unit": {}})
    visit(run, "d1", ANN)
    assert run.erase(ANN, "asked")["decisions"] == 1
    run.store.close()
