"""Results of finished runs on disk: Parquet files that are only ever added.

A part appears complete or not at all: it is written under another name, brought to the disk, and renamed. So whatever
is there is finished. Small parts are merged now and then; a crash in between leaves some runs in two parts, and
readers see them once.
"""

from __future__ import annotations

import io
import os
import sys
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

WRITING = ".writing"
SMALL = 5000  # runs; parts with fewer are merged
MAX_SMALL = 100  # parts that may be small
ATTEMPTS = 5  # to read parts while another process merges them
COUNTS = ("run", "horizon", "seed", "after")
CURVE = "_curve"  # at the end of a column that holds curves, after the name of the series
TEXTS = ("policy", "environment", "versions")

Row = dict[str, Any]


class Parts:
    """The parts in a folder; one process at a time may append."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._sizes: dict[Path, int] = {}

    def open(self) -> set[int]:
        """Prepare to append: remove what a crash has left half written. The numbers of the runs that are finished."""
        self.folder.mkdir(parents=True, exist_ok=True)
        for left in self.folder.glob(f"*{WRITING}"):
            left.unlink()
        runs = {part: _read(part, ["run"])["run"].to_list() for part in self._files()}
        self._sizes = {part: len(numbers) for part, numbers in runs.items()}
        return {run for numbers in runs.values() for run in numbers}

    def append(self, rows: Sequence[Row]) -> None:
        """Write finished runs; they are on the disk when this returns."""
        self._write(polars().DataFrame(list(rows), schema=_schema(rows[0])))
        small = [part for part, size in self._sizes.items() if size < SMALL]
        if len(small) >= MAX_SMALL:
            self._write(_joined(small))
            for part in small:
                part.unlink()
                del self._sizes[part]

    def read(self, columns: Sequence[str] | None = None) -> Any:
        """All finished runs as a frame of polars, by number; None if there are none. Another process may append."""
        for attempt in range(1, ATTEMPTS + 1):
            parts = self._files()
            try:
                return _joined(parts, columns).sort("run") if parts else None
            except FileNotFoundError:  # merged with others in the meantime
                if attempt == ATTEMPTS:
                    raise
        raise AssertionError("unreachable")

    def _files(self) -> list[Path]:
        return sorted(self.folder.glob("*.parquet"))

    def _write(self, frame: Any) -> None:
        content = io.BytesIO()
        frame.write_parquet(content)
        part = self.folder / f"{frame['run'].min():09d}-{uuid.uuid4().hex[:12]}.parquet"
        write_whole(part, content.getvalue())
        self._sizes[part] = frame.height


def write_whole(path: Path, content: bytes) -> None:
    """Write a file that appears complete or not at all, and outlives a loss of power."""
    writing = path.with_name(path.name + WRITING)
    with writing.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    writing.replace(path)
    if sys.platform != "win32":  # the name, too
        descriptor = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def polars() -> Any:
    """The library that reads and writes Parquet."""
    try:
        import polars  # noqa: PLC0415  (an extra)
    except ModuleNotFoundError:
        raise ValueError("studies are kept as Parquet, which needs polars: pip install 'conebandit[data]'.") from None
    return polars


def _schema(row: Mapping[str, Any]) -> dict[str, Any]:
    def kind(name: str) -> Any:
        if isinstance(row[name], list):
            return polars().List(polars().Float64)
        return polars().Int64 if name in COUNTS else polars().String if name in TEXTS else polars().Float64

    return {name: kind(name) for name in row}


def _joined(parts: Sequence[Path], columns: Sequence[str] | None = None) -> Any:
    """Several parts as one frame, in which every run is once."""
    return polars().concat([_read(part, columns) for part in parts]).unique("run", keep="first")


def _read(part: Path, columns: Sequence[str] | None = None) -> Any:
    library = polars()
    try:
        # Without a memory map: Windows removes no file that is mapped, and parts that were merged are removed.
        return library.read_parquet(part, columns=columns, memory_map=False)
    except FileNotFoundError:
        raise
    except (OSError, library.exceptions.PolarsError, library.exceptions.PanicException) as error:
        reason = str(error).partition("\n")[0]
        raise ValueError(
            f"{part} is damaged: {reason}. Remove it and start the study again: its runs are made again."
        ) from None
