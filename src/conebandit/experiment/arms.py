"""The arms of a declaration: names, and numbers that describe them, such as doses or prices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from conebandit.experiment import entries
from conebandit.experiment.errors import InvalidError

MAX_ARMS = 200
MAX_FEATURES = 16

Features = dict[str, dict[str, float]]  # of each arm, by name; empty if arms are nothing but names


def read_arms(given: Any) -> tuple[tuple[str, ...], Features]:
    """Names of the arms, and their features.

    Examples
    --------
    >>> read_arms(["old", "new"])
    (('old', 'new'), {})
    >>> read_arms([{"name": "low", "dose": 10}, {"name": "high", "dose": 40}])
    (('low', 'high'), {'low': {'dose': 10.0}, 'high': {'dose': 40.0}})
    """
    if not isinstance(given, list) or not any(isinstance(arm, dict) for arm in given):
        return entries.names(given, "arms", most=MAX_ARMS), {}
    tables = [entries.table(arm, f"arms[{i}]") for i, arm in enumerate(given)]
    names = entries.names([table.get("name") for table in tables], "arms", most=MAX_ARMS)
    wanted = [key for key in tables[0] if key != "name"]
    if wanted:
        entries.names(wanted, "the features of arms", most=MAX_FEATURES)
    for i, table in enumerate(tables):
        if set(table) != {"name", *wanted}:
            same = ", ".join(wanted) or "none"
            raise InvalidError(f"arms[{i}]: all arms must have the same features ({same}); got {entries.short(table)}.")
    if not wanted:
        return names, {}
    return names, {
        name: {key: entries.number(table[key], f"arms[{i}].{key}") for key in wanted}
        for i, (name, table) in enumerate(zip(names, tables, strict=True))
    }


def read_added_arms(given: Any, arms: Sequence[str]) -> tuple[str, ...]:
    """Names of arms that were added after the declaration, as far as its rules name them; the service says which.

    Examples
    --------
    >>> read_added_arms(["higher"], ["low", "high"])
    ('higher',)
    """
    if given == []:
        return ()
    added = entries.names(given, "added_arms", most=MAX_ARMS)
    for name in added:
        if name in arms:
            raise InvalidError(f"added_arms: {name!r} is one of the 'arms', and was not added.")
    return added
