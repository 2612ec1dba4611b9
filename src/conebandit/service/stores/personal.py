"""What can be erased: personal parts of events, and what callers call units and decisions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from conebandit.service.stores.records import Record
    from conebandit.service.stores.session import Connection

UNIT, DECISION = "unit", "decision"
ERASING = "erasing"  # rows that only say which decisions are to be erased: nobody finds them by a name
AT_ONCE = 500  # values in a statement


class Alias(NamedTuple):
    """A row of the table of names.

    Attributes
    ----------
    kind
        Whether it is a unit or a decision.
    name
        What callers call it.
    alias
        What the log calls it.
    unit
        Alias of the unit that it belongs to, or is.
    seq
        Position of the decision; of a unit, that of its first one.
    """

    kind: str
    name: str
    alias: str
    unit: str
    seq: int


class PersonalTables:
    """The part of a session that keeps personal data, of experiments with units only."""

    _run: Any
    _connection: Connection

    # ---- personal parts of events ---------------------------------------------------------------------------------

    def _insert_personal(self, experiment: str, events: Sequence[Record]) -> None:
        rows = [(experiment, event.seq, event.personal) for event in events if event.personal is not None]
        if rows:
            self._connection.insert_many("INSERT INTO personal (experiment, seq, content) VALUES (?, ?, ?)", rows)

    def _with_personal(self, experiment: str, events: list[Record]) -> list[Record]:
        """Events with their personal parts, as far as they are there."""
        wanted = [event.seq for event in events if event.has_commitment]
        if not wanted:
            return events  # as in every experiment without units
        found: dict[int, str] = {}
        for start in range(0, len(wanted), AT_ONCE):
            some = wanted[start : start + AT_ONCE]
            sql = f"SELECT seq, content FROM personal WHERE experiment = ? AND seq IN ({', '.join('?' * len(some))})"
            found.update(self._run(sql, (experiment, *some)))
        return [event._replace(personal=found.get(event.seq)) for event in events]

    def without_erased(self, experiment: str, events: Sequence[Record]) -> list[Record]:
        """Events as people may see them: without the personal parts of units that are being erased.

        Those are in the store until the next revision, since states rest on them.
        """
        decisions = [event.decision for event in events if event.personal is not None and event.decision is not None]
        rows = self.rows_of_aliases(experiment, list(dict.fromkeys(decisions)))
        hidden = {alias for alias, row in rows.items() if row.kind == ERASING}
        return [event._replace(personal=None) if event.decision in hidden else event for event in events]

    def _drop_all_personal(self, experiment: str) -> None:
        for table in ("personal", "aliases"):
            self._run(f"DELETE FROM {table} WHERE experiment = ?", (experiment,))

    # ---- names ----------------------------------------------------------------------------------------------------

    def add_aliases(self, experiment: str, rows: Sequence[Alias]) -> None:
        """Keep new names."""
        sql = "INSERT INTO aliases (experiment, kind, name, alias, unit, seq) VALUES (?, ?, ?, ?, ?, ?)"
        if rows:
            self._connection.insert_many(sql, [(experiment, *row) for row in rows])

    def aliases(self, experiment: str, kind: str, names: Sequence[str]) -> dict[str, str]:
        """What the log calls some units or decisions, by name; left out: those that are not known."""
        return self._translated("name, alias", "kind = ? AND name", experiment, (kind,), names)

    def names(self, experiment: str, aliases: Sequence[str]) -> dict[str, str]:
        """What callers call some units and decisions, by alias; left out: those that were erased."""
        return self._translated("alias, name", "kind <> ? AND alias", experiment, (ERASING,), aliases)

    def rows_of_aliases(self, experiment: str, aliases: Sequence[str]) -> dict[str, Alias]:
        """The rows of some units and decisions, by alias; left out: those that were erased."""
        found: dict[str, Alias] = {}
        for start in range(0, len(aliases), AT_ONCE):
            some = aliases[start : start + AT_ONCE]
            sql = f"""SELECT kind, name, alias, unit, seq FROM aliases
                WHERE experiment = ? AND alias IN ({", ".join("?" * len(some))})"""
            found.update((row[2], Alias(*row)) for row in self._run(sql, (experiment, *some)))
        return found

    def count_aliases(self, experiment: str, upto: int, last: int) -> int:
        """How many rows there are, but for those of decisions after a position up to the ``last`` one of the log."""
        sql = "SELECT COUNT(*) FROM aliases WHERE experiment = ? AND NOT (seq > ? AND seq <= ?)"
        [(count,)] = list(self._run(sql, (experiment, upto, last)))
        return int(count)

    def _translated(
        self, columns: str, where: str, experiment: str, values: Sequence[str], wanted: Sequence[str]
    ) -> dict[str, str]:
        found: dict[str, str] = {}
        for start in range(0, len(wanted), AT_ONCE):
            some = wanted[start : start + AT_ONCE]
            sql = f"SELECT {columns} FROM aliases WHERE experiment = ? AND {where} IN ({', '.join('?' * len(some))})"
            found.update(self._run(sql, (experiment, *values, *some)))
        return found

    def latest_of_units(self, experiment: str, units: Sequence[str]) -> dict[str, str]:
        """The last decision of some units, by unit: aliases, both."""
        found: dict[str, str] = {}
        for start in range(0, len(units), AT_ONCE):
            some = units[start : start + AT_ONCE]
            sql = f"""SELECT u.unit, (SELECT d.alias FROM aliases d WHERE d.experiment = u.experiment
                    AND d.unit = u.unit AND d.kind = ? ORDER BY d.seq DESC LIMIT 1)
                FROM aliases u WHERE u.experiment = ? AND u.kind = ? AND u.alias IN ({", ".join("?" * len(some))})"""
            found.update(self._run(sql, (DECISION, experiment, UNIT, *some)))
        return found

    def decisions_of_unit(self, experiment: str, unit: str) -> tuple[int, int]:
        """How many decisions a unit has, and the position of the first; 0 and 0 if nothing is known of it."""
        sql = "SELECT COUNT(*), COALESCE(MIN(seq), 0) FROM aliases WHERE experiment = ? AND unit = ? AND kind = ?"
        [(count, first)] = list(self._run(sql, (experiment, unit, DECISION)))
        return int(count), int(first)

    def some_of_unit(self, experiment: str, unit: str, after: int, most: int) -> list[Alias]:
        """The next decisions of a unit after a position, in order; also while the unit is being erased."""
        sql = """SELECT kind, name, alias, unit, seq FROM aliases
            WHERE experiment = ? AND unit = ? AND seq > ? AND alias <> unit ORDER BY seq LIMIT ?"""
        return [Alias(*row) for row in self._run(sql, (experiment, unit, after, most))]

    # ---- erasing --------------------------------------------------------------------------------------------------

    def release_names(self, experiment: str, unit: str) -> None:
        """Forget what callers call a unit and its decisions; which ones those are must be known until :meth:`erase`."""
        self._connection.overwrite_deleted()
        sql = "UPDATE aliases SET kind = ?, name = alias WHERE experiment = ? AND unit = ?"
        self._run(sql, (ERASING, experiment, unit))

    def erase(self, experiment: str, unit: str) -> None:
        """Remove the personal parts of all events of a unit, and what is left of its names."""
        self._connection.overwrite_deleted()
        # CROSS, so that SQLite begins with the few aliases and does not read the whole index of decisions.
        sql = """DELETE FROM personal WHERE experiment = ? AND seq IN (
            SELECT e.seq FROM aliases a CROSS JOIN events e
            WHERE a.experiment = ? AND a.unit = ? AND e.experiment = a.experiment AND e.decision = a.alias)"""
        self._run(sql, (experiment, experiment, unit))
        self._run("DELETE FROM aliases WHERE experiment = ? AND unit = ?", (experiment, unit))
