"""Forgetting units: their personal data are removed from the store, and the policy learns anew without them."""

from __future__ import annotations

from typing import Any

from conebandit.experiment import entries
from conebandit.experiment.units import as_unit
from conebandit.service.engine.batches import Batch
from conebandit.service.engine.parts import Part
from conebandit.service.errors import BusyError, ConflictError
from conebandit.service.log.events import Erased
from conebandit.service.log.replay import erased_units
from conebandit.service.log.state import State
from conebandit.service.replies import Erasure
from conebandit.service.stores.personal import UNIT

MAX_REASON = 200  # characters


class Erasures(Part):
    """What makes an experiment forget."""

    def erase(self, experiment_id: str, unit: Any, reason: Any) -> Erasure:
        """Forget a unit that callers call so. If nothing is known of it, as when this is asked again: a no-op.

        Its names are forgotten at once. The rest is removed with the next revision: until then, states rest on it.
        """
        state = self._with_units(experiment_id)
        name = as_unit(unit, state.experiment.units) or ""
        self._find_uploads(experiment_id, name)
        alias = self.transaction.session.aliases(experiment_id, UNIT, [name]).get(name)
        return self._erase(state, alias, _reason(reason))

    def _find_uploads(self, experiment_id: str, name: str) -> None:
        """Have what edges have sent about a unit in the log, and what could not be put into it forgotten."""
        session = self.transaction.session
        if self.take_uploads(experiment_id) and session.uploads(experiment_id, 1):
            raise BusyError("decisions of edges are still being put into the log; try again.")
        for row in session.uploads_aside(experiment_id):
            batch, by = Batch.from_text(row.content)
            kept = {id_: one for id_, one in batch.decisions.items() if one.unit != name}
            if not kept:
                session.end_uploads(experiment_id, [row])
            elif len(kept) < len(batch.decisions):
                session.replace_upload(experiment_id, row._replace(content=Batch(batch.since, kept, []).to_text(by)))

    def erase_alias(self, experiment_id: str, alias: str, reason: Any) -> Erasure:
        """Forget a unit that the log calls so, as when a backup was restored; a no-op if it is gone already."""
        state = self._with_units(experiment_id)
        self.transaction.write(experiment_id)
        done = alias in erased_units(self.transaction.session, experiment_id, state.head.seq)
        return self._erase(state, None if done else alias, _reason(reason))

    def _with_units(self, experiment_id: str) -> State:
        state = self.transaction.state(experiment_id)
        if state.experiment.units is None:
            raise ConflictError(
                f"experiment {experiment_id!r} has no units: its log holds contexts and ids for good. Declare "
                "unit = {} when an experiment begins whose data may have to be erased."
            )
        return state

    def _erase(self, state: State, alias: str | None, reason: str) -> Erasure:
        session, experiment_id = self.transaction.session, state.experiment.id
        count, first = (0, 0) if alias is None else session.decisions_of_unit(experiment_id, alias)
        if alias is None or not count:
            return Erasure(experiment_id, None, 0, None, reason)
        at = self.transaction.time(state)
        self.append(state, Erased(at, alias, count, first, reason))
        session.release_names(experiment_id, alias)
        return Erasure(experiment_id, alias, count, at, reason)


def _reason(given: Any) -> str:
    return entries.text(given, "reason", most=MAX_REASON)
