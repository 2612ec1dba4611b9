"""What edges have uploaded and is not in the log yet: a partition for each edge, written without the log's lock."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple


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
        """Some of what waits, in the order of each edge."""
        sql = """SELECT edge, number, content FROM edge_uploads WHERE experiment = ? AND number > 0
            ORDER BY edge, number LIMIT ?"""
        return [UploadRow(*row) for row in self._run(sql, (experiment, most))]

    def has_uploads(self, experiment: str) -> bool:
        """Whether something waits."""
        return bool(
            list(self._run("SELECT 1 FROM edge_uploads WHERE experiment = ? AND number > 0 LIMIT 1", (experiment,)))
        )

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

    def replace_upload(self, experiment: str, row: UploadRow) -> None:
        """Let a row have another content."""
        sql = "UPDATE edge_uploads SET content = ? WHERE experiment = ? AND edge = ? AND number = ?"
        self._run(sql, (row.content, experiment, row.edge, row.number))
