"""Does the log keep to its safety rules and stages? Asked by ``verify``, event by event."""

from __future__ import annotations

from conebandit.service.log.choosing import refusal
from conebandit.service.log.entries import Entry
from conebandit.service.log.events import Decided, Stopped
from conebandit.service.log.state import State


class RuleChecks:
    """Looks on while a log is folded: each stop must follow from the state before it, and none may be missing.

    Parameters
    ----------
    after
        Position after which states are as they were when events were appended.

    Attributes
    ----------
    wrong
        What is wrong with an event, by its position.
    """

    def __init__(self, after: int = 0) -> None:
        self._after = after
        self._owed: Stopped | None = None  # what the state demands as the next event
        self.wrong: dict[int, str] = {}

    def before(self, state: State, entry: Entry) -> None:
        """Windows have closed by the time of an event, and what it does is still to come."""
        if entry.seq <= self._after:
            return
        event, due = entry.event, state.rules.due(state.at, state.arms)
        if isinstance(event, Stopped):
            if event != due:
                self.wrong[entry.seq] = f"rule {event.rule!a} has stopped, and from the state follows {due!r}"
        elif self._owed is not None:
            self.miss(entry.seq)
        elif isinstance(event, Decided):
            if due is not None:
                self.wrong[entry.seq] = f"rule {due.rule!a} should have stopped before this decision"
            elif event.edge is None and (reason := refusal(state, 1, state.at)) is not None:
                self.wrong[entry.seq] = f"there should be no decision: the experiment {reason.rstrip('.')}"

    def after(self, state: State) -> None:
        """An event was folded."""
        self._owed = state.rules.due(state.at, state.arms)

    def miss(self, seq: int) -> None:
        """The event at a position, if there is one, is not what the state before it demands."""
        if self._owed is not None and seq > self._after:
            self.wrong[seq] = f"rule {self._owed.rule!a} should have stopped here"
