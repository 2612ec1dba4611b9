"""A context that somebody chooses: fields of a form from the declaration, and what was entered into them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from conebandit.experiment.columns import Categorical, Column, Numeric
from conebandit.experiment.declaration import Experiment
from conebandit.experiment.errors import InvalidError
from conebandit.service.log.entries import read_as
from conebandit.service.log.events import Decided
from conebandit.service.log.replay import erased_units
from conebandit.service.stores.base import Store

PREFIX = "c."  # of the names of fields, so that a column may have any name
STEPS = 100  # at least, of a slider
RECENT = 200  # last events among which a decision is looked for
OTHER = ""  # what is chosen for a level that is none of those declared

Context = dict[str, float | str]


@dataclass(frozen=True)
class Field:
    """A field of the form: a slider if it has bounds, otherwise a choice among levels."""

    id: str
    name: str
    label: str
    value: float | str
    low: float = 0.0
    high: float = 0.0
    step: float = 0.0
    levels: tuple[tuple[str, str], ...] = ()


def read_context(experiment: Experiment, query: Mapping[str, str]) -> Context:
    """The context in a query; where it says nothing, the middle of the range and the first level.

    Examples
    --------
    >>> columns = [{"name": "age", "low": 20, "high": 60}, {"name": "device", "levels": ["phone", "desk"]}]
    >>> declared = {"id": "e", "arms": ["a", "b"], "metrics": [{"name": "m"}], "context": columns}
    >>> read_context(Experiment.from_dict(declared), {"c.device": "desk"})
    {'age': 40.0, 'device': 'desk'}
    """
    found: Context = {}
    for column in experiment.columns:
        text = query.get(PREFIX + column.name)
        if isinstance(column, Categorical):
            found[column.name] = column.levels[0] if text is None else text
        else:
            found[column.name] = 0.5 * column.low + 0.5 * column.high if text is None else _number(column, text)
    experiment.encode(found)  # which says what is wrong, if something is
    return found


def fields(experiment: Experiment, context: Mapping[str, float | str]) -> list[Field]:
    """The fields of the form, at these values."""
    return [_field(i, column, context[column.name]) for i, column in enumerate(experiment.columns)]


def context_query(context: Mapping[str, float | str]) -> str:
    """A context as it stands in an address."""
    return urlencode({PREFIX + name: value for name, value in context.items()})


def recent_context(store: Store, experiment: Experiment) -> Context | None:
    """The context of one of the last decisions; None if there is none that can be shown."""
    with store.read() as session:
        head = session.existing_head(experiment.id)
        records = session.events(experiment.id, max(head.seq - RECENT, 0), head.seq)
        erased = frozenset() if experiment.units is None else erased_units(session, experiment.id, head.seq)
    for record in reversed(records):
        decided = read_as(Decided, record) if record.kind == Decided.kind else None
        if decided is not None and not decided.erased and decided.unit not in erased:
            return {column.name: _shown(column, decided.context.get(column.name)) for column in experiment.columns}
    return None


def _shown(column: Column, value: Any) -> float | str:
    """A value that was decided with, as the form can have it: what counted."""
    value = column.missing if value is None else value
    if isinstance(column, Numeric):
        return min(max(float(value), column.low), column.high)
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return text if text in column.levels or column.unknown == "refuse" else OTHER


def _field(i: int, column: Column, value: float | str) -> Field:
    id_, name = f"context-{i}", PREFIX + column.name
    if isinstance(column, Numeric):
        step = slider_step(column.low, column.high)
        return Field(id_, name, column.name, float(value), column.low, column.high, step)
    levels = [(level, level) for level in column.levels]
    if column.unknown == "zeros":
        levels.append((OTHER, "another one"))
    return Field(id_, name, column.name, value, levels=tuple(levels))


def slider_step(low: float, high: float) -> float:
    """A round step of a slider that reaches both of its ends.

    Examples
    --------
    >>> slider_step(18, 90), slider_step(0, 1), slider_step(0, 0.7)
    (0.5, 0.01, 0.005)
    """
    width = high - low
    power = 10.0 ** math.floor(math.log10(width / STEPS))
    for factor in (5.0, 2.0, 1.0):
        step = float(f"{factor * power:.1g}")
        if step <= width / STEPS and abs(width / step - round(width / step)) < 1e-9:
            return step
    return width / STEPS


def _number(column: Numeric, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise InvalidError(f"context: {column.name!r} must be a number; got {text[:40]!a}.") from None
