"""Entries of a log: events at their places, who caused them, and how they become sealed records and are read back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Self, TypeVar

from conebandit.experiment.errors import InvalidError
from conebandit.service.errors import CorruptionError
from conebandit.service.log import bodies
from conebandit.service.log.bodies import Body
from conebandit.service.log.events import ERASED, KINDS, Decided, Event
from conebandit.service.log.texts import body_text, body_texts
from conebandit.service.stores.records import PERSONAL, Head, Record, canonical, detached, seal_text
from conebandit.service.stores.seals import UNKEYED, Seals

MAX_ACTOR = 128  # characters
E = TypeVar("E", bound=Event)


class By(NamedTuple):
    """Who caused an event.

    Attributes
    ----------
    key
        Name of the API key; None where there are no keys.
    actor
        Who was behind it, as the caller said; None if it did not.
    """

    key: str | None
    actor: str | None

    @classmethod
    def from_body(cls, body: Body) -> Self | None:
        """Read it from the body of an event; None if the log does not tell."""
        if "by" not in body:
            return None
        by = bodies.table(body, "by")
        key, actor = (bodies.text(by, name) if name in by else None for name in cls._fields)
        return cls(key, actor)

    def to_body(self) -> Body:
        """Its part of the body of an event; empty if nobody is known."""
        known = {name: value for name, value in self._asdict().items() if value is not None}
        return {"by": known} if known else {}


NOBODY = By(None, None)  # what the log tells of events that the service caused itself


def as_actor(given: Any, where: str) -> str:
    """Whom a caller acts for, as events keep it; an ``InvalidError`` if that cannot be.

    Examples
    --------
    >>> as_actor("dr. who", "actor")
    'dr. who'
    >>> as_actor("", "actor")
    Traceback (most recent call last):
        ...
    conebandit.experiment.errors.InvalidError: actor must have 1 to 128 printable characters; got ''.
    """
    if not isinstance(given, str) or not 1 <= len(given) <= MAX_ACTOR or not given.isprintable():
        raise InvalidError(f"{where} must have 1 to {MAX_ACTOR} printable characters; got {ascii(given)[:80]}.")
    return given


class Entry(NamedTuple):
    """An event at its place in a log.

    Attributes
    ----------
    head
        The position and the checksum of its record.
    event
        What happened.
    by
        Who caused it; None if the service itself did, or if the log does not tell.
    """

    head: Head
    event: Event
    by: By | None = None

    @property
    def seq(self) -> int:
        """Its position."""
        return self.head.seq


def seal_event(
    before: Head,
    event: Event,
    by: By | None = None,
    *,
    detach: bool = False,
    seals: Seals = UNKEYED,
    experiment: str = "",
) -> Record:
    """The record of the next event of a log that ends at ``before``; see :func:`~.records.seal`.

    If ``detach`` is true, its personal part is beside it, and what is sealed is a commitment.
    """
    caused: Body = {} if by is None else by.to_body()
    personal = None
    if isinstance(event, Decided) and not detach:
        text = body_text(event, caused)
    else:
        body = {**event.to_body(), **caused}
        if detach and event.personal:
            personal, body[PERSONAL] = detached({name: body.pop(name) for name in event.personal})
        text = canonical(body)
    record = before.seq + 1, event.kind, event.decision, text
    return seal_text(before.check, record, seals, experiment, personal)


def seal_decisions(
    before: Head, made: Sequence[Decided], by: Sequence[By | None], seals: Seals, experiment: str
) -> list[Record]:
    """What :func:`seal_event` makes of decisions about no units, one after the other, in less time."""
    caused = {who: {} if who is None else who.to_body() for who in set(by)}
    texts = body_texts(made, [caused[who] for who in by])
    return seal_bodies(before, [decided.id for decided in made], texts, seals, experiment)


def seal_bodies(before: Head, ids: Sequence[str], texts: Sequence[str], seals: Seals, experiment: str) -> list[Record]:
    """The records of decisions with these ids and bodies, one after the other."""
    records, check = [], before.check
    for seq, (id_, text) in enumerate(zip(ids, texts, strict=True), start=before.seq + 1):
        records.append(seal_text(check, (seq, Decided.kind, id_, text), seals, experiment))
        check = records[-1].check
    return records


def whole_body(record: Record) -> Any:
    """The body of a record with its personal part; where that was erased, with what stands in its place."""
    body = record.body
    if not record.has_commitment or not isinstance(body, dict) or PERSONAL not in body:
        return body
    rest = {name: value for name, value in body.items() if name != PERSONAL}
    return {**rest, **(KINDS[record.kind].personal if record.personal is None else record.personal_part)}


def shown_body(record: Record) -> Any:
    """The body of a record for people: with its personal part, or with the word ``erased`` in its place."""
    body = whole_body(record)
    if record.has_commitment and record.personal is None:
        return {**body, **dict.fromkeys(KINDS[record.kind].personal, ERASED)}
    return body


def read(record: Record) -> Entry:
    """The event in a record; a ``CorruptionError`` if its kind is not known or its body has a wrong form.

    Examples
    --------
    >>> from conebandit.service.log.events import ModeChanged
    >>> from conebandit.service.stores.records import BEGINNING
    >>> record = seal_event(BEGINNING, ModeChanged(at=0, mode="off"))
    >>> read(record).event
    ModeChanged(at=0, mode='off')
    >>> read(record._replace(text='{"at":0,"mode":"on"}'))
    Traceback (most recent call last):
        ...
    conebandit.service.errors.CorruptionError: event 1 (mode_changed): 'mode' must be one of live, shadow, ...
    """
    kind = KINDS.get(record.kind)
    if kind is None:
        raise CorruptionError(f"event {record.seq} ({ascii(record.kind)[1:-1][:40]}): no such kind of event is known.")
    body = whole_body(record)
    try:
        if not isinstance(body, dict):
            raise CorruptionError("its body is not a table.")
        event, by = kind.from_body(body), By.from_body(body)
        if event.decision != record.decision:
            raise CorruptionError(f"it is filed under decision {record.decision!a}, and not under {event.decision!a}.")
    except CorruptionError as error:
        raise CorruptionError(f"event {record.seq} ({record.kind}): {error}") from None
    return Entry(record.head, event, by)


def read_as(kind: type[E], record: Record) -> E:
    """The event in a record that must be of this kind."""
    event = read(record).event
    if not isinstance(event, kind):
        raise CorruptionError(f"event {record.seq} ({record.kind}): there should be one of kind {kind.kind} here.")
    return event
