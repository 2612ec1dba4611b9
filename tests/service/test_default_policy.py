"""The policy of an experiment that names none: the library's default, under its name in the log from then on."""

import json

import pytest

from conebandit.experiment.declaration import Experiment
from conebandit.service.errors import ConflictError
from conebandit.service.log.events import Created
from conebandit.service.log.state import State
from conebandit.service.stores.base import open_store

from .driver import Driver


def declared(**changes):
    return {"id": "checkout", "arms": ["a", "b"], "metrics": [{"name": "m"}], **changes}


@pytest.fixture
def run(tmp_path):
    store = open_store(str(tmp_path / "log.db"))
    yield Driver(store)
    store.close()


@pytest.mark.parametrize(
    ("given", "policy"),
    [
        ({}, {"name": "ConeKernel"}),
        ({"policy": {"explore": 0.1}}, {"name": "ConeKernel", "explore": 0.1}),
        ({"policy": {}, "metrics": [{"name": f"m{i}"} for i in range(2)]}, {"name": "ConeKernel"}),
        (
            {"arms": [f"a{i}" for i in range(126)], "metrics": [{"name": f"m{i}"} for i in range(8)]},
            {"name": "ConeTree"},
        ),
        ({"policy": "ParetoUCB1"}, "ParetoUCB1"),
        ({"policy": {"preset": "sound"}}, {"preset": "sound"}),  # a setting of the tree, as ever
        ({"policy": {"name": "ConeTree"}}, {"name": "ConeTree"}),
    ],
)
def test_it_is_written_down(run, given, policy):
    for _ in range(2):  # again is a no-op
        run.create(declared(**given))
        assert run.describe()["declaration"] == {**declared(**given), "policy": policy}
    with pytest.raises(ConflictError):
        run.create(declared(**given, seed=1))


def test_who_names_it_declares_the_same(run):
    run.create(declared())
    run.create(declared(policy={"name": "ConeKernel"}))
    with pytest.raises(ConflictError):
        run.create(declared(policy="ConeTree"))


def test_experiments_that_began_without_a_name_keep_the_tree(run):
    experiment = Experiment.from_dict(declared())
    with run.ledger.transaction(run.store, now=0) as transaction:
        state = State(experiment, experiment.arms)
        assert transaction.begin(state)
        transaction.append(state, Created(transaction.time(state), experiment.declaration, "0.1.0"))
    run.create(declared())  # a no-op
    assert run.describe()["declaration"] == declared()
    run.decide([{"id": "first", "context": {}}])
    with run.ledger.transaction(run.store, now=1) as transaction:
        assert type(transaction.state("checkout").policy).__name__ == "ConeTree"


def test_what_is_not_known_of_a_metric_is_null(run):
    """Survival comes in after a year: until then nobody can say who is on the front, and JSON knows no nan."""
    run.create(declared(arms=["a", "b", "c"], metrics=[{"name": "m"}, {"name": "survival"}]))
    for i in range(90):
        arm = run.decide([{"id": f"d{i}"}])[0]["arm"]
        run.tell(f"d{i}", m={"a": 1.0, "b": 2.0, "c": 0.0}[arm] + i % 3 / 10)
    told, front = run.explain({}), run.front({})
    json.dumps([told, front], allow_nan=False)
    assert front["chances"] == {"a": None, "b": None, "c": None}
    for arm in told["front"]:
        assert isinstance(arm["estimates"]["m"]["mean"], float)
        assert arm["estimates"]["survival"] == {"mean": None, "radius": None}
    assert [arm["leads"][1] for arm in told["beaten"]] == [None] * len(told["beaten"])
    assert told["learned"] == {"m": 90, "survival": 0}
