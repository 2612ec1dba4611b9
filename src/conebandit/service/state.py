"""The state of an experiment: a fold over its log, and nothing else."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterator
from hashlib import blake2b
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from conebandit._validate import FloatArray
from conebandit._version import __version__
from conebandit.service.errors import CorruptionError
from conebandit.service.events import ARM_KINDS, START, Event, canonical
from conebandit.service.experiment import Experiment, Mode
from conebandit.service.registry import Served, load_policy, make_policy
from conebandit.service.store import Head, Session
from conebandit.service.windows import Windows, deadline

PART = 1 << 20  # bytes of a snapshot that are handled at once


class OtherVersionError(Exception):
    """A snapshot was made by another version of the library, which may have computed something else."""


class State:
    """What the log up to ``head`` says.

    The policy knows the arms that can be served now: when an arm is added or retired, what it knows is folded anew
    from the log over the arms that are left. What is reported is learned at once, one metric or several; a value that
    was corrected later is learned as if the last value had been the first. So both need the log again, and the state is
    ``stale`` until :func:`rebuild` has been there.

    Attributes
    ----------
    head
        The last event that was folded.
    at
        Its time, in milliseconds since 1970; never decreases.
    version
        Position of the last event that changed what the policy knows.
    stale
        Whether the policy must be folded anew from the log before it is asked.
    kept
        Position of the last snapshot that is known to be in the store.
    """

    def __init__(self, experiment: Experiment, arms: dict[str, bool]) -> None:
        self.experiment = experiment
        self.arms = arms  # name to whether it can be served
        self.mode: Mode = experiment.mode
        self.head = Head(0, START)
        self.at = 0
        self.version = 0
        self.stale = False
        self.kept = 0
        self._index = {name: k for k, name in enumerate(self.served)}
        self.policy: Served = make_policy(experiment, len(self._index))
        self._windows = Windows(experiment)

    @property
    def served(self) -> tuple[str, ...]:
        """The arms that can be served, in the order of the policy's indices."""
        return tuple(name for name, active in self.arms.items() if active)

    # ---- folding ------------------------------------------------------------------------------------------------

    def fold(self, event: Event, session: Session, reports: Reports | None = None, *, settled: bool = False) -> None:
        """Take in the next event.

        Parameters
        ----------
        event
            It follows on ``head``.
        session
            For decisions whose windows close by it.
        reports
            For a report: all those on its decision, up to the position for which the state is wanted.
        settled
            Rebuilding: arms are those of that position, and ``reports`` has the corrections up to there.
        """
        body = event.body
        self.head, self.at = Head(event.seq, event.check), body["at"]
        if event.kind == "mode_changed":
            self.mode = body["mode"]
        elif event.kind in ("arm_added", "arm_retired") and not settled:
            self.arms[body["arm"]] = event.kind == "arm_added"
        if self.stale:
            return
        self.close_windows(self.at, event.seq, session)
        if event.kind == "decided":
            self._windows.add(event.seq, body)
        elif reports is not None:
            self._learn_report(event, reports, settled=settled)
        elif event.kind in ("arm_added", "arm_retired"):
            self._change(event.seq, settled=settled)

    def close_windows(self, at: int, seq: int, session: Session) -> None:
        """Count the defaults of windows that closed before ``at``; event ``seq`` is why we look."""
        for closing in self._windows.close(at, session):
            default = self.experiment.metrics[closing.metric].default
            assert default is not None  # only such metrics wait
            self._learn(closing.arm, closing.x, {closing.metric: default}, seq)

    def _change(self, seq: int, *, settled: bool) -> None:
        """What was learned before this event is not what should have been learned."""
        self.version = seq
        self.stale = not settled

    def _learn_report(self, event: Event, reports: Reports, *, settled: bool) -> None:
        report = reports.at(event.seq)
        if report.corrects:
            self._change(event.seq, settled=settled)
        if report.counts and not self.stale:
            values = {self.experiment.metric_index[name]: value for name, value in report.counts.items()}
            self._learn(reports.decided["arm"], reports.decided["x"], values, event.seq)

    def _learn(self, arm: str, x: list[float], values: dict[int, float], seq: int) -> None:
        if arm not in self._index:
            return  # retired; its data stay in the log
        reward = np.full(len(self.experiment.metrics), np.nan)
        for m, value in values.items():
            reward[m] = self.experiment.metrics[m].reward(value)
        self.policy.observe(np.array(x), self._index[arm], reward)
        self.version = seq

    # ---- deciding -----------------------------------------------------------------------------------------------

    def choose(self, x: FloatArray, key: str) -> dict[str, Any]:
        """Arm, propensity and what led to them, as it is written into the log."""
        baseline = self.experiment.baseline
        served = {"mode": self.mode, "arm": baseline, "propensity": 1.0}
        if self.mode == "off":
            return {**served, "active": [baseline], "choice": None, "version": None}
        decision, names = self.policy.decide(x, key), self.served
        choice = {"arm": names[decision.arm], "propensity": decision.propensity}
        return {
            **served,
            **(choice if self.mode == "live" else {}),
            "active": [names[k] for k in decision.active],
            "choice": choice,  # what the policy would do; the same in mode live
            "version": f"{self.experiment.policy}-{__version__}-{self.version}",
        }

    # ---- keeping and comparing ----------------------------------------------------------------------------------

    def to_parts(self) -> Iterator[bytes]:
        """The state in parts of bounded size, the last of them a checksum; :meth:`from_parts` reads it back."""
        return in_parts(self.header(), saved(self.policy))

    def header(self) -> bytes:
        """The first of these parts: everything but the policy."""
        return canonical({**self._plain(), "library": __version__}).encode()

    @classmethod
    def from_parts(cls, experiment: Experiment, parts: Iterator[bytes]) -> State:
        """Read a state back; a ``CorruptionError`` if it is not what was written, or an ``OtherVersionError``."""
        first = next(parts, b"")
        sum_, last = blake2b(first, digest_size=16), b""
        with tempfile.TemporaryDirectory() as folder:
            with (Path(folder) / "policy").open("wb") as file:
                for part in parts:
                    file.write(last)
                    sum_.update(last)
                    last = part
            if sum_.digest() != last:
                raise CorruptionError(f"a snapshot of {experiment.id} is not what was written.")
            plain = json.loads(first)
            if plain["library"] != __version__:
                raise OtherVersionError(f"version {plain['library']} made it.")
            self = cls(experiment, dict(plain["arms"]))
            self.policy = load_policy(Path(folder) / "policy")
        self.mode, self.at, self.version = plain["mode"], plain["at"], plain["version"]
        self.head = Head(*plain["head"])
        self.kept = self.head.seq
        self._windows.resume(plain["windows"])
        return self

    def _plain(self) -> dict[str, Any]:
        return {
            "arms": list(self.arms.items()),
            "mode": self.mode,
            "head": self.head,
            "at": self.at,
            "version": self.version,
            "windows": self._windows.plain(),
        }

    def digest(self) -> str:
        """A checksum of everything, each bit of the policy included: two states are the same iff their digests are."""
        sum_ = blake2b(canonical(self._plain()).encode(), digest_size=16)
        for name, array in sorted(self.policy.state().items()):
            sum_.update(f"{name} {array.dtype} {array.shape}".encode())
            sum_.update(np.ascontiguousarray(array).data)
        return sum_.hexdigest()


