"""Snapshots on their way into the store, a part in each turn, so that no decision waits for the whole of one."""

from __future__ import annotations

import logging
import threading
import weakref
from collections.abc import Iterator

from conebandit.service.log.state import State, in_parts, saved
from conebandit.service.stores.base import Session

log = logging.getLogger("conebandit.service")


class Pending:
    """A snapshot that is being made: the state is copied now, written to a file by a thread, and then to the store.

    If a correction or a change of arms makes it untrue meanwhile, in this process or in another one, its head is
    dropped from the store, and the rest is not written.

    Parameters
    ----------
    state
        As it is now.
    """

    def __init__(self, state: State) -> None:
        self.experiment_id, self.seq = state.experiment.id, state.head.seq
        self._number = 0
        self._parts: Iterator[bytes] | None = None
        self._header, self._policy = state.header(), state.policy.copy()
        self._thread = threading.Thread(target=self._write_file, name="conebandit-snapshot", daemon=True)
        self._thread.start()

    def _write_file(self) -> None:
        try:
            file = saved(self._policy)
        except (OSError, ValueError):
            log.exception("%s: no snapshot at event %d", self.experiment_id, self.seq)
        else:
            weakref.finalize(self, file.close)  # should nobody want it any more
            self._parts = in_parts(self._header, file)
        del self._policy

    def step(self, session: Session) -> bool:
        """Write a part, if one is ready; True if there is nothing more to do."""
        if self._thread.is_alive():
            return False
        part = None if self._parts is None else next(self._parts, None)
        if part is None and self._number:
            session.complete_snapshot(self.experiment_id, self.seq)
        elif part is None:
            session.drop_snapshots(self.experiment_id, self.seq, self.seq)
        elif session.add_snapshot_part(self.experiment_id, self.seq, self._number, part):
            self._number += 1
            return False
        return True
