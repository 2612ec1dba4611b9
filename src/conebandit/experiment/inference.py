"""A declaration from a table: arms, bounds and levels as they are found, with notes for whoever must judge them."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from conebandit.experiment import entries
from conebandit.experiment.arms import read_arms
from conebandit.experiment.errors import InvalidError
from conebandit.experiment.frames import Frame, Kind, as_level, kind_of
from conebandit.formats.files import is_number
from conebandit.geometry.cone import Cone

MAX_LEVELS = 30  # that are inferred for one column; a declaration may have more
MIN_ROWS_OF_ARM = 10  # below that, a note says so
MIN_SHARE = 0.01  # of the range that the middle half of the values should take up
MAX_LISTED = 8  # arms that a note names
MAX_WORDS = 5  # of a column that seems to hold numbers otherwise
MISSING_LEVEL = "missing"

Table = dict[str, Any]  # an entry of a declaration

_DATE = re.compile(r"\d{4}-[01]\d-[0-3]\d($|[T ][0-2]\d)")


def infer(
    given: Any,
    *,
    arm: str,
    metrics: Sequence[str | Mapping[str, Any]],
    context: Sequence[str | Mapping[str, Any]],
    propensity: str | None,
    declared: Mapping[str, Any],
) -> tuple[Table, list[str]]:
    """A declaration and notes; one ``InvalidError`` names everything that is wrong with the table."""
    frame = Frame(given)
    if not len(frame):
        raise InvalidError("the table has no rows, so nothing can be inferred from it.")
    outcomes, before = _tables(metrics, "metrics"), _tables(context, "context")
    roles = {"arm": arm} if propensity is None else {"arm": arm, "propensity": propensity}
    _check_roles([*roles.values(), *(table["name"] for table in outcomes + before)])
    notes: list[str] = []
    problems: list[str] = []

    def note(look: Callable[..., list[str]], *about: Any) -> None:
        try:
            notes.extend(look(*about))
        except InvalidError as error:
            problems.append(str(error))

    arms: list[str] = []
    note(_find_arms, frame, arm, declared.get("arms"), arms)
    for table in outcomes:
        note(_complete_metric, table, frame)
    for table in before:
        note(_complete_column, table, frame)
    if propensity is not None:
        note(_check_propensities, frame, propensity)
    if problems:
        raise InvalidError("\n".join(problems))
    others = {name: value for name, value in declared.items() if value is not None}
    if isinstance(others.get("cone"), Cone):
        others["cone"] = _declared_cone(others["cone"], outcomes)
    return {"id": "experiment", "arms": arms, **others, "metrics": outcomes, "context": before, "table": roles}, notes


def _tables(given: Any, where: str) -> list[Table]:
    """Names, or tables with a name, as tables."""
    if isinstance(given, str | Mapping) or not isinstance(given, Sequence):
        raise InvalidError(f"{where} must be a list of names of columns, or of tables; got {entries.short(given)}.")
    tables = [{"name": each} if isinstance(each, str) else entries.table(each, where) for each in given]
    for table in tables:
        if not isinstance(table.get("name"), str):
            raise InvalidError(f"{where}: a table needs the name of its column; got {entries.short(table)}.")
    return tables


def _check_roles(names: Sequence[Any]) -> None:
    """Each column has one role. What is known only afterwards must not be in the context."""
    for name, times in Counter(map(repr, names)).items():
        if times > 1:
            raise InvalidError(
                f"column {name} is named {times} times; a column is the arm, a metric, part of the context or the "
                "propensity, and only one of these."
            )


# ---- arms and propensities ------------------------------------------------------------------------------------------


def _find_arms(frame: Frame, name: str, given: Any, arms: list[str]) -> list[str]:
    """Fill in the arms that are in the table, sorted; if arms are declared, those must be among them."""
    known = None if given is None else read_arms(entries.plain({"arms": given})["arms"])[0]
    values = frame.column(name)
    _refuse_missing(values, name, "Leave these rows out")
    kind = kind_of(values)
    if kind not in ("text", "number", "boolean"):
        raise InvalidError(f"column {name!r} must hold the names of arms; it holds {_described(values)}.")
    counts = Counter(_named(value, name) for value in frame.levels(name, known))
    arms += sorted(counts, key=(lambda each: (float(each), each)) if kind == "number" else None)
    _check_declared(name, arms, known)
    rows = f"{len(values):,} rows"
    notes = [f"{rows}: {', '.join(f'{counts[each]:,} of {each}' for each in arms)}."]
    if len(arms) > MAX_LISTED:
        notes = [f"{rows} of {len(arms)} arms, {min(counts.values()):,} to {max(counts.values()):,} of each."]
    few = [each for each in arms if counts[each] < MIN_ROWS_OF_ARM]
    if few and len(values) >= MIN_ROWS_OF_ARM * len(arms):
        notes.append(
            f"Fewer than {MIN_ROWS_OF_ARM} rows of {', '.join(few[:MAX_LISTED])}: little will be known of them."
        )
    return notes


def _check_declared(column: str, found: Sequence[str], known: Sequence[str] | None) -> None:
    others = [] if known is None else [arm for arm in found if arm not in known]
    if others:
        raise InvalidError(
            f"column {column!r} has arms that are not declared: {', '.join(others[:MAX_LISTED])}. Add them to 'arms', "
            "or leave these rows out."
        )


def _check_propensities(frame: Frame, name: str) -> list[str]:
    values = frame.column(name)
    _refuse_missing(values, name, "Leave these rows out, or do without propensities")
    for i, value in enumerate(values):
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= 1:
            raise InvalidError(
                f"column {name!r}, row {i}: a propensity is above 0 and at most 1, the probability with which the arm "
                f"of that row was chosen; got {entries.short(value)}."
            )
    return []


# ---- metrics and cone -----------------------------------------------------------------------------------------------


def _complete_metric(table: Table, frame: Frame) -> list[str]:
    """Fill in what counts as reward 0 of a cost."""
    name = table["name"]
    values = frame.numbers(name)
    known = [value for value in values if value is not None]
    if kind_of(values) not in ("number", "boolean"):
        raise InvalidError(f"metric {name!r} must hold numbers or booleans; it holds {_described(values)}.")
    for end in (min(known), max(known)):
        entries.number(int(end) if isinstance(end, bool) else end, f"metric {name!r}")
    notes = _missing_note(values, name, "these outcomes are not known, and nothing is learned from them")
    if min(known) == max(known):
        notes.append(f"Metric {name!r} is {float(known[0]):g} in every row: it says nothing.")
    if table.get("direction") == "min" and not {"worst", "range"} & set(table):
        table["worst"] = _rounded_up(float(max(known)))
        notes.append(
            f"Metric {name!r}: worst is {table['worst']:g}, since the largest value is {float(max(known)):g}. Larger "
            "ones would count the same."
        )
    return notes


def _rounded_up(value: float) -> float:
    """The next number with two significant digits."""
    if value == 0.0:
        return 0.0
    step = max(10.0 ** (math.floor(math.log10(abs(value))) - 1), 5e-324)
    return max(value, float(f"{math.ceil(value / step - 1e-9) * step:.12g}"))


def _declared_cone(cone: Cone, metrics: Sequence[Table]) -> Table:
    """A cone as a declaration has it: facets of the rewards, of which more is better."""
    names = tuple(table["name"] for table in metrics)
    costs = tuple(table["name"] for table in metrics if table.get("direction") == "min")
    if cone.names is not None and cone.names != names:
        raise InvalidError(f"the cone must have the names of the metrics, {names}, in this order; it has {cone.names}.")
    if cone.minimise and set(cone.minimise) != set(costs):
        raise InvalidError(
            f"the cone minimises {', '.join(cone.minimise)}, and the metrics with direction 'min' are "
            f"{', '.join(costs) or 'none'}. Give both the same directions."
        )
    rewards = cone.turned(cone.minimise)
    wrong = [name for name, cost in zip(names, rewards.costs, strict=True) if cost]
    if wrong:
        raise InvalidError(
            f"the cone counts less of {', '.join(wrong)} as better, and does not name it in 'minimise'. Make it with "
            "minimise=[...] if it is about values as they are measured; otherwise rewards are meant, of which more is "
            "better."
        )
    return {"facets": rewards.facets.tolist()}


# ---- context --------------------------------------------------------------------------------------------------------


def _complete_column(table: Table, frame: Frame) -> list[str]:
    """Fill in bounds or levels, and what stands for missing values."""
    name = table["name"]
    values = frame.column(name)
    kind: Kind = "date" if "levels" not in table and _are_dates(values) else kind_of(values)
    if "levels" in table or kind in ("text", "boolean"):
        return _complete_levels(table, values)
    if kind == "number":
        return _complete_numbers(table, values)
    advice = {
        "date": "Make numbers of it that say what matters: the hour, the weekday, days since something",
        "nothing": "Leave it out",
    }
    raise InvalidError(
        f"column {name!r} cannot be part of a context: it holds {_described(values)}. "
        f"{advice.get(kind, 'Make all of it numbers, or all of it text')}."
    )


def _complete_numbers(table: Table, values: Sequence[Any]) -> list[str]:
    name = table["name"]
    given = [value for value in values if value is not None]
    for value in (min(given), max(given)):
        entries.number(value, f"column {name!r}")
    known = np.array(given, dtype=np.float64)
    notes = []
    if not {"low", "high"} <= set(table):
        _refuse_useless(name, known, len(values))
        table.setdefault("low", float(known.min()))
        table.setdefault("high", float(known.max()))
        table.setdefault("out_of_range", "clip")
        if float(np.subtract(*np.quantile(known, [0.75, 0.25]))) < MIN_SHARE * (table["high"] - table["low"]) and (
            len(np.unique(known)) > 2
        ):
            notes.append(
                f"Half of the values of {name!r} lie within {MIN_SHARE:.0%} of its range: give narrower bounds 'low' "
                "and 'high', or take its logarithm."
            )
    if len(known) < len(values) and "missing" not in table:
        inside = np.clip(float(np.median(known)), table["low"], table["high"])
        table["missing"] = float(inside)
        notes += _missing_note(values, name, f"the median, {inside:g}, stands for them")
    return notes


def _refuse_useless(name: str, known: Any, n_rows: int) -> None:
    """Refuse a column from which nothing can be learned about other rows."""
    if known.min() == known.max():
        raise InvalidError(f"column {name!r} is {known[0]:g} in every row, so it says nothing. Leave it out.")
    steps = np.diff(np.sort(known))
    if len(known) == n_rows > MAX_LEVELS and (steps == 1.0).all():
        raise InvalidError(
            f"column {name!r} numbers the rows, so it says nothing about others. Leave it out; if it does mean "
            "something, give its bounds 'low' and 'high'."
        )


def _complete_levels(table: Table, values: Sequence[Any]) -> list[str]:
    name = table["name"]
    if kind_of(values) not in ("text", "boolean", "number"):
        raise InvalidError(f"column {name!r} must hold levels; it holds {_described(values)}.")
    if "levels" not in table:
        levels = sorted({_named(as_level(value), name) for value in values if value is not None})
        _check_levels(name, levels, values)
        table["levels"] = levels
        if None in values and "missing" not in table:
            own = MISSING_LEVEL
            while own in levels:
                own = f"{own}_"
            levels.append(own)
            table["missing"] = own
            return _missing_note(values, name, f"that is a level of its own, {own!r}")
    return []


def _check_levels(name: str, levels: Sequence[str], values: Sequence[Any]) -> None:
    words = [level for level in levels if not is_number(level)]
    if len(levels) > MAX_LEVELS and len(words) <= MAX_WORDS:
        listed = ", ".join(map(repr, words))
        raise InvalidError(f"column {name!r} holds numbers, but also {listed}. Leave those empty if they mean nothing.")
    if len(levels) > MAX_LEVELS:
        what = (
            "It seems to be an id: leave it out"
            if len(levels) > len(values) / 2
            else "Group the rare ones, or leave it out"
        )
        raise InvalidError(
            f"column {name!r} has {len(levels):,} different texts, and {MAX_LEVELS} are the limit. {what}."
        )
    if len(levels) == 1 and None not in values:
        raise InvalidError(f"column {name!r} is {levels[0]!r} in every row, so it says nothing. Leave it out.")


# ---- small parts ----------------------------------------------------------------------------------------------------


def _named(value: Any, column: str) -> str:
    """A value as a name that an arm or a level may have."""
    return entries.name(value, f"column {column!r}")


def _described(values: Sequence[Any]) -> str:
    """What a column holds, with examples of each type."""
    if kind_of(values) == "nothing":
        return "nothing but missing values"
    examples: dict[str, str] = {}
    for i, value in enumerate(values):
        if value is not None:
            examples.setdefault(type(value).__name__, f"{entries.short(value)} in row {i}")
    return " and ".join(f"{type_} ({example})" for type_, example in examples.items())


def _are_dates(values: Sequence[Any]) -> bool:
    """Whether a column holds dates as texts, in the form of ISO 8601, and nothing else."""
    known = [value for value in values if value is not None]
    return bool(known) and all(isinstance(value, str) and _DATE.match(value) is not None for value in known)


def _refuse_missing(values: Sequence[Any], name: str, advice: str) -> None:
    if None in values:
        raise InvalidError(
            f"column {name!r} is missing in {values.count(None):,} of {len(values):,} rows, first in row "
            f"{values.index(None)}. {advice}."
        )


def _missing_note(values: Sequence[Any], name: str, meaning: str) -> list[str]:
    missing = values.count(None)
    are = "is" if missing == 1 else "are"
    return [f"{missing:,} of {len(values):,} values of {name!r} {are} missing: {meaning}."] if missing else []
