"""A declaration in words: a few small tables of plain text."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING

from conebandit.experiment.columns import Column, Numeric
from conebandit.experiment.metrics import Metric

if TYPE_CHECKING:
    from conebandit.experiment.declaration import Experiment

MAX_LINE = 100  # characters
MAX_CELL = 44


def summarise(experiment: Experiment) -> str:
    """What was declared, and below it what was noted when it was inferred from a table."""
    sizes = {"arm": experiment.arms, "metric": experiment.metrics, "context column": experiment.columns}
    counted = [f"{len(things)} {name}{'s' * (len(things) != 1)}" for name, things in sizes.items()]
    head = f"experiment {experiment.id}: {', '.join(counted)}"
    tables = [
        [["metric", "better", "units", "worst", "range", "resolution"], *map(_metric, experiment.metrics)],
        [["context", "holds", "if missing", "if neither"], *map(_column, experiment.columns)],
    ]
    parts = [head, _wrapped(f"arms: {', '.join(_arms(experiment))}"), *(as_text(rows) for rows in tables if rows[1:])]
    if experiment.rules:
        parts.append(as_text([["rule", "says"], *([rule.name, str(rule)] for rule in experiment.rules)]))
    said = [*experiment.notes, *(f"Warning: {warning}" for warning in experiment.warnings)]
    if said:
        parts.append("\n".join(_wrapped(f"- {note}") for note in said))
    return "\n\n".join(parts)


def _arms(experiment: Experiment) -> list[str]:
    """Arms with what describes them."""
    found = []
    for arm in experiment.arms:
        described = ", ".join(f"{name} {value:g}" for name, value in experiment.arm_features.get(arm, {}).items())
        found.append(f"{arm} ({described})" if described else arm)
    return found


def as_text(rows: Sequence[Sequence[str]]) -> str:
    """Rows, the first of which is the head, as aligned columns; those without any entry are left out.

    Examples
    --------
    >>> print(as_text([["arm", "worst", "rows"], ["old", "", "12"], ["brand new", "", "7"]]))
    arm        rows
    old        12
    brand new  7
    """
    columns = [column for column in zip(*rows, strict=True) if any(column[1:])]
    widths = [max(map(len, column)) for column in columns]
    padded = [[cell.ljust(width) for cell in column] for column, width in zip(columns, widths, strict=True)]
    return "\n".join("  ".join(row).rstrip() for row in zip(*padded, strict=True))


def _wrapped(text: str) -> str:
    return textwrap.fill(text, MAX_LINE, subsequent_indent="  ", break_long_words=False)


def _metric(metric: Metric) -> list[str]:
    return [
        metric.name,
        "more" if metric.direction == "max" else "less",
        metric.units or "",
        "" if metric.worst is None else f"{metric.worst:g}",
        "" if metric.range is None else f"{metric.range[0]:g} to {metric.range[1]:g}",
        f"{metric.resolution:g}" if metric.resolution else "",
    ]


def _column(column: Column) -> list[str]:
    if isinstance(column, Numeric):
        holds = f"{column.low:g} to {column.high:g}"
        missing = "refused" if column.missing is None else f"{column.missing:g}"
        otherwise = "refused" if column.out_of_range == "refuse" else "nearest bound"
    else:
        holds = textwrap.shorten(", ".join(column.levels), MAX_CELL, placeholder=f" ... ({len(column.levels)} levels)")
        missing = "refused" if column.missing is None else column.missing
        otherwise = "refused" if column.unknown == "refuse" else "none of them"
    return [column.name, holds, missing, otherwise]
