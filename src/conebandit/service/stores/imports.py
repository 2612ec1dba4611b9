"""Logs that are being imported or removed: nobody sees them before they are whole, and their heads are negative."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from conebandit.service.errors import ConflictError
from conebandit.service.stores.records import Head, Record

if TYPE_CHECKING:
    from conebandit.service.stores.session import Connection

_IMPORTING = -1  # the head of a log that is being imported


class Imports:
    """The part of a session that writes and drops logs which nobody sees."""

    _run: Any
    _connection: Connection
    _take_id: Callable[[str, int, str], bool]
    _insert: Callable[[str, Sequence[Record]], None]
    _drop_all_personal: Callable[[str], None]

    def begin_import(self, experiment: str, token: str) -> bool:
        """From now on, whoever has the token writes the log; False if there is one already."""
        return self._take_id(experiment, _IMPORTING, token)

    def lock_import(self, experiment: str, token: str) -> None:
        """Nobody else takes the id until we commit; a ``ConflictError`` if somebody has."""
        sql = f"SELECT id FROM experiments WHERE id = ? AND head < 0 AND last_check = ?{self._connection.for_update}"
        if not list(self._run(sql, (experiment, token))):
            raise ConflictError(f"somebody else has made or imported experiment {experiment!r} meanwhile.")

    def drop_imported(self, experiment: str, most: int) -> int:
        """Remove some of what an earlier import has left; how many events. The caller holds the lock."""
        sql = """DELETE FROM events WHERE experiment = ? AND seq <
            (SELECT MIN(seq) FROM events WHERE experiment = ?) + ?"""
        self._drop_all_personal(experiment)
        return int(self._run(sql, (experiment, experiment, most)).rowcount)

    def add_imported(self, experiment: str, events: Sequence[Record]) -> None:
        """Write events that nobody sees yet. The caller holds the lock."""
        self._insert(experiment, events)

    def end_import(self, experiment: str, head: Head) -> None:
        """The log is whole: let it be seen. The caller holds the lock."""
        self._run("UPDATE experiments SET head = ?, last_check = ? WHERE id = ?", (*head, experiment))

    def hide(self, experiment: str, head: Head, token: str) -> None:
        """Let nobody see a log that ends here: from now on it is like an import that only we can go on with."""
        sql = "UPDATE experiments SET head = ?, last_check = ? WHERE id = ? AND head = ? AND last_check = ?"
        if self._run(sql, (_IMPORTING, token, experiment, *head)).rowcount != 1:
            raise ConflictError(f"somebody else has appended to, or removed, experiment {experiment!r} meanwhile.")

    def forget_import(self, experiment: str) -> None:
        """The id is free again. The caller holds the lock, and has dropped all events."""
        self._run("DELETE FROM experiments WHERE id = ? AND head < 0", (experiment,))
