"""One caller's mistake, one damaged log, one log that takes long to read: nobody else suffers from it."""

import tempfile
import threading
from contextlib import closing

import pytest

from conebandit.experiment.declaration import Experiment
from conebandit.experiment.errors import InvalidError
from conebandit.service.engine import readers, transaction
from conebandit.service.engine.writer import Writer
from conebandit.service.errors import ConflictError, CorruptionError, ServiceError, UnavailableError
from conebandit.service.log import replay
from conebandit.service.log.state import State
from conebandit.service.log.verify import verify
from conebandit.service.stores.base import open_store

PHONE = {"age": 30, "device": "phone"}


@pytest.fixture
def served(address, declaration):
    """A writer with two experiments, each with ten decisions, d0 to d9."""
    with closing(Writer(open_store(address))) as opened:
        for id_ in ("one", "two"):
            experiment = Experiment.from_dict({**declaration, "id": id_})
            opened.submit(id_, lambda turn, experiment=experiment: turn.create(experiment)).result()
            decide(opened, id_, *(f"d{i}" for i in range(10)))
        yield opened


def deciding(id_, *decisions, context=PHONE):
    return id_, lambda turn: turn.decide(id_, [{"id": decision, "context": context} for decision in decisions])


def decide(writer, id_, *decisions, context=PHONE):
    return writer.submit(*deciding(id_, *decisions, context=context)).result(timeout=60)


def in_one_turn(writer, *requests):
    """Answers of requests that share a transaction."""
    go = threading.Event()
    writer.submit("one", lambda turn: go.wait(60))  # keeps the writer busy until all are waiting
    futures = [writer.submit(*request) for request in requests]
    go.set()
    return [future.exception(timeout=60) or future.result() for future in futures]


def change(address, sql):
    """Do something to a store that only an accident, or an enemy, does."""
    store = open_store(address)
    with store.write() as session:
        session._run(sql)
    store.close()


# ---- requests -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("age", [float("nan"), float("inf"), 10**400, True, "30", [30]])
def test_a_context_that_is_no_context_fails_alone(served, age):
    bad = deciding("one", "d0", context={**PHONE, "age": age})
    twice = deciding("one", "new", "new", context={**PHONE, "age": age})
    answers = in_one_turn(served, deciding("two", "a"), bad, deciding("one", "b"), twice, deciding("two", "c"))
    assert [isinstance(answer, InvalidError) for answer in answers] == [False, True, False, True, False]
    assert [answers[i][0].id for i in (0, 2, 4)] == ["a", "b", "c"]


def test_what_nobody_expects_fails_alone(served, caplog):
    def fault(turn):
        turn.decide("one", [{"id": "half-done", "context": PHONE}])
        raise RuntimeError("a fault of ours")

    untouched = served._ledger.state("two")
    first, failed, second = in_one_turn(served, deciding("one", "a"), ("one", fault), deciding("one", "b"))
    assert type(failed) is ServiceError
    assert "a fault of ours" not in str(failed)
    assert "a fault of ours" in caplog.text
    assert (first[0].id, second[0].id) == ("a", "b")
    assert served._ledger.state("two") is untouched
    described = served.submit("one", lambda turn: turn.describe("one")).result()
    assert described.events == 1 + 10 + 2, "nothing of the half that was done"


def test_contexts_that_say_the_same_are_the_same(served, declaration):
    made = decide(served, "one", "x", context={"age": 40, "device": "desk"})
    assert decide(served, "one", "x", context={"age": 40.0, "device": "desk"}) == made
    made = decide(served, "one", "y", context={"device": "desk", "age": None})
    assert decide(served, "one", "y", context={"device": "desk"}) == made
    with pytest.raises(ConflictError, match="another context"):
        decide(
            served, "one", "y", context={"device": "desk", "age": 40}
        )  # what is missing counts as 40, but was missing


# ---- damaged logs ---------------------------------------------------------------------------------------------------

