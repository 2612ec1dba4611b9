"""Opening a store, and what happens when it does not answer."""

import contextlib
import os
import queue
import signal
import threading
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest

from conebandit.experiment.errors import InvalidError
from conebandit.service.errors import UnavailableError
from conebandit.service.stores import sqlite
from conebandit.service.stores.base import MAX_IDLE, SCHEMA, open_store
from conebandit.service.stores.postgres import PostgresStore
from conebandit.service.stores.records import START, seal
from conebandit.service.stores.sqlite import READING


def test_opening_a_store_waits_for_nobody_and_keeps_nobody_waiting(address):
    """While one writes, somebody opens the store; PostgreSQL made all others who write wait behind that."""
    store = open_store(address)
    event = seal(START, 1, "mode_changed", None, {"at": 0, "mode": "off"})
    with store.write() as session:
        session.create("long")
        session.append("long", [event])
        opening = threading.Thread(target=lambda: open_store(address).close(), daemon=True)
        opening.start()
        opening.join(5)
        assert not opening.is_alive()
    store.close()


@pytest.mark.parametrize("name", SCHEMA)
def test_what_is_missing_is_made(address, name):
    """An index may have been added by a release, or forgotten by a restore."""
    for _ in range(2):  # the second time only if it was made again
        store = open_store(address)
        with store.write() as session:
            session._run(f"DROP {'INDEX' if '_of_' in name else 'TABLE'} {name}")
        store.close()


ODD = (
    "tab\there",
    "line\nbreak",
    "carriage\rreturn",
    "back\\slash",
    "\\N",
    "\\.",
    "",
    "ü 试验 🧪",
    "NULL",
    "'; --",
    "%s ?",
)


@pytest.mark.parametrize("odd", [ODD, ("d",), ("d", "tab\t"), ("d", "line\n"), ("d", "\r")])
@pytest.mark.parametrize("many", [1, 49, 50, 1200])
def test_rows_are_kept_as_they_are_however_many_come_at_once(store, many, odd):
    """PostgreSQL has many rows copied, as lines in which some characters mean something."""
    names = [f"{odd[i % len(odd)]}{i}" if i >= len(odd) else odd[i] for i in range(many)]
    events, last = [], START
    for i, name in enumerate(names):
        events.append(seal(last, i + 1, "decided", name or None, {"at": i, "text": name}))
        last = events[-1].check
    with store.write() as session:
        session.create("odd")
        session.append("odd", events)
    with store.read() as session:
        assert session.events("odd", limit=many) == events
        assert session.of_decisions("odd", "decided", names) == {e.decision: e for e in events if e.decision}
        found = [session.has_any_decision("odd", ["nobody", name]) for name in names[: len(odd)]]
        assert found == [bool(name) for name in names[: len(odd)]]
        assert not session.has_any_decision("odd", ["nobody"])


def test_no_plan_is_kept_from_when_the_log_was_short(postgres, request):
    """Looking up a thousand ids read the whole log for each of them, once the database had settled on one plan."""
    store = open_store(postgres.fresh_database(request.node.name.lower()))
    with store.read() as session:
        assert list(session._run("SHOW plan_cache_mode")) == [("force_custom_plan",)]
    store.close()


