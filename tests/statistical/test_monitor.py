"""The promise of the monitor: without a change, an alarm *ever* with probability at most alpha.

A small version of ``benchmarks/shift.py`` with a larger alpha, so that a broken promise shows: with fresh wealth that
never runs dry (1/1024 in every round) 86 to 107 of 200 streams raise an alarm (tried once).
"""

import numpy as np
import pytest
from scipy import stats

import conebandit as cb
from conebandit.environments import shift

pytestmark = pytest.mark.untraced

RUNS, ROUNDS, ALPHA = 200, 5000, 0.2


def correlated(rng, n):
    return np.repeat(rng.random((n, 1)), 2, axis=1) + rng.normal(0, 0.05, (n, 2))


def few_values(rng, n):
    return rng.choice([0.0, 1.0, 2.0], (n, 2), p=[0.6, 0.3, 0.1])


STATIONARY = {
    "power law": lambda rng, n: shift.power_law(3).sample(rng, n),
    "correlated": correlated,
    "few values": few_values,
}


@pytest.mark.parametrize("name", STATIONARY)
def test_false_alarms_are_at_most_alpha(name):
    alarms = 0
    for seed in range(RUNS):
        x = STATIONARY[name](np.random.default_rng(seed), ROUNDS)
        monitor = cb.ShiftMonitor(x.shape[1], alpha=ALPHA, reference=63, seed=seed)
        alarms += monitor.update_many(x)
    print(f"{name}: {alarms} of {RUNS} (allowed: {ALPHA:.0%})")
    assert alarms <= stats.binom.ppf(1 - 1e-4, RUNS, ALPHA)
