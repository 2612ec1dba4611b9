"""Answers on which callers act, read and checked: one of wrong types, or to another question, is none of the service's.

A ``ValueError`` says why. Entries that are not known are left alone: a later release of the service may send more.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import fields
from typing import Any

from conebandit.service.replies import Assignment, Description, Receipt

Table = dict[str, Any]

_ENTRIES = tuple(entry.name for entry in fields(Assignment))
_TYPES = [str, str, float, list, str, str, dict, bool]  # of these entries, in most answers


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
    return [_assignment(table) for table in _about(ids, content, "decisions")]


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
    given = json.loads(content)
    if not isinstance(given, dict):
        raise ValueError(f"it must be a table; got {ascii(given)[:60]}.")
    tables = [given] if len(ids) == 1 else given.get(several)
    if not isinstance(tables, list) or len(tables) != len(ids):
        raise _wrong(several, f"be a list of {len(ids)}", tables)
    for id_, table in zip(ids, tables, strict=True):
        if not isinstance(table, dict) or table.get("id") != id_:
            raise _wrong("id", f"be {id_!a}", table.get("id") if isinstance(table, dict) else table)
    return tables


def _assignment(table: Table) -> Assignment:
    """As nearly all are, quickly: this is done for every entry of a batch."""
    given: list[Any] = [table.get(name) for name in _ENTRIES]
    id_, arm, propensity, active, mode, version, chances, repeated = given
    if (
        list(map(type, given)) == _TYPES
        and arm
        and 0.0 < propensity <= 1.0
        and set(map(type, active)) == {str}
        and set(map(type, chances.values())) == {float}
        and all(0.0 <= chance <= 1.0 for chance in chances.values())
    ):
        return Assignment(id_, arm, propensity, tuple(active), mode, version, chances, repeated)
    return _checked_assignment(table)


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
