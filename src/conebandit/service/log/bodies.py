"""Entries of the bodies of events: each is read as the type that it must have, or the log is refused.

Long logs are read event by event, so these are quick: JSON knows few types, and each value has exactly one of them.
"""

from __future__ import annotations

from typing import Any, Literal, get_args

from conebandit.experiment.declaration import MODES, STAGES, Mode, Stage
from conebandit.service.errors import CorruptionError

MAX_POSITION = 2**62  # what every database can count to
MAX_TIME = 253_402_300_799_999  # milliseconds since 1970: the end of the year 9999, beyond which there are no dates

Body = dict[str, Any]
Verdict = Literal["release", "reject"]  # on a value on hold
VERDICTS: tuple[Verdict, ...] = get_args(Verdict)

_NUMBERS, _TEXTS = {int, float}, {str}


def refusal(body: Body, name: str, wanted: str) -> CorruptionError:
    """Why an entry is refused."""
    if name not in body:
        return CorruptionError(f"{name!a} is missing.")
    return CorruptionError(f"{name!a} must be {wanted}; got {ascii(body[name])[:60]}.")


def text(body: Body, name: str) -> str:
    """A text."""
    value = body.get(name)
    if type(value) is str:
        return value
    raise refusal(body, name, "text")


def number(body: Body, name: str) -> float:
    """A number."""
    value = body.get(name)
    if type(value) is float or type(value) is int:
        return value
    raise refusal(body, name, "a number")


def table(body: Body, name: str) -> dict[str, Any]:
    """A table."""
    value = body.get(name)
    if type(value) is dict:
        return value
    raise refusal(body, name, "a table")


def names(body: Body, name: str) -> tuple[str, ...]:
    """A list of names."""
    value = body.get(name)
    if type(value) is list and set(map(type, value)) <= _TEXTS:
        return tuple(value)
    raise refusal(body, name, "a list of names")


def numbers(body: Body, name: str) -> tuple[float, ...]:
    """A list of numbers."""
    value = body.get(name)
    if type(value) is list and set(map(type, value)) <= _NUMBERS:
        return tuple(value)
    raise refusal(body, name, "a list of numbers")


def number_by_name(body: Body, name: str) -> dict[str, float]:
    """A table of numbers."""
    value = body.get(name)
    if type(value) is dict and set(map(type, value.values())) <= _NUMBERS:
        return value
    raise refusal(body, name, "a table of numbers")


def time(body: Body, name: str) -> int:
    """Milliseconds since 1970."""
    value = body.get(name)
    if type(value) is int:
        return value
    raise refusal(body, name, "whole milliseconds since 1970")


def date(body: Body, name: str) -> int:
    """Milliseconds since 1970 that can be shown as a date."""
    value = time(body, name)
    if 0 <= value <= MAX_TIME:
        return value
    raise refusal(body, name, f"milliseconds since 1970, at most {MAX_TIME}")


def position(body: Body, name: str) -> int:
    """A position in a log."""
    value = body.get(name)
    if type(value) is int and 0 <= value <= MAX_POSITION:
        return value
    raise refusal(body, name, "a position")


def _one_of(body: Body, name: str, known: tuple[str, ...]) -> Any:
    value = body.get(name)
    if value in known:
        return value
    raise refusal(body, name, f"one of {', '.join(known)}")


def mode(body: Body, name: str) -> Mode:
    """A traffic mode."""
    value: Mode = _one_of(body, name, MODES)
    return value


def verdict(body: Body, name: str) -> Verdict:
    """What was said of a value on hold."""
    value: Verdict = _one_of(body, name, VERDICTS)
    return value


def yes_or_no(body: Body, name: str) -> bool:
    """True or false."""
    value = body.get(name)
    if type(value) is bool:
        return value
    raise refusal(body, name, "true or false")


def stage(body: Body, name: str) -> Stage:
    """A stage of an experiment."""
    value: Stage = _one_of(body, name, STAGES)
    return value


def text_or_none(body: Body, name: str) -> str | None:
    """A text, or null."""
    return None if name in body and body[name] is None else text(body, name)
