"""Metrics of a declaration: values become rewards, and tables are read or refused."""

import pytest

from conebandit.experiment.errors import InvalidError
from conebandit.experiment.metrics import Metric, read_metrics


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
    ],
)
def test_bad_metrics_are_refused(metric, says):
    with pytest.raises(InvalidError, match=rf"metrics\[0\].*{says}"):
        read_metrics([metric])
