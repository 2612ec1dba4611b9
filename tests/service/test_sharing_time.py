"""No thread of the service keeps the others from running for long."""

import gc
import sys

import pytest

from conebandit.service.dashboard.counts.tallies import read_tally
from conebandit.service.http import server
from tests.service.driver import PHONE, Driver


@pytest.fixture
def served(monkeypatch):
    """What a service sets for its process, as long as the test runs."""

    def interrupt(*_):
        raise KeyboardInterrupt

    thresholds, interval = gc.get_threshold(), sys.getswitchinterval()
    monkeypatch.setattr(server, "_patiently", interrupt)
    with pytest.raises(KeyboardInterrupt):
        server.serve("nowhere.db")
    yield
    gc.set_threshold(*thresholds)
    sys.setswitchinterval(interval)


def test_who_reads_a_log_sets_off_no_search_of_older_memory(store, declaration, served):
    run = Driver(store)
    run.create(declaration)
    for start in range(0, 5000, 500):
        run.decide([{"id": f"d{start + i}", "context": PHONE} for i in range(500)])
    searched = []

    def note(phase, info):
        if phase == "start":
            searched.append(info["generation"])

    gc.collect()
    gc.callbacks.append(note)
    try:
        assert read_tally(store, "checkout").n_decisions == 5000
    finally:
        gc.callbacks.remove(note)
    assert set(searched) <= {0}
    assert sys.getswitchinterval() < 0.001
