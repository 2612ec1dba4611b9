"""A log as a table, with a row for each decision, in the words of a declaration."""

from __future__ import annotations

import csv
import json
import math
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from conebandit.experiment.columns import Numeric
from conebandit.experiment.declaration import Experiment
from conebandit.experiment.frames import Frame
from conebandit.validate.arrays import FloatArray

CHANCES = "choice_probabilities"  # column of the service's export: what the policy would do, by name, as JSON
MODE, LIVE = "mode", "live"  # column that says whether the policy decided, or a baseline was served


def as_experiment(value: Any) -> Experiment:
    """The argument, if it is a declaration."""
    if not isinstance(value, Experiment):
        raise TypeError(f"experiment must be an Experiment, a declaration that was read; got {value!r}.")
    return value


def read_table(table: Any, experiment: Experiment, *, arm: str, propensity: str) -> dict[str, Any]:
    """Arguments of :class:`Log` from a table; a ``ValueError`` says which column or row is wrong."""
    columns = _columns(table)
    played = [_text(value) for value in _column(columns, arm)]
    if None in played:
        raise ValueError(f"column {arm!r} must not be empty; it is in row {played.index(None)}.")
    arms = tuple(dict.fromkeys([*experiment.arms, *(name for name in played if name is not None)]))
    chances = _chances(columns, played, arms)
    return {
        "contexts": _contexts(columns, experiment, len(played)),
        "arms": [arms.index(name) for name in played if name is not None],
        "rewards": np.column_stack([_numbers(_column(columns, m, "metric."), m) for m in experiment.metric_index]),
        "propensities": _numbers(_column(columns, propensity), propensity),
        # Values as they were measured, for people: the cone of the declaration is that of rewards.
        "cone": experiment.cone.turned([m.name for m in experiment.metrics if m.direction == "min"]),
        "probabilities": chances,
        "arm_names": arms,
        "adaptive": True if CHANCES in columns else None,
    }


def _columns(table: Any) -> dict[str, Sequence[Any]]:
    """Columns of a file, a frame or a mapping, by name."""
    if isinstance(table, str | os.PathLike):
        return _file(Path(table))
    if not hasattr(table, "__getitem__"):
        raise TypeError(f"table must be a path, a data frame or a dict of columns; got {table!r}.")
    frame = Frame(table)
    return {name: frame.column(name) for name in frame.names}


def _file(path: Path) -> dict[str, Sequence[Any]]:
    if not path.is_file():
        raise ValueError(f"{path} is not a file.")
    kind = path.suffix.lower()
    if kind in (".parquet", ".pq"):
        try:
            import polars  # noqa: PLC0415  (an extra)
        except ModuleNotFoundError:
            raise ValueError("Parquet files need polars: pip install 'conebandit[data]', or save as CSV.") from None
        return _columns(polars.read_parquet(path))
    if kind == ".jsonl":
        raise ValueError(f"{path.name} holds the events of a log; export its decisions, with --format csv or parquet.")
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            rows = list(csv.DictReader(file, restkey="", restval=None))
    except (UnicodeDecodeError, csv.Error) as error:
        raise ValueError(f"{path.name} is not a CSV file in UTF-8: {error}.") from None
    if not rows:
        raise ValueError(f"{path.name} is empty: a header and at least two rows are needed.")
    for number, row in enumerate(rows, start=2):
        if "" in row or None in row.values():
            raise ValueError(f"{path.name}, row {number}: the number of entries is not that of the header.")
    return {name: [row[name] for row in rows] for name in rows[0]}


def _column(columns: dict[str, Sequence[Any]], name: str, prefix: str = "") -> Sequence[Any]:
    for known in (prefix + name, name):
        if known in columns:
            return columns[known]
    raise ValueError(f"the table must have a column {name!r}; it has {', '.join(columns)}.")


def _text(value: Any) -> str | None:
    """A value as text; None if it is missing."""
    if value is None or value == "" or (isinstance(value, float) and math.isnan(value)):
        return None
    return str(value)


def _numbers(values: Sequence[Any], name: str) -> FloatArray:
    """Numbers, nan where there are none."""
    found = np.empty(len(values))
    for i, value in enumerate(values):
        text = _text(value)
        try:
            found[i] = math.nan if text is None else float(value)
        except (TypeError, ValueError):
            raise ValueError(f"column {name!r} must hold numbers; row {i} is {value!r}.") from None
    return found


def _contexts(columns: dict[str, Sequence[Any]], experiment: Experiment, n: int) -> FloatArray:
    """Contexts as a policy sees them, (n, d)."""
    given: dict[str, list[Any]] = {}
    for column in experiment.columns:
        values = _column(columns, column.name, "context.")
        if isinstance(column, Numeric):
            given[column.name] = [None if math.isnan(x) else x for x in _numbers(values, column.name).tolist()]
        else:
            given[column.name] = [_text(value) for value in values]
    rows = np.empty((n, experiment.context_dim))
    for i in range(n):
        try:
            rows[i] = experiment.encode({name: values[i] for name, values in given.items()})
        except ValueError as error:
            raise ValueError(f"row {i}: {error}") from None
    return rows


def _chances(columns: dict[str, Sequence[Any]], played: Sequence[str | None], arms: Sequence[str]) -> FloatArray | None:
    """Probabilities (n, K) of all arms, if rows have them; where the policy did not decide, 1 for what was served."""
    if CHANCES not in columns:
        return None
    found = np.zeros((len(played), len(arms)))
    modes = columns.get(MODE, [LIVE] * len(played))
    for i, (text, mode) in enumerate(zip(columns[CHANCES], modes, strict=True)):
        if mode != LIVE:
            found[i, arms.index(played[i] or "")] = 1.0
            continue
        if _text(text) is None:
            return None  # logs of earlier versions
        for name, chance in _parsed(text, i).items():
            if name not in arms:
                raise ValueError(f"column {CHANCES!r}, row {i}: there is no arm {name!r}; arms are {', '.join(arms)}.")
            found[i, arms.index(name)] = chance
    return found


def _parsed(text: str, row: int) -> dict[str, float]:
    try:
        found = json.loads(text)
        return {str(name): float(chance) for name, chance in found.items()}
    except (json.JSONDecodeError, AttributeError, TypeError, ValueError):
        raise ValueError(
            f"column {CHANCES!r}, row {row} must be arms and their probabilities as JSON, such as "
            f'{{"old": 0.5, "new": 0.5}}; got {text!r}.'
        ) from None
