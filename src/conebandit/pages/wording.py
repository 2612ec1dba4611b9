"""Numbers, times and names as people read them; the same on every page."""

from __future__ import annotations

import math
import unicodedata
from datetime import UTC, datetime

UNKNOWN = "not known"
MAX_SHOWN = 60  # characters of a name that somebody has chosen
# Characters that change the direction of what follows: a name must not rearrange the page around it.
_DIRECTIONS = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u200e\u200f\u061c")
_STEPS = ((86_400, "d"), (3600, "h"), (60, "min"), (1, "s"))


def number(value: float | None, digits: int = 3) -> str:
    """A number with a few digits that count.

    Examples
    --------
    >>> [number(x) for x in (0.12345, 1234.5, 3, -0.00001, None)]
    ['0.123', '1,234', '3', '-1e-05', 'not known']
    """
    if value is None or not math.isfinite(value):
        return UNKNOWN
    if abs(value) >= 10**digits:
        return f"{value:,.0f}" if abs(value) < 1e15 else f"{value:.{digits}g}"
    return f"{value:.{digits}g}"


def count(value: int | None) -> str:
    """A whole number, with commas."""
    return UNKNOWN if value is None else f"{value:,}"


def share(value: float | None) -> str:
    """A share as a percentage; very small and very large ones are not rounded away.

    Examples
    --------
    >>> [share(x) for x in (0.5, 0.1234, 0.0001, 0.9999, 0, 1)]
    ['50 %', '12 %', '< 1 %', '> 99 %', '0 %', '100 %']
    """
    if value is None or not math.isfinite(value):
        return UNKNOWN
    percent = f"{100 * value:.0f}"
    if percent == "0" and value > 0:
        return "< 1 %"
    return "> 99 %" if percent == "100" and value < 1 else f"{percent} %"


def moment(milliseconds: int | None) -> str:
    """A time, in UTC, from milliseconds since 1970.

    Examples
    --------
    >>> moment(1_700_000_000_000)
    '2023-11-14 22:13 UTC'
    """
    if milliseconds is None:
        return UNKNOWN
    try:
        return f"{datetime.fromtimestamp(milliseconds / 1000, UTC):%Y-%m-%d %H:%M} UTC"
    except (OverflowError, ValueError, OSError):
        return UNKNOWN


def duration(seconds: float | None) -> str:
    """A length of time, in the largest unit that it has two of.

    Examples
    --------
    >>> [duration(x) for x in (0.5, 90, 7200, 200_000)]
    ['0.5 s', '90 s', '2 h', '2 d']
    """
    if seconds is None or not math.isfinite(seconds):
        return UNKNOWN
    for length, name in _STEPS:
        if seconds >= 2 * length:
            return f"{seconds / length:.0f} {name}"
    return f"{seconds:.2g} s"


def shown(name: str, most: int = MAX_SHOWN) -> str:
    r"""A name that somebody has chosen, as it can stand in a page: not too long, and nothing in it that cannot be seen.

    Examples
    --------
    >>> shown("a" * 100, most=5), shown("plain"), shown(chr(0x202E) + "x")
    ('aaaa…', 'plain', '\ufffdx')
    """
    seen = "".join("\ufffd" if c in _DIRECTIONS or unicodedata.category(c) in ("Cc", "Cs", "Co") else c for c in name)
    return seen if len(seen) <= most else seen[: most - 1] + "…"
