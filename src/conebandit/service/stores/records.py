"""The log: what happened, in order, each event sealed with a checksum over itself and everything before it."""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Iterable, Iterator
from hashlib import blake2b
from typing import Any, Literal, NamedTuple, TextIO, get_args

from conebandit.service.errors import CorruptionError

Kind = Literal["created", "decided", "reported", "arm_added", "arm_retired", "mode_changed", "revised"]
KINDS: tuple[Kind, ...] = get_args(Kind)
ARM_KINDS = ("created", "arm_added", "arm_retired")

START = "0" * 32  # the checksum before the first event
FORMAT = 1


class Event(NamedTuple):
    """One line of an experiment's log.

    Attributes
    ----------
    seq
        Position, from 1.
    kind
        What happened.
    decision
        Id of the decision that it is about, if any.
    text
        The body as JSON, as it was sealed.
    check
        Checksum over this event and, through the one before, all earlier ones.
    """

    seq: int
    kind: Kind
    decision: str | None
    text: str
    check: str

    @property
    def body(self) -> dict[str, Any]:
        """The body."""
        try:
            return json.loads(self.text)  # type: ignore[no-any-return]
        except ValueError:
            raise CorruptionError(f"event {self.seq} ({self.kind}) is not JSON: it is not what was written.") from None


def new_id() -> str:
    """An id for a decision: the time, so that neighbours in time are neighbours in the index, and 80 random bits."""
    return f"{time.time_ns() // 1_000_000:012x}{secrets.token_hex(10)}"


def canonical(value: Any) -> str:
    """JSON in one form only: sorted, no spaces, ASCII."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def seal(before: str, seq: int, kind: Kind, decision: str | None, body: dict[str, Any]) -> Event:
    """The next event of a log whose last checksum is ``before``.

    Examples
    --------
    >>> first = seal(START, 1, "mode_changed", None, {"mode": "off"})
    >>> check([first], START, 0)
    [Event(seq=1, kind='mode_changed', decision=None, text='{"mode":"off"}', ...)]
    >>> check([first._replace(text='{"mode":"live"}')], START, 0)
    Traceback (most recent call last):
        ...
    conebandit.service.errors.CorruptionError: event 1 (mode_changed) does not match its checksum: ...
    """
    text = canonical(body)
    return Event(seq, kind, decision, text, _checksum(before, seq, kind, decision, text))


def check(events: Iterable[Event], before: str, after: int) -> list[Event]:
    """The events, if they follow on event ``after`` with checksum ``before``; else a ``CorruptionError``."""
    found = []
    for event in events:
        if event.seq != after + 1:
            raise CorruptionError(f"event {after + 1} is missing: event {event.seq} follows on event {after}.")
        if event.check != _checksum(before, event.seq, event.kind, event.decision, event.text):
            raise CorruptionError(
                f"event {event.seq} ({event.kind}) does not match its checksum: it, or one before it, is not what "
                "was written."
            )
        before, after = event.check, event.seq
        found.append(event)
    return found


def _checksum(before: str, seq: int, kind: str, decision: str | None, text: str) -> str:
    sealed = f"{before}\n{seq}\n{kind}\n{'' if decision is None else decision}\n{text}"
    return blake2b(sealed.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


# ---- as a file ------------------------------------------------------------------------------------------------------


def to_lines(events: Iterable[Event]) -> Iterator[str]:
    """A log as lines of JSON; the last line says how long it is, so that a file that was cut short is noticed."""
    yield canonical({"conebandit": "log", "format": FORMAT}) + "\n"
    count, last = 0, START
    for event in events:
        count, last = event.seq, event.check
        yield canonical([event.seq, event.kind, event.decision, event.text, event.check]) + "\n"
    yield canonical({"events": count, "check": last}) + "\n"


def from_lines(file: TextIO) -> Iterator[Event]:
    """The events of such a file, each checked as it is read; a ``CorruptionError`` names the first bad line."""
    seq, last = 0, START
    end: dict[str, Any] | None = None
    for number, line in enumerate(_lines(file), start=1):
        value = _parse(line, number)
        if end is not None:
            raise CorruptionError(f"line {number}: something follows on the end of the log.")
        if number == 1:
            if value != {"conebandit": "log", "format": FORMAT}:
                raise CorruptionError(f"line 1: this is not a log of format {FORMAT}; got {line[:60]!a}.")
        elif isinstance(value, dict):
            end = value
        else:
            event = _event(value, number)
            try:
                check([event], last, seq)
            except CorruptionError as error:
                raise CorruptionError(f"line {number}: {error}") from None
            seq, last = event.seq, event.check
            yield event
    if end != {"events": seq, "check": last}:
        raise CorruptionError(
            f"the log was cut short or its end was changed: {seq} whole events, then "
            f"{'no last line' if end is None else 'a last line that does not match them'}."
        )


def _lines(file: TextIO) -> Iterator[str]:
    try:
        yield from file
    except UnicodeDecodeError as error:
        raise CorruptionError(f"the log holds bytes that are not text, near byte {error.start} of a block.") from None


def _parse(line: str, number: int) -> Any:
    try:
        value = json.loads(line)
    except ValueError:
        raise CorruptionError(f"line {number} is not whole: the log was cut short or changed there.") from None
    if not line.endswith("\n") or canonical(value) != line[:-1]:
        raise CorruptionError(f"line {number} is not as it was written: the log was cut short or changed there.")
    return value


def _event(value: Any, number: int) -> Event:
    types = (int, str, str | None, str, str)
    if (
        not isinstance(value, list)
        or len(value) != len(types)
        or not all(isinstance(v, t) for v, t in zip(value, types, strict=True))
        or value[1] not in KINDS
    ):
        raise CorruptionError(f"line {number} is not an event.")
    return Event(*value)
