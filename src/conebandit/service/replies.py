"""What the service replies: one type for each reply, for the engine, for HTTP and for ``Client``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any, ClassVar, NamedTuple, Self, get_args, get_origin, get_type_hints

from conebandit._version import __version__


@dataclass(frozen=True)
class Reply:
    """A reply that can be written as JSON and read back."""

    def to_dict(self) -> dict[str, Any]:
        """As a table of what JSON can hold."""
        return {name: _plain(getattr(self, name)) for name in _entries(type(self))}

    @classmethod
    def from_dict(cls, given: Mapping[str, Any]) -> Self:
        """Read it back. Entries that are not known are left out: a later release of the service may send more.

        Entries that have a default may be missing: an earlier release did not send them.

        Examples
        --------
        >>> reply = StateDigest(events=3, check="0f", state="a1")
        >>> StateDigest.from_dict(reply.to_dict()) == reply
        True
        >>> StateDigest.from_dict({"events": 3})
        Traceback (most recent call last):
            ...
        ValueError: a reply of type StateDigest must have an entry 'check'; got events.
        """
        if type(given) is not dict and not isinstance(given, Mapping):  # the first is quick, and nearly always enough
            raise ValueError(f"a reply of type {cls.__name__} must be a table; got {ascii(given)[:60]}.")
        found: dict[str, Any] = {}
        for name, entry in _entries(cls).items():
            value = given.get(name)
            if value is not None:
                found[name] = value if entry.read is None else entry.read(value)
            elif name in given and (entry.may_be_none or entry.has_default):
                found[name] = None
            elif not entry.has_default:
                raise ValueError(
                    f"a reply of type {cls.__name__} must have an entry {name!r}; got {', '.join(given) or 'none'}."
                )
        return cls(**found)


class _Entry(NamedTuple):
    """An entry of a reply: how a value of JSON is read (None: as it is), and whether it may be null or missing."""

    read: Callable[[Any], Any] | None
    may_be_none: bool
    has_default: bool


_known_entries: dict[type[Reply], dict[str, _Entry]] = {}  # looked up for every reply, so remembered


def _entries(reply: type[Reply]) -> dict[str, _Entry]:
    """The entries of a reply, by name."""
    if reply not in _known_entries:
        types = {entry.name: get_type_hints(reply)[entry.name] for entry in fields(reply)}
        _known_entries[reply] = {  # a default is an attribute
            name: _Entry(_reader(type_), type(None) in get_args(type_), hasattr(reply, name))
            for name, type_ in types.items()
        }
    return _known_entries[reply]


_PLAIN = {type(None), str, bool, int, float}  # most values; to look them up is quicker than to ask what they are


def _plain(value: Any) -> Any:
    if type(value) in _PLAIN or isinstance(value, str | int | float):
        return value
    if isinstance(value, Reply):
        return value.to_dict()
    if isinstance(value, Mapping):
        return {name: _plain(entry) for name, entry in value.items()}
    return [_plain(entry) for entry in value]


def _reader(type_: Any) -> Callable[[Any], Any] | None:
    """How a value of JSON becomes the type that a reply declares: tables become replies, lists become tuples.

    None if it is that already. Entries of lists and tables may be null; the value itself is not.
    """
    origin, inner = get_origin(type_), get_args(type_)
    if type(None) in inner:
        return _reader(inner[0])
    if origin in (tuple, dict):
        read = _reader(inner[0] if origin is tuple else inner[1])
        if read is None:
            return tuple if origin is tuple else dict
        if origin is tuple:
            return lambda value: tuple([entry if entry is None else read(entry) for entry in value])
        return lambda value: {name: entry if entry is None else read(entry) for name, entry in value.items()}
    return type_.from_dict if isinstance(type_, type) and issubclass(type_, Reply) else None


def _example(**entries: Any) -> dict[str, Any]:
    """What the OpenAPI schema shows; FastAPI looks for it under ``__pydantic_config__``."""
    return {"json_schema_extra": {"examples": [entries]}}


FALLBACK = "fallback"  # the mode of decisions that a client has answered itself


# ---- decisions and outcomes -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Assignment(Reply):
    """An arm to serve, and what is needed to evaluate the choice later.

    ``probabilities`` are those of the arms that could have been served, by name; None if an earlier release made the
    decision, or sent the reply. ``repeated``: the unit keeps the arm that was drawn for it before.
    """

    id: str
    arm: str
    propensity: float
    active: tuple[str, ...]
    mode: str
    policy_version: str | None
    probabilities: dict[str, float] | None = None
    repeated: bool = False
    __pydantic_config__: ClassVar[dict[str, Any]] = _example(
        id="visit-1",
        arm="new",
        propensity=0.5,
        active=["old", "new"],
        mode="live",
        policy_version=f"ConeTree-{__version__}-17",
        probabilities={"old": 0.5, "new": 0.5},
    )

    @property
    def fallback(self) -> bool:
        """Whether the client answered, as the service did not in time. The log does not have such a decision."""
        return self.mode == FALLBACK


@dataclass(frozen=True)
class Assignments(Reply):
    """Arms to serve, in the order of the requests."""

    decisions: tuple[Assignment, ...]


@dataclass(frozen=True)
class Receipt(Reply):
    """What a report did, metric by metric.

    ``held``: somebody must look at the value before it counts; ``clipped``: the nearest value in range counts.
    ``void``: the decision is void, so nothing of this counts.
    """

    id: str
    recorded: tuple[str, ...]
    corrected: tuple[str, ...]
    repeated: tuple[str, ...]
    late: tuple[str, ...]
    held: tuple[str, ...] = ()
    clipped: tuple[str, ...] = ()
    void: bool = False
    __pydantic_config__: ClassVar[dict[str, Any]] = _example(
        id="visit-1", recorded=["revenue"], corrected=[], repeated=[], late=[]
    )

    @property
    def queued(self) -> bool:
        """Whether the values are in the client's outbox, to be delivered later."""
        return False

    @property
    def fallback(self) -> bool:
        """Whether the values were left out, since the client itself had answered the decision."""
        return False


