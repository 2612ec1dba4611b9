"""Which states are kept as snapshots, and when: so that a start need not read whole logs."""

from __future__ import annotations

from conebandit.service.log.snapshots import SnapshotInProgress, least_missed, to_parts
from conebandit.service.log.state import State
from conebandit.service.stores.session import Session, UnfinishedSnapshot

SNAPSHOT_EVERY = 10_000  # events, at least
SNAPSHOT_GROWTH = 1.25  # and by this factor, so that the work for all snapshots stays proportional to the log
MAX_SNAPSHOTS = 3  # of an experiment, at any time, with those that are being written
MAX_DROPPED = 10  # at once, so that nobody waits for long: an earlier release may have left hundreds of them


class Snapshots:
    """The snapshots that are being written, at most one for each experiment, and the rules for all others."""

    def __init__(self) -> None:
        self._in_progress: dict[str, SnapshotInProgress] = {}

    def in_progress(self, experiment_id: str) -> SnapshotInProgress | None:
        """The one that is being written."""
        return self._in_progress.get(experiment_id)

    def abandon(self, experiment_id: str) -> None:
        """Write no more parts of the one that was begun; what is in the store is somebody's to complete or to drop."""
        self._in_progress.pop(experiment_id, None)

    def has_work(self, state: State) -> bool:
        """Whether a snapshot is being written, or is due; not where a revision is, which will write its own."""
        due = max(SNAPSHOT_GROWTH * state.last_snapshot, state.last_snapshot + SNAPSHOT_EVERY)
        return state.experiment.id in self._in_progress or (state.head.seq >= due and state.corrected_from is None)

    def write_part(self, session: Session, state: State) -> None:
        """Write a part of the snapshot that was begun; if there is none, begin one."""
        experiment_id, seq = state.experiment.id, state.head.seq
        in_progress = self._in_progress.get(experiment_id)
        if in_progress is None:
            begun = begin_snapshot(session, experiment_id, seq)
            if begun is not None:
                state.last_snapshot = seq
                self._in_progress[experiment_id] = SnapshotInProgress(state, begun, session.seals)
        elif in_progress.write_part(session):
            del self._in_progress[experiment_id]

    def write_now(self, session: Session, state: State) -> None:
        """Write a whole snapshot at once."""
        experiment_id, seq = state.experiment.id, state.head.seq
        if _can_be_replaced(session, state):
            session.drop_snapshots(experiment_id, seq, seq)
            self.abandon(experiment_id)
        _make_room(session, experiment_id, seq)
        if session.save_snapshot(experiment_id, seq, to_parts(state, session.seals)):
            state.last_snapshot = seq


def begin_snapshot(session: Session, experiment_id: str, seq: int) -> UnfinishedSnapshot | None:
    """Begin a snapshot, for which others make way; None if there is, or somebody makes, one of this position."""
    _make_room(session, experiment_id, seq)
    return session.begin_snapshot(experiment_id, seq)


def _can_be_replaced(session: Session, state: State) -> bool:
    """Whether a snapshot at the head, if there is one, can make way for ours."""
    if state.head.seq in session.snapshots(state.experiment.id):
        return state.last_snapshot != state.head.seq  # we could not use it: another version's, most likely
    # Nobody may be left to complete it; if somebody is, he notices. One that a revision has begun must stay, since it
    # will be taken for a state with the new view.
    return state.corrected_from is None


def _make_room(session: Session, experiment_id: str, seq: int) -> None:
    """Drop snapshots until there is room for one at ``seq``, unless there is one already.

    First those that nobody has completed: if somebody still writes one, he notices. Then those that are missed least.
    """
    heads = session.snapshot_heads(experiment_id)
    surplus = 0 if seq in heads else len(heads) - MAX_SNAPSHOTS + 1
    for _ in range(min(surplus, MAX_DROPPED)):
        unfinished = [position for position, complete in heads.items() if not complete]
        spare = unfinished[0] if unfinished else least_missed(list(heads), seq)
        session.drop_snapshots(experiment_id, spare, spare)
        del heads[spare]
