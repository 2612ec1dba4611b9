"""Times in requests and in tables: ISO 8601 with an offset, outside; whole milliseconds since 1970, inside."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from conebandit.experiment.entries import short
from conebandit.experiment.errors import InvalidError
from conebandit.service.log.bodies import MAX_TIME


def as_time(given: Any, where: str) -> int | None:
    """Milliseconds since 1970 from text such as ``2026-11-16T09:30:00+01:00``; None if there is none.

    Examples
    --------
    >>> as_time("1970-01-01T01:00:01.5+01:00", "observed_at"), as_text(1500)
    (1500, '1970-01-01T00:00:01.500+00:00')
    """
    if given is None:
        return None
    try:
        time = datetime.fromisoformat(given)
        milliseconds = -1 if time.tzinfo is None else round(time.timestamp() * 1000)
        if not 0 <= milliseconds <= MAX_TIME:
            raise ValueError
        return milliseconds
    except (TypeError, ValueError, OverflowError):
        raise InvalidError(
            f"{where} must be a date and time since 1970 with an offset, such as '2026-11-16T09:30:00+01:00' or "
            f"'2026-11-16T08:30:00Z'; got {short(given)}."
        ) from None


def as_text(time: int) -> str:
    """Milliseconds since 1970 as text, in UTC."""
    return datetime.fromtimestamp(time / 1000, UTC).isoformat(timespec="milliseconds")
