"""What views are told of a log is what the log adds up to, however it was read."""

import asyncio
import gc
import random
import threading
import time

import numpy as np
import pytest

from conebandit.service.dashboard.counts import counting, decisions, tallies
from conebandit.service.dashboard.counts.counting import Counting
from conebandit.service.dashboard.counts.decisions import Index, Sampler, uniformly
from conebandit.service.dashboard.counts.tallies import Tallies, read_tally
from conebandit.service.dashboard.counts.tally import DAY, HOUR
from conebandit.service.engine.ledger import Ledger
from conebandit.service.errors import NotFoundError, UnavailableError
from conebandit.service.log.restore import restore
from conebandit.service.stores.base import open_store
from conebandit.service.stores.records import Record, from_lines, to_lines
from tests.service.dashboard.plain_tally import plain_tally
from tests.service.driver import PHONE, Driver
from tests.service.test_amendments import amend_at_random, clock_at_random, guarded
from tests.service.test_export import table
from tests.service.test_units import visit

__all__ = ["guarded"]  # a fixture

NAMES = ("corrections", "retractions", "voids", "late", "void", "erased", "on_hold")


def get(counted, id_="checkout", patience=20):
    return asyncio.run(counted.get(id_, patience))


@pytest.fixture
def counted(store):
    counted = Tallies(store)
    yield counted
    counted.close()


@pytest.fixture
def run(store, declaration):
    run = Driver(store)
    run.create(declaration)
    return run


def assert_is(tally, events):
    """A tally says what a plain count does."""
    plain = plain_tally(events)
    assert tally.complete
    assert not tally.problem
    assert (tally.seen, tally.at) == (len(events), events[-1].body["at"])
    assert {name: getattr(tally, name) for name in NAMES} == {name: plain[name] for name in NAMES}
    assert {arm: n for arm, n in tally.decisions.items() if n} == plain["decisions"]
    for metric, standing in tally.standing.items():
        told = {word: n for word, n in standing._asdict().items() if n}
        assert told == {word: n for word, n in plain["standing"][metric].items() if n}, metric
    assert by_period(tally.days, tally.days.by_arm) == plain["days"]
    assert by_period(tally.days, tally.days.outcomes) == plain["came"]
    assert tally.days.decisions.sum() == tally.n_decisions
    if tally.hours is not None:
        assert by_period(tally.hours, tally.hours.by_arm) == plain["hours"]
    assert_sampled(tally, plain)


