"""Is what was served what the log says? The state is computed anew, and compared with all that was kept of the old one.

A process that serves folds each event once, as it comes, catches up with others, and folds anew when a value is
corrected. Here the whole log is read once, from its first event. Three things tell whether both lead to the same state:
every decision in the log, which is a function of the state that it was made in; every snapshot; and, if one is asked, a
process that is serving.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from dataclasses import dataclass, field
from typing import Any

from conebandit._version import __version__
from conebandit.service.errors import CorruptionError, NotFoundError
from conebandit.service.events import ARM_KINDS, Event
from conebandit.service.state import OtherVersionError, Reports, State, rebuild
from conebandit.service.store import Head, Session

MOST_PROBLEMS = 10


@dataclass(frozen=True)
class Verification:
    """What was found.

    Attributes
    ----------
    id
        Of the experiment.
    events
        How many there are; each matches its seal.
    state
        Checksum of the state that they lead to.
    decisions
        How many there are.
    recomputed
        How many of them could be made again, and were. The others were made in a state that is no more, since a value
        was corrected or an arm was added or retired later, or by another version of the library.
    snapshots
        How many were compared; those of other versions of the library are not used, and not compared.
    problems
        What does not agree, in words; at most ten.
    """

    id: str
    events: int
    state: str
    decisions: int
    recomputed: int
    snapshots: int
    problems: tuple[str, ...]

    @property
    def agrees(self) -> bool:
        """Whether everything does."""
        return not self.problems


def verify(session: Session, experiment_id: str, served: dict[str, Any] | None = None) -> Verification:
    """Compute the state anew from the first event, and compare it with what was served.

    Parameters
    ----------
    session
        A look at the store.
    experiment_id
        Which one.
    served
        What a process that is serving says of its state (``GET .../state``); the log is then read up to there.

    Raises
    ------
    CorruptionError
        If the log is not what was written.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from conebandit.service.server import serving
    >>> from conebandit.service.client import Client
    >>> from conebandit.service.store import open_store
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = str(pathlib.Path(folder) / "log.db")
    ...     with serving(path) as address, Client(address) as client:
    ...         _ = client.create({"id": "e", "arms": ["old", "new"], "metrics": [{"name": "clicks"}]})
    ...         _ = client.decide_many("e", [{}] * 5)
    ...     store = open_store(path)
    ...     with store.read() as session:
    ...         report = verify(session, "e")
    ...     store.close()
    >>> report.events, report.recomputed, report.agrees
    (6, 5, True)
    """
    session.check_database()
    head = session.head(experiment_id)
    if head is None:
        raise NotFoundError(f"there is no experiment {experiment_id!a}.")
    if served is not None:
        head = Head(served["events"], served["check"])
    watch = _Watch(session, experiment_id, head)
    state = rebuild(session, experiment_id, head, snapshots=False, watch=watch)
    digest = state.digest()
    problems = watch.problems()
    if served is not None and served["state"] != digest:
        problems.insert(0, f"the service has state {served['state']}, and the log leads to {digest}.")
    return Verification(
        id=experiment_id,
        events=head.seq,
        state=digest,
        decisions=len(watch.decided),
        recomputed=len(watch.decided) - watch.skipped(),
        snapshots=watch.compared,
        problems=tuple(problems[:MOST_PROBLEMS]),
    )


@dataclass
class _Watch:
    """Looks on while the log is folded, and compares."""

    session: Session
    experiment_id: str
    head: Head
    decided: array[int] = field(default_factory=lambda: array("q"))  # positions
    compared: int = 0

    def __post_init__(self) -> None:
        self._snapshots = set(self.session.snapshots(self.experiment_id))
        self._last_change = self.session.of_kinds(self.experiment_id, ARM_KINDS, self.head.seq)[-1].seq
        self._rewritten: list[tuple[int, int]] = [(0, self._last_change)]  # states between these are no more
        self._different: dict[int, str] = {}  # decisions that come out otherwise
        self._foreign: set[int] = set()  # made by another version
        self._problems: list[str] = []

    def __call__(self, state: State, event: Event, reports: Reports | None) -> None:
        if event.kind == "decided":
            self.decided.append(event.seq)
            if event.seq > self._last_change:
                self._decide_again(state, event)
        elif reports is not None and (first := reports.at(event.seq).corrects):
            self._rewritten.append((first, event.seq))
        if event.seq in self._snapshots:
            self._compare(state, event.seq)

    def _decide_again(self, state: State, event: Event) -> None:
        body = event.body
        if body["version"] is not None and body["version"].split("-")[1:-1] != __version__.split("-"):
            self._foreign.add(event.seq)
            return
        again = state.choose(state.experiment.encode(body["context"]), body["id"])
        names = [name for name, value in again.items() if body[name] != value]
        if names and len(self._different) < 10_000:
            name = names[0]
            self._different[event.seq] = f"{name} is {body[name]!r} in the log and {again[name]!r} from the state"

    def _compare(self, state: State, seq: int) -> None:
        try:
            kept = State.from_parts(state.experiment, self.session.snapshot(self.experiment_id, seq))
        except OtherVersionError:
            return
        except (CorruptionError, ValueError, KeyError, TypeError):
            self._problems.append(f"the snapshot at event {seq} is damaged (it is not used, and may be deleted).")
            return
        self.compared += 1
        if kept.digest() != state.digest():
            self._problems.append(f"the snapshot at event {seq} is not the state that the log leads to.")

    def problems(self) -> list[str]:
        different = [seq for seq in self._different if not any(a < seq <= b for a, b in self._rewritten)]
        return self._problems + [f"decision at event {seq}: {self._different[seq]}." for seq in different]

    def skipped(self) -> int:
        """How many decisions were made in a state that is no more, or by others."""
        count, reached = len(self._foreign), 0
        for first, last in sorted(self._rewritten):
            start, reached = max(first, reached), max(last, reached)
            count += max(bisect_right(self.decided, last) - bisect_left(self.decided, start + 1), 0)
        return count
