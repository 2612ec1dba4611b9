"""Sealed records: the lines of a log, each with a checksum over itself and everything before it.

What a record means is not known here: ``log/events.py`` says that.
"""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Iterable, Iterator
from hashlib import blake2b
from typing import Any, NamedTuple, TextIO

from conebandit.service.errors import CorruptionError
from conebandit.service.stores.seals import START, UNKEYED, Seals

_encode = json.JSONEncoder(sort_keys=True, separators=(",", ":"), allow_nan=False).encode  # made once, not each time
_decode = json.JSONDecoder().raw_decode  # json.loads without its search for spaces around a value: bodies have none

FORMAT = 1
SALT = "salt"
PERSONAL = "personal"  # where a body has its commitment
COMMITMENT = f'"{PERSONAL}":"'  # no text within a body can look like this: its quotes would be escaped


class Head(NamedTuple):
    """Where a log ends: position and checksum of its last record."""

    seq: int
    check: str


BEGINNING = Head(0, START)  # of every log


class Record(NamedTuple):
    """One line of an experiment's log.

    Attributes
    ----------
    seq
        Position, from 1.
    kind
        What kind of event it is.
    decision
        Id of the decision that it is about, if any.
    text
        The body as JSON, as it was sealed.
    check
        Checksum over this record and, through the one before, all earlier ones.
    personal
        What belongs to the body, but can be erased, as JSON; the body has a commitment to it. None if there is, or is
        left, nothing of the kind.
    """

    seq: int
    kind: str
    decision: str | None
    text: str
    check: str
    personal: str | None = None

    @property
    def head(self) -> Head:
        """The head of a log that ends with this record."""
        return Head(self.seq, self.check)

    @property
    def body(self) -> Any:
        """The body, parsed: a table in every record that the service writes."""
        try:
            body, end = _decode(self.text)
        except (ValueError, RecursionError):
            end = -1
        if end != len(self.text):
            raise CorruptionError(f"event {self.seq} ({self.kind}) is not JSON: it is not what was written.")
        return body

    @property
    def has_commitment(self) -> bool:
        """Whether there is, or was, a personal part."""
        return COMMITMENT in self.text

    @property
    def personal_part(self) -> Any:
        """The personal part, parsed: a table, without its salt; None if there is, or is left, none."""
        if self.personal is None:
            return None
        entries = Record(self.seq, self.kind, None, self.personal, "").body
        return {name: value for name, value in entries.items() if name != SALT}


def detached(personal: dict[str, Any]) -> tuple[str, str]:
    """A personal part as JSON with a salt, and the commitment to it, which tells nothing about what it stands for.

    Without the salt, 128 random bits, nobody can try out which context or name leads to a commitment.

    Examples
    --------
    >>> text, commitment = detached({"age": 34})
    >>> commitment == commitment_to(text), commitment == detached({"age": 34})[1]
    (True, False)
    """
    text = canonical({**personal, SALT: secrets.token_hex(16)})
    return text, commitment_to(text)


def commitment_to(personal: str) -> str:
    """What a body says about the personal part that belongs to it."""
    return blake2b(personal.encode("utf-8", "surrogatepass"), digest_size=32).hexdigest()


def new_id() -> str:
    """An id for a decision: the time, so that neighbours in time are neighbours in the index, and 80 random bits."""
    return new_ids(1)[0]


def new_ids(count: int) -> list[str]:
    """Several new ids.

    Examples
    --------
    >>> len(set(new_ids(1000))), len(new_id())
    (1000, 32)
    """
    now, bits = f"{time.time_ns() // 1_000_000:012x}", secrets.token_hex(10 * count)
    return [now + bits[start : start + 20] for start in range(0, len(bits), 20)]


def canonical(value: Any) -> str:
    """JSON in one form only: sorted, no spaces, ASCII."""
    return _encode(value)


def seal(
    before: str,
    seq: int,
    kind: str,
    decision: str | None,
    body: dict[str, Any],
    *,
    seals: Seals = UNKEYED,
    experiment: str = "",
) -> Record:
    """The next record of the log of an experiment, whose last checksum is ``before``; keys seal the experiment, too.

    Examples
    --------
    >>> first = seal(START, 1, "mode_changed", None, {"mode": "off"})
    >>> check([first], START, 0)
    [Record(seq=1, kind='mode_changed', decision=None, text='{"mode":"off"}', ...)]
    >>> check([first._replace(text='{"mode":"live"}')], START, 0)
    Traceback (most recent call last):
        ...
    conebandit.service.errors.CorruptionError: event 1 (mode_changed) does not match its checksum: ...
    """
    return seal_text(before, (seq, kind, decision, canonical(body)), seals, experiment)


