"""Checks of the entries of a declaration; an ``InvalidError`` names the entry that is wrong.

Numbers are those of JSON, an int or a float, since what is declared or reported is written into a log; those of NumPy
count as the same (:func:`as_plain`). What else :mod:`conebandit.validate.arguments` lets pass, such as fractions, is
refused here.
"""

from __future__ import annotations

import json
import math
import re
import unicodedata
from collections.abc import Mapping
from datetime import date, time
from pathlib import PurePath
from typing import Any

import numpy as np

from conebandit.experiment.errors import InvalidError
from conebandit.validate.arguments import is_integer

MAX_WORDS = 500  # characters of a message that may repeat what was given
MAX_SIZE = 1e15  # larger numbers are mistakes, and sums of their squares would overflow before long
UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
MAX_WINDOW = 3650 * UNITS["d"]
MAX_DEPTH = 8  # of tables in which what is odd is looked for
MAX_RANGE = 1_000_000  # numbers of a range, which become a list
NAME = re.compile(r"\w(?:[\w .:/+-]{0,62}[\w.:/+-])?")


def table(given: Any, where: str) -> dict[str, Any]:
    """A table of named entries."""
    if not isinstance(given, Mapping) or not all(isinstance(k, str) for k in given):
        raise InvalidError(f"{where} must be a table of named entries; got {short(given)}.")
    return dict(given)


def plain(given: dict[str, Any]) -> dict[str, Any]:
    """A copy, if it holds only what JSON has, and what stands for that in Python; TOML has dates as well.

    Examples
    --------
    >>> plain({"seeds": range(3), "resolution": np.float32(0.5), "sizes": (1, 2)})
    {'seeds': [0, 1, 2], 'resolution': 0.5, 'sizes': [1, 2]}
    """
    try:
        copy: dict[str, Any] = json.loads(json.dumps(given, default=_stands_for))
    except (TypeError, ValueError, RecursionError):
        raise InvalidError(
            "the declaration must consist of texts, numbers, lists and tables, not nested more deeply than it needs"
            f"{_first_odd(given)}."
        ) from None
    return copy


def _stands_for(given: Any) -> Any:
    """What JSON has for a number of NumPy, a range or a path."""
    if isinstance(given, range) and len(given) <= MAX_RANGE:
        return list(given)
    number = as_plain(given)
    if number is given and not isinstance(given, PurePath):
        raise TypeError
    return str(given) if number is given else number


def _first_odd(given: Any, where: str = "", depth: int = 0) -> str:
    """Which entry is nothing that a declaration may hold; nothing if there is none, or it lies deep."""
    if isinstance(given, date | time):  # a datetime is a date
        return f": {where} is {given}, a date or time"
    if depth == MAX_DEPTH or not isinstance(given, dict | list | tuple):
        return "" if _is_plain(given) else f": {where} is {short(given)}, a {type(given).__name__}"
    if isinstance(given, dict):
        parts = {f"{where}.{name}".lstrip("."): value for name, value in given.items()}
    else:
        parts = {f"{where}[{i}]": value for i, value in enumerate(given)}
    return next((found for place, value in parts.items() if (found := _first_odd(value, place, depth + 1))), "")


def _is_plain(given: Any) -> bool:
    """Whether an entry is what JSON has, or stands for that; what lies too deep is not looked into."""
    if isinstance(given, dict | list | tuple | str | int | float | None):
        return True
    try:
        _stands_for(given)
    except TypeError:
        return False
    return True


def only(table: Mapping[str, Any], known: tuple[str, ...], where: str) -> None:
    """Refuse unknown entries, so that a misspelt one does not go unnoticed."""
    for name in table:
        if name not in known:
            allowed = f"it may have {', '.join(known)}" if known else "it must be empty"
            raise InvalidError(f"{where} has an entry {short(name)} that is not known; {allowed}.")


def names(given: Any, where: str, *, most: int) -> tuple[str, ...]:
    """One or more names, all different."""
    if not isinstance(given, list) or not 1 <= len(given) <= most:
        raise InvalidError(f"{where} must be a list of 1 to {most} names; got {short(given)}.")
    for each in given:
        if given.count(name(each, where)) > 1:
            raise InvalidError(f"{where}: {each!r} is there twice.")
    return tuple(given)


def name(given: Any, where: str) -> str:
    """A name in its usual Unicode form, so that two names that look the same are the same."""
    if not isinstance(given, str) or not NAME.fullmatch(given):
        raise InvalidError(
            f"{where}: a name has 1 to 64 letters, digits, spaces and '_ . : / + -', begins with a letter or digit and "
            f"does not end with a space; got {short(given)}."
        )
    if unicodedata.normalize("NFKC", given) != given:
        usual = unicodedata.normalize("NFKC", given)
        raise InvalidError(f"{where}: write the name {short(given)} as {short(usual)}, its usual form in Unicode.")
    return given


def text(given: Any, where: str, *, most: int) -> str:
    """A text of any printable characters."""
    if not isinstance(given, str) or not 1 <= len(given) <= most or not given.isprintable():
        raise InvalidError(f"{where} must be a text of 1 to {most} printable characters; got {short(given)}.")
    return given


def one_of(given: Any, allowed: tuple[Any, ...], where: str) -> Any:
    """One of several words."""
    if not isinstance(given, str) or given not in allowed:
        raise InvalidError(f"{where} must be one of {', '.join(allowed)}; got {short(given)}.")
    return given


def as_plain(given: Any) -> Any:
    """A number of NumPy as one of Python, which JSON has; anything else as it is.

    Examples
    --------
    >>> as_plain(np.int64(3)), as_plain(np.float32(0.5)), as_plain("3")
    (3, 0.5, '3')
    """
    if isinstance(given, np.integer):
        return int(given)
    return float(given) if isinstance(given, np.floating) else given


def number(given: Any, where: str) -> float:
    """A finite number of reasonable size."""
    given = given if type(given) is float else as_plain(given)  # as nearly always
    if not _is_number(given) or not abs(given) <= MAX_SIZE:
        raise InvalidError(f"{where} must be a number, at most {MAX_SIZE:g} in size; got {short(given)}.")
    return float(given)


def integer(given: Any, where: str) -> int:
    """An integer for a seed."""
    if not is_integer(given) or not 0 <= given < 2**63:
        raise InvalidError(f"{where} must be an integer from 0 to 2^63 - 1; got {short(given)}.")
    return int(given)


def _is_number(given: Any) -> bool:
    return isinstance(given, int | float) and not isinstance(given, bool)


def seconds(given: Any, where: str) -> float:
    """Seconds from a number, or from a number and a unit: ``90``, ``"36h"``, ``"7d"``."""
    seconds, given = math.nan, as_plain(given)
    if isinstance(given, str) and (match := re.fullmatch(r"(\d{1,9}(?:\.\d{1,9})?)\s*([smhd])", given)):
        seconds = float(match[1]) * UNITS[match[2]]
    elif _is_number(given):
        seconds = float(min(max(given, 0), 2 * MAX_WINDOW))
    if not 0.0 < seconds <= MAX_WINDOW:
        raise InvalidError(
            f"{where} must be a time above 0 and up to ten years, in seconds or like '36h' or '7d'; got {short(given)}."
        )
    return seconds


def short(given: Any) -> str:
    """What was given, cut short and escaped, so that it can be sent back whatever it is."""
    text = ascii(given)
    return text if len(text) <= 80 else text[:77] + "..."
