"""What somebody says about the log afterwards: values that are not true, decisions that do not count, other contexts.

Nothing is changed or removed: each word is an event with a reason, and counts from the next revision on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from conebandit.experiment import entries
from conebandit.experiment.errors import InvalidError
from conebandit.service.engine.parts import Part
from conebandit.service.engine.repair import MAX_REASON
from conebandit.service.engine.traffic import decision_id, same_context, some
from conebandit.service.errors import ConflictError
from conebandit.service.log.bodies import VERDICTS
from conebandit.service.log.events import ContextCorrected, Retracted, Reviewed, Voided
from conebandit.service.log.reports import Reports, Slot
from conebandit.service.log.state import State
from conebandit.service.replies import Amendment

Request = Mapping[str, Any]
Requests = Sequence[Request]
Change = Reviewed | Retracted | Voided | ContextCorrected


class Amendments(Part):
    """Reviews, retractions, voids and corrected contexts. What is so already stays as it is: all can be repeated."""

    def review(self, experiment_id: str, requests: Requests) -> list[Amendment]:
        """Release or reject values on hold, ``{"id", "values", "verdict", "reason"}``; all or none.

        Values are given as they were seen: by now another one may be on hold, which nobody has looked at.
        """
        return self._amend(experiment_id, requests, self._reviewed)

    def retract(self, experiment_id: str, requests: Requests) -> list[Amendment]:
        """Take back what was reported, ``{"id", "metrics", "reason"}``; all or none."""
        return self._amend(experiment_id, requests, self._retracted)

    def void(self, experiment_id: str, requests: Requests) -> list[Amendment]:
        """Learn nothing from decisions, ``{"id", "void", "reason"}``, or again if ``void`` is false; all or none."""
        return self._amend(experiment_id, requests, self._voided)

    def correct_context(self, experiment_id: str, requests: Requests) -> list[Amendment]:
        """Learn from decisions in another context, ``{"id", "context", "reason"}``; all or none."""
        return self._amend(experiment_id, requests, self._context_corrected)

    def _amend(
        self, experiment_id: str, requests: Requests, read: Callable[[int, State, Reports, Request], Change | None]
    ) -> list[Amendment]:
        """Have each request read, then append what it leads to: None if it is so already."""
        state = self.transaction.state(experiment_id)
        ids = [decision_id(request.get("id"), generate=False) for request in some(requests, "the batch")]
        if len(set(ids)) < len(ids):
            twice = next(id_ for id_ in ids if ids.count(id_) > 1)
            raise InvalidError(f"decision {twice!r} is there twice; name each decision once in a request.")
        at, reports = self.transaction.time(state), self.reports(state, ids)
        changes = [read(at, state, reports[id_], request) for id_, request in zip(ids, requests, strict=True)]
        if any(change is not None for change in changes):
            self.refuse_if_ended(state)
        for id_, change in zip(ids, changes, strict=True):
            if change is not None:
                self.append(state, change, reports[id_])
        return [Amendment(id_, change is not None) for id_, change in zip(ids, changes, strict=True)]

    def _reviewed(self, at: int, state: State, reports: Reports, request: Request) -> Change | None:
        verdict = entries.one_of(request.get("verdict"), VERDICTS, "verdict")
        reason, seen = _reason(request), request.get("values")
        if not isinstance(seen, Mapping) or not seen:
            raise InvalidError("values must be a table of one or more metrics, with the values that are on hold.")
        values = {name: state.experiment.check_value(name, value) for name, value in sorted(seen.items())}
        open_ = {}
        for name, value in values.items():
            slot = reports.slots.get(name, Slot())
            if slot.held is not None and slot.held == value:
                open_[name] = value
            elif slot.held is not None or value != (slot.value if verdict == "release" else slot.rejected):
                there = "nothing is" if slot.held is None else f"{slot.held!r} is"
                raise ConflictError(f"{value!r} of {name!r} is not on hold for {reports.decided.called!r}: {there}.")
        return Reviewed(at, reports.decided.id, open_, verdict, reason) if open_ else None

    def _retracted(self, at: int, state: State, reports: Reports, request: Request) -> Change | None:
        reason = _reason(request)
        names = entries.names(request.get("metrics"), "metrics", most=len(state.experiment.metrics))
        there = []
        for name in sorted(names):
            if name not in state.experiment.metric_index:
                known = ", ".join(state.experiment.metric_index)
                raise InvalidError(f"metrics: there is no metric {name!r}; this experiment has {known}.")
            slot = reports.slots.get(name, Slot())
            if slot.value is not None or slot.held is not None:
                there.append(name)
            elif not slot.retracted:
                raise ConflictError(
                    f"decision {reports.decided.called!r} has no value of {name!r} that could be retracted."
                )
        return Retracted(at, reports.decided.id, tuple(there), reason) if there else None

    def _voided(self, at: int, _: State, reports: Reports, request: Request) -> Change | None:
        reason, void = _reason(request), request.get("void", True)
        if not isinstance(void, bool):
            raise InvalidError(f"void must be true or false; got {entries.short(void)}.")
        return None if (reports.void is not None) == void else Voided(at, reports.decided.id, void, reason)

    def _context_corrected(self, at: int, state: State, reports: Reports, request: Request) -> Change | None:
        reason, context = _reason(request), entries.table(request.get("context"), "context")
        x = state.experiment.encode(context)
        if same_context(context, reports.context):
            return None
        return ContextCorrected(at, reports.decided.id, context, tuple(x.tolist()), reason)


def _reason(request: Request) -> str:
    return entries.text(request.get("reason"), "reason", most=MAX_REASON)
