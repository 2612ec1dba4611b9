"""Metrics of a declaration: values become rewards, and tables are read or refused."""

import pytest

from conebandit.experiment.declaration import Experiment
from conebandit.experiment.errors import InvalidError
from conebandit.experiment.metrics import Metric, read_metrics
from conebandit.experiment.policy import make_policy


def test_costs_become_rewards():
    assert Metric("revenue").reward(-3.0) == -3.0
    assert Metric("latency", "min", worst=2000.0).reward(300.0) == 1700.0
    assert Metric("latency", "min", worst=2000.0).reward(5000.0) == 0.0


def test_metrics_are_read_from_tables():
    given = [{"name": "m"}, {"name": "n", "direction": "min", "worst": 9, "window": "2h", "default": 1}]
    assert read_metrics(given) == (Metric("m"), Metric("n", "min", worst=9.0, window=7200.0, default=1.0))


@pytest.mark.parametrize(
    ("metric", "says"),
    [
        ({"name": "m", "direction": "min"}, "direction 'min' needs 'worst'"),
        ({"name": "m", "worst": 3}, "'max' has none"),
        ({"name": "m", "default": 3}, "so it needs a 'window'"),
        ({"name": "m", "window": True}, "window must be a time above 0"),
        ({"name": "m", "window": 0}, "window must be a time above 0"),
        ({"name": "m", "units": "\n"}, "units must be a text of 1 to 32 printable characters"),
        ({"name": "m", "resolution": -1}, "resolution must be at least 0"),
        ({"name": "m", "range": [1]}, "range must be a list of two numbers"),
        ({"name": "m", "range": [1, 1]}, "range: the lowest must be below the highest"),
    ],
)
def test_bad_metrics_are_refused(metric, says):
    with pytest.raises(InvalidError, match=rf"metrics\[0\].*{says}"):
        read_metrics([metric])


def test_units_resolution_and_range():
    given = [{"name": "m", "direction": "min", "range": [0, 9], "units": "% of all", "resolution": 0.5}]
    [metric] = read_metrics(given)
    assert metric == Metric("m", "min", worst=9.0, units="% of all", resolution=0.5, range=(0.0, 9.0))
    assert metric.value(metric.reward(4.0)) == metric.check(4) == 4.0
    with pytest.raises(InvalidError, match=r"'m' must lie in its range, 0 to 9; got 10.0. Is it in other units"):
        metric.check(10)


def test_the_resolution_of_metrics_is_that_of_the_policy():
    declared = {"id": "e", "arms": ["a", "b"], "metrics": [{"name": "m", "resolution": 0.5}, {"name": "n"}]}
    assert make_policy(Experiment.from_dict(declared), ["a", "b"]).resolution.tolist() == [0.5, 0.0]
    both = Experiment.from_dict({**declared, "policy": {"resolution": 0.1}})
    with pytest.raises(InvalidError, match="once for the policy, but not both"):
        make_policy(both, ["a", "b"])