def saved(policy: Served) -> BinaryIO:
    """A policy as a file, which is gone when it is closed."""
    with tempfile.TemporaryDirectory() as folder:
        policy.save(Path(folder) / "policy")
        return (Path(folder) / "policy").open("rb")


def in_parts(header: bytes, file: BinaryIO) -> Iterator[bytes]:
    """A header and a saved policy in parts of bounded size, and a checksum."""
    sum_ = blake2b(header, digest_size=16)
    yield header
    with file:
        while part := file.read(PART):
            sum_.update(part)
            yield part
    yield sum_.digest()


class Report(NamedTuple):
    """What one report event does."""

    counts: dict[str, float]  # values that are learned there: first of their metric, in time; as corrected later
    corrects: int  # position of the earliest report whose value it changes; 0 if none
    late: list[str]  # metrics whose window had closed


class Reports:
    """The reports on one decision, each in the light of the others.

    Parameters
    ----------
    experiment
        Whose windows count.
    history
        The events of the decision, as far as they are to be known.
    """

    def __init__(self, experiment: Experiment, history: list[Event]) -> None:
        self._experiment = experiment
        self.decided = history[0].body
        self.values: dict[str, float] = {}  # the last value of each metric, late or not
        self._first: dict[str, int] = {}
        self._late: set[str] = set()
        self._reported: dict[int, tuple[list[str], int, list[str]]] = {}
        for event in history[1:]:
            self.add(event)

    def add(self, event: Event) -> None:
        """Know of one more report."""
        body = event.body
        new, corrects, late = [], 0, []
        for name, value in body["values"].items():
            if name not in self._first:
                self._first[name] = event.seq
                if self._closed(name, body["at"]):
                    self._late.add(name)
                else:
                    new.append(name)
            elif name not in self._late and self.values[name] != value:
                corrects = min(corrects or event.seq, self._first[name])
            if name in self._late:
                late.append(name)
            self.values[name] = value
        self._reported[event.seq] = (new, corrects, late)

    def _closed(self, name: str, at: int) -> bool:
        """Whether the window of a metric has closed."""
        window = self._experiment.metrics[self._experiment.metric_index[name]].window
        return window is not None and at > deadline(self.decided["at"], window)

    def at(self, seq: int) -> Report:
        """What the report at a position does, given all the others."""
        new, corrects, late = self._reported[seq]
        return Report({name: self.values[name] for name in new}, corrects, late)


