"""The log in one SQLite file: no set-up, one machine."""

from __future__ import annotations

import queue
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from conebandit.service.errors import CorruptionError, NotFoundError, UnavailableError
from conebandit.service.stores.base import MAX_IDLE, SCHEMA
from conebandit.service.stores.session import Session

WRITING, READING = 16_000, 2000  # kilobytes of cache; whoever writes looks decisions up in a large index
PATIENCE = 10.0  # seconds to wait for another process that writes


class _Connection:
    for_update = ""  # BEGIN IMMEDIATE has locked everything

    def __init__(self, path: str, cache: int) -> None:
        self.raw = sqlite3.connect(path, timeout=PATIENCE, isolation_level=None, check_same_thread=False)
        self.execute = self.raw.execute
        self.execute("PRAGMA journal_mode = WAL")
        self.execute("PRAGMA synchronous = FULL")  # what is acknowledged survives a power cut
        self.execute(f"PRAGMA cache_size = -{cache}")
        self.execute("PRAGMA wal_autocheckpoint = 4000")  # 16 MB: moving pages to the file costs more than writing them

    def insert_many(self, sql: str, rows: Sequence[Sequence[Any]]) -> None:
        self.raw.executemany(sql, rows)

    def check(self) -> None:
        found = next(iter(self.execute("PRAGMA integrity_check(1)")))[0]
        if found != "ok":
            raise CorruptionError(f"the database is damaged: {found}.")


class SqliteStore:
    """A store in a file. WAL mode: readers and the writer do not wait for each other.

    Parameters
    ----------
    path
        The file.
    create
        Make it, with its folder, if it is missing.
    """

    def __init__(self, path: str, *, create: bool = True) -> None:
        if not create and not Path(path).exists():
            raise NotFoundError(f"there is no store at {path}.")
        self._path = path
        self._idle: dict[int, queue.LifoQueue[_Connection]] = {
            cache: queue.LifoQueue(MAX_IDLE) for cache in (WRITING, READING)
        }
        try:
            Path(path).parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UnavailableError(f"the folder of {path} cannot be made: {error}.") from None
        try:
            self._make_tables(create=create)
        except NotFoundError:
            self.close()
            raise

    def _make_tables(self, *, create: bool) -> None:
        with self._connection(WRITING) as connection:
            there = {name for (name,) in connection.execute("SELECT name FROM sqlite_master")}
            if not create and "experiments" not in there:
                raise NotFoundError(f"there is no store at {self._path}: the database has no table of experiments.")
            if not SCHEMA.keys() <= there:
                with _transaction(connection, "BEGIN IMMEDIATE"):
                    for statement in SCHEMA.values():
                        connection.execute(statement.format(blob="BLOB"))

    @contextmanager
    def write(self) -> Iterator[Session]:
        """See :class:`Store`."""
        with self._connection(WRITING) as connection, _transaction(connection, "BEGIN IMMEDIATE"):
            yield Session(connection)

    @contextmanager
    def read(self) -> Iterator[Session]:
        """See :class:`Store`."""
        with self._connection(READING) as connection, _transaction(connection, "BEGIN"):
            yield Session(connection)

    @contextmanager
    def _connection(self, cache: int) -> Iterator[_Connection]:
        """One that is idle, or a new one; errors of SQLite become ours, without its SQL."""
        try:
            try:
                connection = self._idle[cache].get_nowait()
            except queue.Empty:
                connection = _Connection(self._path, cache)
            try:
                yield connection
            finally:
                try:
                    self._idle[cache].put_nowait(connection)
                except queue.Full:
                    connection.raw.close()
        except sqlite3.OperationalError as error:
            raise UnavailableError(f"the database {self._path} did not answer: {error}.") from error
        except sqlite3.DatabaseError as error:
            raise CorruptionError(f"the database {self._path} is damaged: {error}.") from error

    def close(self) -> None:
        """Close the idle connections; nobody may be using the store."""
        for idle in self._idle.values():
            while not idle.empty():
                idle.get_nowait().raw.close()


@contextmanager
def _transaction(connection: _Connection, begin: str) -> Iterator[None]:
    connection.execute(begin)
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.raw.in_transaction:
            connection.execute("ROLLBACK")
        raise
