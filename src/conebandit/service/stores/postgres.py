"""The log in PostgreSQL, for several processes on several machines.

The row of an experiment is locked by whoever appends to its log, so the log is in one order for all; before it decides,
a process folds what the others have appended.
"""

from __future__ import annotations

import queue
import selectors
import time
from collections.abc import Collection, Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import psycopg
import psycopg.conninfo
import psycopg.errors

from conebandit.service.errors import BusyError, NotFoundError, UnavailableError
from conebandit.service.stores.base import MAX_IDLE, SCHEMA
from conebandit.service.stores.seals import UNKEYED, Seals
from conebandit.service.stores.session import Session

_SCHEMA_LOCK = 6_203_117  # any number: processes that start together make the tables one after the other
PATIENCE = 10  # seconds to wait for a connection, or for the lock of somebody else
MAX_IN_LINE = 50  # milliseconds to wait for the lock of an experiment, while requests to others wait for us
MAX_STATEMENT = 20  # seconds for a statement; those of this service take milliseconds, and our client waits for 30 s
VACUUMED = ("personal", "aliases", "snapshot_parts", "edge_uploads")  # tables that hold, or held, personal data
MIN_COPIED = 50  # rows from which on it is quicker to copy them, which takes more trips to the server
_ESCAPES = str.maketrans({"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r"})
GRACE = 5  # seconds more for a server that may be slow to say that it has given up
# Of connections, unless the address says otherwise: notice that the other machine is gone.
_SETTINGS: dict[str, str | int | None] = {
    "connect_timeout": PATIENCE,
    "keepalives_idle": PATIENCE,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 1000 * MAX_STATEMENT,
}


_Selector = getattr(selectors, "PollSelector", selectors.DefaultSelector)  # others cost several system calls


class _Impatient(psycopg.Connection[Any]):
    """Waits for an answer to a statement no longer than it should take.

    ``statement_timeout`` is for the server to keep, and one that was stopped, or whose disk hangs, keeps nothing.
    """

    patient = False  # wait as long as it takes

    def wait(self, gen: Generator[Any, Any, Any], *_: Any, **__: Any) -> Any:
        """Let psycopg's generator do its work: it says what it waits for, and wants to be told when that is there."""
        deadline = time.monotonic() + MAX_STATEMENT + GRACE
        ready = None
        try:
            while True:
                wanted = gen.send(ready)
                with _Selector() as selector:
                    selector.register(self.pgconn.socket, wanted)
                    found = selector.select(None if self.patient else max(0.0, deadline - time.monotonic()))
                if not found:
                    self.close()  # nobody knows what has become of the statement
                    raise psycopg.OperationalError(f"no answer within {MAX_STATEMENT + GRACE} seconds")
                ready = found[0][1]
        except StopIteration as end:
            return end.value
        except KeyboardInterrupt:
            self.close()
            raise


