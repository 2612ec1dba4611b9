"""Deciding, reporting, changing: what the service does, without HTTP. Everything happens in a turn, a transaction."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from conebandit._version import __version__
from conebandit.experiment.declaration import MAX_ARMS, Experiment, as_arm_name, as_mode, check_estimates
from conebandit.experiment.errors import InvalidError
from conebandit.experiment.policy import Served
from conebandit.policies.base import Front
from conebandit.service.errors import ConflictError, CorruptionError, NotFoundError
from conebandit.service.log.events import (
    ArmAdded,
    ArmRetired,
    Created,
    Decided,
    Entry,
    Event,
    ModeChanged,
    Reported,
    Revised,
    read,
    read_as,
    seal_event,
)
from conebandit.service.log.replay import follow, rebuild, start
from conebandit.service.log.reports import Reports
from conebandit.service.log.snapshots import SnapshotInProgress, to_parts
from conebandit.service.log.state import State
from conebandit.service.stores.base import Session
from conebandit.service.stores.records import Head, Record, new_id
from conebandit.validate.arrays import FloatArray

MAX_AT_ONCE = 1000  # decisions or outcomes in one request
DECISION_ID = re.compile(r"[\x21-\x7e]{1,128}")
SNAPSHOT_EVERY = 10_000  # events, at least
SNAPSHOT_GROWTH = 1.25  # and by this factor, so that the work for all snapshots stays proportional to the log
SNAPSHOTS_KEPT = 3


class Engine:
    """The states of all experiments, in memory, as far as they have been asked for.

    Parameters
    ----------
    most_replayed
        How many events a turn may fold under the lock of a log; None for any. For a correction or a change of arms that
        needs more, somebody else must do it, and call :meth:`Turn.revise`; if others have appended more, see
        :meth:`Turn.meet`.
    """

    def __init__(self, most_replayed: int | None = None) -> None:
        self.most_replayed = most_replayed
        self.states: dict[str, State] = {}
        self.pending: dict[str, SnapshotInProgress] = {}  # snapshots that are being made
        self.damaged: dict[str, tuple[Head, str]] = {}  # logs that cannot be folded up to this head, and why

    def forget(self, experiments: Iterable[str] | None = None) -> None:
        """Drop the states of some experiments, or of all: the next turn reads them from the store."""
        for experiment_id in list(self.states) if experiments is None else experiments:
            self.states.pop(experiment_id, None)
            self.pending.pop(experiment_id, None)


class Turn:
    """What is done in one transaction: events are folded at once and written when the turn ends.

    A request is refused before it has changed anything. If anything else goes wrong the transaction is undone, and the
    engine must forget its states.

    Parameters
    ----------
    engine
        Holds the states.
    session
        A transaction that writes.
    now
        Milliseconds since 1970.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from conebandit.service.stores.base import open_store
    >>> experiment = Experiment.from_dict({"id": "e", "arms": ["a", "b"], "metrics": [{"name": "m"}, {"name": "n"}]})
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     store = open_store(str(pathlib.Path(folder) / "log.db"))
    ...     with store.write() as session:
    ...         turn = Turn(Engine(), session, now=0)
    ...         created = turn.create(experiment)
    ...         [decision] = turn.decide("e", [{"id": "first", "context": {}}])
    ...         outcome = turn.report("e", [{"id": "first", "values": {"m": 1.0}}])
    ...         turn.finish()
    ...     store.close()
    >>> decision["propensity"], outcome
    (0.5, [{'id': 'first', 'recorded': ['m'], 'corrected': [], 'repeated': [], 'late': []}])
    """

    def __init__(self, engine: Engine, session: Session, now: int) -> None:
        self._engine = engine
        self.session = session
        self._now = now
        self.events_taken = 0
        self.changed: set[str] = set()  # experiments whose states are ahead of the store until the turn is committed
        self.learned_of: set[str] = set()  # experiments in whose logs others have put something off
        self._current: set[str] = set()  # experiments whose log is locked and whose state is at its head
        self._unwritten: dict[str, tuple[list[Record], set[str | None]]] = {}  # with the decisions they are about

    # ---- experiments --------------------------------------------------------------------------------------------

    def create(self, experiment: Experiment) -> dict[str, Any]:
        """Begin an experiment; the same declaration again is a no-op."""
        state = State(experiment, experiment.arms)  # refuses settings that do not fit
        if not self.session.create(experiment.id):
            if self._state(experiment.id).experiment.declaration != experiment.declaration:
                raise ConflictError(f"there is an experiment {experiment.id!r} already, with another declaration.")
            return self.describe(experiment.id)
        self._engine.states[experiment.id] = state
        self._current.add(experiment.id)
        self._append(state, Created(self._time(state), experiment.declaration, __version__))
        return self.describe(experiment.id)

    def describe(self, experiment_id: str) -> dict[str, Any]:
        """What an experiment is and how far it has come."""
        state = self._state(experiment_id)
        return {
            "id": experiment_id,
            "mode": state.mode,
            "arms": [{"name": name, "active": active} for name, active in state.arms.items()],
            "events": state.head.seq,
            "revising": state.corrected_from is not None,
            "declaration": state.experiment.declaration,
        }

    def set_mode(self, experiment_id: str, mode: Any) -> dict[str, Any]:
        """Change the traffic mode; the mode that it has is a no-op."""
        checked = as_mode(mode)
        state = self._state(experiment_id)
        if state.mode != checked:
            self._append(state, ModeChanged(self._time(state), checked))
        return self.describe(experiment_id)

    def add_arm(self, experiment_id: str, arm: Any) -> dict[str, Any]:
        """Add an arm; one that is active already is a no-op."""
        name = as_arm_name(arm)
        state = self._state(experiment_id)
        if name in state.arms:
            if not state.arms[name]:
                raise ConflictError(f"arm {name!r} is retired and is never served again; add one of another name.")
            return self.describe(experiment_id)
        if len(state.arms) >= MAX_ARMS:
            raise ConflictError(f"there are {len(state.arms)} arms, and {MAX_ARMS} is the limit.")
        try:
            check_estimates(sum(state.arms.values()) + 1, len(state.experiment.metrics), state.experiment.context_dim)
        except InvalidError as error:
            raise ConflictError(f"arm {name!r} cannot be added: {error}") from None
        self._append(state, ArmAdded(self._time(state), name))
        return self.describe(experiment_id)

    def retire_arm(self, experiment_id: str, arm: Any) -> dict[str, Any]:
        """Never serve an arm again; one that is retired already is a no-op."""
        name = as_arm_name(arm)
        state = self._state(experiment_id)
        if name not in state.arms:
            raise NotFoundError(f"there is no arm {name!r}; there are {', '.join(state.arms)}.")
        if name == state.experiment.baseline:
            raise ConflictError(f"arm {name!r} is the baseline, which modes 'shadow' and 'off' serve; it must stay.")
        if state.arms[name]:
            self._append(state, ArmRetired(self._time(state), name))
        return self.describe(experiment_id)

    # ---- decisions and outcomes ---------------------------------------------------------------------------------

    def decide(self, experiment_id: str, requests: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """An arm for each request ``{"id", "context"}``; all or none. An id that was there before gets its answer."""
        state = self._state(experiment_id)
        ids = [_decision_id(request.get("id")) for request in _some(requests, "decisions")]
        given = [id_ for id_, request in zip(ids, requests, strict=True) if request.get("id") is not None]
        self._write(experiment_id, given)
        known = self.session.of_decisions(experiment_id, Decided.kind, given)
        found = {id_: read_as(Decided, record) for id_, record in known.items()}
        contexts = {id_: decided.context for id_, decided in found.items()}
        new: dict[str, FloatArray] = {}
        for id_, request in zip(ids, requests, strict=True):
            context = dict(request.get("context") or {})
            x = state.experiment.encode(context)
            if id_ not in contexts:
                contexts[id_], new[id_] = context, x
            elif not _same(contexts[id_], context):
                raise ConflictError(f"decision {id_!r} was asked for with another context before; use a new id.")
        if new:
            found |= self._decide_new(state, {id_: (contexts[id_], x) for id_, x in new.items()})
        return [_reply(found[id_]) for id_ in ids]

    def _decide_new(self, state: State, new: dict[str, tuple[dict[str, Any], FloatArray]]) -> dict[str, Decided]:
        """Decide in some contexts, by id: as they were given, and encoded."""
        at = self._time(state)
        self.changed.add(state.experiment.id)
        if state.mode != "off":
            state.close_windows(at, state.head.seq + 1, self.session)
        made = {}
        for id_, (context, x) in new.items():
            made[id_] = Decided(at, id_, context, tuple(x.tolist()), state.choose(x, id_))
            self._append(state, made[id_])
        return made

    def report(self, experiment_id: str, requests: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """Record outcomes ``{"id", "values"}``; all or none."""
        state = self._state(experiment_id)
        outcomes = []
        for request in _some(requests, "outcomes"):
            values = request.get("values")
            if not isinstance(values, Mapping) or not values:
                raise InvalidError("values must be a table of one or more metrics.")
            checked = {name: state.experiment.check_value(name, value) for name, value in values.items()}
            outcomes.append((_decision_id(request.get("id"), generate=False), checked))
        ids = list({id_ for id_, _ in outcomes})
        self._write(experiment_id, ids)
        histories = self.session.histories(experiment_id, ids, state.head.seq)
        missing = set(ids) - set(histories)
        if missing:
            raise NotFoundError(f"there is no decision {min(missing)!r} in experiment {experiment_id!r}.")
        reports = {id_: Reports(state.experiment, list(map(read, history))) for id_, history in histories.items()}
        return [self._report_one(state, id_, values, reports[id_]) for id_, values in outcomes]

    def _report_one(self, state: State, id_: str, values: dict[str, float], reports: Reports) -> dict[str, Any]:
        before = dict(reports.values)
        changed = {name: value for name, value in values.items() if before.get(name) != value}
        late: list[str] = []
        if changed:
            # In the order of the log, which sorts names: so what is late is listed as a replay would list it.
            self._append(state, Reported(self._time(state), id_, dict(sorted(changed.items()))), reports)
            late = reports.at(state.head.seq).late
        return {
            "id": id_,
            "recorded": [name for name in changed if name not in before and name not in late],
            "corrected": [name for name in changed if name in before and name not in late],
            "repeated": [name for name in values if name not in changed],
            "late": late,
        }

    # ---- what it knows ------------------------------------------------------------------------------------------

    def front(self, experiment_id: str, context: Mapping[str, Any]) -> dict[str, Any]:
        """The arms held for undominated in a context, with estimates in the units of the metrics."""
        state = self._state(experiment_id)
        front = state.policy.front(state.experiment.encode(context))
        return {"version": state.version, "arms": _front(state, front)}

    def explain(self, experiment_id: str, context: Mapping[str, Any]) -> dict[str, Any]:
        """Front, active arms and, from policies that can say it, why the others are not played."""
        state = self._state(experiment_id)
        x, names = state.experiment.encode(context), state.known
        active = state.policy.decide(x, 0).active
        why: Any = state.policy.explain(x) if hasattr(state.policy, "explain") else None
        return {
            "version": state.version,
            "policy": state.experiment.policy,
            "observations": state.policy.n_observations,
            "active": [names[k] for k in active if state.arms[names[k]]],
            "front": _front(state, state.policy.front(x)),
            "path": [{"level": b.level, "seen": b.seen} for b in why.path] if hasattr(why, "path") else None,
            "kept_out": None
            if why is None
            else [{"arm": names[e.arm], "by": names[e.by], "margins": _finite(e.margins)} for e in why.eliminated],
        }

    def policy(self, experiment_id: str) -> Served:
        """The policy in its present state; to look at, not to teach."""
        return self._state(experiment_id).policy

    def digest(self, experiment_id: str) -> dict[str, Any]:
        """Where the log ends and a checksum of the state that it leads to; equal in every process."""
        state = self._state(experiment_id)
        return {"events": state.head.seq, "check": state.head.check, "state": state.digest()}

    # ---- the log ------------------------------------------------------------------------------------------------

    def finish(self) -> None:
        """Write what is not written yet, and a part of a snapshot where one is due; then the transaction may commit."""
        for experiment_id in self._current:
            self._revise_if_short(experiment_id)
            self._write(experiment_id)
            state = self._engine.states[experiment_id]
            due = max(SNAPSHOT_GROWTH * state.last_snapshot, state.last_snapshot + SNAPSHOT_EVERY)
            if experiment_id in self._engine.pending:
                self.changed.add(experiment_id)
                self._go_on_keeping(experiment_id)
            elif state.head.seq >= due and self.session.begin_snapshot(experiment_id, state.head.seq):
                self.changed.add(experiment_id)
                state.last_snapshot = state.head.seq
                self._engine.pending[experiment_id] = SnapshotInProgress(state)

    def states(self) -> dict[str, State]:
        """The states of the experiments of this turn."""
        return {experiment_id: self._engine.states[experiment_id] for experiment_id in self._current}

    def _revise_if_short(self, experiment_id: str) -> None:
        """Fold a short log anew at once: nobody waits for long."""
        state, most = self._engine.states[experiment_id], self._engine.most_replayed
        if state.corrected_from is not None and (most is None or state.head.seq <= most):
            self._write(experiment_id)
            self.revise(start(self.session, experiment_id, view=state.head.seq, before=state.corrected_from))

    def revise(self, revised: State, snapshot: int | None = None) -> bool:
        """Go on from a state with a later view, and say so in the log; False if it is of no use any more.

        Parameters
        ----------
        revised
            A state of this experiment; what it has not folded yet is folded here.
        snapshot
            Position of a snapshot of it that is in the store, but not said to be complete yet. Other processes go on
            from there.
        """
        experiment_id = revised.experiment.id
        state = self._state(experiment_id)
        if state.corrected_from is None or revised.view <= state.view or revised.head.seq > state.head.seq:
            return False
        self._write(experiment_id)
        follow(self.session, revised, state.head)
        self.session.drop_snapshots(
            experiment_id, state.corrected_from, but=snapshot
        )  # the others are untrue from now on
        if snapshot is not None:
            self.session.complete_snapshot(experiment_id, snapshot)
            revised.last_snapshot = snapshot
        self._engine.states[experiment_id] = revised
        self._append(revised, Revised(self._time(revised), revised.view))
        return True

    def _go_on_keeping(self, experiment_id: str) -> None:
        if self._engine.pending[experiment_id].write_part(self.session):
            del self._engine.pending[experiment_id]
            self._forget_old_snapshots(experiment_id)

    def snapshot(self, experiment_id: str) -> None:
        """Keep the state, so that a start need not read the whole log; at once."""
        state = self._state(experiment_id)
        seq = state.head.seq
        self._write(experiment_id)
        if self._is_of_no_use(state, seq):
            self.session.drop_snapshots(experiment_id, seq, seq)
            self._engine.pending.pop(experiment_id, None)
        if self.session.save_snapshot(experiment_id, seq, to_parts(state)):
            state.last_snapshot = seq
            self._forget_old_snapshots(experiment_id)

    def _is_of_no_use(self, state: State, seq: int) -> bool:
        """Whether a snapshot at the head, if there is one, can make way for ours."""
        if seq in self.session.snapshots(state.experiment.id):
            return state.last_snapshot != seq  # we could not use it: another version's, most likely
        # Nobody may be left to complete it; if somebody is, he notices. One that a revision has begun must stay, since
        # it will be taken for a state with the new view.
        return state.corrected_from is None

    def _forget_old_snapshots(self, experiment_id: str) -> None:
        """Those before the latest few, and those that nobody completed."""
        kept = self.session.snapshots(experiment_id)[:SNAPSHOTS_KEPT]
        if kept:
            self.session.drop_snapshots(experiment_id, 0, kept[-1] - 1)

    def meet(self, experiment_id: str) -> bool:
        """Lock a log and fold what others have appended; False if that is too much to be done under the lock."""
        head = self.session.head(experiment_id, lock=True)
        if head is None or self._damage(experiment_id, head):
            return True  # who asks for it will be told
        try:
            return self._go_on(experiment_id, head, self._engine.most_replayed)
        except CorruptionError:
            return False

    def _damage(self, experiment_id: str, head: Head) -> str | None:
        """What is known to be wrong with a log."""
        known = self._engine.damaged.get(experiment_id)
        return known[1] if known is not None and known[0] == head else None

    def _state(self, experiment_id: str) -> State:
        """The state at the head of the log, which is ours until the transaction ends."""
        if experiment_id not in self._current:
            head = self.session.existing_head(experiment_id, lock=True)
            if damage := self._damage(experiment_id, head):
                raise CorruptionError(damage)
            if not self._go_on(experiment_id, head):
                self._engine.states[experiment_id] = rebuild(self.session, experiment_id, head)
                self._current.add(experiment_id)
        return self._engine.states[experiment_id]

    def _go_on(self, experiment_id: str, head: Head, most: int | None = None) -> bool:
        """Bring the state in memory to the head of the log; False if there is none, or none that can go on so far."""
        state = self._engine.states.pop(experiment_id, None)
        if state is None or state.head.seq > head.seq:
            return False
        if most is None or head.seq - state.head.seq <= most:
            pending = state.corrected_from
            follow(self.session, state, head)
            if state.corrected_from is not None and pending is None:
                self.learned_of.add(experiment_id)
        self._engine.states[experiment_id] = state
        there = state.head.seq == head.seq and not state.stale
        if there:
            self._current.add(experiment_id)
        return there

    def _time(self, state: State) -> int:
        """Now, as far as times in a log never decrease."""
        return max(self._now, state.at)

    def _append(self, state: State, event: Event, reports: Reports | None = None) -> None:
        """Fold an event, to be written later; a report is added to those on its decision."""
        record = seal_event(state.head, event)
        entry = Entry(record.head, event)
        if reports is not None:
            reports.add(entry)
        self.changed.add(state.experiment.id)
        state.fold(entry, self.session, reports)
        self.events_taken += 1
        records, ids = self._unwritten.setdefault(state.experiment.id, ([], set()))
        records.append(record)
        ids.add(record.decision)

    def _write(self, experiment_id: str, about: Sequence[str] | None = None) -> None:
        """Write what is not written yet; only if it is ``about`` one of some decisions, if those are given."""
        events, ids = self._unwritten.get(experiment_id, ([], set()))
        if events and (about is None or not ids.isdisjoint(about)):
            self.session.append(experiment_id, events)
            del self._unwritten[experiment_id]


# ---- small parts ----------------------------------------------------------------------------------------------------


def _reply(decided: Decided) -> dict[str, Any]:
    body = decided.to_body()
    reply = {name: body[name] for name in ("id", "arm", "propensity", "active", "mode")}
    return {**reply, "policy_version": body["version"]}


def _front(state: State, front: Front) -> list[dict[str, Any]]:
    rows = []
    for k, means, radii in zip(front.arms, front.means, front.radii, strict=True):
        if not state.arms[state.known[k]]:
            continue  # retired; the policy has not been folded anew yet
        estimates = {}
        for metric, mean, radius in zip(state.experiment.metrics, _finite(means), _finite(radii), strict=True):
            value = mean if mean is None or metric.worst is None else metric.worst - mean
            estimates[metric.name] = {"mean": value, "radius": radius}
        rows.append({"arm": state.known[k], "estimates": estimates})
    return rows


def _finite(values: Any) -> list[float | None]:
    """Numbers for JSON: None for what is not known."""
    return [float(v) if math.isfinite(v) else None for v in values]


def _same(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether two contexts say the same: 3 and 3.0 do, and so do null and nothing."""
    given = [{name: value for name, value in context.items() if value is not None} for context in (one, other)]
    return given[0] == given[1]


def _decision_id(given: Any, *, generate: bool = True) -> str:
    if given is None and generate:
        return new_id()
    if not isinstance(given, str) or not DECISION_ID.fullmatch(given):
        raise InvalidError(f"id must be 1 to 128 printable ASCII characters without spaces; got {ascii(given)[:80]}.")
    return given


def _some(requests: Sequence[Mapping[str, Any]], what: str) -> Sequence[Mapping[str, Any]]:
    if not 1 <= len(requests) <= MAX_AT_ONCE:
        raise InvalidError(f"{what} must have 1 to {MAX_AT_ONCE} entries; got {len(requests)}.")
    return requests
