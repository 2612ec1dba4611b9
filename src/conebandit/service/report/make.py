"""Making a report from a store, or from a log that was exported."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from conebandit.service.dashboard.counts.tallies import read_tally
from conebandit.service.log.restore import restore
from conebandit.service.report.facts import Facts, gather
from conebandit.service.shift import ShiftWatch
from conebandit.service.stores.base import Store, open_store
from conebandit.service.stores.records import from_lines
from conebandit.service.stores.seals import Seals


def facts_now(store: Store, experiment_id: str) -> Facts:
    """All that a report tells, at the end of a log; it is read from its first event on, however long that takes."""
    with store.read() as session:
        session.existing_head(experiment_id)
    return gather(store, read_tally(store, experiment_id), ShiftWatch(store))


@contextmanager
def exported(file: Path, seals: Seals) -> Iterator[tuple[Store, str]]:
    """A store that has nothing but the log in a file, and the id of its experiment; gone at the end."""
    with (
        tempfile.TemporaryDirectory() as folder,
        closing(open_store(str(Path(folder) / "log.db"), seals=seals)) as store,
    ):
        with file.open(encoding="utf-8", newline="\n") as lines:
            id_ = restore(store, from_lines(lines, seals))
        yield store, id_
