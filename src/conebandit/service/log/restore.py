"""Importing a log that was exported: all of it or nothing, and nobody waits meanwhile."""

from __future__ import annotations

import itertools
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from conebandit.experiment.errors import InvalidError
from conebandit.service.errors import ConflictError, CorruptionError
from conebandit.service.log.entries import By, read_as
from conebandit.service.log.events import Decided
from conebandit.service.log.operations import log_operation
from conebandit.service.log.replay import declared, erased_units, rebuild
from conebandit.service.log.verify_ids import IdsOfLog
from conebandit.service.stores.base import Store, open_store
from conebandit.service.stores.personal import DECISION, ERASING, UNIT, Alias
from conebandit.service.stores.records import BEGINNING, Head, Record, new_id
from conebandit.service.stores.session import PAGE, Session


def restore(store: Store, records: Iterator[Record], by: By | None = None) -> str:
    """Write a log that was exported, as it is, if it leads to a state; the id of its experiment.

    It is folded in a scratch store first. Then it is written in short transactions, so that nobody waits for long, and
    not seen before it is whole: if the import is interrupted, the next one removes what is there. Never overwrites:
    there must be no experiment of this id. The log of the store keeps who did it.
    """
    first = next(records, None)
    try:
        experiment_id = declared(first).id
    except InvalidError as error:
        raise CorruptionError(f"the log begins with a declaration that is not valid: {error}") from None
    taken = ConflictError(f"there is an experiment {experiment_id!r} already; an import never overwrites.")
    with store.read() as session:
        if session.head(experiment_id) is not None:
            raise taken
    with (
        tempfile.TemporaryDirectory() as folder,
        closing(open_store(str(Path(folder) / "log.db"), seals=store.seals)) as scratch,
    ):
        head = _fold_in(scratch, experiment_id, itertools.chain([first] if first else [], records))
        if not _copy_unseen(scratch, store, experiment_id, head, by):
            raise taken
    return experiment_id


def _fold_in(scratch: Store, experiment_id: str, records: Iterator[Record]) -> Head:
    """Write a log at once and see that it leads to a state; where it ends."""
    with scratch.write() as session:
        session.create(experiment_id)
        while page := list(itertools.islice(records, PAGE)):
            session.append(experiment_id, page)
        head = session.existing_head(experiment_id)
        try:
            rebuild(session, experiment_id, head, snapshots=False)
        except (CorruptionError, InvalidError) as error:
            raise CorruptionError(f"{experiment_id}: the log leads to no state: {error}") from None
        ids = IdsOfLog(session, experiment_id)
        for page in session.checked(experiment_id, BEGINNING, head):
            _add_new_names(session, experiment_id, _names(session, experiment_id, page))
            for record in page:
                if record.kind == Decided.kind:
                    ids.see(record.seq, str(record.decision))
        if ids.problems():
            raise CorruptionError(f"{experiment_id}: {ids.problems()[0]}")
    return head


def _names(session: Session, experiment_id: str, page: list[Record]) -> list[Alias]:
    """What callers call the units and decisions of some events; of those that are still to be erased, only aliases."""
    rows: list[Alias] = []
    if not any(record.personal for record in page):
        return rows
    erased = erased_units(session, experiment_id, 2**62)
    for record in page:
        decided = read_as(Decided, record) if record.kind == Decided.kind else None
        if decided is None or decided.visit is None or decided.names is None:
            continue
        mine = [Alias(DECISION, decided.names.id, decided.id, decided.visit.unit, record.seq)]
        if decided.visit.number == 1:
            mine.append(Alias(UNIT, decided.names.unit, decided.visit.unit, decided.visit.unit, record.seq))
        to_be_erased = decided.visit.unit in erased
        rows += [row._replace(kind=ERASING, name=row.alias) if to_be_erased else row for row in mine]
    return rows


def _add_new_names(session: Session, experiment_id: str, rows: list[Alias]) -> None:
    """Keep names; a ``CorruptionError`` if one stands for two things."""
    for kind in (UNIT, DECISION):
        names = [row.name for row in rows if row.kind == kind]
        if len(set(names)) < len(names) or session.aliases(experiment_id, kind, names):
            raise CorruptionError(f"{experiment_id}: the log has two of the same name.")
    session.add_aliases(experiment_id, rows)


def _copy_unseen(scratch: Store, store: Store, experiment_id: str, head: Head, by: By | None) -> bool:
    """Write a log page by page, and let it be seen with the last one; False if there is one already."""
    token = new_id()

    @contextmanager
    def politely() -> Iterator[Session]:
        with store.write() as session:
            begun = time.perf_counter()
            session.lock_import(experiment_id, token)
            yield session
        time.sleep(time.perf_counter() - begun)  # SQLite has no queue: leave whoever waits the time to find it free

    with store.write() as session:
        if not session.begin_import(experiment_id, token):
            return False
    left = True
    while left:
        with politely() as session:
            left = session.drop_imported(experiment_id, PAGE) > 0
    with scratch.read() as source:
        for page in source.checked(experiment_id, BEGINNING, head):
            with politely() as session:
                session.add_imported(experiment_id, page)
                session.add_aliases(experiment_id, _names(source, experiment_id, page))
    with politely() as session:
        session.end_import(experiment_id, head)
        log_operation(session, "imported", {"experiment": experiment_id, "events": head.seq, "check": head.check}, by)
    return True