DAMAGES = {
    "no JSON in created": ("UPDATE events SET body = 'garbage' WHERE experiment = 'two' AND seq = 1", "event 1 "),
    "another declaration": (
        "UPDATE events SET body = replace(body, 'bold', 'mild') WHERE experiment = 'two' AND seq = 1", "event 1 ",
    ),
    "no JSON in revised": ("UPDATE events SET body = '!' WHERE experiment = 'two' AND kind = 'revised'", "revised"),
    "another revised": (
        "UPDATE events SET body = replace(body, 'upto', 'upon') WHERE experiment = 'two' AND kind = 'revised'",
        "revised",
    ),
    "no JSON in an arm": ("UPDATE events SET body = '' WHERE experiment = 'two' AND kind = 'arm_added'", "arm_added"),
    "no end": ("DELETE FROM events WHERE experiment = 'two' AND seq > 11", "missing"),
    "a hole": ("DELETE FROM events WHERE experiment = 'two' AND seq = 5", "missing"),
    "another head": ("UPDATE experiments SET last_check = 'x' WHERE id = 'two'", "event"),
}  # fmt: skip


@pytest.mark.parametrize("kept", [False, True], ids=["without snapshots", "with snapshots"])
@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_log_is_named_and_others_are_served(address, declaration, damage, kept, monkeypatch):
    with closing(Writer(open_store(address))) as first:
        for id_ in ("one", "two"):
            experiment = Experiment.from_dict({**declaration, "id": id_})
            first.submit(id_, lambda turn, experiment=experiment: turn.create(experiment)).result()
            decide(first, id_, *(f"d{i}" for i in range(10)))
            first.submit(id_, lambda turn, id_=id_: turn.add_arm(id_, "fourth")).result()
            decide(first, id_, "last")
        if not kept:
            monkeypatch.setattr(first, "_write_snapshots", lambda: None)
    sql, named = DAMAGES[damage]
    change(address, sql)
    with closing(Writer(open_store(address))) as second:
        bad, good = in_one_turn(second, deciding("two", "new"), deciding("one", "new"))
        assert good[0].id == "new"
        assert isinstance(bad, CorruptionError)
        assert named in str(bad)
        with second.store.read() as session, pytest.raises(CorruptionError):
            verify(session, "two")


def test_a_damaged_log_is_not_read_again_for_every_request(address, declaration, served, monkeypatch):
    served.submit("two", lambda turn: turn.transaction.write_snapshot("two")).result()
    change(address, "UPDATE events SET body = '!' WHERE experiment = 'two' AND seq = 1")
    served._ledger.forget(["two"])
    folds = []
    monkeypatch.setattr(readers, "read_to_head", lambda *given: folds.append(given) or replay.read_to_head(*given))
    for _ in range(3):
        with pytest.raises(CorruptionError, match="event 1 "):
            decide(served, "two", "new")
    assert len(folds) == 1


def test_a_decision_that_was_changed_is_not_given_out(address, served):
    change(
        address, "UPDATE events SET body = replace(body, 'phone', 'desk') WHERE experiment = 'two' AND decision = 'd3'"
    )
    with pytest.raises(CorruptionError, match="event 5 "):
        decide(served, "two", "d3")
    report = [{"id": "d3", "values": {"revenue": 1.0}}]
    with pytest.raises(CorruptionError, match="event 5 "):
        served.submit("two", lambda turn: turn.report("two", report)).result()
    assert decide(served, "two", "d4")[0].id == "d4"


def test_without_room_for_temporary_files_the_log_is_enough(address, served, monkeypatch, caplog):
    served.close()

    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(tempfile, "TemporaryDirectory", full)
    again = Writer(open_store(address))
    assert decide(again, "one", "d3")[0].id == "d3"
    decide(again, "one", "new")
    again.close()
    assert "was kept" in caplog.text


# ---- logs that take long --------------------------------------------------------------------------------------------


@pytest.fixture
def slow(monkeypatch):
    """Reading a log takes until this is set."""
    go = threading.Event()

    def reading(read, id_, known=None):
        while not go.wait(0.01):
            with read():
                pass
        return replay.read_to_head(read, id_, known)

    monkeypatch.setattr(readers, "read_to_head", reading)
    return go


def test_a_log_that_takes_long_to_read_keeps_nobody_else_waiting(served, slow):
    served._ledger.forget(["two"])
    waiting = [served.submit(*deciding("two", f"w{i}")) for i in range(5)]
    for i in range(20):
        assert decide(served, "one", f"n{i}")[0].id == f"n{i}"
    waiting += [served.submit(*deciding("two", f"w{i}")) for i in range(5, 8)]
    assert decide(served, "one", "n20")[0].id == "n20"
    assert not any(future.done() for future in waiting)
    assert served.waiting == len(waiting)
    slow.set()
    assert [future.result(timeout=60)[0].id for future in waiting] == [f"w{i}" for i in range(8)]
    with served.store.read() as session:
        events = session.events("two", after=11)
    assert [event.decision for event in events] == [f"w{i}" for i in range(8)], "in the order in which they came"


