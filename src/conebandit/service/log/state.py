"""The state of an experiment: a fold over its log, and nothing else."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from hashlib import blake2b
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from conebandit._version import __version__
from conebandit.experiment.declaration import Experiment, Mode
from conebandit.experiment.policy import Served, load_policy, make_policy
from conebandit.service.errors import CorruptionError
from conebandit.service.log.windows import Windows, deadline
from conebandit.service.stores.base import PAGE, Head, Session
from conebandit.service.stores.records import ARM_KINDS, START, Event, canonical
from conebandit.validate.arrays import FloatArray

PART = 1 << 20  # bytes of a snapshot that are handled at once
FORMAT = 2  # of snapshots
LATEST = 253_402_300_799_999  # milliseconds since 1970: the end of the year 9999, beyond which there are no dates
NEAR = 50  # events that may be left to fold within a turn


class OtherVersionError(Exception):
    """A snapshot was made by another version of the library, which may have computed something else."""


class State:
    """What the log up to ``head`` says.

    The policy learns what is reported at once, one metric or several. A correction, or an arm that comes or goes,
    changes what should have been learned long ago; the log is folded anew for it, which takes a while. So it counts
    from a later event on, ``revised``, which says up to where corrections and changes of arms are known: the *view*.
    Until then the policy goes on as if they had not come, except that a retired arm is never served again. So it is in
    the log which state belongs to which position, for every process and for ``verify``.

    Parameters
    ----------
    experiment
        The declaration.
    known
        The arms that the policy has, in the order of its indices.
    view
        Position up to which corrections are known.

    Attributes
    ----------
    head
        The last event that was folded.
    at
        Its time, in milliseconds since 1970; never decreases.
    version
        Position of the last event that changed what the policy knows.
    pending
        Position from which on the policy would have learned something else, had it known of the corrections and
        changes of arms after the view; None if there are none.
    stale
        Whether the log went on with another view, so that :func:`rebuild` must be asked for the state.
    kept
        Position of the last snapshot that is known to be in the store.
    """

    def __init__(self, experiment: Experiment, known: tuple[str, ...], view: int = 0) -> None:
        self.experiment = experiment
        self.known = known
        self.view = view
        self.arms = dict.fromkeys(experiment.arms, True)  # name to whether it can be served
        self.mode: Mode = experiment.mode
        self.head = Head(0, START)
        self.at = 0
        self.version = 0
        self.pending: int | None = None
        self.stale = False
        self.kept = 0
        self._index = {name: k for k, name in enumerate(known)}
        self.policy: Served = make_policy(experiment, len(known))
        self._windows = Windows(experiment)

    # ---- folding ------------------------------------------------------------------------------------------------

    def fold(self, event: Event, session: Session, reports: Reports | None = None) -> None:
        """Take in the next event.

        Parameters
        ----------
        event
            It follows on ``head``.
        session
            For decisions whose windows close by it.
        reports
            For a report: all those on its decision, up to this one or to the view, whichever is later.
        """
        body = event.body
        _check_order(event, body["at"], self.at)
        self.head, self.at = Head(event.seq, event.check), body["at"]
        self.close_windows(self.at, event.seq, session)
        if event.kind == "decided":
            self._windows.add(event.seq, body)
        elif reports is not None:
            self._learn_report(event, reports)
        elif event.kind == "mode_changed":
            self.mode = body["mode"]
        elif event.kind in ("arm_added", "arm_retired"):
            self.arms[body["arm"]] = event.kind == "arm_added"
            self._put_off(event.seq, 0)
        elif event.kind == "revised":
            self.version = event.seq
            self.stale = body["upto"] > self.view

    def close_windows(self, at: int, seq: int, session: Session) -> None:
        """Count the defaults of windows that closed before ``at``; event ``seq`` is why we look."""
        for closing in self._windows.close(at, session):
            default = self.experiment.metrics[closing.metric].default
            assert default is not None  # only such metrics wait
            self._learn(closing.arm, closing.x, {closing.metric: default}, seq)

    def _put_off(self, seq: int, first: int) -> None:
        """Event ``seq`` says that from ``first`` on something else should have been learned."""
        if seq > self.view:
            self.pending = first if self.pending is None else min(self.pending, first)

    def _learn_report(self, event: Event, reports: Reports) -> None:
        report = reports.at(event.seq)
        if report.corrects and reports.decided["arm"] in self._index:
            self._put_off(event.seq, report.corrects)
        if report.counts:
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
        decision = self.policy.decide(x, key)
        active = [self.known[k] for k in decision.active]
        arm, propensity = self.known[decision.arm], decision.propensity
        if not all(self.arms[name] for name in (arm, *active)):
            # An arm was retired that the policy still has: the others that it plays are drawn with equal chances.
            active = [name for name in active if self.arms[name]] or [baseline]
            arm, propensity = active[_number(self.experiment.seed, key) % len(active)], 1 / len(active)
        choice = {"arm": arm, "propensity": propensity}
        return {
            **served,
            **(choice if self.mode == "live" else {}),
            "active": active,
            "choice": choice,  # what the policy would do; the same in mode live
            "version": f"{self.experiment.policy}-{__version__}-{self.version}",
        }

    # ---- keeping and comparing ----------------------------------------------------------------------------------

    def to_parts(self) -> Iterator[bytes]:
        """The state in parts of bounded size, the last of them a checksum; :meth:`from_parts` reads it back."""
        yield from in_parts(self.header(), saved(self.policy))

    def header(self) -> bytes:
        """The first of these parts: everything but the policy."""
        return canonical({**self._plain(), "library": __version__, "format": FORMAT}).encode()

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
            if (plain["library"], plain.get("format")) != (__version__, FORMAT):
                raise OtherVersionError(f"version {plain['library']} made it.")
            self = cls(experiment, tuple(plain["known"]))
            self.policy = load_policy(Path(folder) / "policy")
        self.arms, self.mode, self.at = dict(plain["arms"]), plain["mode"], plain["at"]
        self.version, self.pending = plain["version"], plain["pending"]
        self.head = Head(*plain["head"])
        self.kept = self.head.seq
        self._windows.resume(plain["windows"])
        return self

    def _plain(self) -> dict[str, Any]:
        return {
            "arms": list(self.arms.items()),
            "known": self.known,
            "mode": self.mode,
            "head": self.head,
            "at": self.at,
            "version": self.version,
            "pending": self.pending,
            "windows": self._windows.plain(),
        }

    def digest(self) -> str:
        """A checksum of everything, each bit of the policy included: two states are the same iff their digests are."""
        sum_ = blake2b(canonical(self._plain()).encode(), digest_size=16)
        for name, array in sorted(self.policy.state().items()):
            sum_.update(f"{name} {array.dtype} {array.shape}".encode())
            sum_.update(np.ascontiguousarray(array).data)
        return sum_.hexdigest()


def _check_order(event: Event, at: Any, before: int) -> None:
    """Whether an event can be where it is: a log may come from elsewhere, and seals say only that nobody changed it."""
    if (event.kind == "created") != (event.seq == 1):
        raise CorruptionError(f"event {event.seq} ({event.kind}): a log begins with its declaration and has no other.")
    if type(at) is not int or not before <= at <= LATEST:
        raise CorruptionError(
            f"event {event.seq} ({event.kind}): 'at' must be whole milliseconds since 1970, at most {LATEST} and not "
            f"before the event before it; got {ascii(at)[:40]}."
        )


def _number(seed: int, key: str) -> int:
    """128 bits that depend on nothing but seed and key."""
    return int.from_bytes(blake2b(f"{seed}\n{key}".encode(), digest_size=16).digest())


def saved(policy: Served) -> BinaryIO:
    """A policy as a file, which is gone when it is closed."""
    with tempfile.TemporaryDirectory() as folder:
        policy.save(Path(folder) / "policy")
        return (Path(folder) / "policy").open("rb")


def in_parts(header: bytes, file: BinaryIO) -> Iterator[bytes]:
    """A header and a saved policy in parts of bounded size, and a checksum."""
    sum_ = blake2b(header, digest_size=16)
    with file:
        yield header
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

    A snapshot is dropped when a new view makes it untrue, so those that are there can be used.
    """
    view = view_at(session, experiment_id, head.seq)
    state = start(session, experiment_id, view, before=head.seq + 1 if snapshots else 0)
    follow(session, state, head, watch)
    return state


