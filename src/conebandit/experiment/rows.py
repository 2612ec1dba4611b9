"""Rows of a table as a policy learns them: contexts, arms and values, all checked before any is used."""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from conebandit.experiment import entries
from conebandit.experiment.columns import Categorical
from conebandit.experiment.declaration import Experiment
from conebandit.experiment.errors import InvalidError
from conebandit.experiment.frames import Frame
from conebandit.experiment.metrics import Metric
from conebandit.experiment.policy import Served
from conebandit.formats.files import are_parquet, find_parquet, parquet_parts, parquet_schema
from conebandit.validate.arrays import FloatArray
from conebandit.validate.storage import require_range

# Columns of the table that the service exports: what was served, and how those of context and metrics begin.
EXPORTED_ARM, EXPORTED_CONTEXT, EXPORTED_METRIC = "arm", "context.", "metric."

VALUES_AT_ONCE = 2**18  # read from a Parquet file: as objects of Python, about 20 MB

Read = TypeVar("Read")


class Rows(NamedTuple):
    """Past rows of which at least one outcome is known.

    Attributes
    ----------
    contexts
        Shape (n, d), in the unit cube.
    arms
        Shape (n,), indices of the arms that were played.
    values
        Shape (n, M), what was measured, in the units of the metrics; nan where it is not known.
    """

    contexts: FloatArray
    arms: NDArray[np.int64]
    values: FloatArray

    def joined(self, more: Rows) -> Rows:
        """These rows, then others."""
        return Rows(*(np.concatenate(pair) for pair in zip(self, more, strict=True)))


def read_rows(experiment: Experiment, frame: Frame, arm: str | None = None) -> Rows:
    """Check all rows of a table; an ``InvalidError`` names the first row, by its number from 0, that does not fit."""
    name = arm_column(experiment, frame, arm)
    index = {each: k for k, each in enumerate(experiment.arms)}
    arms = np.array(_each(frame, frame.levels(name, index), name, partial(_arm, index)), dtype=np.int64)
    values = read_values(experiment, frame)
    known = ~np.isnan(values).all(axis=1)
    return Rows(read_contexts(experiment, frame)[known], arms[known], values[known])


def read_many_rows(experiment: Experiment, given: Any, arm: str | None = None) -> Rows:
    """The same for whatever can be learned from: a table, or Parquet files, which are read a part at a time."""
    if not are_parquet(given):
        return read_rows(experiment, Frame(given), arm)
    try:
        files = find_parquet(given)
        schemas = [parquet_schema(file) for file in files]
        used = [_used_columns(experiment, file, schema, arm) for file, schema in zip(files, schemas, strict=True)]
        parts = [
            read_rows(experiment, Frame(_plain_columns(part), origin=_origin(file, files), first=first), arm)
            for file, names in zip(files, used, strict=True)
            for first, part in parquet_parts(file, names, values=VALUES_AT_ONCE)
        ]
    except InvalidError:
        raise
    except ValueError as error:
        raise InvalidError(str(error)) from None
    if not parts:
        raise InvalidError(f"{', '.join(file.name for file in files[:5])}: empty; at least one row is needed.")
    return Rows(*(np.concatenate(arrays) for arrays in zip(*parts, strict=True)))


def _origin(file: Path, files: Sequence[Path]) -> str:
    return f"{file.name}, " if len(files) > 1 else ""


def _plain_columns(part: Any) -> dict[str, list[Any]]:
    return {column.name: column.to_list() for column in part}


def _used_columns(experiment: Experiment, file: Path, schema: Any, arm: str | None) -> list[str]:
    """The columns of a file that an experiment reads; an ``InvalidError`` if one is missing."""
    frame = Frame(_plain_columns(schema))
    try:
        read_rows(experiment, frame, arm)
    except InvalidError as error:
        raise InvalidError(f"{file.name}: {error}") from None
    names = [
        arm_column(experiment, frame, arm),
        *(column_name(frame.names, EXPORTED_CONTEXT, column.name) for column in experiment.columns),
        *(column_name(frame.names, EXPORTED_METRIC, metric.name) for metric in experiment.metrics),
    ]
    return list(dict.fromkeys(names))


