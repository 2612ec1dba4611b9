"""The cone of a declaration, within limits that keep its conversion quick."""

from __future__ import annotations

import json
import math
from functools import lru_cache
from typing import Any

from conebandit.experiment import entries
from conebandit.experiment.errors import InvalidError
from conebandit.geometry.cone import Cone
from conebandit.geometry.inputs import check_ranges
from conebandit.geometry.sentences import tradeoff_rays

MAX_CONE_ROWS = 64
# Facets times metrics of the largest cone that the rows may describe, so that conversion takes a second at most.
MAX_CONE_NUMBERS = {"tradeoffs": 20_000, "weight_ranges": 3_000, "weights": 3_000, "facets": 3_000, "rays": 3_000}
MAX_STATEMENT = 250  # characters


def declared(given: Any, names: tuple[str, ...]) -> Cone:
    """A cone from ``"orthant"`` or from a table with one entry: a constructor's name and its argument."""
    if given == "orthant":
        return Cone.orthant(len(names), names=names)
    table = entries.table(given, "cone")
    kinds = ("facets", "rays", "wedge", "weights", "weight_ranges", "tradeoffs")
    if len(table) != 1 or next(iter(table)) not in kinds:
        raise InvalidError(
            f"cone must be 'orthant' or a table with one of {', '.join(kinds)}; got {entries.short(given)}."
        )
    kind, argument = next(iter(table.items()))
    if kind not in ("wedge", "weight_ranges") and not (
        isinstance(argument, list) and 1 <= len(argument) <= MAX_CONE_ROWS
    ):
        raise InvalidError(
            f"cone.{kind} must be a list of 1 to {MAX_CONE_ROWS} entries; got {entries.short(argument)}."
        )
    try:
        return _make_cone(kind, json.dumps(argument), names)
    except InvalidError:  # a ValueError too, but one that names the entry
        raise
    except (ValueError, TypeError, OverflowError, KeyError, AttributeError) as error:
        raise InvalidError(f"cone.{kind}: {error}"[: entries.MAX_WORDS]) from None


@lru_cache(maxsize=128)
def _make_cone(kind: str, text: str, names: tuple[str, ...]) -> Cone:
    """From the argument as JSON; cached, since a declaration is read again whenever a log is replayed."""
    argument = json.loads(text)
    if kind == "wedge":
        return Cone.wedge(argument, names=names)
    if kind == "tradeoffs":
        return _from_tradeoffs(argument, names)
    if kind == "weight_ranges":
        return _from_weight_ranges(argument, names)
    for row in argument:
        if not isinstance(row, dict) and len(row) != len(names):
            raise ValueError(f"a row needs {len(names)} entries, one for each metric; got {entries.short(row)}.")
        for entry in row.values() if isinstance(row, dict) else row:
            entries.number(entry, f"an entry of cone.{kind}")
    _check_conversion(kind, len(argument), len(names))
    if kind == "weights":
        return Cone.from_weights(argument, names=names)
    return Cone.from_facets(argument, names=names) if kind == "facets" else Cone.from_rays(argument, names=names)


def _from_tradeoffs(statements: Any, names: tuple[str, ...]) -> Cone:
    if not all(isinstance(s, str) and len(s) <= MAX_STATEMENT for s in statements):
        raise ValueError(f"a statement is a text of at most {MAX_STATEMENT} characters.")
    _check_conversion("tradeoffs", len(names) + len(tradeoff_rays(statements, names)), len(names))
    return Cone.from_tradeoffs(*statements, names=names)


def _from_weight_ranges(ranges: Any, names: tuple[str, ...]) -> Cone:
    if not isinstance(ranges, dict) or set(ranges) != set(names):
        raise ValueError(f"a range is needed for each of {', '.join(names)}; got {entries.short(ranges)}.")
    shares = check_ranges(ranges)
    least = sum(low for low, _ in shares)
    upper = sum(least - low + high < 1 for low, high in shares)  # the others follow from the lower ends
    _check_conversion("weight_ranges", len(names) + upper, len(names))
    return Cone.from_weight_ranges({name: tuple(ranges[name]) for name in names})


def _check_conversion(kind: str, rows: int, n_metrics: int) -> None:
    """Refuse rows that may describe a cone with so many facets that the conversion takes too long."""
    facets = most_facets(rows, n_metrics)
    if facets * n_metrics > MAX_CONE_NUMBERS[kind]:
        raise InvalidError(
            f"cone.{kind} gives {rows} rows for {n_metrics} metrics, which may describe a cone with {facets:,} facets; "
            f"at most {MAX_CONE_NUMBERS[kind] // n_metrics:,} are allowed. Give fewer rows, or declare fewer metrics."
        )


def most_facets(rows: int, dim: int) -> int:
    """Largest number of facets of a pointed cone with so many rays, or of rays for so many facets (McMullen, 1970)."""
    if rows <= dim:
        return dim
    return sum(math.comb(rows - (dim + i) // 2, rows - dim + 1) for i in (0, 1))
