"""Decisions and outcomes."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from conebandit.experiment.errors import InvalidError
from conebandit.service.engine.parts import Part
from conebandit.service.errors import ConflictError, NotFoundError
from conebandit.service.log.choosing import choose
from conebandit.service.log.events import Decided, Reported
from conebandit.service.log.reports import Reports
from conebandit.service.log.state import State
from conebandit.service.replies import Assignment, Receipt
from conebandit.service.stores.records import new_id
from conebandit.validate.arrays import FloatArray

MAX_AT_ONCE = 1000  # decisions or outcomes in one request
DECISION_ID = re.compile(r"[\x21-\x7e]{1,128}")


class Traffic(Part):
    """What comes with every visitor or patient."""

    def decide(self, experiment_id: str, requests: Sequence[Mapping[str, Any]]) -> list[Assignment]:
        """An arm for each request ``{"id", "context"}``; all or none. An id that was there before gets its answer."""
        state = self.transaction.state(experiment_id)
        ids = [_decision_id(request.get("id")) for request in _some(requests, "decisions")]
        given = [id_ for id_, request in zip(ids, requests, strict=True) if request.get("id") is not None]
        found = self.transaction.decided(experiment_id, given)
        contexts = {id_: decided.context for id_, decided in found.items()}
        new: dict[str, FloatArray] = {}
        for id_, request in zip(ids, requests, strict=True):
            context = dict(request.get("context") or {})
            x = state.experiment.encode(context)
            if id_ not in contexts:
                contexts[id_], new[id_] = context, x
            elif not _same(contexts[id_], context):
                raise ConflictError(f"decision {id_!r} was asked for with another context before; use a new id.")
        if new:
            found |= self._decide_new(state, {id_: (contexts[id_], x) for id_, x in new.items()})
        return [_assignment(found[id_]) for id_ in ids]

    def _decide_new(self, state: State, new: dict[str, tuple[dict[str, Any], FloatArray]]) -> dict[str, Decided]:
        """Decide in some contexts, by id: as they were given, and encoded."""
        at = self.transaction.time(state)
        if state.mode != "off":
            self.transaction.close_windows(state)
        made = {}
        for id_, (context, x) in new.items():
            made[id_] = Decided(at, id_, context, tuple(x.tolist()), choose(state, x, id_))
            self.append(state, made[id_])
        return made

    def report(self, experiment_id: str, requests: Sequence[Mapping[str, Any]]) -> list[Receipt]:
        """Record outcomes ``{"id", "values"}``; all or none."""
        state = self.transaction.state(experiment_id)
        outcomes = []
        for request in _some(requests, "outcomes"):
            values = request.get("values")
            if not isinstance(values, Mapping) or not values:
                raise InvalidError("values must be a table of one or more metrics.")
            checked = {name: state.experiment.check_value(name, value) for name, value in values.items()}
            outcomes.append((_decision_id(request.get("id"), generate=False), checked))
        ids = list({id_ for id_, _ in outcomes})
        reports = self.transaction.reports(state, ids)
        missing = set(ids) - set(reports)
        if missing:
            raise NotFoundError(f"there is no decision {min(missing)!r} in experiment {experiment_id!r}.")
        return [self._report_one(state, id_, values, reports[id_]) for id_, values in outcomes]

    def _report_one(self, state: State, id_: str, values: dict[str, float], reports: Reports) -> Receipt:
        before = dict(reports.values)
        changed = {name: value for name, value in values.items() if before.get(name) != value}
        late: list[str] = []
        if changed:
            # In the order of the log, which sorts names: so what is late is listed as a replay would list it.
            event = Reported(self.transaction.time(state), id_, dict(sorted(changed.items())))
            self.append(state, event, reports)
            late = reports.at(state.head.seq).late
        return Receipt(
            id=id_,
            recorded=tuple(name for name in changed if name not in before and name not in late),
            corrected=tuple(name for name in changed if name in before and name not in late),
            repeated=tuple(name for name in values if name not in changed),
            late=tuple(late),
        )


def _assignment(decided: Decided) -> Assignment:
    made = decided.selection
    version = None if made.version is None else str(made.version)
    return Assignment(decided.id, made.arm, made.propensity, made.active, made.mode, version, made.probabilities)


def _same(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether two contexts say the same: 3 and 3.0 do, and so do null and nothing."""
    given = [{name: value for name, value in context.items() if value is not None} for context in (one, other)]
    return given[0] == given[1]


def _decision_id(given: Any, *, generate: bool = True) -> str:
    if given is None and generate:
        return new_id()
    if not isinstance(given, str) or not DECISION_ID.fullmatch(given):
        raise InvalidError(f"id must be 1 to 128 printable ASCII characters without spaces; got {ascii(given)[:80]}.")
    return given


def _some(requests: Sequence[Mapping[str, Any]], what: str) -> Sequence[Mapping[str, Any]]:
    if not 1 <= len(requests) <= MAX_AT_ONCE:
        raise InvalidError(f"{what} must have 1 to {MAX_AT_ONCE} entries; got {len(requests)}.")
    return requests
