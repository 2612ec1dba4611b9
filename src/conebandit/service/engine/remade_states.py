"""Published states that a process has not seen, or has let go, made again from the log: so every decision is checked.

An edge that was away, or a service that was started anew, has decisions from states of long ago. The fold up to there
is the state, if its checksum is the one that was published. It begins at a snapshot, if one will do.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from typing import NamedTuple

from conebandit._version import __version__
from conebandit.service.engine.published_states import PublishedStates
from conebandit.service.errors import CorruptionError, NotYetError
from conebandit.service.log.events import Published
from conebandit.service.log.published import PublishedState
from conebandit.service.log.replay import fold_page, start, view_at
from conebandit.service.log.state import State
from conebandit.service.stores.base import Store
from conebandit.service.stores.records import Head

AT_ONCE = 100  # events between pauses of as long as they took: decisions in this process come first
MAX_PAUSE = 0.02  # seconds
MAX_TIME = 4.0  # seconds of work for one request; the next one goes on from there
MAX_FOLDS = 4  # that wait to go on
MAX_IMPOSSIBLE = 1000  # states of which it is known that they cannot be made


class _Fold(NamedTuple):
    """A state on its way to where another one was published, and whether it has read the log from its first event."""

    state: State
    whole: bool


class RemadeStates:
    """Makes published states again, one at a time, in the thread of whoever asks; the last few are kept.

    Parameters
    ----------
    store
        Where the logs are.
    """

    def __init__(self, store: Store) -> None:
        self._store, self._kept, self._making = store, PublishedStates(), threading.Lock()
        self._folds: OrderedDict[tuple[str, int], _Fold] = (
            OrderedDict()
        )  # by experiment, and where they go; 0: nowhere yet
        self._impossible: OrderedDict[tuple[str, int, str], None] = OrderedDict()
        self.find = self._kept.find

    def make(self, experiment_id: str, head: Head, event: Published) -> PublishedState | None:
        """The state that an event at a head has published.

        None if nobody can make it again: another release has made it, or it rests on data that were erased.

        Raises
        ------
        NotYetError
            If somebody else is at it, or it takes longer; what is done is kept, so that the next one goes on from it.
        """
        seq, key = head.seq, (experiment_id, head.seq, event.check)
        if event.library != __version__ or key in self._impossible:
            return None
        if not self._making.acquire(blocking=False):
            raise _being_made(seq)
        try:
            found = self._kept.find(*key) or self._make(experiment_id, head, event)
            if found is None:
                self._impossible[key] = None
                while len(self._impossible) > MAX_IMPOSSIBLE:
                    self._impossible.popitem(last=False)
            return found
        finally:
            self._making.release()

    def _make(self, experiment_id: str, head: Head, event: Published) -> PublishedState | None:
        key, end = (experiment_id, head.seq), time.monotonic() + MAX_TIME
        fold = self._folds.pop(key, None) or self._begin(experiment_id, head.seq, whole=False)
        while True:
            if not self._go_on(fold, head, end):
                self._put_by(key, fold)
                raise _being_made(head.seq)
            published = PublishedState.of(fold.state, head.seq, event.at)
            if published.check == event.check:
                self._kept.keep(published)
                self._put_by((experiment_id, 0), fold)  # an edge sends its decisions in order: the next state is near
                return published
            if fold.whole:
                return None
            fold = self._begin(experiment_id, head.seq, whole=True)  # the snapshot knew of corrections that came later

    def _put_by(self, key: tuple[str, int], fold: _Fold) -> None:
        self._folds[key] = fold
        while len(self._folds) > MAX_FOLDS:
            self._folds.popitem(last=False)

    def _begin(self, experiment_id: str, seq: int, *, whole: bool) -> _Fold:
        """A state to go on from: the last one that was made, or a snapshot, or the beginning of the log."""
        with self._store.read() as session:
            view = view_at(session, experiment_id, seq)
            last = None if whole else self._folds.pop((experiment_id, 0), None)
            if last is not None and last.state.head.seq <= seq and last.state.view == view and not last.state.stale:
                return last
            state = start(session, experiment_id, view, before=0 if whole else seq)
        return _Fold(state, whole or not state.last_snapshot)

    def _go_on(self, fold: _Fold, head: Head, end: float) -> bool:
        """Fold until a head is reached, or it can not be; False if the time is over before."""
        state = fold.state
        while state.head.seq < head.seq and not state.stale:
            began = time.monotonic()
            if began >= end:
                return False
            try:
                with self._store.read() as session:
                    fold_page(session, state, head, limit=AT_ONCE)
            except CorruptionError:
                if fold.whole:
                    raise
                return True  # where it began is not where it should have
            time.sleep(min(time.monotonic() - began, MAX_PAUSE))
        return True


def _being_made(seq: int) -> NotYetError:
    return NotYetError(
        f"the state that was published at event {seq} is being made again, to check decisions with; try again."
    )