@dataclass(frozen=True)
class Receipts(Reply):
    """What the reports did, in their order."""

    outcomes: tuple[Receipt, ...]


@dataclass(frozen=True)
class Amendment(Reply):
    """What a review, a retraction, a void or a corrected context did; ``changed`` is false if it was so already."""

    id: str
    changed: bool
    __pydantic_config__: ClassVar[dict[str, Any]] = _example(id="visit-1", changed=True)


@dataclass(frozen=True)
class Amendments(Reply):
    """What several of them did, in their order."""

    amendments: tuple[Amendment, ...]


@dataclass(frozen=True)
class HeldValue(Reply):
    """A value that somebody must look at before it counts.

    ``seq`` and ``at``: the event with which it came, and its time; ``observed_at``: when it was measured, if somebody
    said so. ``late``: it came after the window, and would not count even if it were released.
    """

    id: str
    metric: str
    value: float
    seq: int
    at: str
    observed_at: str | None
    late: bool


@dataclass(frozen=True)
class HeldValues(Reply):
    """Values on hold, oldest first; ask again with ``after`` set to ``next``, until there are none."""

    held: tuple[HeldValue, ...]
    next: int


# ---- experiments ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ArmStatus(Reply):
    """An arm, and whether it can be served."""

    name: str
    active: bool


@dataclass(frozen=True)
class Description(Reply):
    """What an experiment is and how far it has come.

    ``revising``: there are corrections or changes of arms that do not count yet. ``warnings``: what the declaration may
    have got wrong, such as a metric that sounds like a cost and is maximised. ``stage``: draft, running, paused or
    ended. ``stopped``: names of the safety rules that have fired and were not lifted.
    """

    id: str
    mode: str
    arms: tuple[ArmStatus, ...]
    events: int
    revising: bool
    declaration: dict[str, Any]
    warnings: tuple[str, ...] = ()
    stage: str = "running"
    stopped: tuple[str, ...] = ()


@dataclass(frozen=True)
class RuleStatus(Reply):
    """What a safety rule has seen, and whether it has fired.

    ``says``: the rule in words. ``status``: watching, stopped or disabled for a bound; open or reached for a cap or a
    burn-in. ``arm``: null if all are counted together. ``known``: of the ``decisions``, how many have a value; ``mean``
    is theirs, and ``low`` to ``high`` an interval for it that may be looked at any time, with the error of the rule.
    ``evidence``: the e-value as it is now; when it reaches ``needed``, the rule fires.
    """

    rule: str
    says: str
    status: str
    arm: str | None = None
    decisions: int = 0
    known: int = 0
    mean: float | None = None
    low: float | None = None
    high: float | None = None
    evidence: float | None = None
    needed: float | None = None


@dataclass(frozen=True)
class RulesReport(Reply):
    """What all safety rules have seen."""

    rules: tuple[RuleStatus, ...]


@dataclass(frozen=True)
class Erasure(Reply):
    """A unit that is to be forgotten: its alias in the log, null if nothing is known of it, and its decisions.

    Its data are gone as soon as the experiment is not ``revising`` any more.
    """

    experiment: str
    unit: str | None
    decisions: int
    at: int | None
    reason: str


@dataclass(frozen=True)
class Estimate(Reply):
    """The mean of a metric and how far it may be off, in the units of the metric; null where nothing is known."""

    mean: float | None
    radius: float | None


@dataclass(frozen=True)
class FrontArm(Reply):
    """An arm on the front, with an estimate for each metric."""

    arm: str
    estimates: dict[str, Estimate]


