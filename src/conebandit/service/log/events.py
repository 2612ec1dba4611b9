"""What happened: one class for each kind of event, with the body that it has in a sealed record.

To add a kind, write its class, put it into ``Event`` and ``KINDS``, say in ``READ`` how entries with new names are
read, and in ``State.fold`` what it does. Bodies are what is on disk: a key that is there today must be readable for
ever.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar, NamedTuple, Self, TypeVar

from conebandit.experiment.declaration import MODES, Mode
from conebandit.service.errors import CorruptionError
from conebandit.service.stores.records import Head, Record, seal
from conebandit.service.stores.session import PAGE

MAX_POSITION = 2**62  # what every database can count to

Body = dict[str, Any]

_POSITION = re.compile("0|[1-9][0-9]{0,18}")  # as many digits as MAX_POSITION has; int() refuses thousands


class Version(NamedTuple):
    """Which policy made a decision: its name, the release of the library, and the last event that it had learned from.

    On disk it is a table of these three. In replies, and in logs that were written before, it is text: its first part,
    up to the first dash, is the policy and its last one the position; releases may have dashes in their names.

    Examples
    --------
    >>> Version.parse("ConeTree-1.0-rc-2-17")
    Version(policy='ConeTree', library='1.0-rc-2', position=17)
    >>> str(Version("ConeTree", "0.1.0", 17))
    'ConeTree-0.1.0-17'
    """

    policy: str
    library: str
    position: int

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read a version; a ``CorruptionError`` if it is none."""
        policy, _, rest = text.partition("-")
        library, dash, position = rest.rpartition("-")
        if not dash or not _POSITION.fullmatch(position):
            raise CorruptionError(f"'version' must be POLICY-LIBRARY-POSITION; got {ascii(text)[:60]}.")
        return cls(policy, library, int(position))

    def __str__(self) -> str:
        return f"{self.policy}-{self.library}-{self.position}"


class Choice(NamedTuple):
    """What the policy would do, whatever was served.

    Attributes
    ----------
    arm, propensity
        The arm that it would serve, and how likely that was.
    probabilities
        By name, of the arms that it could have chosen; all others had none. None in logs that were written before, and
        if a policy of another package does not give them.
    """

    arm: str
    propensity: float
    probabilities: dict[str, float] | None = None

    def to_body(self) -> Body:
        """Its part of the body of a decision."""
        body: Body = {"arm": self.arm, "propensity": self.propensity}
        return body if self.probabilities is None else {**body, "probabilities": self.probabilities}


class Selection(NamedTuple):
    """The arm that was served, and what led to it.

    Attributes
    ----------
    mode
        The traffic mode.
    arm, propensity
        What was served, and how likely that was.
    active
        The arms that were in play.
    choice
        What the policy would do, and with which probabilities: the same in mode ``live``; None in mode ``off``, where
        it is not asked.
    version
        Which policy was asked; None in mode ``off``.
    """

    mode: Mode
    arm: str
    propensity: float
    active: tuple[str, ...]
    choice: Choice | None
    version: Version | None

    @property
    def probabilities(self) -> dict[str, float] | None:
        """By name, of the arms that could have been served; None if the log does not tell."""
        if self.mode == "live" and self.choice is not None:
            return self.choice.probabilities
        return {self.arm: self.propensity}

    def to_body(self) -> Body:
        """Its part of the body of a decision."""
        choice, version = self.choice, self.version
        return {
            "mode": self.mode,
            "arm": self.arm,
            "propensity": self.propensity,
            "active": list(self.active),
            "choice": None if choice is None else choice.to_body(),
            "version": None if version is None else version._asdict(),
        }

    @classmethod
    def from_body(cls, body: Body) -> Self:
        """Read it from the body of a decision."""
        return cls(
            _mode(body, "mode"),
            _text(body, "arm"),
            _number(body, "propensity"),
            _names(body, "active"),
            _choice(body, "choice"),
            _version(body, "version"),
        )


# ---- the kinds of events --------------------------------------------------------------------------------------------


class _Fields:
    """An event whose body is the table of its fields."""

    __slots__ = ()
    __match_args__: ClassVar[tuple[str, ...]] = ()  # names of the fields; every dataclass has them

    def to_body(self) -> Body:
        """As it is on disk."""
        return {name: getattr(self, name) for name in self.__match_args__}

    @classmethod
    def from_body(cls, body: Body) -> Self:
        """Read it back; a ``CorruptionError`` if an entry is missing or of a wrong type."""
        return cls(**{name: READ[name](body, name) for name in cls.__match_args__})


