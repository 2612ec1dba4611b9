"""The cone of a declaration, within limits that keep its conversion quick."""

from __future__ import annotations

import json
import math
from functools import lru_cache
from typing import Any

from conebandit.experiment import entries
from conebandit.experiment.errors import InvalidError
from conebandit.experiment.metrics import Metric
from conebandit.geometry.cone import Cone, with_labels
from conebandit.geometry.inputs import check_ranges
from conebandit.geometry.sentences import tradeoff_rays

MAX_CONE_ROWS = 64
# Facets times metrics of the largest cone that the rows may describe, so that conversion takes a second at most.
MAX_CONE_NUMBERS = {
    "tradeoffs": 20_000,
    "weight_ranges": 3_000,
    "weights": 3_000,
    "facets": 3_000,
    "rays": 3_000,
    "comparisons": 3_000,
}
MAX_STATEMENT = 250  # characters


def declared(given: Any, metrics: tuple[Metric, ...]) -> Cone:
    """The cone of the rewards, from ``"orthant"`` or a table with one entry: a constructor's name and its argument.

    The reward of a cost is what is left to its worst value, so more is better in every reward. Statements are about the
    metrics themselves: a unit of a cost is a unit less of it, and outcomes that are compared are in the metrics' units.
    """
    names = tuple(m.name for m in metrics)
    if given == "orthant":
        return Cone.orthant(len(names), names=names, maximise=names)
    table = entries.table(given, "cone")
    kinds = ("facets", "rays", "wedge", "weights", "weight_ranges", "tradeoffs", "comparisons")
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
    if kind == "comparisons":
        _check_comparisons(argument, metrics)
    try:
        return _make_cone(kind, json.dumps(argument), names, tuple(m.name for m in metrics if m.direction == "min"))
    except InvalidError:  # a ValueError too, but one that names the entry
        raise
    except (ValueError, TypeError, OverflowError, KeyError, AttributeError) as error:
        raise InvalidError(f"cone.{kind}: {error}"[: entries.MAX_WORDS]) from None


@lru_cache(maxsize=128)
def _make_cone(kind: str, text: str, names: tuple[str, ...], costs: tuple[str, ...]) -> Cone:
    """From the argument as JSON; cached, since a declaration is read again whenever a log is replayed."""
    argument = json.loads(text)
    if kind == "wedge":
        return Cone.wedge(argument, names=names, maximise=names)
    if kind == "tradeoffs":
        return _from_tradeoffs(argument, names)
    if kind == "weight_ranges":
        return _from_weight_ranges(argument, names)
    if kind == "comparisons":
        _check_conversion("comparisons", len(names) + len(argument), len(names))
        better, worse = ([row[side] for row in argument] for side in ("better", "worse"))
        gains = tuple(n for n in names if n not in costs)
        return Cone.from_comparisons(better, worse, names=names, minimise=costs, maximise=gains).turned(costs)
    for row in argument:
        if not isinstance(row, dict) and len(row) != len(names):
            raise ValueError(f"a row needs {len(names)} entries, one for each metric; got {entries.short(row)}.")
        for entry in row.values() if isinstance(row, dict) else row:
            entries.number(entry, f"an entry of cone.{kind}")
    _check_conversion(kind, len(argument), len(names))
    if kind == "weights":
        return Cone.from_weights(argument, names=names, maximise=names)
    made = Cone.from_facets(argument) if kind == "facets" else Cone.from_rays(argument)
    return with_labels(made, names)


def warnings_about_cone(cone: Cone, metrics: tuple[Metric, ...]) -> tuple[str, ...]:
    """What is allowed but may be a mistake, about the cone of rewards: that it counts a declared cost twice.

    Examples
    --------
    >>> latency = Metric("latency", direction="min", worst=10.0)
    >>> warnings_about_cone(Cone.from_facets([[-1]]), (latency,))[0][:47]
    "cone: less reward in 'latency' counts as better"
    """
    wrong = (m.name for m, cost in zip(metrics, cone.costs, strict=True) if cost and m.direction == "min")
    return tuple(
        f"cone: less reward in {name!r} counts as better. Facets and rays are about rewards, of which more is better, "
        "of a cost as well: what is left to its worst value. Change the sign of its entries."
        for name in wrong
    )


def _check_comparisons(rows: list[Any], metrics: tuple[Metric, ...]) -> None:
    """Refuse outcomes that are not values of the metrics, or beyond the worst value of a cost."""
    for i, row in enumerate(rows):
        pair = entries.table(row, f"cone.comparisons[{i}]")
        entries.only(pair, ("better", "worse"), f"cone.comparisons[{i}]")
        for side in ("better", "worse"):
            where = f"cone.comparisons[{i}].{side}"
            outcome = entries.table(pair.get(side), where)
            entries.only(outcome, tuple(m.name for m in metrics), where)
            for m in metrics:
                if m.name in outcome:
                    value = entries.number(outcome[m.name], f"{where}.{m.name}")
                    if m.worst is not None and value > m.worst:
                        raise InvalidError(
                            f"{where}.{m.name} must be at most {m.worst:g}, the worst value that this metric tells "
                            f"from others; got {value:g}."
                        )


def _from_tradeoffs(statements: Any, names: tuple[str, ...]) -> Cone:
    if not all(isinstance(s, str) and len(s) <= MAX_STATEMENT for s in statements):
        raise ValueError(f"a statement is a text of at most {MAX_STATEMENT} characters.")
    _check_conversion("tradeoffs", len(names) + len(tradeoff_rays(statements, names)), len(names))
    return Cone.from_tradeoffs(*statements, names=names, maximise=names)


def _from_weight_ranges(ranges: Any, names: tuple[str, ...]) -> Cone:
    if not isinstance(ranges, dict) or set(ranges) != set(names):
        raise ValueError(f"a range is needed for each of {', '.join(names)}; got {entries.short(ranges)}.")
    shares = check_ranges(ranges)
    least = sum(low for low, _ in shares)
    upper = sum(least - low + high < 1 for low, high in shares)  # the others follow from the lower ends
    _check_conversion("weight_ranges", len(names) + upper, len(names))
    return Cone.from_weight_ranges({name: tuple(ranges[name]) for name in names}, maximise=names)


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
