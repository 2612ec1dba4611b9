"""Answers on which callers act, read and checked: one of wrong types, or to another question, is none of the service's.

A ``ValueError`` says why. Entries that are not known are left alone: a later release of the service may send more.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import fields
from functools import lru_cache
from itertools import chain
from typing import Any

from conebandit.service.replies import Assignment, Description, Receipt

Table = dict[str, Any]

_ENTRIES = [entry.name for entry in fields(Assignment)]  # as a service sends them
_TYPES = [{str}, {str}, {float}, {list}, {str}, {str}, {dict}, {bool}]  # of these entries, in most answers
_LONG = 65_536  # bytes of an answer for which a quick reader is worth loading


def assignments(ids: Sequence[str], content: bytes) -> list[Assignment]:
    """The arms for some decisions, in their order.

    Examples
    --------
    >>> sent = b'{"id": "d1", "arm": "a", "propensity": 0.5, "active": ["a"], "mode": "live", "policy_version": "v"}'
    >>> assignments(["d1"], sent)[0].arm
    'a'
    >>> assignments(["d2"], sent)
    Traceback (most recent call last):
        ...
    ValueError: id must be 'd2'; got 'd1'.
    """
    tables = _about(ids, content, "decisions")
    return _plain_assignments(tables) or list(map(_checked_assignment, tables))


def receipts(ids: Sequence[str], content: bytes) -> list[Receipt]:
    """What reports on some decisions did, in their order."""
    return [_receipt(table) for table in _about(ids, content, "outcomes")]


def description(experiment: str, content: bytes) -> Table:
    """What an experiment is; its arms and its baseline have names."""
    [table] = _about([experiment], content, "experiments")
    told = Description.from_dict(table)
    names = [told.declaration.get("baseline", ""), *(arm.name for arm in told.arms)]
    if not told.arms or not all(isinstance(name, str) for name in names):
        raise _wrong("arms", "have names", table.get("arms"))
    return told.to_dict()


def _about(ids: Sequence[str], content: bytes, several: str) -> list[Table]:
    """A table for each of some ids: the content itself, or a list in it if they are several."""
    given = _parsed(content)
    if not isinstance(given, dict):
        raise ValueError(f"it must be a table; got {ascii(given)[:60]}.")
    tables = [given] if len(ids) == 1 else given.get(several)
    if not isinstance(tables, list) or len(tables) != len(ids):
        raise _wrong(several, f"be a list of {len(ids)}", tables)
    for id_, table in zip(ids, tables, strict=True):
        if not isinstance(table, dict) or table.get("id") != id_:
            raise _wrong("id", f"be {id_!a}", table.get("id") if isinstance(table, dict) else table)
    return tables


def _parsed(content: bytes) -> Any:
    """What ``json.loads`` says; of long answers, what says the same in half the time, if it is there."""
    from_json = _quick_reader() if len(content) >= _LONG else None
    if from_json is not None:
        with suppress(ValueError):  # it knows no halves of surrogate pairs, and few levels
            return from_json(content)
    return json.loads(content)


@lru_cache(maxsize=1)
def _quick_reader() -> Callable[[bytes], Any] | None:
    """What reads quickly. It comes with FastAPI, which those who do not serve need not have."""
    with suppress(ModuleNotFoundError):
        from pydantic_core import from_json  # noqa: PLC0415

        return from_json
    return None


def _plain_assignments(tables: Sequence[Table]) -> list[Assignment] | None:
    """What :func:`_checked_assignment` makes of each, in less time; None if one is not as nearly all are."""
    if any(list(table) != _ENTRIES for table in tables):
        return None
    columns = list(zip(*[table.values() for table in tables], strict=True))
    if [set(map(type, column)) for column in columns] != _TYPES:
        return None
    _, arms, propensities, active, _, _, probabilities, _ = columns
    chances = list(chain.from_iterable([table.values() for table in probabilities]))
    if (
        not all(arms)
        or not all(0.0 < chance <= 1.0 for chance in propensities)
        or not {float}.issuperset(map(type, chances))
        or not all(0.0 <= chance <= 1.0 for chance in chances)
        or not {str}.issuperset(map(type, chain.from_iterable(active)))
    ):
        return None
    made = []
    for table in tables:
        # The table becomes what the object holds: to set one entry of a frozen object after the other takes longer than
        # all the rest.
        table["active"] = tuple(table["active"])
        made.append(object.__new__(Assignment))
        object.__setattr__(made[-1], "__dict__", table)
    return made


def _checked_assignment(table: Table) -> Assignment:
    chances = table.get("probabilities")
    if not isinstance(table.get("arm"), str) or not table["arm"]:
        raise _wrong("arm", "be a name", table.get("arm"))
    if not _is_chance(table.get("propensity")) or not table["propensity"]:
        raise _wrong("propensity", "be above 0 and at most 1", table.get("propensity"))
    if not _are_names(table.get("active")):
        raise _wrong("active", "be a list of names", table.get("active"))
    if chances is not None and not (isinstance(chances, dict) and all(map(_is_chance, chances.values()))):
        raise _wrong("probabilities", "be a table of numbers from 0 to 1", chances)
    if not isinstance(table.get("mode"), str) or not isinstance(table.get("repeated", False), bool):
        raise ValueError("mode must be a text, and repeated true or false.")
    return Assignment.from_dict(table)


def _receipt(table: Table) -> Receipt:
    for name in ("recorded", "corrected", "repeated", "late", "held", "clipped"):
        if not _are_names(table.get(name, [])):
            raise _wrong(name, "be a list of names", table[name])
    if not isinstance(table.get("void", False), bool):
        raise _wrong("void", "be true or false", table["void"])
    return Receipt.from_dict(table)


def _is_chance(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= 1


def _are_names(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(name, str) for name in value)


def _wrong(name: str, wanted: str, given: Any) -> ValueError:
    return ValueError(f"{name} must {wanted}; got {ascii(given)[:60]}.")