def test_who_waits_for_a_log_is_told_when_the_service_ends(served, slow):
    served._ledger.forget(["two"])
    waiting = served.submit(*deciding("two", "w"))
    decide(served, "one", "n")  # by then the other one is put off
    served.close()
    with pytest.raises(UnavailableError, match="shutting down"):
        waiting.result(timeout=60)
    with pytest.raises(UnavailableError, match="shutting down"):
        decide(served, "one", "too late")


def away(*_):
    raise UnavailableError("away")


def test_a_store_that_is_away_while_a_log_is_read(served, monkeypatch):
    served._ledger.forget(["two"])

    monkeypatch.setattr(readers, "read_to_head", away)
    with pytest.raises(UnavailableError, match="away"):
        decide(served, "two", "a")
    monkeypatch.undo()
    assert decide(served, "two", "a")[0].id == "a"


def test_reads_that_failed_are_no_reason_to_read_under_the_lock(served, monkeypatch):
    for _ in range(5):
        served._ledger.forget(["two"])
        with monkeypatch.context() as patched:
            patched.setattr(readers, "read_to_head", away)
            with pytest.raises(UnavailableError, match="away"):
                decide(served, "two", "a")
    monkeypatch.setattr(transaction, "rebuild", None)
    assert decide(served, "two", "a")[0].id == "a"


def test_many_logs_are_read_by_few_threads(served, declaration, slow):
    ids = [f"e{i}" for i in range(20)]
    for id_ in ids:
        experiment = Experiment.from_dict({**declaration, "id": id_})
        served.submit(id_, lambda turn, experiment=experiment: turn.create(experiment)).result()
    served._ledger.forget(ids)
    waiting = [served.submit(*deciding(id_, "a")) for id_ in ids]
    decide(served, "one", "n")
    assert sum(thread.name == "conebandit-reader" for thread in threading.enumerate()) == readers.THREADS
    slow.set()
    assert [future.result(timeout=60)[0].id for future in waiting] == ["a"] * 20


def test_who_has_waited_comes_first(served, slow):
    """A value that was reported later is the one that counts."""
    served._ledger.forget(["two"])

    def report(value):
        told = [{"id": "d1", "values": {"revenue": value}}]
        return served.submit("two", lambda turn: turn.report("two", told))

    first = report(1.0)
    decide(served, "one", "n")  # by then it is put off
    go = threading.Event()
    served.submit("one", lambda turn: go.wait(60))
    second = report(2.0)  # is in the queue before it is known that the log was read
    slow.set()
    while served._queue.qsize() < 2:
        pass
    go.set()
    assert first.result(timeout=60)[0].recorded == ("revenue",)
    assert second.result(timeout=60)[0].corrected == ("revenue",)


def test_what_fails_after_a_commit_takes_nothing_back(served, monkeypatch, caplog):
    def fault(turn):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(served._revisions, "update", fault)
    answers = in_one_turn(served, deciding("one", "a"), deciding("two", "b"))
    assert [answer[0].id for answer in answers] == ["a", "b"]
    for id_ in ("one", "two"):  # these turns come after all that followed on that one
        assert served.submit(id_, lambda turn, id_=id_: turn.describe(id_)).result().events == 12
    assert "failed after a commit" in caplog.text


def test_a_store_that_is_away_costs_only_what_was_not_written(served, monkeypatch):
    """States that were only looked at stay in memory."""
    before = served._ledger.state("two")

    answers = in_one_turn(served, deciding("one", "a"), ("two", lambda turn: turn.describe("two")), ("two", away))
    assert all(isinstance(answer, UnavailableError) for answer in answers)
    assert served._ledger.experiments() == ["two"]
    assert served._ledger.state("two") is before
    assert decide(served, "one", "a")[0].id == "a"


def test_a_fault_while_a_log_is_read(served, monkeypatch, caplog):
    served._ledger.forget(["two"])

    def fault(*_):
        raise RuntimeError("a fault of ours")

    monkeypatch.setattr(State, "fold", fault)
    with pytest.raises(ServiceError, match="unexpected"):
        decide(served, "two", "a")
    assert "could not be read" in caplog.text
    monkeypatch.undo()
    assert decide(served, "two", "a")[0].id == "a"