def seal_text(
    before: str, record: tuple[int, str, str | None, str], seals: Seals, experiment: str, personal: str | None = None
) -> Record:
    """What :func:`seal` makes of a record whose body is JSON already, with the personal part that belongs to it."""
    seq, kind, decision, text = record
    return Record(seq, kind, decision, text, seals.seal(experiment, before, _sealed_text(*record)), personal)


def check(
    records: Iterable[Record], before: str, after: int, *, seals: Seals = UNKEYED, experiment: str = ""
) -> list[Record]:
    """The records, if they follow on event ``after`` with checksum ``before``; else a ``CorruptionError``."""
    found = []
    for record in records:
        if record.seq != after + 1:
            raise CorruptionError(f"event {after + 1} is missing: event {record.seq} follows on event {after}.")
        found.append(check_seal(record, before, seals, experiment))
        before, after = record.check, record.seq
    return found


def check_seal(record: Record, before: str, seals: Seals = UNKEYED, experiment: str = "") -> Record:
    """A record, if it was sealed after one with checksum ``before``; else a ``CorruptionError``."""
    seq, kind, decision, text, sealed, personal = record
    if not seals.matches(sealed, experiment, before, _sealed_text(seq, kind, decision, text)):
        raise CorruptionError(
            f"event {seq} ({kind}) does not match its checksum: it, or one before it, is not what was written."
        )
    if personal is not None and f'{COMMITMENT}{commitment_to(personal)}"' not in text:
        raise CorruptionError(f"the personal part of event {seq} ({kind}) is not what was written.")
    return record


def _sealed_text(seq: int, kind: str, decision: str | None, text: str) -> str:
    """What a seal covers of a record. No part that we write has a line break, so each text stands for one record."""
    return f"{seq}\n{kind}\n{'' if decision is None else decision}\n{text}"


# ---- as a file ------------------------------------------------------------------------------------------------------


def to_lines(records: Iterable[Record]) -> Iterator[str]:
    """A log as lines of JSON; the last line says how long it is, so that a file that was cut short is noticed."""
    yield canonical({"conebandit": "log", "format": FORMAT}) + "\n"
    count, last = 0, START
    for record in records:
        count, last = record.head
        yield canonical(list(record[:5]) if record.personal is None else list(record)) + "\n"
    yield canonical({"events": count, "check": last}) + "\n"


def from_lines(file: TextIO, seals: Seals = UNKEYED) -> Iterator[Record]:
    """The records of such a file, each checked as it is read; a ``CorruptionError`` names the first bad line."""
    seq, last, experiment = 0, START, ""
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
            record = _record(value, number)
            try:
                experiment = experiment or _declared_id(record)
                check([record], last, seq, seals=seals, experiment=experiment)
            except CorruptionError as error:
                raise CorruptionError(f"line {number}: {error}") from None
            seq, last = record.head
            yield record
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
    except (ValueError, RecursionError):
        raise CorruptionError(f"line {number} is not whole: the log was cut short or changed there.") from None
    try:
        as_written = line.endswith("\n") and canonical(value) == line[:-1]
    except ValueError:  # nan and infinity, which Python reads as JSON, but which no log holds
        as_written = False
    if not as_written:
        raise CorruptionError(f"line {number} is not as it was written: the log was cut short or changed there.")
    return value


def _record(value: Any, number: int) -> Record:
    types = (int, str, str | None, str, str, str)  # the last one, the personal part, may be missing
    if (
        not isinstance(value, list)
        or len(value) not in (len(types) - 1, len(types))
        or not all(isinstance(v, t) for v, t in zip(value, types, strict=False))
        or not all(_can_be_stored(v) for v in value if isinstance(v, str))
    ):
        raise CorruptionError(f"line {number} is not an event.")
    return Record(*value)


def _declared_id(first: Record) -> str:
    """The id of the experiment that the first record of a log declares; empty if it declares none."""
    body = first.body
    declaration = body.get("declaration") if isinstance(body, dict) else None
    return str(declaration.get("id", "")) if isinstance(declaration, dict) else ""


def _can_be_stored(text: str) -> bool:
    """Whether a database takes it: half of a surrogate pair is no character."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
