"""Data of the reproduction as files."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path


def write_csv(path: Path, rows: Sequence[Sequence[str]]) -> Path:
    """Write rows, the first of which is the head, as CSV; the path."""
    with path.open("w", newline="") as file:
        csv.writer(file).writerows(rows)
    return path
