"""What can be asked of the service: one function for each request, used by both clients.

A new method is a function here, and one line in each client: ``front = _waiting(requests.front)`` in ``client.py``, and
``front = _awaited(requests.front)`` in ``asynchronous.py``.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import Any, Generic, Literal, NamedTuple, TypeVar
from urllib.parse import quote, urlencode

from conebandit.experiment.entries import as_plain, short
from conebandit.experiment.errors import InvalidError
from conebandit.service.client import answers
from conebandit.service.replies import (
    Amendment,
    Amendments,
    Assignment,
    AuditPage,
    Description,
    Erasure,
    EstimatedFront,
    EventPage,
    Explanation,
    HeldValues,
    Receipt,
    Reply,
    RulesReport,
    ShiftReport,
    StateDigest,
    Upload,
)

Context = Mapping[str, float | str | None]
Values = Mapping[str, float]
Time = datetime | str  # with a zone; text is ISO 8601, with an offset
Times = Time | Mapping[str, Time] | None  # one for all, or by id
R = TypeVar("R")
Q = TypeVar("Q", bound=Reply)


class Asked(NamedTuple):
    """A decision that is asked for; its unit, if the experiment declares units."""

    id: str
    context: Context
    unit: str | None

    def table(self) -> dict[str, Any]:
        """As it is sent; services of earlier releases do not know of units."""
        unit = {} if self.unit is None else {"unit": self.unit}
        return {"id": self.id, "context": _plain(self.context), **unit}


@dataclass(frozen=True)
class Request(Generic[R]):
    """A request, and how its answer is read.

    ``long``: the answer may take as long as it keeps coming; the time of a client then limits each pause in it.
    ``about``: an experiment and decisions whose outcomes, if they wait in an outbox, must be delivered before.
    ``content``: the body, if it is JSON already. ``headers``: beside those of the client.
    """

    method: str
    path: str
    read: Callable[[bytes], R]
    body: Any = None
    long: bool = False
    actor: str | None = None  # in whose name, if not in that of the client
    about: tuple[str, Sequence[str]] | None = None
    content: bytes | None = None
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def payload(self) -> bytes | None:
        """The body as JSON."""
        return self.content if self.body is None else json.dumps(self.body, allow_nan=False).encode()


# ---- traffic; the clients put fallbacks and the outbox around these --------------------------------------------------


def decide(experiment: str, decisions: Sequence[Asked]) -> Request[list[Assignment]]:
    """Ask for the arms of some decisions; all or none."""
    wanted = [one.table() for one in decisions]
    body = wanted[0] if len(wanted) == 1 else {"decisions": wanted}
    return Request(
        "POST", _path(experiment, "decisions"), partial(answers.assignments, [one.id for one in decisions]), body
    )


def report(experiment: str, outcomes: Sequence[Mapping[str, Any]]) -> Request[list[Receipt]]:
    """Report outcomes, tables made by :func:`as_outcomes`; all or none."""
    body = outcomes[0] if len(outcomes) == 1 else {"outcomes": list(outcomes)}
    return Request(
        "POST", _path(experiment, "outcomes"), partial(answers.receipts, [one["id"] for one in outcomes]), body
    )


def edge_state(experiment: str, known: str | None) -> Request[bytes]:
    """The state to decide from at an edge, unless it is the one that is known, by its tag (304)."""
    headers = {} if known is None else {"if-none-match": f'"{known}"'}
    return Request("GET", _path(experiment, "edge/state"), lambda content: content, headers=headers)


def upload(experiment: str, content: bytes) -> Request[Upload]:
    """Have decisions put into the log that were made at an edge."""
    return Request("POST", _path(experiment, "edge/decisions"), partial(_typed, Upload), content=content)


def as_outcomes(values: Mapping[str, Values], observed_at: Times) -> list[dict[str, Any]]:
    """Tables of ``id``, ``values`` and, if somebody said it, ``observed_at``."""
    for told in values.values():
        if not isinstance(told, Mapping):
            raise InvalidError(f"values must be a table of one or more metrics; got {short(told)}.")
    times = observed_at if isinstance(observed_at, Mapping) else dict.fromkeys(values, observed_at)
    return [{"id": id_, "values": _plain(told), **_observed(times.get(id_))} for id_, told in values.items()]


def _plain(table: Mapping[str, Any]) -> dict[str, Any]:
    """A table in which numbers of NumPy are those of Python."""
    return {name: as_plain(value) for name, value in dict(table).items()}


def _observed(time: Time | None) -> dict[str, str]:
    if time is None:
        return {}
    if isinstance(time, datetime):
        if time.tzinfo is None:
            raise ValueError(f"observed_at must have a time zone, such as datetime.now(UTC) has; got {time!r}.")
        return {"observed_at": time.isoformat()}
    return {"observed_at": time}


# ---- what is said afterwards; each is true if it was not so before ---------------------------------------------------


def retract(experiment: str, id: str, metrics: Sequence[str], *, reason: str) -> Request[bool]:  # noqa: A002
    """Take back what was reported of some metrics: what is true is not known."""
    return _amend(experiment, "retractions", id, metrics=list(metrics), reason=reason)


def void(experiment: str, id: str, *, reason: str) -> Request[bool]:  # noqa: A002
    """Learn nothing from a decision."""
    return _amend(experiment, "voids", id, reason=reason)


def void_many(experiment: str, ids: Sequence[str], *, reason: str) -> Request[list[bool]]:
    """Learn nothing from several decisions; all or none."""
    return Request(
        "POST",
        _path(experiment, "voids"),
        lambda content: [one.changed for one in _typed(Amendments, content).amendments],
        {"voids": [{"id": id_, "reason": reason} for id_ in ids]},
        about=(experiment, ids),
    )


def unvoid(experiment: str, id: str, *, reason: str) -> Request[bool]:  # noqa: A002
    """Learn from a decision again."""
    return _amend(experiment, "voids", id, void=False, reason=reason)


def correct_context(experiment: str, id: str, context: Context, *, reason: str) -> Request[bool]:  # noqa: A002
    """Learn from a decision in another context than the one that it was made in."""
    return _amend(experiment, "contexts", id, context=dict(context), reason=reason)


def held(experiment: str, after: int = 0, limit: int = 100) -> Request[dict[str, Any]]:
    """A page of the values that somebody must look at before they count."""
    return _look(HeldValues, experiment, "held", after=after, limit=limit)


def release(experiment: str, id: str, values: Values, *, reason: str) -> Request[bool]:  # noqa: A002
    """Let values on hold count, given as they were seen."""
    return _amend(experiment, "held", id, values=dict(values), verdict="release", reason=reason)


def reject(experiment: str, id: str, values: Values, *, reason: str) -> Request[bool]:  # noqa: A002
    """Wait no more for values on hold, given as they were seen: they do not count."""
    return _amend(experiment, "held", id, values=dict(values), verdict="reject", reason=reason)


def _amend(experiment: str, what: str, id_: str, **said: Any) -> Request[bool]:
    path, body = _path(experiment, what), {"id": id_, **said}
    return Request("POST", path, lambda content: _typed(Amendment, content).changed, body, about=(experiment, [id_]))


# ---- experiments -----------------------------------------------------------------------------------------------------


def create(declaration: Mapping[str, Any]) -> Request[dict[str, Any]]:
    """Begin an experiment."""
    return Request("POST", "/experiments", _table(Description), dict(declaration))


def copy(experiment: str, id: str, changes: Mapping[str, Any] | None = None) -> Request[dict[str, Any]]:  # noqa: A002
    """Begin another experiment with the declaration of this one, but for some changes; no data are copied."""
    body = {"id": id, "changes": dict(changes or {})}
    return Request("POST", _path(experiment, "copy"), _table(Description), body)


def experiments() -> Request[list[str]]:
    """Ids of all experiments."""
    return Request("GET", "/experiments", lambda content: list(json.loads(content)))


def show(experiment: str) -> Request[dict[str, Any]]:
    """Declaration, arms, mode and number of events."""
    return Request("GET", _path(experiment), partial(answers.description, experiment))


def add_arm(experiment: str, arm: str) -> Request[dict[str, Any]]:
    """Add an arm to a running experiment."""
    return Request("POST", _path(experiment, "arms"), _table(Description), {"add": arm})


def retire_arm(experiment: str, arm: str) -> Request[dict[str, Any]]:
    """Never serve an arm again."""
    return Request("POST", _path(experiment, "arms"), _table(Description), {"retire": arm})


def set_mode(experiment: str, mode: Literal["live", "shadow", "off"]) -> Request[dict[str, Any]]:
    """Change the traffic mode."""
    return Request("POST", _path(experiment, "mode"), _table(Description), {"mode": mode})


def erase(experiment: str, unit: str, reason: str) -> Request[dict[str, Any]]:
    """Forget a unit: its data are gone when the experiment is not ``revising`` any more."""
    return Request("POST", _path(experiment, "erasures"), _table(Erasure), {"unit": unit, "reason": reason})


def set_stage(experiment: str, stage: Literal["running", "paused", "ended"], reason: str) -> Request[dict[str, Any]]:
    """Begin a draft, pause, go on, or end for good."""
    return Request("POST", _path(experiment, "stage"), _table(Description), {"stage": stage, "reason": reason})


def change(experiment: str, changes: Mapping[str, Any], reason: str) -> Request[dict[str, Any]]:
    """Declare policy, cone, resolution or rules otherwise."""
    body = {"changes": dict(changes), "reason": reason}
    return Request("POST", _path(experiment, "change"), _table(Description), body)


def lift(
    experiment: str, rule: str, reason: str, then: Literal["restart", "disable"] = "restart"
) -> Request[dict[str, Any]]:
    """End what a safety rule has stopped; ``then`` it begins anew, or is off."""
    body = {"rule": rule, "reason": reason, "then": then}
    return Request("POST", _path(experiment, "lift"), _table(Description), body)


# ---- looking ---------------------------------------------------------------------------------------------------------


def front(experiment: str, context: Context | None = None) -> Request[dict[str, Any]]:
    """The arms on the front in a context."""
    return _look(EstimatedFront, experiment, "front", context=json.dumps(_plain(context or {})))


def explain(experiment: str, context: Context | None = None) -> Request[dict[str, Any]]:
    """Why these arms, in this context."""
    return _look(Explanation, experiment, "explain", context=json.dumps(_plain(context or {})))


def events(experiment: str, after: int = 0, limit: int = 100) -> Request[dict[str, Any]]:
    """A page of the log."""
    return _look(EventPage, experiment, "events", after=after, limit=limit)


def audit(
    experiment: str,
    *,
    actor: str | None = None,
    key: str | None = None,
    kinds: Sequence[str] = (),
    since: str | None = None,
    until: str | None = None,
    after: int = 0,
    limit: int = 100,
) -> Request[dict[str, Any]]:
    """A page of events by who caused them, kind and time (ISO 8601); while there is ``more``, go on at ``next``."""
    wanted = {"actor": actor, "key": key, "kind": list(kinds), "from": since, "to": until}
    given = {name: value for name, value in wanted.items() if value is not None}
    return _look(AuditPage, experiment, "audit", after=after, limit=limit, **given)


def export(experiment: str, format: Literal["jsonl", "csv", "parquet"] = "csv") -> Request[bytes]:  # noqa: A002
    """The log (``jsonl``), or a table of decisions with their outcomes, as the bytes of a file."""
    return Request(
        "GET", _path(experiment, f"export?{urlencode({'format': format})}"), lambda content: content, long=True
    )


def rules(experiment: str) -> Request[dict[str, Any]]:
    """What the safety rules have seen."""
    return _look(RulesReport, experiment, "rules")


def shift(experiment: str) -> Request[dict[str, Any]]:
    """Whether the law of the contexts has changed."""
    return _look(ShiftReport, experiment, "shift")


def state(experiment: str) -> Request[dict[str, Any]]:
    """Where the log ends, and a checksum of the state."""
    return _look(StateDigest, experiment, "state")


def _look(reply: type[Reply], experiment: str, what: str, **query: Any) -> Request[dict[str, Any]]:
    return Request("GET", _path(experiment, f"{what}?{urlencode(query, doseq=True)}"), _table(reply))


def _path(experiment: str, what: str = "") -> str:
    return f"/experiments/{quote(experiment, safe='')}" + (f"/{what}" if what else "")


def _table(reply: type[Reply]) -> Callable[[bytes], dict[str, Any]]:
    return lambda content: _typed(reply, content).to_dict()


def _typed(reply: type[Q], content: bytes) -> Q:
    return reply.from_dict(json.loads(content))
