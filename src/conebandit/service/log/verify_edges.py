"""What ``verify`` checks of edges: that states were published as they were, and each decision is one from its state."""

from __future__ import annotations

import shutil
import tempfile
import weakref
from array import array
from collections import OrderedDict
from collections.abc import Collection, Iterable
from pathlib import Path

from conebandit._version import __version__
from conebandit.service.log.entries import read_as
from conebandit.service.log.events import Decided, Published
from conebandit.service.log.published import PublishedState, published_check
from conebandit.service.log.state import State
from conebandit.service.stores.session import Session

MAX_IN_MEMORY = 16  # published states; the others are in files
MAX_ON_DISK = 4 << 30  # bytes of those; decisions from earlier ones are left out, unless every decision is wanted


class _Shelf:
    """Published states by position: the last ones that were asked for in memory, the others in files."""

    def __init__(self, most: float) -> None:
        self._most, self._size = most, 0
        self._folder: Path | None = None
        self._near: OrderedDict[int, PublishedState] = OrderedDict()
        self._far: dict[int, int] = {}  # bytes of their files

    def put(self, published: PublishedState) -> None:
        self._near[published.seq] = published
        self._near.move_to_end(published.seq)
        while len(self._near) > MAX_IN_MEMORY:
            seq, least = self._near.popitem(last=False)
            if seq not in self._far:
                self._size += self._path(seq).write_bytes(least.content)
                self._far[seq] = len(least.content)
        while self._size > self._most:
            seq = next(iter(self._far))
            self._path(seq).unlink()
            self._size -= self._far.pop(seq)

    def find(self, seq: int) -> PublishedState | None:
        if seq not in self._near:
            if seq not in self._far:
                return None
            self.put(PublishedState.read(self._path(seq).read_bytes()))
        self._near.move_to_end(seq)
        return self._near[seq]

    def drop(self, seq: int) -> None:
        """Another one will come in its place."""
        self._near.pop(seq, None)
        if seq in self._far:
            self._size -= self._far.pop(seq)

    def _path(self, seq: int) -> Path:
        if self._folder is None:  # most logs need none
            self._folder = Path(tempfile.mkdtemp())
            weakref.finalize(self, shutil.rmtree, self._folder, ignore_errors=True)
        return self._folder / str(seq)


class EdgesOfLog:
    """The states that were published in a log, and the decisions that were made from them.

    Parameters
    ----------
    session, experiment_id
        Where the log is.
    every
        Keep all states, however much room they take.

    Attributes
    ----------
    decided
        How many decisions there are.
    unchecked
        How many of them the service took on trust, since it could not make them again.
    foreign, erased, left_out
        Positions of those that another release has made, whose data are gone, or whose state was not kept.
    different
        What is wrong with a published state or a decision, by position.
    """

    def __init__(self, session: Session, experiment_id: str, *, every: bool) -> None:
        self._session, self._id = session, experiment_id
        self._states = _Shelf(float("inf") if every else MAX_ON_DISK)
        self._made: dict[int, array[int]] = {}  # positions of decisions, by that of their state
        self.decided = self.unchecked = 0
        self.foreign: set[int] = set()
        self.erased: set[int] = set()
        self.left_out: set[int] = set()
        self.different: dict[int, str] = {}

    def see_published(self, state: State, seq: int, event: Published, *, known: bool) -> None:
        """The next published state; whether it is ``known`` as it was then, or will be later."""
        self._made[seq] = array("q")
        if known and event.library == __version__:
            self._keep(state, seq, event)

    def _keep(self, state: State, seq: int, event: Published) -> None:
        check = published_check(state)
        if check != event.check:
            self.different[seq] = f"check is {event.check!r} in the log and {check!r} from the state"
        self._states.put(PublishedState.of(state, seq, event.at))

    def see_decided(self, seq: int, decided: Decided) -> None:
        """The next decision that was made at an edge."""
        assert decided.edge is not None  # such were asked for
        self.decided += 1
        self.unchecked += decided.edge.unchecked
        made = self._made.get(decided.edge.state)
        if made is None:
            self.different[seq] = f"it is said to be made from a state published at event {decided.edge.state}"
            return
        made.append(seq)
        self._decide_again(seq, decided)

    def _decide_again(self, seq: int, decided: Decided) -> None:
        edge, logged = decided.edge, decided.selection
        assert edge is not None  # as above
        if decided.erased:
            self.erased.add(seq)
            return
        if logged.version is not None and logged.version.library != __version__:
            self.foreign.add(seq)
            return
        state = self._states.find(edge.state)
        if state is None:
            self.left_out.add(seq)
            return
        self.left_out.discard(seq)
        x = state.state.experiment.coordinates(decided.context)
        again = state.baseline if edge.stale else state.decide([x], [decided.id])[0]
        was, is_ = logged.to_body(), again.to_body()
        if was != is_:
            name = next(name for name in is_ if was[name] != is_[name])
            self.different[seq] = f"{name} is {was[name]!r} in the log and {is_[name]!r} from the published state"

    def again(self, state: State, seq: int, event: Published) -> None:
        """A state as it was when it was published, before the log was revised: what was made from it is made again."""
        if event.library != __version__:
            return
        self._states.drop(seq)
        self.forget([seq])
        self._keep(state, seq, event)
        for position in self._made[seq]:
            [record] = self._session.events(self._id, position - 1, position)
            self._decide_again(position, read_as(Decided, record))

    def forget(self, states: Iterable[int]) -> None:
        """What was found of some states, and of decisions from them, rests on something else than they did."""
        for seq in states:
            for position in (seq, *self._made.get(seq, ())):
                self.different.pop(position, None)

    def made_from(self, states: Collection[int]) -> set[int]:
        """Positions of the decisions that were made from some published states."""
        return {position for seq in states for position in self._made.get(seq, ())}