@dataclass(frozen=True, slots=True)
class Created(_Fields):
    """The experiment began; always the first event, and never again.

    Attributes
    ----------
    at
        When, as in every event: milliseconds since 1970.
    declaration
        As it was given.
    library
        The release that wrote it.
    """

    kind: ClassVar[str] = "created"
    decision: ClassVar[str | None] = None  # the id of the decision that an event is about
    at: int
    declaration: dict[str, Any]
    library: str


@dataclass(frozen=True, slots=True)
class Decided:
    """An arm was chosen.

    Attributes
    ----------
    id
        Of the decision.
    context
        As it was given.
    x
        The context as the policy saw it.
    selection
        What was served, and why.
    """

    kind: ClassVar[str] = "decided"
    at: int
    id: str
    context: dict[str, Any]
    x: tuple[float, ...]
    selection: Selection

    @property
    def decision(self) -> str:
        """The id of the decision."""
        return self.id

    def to_body(self) -> Body:
        """As it is on disk."""
        given = {"at": self.at, "id": self.id, "context": self.context, "x": list(self.x)}
        return {**given, **self.selection.to_body()}

    @classmethod
    def from_body(cls, body: Body) -> Self:
        """Read it back."""
        return cls(
            _time(body, "at"),
            _text(body, "id"),
            _table(body, "context"),
            _numbers(body, "x"),
            Selection.from_body(body),
        )


@dataclass(frozen=True, slots=True)
class Reported(_Fields):
    """Values of some metrics came in for a decision: new ones, or corrections. Nothing that is known already."""

    kind: ClassVar[str] = "reported"
    at: int
    id: str
    values: dict[str, float]

    @property
    def decision(self) -> str:
        """The id of the decision."""
        return self.id

    @classmethod
    def from_body(cls, body: Body) -> Self:
        """Read it back; as every other event, but quicker."""
        return cls(_time(body, "at"), _text(body, "id"), _number_by_name(body, "values"))


@dataclass(frozen=True, slots=True)
class ArmAdded(_Fields):
    """There is a new arm; it is served from the next revision on."""

    kind: ClassVar[str] = "arm_added"
    decision: ClassVar[str | None] = None
    at: int
    arm: str


@dataclass(frozen=True, slots=True)
class ArmRetired(_Fields):
    """An arm is never served again."""

    kind: ClassVar[str] = "arm_retired"
    decision: ClassVar[str | None] = None
    at: int
    arm: str


@dataclass(frozen=True, slots=True)
class ModeChanged(_Fields):
    """The traffic mode is another one."""

    kind: ClassVar[str] = "mode_changed"
    decision: ClassVar[str | None] = None
    at: int
    mode: Mode


@dataclass(frozen=True, slots=True)
class Revised(_Fields):
    """From here on, all corrections and changes of arms up to position ``upto`` count."""

    kind: ClassVar[str] = "revised"
    decision: ClassVar[str | None] = None
    at: int
    upto: int


@dataclass(frozen=True, slots=True)
class Learned(_Fields):
    """The policy learned from past rows before its first decision; the second event of a log, or nowhere.

    Attributes
    ----------
    file, sha256
        Where the rows come from: the name and the checksum of a file.
    rows
        How many there are.
    data
        The rows, packed by :mod:`conebandit.service.log.past`.
    """

    kind: ClassVar[str] = "learned"
    decision: ClassVar[str | None] = None
    at: int
    file: str
    sha256: str
    rows: int
    data: str


Event = Created | Decided | Reported | ArmAdded | ArmRetired | ModeChanged | Revised | Learned
KINDS: dict[str, type[Event]] = {
    kind.kind: kind for kind in (Created, Decided, Reported, ArmAdded, ArmRetired, ModeChanged, Revised, Learned)
}
E = TypeVar("E", bound=Event)


# ---- events and records ---------------------------------------------------------------------------------------------


class Entry(NamedTuple):
    """An event at its place in a log; ``head`` is the position and the checksum of its record."""

    head: Head
    event: Event

    @property
    def seq(self) -> int:
        """Its position."""
        return self.head.seq


def seal_event(before: Head, event: Event) -> Record:
    """The record of the next event of a log that ends at ``before``."""
    return seal(before.check, before.seq + 1, event.kind, event.decision, event.to_body())


