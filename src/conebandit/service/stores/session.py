"""Everything that is read or written in one transaction, in SQL that both databases understand."""

from __future__ import annotations

import itertools
import secrets
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple, Protocol

from conebandit.service.errors import CorruptionError, NotFoundError, UnavailableError
from conebandit.service.stores.imports import Imports
from conebandit.service.stores.keys import KeyTables
from conebandit.service.stores.personal import PersonalTables
from conebandit.service.stores.records import Head, Record, check, check_seal
from conebandit.service.stores.seals import START, UNKEYED, Seals
from conebandit.service.stores.uploads import UploadTables

PAGE = 500  # events read at once; few enough that nobody waits for a page

NOBODY = ""  # no experiment has this id
TRIED = 1 << 16  # bytes: more than may be left on pages that are there

_COLUMNS = "seq, kind, decision, body, sealed"


class UnfinishedSnapshot(NamedTuple):
    """A snapshot that was begun. Nobody else adds parts to it or completes it, even if it was dropped and begun again.

    Attributes
    ----------
    experiment, seq
        Whose, and at which position.
    owner
        A number below 0, drawn when it was begun, that stands in the store where 1 means complete. (Before, it was 0.)
    """

    experiment: str
    seq: int
    owner: int


class Connection(Protocol):
    """What a session needs of a database."""

    for_update: str  # how a SELECT locks its rows; empty if the transaction already locks everything

    def lock(self, sql: str, values: Sequence[Any]) -> list[Any]:
        """The rows of a SELECT, locked; a ``BusyError`` if somebody else holds them for long."""
        ...

    def execute(self, sql: str, values: Sequence[Any] = ()) -> Any:
        """Run one statement with ``?`` for values; gives rows, and how many were changed (``rowcount``)."""
        ...

    def insert_many(self, sql: str, rows: Sequence[Sequence[Any]]) -> None:
        """Run one INSERT for many rows."""
        ...

    def about(self, columns: str, experiment: str, decisions: Sequence[str]) -> tuple[str, Sequence[Any]]:
        """A SELECT of the events of some decisions, of which there is at least one, and what to put into it.

        It must use the index of decisions, whatever the database knows of how many events there are.
        """
        ...

    def overwrite_deleted(self) -> None:
        """See to it that what this transaction deletes does not stay in the files of the database, as far as it can."""
        ...

    def check(self) -> None:
        """Let the database check itself, if it can; a ``CorruptionError`` says what it found."""
        ...

    def has_table(self, name: str) -> bool:
        """Whether there is such a table: a store that cannot be changed may be of an earlier release."""
        ...


