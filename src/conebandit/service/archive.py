"""Taking an experiment that has ended out of the store, into a file from which it can be imported again."""

from __future__ import annotations

import os
import tempfile
from contextlib import closing
from pathlib import Path

from conebandit.service.errors import ConflictError, CorruptionError
from conebandit.service.export import export
from conebandit.service.log.entries import By
from conebandit.service.log.operations import log_operation
from conebandit.service.log.replay import erased_units, read_to_head
from conebandit.service.log.restore import restore
from conebandit.service.log.state import State
from conebandit.service.log.verify import verify
from conebandit.service.stores.base import Store, open_store
from conebandit.service.stores.records import Head, from_lines, new_id
from conebandit.service.stores.seals import Seals
from conebandit.service.stores.session import PAGE


def archive(store: Store, experiment_id: str, to: Path, by: By | None = None) -> Head:
    """Write the log of an experiment to a file, see that it can be read back, and remove it from the store.

    Parameters
    ----------
    store
        Where the experiment is. It must have ended, so that nobody changes it any more.
    experiment_id
        Which one.
    to
        A file that is not there yet.
    by
        Who does it; the log of the store keeps that.

    Returns
    -------
    Head
        Where the log ends: what an import of the file will end with.
    """
    with store.read() as session:
        session.existing_head(experiment_id)
    state = read_to_head(store.read, experiment_id)
    if state is None or state.stage != "ended":
        stage = "gone" if state is None else state.stage
        raise ConflictError(f"experiment {experiment_id!r} is {stage}; only one that has ended can be archived.")
    _refuse_if_unsettled(store, state)
    if to.exists():
        raise ConflictError(f"{to} is there already; an archive never overwrites.")
    part = to.with_name(to.name + ".part")
    with part.open("wb") as file:
        file.writelines(export(store, experiment_id, "jsonl"))
        file.flush()
        os.fsync(file.fileno())
    if _verified_head(part, experiment_id, store.seals) != state.head:
        raise CorruptionError(f"{part} does not hold the log of {experiment_id!r}; nothing was removed.")
    part.replace(to)
    _remove(store, experiment_id, state.head, by)
    return state.head


def _refuse_if_unsettled(store: Store, state: State) -> None:
    """What edges have uploaded must be in the log, and what is to be forgotten must not go out of reach, in a file."""
    with store.read() as session:
        if state.experiment.id in session.experiments_with_uploads():
            raise ConflictError(
                f"uploads of edges wait for experiment {state.experiment.id!r}: start the service first."
            )
        if erased_units(session, state.experiment.id, state.head.seq, after=state.view):
            raise ConflictError(
                f"units of experiment {state.experiment.id!r} are still being erased. Let a service run on this store "
                "until the experiment is not 'revising' any more, and archive it then."
            )


def _verified_head(file: Path, experiment_id: str, seals: Seals) -> Head:
    """Where a log ends that was read from a file, folded and verified."""
    with (
        tempfile.TemporaryDirectory() as folder,
        closing(open_store(str(Path(folder) / "log.db"), seals=seals)) as scratch,
    ):
        with file.open(encoding="utf-8", newline="\n") as lines:
            restore(scratch, from_lines(lines, seals))
        with scratch.read() as session:
            for problem in verify(session, experiment_id).problems:
                raise CorruptionError(f"{experiment_id}: {problem} Nothing was removed.")
            return session.existing_head(experiment_id)


def _remove(store: Store, experiment_id: str, head: Head, by: By | None) -> None:
    """Let nobody see a log, and then drop it page by page: so nobody waits, and what is left can be dropped later."""
    token = new_id()
    with store.write() as session:
        session.hide(experiment_id, head, token)
        session.drop_snapshots(experiment_id, 0)
        log_operation(session, "archived", {"experiment": experiment_id, "events": head.seq, "check": head.check}, by)
    left = True
    while left:
        with store.write() as session:
            session.lock_import(experiment_id, token)
            left = session.drop_imported(experiment_id, PAGE) > 0
            if not left:
                session.forget_import(experiment_id)
