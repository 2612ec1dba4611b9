"""Two tables of contexts from files, brought to the same columns, with clear words where that fails."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from conebandit.validate.arrays import FloatArray

MISSING = {"", "na", "n/a", "#n/a", "nan", "null", "none", "?", "-"}  # stands for "not known" in CSV files, in any case
MIN_ROWS = 20  # in each table
MAX_VALUE = 1e300  # in size; sums and differences of larger values may overflow


class TableError(ValueError):
    """A file that cannot be used, and what to do about it."""


@dataclass(frozen=True)
class Pair:
    """Two tables with the same numeric columns, without missing values.

    Attributes
    ----------
    columns
        Names of the d columns that are compared.
    source, target
        Shapes (n, d) and (m, d).
    notes
        What was left out, in words.
    """

    columns: tuple[str, ...]
    source: FloatArray
    target: FloatArray
    notes: tuple[str, ...]

    def only(self, names: Sequence[str]) -> tuple[FloatArray, FloatArray]:
        """Some columns of source and target, in this order."""
        places = [self.columns.index(name) for name in names]
        return self.source[:, places], self.target[:, places]


def read_pair(source: Path, target: Path, columns: Sequence[str] | None = None) -> Pair:
    """Read two CSV or Parquet files and keep the columns that can be compared.

    Parameters
    ----------
    source, target
        The files; CSV files have a header.
    columns
        Which columns; by default all that are numbers in both files.
    """
    first, second = _read(source), _read(target)
    names, notes = _choose(first, second, (source, target), columns)
    tables = []
    for path, table in ((source, first), (target, second)):
        rows = np.column_stack([column for column in map(table.get, names) if column is not None])
        complete, said = _complete(rows, names, path.name)
        notes += said
        tables.append(complete)
    for name, *largest in zip(names, *(np.abs(t).max(axis=0) for t in tables), strict=True):
        if max(largest) > MAX_VALUE:
            raise TableError(
                f"Column {name!r} holds {max(largest):.3g}, too large to compute with: scale it, or leave it out with "
                "--columns."
            )
    constant = [(t == t[0]).all(axis=0) for t in tables]
    equal = constant[0] & constant[1] & (tables[0][0] == tables[1][0])
    left_out = [name for name, same in zip(names, equal, strict=True) if same]
    notes += [f"Column {name!r} has the same value everywhere and is left out." for name in left_out]
    if equal.all():
        raise TableError(f"All columns ({', '.join(names)}) are constant and equal in both files: nothing to compare.")
    kept = tuple(name for name in names if name not in left_out)
    return Pair(kept, tables[0][:, ~equal], tables[1][:, ~equal], tuple(notes))


def _complete(rows: FloatArray, names: Sequence[str], file: str) -> tuple[FloatArray, list[str]]:
    """The rows without missing or infinite values, and what to say about the others."""
    missing = np.isnan(rows).any(axis=1)
    infinite = np.isinf(rows).any(axis=1) & ~missing
    notes = [
        f"{part.sum():,} of {len(rows):,} rows of {file} have a value that is {problem} and are left out."
        for part, problem in ((missing, "missing"), (infinite, "not finite"))
        if part.any()
    ]
    complete = rows[~missing & ~infinite]
    if len(complete) >= MIN_ROWS:
        return complete, notes
    problem = f"{file} has {len(complete)} complete rows in {', '.join(names)}; at least {MIN_ROWS} are needed."
    if len(rows) < MIN_ROWS:
        raise TableError(f"{problem} The file has too few rows.")
    useless = (~np.isfinite(rows)).sum(axis=0)
    worst = int(useless.argmax())
    raise TableError(
        f"{problem} {useless[worst]:,} of {len(rows):,} values are missing or not finite in {names[worst]!r}"
        + (": leave it out with --columns." if len(names) > 1 else ".")
    )


def _choose(
    first: dict[str, FloatArray | None],
    second: dict[str, FloatArray | None],
    paths: tuple[Path, Path],
    columns: Sequence[str] | None,
) -> tuple[list[str], list[str]]:
    """Columns to compare, and what to say about the others."""
    if columns is not None:
        _require_numbers(columns, {paths[0]: first, paths[1]: second})
        return list(columns), []
    shared = [name for name in first if name in second]
    names = [name for name in shared if first[name] is not None and second[name] is not None]
    if not names:
        raise TableError(
            f"{paths[0].name} ({', '.join(first)}) and {paths[1].name} ({', '.join(second)}) share no numeric column."
        )
    only = [name for name in [*first, *second] if name not in shared]
    notes = [f"Column {name!r} is not in both files." for name in only]
    notes += [f"Column {name!r} holds text and is left out." for name in shared if name not in names]
    return names, notes


def _require_numbers(columns: Sequence[str], tables: dict[Path, dict[str, FloatArray | None]]) -> None:
    """A ``TableError`` unless each column is named once and holds numbers in every table."""
    if len(set(columns)) != len(columns) or not columns:
        raise TableError(f"--columns must name each column once; got {', '.join(columns) or 'nothing'}.")
    for name in columns:
        for path, table in tables.items():
            if name not in table:
                raise TableError(f"{path.name} has no column {name!r}; it has {', '.join(table)}.")
            if table[name] is None:
                raise TableError(f"Column {name!r} of {path.name} holds text; only numbers can be compared.")


def _read(path: Path) -> dict[str, FloatArray | None]:
    """Columns of a file by name; None for those that hold text."""
    if not path.is_file():
        raise TableError(f"{path} is not a file.")
    if path.suffix.lower() in (".parquet", ".pq"):
        return _read_parquet(path)
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            rows = [row for row in csv.reader(file) if row]
    except (UnicodeDecodeError, csv.Error) as error:
        raise TableError(f"{path.name} is not a CSV file in UTF-8: {error}.") from None
    except OSError as error:
        raise TableError(f"{path.name} cannot be read: {error.strerror}.") from None
    if len(rows) < 2:
        raise TableError(f"{path.name} is empty; a header and at least {MIN_ROWS} rows are needed.")
    header = [name.strip() for name in rows[0]]
    if len(set(header)) != len(header):
        raise TableError(f"{path.name} has a column name twice in its header: {', '.join(header)}.")
    if all(_number(name) is not None for name in header):
        raise TableError(f"{path.name} seems to have no header: its first row is {', '.join(header)}.")
    for i, row in enumerate(rows[1:], start=2):
        if len(row) != len(header):
            raise TableError(f"{path.name}, row {i}: {len(row)} entries, but the header has {len(header)}.")
    return {name: _column([row[j] for row in rows[1:]]) for j, name in enumerate(header)}


def _column(texts: Sequence[str]) -> FloatArray | None:
    numbers = [_number(text) for text in texts]
    return None if None in numbers else np.array(numbers, dtype=np.float64)


def _number(text: str) -> float | None:
    """A number, nan if it is missing, None if it is a word."""
    stripped = text.strip()
    if stripped.lower() in MISSING:
        return float("nan")
    try:
        return float(stripped)
    except ValueError:
        return None


def _read_parquet(path: Path) -> dict[str, FloatArray | None]:
    try:
        import polars  # noqa: PLC0415  (an extra)
    except ModuleNotFoundError:
        raise TableError("Parquet files need polars: pip install 'conebandit[data]', or save as CSV.") from None
    try:
        frame = polars.read_parquet(path)
    except (OSError, polars.exceptions.PolarsError, polars.exceptions.PanicException) as error:
        raise TableError(f"{path.name} cannot be read as a Parquet file: {error}.") from None
    if not frame.height:
        raise TableError(f"{path.name} is empty; at least {MIN_ROWS} rows are needed.")
    numeric = {c.name: c.dtype.is_numeric() or c.dtype == polars.Boolean for c in frame}
    return {name: frame[name].cast(polars.Float64).to_numpy() if ok else None for name, ok in numeric.items()}