def read(record: Record) -> Entry:
    """The event in a record; a ``CorruptionError`` if its kind is not known or its body has a wrong form.

    Examples
    --------
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
    body = record.body
    try:
        if not isinstance(body, dict):
            raise CorruptionError("its body is not a table.")
        event = kind.from_body(body)
        if event.decision != record.decision:
            raise CorruptionError(f"it is filed under decision {record.decision!a}, and not under {event.decision!a}.")
    except CorruptionError as error:
        raise CorruptionError(f"event {record.seq} ({record.kind}): {error}") from None
    return Entry(record.head, event)


def read_as(kind: type[E], record: Record) -> E:
    """The event in a record that must be of this kind."""
    event = read(record).event
    if not isinstance(event, kind):
        raise CorruptionError(f"event {record.seq} ({record.kind}): there should be one of kind {kind.kind} here.")
    return event


# ---- entries of bodies ----------------------------------------------------------------------------------------------
# Long logs are read event by event, so these are quick: JSON knows few types, and each value has exactly one of them.

_NUMBERS, _TEXTS = {int, float}, {str}


def _refusal(body: Body, name: str, wanted: str) -> CorruptionError:
    if name not in body:
        return CorruptionError(f"{name!a} is missing.")
    return CorruptionError(f"{name!a} must be {wanted}; got {ascii(body[name])[:60]}.")


def _text(body: Body, name: str) -> str:
    value = body.get(name)
    if type(value) is str:
        return value
    raise _refusal(body, name, "text")


def _number(body: Body, name: str) -> float:
    value = body.get(name)
    if type(value) is float or type(value) is int:
        return value
    raise _refusal(body, name, "a number")


def _table(body: Body, name: str) -> dict[str, Any]:
    value = body.get(name)
    if type(value) is dict:
        return value
    raise _refusal(body, name, "a table")


def _names(body: Body, name: str) -> tuple[str, ...]:
    value = body.get(name)
    if type(value) is list and set(map(type, value)) <= _TEXTS:
        return tuple(value)
    raise _refusal(body, name, "a list of names")


def _numbers(body: Body, name: str) -> tuple[float, ...]:
    value = body.get(name)
    if type(value) is list and set(map(type, value)) <= _NUMBERS:
        return tuple(value)
    raise _refusal(body, name, "a list of numbers")


def _number_by_name(body: Body, name: str) -> dict[str, float]:
    value = body.get(name)
    if type(value) is dict and set(map(type, value.values())) <= _NUMBERS:
        return value
    raise _refusal(body, name, "a table of numbers")


def _time(body: Body, name: str) -> int:
    value = body.get(name)
    if type(value) is int:
        return value
    raise _refusal(body, name, "whole milliseconds since 1970")


def _position(body: Body, name: str) -> int:
    value = body.get(name)
    if type(value) is int and 0 <= value <= MAX_POSITION:
        return value
    raise _refusal(body, name, "a position")


def _mode(body: Body, name: str) -> Mode:
    value: Mode | None = body.get(name)
    if value in MODES:
        return value
    raise _refusal(body, name, f"one of {', '.join(MODES)}")


def _choice(body: Body, name: str) -> Choice | None:
    if name in body and body[name] is None:
        return None
    choice = _table(body, name)
    probabilities = _probabilities(choice, "probabilities") if "probabilities" in choice else None
    return Choice(_text(choice, "arm"), _number(choice, "propensity"), probabilities)


def _probabilities(body: Body, name: str) -> dict[str, float]:
    """Whether they add up to 1 is for ``verify`` to say, which knows what they were."""
    value = _number_by_name(body, name)
    for chance in value.values():
        if not 0.0 <= chance < math.inf:  # Python reads nan and infinity as JSON, but we do not write them
            raise _refusal(body, name, "a table of finite numbers, none below 0")
    return value


def _version(body: Body, name: str) -> Version | None:
    if name in body and body[name] is None:
        return None
    if type(body.get(name)) is str:  # written before
        return _parse_version(body[name])
    version = _table(body, name)
    return Version(_text(version, "policy"), _text(version, "library"), _position(version, "position"))


# A log is read page by page, and many decisions on a page have the same version.
_parse_version = lru_cache(maxsize=PAGE)(Version.parse)


# How the fields of simple events are read, by their names.
READ: dict[str, Callable[[Body, str], Any]] = {
    "at": _time,
    "declaration": _table,
    "library": _text,
    "id": _text,
    "values": _number_by_name,
    "arm": _text,
    "mode": _mode,
    "upto": _position,
    "file": _text,
    "sha256": _text,
    "rows": _position,
    "data": _text,
}
