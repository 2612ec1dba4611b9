"""Decisions as JSON, many at a time: their numbers are written together, and put into templates.

Most decisions differ in their values alone, so there is one template for all of a shape.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache, partial
from json.encoder import encode_basestring_ascii as quoted
from typing import Any, NamedTuple

from conebandit.experiment.entries import as_plain
from conebandit.service.log.bodies import Body
from conebandit.service.log.selection import Selection, Version
from conebandit.service.log.texts import in_order, number_texts
from conebandit.service.stores.records import canonical


def value_texts(values: list[Any]) -> list[str]:
    """Values of tables as JSON."""
    if set(map(type, values)) == {float}:
        return number_texts(values)
    numbers = iter(number_texts([value for value in values if type(value) is float]))
    return [next(numbers) if type(value) is float else _value_text(value) for value in values]


def _value_text(value: Any) -> str:
    kind = type(value)
    return quoted(value) if kind is str else repr(value) if kind is int else canonical(as_plain(value))


# ---- parts of templates ---------------------------------------------------------------------------------------------


@lru_cache(maxsize=1024)
def name_in(name: str) -> str:
    """A name as JSON, in a template."""
    return quoted(name).replace("%", "%%")


@lru_cache(maxsize=1024)
def list_in(names: tuple[str, ...]) -> str:
    """Names as JSON, in a template."""
    return f"[{','.join(map(name_in, names))}]"


@lru_cache(maxsize=1024)
def table_in(names: tuple[str, ...]) -> str:
    """A table as JSON, with a place for each value."""
    return f"{{{','.join([f'{name_in(name)}:%s' for name in names])}}}"


# ---- bodies of decisions --------------------------------------------------------------------------------------------


class Origin(NamedTuple):
    """What decisions that were made together have in common in the log.

    Attributes
    ----------
    edge, state
        The edge, and the position of the state that they were made from.
    by
        Who has sent them, as JSON; empty if that is not known.
    arrival
        What stands for the time of the event.
    """

    edge: str
    state: int
    by: str
    arrival: str


class Decisions(NamedTuple):
    """Decisions from one state, column by column: as they were sent, and as they come out here."""

    ids: Sequence[str]
    times: Sequence[int]
    contexts: Sequence[Body]
    xs: Sequence[Sequence[float]]
    made: Sequence[Selection]


def edge_body_texts(origin: Origin, decisions: Decisions) -> list[str]:
    """What :func:`canonical` makes of the bodies of decisions that were made at an edge, about no units."""
    n_last = 1 + len(decisions.xs[0])  # values after the id
    # One for many of these decisions; kept no longer, since with many arms each is long.
    template_of = lru_cache(maxsize=None)(partial(_template, origin, decisions.made[0].version, n_last))
    values: list[Any] = []
    templates = []
    for context, x, selection in zip(decisions.contexts, decisions.xs, decisions.made, strict=True):
        mode, arm, propensity, active, choice, _ = selection
        chosen = chances = None
        before = len(values)
        if choice is not None:
            chosen, chance, probabilities = choice
            if probabilities is not None:
                table = in_order(probabilities)
                chances = tuple(table)
                values += table.values()
            values.append(chance)
        table = in_order(context)
        values += table.values()
        templates.append((template_of(mode, arm, active, chosen, chances, tuple(table)), len(values) - before))
        values.append(propensity)
        values += x
    texts, end, found = value_texts(values), 0, []
    for id_, at, (template, size) in zip(decisions.ids, decisions.times, templates, strict=True):
        start, middle = end, end + size
        end = middle + n_last
        found.append(template % (*texts[start:middle], at, quoted(id_), *texts[middle:end]))
    return found


def _template(  # noqa: PLR0917  (what makes up a shape)
    origin: Origin,
    version: Version | None,
    n_last: int,
    mode: str,
    arm: str,
    active: tuple[str, ...],
    chosen: str | None,
    chances: tuple[str, ...] | None,
    columns: tuple[str, ...],
) -> str:
    """The body of decisions of a shape, its entries in order, with places for id, time and values."""
    choice = "null"
    if chosen is not None:
        table = "" if chances is None else f'"probabilities":{table_in(chances)},'
        choice = f'{{"arm":{name_in(chosen)},{table}"propensity":%s}}'
    by = f'"by":{origin.by},'.replace("%", "%%") if origin.by else ""
    made_with = canonical(None if version is None else version._asdict()).replace("%", "%%")
    return (
        f'{{"active":{list_in(active)},"arm":{name_in(arm)},"at":{origin.arrival},{by}"choice":{choice},'
        f'"context":{table_in(columns)},"edge":{{"at":%s,"name":{name_in(origin.edge)},"state":{origin.state}}},'
        f'"id":%s,"mode":"{mode}","propensity":%s,"version":{made_with},"x":[{",".join(["%s"] * (n_last - 1))}]}}'
    )