def by_period(periods, tables):
    table = {
        (start // periods.length, name): n
        for name, counts in tables.items()
        for start, n in zip(periods.starts.tolist(), counts.tolist(), strict=True)
    }
    return {key: n for key, n in table.items() if n}


def assert_sampled(tally, plain):
    """With fewer decisions than a sample has, all of them are in it."""
    made = {b["id"]: b for id_, b in plain["made"].items() if id_ in plain["counted"]}
    for sample in (tally.sample, tally.recent):
        assert sorted(sample.at.tolist()) == sorted(b["at"] for b in made.values())
        assert sorted(tally.arms[k] for k in sample.arm) == sorted(b["arm"] for b in made.values())
        assert (np.diff(sample.seq) > 0).all()
        assert sorted(sample.visit.tolist()) == sorted(b.get("visit", 1) for b in made.values())


@pytest.mark.untraced
@pytest.mark.parametrize("seed", range(4))
def test_any_log_adds_up_to_what_a_plain_count_says(store, counted, guarded, seed, monkeypatch):
    """At any moment, read in pieces of any length, with units in every other log."""
    monkeypatch.setattr(tallies, "PAGE", 1 + seed)
    monkeypatch.setattr(decisions, "MIN_MERGED", 4)
    rng, run, ids, has_units = random.Random(seed), Driver(store), [], seed % 2
    run.ledger = Ledger(0)
    run.create({**guarded, "unit": {}} if has_units else guarded)

    def ask():
        ids.append(f"d{len(ids)}")
        context = {"age": rng.uniform(0, 120), "device": rng.choice(["phone", "desk"])}
        visit(run, ids[-1], f"u{rng.randrange(30)}", context) if has_units else run.ask(ids[-1], context)

    def erase():
        if has_units:
            run.erase(f"u{rng.randrange(30)}", "asked")
        if run.awaits_revision:
            run.go_on_from(run.begin_revision())

    steps = [ask, lambda: amend_at_random(run, rng, ids), lambda: clock_at_random(run), erase]
    for step in range(160):
        run.now += rng.choice([0, 0, 1, 60_000, HOUR // 2])
        do = rng.choices(steps, [35, 60, 2, 3])[0] if ids else ask
        do()
        if step == 80:
            run.add_arm("late arm")
            run.set_mode("shadow")
        if rng.random() < 0.1:
            assert_is(get(counted), run.events)
    assert_is(get(counted), run.events)
    assert_is(read_tally(store, run.id), run.events)


def test_statuses_are_those_of_an_export(store, guarded):
    rng, run, ids = random.Random(1), Driver(store), []
    run.create(guarded)
    for step in range(120):
        run.now += rng.choice([0, 60_000, HOUR // 2])
        run.ask_at_random(rng, ids, step) if rng.random() < 0.4 or not ids else amend_at_random(run, rng, ids)
    words = {"clipped": "reported", "retracted": "withdrawn", "rejected": "withdrawn"}
    tally, of_late = read_tally(store, run.id), 0
    for metric, standing in tally.standing.items():
        rows = [row for row in table(store).values() if row[f"status.{metric}"] != "void"]
        told = [words.get(row[f"status.{metric}"], row[f"status.{metric}"]) for row in rows]
        assert standing.by_status == tuple(told.count(word) for word in standing._fields[:-1])
        assert standing.total == len(rows)
        # What is shown as missing is what has no value in the table, and nothing else: defaults count for late ones.
        assert standing.lacking == sum(row[f"metric.{metric}"] is None for row in rows)
        of_late += standing.late_default
    assert of_late
    assert tally.void == len(table(store)) - len(rows)


def test_a_default_counts_for_a_late_value_once_nothing_can_come_in_time(store, declaration):
    """As in a table: until the time for uploads is over as well, a value may still come that was observed in time."""
    metric = {"name": "m", "window": "36h", "upload": "2d", "default": 0.0}
    run = Driver(store)
    run.create({**declaration, "metrics": [metric]})
    run.ask("d1")
    run.now += 40 * HOUR
    run.tell("d1", m=5.0)
    for hours, lacking in ((0, 2), (100, 1)):
        run.now += hours * HOUR
        run.ask(f"after {hours}".replace(" ", "-"))
        [standing] = read_tally(store, run.id).standing.values()
        rows = table(store)
        assert standing.late == 1
        assert standing.lacking == lacking
        assert (rows["d1"]["metric.m"] is None) == (hours == 0)
        assert standing.lacking == sum(row["metric.m"] is None for row in rows.values())


def test_what_people_and_rules_did_is_told_with_its_time(run):
    run.ask("a")
    run.now += 1000
    run.set_mode("shadow")
    run.set_stage("paused", "lunch")
    told = [(entry.event.kind, entry.event.at) for entry in read_tally(run.store, run.id).orders]
    assert told == [("created", 1_000_000), ("mode_changed", 1_001_000), ("stage_changed", 1_001_000)]


def test_hours_are_told_for_three_days(run):
    run.ask("a")
    run.now += 3 * DAY - 2 * HOUR
    run.ask("b")
    young = read_tally(run.store, run.id)
    assert young.traffic is young.hours
    assert young.hours.decisions.tolist() == [1, 1]
    run.now += 2 * HOUR
    run.ask("c")
    old = read_tally(run.store, run.id)
    assert old.hours is None
    assert old.traffic.decisions.tolist() == [1, 1, 1]
    assert (old.traffic.starts % DAY == 0).all()


def test_a_corrected_context_is_in_the_sample(run):
    run.ask("a", {"age": 18, "device": "phone"})
    before = read_tally(run.store, run.id).sample.x
    run.correct_context([{"id": "a", "context": {"age": 98, "device": "phone"}, "reason": "a slip"}])
    after = read_tally(run.store, run.id).sample.x
    assert before.shape == after.shape == (1, 3)
    assert (before != after).tolist() == [[True, False, False]]


# ---- names that are hard to read ------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ['a"b', 'x","at":1,"arm":"at', "back\\slash", '"values":{"at":1}}'])
def test_texts_that_look_like_something_else(store, declaration, text):
    declaration |= {"arms": ["values", "at", "unit", "Ärm"], "metrics": [{"name": "at"}, {"name": "Œvre"}]}
    declaration |= {"context": [{"name": "propensity", "levels": ["arm", "values"]}]}
    run = Driver(store)
    run.create(declaration)
    for i in range(20):
        run.ask(f"{text}{i}", {"propensity": "arm"})
        run.report([{"id": f"{text}{i}", "values": {"Œvre": 1.0, "at": 2.0}, "observed_at": "1970-01-01T00:16:40Z"}])
    assert_is(read_tally(store, run.id), run.events)


# ---- reading on the way ---------------------------------------------------------------------------------------------


def test_what_has_been_read_is_told_until_all_has(run, counted, monkeypatch):
    run.decide([{"id": f"d{i}", "context": PHONE} for i in range(400)])
    monkeypatch.setattr(tallies, "PAGE", 50)
    monkeypatch.setattr(tallies, "MIN_INTERVAL", 0.0)
    gate, read = threading.Semaphore(3), tallies._Counted.read_page

    def slowly(self, store):
        gate.acquire(timeout=30)
        return read(self, store)

    monkeypatch.setattr(tallies._Counted, "read_page", slowly)
    deadline = time.monotonic() + 20
    while (part := get(counted, patience=0.02)).seen == 0 or gate._value:
        assert time.monotonic() < deadline
    assert not part.complete
    assert part.events == 401
    assert 0 < part.share_read < 1
    assert part.n_decisions == part.seen - 1
    assert len(part.sample) == part.n_decisions
    for _ in range(100):
        gate.release()
    assert get(counted).complete


def test_nothing_is_counted_twice_after_an_error_of_the_database(run, monkeypatch):
    monkeypatch.setattr(tallies, "PAGE", 7)
    for i in range(30):
        run.ask(f"d{i}")
        run.tell(f"d{i}", revenue=1.0)

    class Flaky:
        def __init__(self, store):
            self.store, self.reads = store, 0

        def read(self):
            self.reads += 1
            if self.reads % 3 == 0:
                raise UnavailableError("gone for a moment")
            return self.store.read()

    counted = Tallies(Flaky(run.store))
    for _ in range(60):
        try:
            tally = get(counted)
        except UnavailableError:
            continue
        if tally.complete:
            break
    counted.close()
    assert_is(tally, run.events)


def test_another_log_of_the_same_name_is_counted_from_its_beginning(run, counted, tmp_path, declaration):
    run.decide([{"id": f"d{i}", "context": PHONE} for i in range(20)])
    assert get(counted).n_decisions == 20
    other = open_store(str(tmp_path / "other.db"))
    second = Driver(other)
    second.now += 5000
    second.create(declaration)
    second.decide([{"id": f"e{i}", "context": PHONE} for i in range(30)])
    lines = list(to_lines(second.events))
    other.close()
    with run.store.write() as session:
        for sql in ("DELETE FROM events", "DELETE FROM experiments", "DELETE FROM snapshot_heads"):
            session._run(sql)
    with pytest.raises(NotFoundError):
        get(counted)
    restore(run.store, iter(from_lines(lines)))
    assert get(counted).n_decisions == 30
    assert_is(get(counted), run.events)


def test_a_draft_may_be_declared_otherwise(store, counted, declaration):
    run = Driver(store)
    run.create({**declaration, "stage": "draft"})
    assert list(get(counted).standing) == ["revenue", "latency"]
    run.change({"metrics": [{"name": "joy"}], "arms": ["x", "y"], "context": []}, "better")
    run.set_stage("running", "go")
    run.ask("a", {})
    tally = get(counted)
    assert list(tally.standing) == ["joy"]
    assert_is(tally, run.events)


def test_an_erased_unit_is_forgotten_at_once(store, counted, declaration, monkeypatch):
    run = Driver(store)
    run.create({**declaration, "unit": {}})
    for i in range(10):
        visit(run, f"d{i}", f"u{i % 5}", {"age": 20 + i, "device": "phone"})
        run.tell(f"d{i}", revenue=1.0)
    assert len(get(counted).sample) == 10
    run.erase("u3", "asked")
    tally = get(counted)
    assert (tally.n_decisions, tally.erased, len(tally.sample), len(tally.recent)) == (10, 2, 8, 8)
    assert tally.days.outcomes["revenue"].tolist() == [8]
    assert_is(tally, run.events)
    run.erase("u4", "asked")
    monkeypatch.setattr(tallies, "PAGE", 1)
    monkeypatch.setattr(tallies, "PAUSE", 1000.0)
    part = get(counted, patience=0.05)  # the log is read again
    assert part.n_decisions == 10
    assert len(part.sample) in (0, 6), "nobody who is erased"


def test_a_damaged_log_is_told_once_and_not_read_again_and_again(run, counted, monkeypatch):
    run.decide([{"id": f"d{i}", "context": PHONE} for i in range(20)])
    assert get(counted).complete
    run.ask("last")
    with run.store.write() as session:
        session._run("UPDATE events SET body = '{}' WHERE seq = 22")
    tally = get(counted)
    assert "event" in tally.problem
    assert tally.n_decisions == 20
    taken = []
    monkeypatch.setattr(counting.Counting, "take", lambda self, page: taken.append(page))
    assert get(counted).problem == tally.problem
    assert taken == []


def test_a_fault_in_one_log_keeps_no_other_from_being_read(run, counted, declaration, monkeypatch, caplog):
    Driver(run.store, "other").create({**declaration, "id": "other"})
    begin = counting.Counting.begin

    def broken(session, experiment_id):
        if experiment_id == "checkout":
            raise RuntimeError("a fault")
        return begin(session, experiment_id)

    monkeypatch.setattr(counting.Counting, "begin", broken)
    told = asyncio.run(counted.get_all(["checkout", "other"], patience=20))
    assert told["checkout"] is None
    assert told["other"].complete
    assert "checkout: the log could not be counted" in caplog.text


def test_nothing_is_read_when_nobody_looks_or_after_the_end(run, store):
    counted = Tallies(store)
    assert not [one for one in threading.enumerate() if one.name == "conebandit-tallies"]
    get(counted)
    [thread] = [one for one in threading.enumerate() if one.name == "conebandit-tallies"]  # others come and go
    counted.close()
    assert not thread.is_alive()
    with pytest.raises(UnavailableError):
        get(counted)


def test_logs_that_nobody_asked_for_lately_make_room(store, counted, declaration, monkeypatch):
    for id_ in ("a", "b", "c"):
        run = Driver(store, id_)
        run.create({**declaration, "id": id_})
        run.decide([{"id": f"d{i}", "context": PHONE} for i in range(10)])
    monkeypatch.setattr(tallies, "MAX_DECISIONS", 20)
    for id_ in ("a", "b", "a", "c"):
        assert get(counted, id_).n_decisions == 10
    assert [id_ for id_, one in counted._counted.items() if one.n_decisions] == ["a", "c"]
    assert get(counted, "b").n_decisions == 10


def test_too_many_logs_do_not_make_each_other_begin_anew_for_ever(store, counted, declaration, monkeypatch):
    for id_ in "abcd":
        run = Driver(store, id_)
        run.create({**declaration, "id": id_})
        run.decide([{"id": f"d{i}", "context": PHONE} for i in range(10)])
    monkeypatch.setattr(tallies, "MAX_DECISIONS", 25)
    taken, take = [], counting.Counting.take
    monkeypatch.setattr(counting.Counting, "take", lambda self, page: taken.append(page) or take(self, page))
    for _ in range(3):
        told = asyncio.run(counted.get_all(list("abcd"), patience=20))
        assert [tally.n_decisions for tally in told.values()] == [10] * 4, "as they were told before they made room"
    assert len(taken) == 4, "each log was read once"


# ---- parts ----------------------------------------------------------------------------------------------------------


def test_ids_are_found(monkeypatch):
    monkeypatch.setattr(decisions, "MIN_MERGED", 10)
    index, n = Index(), 0
    for size in (1, 9, 3, 25, 7, 60):
        index.add([f"d{n + k}" for k in range(size)], n)
        n += size
        assert index.find([f"d{k}" for k in range(n + 5)]) == [*range(n), *[-1] * 5]


class Place:
    def __init__(self, seq):
        self.seq = seq

    def __lt__(self, other):
        raise AssertionError("rows differ, so that records are never compared")


def test_a_sample_is_the_same_however_it_was_read_and_uniform():
    whole, rng = [Place(seq) for seq in range(2, 40_002)], random.Random(0)
    rank = uniformly("checkout")
    lowest = np.argsort(rank(np.arange(2, 40_002, dtype=np.uint64)))[:500]
    for _ in range(3):
        sampler, start = Sampler(500, rank), 0
        while start < len(whole):
            size = rng.randint(1, 3000)
            sampler.offer(whole[start : start + size], start)
            start += size
            if rng.random() < 0.3:
                sampler.kept()
        assert [one.row for one in sampler.kept()] == sorted(lowest.tolist())
    counts = np.histogram(lowest, bins=10, range=(0, 40_000))[0]  # chi-squared with 9 degrees of freedom
    assert ((counts - 50) ** 2 / 50).sum() < 33.7, "by chance once in 10,000 keys; the key is fixed"


def test_a_sample_keeps_no_records(run):
    """They are long, and there may be hundreds of experiments of which somebody sees a line."""
    run.decide([{"id": f"d{i}", "context": PHONE} for i in range(20)])
    with run.store.read() as session:
        counting, page = Counting.begin(session, run.id), session.events(run.id)
    counting.take(page)
    assert len(counting.tally().sample) == 20
    page.clear()
    gc.collect()
    kept = [one for one in gc.get_objects() if isinstance(one, Record) and one.kind == "decided"]
    assert not [one for one in kept if one.decision in {f"d{i}" for i in range(20)}]