@pytest.mark.parametrize("counted", [False, True])
def test_decisions_are_looked_up_in_their_index_whatever_the_database_believes(postgres, counted):
    """An experiment that PostgreSQL has not counted looks short to it, so it read the whole log, even for each id."""
    store = open_store(postgres.fresh_database(f"believes_{counted}".lower()))
    with store.write() as session:
        for experiment in ("known", "new"):
            session.create(experiment)
            events, last = [], START
            for i in range(1, 3001):
                events.append(seal(last, i, "decided", f"d{i}", {"at": i}))
                last = events[-1].check
            session.append(experiment, events)
            if counted and experiment == "known":
                session._run("ANALYZE events")
    with store.read() as session:
        asked, run = [], session._run
        session._run = lambda sql, values: asked.append((sql, values)) or run(sql, values)
        ids = [f"d{i}" for i in range(2000, 2500)]
        assert session.has_any_decision("new", ["nobody", "d7", "d7"])
        assert not session.has_any_decision("new", [f"nobody{i}" for i in range(500)])
        assert session.first_events("new", ids) == {id_: int(id_[1:]) for id_ in ids}
        assert len(session.histories("new", ["d9", *ids, "d9"], 2499)["d9"]) == 1
        assert len(session.of_decisions("new", "decided", ids)) == len(ids)
        asked = [(sql, values) for sql, values in asked if "events" in sql]
        plans = ["\n".join(row[0] for row in run(f"EXPLAIN (ANALYZE) {sql}", values)) for sql, values in asked]
    store.close()
    assert len(plans) == 5
    for plan in plans:
        assert "(decision = wanted.id))" in plan, plan
        assert "Seq Scan" not in plan, plan
        removed = [line for line in plan.splitlines() if "Rows Removed" in line]
        assert all(int(line.rsplit(":", 1)[1]) < 10 for line in removed), plan


@pytest.fixture
def hasty(postgres, monkeypatch, request):
    """The address of an empty database, to which nobody waits for more than a second or two."""
    module = pytest.importorskip("conebandit.service.stores.postgres")
    monkeypatch.setattr(module, "PATIENCE", 1)
    monkeypatch.setattr(module, "MAX_STATEMENT", 1)
    monkeypatch.setattr(module, "GRACE", 1)
    monkeypatch.setitem(module._SETTINGS, "connect_timeout", 2)  # the least that libpq takes
    return postgres.fresh_database(request.node.name.lower())


@contextmanager
def stopped(postgres):
    """The server takes bytes, but does nothing, as if its machine had gone to sleep."""
    server = int((postgres.data / "postmaster.pid").read_text().split()[0])
    children = Path(f"/proc/{server}/task/{server}/children").read_text().split()
    processes = [server, *map(int, children)]
    for process in processes:
        os.kill(process, signal.SIGSTOP)
    try:
        yield
    finally:
        for process in processes:
            os.kill(process, signal.SIGCONT)


def assert_given_up(store):
    begun = time.monotonic()
    with pytest.raises(UnavailableError), store.write() as session:
        session.experiments()
    assert time.monotonic() - begun < 8


def test_a_server_that_stands_still_is_not_waited_for(hasty, postgres):
    store = open_store(hasty)
    with stopped(postgres):
        assert_given_up(store)  # on the connection that there is
        assert_given_up(store)  # on a new one
    with store.write() as session:
        assert session.create("e")
    store.close()


def test_a_server_that_stands_still_during_a_commit_is_not_waited_for(hasty, postgres):
    """Nobody knows whether that was written; whoever asks again finds out."""
    store = open_store(hasty)

    def stop_before_the_commit(until_then):
        with store.write() as session:
            session.create("e")
            until_then.enter_context(stopped(postgres))

    with ExitStack() as until_then, pytest.raises(UnavailableError):
        stop_before_the_commit(until_then)
    with store.write() as session:
        assert session.experiments() in ([], ["e"])
    store.close()


def test_a_statement_that_takes_too_long_is_given_up_by_the_server(hasty):
    store = open_store(hasty)
    with pytest.raises(UnavailableError, match="QueryCanceled"), store.read() as session:
        session._run("SELECT pg_sleep(10)")
    with store.read() as session:
        assert session.experiments() == []
    store.close()


def test_making_an_index_may_take_long(hasty, monkeypatch):
    monkeypatch.setitem(SCHEMA, "slow", "CREATE TABLE slow AS SELECT 1 FROM pg_sleep(2.5)")
    store = open_store(hasty)
    with pytest.raises(UnavailableError, match="QueryCanceled"), store.read() as session:
        session._run("SELECT pg_sleep(10)")  # but only that
    store.close()


def test_a_lock_is_waited_for_only_so_long(hasty, monkeypatch):
    monkeypatch.setattr("conebandit.service.stores.postgres.MAX_STATEMENT", 20)
    store = open_store(hasty)
    with store.write() as session:
        session.create("e")
    with store.write() as session:
        session.head("e", lock=True)
        with pytest.raises(UnavailableError, match="holds the lock"), store.write() as other:
            other.head("e", lock=True)
    store.close()


