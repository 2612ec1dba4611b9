"""The log in one SQLite file: no set-up, one machine."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from conebandit.experiment.errors import InvalidError
from conebandit.service.errors import CorruptionError, NotFoundError, UnavailableError
from conebandit.service.stores.base import MAX_IDLE, SCHEMA
from conebandit.service.stores.seals import UNKEYED, Seals
from conebandit.service.stores.session import Session

WRITING, READING = 16_000, 2000  # kilobytes of cache; whoever writes looks decisions up in a large index
PATIENCE = 10.0  # seconds to wait for another process that writes
CANNOT_OPEN = "SQLITE_CANTOPEN"


class _Connection:
    for_update = ""  # BEGIN IMMEDIATE has locked everything

    def __init__(self, path: str, cache: int, *, unchanging: bool = False) -> None:
        where = f"{Path(path).absolute().as_uri()}?immutable=1" if unchanging else path
        self.raw = sqlite3.connect(
            where, timeout=PATIENCE, isolation_level=None, check_same_thread=False, uri=unchanging
        )
        self.execute = self.raw.execute
        self.erasing = False
        self.execute(f"PRAGMA cache_size = -{cache}")
        if not unchanging:
            self.execute("PRAGMA journal_mode = WAL")
            self.execute("PRAGMA synchronous = FULL")  # what is acknowledged survives a power cut
            self.execute("PRAGMA wal_autocheckpoint = 4000")  # 16 MB: moving pages costs more than writing them

    def lock(self, sql: str, values: Sequence[Any]) -> list[Any]:
        return list(self.execute(sql, values))

    def insert_many(self, sql: str, rows: Sequence[Sequence[Any]]) -> None:
        self.raw.executemany(sql, rows)

    def about(self, columns: str, experiment: str, decisions: Sequence[str]) -> tuple[str, Sequence[Any]]:
        marks = ", ".join("?" * len(decisions))
        return f"SELECT {columns} FROM events WHERE experiment = ? AND decision IN ({marks})", (experiment, *decisions)

    def overwrite_deleted(self) -> None:
        """Deleted bytes become zeros. That takes time, so only where something is erased."""
        self.execute("PRAGMA secure_delete = ON")
        self.erasing = True

    def end_erasing(self) -> None:
        """After the commit: empty the write-ahead log, unless somebody is still reading from it."""
        self.erasing = False
        self.execute("PRAGMA secure_delete = OFF")
        self.execute("PRAGMA busy_timeout = 0")  # nobody shall wait for a reader
        with suppress(sqlite3.OperationalError):
            list(self.execute("PRAGMA wal_checkpoint(TRUNCATE)"))
        self.execute(f"PRAGMA busy_timeout = {PATIENCE * 1000:.0f}")

    def check(self) -> None:
        found = next(iter(self.execute("PRAGMA integrity_check(1)")))[0]
        if found != "ok":
            raise CorruptionError(f"the database is damaged: {found}.")

    def has_table(self, name: str) -> bool:
        return bool(list(self.execute("SELECT name FROM sqlite_master WHERE name = ?", (name,))))


class SqliteStore:
    """A store in a file. WAL mode: readers and the writer do not wait for each other.

    Parameters
    ----------
    path
        The file.
    create
        Make it, with its folder, if it is missing; only its owner may read it.
    seals
        What its logs are sealed and checked with.
    """

    shared = False  # one writes at a time

    def __init__(self, path: str, *, create: bool = True, seals: Seals = UNKEYED) -> None:
        if not create and not Path(path).exists():
            raise NotFoundError(f"there is no store at {path}.")
        self._path, self.seals = path, seals
        self._unchanging = not create and _cannot_change(path)
        # Lists, which threads may share as they are; a queue takes as long as a statement.
        self._idle: dict[int, list[_Connection]] = {WRITING: [], READING: []}
        try:
            if create:
                _make_file(Path(path))
            self._make_tables(create=create)
        except NotFoundError:
            self.close()
            raise
        except (OSError, UnavailableError) as error:
            wrong_path = isinstance(error, OSError) or getattr(error.__cause__, "sqlite_errorname", "") == CANNOT_OPEN
            if wrong_path:  # trying again would not help
                raise InvalidError(f"the database {path} cannot be opened: {error}") from None
            raise

    def _make_tables(self, *, create: bool) -> None:
        with self._connection(WRITING) as connection:
            there = {name for (name,) in connection.execute("SELECT name FROM sqlite_master")}
            if not create and "experiments" not in there:
                raise NotFoundError(f"there is no store at {self._path}: the database has no table of experiments.")
            if not SCHEMA.keys() <= there and not self._unchanging:
                with _transaction(connection, "BEGIN IMMEDIATE"):
                    for statement in SCHEMA.values():
                        connection.execute(statement.format(blob="BLOB"))

    @contextmanager
    def write(self) -> Iterator[Session]:
        """See :class:`Store`."""
        with self._connection(WRITING) as connection:
            with _transaction(connection, "BEGIN IMMEDIATE"):
                yield Session(connection, self.seals)
            if connection.erasing:
                connection.end_erasing()

    @contextmanager
    def read(self) -> Iterator[Session]:
        """See :class:`Store`."""
        with self._connection(READING) as connection, _transaction(connection, "BEGIN"):
            yield Session(connection, self.seals)

    def vacuum(self) -> None:
        """See :class:`Store`."""
        with self._connection(WRITING) as connection:
            connection.execute("VACUUM")
            connection.end_erasing()

    @contextmanager
    def _connection(self, cache: int) -> Iterator[_Connection]:
        """One that is idle, or a new one; errors of SQLite become ours, without its SQL."""
        try:
            idle = self._idle[cache]
            try:
                connection = idle.pop()
            except IndexError:
                connection = _Connection(self._path, cache, unchanging=self._unchanging)
            try:
                yield connection
            finally:
                if len(idle) < MAX_IDLE:
                    idle.append(connection)
                else:
                    connection.raw.close()
        except sqlite3.OperationalError as error:
            raise UnavailableError(f"the database {self._path} did not answer: {error}.") from error
        except (sqlite3.DatabaseError, UnicodeDecodeError) as error:  # what SQLite says may hold bytes of the damage
            raise CorruptionError(f"the database {self._path} is damaged: {error}.") from error

    def now(self) -> None:
        """See :class:`Store`."""
        return

    def close(self) -> None:
        """Close the idle connections; nobody may be using the store."""
        for idle in self._idle.values():
            while idle:
                idle.pop().raw.close()


def _make_file(path: Path) -> None:
    """Make the folder and the file if they are missing; only the owner may read it, or what SQLite puts beside it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    # Not if it is there: to close a file again would take away the locks that this process has on it.
    with suppress(FileExistsError):
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))


def _cannot_change(path: str) -> bool:
    """Whether nobody can have anything to write: the folder is read-only, and nothing lies beside the file.

    SQLite reads such a file only if it is told so, since it cannot put its own beside it.
    """
    beside = [Path(f"{path}-{suffix}").exists() for suffix in ("wal", "shm")]
    return not os.access(Path(path).absolute().parent, os.W_OK) and not any(beside)


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
