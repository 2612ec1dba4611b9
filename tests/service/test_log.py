"""A log that was cut or changed is noticed and named, never silently accepted."""

import io
import random
import shutil
import sqlite3

import pytest

from conebandit.experiment.declaration import Experiment
from conebandit.service.engine.ledger import Ledger
from conebandit.service.engine.turn import Turn
from conebandit.service.errors import ConflictError, CorruptionError, ServiceError
from conebandit.service.export import export
from conebandit.service.log.restore import restore
from conebandit.service.log.verify import verify
from conebandit.service.stores.base import open_store
from conebandit.service.stores.records import from_lines


@pytest.fixture
def database(tmp_path, declaration):
    path = tmp_path / "log.db"
    store = open_store(str(path))
    with Ledger().transaction(store, now=0) as transaction:
        turn = Turn(transaction)
        turn.create(Experiment.from_dict(declaration))
        for i in range(30):
            turn.decide("checkout", [{"id": f"d{i}", "context": {"age": i, "device": "phone"}}])
            turn.report("checkout", [{"id": f"d{i}", "values": {"revenue": i / 7}}])
        transaction.write_snapshot("checkout")
    store.close()
    return path


def read(path):
    """The exported log and the digest of its state; or an error."""
    store = open_store(str(path))
    try:
        with store.read() as session:
            report = verify(session, "checkout")
        if not report.agrees:
            raise CorruptionError(*report.problems)
        return b"".join(export(store, "checkout", "jsonl")), report.state
    finally:
        store.close()


def bring_in(content, path):
    store = open_store(str(path))
    try:
        return restore(store, from_lines(io.TextIOWrapper(io.BytesIO(content), "utf-8", newline="\n")))
    finally:
        store.close()


def test_a_log_travels_as_it_is(database, tmp_path):
    content, state = read(database)
    assert bring_in(content, tmp_path / "copy.db") == "checkout"
    assert read(tmp_path / "copy.db") == (content, state)
    with pytest.raises(ConflictError, match="never overwrites"):
        bring_in(content, tmp_path / "copy.db")


def test_a_file_that_was_cut_anywhere_is_refused(database, tmp_path):
    content, _ = read(database)
    rng = random.Random(1)
    lines = [i + 1 for i, byte in enumerate(content) if byte == 10]
    for length in [0, 1, *rng.sample(range(len(content)), 60), *rng.sample(lines[:-1], 20), len(content) - 1]:
        with pytest.raises(CorruptionError, match=r"line \d+|cut short"):
            bring_in(content[:length], tmp_path / "copy.db")
    store = open_store(str(tmp_path / "copy.db"))
    with store.read() as session:
        assert session.experiments() == [], "nothing of them was kept"
    store.close()


def test_a_file_with_a_flipped_byte_is_refused(database, tmp_path):
    content, _ = read(database)
    rng = random.Random(2)
    for _ in range(120):
        damaged = bytearray(content)
        damaged[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
        with pytest.raises(CorruptionError, match=r"line \d+|cut short|not text"):
            bring_in(bytes(damaged), tmp_path / "copy.db")


def test_lines_that_were_swapped_doubled_or_left_out_are_refused(database, tmp_path):
    lines = read(database)[0].splitlines(keepends=True)
    for damaged in (
        [*lines[:5], lines[6], lines[5], *lines[7:]],
        [*lines[:5], lines[5], *lines[5:]],
        [*lines[:5], *lines[6:]],
        [*lines, lines[-1]],
        [lines[0], lines[-1]],
        lines[1:],
    ):
        with pytest.raises(CorruptionError):
            bring_in(b"".join(damaged), tmp_path / "copy.db")


def test_a_damaged_database_is_refused_or_the_damage_did_not_matter(database, tmp_path):
    before = read(database)
    content = database.read_bytes()
    rng = random.Random(3)
    refused = 0
    for i in range(80):
        copy = tmp_path / f"copy{i}.db"
        damaged = bytearray(content)
        if i % 4 == 0:
            damaged = damaged[: rng.randrange(len(content))]
        else:
            damaged[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
        copy.write_bytes(damaged)
        try:
            assert read(copy) == before
        except ServiceError:
            refused += 1
    assert 20 < refused < 80


@pytest.mark.parametrize("which", ["seq = 1", "seq > 0"], ids=["first", "all"])
def test_a_log_without_its_first_event_is_said_to_be_damaged(database, which):
    with sqlite3.connect(database) as connection:
        connection.execute(f"DELETE FROM events WHERE {which}")
    connection.close()
    with pytest.raises(CorruptionError, match="does not begin with a declaration"):
        read(database)


def test_a_backup_of_the_file_is_the_experiment(database, tmp_path):
    shutil.copy(database, tmp_path / "backup.db")
    assert read(tmp_path / "backup.db") == read(database)


def test_the_events_of_a_decision_and_those_of_none_are_found_by_an_index(database):
    store = open_store(str(database))
    with store.read() as session:
        asked, run = [], session._run
        session._run = lambda sql, values: asked.append((sql, values)) or run(sql, values)
        session.histories("checkout", ["d1", "d2"], 10)
        session.of_decisions("checkout", "decided", ["d1", "d2"])
        session.of_kinds("checkout", ["created", "revised"], 50)
        plans = [str(list(run("EXPLAIN QUERY PLAN " + sql, values))) for sql, values in asked]
    store.close()
    indices = ["events_of_decision", "events_of_decision", "events_of_experiment"]
    assert all(index in plan for index, plan in zip(indices, plans, strict=True)), plans
