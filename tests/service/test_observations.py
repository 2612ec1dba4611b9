"""What ``explain`` says of how much was learned: decisions, not values, of each metric and of any."""

import math
import random

import numpy as np
import pytest

from conebandit.experiment.declaration import Experiment
from conebandit.experiment.rows import Rows
from conebandit.service.log.replay import rebuild
from conebandit.service.log.state import State
from conebandit.service.stores.base import open_store
from tests.service.conftest import DECLARATION
from tests.service.driver import HOUR, PHONE, Driver
from tests.service.plain_fold import plain_fold

METRICS = [
    {"name": "revenue"},
    {"name": "latency", "direction": "min", "worst": 10.0, "window": "1h", "default": 10.0},
    {"name": "returned", "window": "2h"},
    {"name": "rating", "window": "3h", "default": 1.0},
    {"name": "visits", "window": "1h", "default": 0.0},
]


@pytest.fixture
def run(address, declaration):
    store = open_store(address)
    driver = Driver(store)
    driver.create({**declaration, "metrics": METRICS})
    yield driver
    store.close()


def learned(run):
    return run.explain(PHONE)["learned"]


def observations(run):
    return run.explain(PHONE)["observations"]


def test_a_decision_counts_once_for_each_metric(run):
    none = dict.fromkeys((metric["name"] for metric in METRICS), 0)
    run.ask("a")
    assert learned(run) == none
    run.tell("a", revenue=1.0)
    run.tell("a", latency=2.0)
    run.tell("a", latency=3.0)
    assert learned(run) == none | {"revenue": 1, "latency": 1}
    assert observations(run) == 1, "not two: it is one decision"
    run.now += 4 * HOUR
    run.ask("b")  # the other defaults of a count now
    assert learned(run) == none | {"revenue": 1, "latency": 1, "rating": 1, "visits": 1}
    run.now += 4 * HOUR
    run.tell("b", revenue=1.0, returned=1.0)  # which is too late
    assert learned(run) == {"revenue": 2, "latency": 2, "returned": 0, "rating": 2, "visits": 2}
    assert observations(run) == 2


def test_decisions_of_which_different_metrics_came_are_all_counted(run):
    """The largest number of any metric is 1."""
    for id_, name in (("a", "revenue"), ("b", "latency"), ("c", "returned")):
        run.ask(id_)
        run.tell(id_, **{name: 1.0})
    assert max(learned(run).values()) == 1
    assert observations(run) == 3


def test_void_decisions_are_not_counted_and_a_retraction_leaves_what_else_came(run):
    for id_ in "abc":
        run.ask(id_)
        run.tell(id_, revenue=1.0, returned=1.0)
    run.void([{"id": "a", "reason": "a test"}])
    run.retract([{"id": "b", "metrics": ["revenue"], "reason": "wrong"}])
    run.retract([{"id": "c", "metrics": ["revenue", "returned"], "reason": "wrong"}])
    assert observations(run) == 1
    run.void([{"id": "a", "void": False, "reason": "it was none"}])
    assert observations(run) == 2


def test_past_rows_are_counted_if_something_is_known_of_them():
    arms = np.array([0, 1, 2, 0])
    values = np.array([[1.0, math.nan], [math.nan, 2.0], [1.0, 2.0], [math.nan, math.nan]])
    experiment = Experiment.from_dict(DECLARATION)
    state = State(experiment, experiment.arms)
    state.learn_ahead(Rows(np.full((4, experiment.encode(PHONE).size), 0.5), arms, values))
    assert (state.learned, state.observations) == ([2, 2], 3)


def test_a_snapshot_that_does_not_tell_is_not_used(run, monkeypatch):
    run.ask("a")
    run.tell("a", revenue=1.0)
    plain = State.plain
    monkeypatch.setattr(State, "plain", lambda self: {k: v for k, v in plain(self).items() if k != "observations"})
    run.write_snapshot()
    monkeypatch.undo()
    run.ledger.forget()
    assert observations(run) == 1


@pytest.mark.untraced
@pytest.mark.parametrize("seed", range(12))
def test_they_are_those_of_the_plain_fold(run, seed):
    rng, ids = random.Random(seed), []
    for step in range(120):
        run.now += rng.choice([0, 1, HOUR // 10, HOUR // 2, HOUR, HOUR, 3 * HOUR])
        if rng.random() < 0.4 or not ids:
            ids.append(f"d{step}")
            run.ask(ids[-1])
        else:
            names = rng.sample([metric["name"] for metric in METRICS], rng.randint(1, 3))
            run.tell(rng.choice(ids[-8:]), **{name: float(rng.randint(0, 5)) for name in names})
        if step == 60 and seed % 2:
            run.retire_arm("bold")
        if step == 80 and seed % 3 == 0:
            run.write_snapshot()
            run.ledger.forget()
    told = []
    plain_fold(run.events, told)
    assert len(set(told)) == len(told), "nothing is learned twice"
    wanted = {metric["name"]: [name for name, _ in told].count(metric["name"]) for metric in METRICS}
    assert learned(run) == wanted
    seen = len({decision for _, decision in told})
    assert observations(run) == seen
    with run.store.read() as session:
        anew = rebuild(session, "checkout", session.head("checkout"), snapshots=False)
    assert (anew.learned, anew.observations) == (list(wanted.values()), seen)
