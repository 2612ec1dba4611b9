"""Sealing logs that were begun without a key, or with an earlier one: a person says so, and it is in the log."""

from __future__ import annotations

from conebandit.experiment.errors import InvalidError
from conebandit.service.errors import UnavailableError
from conebandit.service.log.entries import By, Entry, seal_event
from conebandit.service.log.events import Event, Sealed
from conebandit.service.log.operations import log_operation
from conebandit.service.log.replay import read_to_head
from conebandit.service.log.snapshots import to_parts
from conebandit.service.stores.base import Store
from conebandit.service.stores.records import Head
from conebandit.service.stores.seals import key_of


def adopt(store: Store, experiment_id: str, by: str, now: int) -> Head | None:
    """Append an event that is sealed with the current key; None if the last one is already.

    Parameters
    ----------
    store
        Opened with a key.
    experiment_id
        Whose log.
    by
        Who vouches for what the log holds now.
    now
        Milliseconds since 1970.
    """
    _check_vouching(store, by)
    state = read_to_head(store.read, experiment_id)  # with every seal checked that is not behind a snapshot
    with store.write() as session:
        head = session.existing_head(experiment_id, lock=True)
        if key_of(head.check) == store.seals.current:
            return None
        if state is None or head != state.head:
            raise UnavailableError(f"somebody is writing to the log of {experiment_id!r}; try again.")
        event: Event | None = Sealed(max(now, state.at))
        who: By | None = By(None, by)
        while event is not None:
            record = seal_event(state.head, event, who, seals=store.seals, experiment=experiment_id)
            session.append(experiment_id, [record])
            state.fold(Entry(record.head, event, who), session)
            event, who = state.rules.due(state.at, state.arms), None  # windows close by it, and a safety rule may fire
        session.drop_snapshots(experiment_id, 0)  # they are not sealed
        session.save_snapshot(experiment_id, state.head.seq, to_parts(state, store.seals))
    return state.head


def adopt_operations(store: Store, by: str) -> Head | None:
    """Append to the log of the store that it is sealed with the current key; None if it is, or if there is none."""
    _check_vouching(store, by)
    with store.write() as session:
        session.lock_operations()
        records = session.operations()
        if not records or key_of(records[-1].check) == store.seals.current:
            return None
        log_operation(session, "sealed", {}, By(None, by))
        return session.operations_head()


def _check_vouching(store: Store, by: str) -> None:
    if store.seals.current is None:
        raise InvalidError("there is no key to seal with. Make one with conebandit seal-key new.")
    if not by.strip():
        raise InvalidError("by must be the name of somebody who vouches for the log; got none.")
