"""What every part of a turn has."""

from __future__ import annotations

from collections.abc import Iterable

from conebandit.service.engine.transaction import Transaction
from conebandit.service.engine.units import Door
from conebandit.service.errors import BusyError, ConflictError, NotFoundError
from conebandit.service.log.entries import By
from conebandit.service.log.events import Event
from conebandit.service.log.reports import Reports
from conebandit.service.log.state import State


class Part:
    """Some of what can be asked of experiments in one transaction. A request is refused before it has changed anything.

    Parameters
    ----------
    transaction
        Where states are found and events go.
    by
        Who asks; it is kept with every event.
    """

    def __init__(self, transaction: Transaction, by: By | None = None) -> None:
        self.transaction = transaction
        self.by = by

    def append(self, state: State, event: Event, reports: Reports | None = None) -> int:
        """Fold an event now; it is written before the commit. Returns its position."""
        return self.transaction.append(state, event, reports, self.by)

    def take_uploads(self, experiment_id: str) -> int:
        """Put some of what edges have uploaded into the log; how many batches it were."""
        raise NotImplementedError

    def refuse_if_ended(self, state: State) -> None:
        """Nothing of an experiment that has ended can be changed."""
        if state.stage == "ended":
            raise ConflictError(f"experiment {state.experiment.id!r} has ended: nothing of it can be changed.")

    def reports(self, state: State, ids: Iterable[str]) -> dict[str, Reports]:
        """All that is known of some decisions, by the ids of callers; a ``NotFoundError`` if one was never made."""
        wanted = list(dict.fromkeys(ids))
        found = Door(self.transaction, state).reports(wanted)
        if len(found) < len(wanted) and self.take_uploads(state.experiment.id):  # an edge may have made them
            found = Door(self.transaction, state).reports(wanted)
            if len(found) < len(wanted) and self.transaction.session.next_upload(state.experiment.id):
                raise BusyError("decisions of edges are still being put into the log; try again.")
        for id_ in wanted:
            if id_ not in found:
                erased = "" if state.experiment.units is None else ", or it was erased"
                raise NotFoundError(f"there is no decision {id_!r} in experiment {state.experiment.id!r}{erased}.")
        return found
