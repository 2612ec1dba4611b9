"""What happened: one class for each kind of event, with the body that it has in a sealed record.

Of experiments with units, entries that are ``personal`` stand beside the sealed body, which has a commitment to them:
they can be erased.

To add a kind, write its class, put it into ``Event``, say in ``READ`` how entries with new names are
read, and in ``State`` what it does. Bodies are what is on disk: a key that is there today must be readable for
ever.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Self, get_args

from conebandit.experiment.declaration import Mode, Stage
from conebandit.service.log import bodies
from conebandit.service.log.bodies import Body, Verdict
from conebandit.service.log.edges import AtEdge
from conebandit.service.log.selection import Selection
from conebandit.service.log.visits import Names, Visit

ERASED = "erased"  # what people read where personal data were

# ---- the kinds of events --------------------------------------------------------------------------------------------


class _Fields:
    """An event whose body is the table of its fields."""

    __slots__ = ()
    __match_args__: ClassVar[tuple[str, ...]] = ()  # names of the fields; every dataclass has them
    personal: ClassVar[dict[str, Any]] = {}  # entries that can be erased, and what is read in their place when they are

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
    visit
        Of which unit it is, in experiments with units.
    names
        What the caller calls decision and unit, in experiments with units; the log has other names. None if they, the
        context and ``x`` were erased.
    edge
        How it came about, if it was made at an edge; then ``at`` is when the service heard of it.
    """

    kind: ClassVar[str] = "decided"
    personal: ClassVar[dict[str, Any]] = {"context": {}, "x": [], "names": None}
    at: int
    id: str
    context: dict[str, Any]
    x: tuple[float, ...]
    selection: Selection
    visit: Visit | None = None
    names: Names | None = None
    edge: AtEdge | None = None

    @property
    def decision(self) -> str:
        """The id of the decision."""
        return self.id

    def to_body(self) -> Body:
        """As it is on disk."""
        given = {"at": self.at, "id": self.id, "context": self.context, "x": list(self.x)}
        body = {**given, **self.selection.to_body(), **({} if self.edge is None else self.edge.to_body())}
        return body if self.visit is None else {**body, **self.visit.to_body(), **Names.to_body(self.names)}

    @classmethod
    def from_body(cls, body: Body) -> Self:
        """Read it back."""
        visit, names = (Visit.from_body(body), Names.from_body(body)) if "unit" in body else (None, None)
        return cls(
            bodies.time(body, "at"),
            bodies.text(body, "id"),
            bodies.table(body, "context"),
            bodies.numbers(body, "x"),
            Selection.from_body(body),
            visit,
            names,
            AtEdge.from_body(body),
        )

    @property
    def unit(self) -> str | None:
        """The alias of the unit, in experiments with units."""
        return None if self.visit is None else self.visit.unit

    @property
    def called(self) -> str:
        """What the caller calls the decision; what the log does, if that was erased."""
        return self.id if self.names is None else self.names.id

    @property
    def repeats(self) -> str | None:
        """The decision whose arm its unit has kept; None if it was decided anew."""
        return None if self.visit is None else self.visit.repeats

    @property
    def erased(self) -> bool:
        """Whether its personal part is gone."""
        return self.visit is not None and self.names is None

    @property
    def made_at(self) -> int:
        """When it was made; the service may have heard of it later."""
        return self.at if self.edge is None else min(self.at, self.edge.at)


class Amendment(_Fields):
    """An event about a decision that was made before; ``log/reports.py`` says what each of them does."""

    __slots__ = ()
    kind: ClassVar[str]
    at: int
    id: str

    @property
    def decision(self) -> str:
        """The id of the decision."""
        return self.id


