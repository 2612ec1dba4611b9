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
MAX_LEVELS = 30  # different texts of a column that is compared
MAX_VALUE = 1e300  # in size; sums and differences of larger values may overflow


Texts = list[str | None]  # None: missing
Table = dict[str, FloatArray | Texts]

LOGGED = "context."  # how columns of the context begin in a table that the service has exported
OUTCOMES = ("metric.", "status.")  # how others begin that are known only after the choice


class TableError(ValueError):
    """A file that cannot be used, and what to do about it."""


@dataclass(frozen=True)
class Pair:
    """Two tables with the same columns of numbers, without missing values.

    A column of text is there as a column of 0 and 1 for each of its levels, ``device=phone`` and so on; of two levels
    the second is enough.

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
        Which columns; by default all that are in both files. Of a table that the service has exported only the
        context: what is known after the choice moves with the policy, not with the population.
    """
    first, second = read_table(source), read_table(target)
    chosen, notes = _choose(first, second, (source, target), columns)
    *numbers, said = _without_text(first, second, chosen, (source.name, target.name), asked=columns is not None)
    notes += said
    names = list(numbers[0])
    tables = []
    for path, table in zip((source, target), numbers, strict=True):
        complete, said = _complete(np.column_stack(list(table.values())), names, path.name)
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
    first: Table, second: Table, paths: tuple[Path, Path], columns: Sequence[str] | None
) -> tuple[list[str], list[str]]:
    """Columns to compare, and what to say about the others."""
    if columns is not None:
        _require_columns(columns, {paths[0]: first, paths[1]: second})
        return list(columns), []
    shared = [name for name in first if name in second]
    notes = [f"Column {name!r} is not in both files." for name in [*first, *second] if name not in shared]
    names = shared
    if any(name.startswith(OUTCOMES) for name in shared):
        names = [name for name in shared if name.startswith(LOGGED)]
        notes = ["Of this log of the service only the context is compared; name other columns with --columns."]
    if not names:
        raise TableError(
            f"{paths[0].name} ({', '.join(first)}) and {paths[1].name} ({', '.join(second)}) share no column."
        )
    return names, notes


def _require_columns(columns: Sequence[str], tables: dict[Path, Table]) -> None:
    """A ``TableError`` unless each column is named once and is in every table."""
    if len(set(columns)) != len(columns) or not columns:
        raise TableError(f"--columns must name each column once; got {', '.join(columns) or 'nothing'}.")
    for name in columns:
        for path, table in tables.items():
            if name not in table:
                raise TableError(f"{path.name} has no column {name!r}; it has {', '.join(table)}.")


def _without_text(
    first: Table, second: Table, names: Sequence[str], files: tuple[str, str], *, asked: bool
) -> tuple[dict[str, FloatArray], dict[str, FloatArray], list[str]]:
    """Some columns of both tables, with a column of 0 and 1 for each level in place of text, and what was done."""
    made: tuple[dict[str, FloatArray], dict[str, FloatArray]] = {}, {}
    notes: list[str] = []
    for name in names:
        pair = first[name], second[name]
        levels = sorted({text for column in pair if isinstance(column, list) for text in column if text is not None})
        problem = _why_not(pair, len(levels))
        if problem and asked:
            raise TableError(f"Column {name!r} {problem}. Leave it out, or change it.")
        if problem:
            notes.append(f"Column {name!r} {problem}, so it is left out.")
            continue
        for table, column, file in zip(made, pair, files, strict=True):
            if isinstance(column, list):
                table.update(_indicators(name, column, levels, any(None in each for each in pair)))
                if None in column:
                    missing = f"{column.count(None):,} of {len(column):,} values of {name!r} in {file}"
                    notes.append(f"{missing} are missing, which counts as a level.")
            else:
                table[name] = column
    if not made[0]:
        raise TableError(f"No column is left to compare. {' '.join(notes)}")
    return *made, notes


def _why_not(pair: tuple[FloatArray | Texts, FloatArray | Texts], n_levels: int) -> str:
    """Why a column cannot be compared, if so."""
    if isinstance(pair[0], list) != isinstance(pair[1], list):
        return "holds text in one file and numbers in the other"
    return f"has {n_levels:,} different texts; at most {MAX_LEVELS} are compared" if n_levels > MAX_LEVELS else ""


def _indicators(name: str, column: Texts, levels: Sequence[str], missing: bool) -> dict[str, FloatArray]:
    """A column of 0 and 1 for each level, and for missing values if there are any; of two the second is enough."""
    known: list[str | None] = [*levels, None] if missing else [*levels]
    return {
        f"{name}={'(missing)' if level is None else level}": np.array([float(text == level) for text in column])
        for level in (known[1:] if len(known) == 2 else known)
    }


def read_table(path: Path) -> Table:
    """Columns of a CSV or Parquet file by name; a ``TableError`` if it cannot be read."""
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


def _column(texts: Sequence[str]) -> FloatArray | Texts:
    numbers = [_number(text) for text in texts]
    if None in numbers:
        return [None if text.strip().lower() in MISSING else text.strip() for text in texts]
    return np.array(numbers, dtype=np.float64)


def _number(text: str) -> float | None:
    """A number, nan if it is missing, None if it is a word."""
    stripped = text.strip()
    if stripped.lower() in MISSING:
        return float("nan")
    try:
        return float(stripped)
    except ValueError:
        return None


def _read_parquet(path: Path) -> Table:
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
    return {
        name: frame[name].cast(polars.Float64).to_numpy()
        if ok
        else [None if v is None else str(v) for v in frame[name]]
        for name, ok in numeric.items()
    }
