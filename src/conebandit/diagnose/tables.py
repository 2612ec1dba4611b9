"""Two tables of contexts from files, brought to the same columns, with clear words where that fails."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from conebandit.experiment.declaration import Experiment
from conebandit.experiment.errors import InvalidError
from conebandit.experiment.frames import Frame, as_level, kind_of
from conebandit.experiment.rows import EXPORTED_CONTEXT, column_name
from conebandit.validate.arrays import FloatArray

MIN_ROWS = 20  # in each table
MAX_LEVELS = 30  # different texts of a column that is compared
MAX_VALUE = 1e300  # in size; sums and differences of larger values may overflow


Texts = list[str | None]  # None: missing
Table = dict[str, FloatArray | Texts]

OUTCOMES = ("metric.", "status.")  # how columns begin in a table that the service has exported, known after the choice


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


def read_pair(
    source: Path,
    target: Path,
    columns: Sequence[str] | None = None,
    *,
    outcomes: Sequence[str] = (),
    experiment: Experiment | None = None,
) -> Pair:
    """Read two CSV or Parquet files and keep the columns that can be compared.

    Parameters
    ----------
    source, target
        The files; CSV files have a header.
    columns
        Which columns; by default all that are in both files. Of a table that the service has exported only the
        context: what is known after the choice moves with the policy, not with the population.
    outcomes
        Columns that are not to be compared, since they are known only after the choice.
    experiment
        The declaration: its context is compared, if ``columns`` are not given.
    """
    first, second = _read(source), _read(target)
    if columns is not None and outcomes:
        raise TableError("Give --columns or --outcomes, not both: what is not among the columns is left out anyway.")
    if columns is None and experiment is not None:
        columns = [column_name(first, EXPORTED_CONTEXT, column.name) for column in experiment.columns]
    chosen, notes = _choose(first, second, (source, target), columns, outcomes)
    *numbers, said = _without_text(first, second, chosen, (source.name, target.name), asked=columns is not None)
    notes += said
    names = list(numbers[0])
    tables = []
    for path, table in zip((source, target), numbers, strict=True):
        complete, said = _complete(np.column_stack(list(table.values())), names, path.name)
        notes += said
        tables.append(complete)
    _refuse_large(names, tables)
    constant = [(t == t[0]).all(axis=0) for t in tables]
    equal = constant[0] & constant[1] & (tables[0][0] == tables[1][0])
    left_out = [name for name, same in zip(names, equal, strict=True) if same]
    notes += [f"Column {name!r} has the same value everywhere and is left out." for name in left_out]
    if equal.all():
        raise TableError(f"All columns ({', '.join(names)}) are constant and equal in both files: nothing to compare.")
    kept = tuple(name for name in names if name not in left_out)
    notes.insert(0, _said(chosen, kept, [name for name in first if name in second]))
    return Pair(kept, tables[0][:, ~equal], tables[1][:, ~equal], tuple(notes))


def _refuse_large(names: Sequence[str], tables: Sequence[FloatArray]) -> None:
    for name, *largest in zip(names, *(np.abs(t).max(axis=0) for t in tables), strict=True):
        if max(largest) > MAX_VALUE:
            raise TableError(
                f"Column {name!r} holds {max(largest):.3g}, too large to compute with: scale it, or leave it out with "
                "--columns."
            )


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
    first: Table, second: Table, paths: tuple[Path, Path], columns: Sequence[str] | None, outcomes: Sequence[str]
) -> tuple[list[str], list[str]]:
    """Columns to compare, and what to say about the others."""
    if columns is not None:
        _require_columns(columns, {paths[0]: first, paths[1]: second})
        return list(columns), []
    for name in outcomes:
        if name not in first and name not in second:
            raise TableError(f"--outcomes: neither file has a column {name!r}; they have {', '.join(first | second)}.")
    shared = [name for name in first if name in second]
    notes = [f"Column {name!r} is not in both files." for name in [*first, *second] if name not in shared]
    names = [name for name in shared if name not in outcomes]
    if not outcomes:
        notes.append(
            "Outcomes, and the arm, move with the policy and not only with the population: if any of these columns is "
            "one, name it with --outcomes, or give the declaration with --experiment."
        )
    if any(name.startswith(OUTCOMES) for name in shared):
        names = [name for name in shared if name.startswith(EXPORTED_CONTEXT)]
        notes = ["Of this log of the service only the context is compared; name other columns with --columns."]
    if shared and not names:
        raise TableError(f"No column is left to compare: {', '.join(shared)} are outcomes.")
    if not names:
        raise TableError(
            f"{paths[0].name} ({', '.join(first)}) and {paths[1].name} ({', '.join(second)}) share no column."
        )
    return names, notes


def _said(chosen: Sequence[str], kept: Sequence[str], shared: Sequence[str]) -> str:
    """Which of the chosen columns are compared, as they are or by level, and which of those in both files are not."""
    compared = [name for name in chosen if any(each == name or each.startswith(f"{name}=") for each in kept)]
    left_out = [name for name in shared if name not in compared]
    return f"Compared: {', '.join(compared)}." + (f" Left out: {', '.join(left_out)}." if left_out else "")


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


def _read(path: Path) -> Table:
    """Columns of a CSV or Parquet file by name; a ``TableError`` if it cannot be read."""
    try:
        frame = Frame(path)
    except InvalidError as error:
        raise TableError(str(error)) from None
    return {name: _column(frame.column(name)) for name in frame.names}


def _column(values: list[Any]) -> FloatArray | Texts:
    """Numbers, nan where one is missing; or texts, which levels of anything else become."""
    if kind_of(values) in ("number", "nothing"):
        return np.array([np.nan if value is None else value for value in values], dtype=np.float64)
    return [None if value is None else str(as_level(value)) for value in values]
