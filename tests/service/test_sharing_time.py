"""No thread of the service keeps the others from running for long."""

import gc
import sys

import pytest

from conebandit.service.dashboard.counts.tallies import read_tally
from conebandit.service.engine.writer import Writer
from conebandit.service.http import server
from conebandit.service.stores.base import open_store
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


def searches(work):
    """Which generations of memory are searched for garbage meanwhile."""
    searched = []

    def note(phase, info):
        if phase == "start":
            searched.append(info["generation"])

    gc.collect()
    gc.callbacks.append(note)
    try:
        work()
    finally:
        gc.callbacks.remove(note)
    return searched


def test_a_start_looks_for_no_garbage(monkeypatch):
    kept = []

    def prepare():
        kept.extend([] for _ in range(10 * server.GARBAGE[0]))
        raise KeyboardInterrupt

    def serve():
        with pytest.raises(KeyboardInterrupt):
            server.serve("nowhere.db")

    monkeypatch.setattr(server, "_share_time", lambda: None)
    monkeypatch.setattr(server, "_patiently", lambda *_: prepare())
    before, frozen = gc.get_threshold(), gc.get_freeze_count()
    assert not searches(serve)
    assert gc.get_threshold() == before
    assert gc.get_freeze_count() > frozen + len(kept), "what is left is not searched later either"
    gc.unfreeze()


def test_the_first_turn_finds_nothing_to_search(tmp_path, declaration, monkeypatch):
    """Kernels and packages are frozen before, so that to tidy up after the first turn takes no time."""
    where, events = str(tmp_path / "log.db"), []
    Driver(open_store(where)).create(declaration)
    monkeypatch.setattr(server, "prepare_start", lambda _: events.append("kernels") or 0)
    monkeypatch.setattr(Writer, "warm_up", lambda _: events.append("logs"))
    writer = Writer(open_store(where))
    server._warm_up(writer, lambda _: None, lambda: events.append("frozen"))
    writer.close()
    assert events == ["kernels", "frozen", "logs"]


def test_who_reads_a_log_sets_off_no_search_of_older_memory(store, declaration, served):
    run = Driver(store)
    run.create(declaration)
    for start in range(0, 5000, 500):
        run.decide([{"id": f"d{start + i}", "context": PHONE} for i in range(500)])
    tallies = []
    assert set(searches(lambda: tallies.append(read_tally(store, "checkout")))) <= {0}
    assert tallies[0].n_decisions == 5000
    assert sys.getswitchinterval() < 0.001