def arm_column(experiment: Experiment, frame: Frame, given: str | None = None) -> str:
    """Which column says what was played: the given one, the declared one, or that of the service's export."""
    for name in (experiment.arm_column, EXPORTED_ARM) if given is None else (given,):
        if name in frame.names:
            return name
    raise InvalidError(
        f"the table has no column {entries.short(given or experiment.arm_column)} that says what was played; it has "
        f"{', '.join(frame.names)}. Name the column with the argument 'arm'."
    )


def restored_rows(experiment: Experiment, contexts: Any, arms: Any, values: Any) -> Rows:
    """Rows that were kept somewhere; a ``ValueError`` if they cannot be rows of this experiment."""
    rows = Rows(np.asarray(contexts, np.float64), np.asarray(arms, np.int64), np.asarray(values, np.float64))
    n = len(rows.arms)
    wanted = (n, experiment.context_dim), (n,), (n, len(experiment.metrics))
    if tuple(array.shape for array in rows) != wanted:
        raise ValueError(f"rows must have shapes {wanted}; got {tuple(array.shape for array in rows)}")
    if not ((rows.contexts >= 0.0) & (rows.contexts <= 1.0)).all() or np.isinf(rows.values).any():
        raise ValueError("contexts must lie in the unit cube, and values must be finite")
    require_range("arms", rows.arms, 0, len(experiment.arms))
    return rows


def read_contexts(experiment: Experiment, frame: Frame) -> FloatArray:
    """The context of every row of a table, shape (n, d), in the unit cube; row by row what ``encode`` says."""
    found = np.full((len(frame), experiment.context_dim), 0.5)
    start = 0
    for column in experiment.columns:
        name, place = column_name(frame.names, EXPORTED_CONTEXT, column.name), found[:, start : start + column.width]
        given = frame.levels(name, column.levels) if isinstance(column, Categorical) else frame.numbers(name)
        place[:] = np.reshape(_each(frame, given, name, column.coordinates), place.shape)
        start += column.width
    return found


def read_values(experiment: Experiment, frame: Frame) -> FloatArray:
    """What was measured in every row of a table, shape (n, M), in the units of the metrics; nan where it is missing."""
    found = np.empty((len(frame), len(experiment.metrics)))
    for m, metric in enumerate(experiment.metrics):
        name = column_name(frame.names, EXPORTED_METRIC, metric.name)
        found[:, m] = _each(frame, frame.numbers(name), name, partial(_measured, metric))
    return found


def teach(policy: Served, experiment: Experiment, rows: Rows) -> None:
    """Let a policy, whose arms are those of the experiment, learn from rows, in their order."""
    if len(rows.arms):
        columns = zip(experiment.metrics, rows.values.T.tolist(), strict=True)
        rewards = np.column_stack([[metric.reward(value) for value in column] for metric, column in columns])
        policy.learn((rows.contexts, rows.arms, rewards))


def column_name(names: Container[str], exported: str, name: str) -> str:
    """Which of these names a column has: the one that the service exports, or the declared one."""
    return exported + name if exported + name in names else name


def _each(frame: Frame, values: Sequence[Any], name: str, read: Callable[[Any], Read]) -> list[Read]:
    """Read every value of a column; a refusal names the row."""
    found = []
    for i, value in enumerate(values):
        try:
            found.append(read(value))
        except InvalidError as error:
            raise InvalidError(f"{frame.row_name(i)}, column {name!r}: {error}") from None
    return found


def _arm(index: dict[str, int], name: Any) -> int:
    if name is None:
        raise InvalidError("the arm is missing. Leave such rows out.")
    if name not in index:
        raise InvalidError(
            f"there is no arm {entries.short(name)}; this experiment has {', '.join(index)}. Declare it, or leave such "
            "rows out."
        )
    return index[name]


def _measured(metric: Metric, value: Any) -> float:
    """A value of a metric, which may be a yes or no; nan if it is not known."""
    if value is None:
        return math.nan
    return metric.check(float(value) if isinstance(value, bool) else value)