def come_near(
    read: Callable[[], AbstractContextManager[Session]], experiment_id: str, state: State | None = None
) -> State | None:
    """A state close to the end of a log, going on from ``state`` if that is possible; None if there is no such log.

    No lock is held, so nobody else waits: events are read page by page, and a turn folds the few that came meanwhile.
    """
    while True:
        with read() as session:
            head = session.head(experiment_id)
            if head is None:
                return None
            if state is None or state.stale or state.head.seq > head.seq:
                state = start(session, experiment_id, view_at(session, experiment_id, head.seq), before=head.seq + 1)
            fold_page(session, state, head)
            if state.head == head and not state.stale:
                return state


def view_at(session: Session, experiment_id: str, seq: int) -> int:
    """Up to where corrections are known in the state at a position."""
    revisions = session.of_kinds(experiment_id, ("revised",), seq)
    return int(revisions[-1].body["upto"]) if revisions else 0


def start(session: Session, experiment_id: str, view: int, before: int) -> State:
    """A state to go on from: the latest snapshot before a position, or a policy that knows nothing yet."""
    events = session.of_kinds(experiment_id, ARM_KINDS, max(view, 1))
    if not events or events[0].kind != "created":
        raise CorruptionError(f"{experiment_id}: the log does not begin with a declaration.")
    experiment = Experiment.from_dict(events[0].body["declaration"])
    for seq in session.snapshots(experiment_id):
        if seq < before:
            try:
                state = State.from_parts(experiment, session.snapshot(experiment_id, seq))
            except (CorruptionError, OtherVersionError, ValueError, KeyError, TypeError, OSError):
                continue  # a snapshot only saves time: without it, an earlier one or the log will do
            session.check_presence(experiment_id, state.head)
            state.view = view
            return state
    arms = dict.fromkeys(experiment.arms, True)
    for event in events[1:]:
        _check_order(event, event.body["at"], 0)
        arms[event.body["arm"]] = event.kind == "arm_added"
    return State(experiment, tuple(name for name, active in arms.items() if active), view)


def follow(session: Session, state: State, head: Head, watch: Watch | None = None) -> None:
    """Fold what the log holds up to a head, unless the state becomes stale on the way."""
    while not state.stale and fold_page(session, state, head, watch):
        pass


def fold_page(session: Session, state: State, head: Head, watch: Watch | None = None, *, limit: int = PAGE) -> bool:
    """Fold some events, not beyond a head; False if there are no more."""
    id_ = state.experiment.id
    page = next(session.checked(id_, state.head, head, limit), None)
    if page is None:
        return False
    ids = list({event.decision for event in page if event.kind == "reported" and event.decision is not None})
    histories = session.histories(id_, ids, max(state.view, page[-1].seq))
    for event in page:
        try:
            reports = None
            if event.kind == "reported":
                known = max(state.view, event.seq)
                reports = Reports(state.experiment, [e for e in histories[event.decision or ""] if e.seq <= known])
            state.fold(event, session, reports)
            if watch is not None:
                watch(state, event, reports)
        except (LookupError, TypeError, ValueError) as error:
            raise CorruptionError(f"{id_}: event {event.seq} cannot be folded: {error!r}.") from None
        if state.stale:
            break
    return True
