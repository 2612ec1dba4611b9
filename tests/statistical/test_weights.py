"""Inverse-propensity estimates from logs with a floor are unbiased, and without one they are not.

A small version of ``benchmarks/weights.py``.
"""

import json
from pathlib import Path

import numpy as np
import pytest

import conebandit as cb

pytestmark = pytest.mark.untraced

RESULTS = Path(__file__).parents[2] / "benchmarks/results/weights.json"
ARMS, HORIZON, LOGS = 4, 200, 200


def errors_of_logs(kind, explore):
    """For each log the errors of the mean weight and of the value of one arm in two metrics: (logs, 3)."""
    world = cb.environments.smooth(ARMS, 2, 1, seed=7)
    errors = []
    for seed in range(LOGS):
        policy = getattr(cb, kind)(ARMS, world.cone, 1, seed=seed, explore=explore)
        run = cb.simulate(policy, world, HORIZON, seed=seed)
        weights = (run.arms == 1) / run.propensities
        value = (weights[:, None] * run.rewards).mean(axis=0)
        errors.append([weights.mean() - 1.0, *(value - world.means(run.contexts)[:, 1].mean(axis=0))])
    return np.array(errors)


def z_of(errors):
    return errors.mean(axis=0) / (errors.std(axis=0, ddof=1) / np.sqrt(len(errors)))


@pytest.mark.parametrize("kind", ["LinearParetoUCB", "ScalarisedUCB"])
def test_with_a_floor_estimates_are_unbiased(kind):
    """Six z in all, each within four standard errors: a false alarm in 4 of 10,000 runs."""
    z = z_of(errors_of_logs(kind, 0.1))
    assert np.abs(z).max() < 4.0, z


def test_without_one_they_are_far_off():
    errors = errors_of_logs("LinearParetoUCB", 0.0)
    assert z_of(errors).max() < -10.0, "where the arm cannot be played its rewards are missing"
    assert errors[:, 0].mean() < -0.2


def test_so_say_the_results_on_file():
    """18 z with a floor: one of them is beyond three in 5 % of measurements, if nothing is wrong."""
    rows = json.loads(RESULTS.read_text())["rows"]
    floor = [row for row in rows if row["explore"] > 0]
    assert len(floor) == 6
    assert all(row["largest"] < 3.0 and abs(row["its z"]) < 2.0 for row in floor)
    assert all(row["largest"] > 10.0 for row in rows if row["explore"] == 0)
