"""The ledger's laws: what it holds is what the log says, and nothing that was not written stays in it."""

from contextlib import contextmanager

import pytest

from conebandit.service.engine import snapshots
from conebandit.service.engine.ledger import Ledger
from conebandit.service.engine.transaction import Transaction
from conebandit.service.engine.turn import Turn
from conebandit.service.errors import CorruptionError, NotFoundError, UnavailableError
from conebandit.service.log.replay import rebuild
from conebandit.service.stores.base import open_store
from conebandit.service.stores.records import Head
from tests.service.driver import PHONE, Driver


@pytest.fixture
def store(tmp_path):
    store = open_store(str(tmp_path / "log.db"))
    yield store
    store.close()


@pytest.fixture
def run(store, declaration):
    """Two experiments in one ledger, each with some decisions."""
    run = Driver(store)
    for id_ in ("other", "checkout"):
        run.id = id_
        run.create({**declaration, "id": id_})
        run.decide([{"id": f"d{i}", "context": PHONE} for i in range(5)])
    return run


def in_the_log(store, id_="checkout"):
    with store.read() as session:
        return rebuild(session, id_, session.head(id_), snapshots=False).digest()


def fail_in(run):
    with run.transaction() as transaction:
        turn = Turn(transaction)
        turn.describe("other")
        turn.decide("checkout", [{"id": "lost", "context": PHONE}])
        raise UnavailableError("away")


def test_nothing_of_a_transaction_that_failed_stays_in_memory(run, store):
    other = run.ledger.state("other")
    with pytest.raises(UnavailableError):
        fail_in(run)
    assert run.state is None, "it was ahead of the store"
    assert run.ledger.state("other") is other, "it was only looked at"
    assert run.describe()["events"] == 6
    assert run.digest()["state"] == in_the_log(store)


class Breaking:
    """A store that cannot commit."""

    def __init__(self, store):
        self._store = store

    @contextmanager
    def write(self):
        with self._store.write() as session:
            yield session
            raise UnavailableError("the disk is full")


def test_nothing_of_a_commit_that_failed_stays_in_memory(run, store):
    with (
        pytest.raises(UnavailableError, match="disk"),
        run.ledger.transaction(Breaking(store), run.now) as transaction,
    ):
        Turn(transaction).decide("checkout", [{"id": "lost", "context": PHONE}])
    assert run.state is None
    assert [record.decision for record in run.events[1:]] == [f"d{i}" for i in range(5)]


def test_what_was_forgotten_is_read_again(run, store):
    before = run.digest()
    run.ledger.forget(["checkout"])
    assert run.ledger.experiments() == ["other"]
    assert run.digest() == before
    run.ledger.forget()
    assert run.ledger.experiments() == []
    assert run.digest() == before


def test_a_state_that_is_lent_is_nowhere_else(run):
    lent = run.ledger.lend("checkout")
    assert lent.experiment.id == "checkout"
    assert run.state is None
    assert run.ledger.lend("checkout") is None
    run.ledger.put(lent)
    assert run.state is lent


def test_damage_is_known_until_the_log_has_another_head(run, store):
    with store.read() as session:
        head = session.head("checkout")
    run.ledger.note_damage("checkout", head, "event 3 is not what was written.")
    assert run.ledger.damage("checkout", head) == "event 3 is not what was written."
    assert run.ledger.damage("checkout", Head(head.seq + 1, "another")) is None
    assert run.ledger.damage("other", head) is None
    with run.transaction() as transaction:
        assert transaction.catch_up("checkout"), "there is nothing to read"
        with pytest.raises(CorruptionError, match="event 3 is not what was written"):
            Turn(transaction).describe("checkout")
    Driver(store).ask("elsewhere")
    assert run.describe()["events"] == 7, "whatever it was, the log has gone on"


def test_a_log_is_caught_up_with_if_that_does_not_take_long(run, store):
    behind = run.ledger
    behind.max_replayed = 10
    run.ledger = Ledger()
    for count, near in ((10, True), (11, False)):
        run.decide([{"context": PHONE}] * count)
        with store.write() as session:
            assert Transaction(behind, session, run.now).catch_up("checkout") is near
    assert behind.state("checkout").head.seq == 16, "and left where it was"
    with store.write() as session:
        transaction = Transaction(Ledger(10), session, run.now)
        assert not transaction.catch_up("checkout"), "nothing is known of it"
        assert transaction.catch_up("nothing"), "there is nothing to read"
        with pytest.raises(NotFoundError, match="there is no experiment 'nothing'"):
            transaction.state("nothing")


def test_corrections_by_others_are_noticed_once(run, store):
    run.ledger.max_replayed = 0
    other = Driver(store)
    other.ledger.max_replayed = 0
    other.tell("d0", revenue=1.0)
    other.tell("d0", revenue=2.0)
    run.ledger.max_replayed = 100
    noticed = []
    for _ in range(2):
        with store.write() as session:
            transaction = Transaction(run.ledger, session, run.now)
            assert transaction.state("checkout").corrected_from == 7
            noticed.append(transaction.corrected_by_others)
    assert noticed == [{"checkout"}, set()]


def test_times_in_a_log_never_decrease(run):
    run.now += 1000
    run.ask("later")
    run.now -= 5000
    run.ask("earlier")
    times = [record.body["at"] for record in run.events]
    assert times == sorted(times)
    assert times[-1] == times[-2]


def test_a_snapshot_that_was_begun_is_forgotten_with_its_state(run, store, monkeypatch):
    monkeypatch.setattr(snapshots, "SNAPSHOT_EVERY", 5)
    run.ask("more")
    assert run.ledger.snapshots.in_progress("checkout").seq == 7
    with pytest.raises(UnavailableError):
        fail_in(run)
    assert run.ledger.snapshots.in_progress("checkout") is None
    assert run.digest()["state"] == in_the_log(store)


def test_a_state_with_an_earlier_view_is_not_gone_on_from(run, store):
    state = run.state
    with run.transaction() as transaction:
        assert not transaction.revise(state), "there is nothing to correct"
    assert run.state is state
    assert [record.kind for record in run.events].count("revised") == 0
