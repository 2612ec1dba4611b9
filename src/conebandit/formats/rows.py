"""A log, in whatever form and however large, as arrays of some rows at a time."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from conebandit.formats.files import find_parquet, parquet_parts, parquet_rows, parquet_schema
from conebandit.formats.tables import CONTEXT, METRIC
from conebandit.validate.arrays import FloatArray, as_floats

if TYPE_CHECKING:
    import narwhals.stable.v1 as nw

ROWS_AT_ONCE = 2**18  # of a log in memory


class LogRows(NamedTuple):
    """Some rows of a log, one after the other.

    ``contexts`` (n, d), ``arms`` (n,), integers of any type, and ``rewards`` (n, M), nan where one is not known; their
    values are not checked. ``origin`` says where they are from, to begin a message with, and ``first`` is the number of
    the first row there.
    """

    contexts: FloatArray
    arms: NDArray[Any]
    rewards: FloatArray
    origin: str
    first: int

    def pieces(self, size: int) -> Iterator[LogRows]:
        """The same rows, so many at a time."""
        for i in range(0, len(self.arms), size):
            part = slice(i, i + size)
            yield LogRows(self.contexts[part], self.arms[part], self.rewards[part], self.origin, self.first + i)


@dataclass(frozen=True)
class LogColumns:
    """Which columns of a table hold what: names, or None for those that begin as in what the service exports.

    ``context_dim`` and ``n_objectives`` are how many there must be.
    """

    contexts: Sequence[str] | None
    arm: str
    rewards: Sequence[str] | None
    context_dim: int
    n_objectives: int

    def found_in(self, names: Sequence[str], origin: str) -> tuple[list[str], str, list[str]]:
        """The columns of a table by name; a ``ValueError`` if one is missing, or their number is wrong."""
        contexts = _named("contexts", self.contexts, CONTEXT, self.context_dim, names)
        rewards = _named("rewards", self.rewards, METRIC, self.n_objectives, names)
        if not isinstance(self.arm, str):
            raise TypeError(f"names of columns must be texts; got {self.arm!r}.")
        for name in (*contexts, self.arm, *rewards):
            if name not in names:
                raise ValueError(f"{origin}there is no column {name!r}; there are {', '.join(map(repr, names))}.")
        return contexts, self.arm, rewards


def _named(argument: str, given: Sequence[str] | None, prefix: str, number: int, names: Sequence[str]) -> list[str]:
    """The columns that were given, or all that begin with a prefix: as many as the policy has."""
    found = [name for name in names if str(name).startswith(prefix)] if given is None else given
    found = [found] if isinstance(found, str) else list(found)
    if not all(isinstance(name, str) for name in found):
        raise TypeError(f"names of columns must be texts; got {found}.")
    if len(found) != number or len(set(found)) != number:
        begin = f" By default they are those that begin with {prefix!r}." if given is None else ""
        raise ValueError(
            f"{argument} must name {number} different columns, as many as the policy has; got {found}.{begin} "
            f"There are {', '.join(map(repr, names))}."
        )
    return found


def read_log(log: Any, columns: LogColumns) -> Iterator[LogRows]:
    """All rows of a log in their order: of arrays, of a table, or of Parquet files, which must all have the columns."""
    if isinstance(log, str | os.PathLike) or (isinstance(log, list | tuple) and all(map(_is_path, log))):
        return _from_files(find_parquet(log), columns)
    if isinstance(log, np.ndarray) and log.dtype.names is not None:
        log = {name: log[name] for name in log.dtype.names}
    if isinstance(log, Mapping):
        return _from_mapping(log, columns)
    if isinstance(log, tuple) and len(log) == 3:
        return _from_arrays(*log, columns)
    frame = _as_frame(log)
    if frame is not None:
        return _from_frame(frame, columns)
    if all(hasattr(log, name) for name in ("contexts", "arms", "rewards")):
        return _from_arrays(log.contexts, log.arms, log.rewards, columns)
    advice = " Call its method 'collect' first, or write it to Parquet." if hasattr(log, "collect") else ""
    raise TypeError(
        "log must be a data frame, a dict of columns, arrays (contexts, arms, rewards), a Log, or Parquet files; got "
        f"{type(log).__name__}.{advice}"
    )


def _is_path(given: Any) -> bool:
    return isinstance(given, str | os.PathLike)


def _from_files(files: Sequence[Path], columns: LogColumns) -> Iterator[LogRows]:
    named = columns_of_files(files, columns)
    return (rows for file in files for rows in read_file(file, named))


def columns_of_files(files: Sequence[Path], columns: LogColumns) -> LogColumns:
    """The columns by name, in the order of the first file: those of another one may be in another order.

    A ``ValueError`` or ``TypeError`` if one of the files does not have them, or if none has rows.
    """
    for file in files:
        _check_types(_as_frame(parquet_schema(file)), columns, f"{file.name}: ")
    contexts, arm, rewards = columns.found_in(parquet_schema(files[0]).columns, f"{files[0].name}: ")
    for file in files[1:]:
        others = columns.found_in(parquet_schema(file).columns, f"{file.name}: ")
        for mine, theirs in ((contexts, others[0]), (rewards, others[2])):
            if set(mine) != set(theirs):
                raise ValueError(f"{file.name} has the columns {theirs}, but {files[0].name} has {mine}.")
    if not any(map(parquet_rows, files)):
        raise ValueError(f"{', '.join(file.name for file in files[:5])}: there are no rows; at least one is needed.")
    return replace(columns, contexts=contexts, arm=arm, rewards=rewards)


def read_file(file: Path, columns: LogColumns, first: int = 0) -> Iterator[LogRows]:
    """The rows of a Parquet file, from number ``first`` on."""
    contexts, arm, rewards = columns.found_in(parquet_schema(file).columns, f"{file.name}: ")
    for start, part in parquet_parts(file, list(dict.fromkeys([*contexts, arm, *rewards])), first):
        yield _rows_of(_as_frame(part), columns, f"{file.name}, ", start)


def _from_frame(frame: nw.DataFrame[Any], columns: LogColumns) -> Iterator[LogRows]:
    _check_types(frame, columns, "")
    return (_rows_of(frame[i : i + ROWS_AT_ONCE], columns, "", i) for i in _starts(len(frame)))


def _from_mapping(table: Mapping[str, Any], columns: LogColumns) -> Iterator[LogRows]:
    contexts, arm, rewards = columns.found_in(list(table), "")
    lengths = {name: len(table[name]) for name in (*contexts, arm, *rewards)}
    if len(set(lengths.values())) > 1:
        raise ValueError(f"the columns of a log must have the same length; got {lengths}.")
    parts = [[as_floats(table[name], name) for name in names] for names in (contexts, rewards)]
    return _from_arrays(np.column_stack(parts[0]), table[arm], np.column_stack(parts[1]), columns)


def _from_arrays(contexts: Any, arms: Any, rewards: Any, columns: LogColumns) -> Iterator[LogRows]:
    x, y, chosen = as_floats(contexts, "contexts"), as_floats(rewards, "rewards"), np.asarray(arms)
    if not chosen.size:
        _starts(0)
    if chosen.dtype.kind not in "iu" or chosen.ndim != 1:
        raise TypeError(f"arms must be integers, shape (n,); got {chosen.dtype}, shape {chosen.shape}.")
    for array, name, width in ((x, "contexts", columns.context_dim), (y, "rewards", columns.n_objectives)):
        if array.shape != (len(chosen), width):
            raise ValueError(f"{name} must have shape ({len(chosen)}, {width}), a row for each arm; got {array.shape}.")
    parts = (slice(i, i + ROWS_AT_ONCE) for i in _starts(len(chosen)))
    return (LogRows(x[part], chosen[part], y[part], "", part.start) for part in parts)


def _starts(rows: int) -> range:
    if not rows:
        raise ValueError("log must not be empty: at least one row is needed.")
    return range(0, rows, ROWS_AT_ONCE)


def _as_frame(given: Any) -> nw.DataFrame[Any] | None:
    """A table of a library that narwhals knows; None if it is none."""
    import narwhals.stable.v1 as nw  # noqa: PLC0415  (it takes long)

    try:
        found = nw.from_native(given, eager_only=True, pass_through=True)
    except nw.exceptions.NarwhalsError as error:  # two columns of one name, say
        raise ValueError(f"the log cannot be read: {error}") from None
    return found if isinstance(found, nw.DataFrame) else None


def _check_types(frame: Any, columns: LogColumns, origin: str) -> None:
    """Numbers in all columns, or a ``TypeError`` that says in which there are none."""
    import narwhals.stable.v1 as nw  # noqa: PLC0415

    contexts, arm, rewards = columns.found_in(frame.columns, origin)
    for name in (*contexts, *rewards):
        series = frame[name]
        empty = 0 < len(series) == series.null_count() or series.dtype == nw.Unknown  # the type of nulls
        if not (series.dtype.is_numeric() or series.dtype == nw.Boolean or empty):
            raise TypeError(
                f"{origin}column {name!r} must hold numbers; it is {series.dtype}. Text columns need a declaration, "
                "which says their levels: see Experiment.learn."
            )
    if not frame[arm].dtype.is_integer():
        raise TypeError(
            f"{origin}column {arm!r} must hold the arms as integers from 0 on; it is {frame[arm].dtype}. Names of "
            "arms need a declaration: see Experiment.learn."
        )


def _rows_of(frame: Any, columns: LogColumns, origin: str, first: int) -> LogRows:
    contexts, arm, rewards = columns.found_in(frame.columns, origin)
    missing = frame[arm].is_null().to_numpy()
    if missing.any():
        raise ValueError(
            f"{origin}row {first + int(np.argmax(missing))}: the arm, column {arm!r}, is missing. Leave such rows out."
        )
    arms = frame[arm].to_numpy()
    return LogRows(_matrix(frame, contexts), arms, _matrix(frame, rewards), origin, first)


def _matrix(frame: Any, names: Sequence[str]) -> FloatArray:
    """Some columns as an array (n, columns), nan where a value is missing."""
    import narwhals.stable.v1 as nw  # noqa: PLC0415

    found = np.empty((len(frame), len(names)))
    for j, name in enumerate(names):
        found[:, j] = frame[name].cast(nw.Float64).to_numpy()
    return found
