"""A table of measurements: shown with rich, kept as JSON and Markdown."""

from __future__ import annotations

import json
import platform
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

import conebandit


def versions(*packages: str) -> dict[str, str]:
    """Versions of packages, by name; ours is that of the code, not of when it was installed."""
    return {name: conebandit.__version__ if name == "conebandit" else metadata.version(name) for name in packages}


def machine(*notes: str) -> str:
    """What it was measured on, with notes such as the number of cores that were used."""
    return ", ".join([platform.machine(), f"Python {platform.python_version()}", *notes])


class Report:
    """Rows of one benchmark; the columns are the keys of its rows, in order of appearance."""

    def __init__(self, *, title: str, command: str, versions: dict[str, str], machine: str) -> None:
        self.title = title
        self.about = {
            "command": command,
            "versions": versions,
            "machine": machine,
            "date": datetime.now(UTC).date().isoformat(),
        }
        self.rows: list[dict[str, Any]] = []

    def add(self, **row: Any) -> None:
        """Append a row and say so, so that a long run shows where it is."""
        self.rows.append(row)
        Console(stderr=True).print("  " + ", ".join(_cell(v) for v in row.values() if v not in (None, "")))

    @property
    def columns(self) -> list[str]:
        """Every key that a row has."""
        return list(dict.fromkeys(key for row in self.rows for key in row))

    def show(self) -> None:
        """Print the table."""
        table = Table(title=self.title)
        for column in self.columns:
            table.add_column(column)
        for row in self.rows:
            table.add_row(*(_cell(row.get(c)) for c in self.columns))
        Console(width=max(140, 11 * len(self.columns))).print(table)

    def write(self, stem: Path) -> None:
        """Write ``stem.json`` and ``stem.md``."""
        stem.parent.mkdir(parents=True, exist_ok=True)
        stem.with_suffix(".json").write_text(json.dumps({**self.about, "rows": self.rows}, indent=1) + "\n")
        versions = ", ".join(f"{k} {v}" for k, v in self.about["versions"].items())  # type: ignore[attr-defined]
        lines = [
            f"# {self.title}",
            "",
            f"`{self.about['command']}`, {self.about['date']}, {self.about['machine']}; {versions}.",
            "",
            "| " + " | ".join(self.columns) + " |",
            "|" + " --- |" * len(self.columns),
            *("| " + " | ".join(_cell(row.get(c)) for c in self.columns) + " |" for row in self.rows),
        ]
        stem.with_suffix(".md").write_text("\n".join(lines) + "\n")


def side_by_side(corner: str, words: dict[str, str], found: dict[str, Any]) -> str:
    """A table in Markdown with a column for each thing that was found, and a row for each of its attributes."""
    lines = [f"| {corner} | {' | '.join(found)} |", "|---|" + "---|" * len(found)]
    for name, what in words.items():
        lines.append(f"| {what} | {' | '.join(str(getattr(each, name)) for each in found.values())} |")
    return "\n".join(lines).replace("True", "yes").replace("False", "NO") + "\n"


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "NO"
    if isinstance(value, float):
        return f"{value:.3g}"
    return f"{value:,}" if isinstance(value, int) else str(value)
