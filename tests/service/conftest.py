"""Both stores, and declarations to play with."""

import copy
import itertools

import pytest

from conebandit.experiment.declaration import Experiment
from conebandit.service.engine.rehearsal import prepare_start, rehearse_policy
from conebandit.service.stores.base import open_store
from tests.service.databases import Postgres, binaries
from tests.service.driver import PHONE, Driver

_numbers = itertools.count()

# Two metrics, one of them a cost with a window and a default; a number and a category; a quick policy.
DECLARATION = {
    "id": "checkout",
    "arms": ["old", "new", "bold"],
    "metrics": [
        {"name": "revenue"},
        {"name": "latency", "direction": "min", "worst": 10.0, "window": "1h", "default": 10.0},
    ],
    "context": [
        {"name": "age", "low": 18, "high": 98, "out_of_range": "clip", "missing": 40},
        {"name": "device", "levels": ["phone", "desk"]},
    ],
    "policy": {"name": "LinearParetoUCB"},
    "seed": 7,
}


@pytest.fixture(scope="session", autouse=True)
def compiled():
    """What services compile before they listen is on disk: those that tests start have a limited time for it."""
    prepare_start([])
    rehearse_policy(Experiment.from_dict(DECLARATION))


@pytest.fixture(scope="session")
def postgres():
    if binaries() is None:
        pytest.skip("PostgreSQL's binaries are not installed (apt-get install postgresql)")
    server = Postgres(fsync=False)
    yield server
    server.stop()


# Both run the same lines but those of the store itself, which other tests reach.
@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.untraced)])
def address(request, tmp_path):
    """Where an empty store is, of each kind."""
    if request.param == "sqlite":
        return str(tmp_path / "log.db")
    return request.getfixturevalue("postgres").fresh_database(f"d{next(_numbers)}")


@pytest.fixture
def store(address):
    store = open_store(address)
    yield store
    store.close()


@pytest.fixture
def declaration():
    """One that a test may change."""
    return copy.deepcopy(DECLARATION)


@pytest.fixture
def begun(tmp_path, declaration):
    """Where a store with an experiment is, which has 20 decisions."""
    where = str(tmp_path / "log.db")
    store = open_store(where)
    run = Driver(store)
    run.create(declaration)
    run.decide([{"id": f"d{i}", "context": PHONE} for i in range(20)])
    store.close()
    return where