@dataclass(frozen=True)
class EstimatedFront(Reply):
    """The arms on the front in a context. ``version``: the last event that the policy has learned from.

    ``chances``: for every arm the chance that it is on the front, null where nothing is known. The table is null if the
    policy cannot say it. ``units``: of how many units it knows; null in experiments without.
    """

    version: int
    arms: tuple[FrontArm, ...]
    chances: dict[str, float | None] | None = None
    units: int | None = None


@dataclass(frozen=True)
class PathBox(Reply):
    """A box of contexts on the way to the leaf: its level, and how many observations it has seen."""

    level: int
    seen: int


@dataclass(frozen=True)
class KeptOut(Reply):
    """An arm that is not played, the arm that keeps it out, and by how much on each facet of the cone."""

    arm: str
    by: str
    margins: tuple[float | None, ...]


@dataclass(frozen=True)
class BeatenArm(Reply):
    """An arm that is off the front, the chance of that, and the arm that beats it most surely.

    ``leads``: by how much, on each facet of the cone; ``deviations``: how uncertain each lead is.
    """

    arm: str
    by: str
    chance: float | None
    leads: tuple[float | None, ...]
    deviations: tuple[float | None, ...]


@dataclass(frozen=True)
class Explanation(Reply):
    """Why these arms, in a context; ``path``, ``kept_out`` and ``beaten`` are null where a policy cannot say it.

    ``learned``: for each metric, of how many decisions (and past rows) a value was learned, defaults included.
    ``observations``: of how many at least one value was learned.
    ``units``: of how many units it knows; null in experiments without. Observations of one are not independent.
    """

    version: int
    policy: str
    observations: int
    learned: dict[str, int]
    active: tuple[str, ...]
    front: tuple[FrontArm, ...]
    path: tuple[PathBox, ...] | None
    kept_out: tuple[KeptOut, ...] | None
    beaten: tuple[BeatenArm, ...] | None = None
    units: int | None = None


# ---- the log --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class StateDigest(Reply):
    """Where the log ends, its position and its checksum, and a checksum of the state that it leads to."""

    events: int
    check: str
    state: str


@dataclass(frozen=True)
class RefusedDecision(Reply):
    """A decision of an edge that is not in the log, and why."""

    id: str
    reason: str


@dataclass(frozen=True)
class ReturnedDecision(Reply):
    """A decision of an edge that was acknowledged, and could not be put into the log: as it was sent, and why not."""

    id: str
    reason: str
    decision: dict[str, Any]


@dataclass(frozen=True)
class Upload(Reply):
    """What became of decisions that were made at an edge: how many are new in the log, or were there, and the rest.

    Of those that are new, ``unchecked`` could not be made again, and are marked so in the log. What was acknowledged
    before, and could not be put into the log after all, is ``returned``, until the edge says that it has ``heard`` it.
    """

    taken: int
    repeated: int
    refused: tuple[RefusedDecision, ...]
    unchecked: int = 0
    returned: tuple[ReturnedDecision, ...] = ()


@dataclass(frozen=True)
class LoggedEvent(Reply):
    """An event as it is in the log."""

    seq: int
    kind: str
    check: str
    body: dict[str, Any]


@dataclass(frozen=True)
class EventPage(Reply):
    """A page of the log; ask again with ``after`` set to ``next``."""

    events: tuple[LoggedEvent, ...]
    next: int


@dataclass(frozen=True)
class AuditedEvent(Reply):
    """An event, when it was, and who caused it: by which API key, and for whom, as the caller said."""

    seq: int
    at: str
    kind: str
    key: str | None
    actor: str | None
    decision: str | None
    check: str
    body: dict[str, Any]


@dataclass(frozen=True)
class AuditPage(Reply):
    """Some of the wanted events; while there is ``more``, ask again with ``after`` set to ``next``."""

    events: tuple[AuditedEvent, ...]
    next: int
    more: bool


@dataclass(frozen=True)
class ShiftAlarm(Reply):
    """The law of the contexts has changed: noticed after so many contexts, in which coordinate or pair, since when.

    ``noticed_at``: when the last of these contexts came. ``since``: when the first one after ``change_point`` did. In a
    log of more than 4096 contexts both are those of a context shortly before.
    """

    at: int
    coordinate: str | None
    change_point: int
    pair: tuple[str, ...] | None = None
    noticed_at: str | None = None
    since: str | None = None


@dataclass(frozen=True)
class RecentShift(Reply):
    """How far recent contexts are from the first ones."""

    rho: float | None
    h: float
    little_support: float


@dataclass(frozen=True)
class ShiftReport(Reply):
    """Whether the law of the contexts has changed since the beginning.

    ``block`` is the number of contexts in a block, "day" or "week"; None as long as it is to be chosen. ``reference``
    is a number of contexts where a block is one context or is chosen, else of blocks.
    """

    contexts: int
    reference: int
    alpha: float
    evidence: float | None
    alarm: ShiftAlarm | None
    recent: RecentShift | None
    block: int | str | None = 1