class Session(KeyTables, PersonalTables, UploadTables, Imports):
    """Everything that is read or written within one transaction."""

    def __init__(self, connection: Connection, seals: Seals = UNKEYED) -> None:
        super().__init__(connection, seals)
        self.check_database = connection.check

    # ---- logs ---------------------------------------------------------------------------------------------------

    def experiments(self) -> list[str]:
        """Ids of all experiments, sorted."""
        return [row[0] for row in self._run("SELECT id FROM experiments WHERE head >= 0 ORDER BY id")]

    def head(self, experiment: str, *, lock: bool = False) -> Head | None:
        """Where the log ends; None if there is no such experiment. ``lock``: nobody else appends until we commit."""
        sql = "SELECT head, last_check FROM experiments WHERE id = ? AND head >= 0"
        rows = self._connection.lock(sql, (experiment,)) if lock else list(self._run(sql, (experiment,)))
        return Head(*rows[0]) if rows else None

    def existing_head(self, experiment: str, *, lock: bool = False) -> Head:
        """Where the log ends; a ``NotFoundError`` if there is no such experiment."""
        head = self.head(experiment, lock=lock)
        if head is None:
            raise NotFoundError(f"there is no experiment {experiment!a}.")
        return head

    def create(self, experiment: str) -> bool:
        """Make an empty log, replacing an unfinished import if there is one; False if there is a log already."""
        created = self._take_id(experiment, 0, START)
        if created:
            self._run("DELETE FROM events WHERE experiment = ?", (experiment,))
            self._drop_all_personal(experiment)
        return created

    def _take_id(self, experiment: str, head: int, last_check: str) -> bool:
        """False if there is a log already; what is being imported is none yet."""
        sql = """INSERT INTO experiments (id, head, last_check) VALUES (?, ?, ?)
            ON CONFLICT (id) DO UPDATE SET head = excluded.head, last_check = excluded.last_check
            WHERE experiments.head < 0"""
        return bool(self._run(sql, (experiment, head, last_check)).rowcount == 1)

    def append(self, experiment: str, events: Sequence[Record]) -> None:
        """Add events that follow on the head; the caller holds the lock."""
        if not events:
            return
        self._insert(experiment, events)
        first, last = events[0], events[-1]
        sql = "UPDATE experiments SET head = ?, last_check = ? WHERE id = ? AND head = ?"
        if self._run(sql, (last.seq, last.check, experiment, first.seq - 1)).rowcount != 1:
            raise UnavailableError("somebody else appended to the log at the same time; try again.")

    def _insert(self, experiment: str, events: Sequence[Record]) -> None:
        self._connection.insert_many(
            f"INSERT INTO events (experiment, {_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?)",
            [(experiment, *e[:5]) for e in events],
        )
        self._insert_personal(experiment, events)

    def events(self, experiment: str, after: int = 0, upto: int | None = None, limit: int = PAGE) -> list[Record]:
        """Some events in order, as stored."""
        sql = f"SELECT {_COLUMNS} FROM events WHERE experiment = ? AND seq > ? AND seq <= ? ORDER BY seq LIMIT ?"
        rows = self._run(sql, (experiment, after, 2**62 if upto is None else upto, limit))
        return self._with_personal(experiment, [Record(*row) for row in rows])

    def checked(self, experiment: str, after: Head, upto: Head, limit: int = PAGE) -> Iterator[list[Record]]:
        """Pages of all events between two heads; a ``CorruptionError`` at the first that is not what was written."""
        while after.seq < upto.seq:
            found = self.events(experiment, after.seq, upto.seq, limit)
            page = check(found, after.check, after.seq, seals=self.seals, experiment=experiment)
            if not page:
                raise CorruptionError(f"{experiment}: events {after.seq + 1} to {upto.seq} are missing from the log.")
            yield page
            after = page[-1].head
        if after != upto:
            raise CorruptionError(f"{experiment}: event {upto.seq} is not the one that the log is said to end with.")

    def histories(
        self, experiment: str, decisions: Sequence[str], upto: int, page: Sequence[Record] = ()
    ) -> dict[str, list[Record]]:
        """The events of some decisions, by id: the decision first, then reports. Left out: those never made.

        What is on ``page``, consecutive events that are checked already, is not read again.
        """
        if not decisions:
            return {}
        first, last = (page[0].seq, page[-1].seq) if page else (0, 0)
        # Cut and sorted here: asked to do that, SQLite reads the log in order instead of using the index of decisions.
        elsewhere = self._look_up_about(decisions, "e.seq NOT BETWEEN ? AND ?", experiment, (first, last))
        found: dict[str, list[Record]] = {}
        wanted = set(decisions)
        for event in sorted([*elsewhere, *page]):
            if event.seq <= upto and event.decision in wanted:
                found.setdefault(event.decision, []).append(event)
        return found

    def of_decisions(self, experiment: str, kind: str, decisions: Sequence[str]) -> dict[str, Record]:
        """The event of a kind for each of some decisions, by id; left out: those that have none."""
        events = self._look_up_about(decisions, "e.kind = ?", experiment, (kind,)) if decisions else []
        return {event.decision: event for event in events if event.decision is not None}

    def has_any_decision(self, experiment: str, decisions: Sequence[str]) -> bool:
        """Whether there are events of one of some decisions; the index of decisions tells."""
        sql, values = self._connection.about("decision", experiment, decisions)
        return bool(list(self._run(f"{sql} LIMIT 1", values)))

    def first_events(self, experiment: str, decisions: Sequence[str]) -> dict[str, int]:
        """The position of the first event of each of some decisions, by id; the index of decisions tells."""
        if not decisions:
            return {}
        about, values = self._connection.about("decision, seq", experiment, decisions)
        return dict(self._run(f"SELECT decision, MIN(seq) FROM ({about}) e GROUP BY decision", values))

    def next_of_kind(self, experiment: str, kind: str, after: int, upto: int, limit: int) -> list[Record]:
        """The next events of a kind, in order."""
        where = "e.seq > ? AND e.seq <= ? AND e.kind = ? ORDER BY e.seq LIMIT ?"
        return self._look_up(where, experiment, (after, upto, kind, limit))

    def of_kinds(self, experiment: str, kinds: Sequence[str], upto: int, after: int = 0) -> list[Record]:
        """All events of some kinds that are not about a decision, in order."""
        marks = ", ".join("?" * len(kinds))
        where = f"e.seq > ? AND e.seq <= ? AND e.decision IS NULL AND e.kind IN ({marks}) ORDER BY e.seq"
        return self._look_up(where, experiment, (after, upto, *kinds))

    def amendments(self, experiment: str, kinds: Sequence[str], after: int, upto: int, most: int) -> list[Record]:
        """The next events of some kinds about decisions, other than decisions and reports, in order."""
        marks = ", ".join("?" * len(kinds))  # what stands before them lets the databases use an index of few events
        where = f"""e.decision IS NOT NULL AND e.kind NOT IN ('decided', 'reported') AND e.kind IN ({marks})
            AND e.seq > ? AND e.seq <= ? ORDER BY e.seq LIMIT ?"""
        return self._look_up(where, experiment, (*kinds, after, upto, most))

    def next_about_no_decision(
        self, experiment: str, kinds: Sequence[str], after: int, upto: int, limit: int
    ) -> list[Record]:
        """The next events of some kinds that are not about a decision, in order; found without reading the log."""
        marks = ", ".join("?" * len(kinds))
        where = f"e.seq > ? AND e.seq <= ? AND e.decision IS NULL AND e.kind IN ({marks}) ORDER BY e.seq LIMIT ?"
        return self._look_up(where, experiment, (after, upto, *kinds, limit))

    def _look_up(self, where: str, experiment: str, values: Sequence[Any]) -> list[Record]:
        """Events that are read out of order: each is checked with the seal of the one before it."""
        return self._check_each(f"events e WHERE e.experiment = ? AND {where}", experiment, (experiment, *values))

    def _look_up_about(
        self, decisions: Sequence[str], where: str, experiment: str, values: Sequence[Any]
    ) -> list[Record]:
        """What :meth:`_look_up` does with events of some decisions."""
        about, ids = self._connection.about(f"experiment, {_COLUMNS}", experiment, decisions)
        return self._check_each(f"({about}) e WHERE {where}", experiment, (*ids, *values))

    def _check_each(self, events: str, experiment: str, values: Sequence[Any]) -> list[Record]:
        # Not a join: PostgreSQL may read the whole log for each event, as long as it knows little of the experiment.
        sql = f"""SELECT e.seq, e.kind, e.decision, e.body, e.sealed, (
                SELECT before.sealed FROM events before
                WHERE before.experiment = e.experiment AND before.seq = e.seq - 1)
            FROM {events}"""
        rows = self._run(sql, values)
        before: dict[int, str] = {}
        found: list[Record] = []
        for *row, sealed in rows:
            found.append(Record(*row))
            before[found[-1].seq] = sealed or START
        found = self._with_personal(experiment, found)
        return [check_seal(record, before[record.seq], self.seals, experiment) for record in found]

    def check_presence(self, experiment: str, upto: Head) -> None:
        """A ``CorruptionError`` if the log does not hold as many events as it must, or not the last of them."""
        sql = "SELECT count(*) FROM events WHERE experiment = ? AND seq <= ?"
        [(count,)] = list(self._run(sql, (experiment, upto.seq)))
        if count != upto.seq:
            raise CorruptionError(f"{experiment}: {upto.seq - count} of the first {upto.seq} events are missing.")
        if upto.seq and self.events(experiment, upto.seq - 1, upto.seq)[0].check != upto.check:
            raise CorruptionError(f"{experiment}: event {upto.seq} is not the one that a snapshot was made after.")

    # ---- snapshots ----------------------------------------------------------------------------------------------

    def save_snapshot(self, experiment: str, seq: int, parts: Iterable[bytes]) -> bool:
        """Keep a state; False if there is, or somebody makes, a snapshot of this position."""
        begun = self.begin_snapshot(experiment, seq)
        if begun is None:
            return False
        for number, content in enumerate(parts):
            self.add_snapshot_part(begun, number, content)
        return self.complete_snapshot(begun)

    def begin_snapshot(self, experiment: str, seq: int) -> UnfinishedSnapshot | None:
        """A snapshot is going to be kept; None if there is, or somebody makes, one of this position."""
        begun = UnfinishedSnapshot(experiment, seq, -1 - secrets.randbits(62))
        sql = "INSERT INTO snapshot_heads (experiment, seq, complete) VALUES (?, ?, ?) ON CONFLICT DO NOTHING"
        return begun if self._run(sql, begun).rowcount == 1 else None

    def add_snapshot_part(self, begun: UnfinishedSnapshot, number: int, content: bytes) -> bool:
        """Keep a part of a snapshot; False if the snapshot was dropped meanwhile."""
        sql = """INSERT INTO snapshot_parts (experiment, seq, part, content)
            SELECT experiment, seq, ?, ? FROM snapshot_heads WHERE experiment = ? AND seq = ? AND complete = ?"""
        return bool(self._run(sql, (number, content, *begun)).rowcount == 1)

    def complete_snapshot(self, begun: UnfinishedSnapshot) -> bool:
        """All parts of a snapshot are there; False if it was dropped meanwhile."""
        sql = "UPDATE snapshot_heads SET complete = 1 WHERE experiment = ? AND seq = ? AND complete = ?"
        return bool(self._run(sql, begun).rowcount == 1)

    def snapshot_heads(self, experiment: str) -> dict[int, bool]:
        """Positions of all snapshots, earliest first, and whether they are complete."""
        sql = "SELECT seq, complete FROM snapshot_heads WHERE experiment = ? ORDER BY seq"
        return {seq: complete == 1 for seq, complete in self._run(sql, (experiment,))}

    def snapshots(self, experiment: str) -> list[int]:
        """Positions of the snapshots that are complete, latest first."""
        return [seq for seq, complete in reversed(self.snapshot_heads(experiment).items()) if complete]

    def snapshot(self, experiment: str, seq: int) -> Iterator[bytes]:
        """The parts of the snapshot at a position."""
        sql = "SELECT content FROM snapshot_parts WHERE experiment = ? AND seq = ? AND part = ?"
        for number in itertools.count():
            found = list(self._run(sql, (experiment, seq, number)))
            if not found:
                return
            yield bytes(found[0][0])

    def drop_snapshots(self, experiment: str, first: int, last: int = 2**62, *, but: int | None = None) -> None:
        """Forget the snapshots at positions ``first`` to ``last``, but not the one at ``but``."""
        for table in ("snapshot_heads", "snapshot_parts"):
            sql = f"DELETE FROM {table} WHERE experiment = ? AND seq >= ? AND seq <= ? AND seq <> ?"
            self._run(sql, (experiment, first, last, -1 if but is None else but))

    def try_writing(self) -> None:
        """Write something and take it back: if the disk is full, or read-only, this or the commit fails."""
        begun = self.begin_snapshot(NOBODY, 0)
        if begun is not None:
            self.add_snapshot_part(begun, 0, bytes(TRIED))
        self.drop_snapshots(NOBODY, 0)