class _Connection:
    for_update = " FOR UPDATE"

    def __init__(self, address: str) -> None:
        settings = _SETTINGS | psycopg.conninfo.conninfo_to_dict(address)
        self.raw = _Impatient.connect(psycopg.conninfo.make_conninfo("", **settings))
        self.execute(f"SET lock_timeout = '{PATIENCE}s'")
        self.execute(f"SET statement_timeout = '{MAX_STATEMENT}s'")
        # A plan that is kept for all values may read the whole log for each of a thousand ids: it was made while there
        # was little in it. To plan anew takes a moment.
        self.execute("SET plan_cache_mode = force_custom_plan")
        # Statements of milliseconds are not worth compiling, which takes a second where many rows are feared.
        self.execute("SET jit = off")
        # What is acknowledged is on disk, whatever the server or the user was set up with; stricter settings stay.
        self.execute(
            "SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'"
        )
        # What edges upload is kept for a moment only: compress it quickly, if the server can.
        self.execute(
            """SELECT set_config(name, 'lz4', false) FROM pg_settings
            WHERE name = 'default_toast_compression' AND 'lz4' = ANY (enumvals)"""
        )
        self.raw.commit()

    def execute(self, sql: str, values: Sequence[Any] = ()) -> Any:
        return self.raw.execute(sql.replace("?", "%s").encode(), tuple(values))

    def lock(self, sql: str, values: Sequence[Any]) -> list[Any]:
        """A lock that is free costs one trip to the server; for one that is not, we stand in line for a moment."""
        found = self.execute(sql + " FOR UPDATE SKIP LOCKED", values).fetchall()
        if found or not self.execute(sql, values).fetchall():
            return list(found)
        try:
            with self.raw.transaction():  # a savepoint: what was done before stays
                self.execute(f"SET LOCAL lock_timeout = '{MAX_IN_LINE}ms'")
                found = self.execute(sql + self.for_update, values).fetchall()
                self.execute(f"SET LOCAL lock_timeout = '{PATIENCE}s'")
        except psycopg.errors.LockNotAvailable:
            raise BusyError("somebody else holds the lock of the experiment; try again.") from None
        return list(found)

    def insert_many(self, sql: str, rows: Sequence[Sequence[Any]]) -> None:
        """One statement for all rows, so that one trip to the server is enough; many are copied, which is less work."""
        head, row = sql.split("VALUES")
        if len(rows) < MIN_COPIED:
            self.execute(f"{head} VALUES {', '.join([row] * len(rows))}", [v for values in rows for v in values])
            return
        table = head.removeprefix("INSERT INTO ")
        with self.raw.cursor() as cursor, cursor.copy(f"COPY {table} FROM STDIN".encode()) as copy:
            copy.write(_copied(rows))

    def about(self, columns: str, experiment: str, decisions: Sequence[str]) -> tuple[str, Sequence[Any]]:
        """Decision by decision: asked for all at once, PostgreSQL reads the whole log if it believes that to be short.

        It does believe so until it has counted the events of an experiment, which may be long after they came.
        """
        sql = f"""SELECT found.* FROM unnest(?::text[]) AS wanted (id) CROSS JOIN LATERAL (
            SELECT {columns} FROM events WHERE experiment = ? AND decision = wanted.id OFFSET 0) AS found"""
        return sql, (_as_array(dict.fromkeys(decisions)), experiment)

    def overwrite_deleted(self) -> None:
        """PostgreSQL keeps deleted rows until it is told to vacuum, or does so by itself."""

    def check(self) -> None:
        """PostgreSQL checks its pages itself, if it was set up so; our seals find the rest."""

    def has_table(self, name: str) -> bool:
        return bool(self.execute("SELECT to_regclass(?)", (name,)).fetchone() != (None,))


def _as_array(values: Collection[str]) -> str:
    """An array as text: to read a statement with a thousand places takes long, here and there."""
    together = "\n".join(values)
    if '"' in together or "\\" in together:
        values = [value.replace("\\", "\\\\").replace('"', '\\"') for value in values]
    return '{"' + '","'.join(values) + '"}'


def _copied(rows: Sequence[Sequence[str | int | None]]) -> str:
    """Rows as COPY reads them."""
    lines = ["\t".join(["\\" if value is None else str(value) for value in values]) for values in rows]
    text = "\n".join(lines)
    n_tabs, n_breaks = sum(map(len, rows)) - len(rows), len(rows) - 1
    if "\\" in text or "\r" in text or text.count("\t") != n_tabs or text.count("\n") != n_breaks:
        text = "\n".join(["\t".join(map(_field, values)) for values in rows])  # something is to be escaped
    return f"{text}\n"


def _field(value: str | int | None) -> str:
    """A value as COPY reads it."""
    return "\\N" if value is None else str(value).translate(_ESCAPES)


def _missing(connection: _Connection) -> list[str]:
    """Tables and indexes that are not there. Asking for an index that is there would wait for all who write."""
    return [name for name in SCHEMA if not connection.has_table(name)]