Watch = Callable[[State, Event, Reports | None], None]  # called after each event that was folded


def rebuild(
    session: Session, experiment_id: str, head: Head, *, snapshots: bool = True, watch: Watch | None = None
) -> State:
    """The state at a head, from the log; from the latest snapshot on, if that is allowed and there is one.

    A snapshot is dropped when a correction or a change of arms makes it untrue, so those that are there can be used.
    """
    state = _start(session, experiment_id, head, snapshots=snapshots)
    for page in session.checked(experiment_id, state.head, head):
        ids = list({event.decision for event in page if event.kind == "reported" and event.decision is not None})
        histories = session.histories(experiment_id, ids, head.seq)
        for event in page:
            try:
                reports = (
                    Reports(state.experiment, histories[event.decision or ""]) if event.kind == "reported" else None
                )
                state.fold(event, session, reports, settled=True)
                if watch is not None:
                    watch(state, event, reports)
            except (LookupError, TypeError, ValueError) as error:
                raise CorruptionError(f"{experiment_id}: event {event.seq} cannot be folded: {error!r}.") from None
    return state


def catch_up(session: Session, state: State, head: Head) -> None:
    """Fold what others have appended since."""
    experiment = state.experiment
    for page in session.checked(experiment.id, state.head, head):
        for event in page:
            reports = None
            if event.kind == "reported" and event.decision is not None:
                history = session.histories(experiment.id, [event.decision], event.seq)
                reports = Reports(experiment, history[event.decision])
            state.fold(event, session, reports)


def _start(session: Session, experiment_id: str, head: Head, *, snapshots: bool) -> State:
    events = session.of_kinds(experiment_id, ARM_KINDS, head.seq)
    if not events or events[0].kind != "created":
        raise CorruptionError(f"{experiment_id}: the log does not begin with a declaration.")
    experiment = Experiment.from_dict(events[0].body["declaration"])
    for seq in session.snapshots(experiment_id) if snapshots else []:
        if seq <= head.seq:
            try:
                return State.from_parts(experiment, session.snapshot(experiment_id, seq))
            except (CorruptionError, OtherVersionError, ValueError, KeyError, TypeError):
                continue  # a snapshot only saves time: without it, an earlier one or the log will do
    arms = dict.fromkeys(experiment.arms, True)
    for event in events[1:]:
        arms[event.body["arm"]] = event.kind == "arm_added"
    return State(experiment, arms)
