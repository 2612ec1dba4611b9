"""What every part of a turn has."""

from __future__ import annotations

from conebandit.service.engine.transaction import Transaction
from conebandit.service.log.events import By, Event
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

    def append(self, state: State, event: Event, reports: Reports | None = None) -> None:
        """Fold an event now; it is written before the commit."""
        self.transaction.append(state, event, reports, self.by)
