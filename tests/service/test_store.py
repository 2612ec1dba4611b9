"""Opening a store, and what happens when it does not answer."""

import threading

import pytest

from conebandit.service.events import START, seal
from conebandit.service.store import SCHEMA, open_store


def test_opening_a_store_waits_for_nobody_and_keeps_nobody_waiting(address):
    """While one writes, somebody opens the store; PostgreSQL made all others who write wait behind that."""
    store = open_store(address)
    event = seal(START, 1, "mode_changed", None, {"at": 0, "mode": "off"})
    with store.write() as session:
        session.create("long")
        session.append("long", [event])
        opening = threading.Thread(target=lambda: open_store(address).close(), daemon=True)
        opening.start()
        opening.join(5)
        assert not opening.is_alive()
    store.close()


@pytest.mark.parametrize("name", SCHEMA)
def test_what_is_missing_is_made(address, name):
    """An index may have been added by a release, or forgotten by a restore."""
    for _ in range(2):  # the second time only if it was made again
        store = open_store(address)
        with store.write() as session:
            session._run(f"DROP {'INDEX' if '_of_' in name else 'TABLE'} {name}")
        store.close()
