"""Decisions and outcomes."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from conebandit.experiment.errors import InvalidError, RefusalError
from conebandit.experiment.units import as_unit
from conebandit.service.engine.parts import Part
from conebandit.service.engine.units import Asked, Door
from conebandit.service.errors import ConflictError
from conebandit.service.log.choosing import refusal
from conebandit.service.log.entries import By
from conebandit.service.log.events import Decided, Held, Reported
from conebandit.service.log.reports import Reports
from conebandit.service.log.state import State
from conebandit.service.log.times import as_text, as_time
from conebandit.service.replies import Assignment, Receipt
from conebandit.service.stores.records import new_id

MAX_AT_ONCE = 1000  # decisions or outcomes in one request
MAX_CLOCK_ERROR = 60_000  # milliseconds between our clock and that of whoever observes
DECISION_ID = re.compile(r"[\x21-\x7e]{1,128}")


@dataclass
class Ask:
    """The decisions that one caller asks for, all or none, and what becomes of that.

    Attributes
    ----------
    requests, by
        Tables with ``id``, ``context`` and ``unit``, and who asks.
    ids
        Of all decisions, and those of them that were given.
    new
        The decisions that have to be made.
    refusal
        Why none is made.
    """

    requests: Sequence[Mapping[str, Any]]
    by: By | None
    ids: Sequence[str] = ()
    given: Sequence[str] = ()
    new: Mapping[str, Asked] = field(default_factory=dict)
    refusal: InvalidError | ConflictError | None = None

    def unless_refused(self, step: Callable[..., None], *args: Any) -> None:
        """Go one step further."""
        try:
            if self.refusal is None:
                step(*args)
        except (InvalidError, ConflictError) as error:
            self.refusal = error

    def read_ids(self) -> None:
        """Have an id for each decision."""
        self.ids = [decision_id(request.get("id")) for request in some(self.requests, "decisions")]
        names = zip(self.ids, self.requests, strict=True)
        self.given = [id_ for id_, request in names if request.get("id") is not None]

    def answer(self, decided: Mapping[str, Decided]) -> list[Decided] | RefusalError:
        """What the caller is told, by :func:`assignment`."""
        return self.refusal or [decided[id_] for id_ in self.ids]


class Traffic(Part):
    """What comes with every visitor or patient."""

    def decide(self, experiment_id: str, requests: Sequence[Mapping[str, Any]]) -> list[Assignment]:
        """An arm for each request ``{"id", "context", "unit"}``; all or none. An id that was there gets its answer."""
        return [Assignment(**assignment(made)) for made in self.make_decisions(experiment_id, requests)]

    def make_decisions(self, experiment_id: str, requests: Sequence[Mapping[str, Any]]) -> list[Decided]:
        """What :meth:`decide` tells of."""
        [answer] = self.decide_all(experiment_id, [Ask(requests, self.by)])
        if isinstance(answer, RefusalError):
            raise answer
        return answer

    def decide_all(self, experiment_id: str, asks: Sequence[Ask]) -> list[list[Decided] | RefusalError]:
        """Decisions for several callers, one after the other, or why they are refused; quicker than each for itself."""
        state = self.transaction.state(experiment_id)
        if len(asks) > 1 and (state.rules.rules or state.experiment.units is not None):
            # What one of them gets depends on those before it.
            return [answer for ask in asks for answer in self.decide_all(experiment_id, [ask])]
        door, at = Door(self.transaction, state), self.transaction.time(state)
        for ask in asks:
            ask.unless_refused(ask.read_ids)
        decided = door.decided(list(dict.fromkeys(id_ for ask in asks for id_ in ask.given)))
        before = {id_: _asked_before(made) for id_, made in decided.items()}
        for ask in asks:
            ask.unless_refused(self._prepare, ask, state, before, at)
        decided |= door.decide({id_: asked for ask in asks for id_, asked in ask.new.items()}, at)
        return [ask.answer(decided) for ask in asks]

    def _prepare(self, ask: Ask, state: State, before: dict[str, Asked], at: int) -> None:
        """Find out which decisions are new, beside those that were asked for ``before``, and make way for them."""
        new: dict[str, Asked] = {}
        coordinates, units, by = state.experiment.coordinates, state.experiment.units, ask.by
        for id_, request in zip(ask.ids, ask.requests, strict=True):
            context = dict(request.get("context") or {})
            unit = as_unit(request.get("unit"), units)
            asked = Asked(context, tuple(coordinates(context)), unit, by)
            known = before.get(id_) or new.get(id_)
            if known is None:
                new[id_] = asked
            elif not same_context(known.context, context):
                raise ConflictError(f"decision {id_!r} was asked for with another context before; use a new id.")
            elif known.unit != unit:
                raise ConflictError(f"decision {id_!r} was asked for with another unit before; use a new id.")
        if new:
            self._make_way(state, len(new), at)
        before |= new
        ask.new = new

    def _make_way(self, state: State, decisions: int, at: int) -> None:
        """See that so many decisions may be made now, with all that windows that have closed by now bring about."""
        _check_enrolling(state, decisions, at)
        if state.mode != "off" or state.rules.rules:
            self.transaction.close_windows(state)
            if self.transaction.stop_if_due(state):  # then windows have closed in the log, too
                _check_enrolling(state, decisions, at)

    def report(self, experiment_id: str, requests: Sequence[Mapping[str, Any]]) -> list[Receipt]:
        """Record outcomes ``{"id", "values", "observed_at", "report", "edge"}``; all or none."""
        state = self.transaction.state(experiment_id)
        outcomes = []
        for request in some(requests, "outcomes"):
            values = request.get("values")
            if not isinstance(values, Mapping) or not values:
                raise InvalidError("values must be a table of one or more metrics.")
            checked = {name: state.experiment.check_value(name, value) for name, value in values.items()}
            id_ = decision_id(request.get("id"), generate=False)
            observed_at = as_time(request.get("observed_at"), "observed_at")
            outcomes.append(_Outcome(id_, checked, observed_at, request.get("report"), request.get("edge")))
        _check_agreement(outcomes)
        reports = self.reports(state, (one.id for one in outcomes))
        for one in outcomes:
            _check_edge(reports[one.id], one.edge)
            self._check_observed(state, reports[one.id], one.observed_at)
        if any(_news(reports[one.id], one) for one in outcomes):
            self.refuse_if_ended(state)
        return [self._report_one(state, reports[one.id], one) for one in outcomes]

    def _check_observed(self, state: State, reports: Reports, at: int | None) -> None:
        """Clocks may differ a little; nothing is observed before its decision, or in the future."""
        if at is None:
            return
        # Where the clock was wrong nobody knows when the decision was made, so the earliest time is the one to go by.
        made = min(state.repairs.earliest(reports.position, reports.decided.at), reports.decided.made_at)
        now = self.transaction.time(state)
        if not made - MAX_CLOCK_ERROR <= at <= now + MAX_CLOCK_ERROR:
            raise InvalidError(
                f"observed_at must lie between the decision {reports.decided.called!r}, {as_text(made)}, and now, "
                f"{as_text(now)}; got {as_text(at)}."
            )

    def _report_one(self, state: State, reports: Reports, told_of: _Outcome) -> Receipt:
        slots, metric, values = reports.slots, state.experiment.metric, told_of.values
        new = _news(reports, told_of)
        repeated = [name for name in values if name not in new]
        had = {name for name, slot in slots.items() if slot.place and slot.value is not None}
        # In the order of the log, which sorts names: so what is late is listed as a replay would list it.
        changed = {name: values[name] for name in sorted(values) if name not in repeated}
        held = {name: value for name, value in changed.items() if metric(name).must_be_held(value)}
        late = self._append_values(state, reports, told_of._replace(values=changed), held)
        told = [name for name in values if name in changed and name not in held and name not in late]
        return Receipt(
            id=reports.decided.called,
            recorded=tuple(name for name in told if name not in had),
            corrected=tuple(name for name in told if name in had),
            repeated=tuple(repeated),
            late=tuple(late),
            held=tuple(held),
            clipped=tuple(name for name, value in changed.items() if metric(name).counted(value) != value),
            void=reports.void is not None,
        )

    def _append_values(self, state: State, reports: Reports, news: _Outcome, held: dict[str, float]) -> list[str]:
        """Append what is new, those apart that must be held; which of them are late."""
        late: list[str] = []
        reported = {name: value for name, value in news.values.items() if name not in held}
        for kind, values in ((Reported, reported), (Held, held)):
            if values:
                at = self.transaction.time(state)
                event = kind(at, reports.decided.id, values, news.observed_at, news.report)
                late += reports.at(self.append(state, event, reports)).late
        return late


class _Outcome(NamedTuple):
    """What somebody says of a decision; names of the report, and of the edge that has made the decision, if any."""

    id: str
    values: dict[str, float]
    observed_at: int | None
    report: str | None
    edge: str | None


def _check_edge(reports: Reports, edge: str | None) -> None:
    """Refuse an outcome of an edge where somebody else has made the decision of this id: of another arm, maybe."""
    made = reports.decided.edge
    if edge is not None and (made is None or made.name != edge):
        whose = "the service" if made is None else f"edge {made.name!r}"
        raise ConflictError(
            f"decision {reports.decided.called!r} was made by {whose}, and not by edge {edge!r}: give one visitor's "
            "ids to one edge."
        )


def _check_agreement(outcomes: Sequence[_Outcome]) -> None:
    """Refuse a batch that says two things of one metric of a decision.

    Sent again, since nobody heard the answer, the first of them would look like a correction of the second.
    """
    if len({one.id for one in outcomes}) == len(outcomes):
        return  # as nearly always
    said: dict[tuple[str, str], tuple[float, int | None]] = {}
    for id_, values, observed_at, *_ in outcomes:
        for name, value in values.items():
            before, at = said.get((id_, name), (value, observed_at))
            if before != value or (at is not None and observed_at is not None and at != observed_at):
                raise InvalidError(
                    f"the batch says two things about {name!r} of decision {id_!r}; report one value, and a correction "
                    "of it in another request."
                )
            said[id_, name] = value, observed_at if at is None else at


def _news(reports: Reports, told: _Outcome) -> list[str]:
    """Metrics of which something is said that is not known. What was sent again is known, even if it was corrected."""
    slots, at = reports.slots, told.observed_at
    if reports.has_heard(told.report):
        return []
    return [name for name, value in told.values.items() if name not in slots or not slots[name].knows(value, at)]


def _check_enrolling(state: State, decisions: int, at: int) -> None:
    """Refuse decisions that may not be made now."""
    reason = refusal(state, decisions, at)
    if reason is not None:
        raise ConflictError(f"experiment {state.experiment.id!r} {reason}")


def _asked_before(decided: Decided) -> Asked:
    return Asked(decided.context, decided.x, decided.names and decided.names.unit)


def assignment(decided: Decided) -> dict[str, Any]:
    """The entries of an :class:`Assignment`: what a caller is told of a decision."""
    made = decided.selection
    return {
        "id": decided.called,
        "arm": made.arm,
        "propensity": made.propensity,
        "active": made.active,
        "mode": made.mode,
        "policy_version": None if made.version is None else str(made.version),
        "probabilities": made.probabilities,
        "repeated": decided.repeats is not None,
    }


def same_context(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether two contexts say the same: 3 and 3.0 do, and so do null and nothing."""
    if one is other or one == other:  # as nearly always
        return True
    given = [{name: value for name, value in context.items() if value is not None} for context in (one, other)]
    return given[0] == given[1]


def decision_id(given: Any, *, generate: bool = True) -> str:
    """An id that a decision may have; if none is given, a new one."""
    if given is None and generate:
        return new_id()
    if not isinstance(given, str) or not DECISION_ID.fullmatch(given):
        raise InvalidError(f"id must be 1 to 128 printable ASCII characters without spaces; got {ascii(given)[:80]}.")
    return given


def some(requests: Sequence[Mapping[str, Any]], what: str) -> Sequence[Mapping[str, Any]]:
    """A batch that is neither empty nor too large."""
    if not 1 <= len(requests) <= MAX_AT_ONCE:
        raise InvalidError(f"{what} must have 1 to {MAX_AT_ONCE} entries; got {len(requests)}.")
    return requests
