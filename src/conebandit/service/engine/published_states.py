"""The published states that a process has seen, to compare the decisions of edges with."""

from __future__ import annotations

import threading

from conebandit.service.log.entries import Entry
from conebandit.service.log.events import Published
from conebandit.service.log.published import PublishedState
from conebandit.service.log.reports import Reports
from conebandit.service.log.state import State

MAX_KEPT, MAX_BYTES = 32, 64 << 20  # of an experiment, in memory; at least the last one


class PublishedStates:
    """Published states that this process has seen, to compare decisions with; the last few of each experiment.

    Threads may share it. It also looks on while logs are folded, so that a process knows what others have published.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: dict[str, list[PublishedState]] = {}

    def keep(self, published: PublishedState) -> None:
        """Keep a state, and let earlier ones go for it."""
        with self._lock:
            kept = self._kept.setdefault(published.state.experiment.id, [])
            kept[:] = [*[one for one in kept if one.seq != published.seq][1 - MAX_KEPT :], published]
            while len(kept) > 1 and sum(one.size for one in kept) > MAX_BYTES:
                del kept[0]

    def find(self, experiment_id: str, seq: int, check: str) -> PublishedState | None:
        """The state that was published at a position, if it is here."""
        with self._lock:
            kept = self._kept.get(experiment_id, [])
            return next((one for one in reversed(kept) if (one.seq, one.check) == (seq, check)), None)

    def before(self, state: State, entry: Entry) -> None:
        """See :class:`~conebandit.service.log.replay.Watch`."""

    def after(self, state: State, entry: Entry, reports: Reports | None) -> None:
        """Keep what somebody else has published."""
        if isinstance(entry.event, Published):
            self.keep(PublishedState.of(state, entry.seq, entry.event.at))
