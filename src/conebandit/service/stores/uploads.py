"""What edges have uploaded and is not in the log yet: a partition for each edge, written without the log's lock."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

_WAITING = "experiment = ? AND number > 0 ORDER BY number, edge"


class UploadRow(NamedTuple):
    """Decisions that an edge has sent together; those with a number below 0 could not be put into the log."""

    edge: str
    number: int
    content: str


class UploadTables:
    """The part of a session that keeps uploads."""

    _run: Any

    def add_upload(self, experiment: str, edge: str, content: str) -> None:
        """Keep decisions of an edge, after those that it has sent before."""
        sql = """INSERT INTO edge_uploads (experiment, edge, number, content)
            SELECT ?, ?, COALESCE(MAX(ABS(number)), 0) + 1, ? FROM edge_uploads WHERE experiment = ? AND edge = ?"""
        self._run(sql, (experiment, edge, content, experiment, edge))

    def uploads(self, experiment: str, most: int) -> list[UploadRow]:
        """Some of what waits, in the order of each edge; of all edges, so that none waits for another."""
        sql = f"SELECT edge, number, content FROM edge_uploads WHERE {_WAITING} LIMIT ?"
        return [UploadRow(*row) for row in self._run(sql, (experiment, most))]

    def next_upload(self, experiment: str) -> tuple[str, int] | None:
        """Edge and number of what is to be taken next; None if nothing waits."""
        sql = f"SELECT edge, number FROM edge_uploads WHERE {_WAITING} LIMIT 1"
        return next((tuple(row) for row in self._run(sql, (experiment,))), None)

    def n_uploads(self, experiment: str) -> int:
        """How many uploads wait."""
        [(count,)] = self._run("SELECT COUNT(*) FROM edge_uploads WHERE experiment = ? AND number > 0", (experiment,))
        return int(count)

    def experiments_with_uploads(self) -> list[str]:
        """Ids of the experiments for which something waits."""
        return [row[0] for row in self._run("SELECT DISTINCT experiment FROM edge_uploads WHERE number > 0")]

    def end_uploads(self, experiment: str, rows: Sequence[UploadRow]) -> None:
        """Some of them are in the log."""
        for row in rows:
            sql = "DELETE FROM edge_uploads WHERE experiment = ? AND edge = ? AND number = ?"
            self._run(sql, (experiment, row.edge, row.number))

    def put_upload_aside(self, experiment: str, row: UploadRow) -> None:
        """What of a row cannot be put into the log, in its place; somebody has to look at it."""
        sql = "UPDATE edge_uploads SET number = -number, content = ? WHERE experiment = ? AND edge = ? AND number = ?"
        self._run(sql, (row.content, experiment, row.edge, row.number))

    def uploads_aside(self, experiment: str) -> list[UploadRow]:
        """What could not be put into the log."""
        sql = "SELECT edge, number, content FROM edge_uploads WHERE experiment = ? AND number < 0"
        return [UploadRow(*row) for row in self._run(sql, (experiment,))]

    def count_uploads(self, experiment: str, edge: str) -> tuple[int, int]:
        """How many uploads of all edges wait, and how many of one edge could not be put into the log."""
        sql = """SELECT COALESCE(SUM(CASE WHEN number > 0 THEN 1 ELSE 0 END), 0),
            COALESCE(SUM(CASE WHEN number < 0 AND edge = ? THEN 1 ELSE 0 END), 0)
            FROM edge_uploads WHERE experiment = ?"""
        [(waiting, aside)] = self._run(sql, (edge, experiment))
        return int(waiting), int(aside)

    def uploads_aside_of(self, experiment: str, edge: str, most: int) -> list[UploadRow]:
        """Some of what an edge has sent and could not be put into the log, the first ones."""
        sql = """SELECT edge, number, content FROM edge_uploads WHERE experiment = ? AND edge = ? AND number < 0
            ORDER BY number DESC LIMIT ?"""
        return [UploadRow(*row) for row in self._run(sql, (experiment, edge, most))]

    def leave_of_upload(self, experiment: str, row: UploadRow, left: str | None) -> None:
        """Let a row have another content, or none, unless somebody has changed it meanwhile."""
        where = "experiment = ? AND edge = ? AND number = ? AND content = ?"
        if left is None:
            self._run(f"DELETE FROM edge_uploads WHERE {where}", (experiment, *row))
        else:
            self._run(f"UPDATE edge_uploads SET content = ? WHERE {where}", (left, experiment, *row))

    def replace_upload(self, experiment: str, row: UploadRow) -> None:
        """Let a row have another content."""
        sql = "UPDATE edge_uploads SET content = ? WHERE experiment = ? AND edge = ? AND number = ?"
        self._run(sql, (row.content, experiment, row.edge, row.number))