@dataclass(frozen=True, slots=True)
class Values(Amendment):
    """Values that came in for a decision. When they were observed, and in which report, only if somebody said it."""

    personal: ClassVar[dict[str, Any]] = {"values": {}}
    at: int
    id: str
    values: dict[str, float]
    observed_at: int | None = None
    report: str | None = None

    def to_body(self) -> Body:
        """As it is on disk."""
        body = _Fields.to_body(self)  # super() does not know a class that was given slots
        for name in ("observed_at", "report"):
            if body[name] is None:
                del body[name]
        return body

    @classmethod
    def from_body(cls, body: Body) -> Self:
        """Read it back; as every other event, but quicker."""
        observed_at = bodies.date(body, "observed_at") if "observed_at" in body else None
        values = bodies.number_by_name(body, "values")
        report = bodies.text(body, "report") if "report" in body else None
        return cls(bodies.time(body, "at"), bodies.text(body, "id"), values, observed_at, report)


@dataclass(frozen=True, slots=True)
class Reported(Values):
    """Values of some metrics came in for a decision: new ones, or corrections. Nothing that is known already.

    Attributes
    ----------
    id
        Of the decision, as in every event about one.
    values
        As they were reported; what counts of them may be clipped.
    observed_at
        When they were measured, in milliseconds since 1970; None if nobody said it.
    report
        What tells the report that they came with from a later one that says the same; None if it has no such name.
    """

    kind: ClassVar[str] = "reported"


@dataclass(frozen=True, slots=True)
class Held(Values):
    """Values came in that somebody must look at before they count, in place of those that were on hold before."""

    kind: ClassVar[str] = "held"


@dataclass(frozen=True, slots=True)
class Reviewed(Amendment):
    """Somebody looked at values on hold: from now on they count, or nobody waits for them any more."""

    kind: ClassVar[str] = "reviewed"
    personal: ClassVar[dict[str, Any]] = {"values": {}, "reason": ERASED}
    at: int
    id: str
    values: dict[str, float]
    verdict: Verdict
    reason: str


@dataclass(frozen=True, slots=True)
class Retracted(Amendment):
    """What was reported of some metrics is not true; what is true is not known."""

    kind: ClassVar[str] = "retracted"
    personal: ClassVar[dict[str, Any]] = {"metrics": [], "reason": ERASED}
    at: int
    id: str
    metrics: tuple[str, ...]
    reason: str


@dataclass(frozen=True, slots=True)
class Voided(Amendment):
    """Nothing is learned from the decision; or, if ``void`` is false, it counts again."""

    kind: ClassVar[str] = "voided"
    personal: ClassVar[dict[str, Any]] = {"reason": ERASED}
    at: int
    id: str
    void: bool
    reason: str


@dataclass(frozen=True, slots=True)
class ContextCorrected(Amendment):
    """What is learned from the decision is learned in another context than the one that it was made in.

    Attributes
    ----------
    context, x
        As it was given, and as the policy sees it.
    reason
        In words, as in every event with which somebody says that the log is not the truth.
    """

    kind: ClassVar[str] = "context_corrected"
    personal: ClassVar[dict[str, Any]] = {"context": {}, "x": [], "reason": ERASED}
    at: int
    id: str
    context: dict[str, Any]
    x: tuple[float, ...]
    reason: str


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


@dataclass(frozen=True, slots=True)
class Sealed(_Fields):
    """Somebody has had a key seal the log from here on, and so vouches for all that is before."""

    kind: ClassVar[str] = "sealed"
    decision: ClassVar[str | None] = None
    at: int


@dataclass(frozen=True, slots=True)
class ClockRepaired(_Fields):
    """The clock is right again, and the events after position ``after`` carry dates that are wrong.

    The only event that may have an earlier time than the one before it. ``log/repairs.py`` says which times hold.

    Attributes
    ----------
    after
        Position of the last event with a right date; 0 if there is none.
    reason
        What had happened, in words.
    """

    kind: ClassVar[str] = "clock_repaired"
    decision: ClassVar[str | None] = None
    at: int
    after: int
    reason: str


@dataclass(frozen=True, slots=True)
class Erased(_Fields):
    """A unit is to be forgotten: its decisions do not count from the next revision on, which removes its personal data.

    Attributes
    ----------
    unit
        Its alias.
    decisions
        How many decisions it has.
    first
        Position of the first of them.
    reason
        Why, in words that say nothing about the unit.
    """

    kind: ClassVar[str] = "erased"
    decision: ClassVar[str | None] = None
    at: int
    unit: str
    decisions: int
    first: int
    reason: str