def _reason(error: BaseException | None, address: str) -> str:
    """What PostgreSQL says, in one line, without a password."""
    try:
        parts = psycopg.conninfo.conninfo_to_dict(address)
    except psycopg.Error:
        parts = {"host": "@"}
    if any("@" in str(parts.get(part)) for part in ("host", "dbname")):  # a part of the password, most likely
        return "the address is not understood; in a password, write @ as %40, / as %2F and % as %25."
    said = " ".join(str(error).split())
    password = parts.get("password")
    return said.replace(str(password), "***") if password else said


class PostgresStore:
    """A store at a ``postgresql://`` address; PostgreSQL 12 or later.

    Parameters
    ----------
    address
        Of a database that the user may create tables in.
    create
        Make the tables if they are missing.
    seals
        What its logs are sealed and checked with.
    """

    shared = True

    def __init__(self, address: str, *, create: bool = True, seals: Seals = UNKEYED) -> None:
        self._address, self.seals = address, seals
        self._idle: queue.LifoQueue[_Connection] = queue.LifoQueue(MAX_IDLE)
        try:
            self._make_tables(create=create)
        except UnavailableError as error:
            self.close()
            # The reason is for whoever starts the process, not for those who call it.
            raise UnavailableError(f"the database did not answer: {_reason(error.__cause__, address)}") from error
        except NotFoundError:
            self.close()
            raise

    def _make_tables(self, *, create: bool) -> None:
        with self._transaction() as connection:
            missing = _missing(connection)
            if not create and "experiments" in missing:
                raise NotFoundError("there is no store: the database has no table of experiments.")
            if missing:
                connection.execute("SELECT pg_advisory_xact_lock(?)", (_SCHEMA_LOCK,))
                connection.execute("SET LOCAL statement_timeout = 0")  # an index of a long log takes a while
                connection.raw.patient = True
                for name in _missing(connection):
                    connection.execute(SCHEMA[name].format(blob="BYTEA"))
                connection.raw.patient = False

    @contextmanager
    def write(self) -> Iterator[Session]:
        """See :class:`Store`."""
        with self._transaction() as connection:
            yield Session(connection, self.seals)

    @contextmanager
    def read(self) -> Iterator[Session]:
        """See :class:`Store`."""
        with self._transaction() as connection:
            connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
            yield Session(connection, self.seals)

    def now(self) -> int:
        """See :class:`Store`."""
        with self._transaction() as connection:
            [(seconds,)] = connection.execute("SELECT extract(epoch FROM clock_timestamp())")
        return int(seconds * 1000)

    def vacuum(self) -> None:
        """See :class:`Store`."""
        try:
            connection = _Connection(self._address)  # of its own: its settings are no good for others
            try:
                connection.raw.autocommit = True  # VACUUM is no part of a transaction
                connection.raw.patient = True
                connection.execute("SET statement_timeout = 0")
                for table in VACUUMED:
                    connection.execute(f"VACUUM (FULL) {table}")
            finally:
                connection.raw.close()
        except psycopg.Error as error:
            raise UnavailableError(f"the database did not answer ({type(error).__name__}); try again.") from error

    @contextmanager
    def _transaction(self) -> Iterator[_Connection]:
        """Commit at the end, undo on errors; a connection that was lost is not used again."""
        try:
            try:
                connection = self._idle.get_nowait()
            except queue.Empty:
                connection = _Connection(self._address)
            try:
                yield connection
                connection.raw.commit()
            except BaseException:
                connection.raw.rollback()
                raise
            finally:
                if connection.raw.closed:
                    self._drop_idle()  # the others were lost with it
                else:
                    self._keep_idle(connection)
        except psycopg.Error as error:
            raise UnavailableError(f"the database did not answer ({type(error).__name__}); try again.") from error

    def _keep_idle(self, connection: _Connection) -> None:
        try:
            self._idle.put_nowait(connection)
        except queue.Full:
            connection.raw.close()

    def _drop_idle(self) -> None:
        """Close those that are idle; others may do so, or take one, at the same time."""
        with suppress(queue.Empty):
            while True:
                self._idle.get_nowait().raw.close()

    def close(self) -> None:
        """Close the idle connections; nobody may be using the store."""
        self._drop_idle()
