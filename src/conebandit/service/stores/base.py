"""Where the log is kept. What both databases share is here; ``sqlite`` and ``postgres`` hold what differs."""

from __future__ import annotations

import re
from contextlib import AbstractContextManager
from typing import Protocol

from conebandit.experiment.errors import InvalidError
from conebandit.service.stores.seals import Seals
from conebandit.service.stores.session import Session

MAX_IDLE = 8  # connections that are kept for whoever comes next; after a rush the others are closed

SCHEMA = {  # what is made if it is missing
    "experiments": """CREATE TABLE IF NOT EXISTS experiments (
        id TEXT PRIMARY KEY, head BIGINT NOT NULL, last_check TEXT NOT NULL)""",
    "events": """CREATE TABLE IF NOT EXISTS events (
        experiment TEXT NOT NULL, seq BIGINT NOT NULL, kind TEXT NOT NULL, decision TEXT, body TEXT NOT NULL,
        sealed TEXT NOT NULL, PRIMARY KEY (experiment, seq))""",
    "events_of_decision": """CREATE INDEX IF NOT EXISTS events_of_decision
        ON events (experiment, decision, seq) WHERE decision IS NOT NULL""",
    # The few events that are about no decision: found without reading the log.
    "events_of_experiment": """CREATE INDEX IF NOT EXISTS events_of_experiment
        ON events (experiment, seq) WHERE decision IS NULL""",
    # The few that say something else about a decision than what its outcome was.
    "events_of_review": """CREATE INDEX IF NOT EXISTS events_of_review
        ON events (experiment, kind, seq) WHERE decision IS NOT NULL AND kind NOT IN ('decided', 'reported')""",
    "snapshot_heads": """CREATE TABLE IF NOT EXISTS snapshot_heads (
        experiment TEXT NOT NULL, seq BIGINT NOT NULL, complete BIGINT NOT NULL, PRIMARY KEY (experiment, seq))""",
    "snapshot_parts": """CREATE TABLE IF NOT EXISTS snapshot_parts (
        experiment TEXT NOT NULL, seq BIGINT NOT NULL, part BIGINT NOT NULL, content {blob} NOT NULL,
        PRIMARY KEY (experiment, seq, part))""",
    # Of experiments with units: what can be erased, beside the sealed events that it belongs to.
    "personal": """CREATE TABLE IF NOT EXISTS personal (
        experiment TEXT NOT NULL, seq BIGINT NOT NULL, content TEXT NOT NULL, PRIMARY KEY (experiment, seq))""",
    # What callers call units and decisions, and what the log does. The row of a unit has the position of its first
    # decision, and its own alias as unit.
    "aliases": """CREATE TABLE IF NOT EXISTS aliases (
        experiment TEXT NOT NULL, kind TEXT NOT NULL, name TEXT NOT NULL, alias TEXT NOT NULL, unit TEXT NOT NULL,
        seq BIGINT NOT NULL, PRIMARY KEY (experiment, kind, name))""",
    "aliases_of_unit": """CREATE INDEX IF NOT EXISTS aliases_of_unit ON aliases (experiment, unit, seq)""",
    "aliases_of_alias": """CREATE UNIQUE INDEX IF NOT EXISTS aliases_of_alias ON aliases (experiment, alias)""",
    # Decisions of edges that are not in the log yet, each edge for itself.
    "edge_uploads": """CREATE TABLE IF NOT EXISTS edge_uploads (
        experiment TEXT NOT NULL, edge TEXT NOT NULL, number BIGINT NOT NULL, content TEXT NOT NULL,
        PRIMARY KEY (experiment, edge, number))""",
    "api_keys": """CREATE TABLE IF NOT EXISTS api_keys (
        id TEXT PRIMARY KEY, name TEXT NOT NULL, scopes TEXT NOT NULL, digest TEXT NOT NULL, created TEXT NOT NULL)""",
    # Tables of their own, not columns of api_keys: earlier releases go on reading and writing that one as it is.
    "key_terms": """CREATE TABLE IF NOT EXISTS key_terms (
        id TEXT PRIMARY KEY, scopes TEXT NOT NULL, experiments TEXT NOT NULL, expires TEXT NOT NULL,
        rate TEXT NOT NULL)""",
    "key_uses": """CREATE TABLE IF NOT EXISTS key_uses (id TEXT PRIMARY KEY, used TEXT NOT NULL)""",
    "store_log": """CREATE TABLE IF NOT EXISTS store_log (
        seq BIGINT PRIMARY KEY, kind TEXT NOT NULL, body TEXT NOT NULL, sealed TEXT NOT NULL)""",
}

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*")


class Store(Protocol):
    """A place for logs, snapshots and keys that several processes may share."""

    seals: Seals  # what the logs are sealed and checked with
    shared: bool  # whether several processes write to it at once, each to rows of its own

    def write(self) -> AbstractContextManager[Session]:
        """A transaction: committed, on disk, when the block ends; undone if it raises."""
        ...

    def read(self) -> AbstractContextManager[Session]:
        """A look at what is committed, which blocks no writer."""
        ...

    def now(self) -> int | None:
        """Milliseconds since 1970 by the clock of the database; None if it has none of its own."""
        ...

    def vacuum(self) -> None:
        """Write the tables anew, so that nothing that was erased is left in their files; everybody else waits."""
        ...

    def close(self) -> None:
        """Give back all connections."""
        ...


def open_store(where: str, *, create: bool = True, seals: Seals | None = None) -> Store:
    """The store at a path (SQLite) or at a ``postgresql://`` address; made if missing, unless ``create`` is false.

    Its logs are sealed with keys if ``seals`` has some, by default those of the environment.

    Raises
    ------
    InvalidError
        If this is no such address.
    NotFoundError
        If there is no store and none may be made.
    UnavailableError
        If the database does not answer; says why, but no passwords.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     store = open_store(str(pathlib.Path(folder) / "experiments.db"))
    ...     with store.write() as session:
    ...         created = session.create("checkout")
    ...     with store.read() as session:
    ...         found = session.experiments()
    ...     store.close()
    >>> created, found
    (True, ['checkout'])
    """
    seals = Seals.from_environment() if seals is None else seals
    scheme, separator, _ = where.partition("://")
    if separator and scheme in ("postgresql", "postgres"):
        try:
            from conebandit.service.stores.postgres import PostgresStore  # noqa: PLC0415  (needs psycopg, an extra)
        except ImportError:
            raise InvalidError("PostgreSQL needs psycopg: pip install 'conebandit[postgres]'.") from None
        return PostgresStore(where, create=create, seals=seals)
    if separator and _SCHEME.fullmatch(scheme):
        raise InvalidError(f"a store is a path (SQLite) or an address postgresql://...; got one with {scheme}://.")
    from conebandit.service.stores.sqlite import SqliteStore  # noqa: PLC0415  (it needs this module)

    return SqliteStore(where, create=create, seals=seals)