@dataclass(frozen=True, slots=True)
class Changed(_Fields):
    """The experiment is declared otherwise; the policy is the new one from the next revision on, rules are at once.

    Attributes
    ----------
    declaration
        All of it, as it is from now on.
    reason
        Why.
    """

    kind: ClassVar[str] = "changed"
    decision: ClassVar[str | None] = None
    at: int
    declaration: dict[str, Any]
    reason: str


@dataclass(frozen=True, slots=True)
class StageChanged(_Fields):
    """The experiment has begun, pauses, goes on or has ended, for a reason."""

    kind: ClassVar[str] = "stage_changed"
    decision: ClassVar[str | None] = None
    at: int
    stage: Stage
    reason: str


@dataclass(frozen=True, slots=True)
class Stopped(_Fields):
    """A safety rule has fired; it follows from the events before it, and stands until somebody lifts it.

    Attributes
    ----------
    rule
        Its name.
    watched
        The arm that it is about; None if all are.
    then
        What follows: ``stop``, ``baseline`` or ``suspend``.
    evidence
        The e-value: how much money a bet against the bound has made of 1.
    seen
        ``decisions``, how many of them have a value (``known``), and the ``mean`` of those.
    """

    kind: ClassVar[str] = "stopped"
    decision: ClassVar[str | None] = None
    at: int
    rule: str
    watched: str | None
    then: str
    evidence: float
    seen: dict[str, float]


@dataclass(frozen=True, slots=True)
class Lifted(_Fields):
    """What a rule had stopped goes on; the rule begins anew (``then`` is ``restart``), or is off (``disable``)."""

    kind: ClassVar[str] = "lifted"
    decision: ClassVar[str | None] = None
    at: int
    rule: str
    then: str
    reason: str


@dataclass(frozen=True, slots=True)
class Published(_Fields):
    """Edges decide from the state at this position; it is handed out with this checksum.

    Attributes
    ----------
    policy, library, position
        The version of the policy in it: its name, the release, and the last event that it had learned from.
    check
        Checksum of all that an edge is given.
    """

    kind: ClassVar[str] = "published"
    decision: ClassVar[str | None] = None
    at: int
    policy: str
    library: str
    position: int
    check: str


Amendments = Reported | Held | Reviewed | Retracted | Voided | ContextCorrected
Orders = ArmAdded | ArmRetired | ModeChanged | Changed | StageChanged | Stopped | Lifted
Event = Created | Decided | Amendments | Orders | Revised | Learned | Sealed | ClockRepaired | Erased | Published
KINDS: dict[str, type[Event]] = {kind.kind: kind for kind in get_args(Event)}
AMENDMENTS = frozenset(kind.kind for kind in get_args(Amendments))

# How the fields of simple events are read, by their names.
READ: dict[str, Callable[[Body, str], Any]] = {
    "at": bodies.time,
    "declaration": bodies.table,
    "library": bodies.text,
    "id": bodies.text,
    "values": bodies.number_by_name,
    "arm": bodies.text,
    "verdict": bodies.verdict,
    "metrics": bodies.names,
    "void": bodies.yes_or_no,
    "context": bodies.table,
    "x": bodies.numbers,
    "mode": bodies.mode,
    "upto": bodies.position,
    "file": bodies.text,
    "sha256": bodies.text,
    "rows": bodies.position,
    "data": bodies.text,
    "after": bodies.position,
    "unit": bodies.text,
    "decisions": bodies.position,
    "first": bodies.position,
    "reason": bodies.text,
    "stage": bodies.stage,
    "rule": bodies.text,
    "watched": bodies.text_or_none,
    "then": bodies.text,
    "evidence": bodies.number,
    "seen": bodies.number_by_name,
    "policy": bodies.text,
    "position": bodies.position,
    "check": bodies.text,
}