def test_the_address_has_the_last_word_on_settings(postgres):
    address = postgres.fresh_database("last_word")
    store = open_store(f"{address}?application_name=mine&keepalives_idle=77")
    with store.read() as session:
        parameters = session._connection.raw.info.get_parameters()
        assert list(session._run("SHOW statement_timeout")) == [("20s",)]
    store.close()
    assert (parameters["keepalives_idle"], parameters["keepalives_interval"]) == ("77", "5")
    assert parameters["application_name"] == "mine"


class Unhurried(queue.LifoQueue):
    """Two who find out together that something is in it get one each, or one of them finds that it is gone."""

    def empty(self):
        found = super().empty()
        time.sleep(0.02)
        return found


def test_idle_connections_can_be_dropped_by_several_at_once():
    store, closed, errors = PostgresStore.__new__(PostgresStore), [], []
    store._idle = Unhurried()
    for number in range(3):
        raw = SimpleNamespace(close=lambda number=number: closed.append(number))
        store._idle.put(SimpleNamespace(raw=raw))

    def drop():
        try:
            store._drop_idle()
        except queue.Empty as error:
            errors.append(error)

    threads = [threading.Thread(target=drop) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (errors, sorted(closed)) == ([], [0, 1, 2])


def test_after_a_rush_few_connections_stay(address):
    store = open_store(address)
    with contextlib.ExitStack() as rush:
        sessions = [rush.enter_context(store.read()) for _ in range(MAX_IDLE + 4)]
        assert len(sessions) == MAX_IDLE + 4
    assert (store._idle.qsize() if isinstance(store, PostgresStore) else len(store._idle[READING])) == MAX_IDLE
    with store.read() as session:
        assert session.experiments() == []
    store.close()


def test_only_the_owner_may_read_the_file_of_a_new_store(tmp_path):
    path = tmp_path / "log.db"
    store = open_store(str(path))
    with store.write() as session:
        session.create("e")
    beside = sorted(tmp_path.iterdir())
    assert len(beside) == 3, "with what SQLite keeps beside it"
    if os.name == "posix":
        assert {file.stat().st_mode & 0o777 for file in beside} == {0o600}
        path.chmod(0o640)
        open_store(str(path)).close()
        assert path.stat().st_mode & 0o777 == 0o640, "what somebody has chosen stays"
    store.close()


def test_a_store_on_a_read_only_file_system_can_be_read(tmp_path, monkeypatch):
    path = str(tmp_path / "log.db")
    store = open_store(path)
    with store.write() as session:
        session.create("e")
    monkeypatch.setattr(sqlite.os, "access", lambda *_: False)  # as it says there, even to root
    assert not sqlite._cannot_change(path), "somebody has it open, and writes beside it"
    store.close()
    assert sqlite._cannot_change(path)
    with contextlib.closing(open_store(path, create=False)) as store:
        with store.read() as session:
            assert session.experiments() == ["e"]
            session.check_database()
        with pytest.raises(UnavailableError, match="readonly"), store.write() as session:
            session.create("f")
    assert [file.name for file in tmp_path.iterdir()] == ["log.db"], "nothing was put beside it"


@pytest.mark.parametrize("where", [".", "file/log.db"])
def test_a_path_that_cannot_be_a_store_is_refused_for_good(tmp_path, where):
    """Not ``UnavailableError``, after which a start tries again for half a minute."""
    (tmp_path / "file").touch()
    with pytest.raises(InvalidError, match="cannot be opened"):
        open_store(str(tmp_path / where))


def test_postgres_acknowledges_only_what_is_on_disk(postgres):
    address = postgres.fresh_database("synchronous")
    for setting, used in (("off", "on"), ("on", "on"), ("remote_apply", "remote_apply")):
        store = open_store(f"{address}?options=-csynchronous_commit%3D{setting}")
        with store.write() as session:
            assert list(session._run("SHOW synchronous_commit")) == [(used,)]
        store.close()
