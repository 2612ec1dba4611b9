"""Somebody else holds the lock of one experiment (on PostgreSQL, whose locks are of rows): the others go on."""

from concurrent.futures import Future
from contextlib import closing

import psycopg
import pytest

from conebandit.experiment.declaration import Experiment
from conebandit.service.engine import parking
from conebandit.service.engine.requests import Request
from conebandit.service.engine.writer import Writer
from conebandit.service.errors import BusyError, NotFoundError
from conebandit.service.stores.base import open_store
from tests.service.driver import PHONE


@pytest.fixture
def where(request, postgres):
    return postgres.fresh_database(f"locked_{request.node.name.partition('[')[0]}"[:60])


@pytest.fixture
def writer(where, declaration):
    with closing(Writer(open_store(where))) as opened:
        for id_ in ("a", "b"):
            experiment = Experiment.from_dict({**declaration, "id": id_})
            opened.submit(id_, lambda turn, e=experiment: turn.create(e)).result()
        yield opened


@pytest.fixture
def other(where):
    """Somebody who holds the lock of experiment a until told to let go."""
    with psycopg.connect(where) as connection:
        yield connection


def lock(other):
    other.execute("SELECT head FROM experiments WHERE id = 'a' FOR UPDATE")


def decide(id_, number):
    return lambda turn: turn.decide(id_, [{"id": str(number), "context": PHONE}])


def test_others_are_answered_meanwhile_and_it_is_when_the_lock_is_free(writer, other):
    lock(other)
    waiting = [writer.submit("a", decide("a", i)) for i in range(3)]
    together: dict[str, Future] = {"a": Future(), "b": Future()}
    writer.submit_all([Request(id_, decide(id_, "together"), answer) for id_, answer in together.items()])
    assert together["b"].result(60)[0].id == "together"
    for i in range(20):
        assert writer.submit("b", decide("b", i)).result(60)
    assert not any(answer.done() for answer in (*waiting, together["a"]))
    other.rollback()
    assert [answer.result(60)[0].id for answer in (*waiting, together["a"])] == ["0", "1", "2", "together"]


def test_in_the_end_its_requests_are_refused(writer, other, monkeypatch):
    monkeypatch.setattr(parking, "MAX_LOCKED", 0.3)
    lock(other)
    with pytest.raises(BusyError):
        writer.submit("a", decide("a", 1)).result(60)
    assert writer.submit("b", decide("b", 1)).result(60)
    other.rollback()
    assert writer.submit("a", decide("a", 1)).result(60)


def test_a_writer_that_is_closed_does_not_wait_for_the_lock(writer, other, monkeypatch):
    monkeypatch.setattr(parking, "MAX_LOCKED", 1e9)
    lock(other)
    waiting = writer.submit("a", decide("a", 1))
    writer.close(snapshots=False)
    with pytest.raises(BusyError):
        waiting.result(0)


def test_what_was_done_before_a_busy_lock_stays(where, writer, other):
    lock(other)
    with closing(open_store(where)) as store:
        with store.write() as session:
            session.begin_snapshot("b", 1)
            with pytest.raises(BusyError):
                session.head("a", lock=True)
            with pytest.raises(NotFoundError):
                session.existing_head("c", lock=True)
        with store.read() as session:
            assert session.snapshot_heads("b") == {1: False}
