"""An import keeps nobody waiting, and nothing of it is seen before it is whole."""

import io
from contextlib import contextmanager

import pytest

from conebandit.experiment.declaration import Experiment
from conebandit.service import export as tables
from conebandit.service.engine.ledger import Ledger
from conebandit.service.engine.turn import Turn
from conebandit.service.errors import ConflictError, CorruptionError, NotFoundError
from conebandit.service.export import export
from conebandit.service.log.restore import restore
from conebandit.service.log.state import State
from conebandit.service.log.verify import verify
from conebandit.service.stores.base import open_store
from conebandit.service.stores.records import Record, _sealed_text, from_lines, seal, to_lines
from conebandit.service.stores.seals import START, UNKEYED
from conebandit.service.stores.session import PAGE
from tests.service.driver import Driver

EVENTS = 3 * PAGE + 10


@pytest.fixture
def exported(tmp_path, declaration):
    """A log of EVENTS events."""
    store = open_store(str(tmp_path / "original.db"))
    with Ledger().transaction(store, now=0) as transaction:
        turn = Turn(transaction)
        turn.create(Experiment.from_dict(declaration))
        for i in range((EVENTS - 1) // 2):
            turn.decide("checkout", [{"id": f"d{i}", "context": {"age": 18 + i % 80, "device": "phone"}}])
        turn.report("checkout", [{"id": "d0", "values": {"revenue": 1.0}}])
        for i in range(EVENTS - 2 - (EVENTS - 1) // 2):
            turn.set_mode("checkout", "off" if i % 2 else "shadow")
    content = b"".join(export(store, "checkout", "jsonl"))
    store.close()
    return content


class Watched:
    """A store that calls ``before`` with the number of each transaction that writes, and counts what it writes."""

    def __init__(self, store, before=lambda number: None):
        self.read, self.before, self.written, self.inside = store.read, before, [], False
        self._write, self.seals = store.write, store.seals

    @contextmanager
    def write(self):
        self.before(len(self.written))
        with self._write() as session:
            self.inside = True
            size = "SELECT COUNT(*) FROM events"
            before = next(iter(session._run(size)))[0]
            yield session
            self.written.append(next(iter(session._run(size)))[0] - before)
            self.inside = False


def bring_in(content, store):
    return restore(store, from_lines(io.TextIOWrapper(io.BytesIO(content), "utf-8", newline="\n")))


def assert_nothing_is_there(store):
    with store.read() as session:
        assert (session.experiments(), session.head("checkout")) == ([], None)
        with pytest.raises(NotFoundError):
            verify(session, "checkout")
    with pytest.raises(NotFoundError), Ledger().transaction(store, now=0) as transaction:
        Turn(transaction).decide("checkout", [{"id": "d0", "context": {}}])


def assert_whole(store, content):
    with store.read() as session:
        report = verify(session, "checkout")
    assert (report.agrees, report.events) == (True, EVENTS)
    assert b"".join(export(store, "checkout", "jsonl")) == content


def test_transactions_are_short_and_nothing_is_seen_before_the_last(store, exported, monkeypatch):
    watched = Watched(store, lambda _: assert_nothing_is_there(store))
    fold = State.fold

    def fold_without_lock(*arguments):
        assert not watched.inside
        fold(*arguments)

    monkeypatch.setattr(State, "fold", fold_without_lock)
    assert bring_in(exported, watched) == "checkout"
    assert [n for n in watched.written if n] == [PAGE, PAGE, PAGE, 10]
    monkeypatch.undo()
    assert_whole(store, exported)


class InterruptError(Exception):
    pass


def interrupt_at(last):
    def before(number):
        if number == last:
            raise InterruptError

    return before


@pytest.mark.parametrize("last", [2, 4, 6])
def test_an_import_that_was_interrupted_leaves_nothing_and_can_be_repeated(store, exported, last):
    with pytest.raises(InterruptError):
        bring_in(exported, Watched(store, interrupt_at(last)))
    assert_nothing_is_there(store)
    watched = Watched(store)
    bring_in(exported, watched)
    assert min(watched.written) >= -PAGE
    assert_whole(store, exported)
    with pytest.raises(ConflictError, match="never overwrites"):
        bring_in(exported, store)
    assert_whole(store, exported)


def create(store, declaration):
    with Ledger().transaction(store, now=0) as transaction:
        turn = Turn(transaction)
        turn.create(Experiment.from_dict(declaration))
        turn.decide("checkout", [{"id": f"n{i}", "context": {"age": 40, "device": "desk"}} for i in range(9)])


def assert_created(store):
    with store.read() as session:
        report = verify(session, "checkout")
        assert len(session.events("checkout", limit=EVENTS)) == 10
    assert (report.agrees, report.events) == (True, 10)


def test_what_was_left_is_in_nobodys_way(store, exported, declaration):
    with pytest.raises(InterruptError):
        bring_in(exported, Watched(store, interrupt_at(4)))
    create(store, declaration)
    assert_created(store)


@pytest.mark.parametrize("when", [0, 4, 6])
def test_an_experiment_that_is_made_meanwhile_is_kept(store, exported, declaration, when):
    watched = Watched(store, lambda number: create(store, declaration) if number == when else None)
    with pytest.raises(ConflictError, match=r"already|meanwhile"):
        bring_in(exported, watched)
    assert_created(store)


def test_of_two_imports_one_is_whole(store, exported):
    watched = Watched(store, lambda number: bring_in(exported, store) if number == 4 else None)
    with pytest.raises(ConflictError, match="meanwhile"):
        bring_in(exported, watched)
    assert_whole(store, exported)


def _sealed(*events):
    """A log of events (kind, body), each with the seal that it needs."""
    log, before = [], START
    for seq, (kind, body) in enumerate(events, start=1):
        log.append(seal(before, seq, kind, None, body))
        before = log[-1].check
    return iter(log)


OFF = {"mode": "off"}


NOT_IMPORTED = {
    "a time that is text": (1, [("mode_changed", {**OFF, "at": "x"})], "event 2 .*'at' must be"),
    "no time": (1, [("mode_changed", {**OFF, "at": None})], "event 2 .*'at' must be"),
    "a fraction": (1.5, [], "event 1 .*'at' must be"),
    "true": (True, [], "event 1 .*'at' must be"),
    "after the year 9999": (10**30, [], "event 1 .*'at' must be"),
    "before 1970": (-1, [], "event 1 .*'at' must be"),
    "a time before the last": (5, [("mode_changed", {**OFF, "at": 4})], "event 2 .*not before the event before"),
    "a revision of nothing": (1, [("revised", {"upto": "x", "at": 1})], "leads to no state"),
}


@pytest.mark.parametrize(("at", "more", "message"), NOT_IMPORTED.values(), ids=NOT_IMPORTED)
def test_a_log_with_impossible_events_is_not_imported(store, declaration, at, more, message):
    first = ("created", {"declaration": declaration, "library": "0", "at": at})
    with pytest.raises(CorruptionError, match=message):
        restore(store, _sealed(first, *more))
    with store.read() as session:
        assert session.experiments() == []


@pytest.mark.parametrize("more", [[], [("revised", {"upto": 2, "at": 1})]], ids=["plain", "revised"])
def test_a_log_with_two_declarations_is_not_imported(store, declaration, more):
    first = ("created", {"declaration": declaration, "library": "0", "at": 1})
    with pytest.raises(CorruptionError, match=r"event 2 \(created\)"):
        restore(store, _sealed(first, first, *more))


def test_a_log_of_the_last_millisecond_can_be_used(store, declaration):
    last = 253_402_300_799_999
    first = ("created", {"declaration": declaration, "library": "0", "at": last})
    restore(store, _sealed(first, ("mode_changed", {**OFF, "at": last})))
    run = Driver(store)
    assert run.ask("one")["arm"] == "old"
    assert b"9999-12-31T23:59:59" in b"".join(tables.export(store, "checkout", "csv"))


@pytest.mark.parametrize(
    ("kind", "decision", "text"),
    [("\ud800", None, "{}"), ("decided", "\ud800", "{}"), ("decided", "d", '"\ud800"')],
    ids=["kind", "decision", "body"],
)
def test_what_no_database_takes_is_said_to_be_no_event(store, declaration, kind, decision, text):
    [first] = _sealed(("created", {"declaration": declaration, "library": "0", "at": 1}))
    lines = [*to_lines([first, Record(2, kind, decision, text, "0" * 32)])]
    with pytest.raises(CorruptionError, match="line 3 is not an event"):
        restore(store, from_lines(io.StringIO("".join(lines))))
    assert_nothing_is_there(store)


@pytest.mark.parametrize("line", ["NaN", "-Infinity", '[2,"decided","d","{}","x",NaN]', "[2,1e999]"])
def test_numbers_that_no_log_holds_are_not_imported(store, declaration, line):
    [first] = _sealed(("created", {"declaration": declaration, "library": "0", "at": 1}))
    lines = list(to_lines([first]))
    with pytest.raises(CorruptionError, match="line 3 is not as it was written"):
        restore(store, from_lines(io.StringIO("".join([*lines[:2], line + "\n", *lines[2:]]))))
    assert_nothing_is_there(store)


def test_what_is_nested_too_deeply_to_be_read_is_not_imported(store, declaration):
    [first] = _sealed(("created", {"declaration": declaration, "library": "0", "at": 1}))
    nested = "[" * 100_000 + "]" * 100_000
    sealed = UNKEYED.seal("", first.check, _sealed_text(2, "mode_changed", None, nested))
    second = Record(2, "mode_changed", None, nested, sealed)
    with pytest.raises(CorruptionError, match=r"event 2 \(mode_changed\) is not JSON"):
        restore(store, iter([first, second]))
    with pytest.raises(CorruptionError, match="line 2 is not whole"):
        restore(store, from_lines(io.StringIO(next(to_lines([])) + nested + "\n")))
    assert_nothing_is_there(store)
