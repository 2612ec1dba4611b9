"""Regions of judged policies hold as often as they say, on logs whose truth is known. Seeds are fixed."""

import numpy as np
import pytest
from scipy.stats import binom

import conebandit as cb

pytestmark = pytest.mark.untraced

LOGS, ROWS = 200, 400
ERROR = 1e-4  # probability that a right procedure, which holds in 92 to 98 % of all logs, fails a test here
LEAST, MOST = binom.ppf(ERROR, LOGS, 0.92) / LOGS, binom.ppf(1 - ERROR, LOGS, 0.98) / LOGS


def means(x):
    """Two arms, two metrics, (n, 2, 2)."""
    return np.stack([np.stack([x, x**2], axis=1), np.stack([1 - x, (1 - x) ** 2], axis=1)], axis=1)


TRUTH = np.array([[1 / 2, 1 / 3], [1 / 2, 1 / 3], [3 / 4, 7 / 12]])  # of both arms, and of the first one where x > 1/2
POLICIES = {"first": 0, "second": 1, "better": lambda x: np.eye(2)[(x[:, 0] <= 0.5).astype(int)]}


def fixed(rng):
    """Probabilities follow the context."""
    x = rng.random(ROWS)
    chance = 0.2 + 0.6 * x
    arms = (rng.random(ROWS) > chance).astype(int)
    rewards = means(x)[np.arange(ROWS), arms] + rng.normal(0, 0.3, (ROWS, 2))
    chances = np.column_stack([chance, 1 - chance])
    return x, arms, rewards, chances


def adaptive(rng):
    """The arm whose mean reward, over both metrics, is larger so far is played with probability 0.8: arms are tied."""
    x, lots = rng.random(ROWS), rng.random(ROWS)
    outcomes = means(x) + rng.normal(0, 0.3, (ROWS, 2, 2))
    sums, counts = np.zeros(2), np.full(2, 1e-9)
    arms, chances = np.empty(ROWS, dtype=int), np.empty((ROWS, 2))
    for i in range(ROWS):
        average = sums / counts
        chances[i] = 0.5 if i < 10 else (0.8, 0.2) if average[0] > average[1] else (0.2, 0.8)
        arms[i] = lots[i] > chances[i, 0]
        sums[arms[i]] += outcomes[i, arms[i]].sum()
        counts[arms[i]] += 1
    return x, arms, outcomes[np.arange(ROWS), arms], chances


@pytest.mark.parametrize(
    ("make", "estimator", "known"),
    [(fixed, "dr", True), (fixed, "snips", True), (adaptive, "stabilised", True), (adaptive, "stabilised", False)],
)
def test_regions_hold_as_often_as_they_say(make, estimator, known):
    single, together, wrong = [], [], 0
    for seed in range(LOGS):
        x, arms, rewards, chances = make(np.random.default_rng(seed))
        played = chances[np.arange(ROWS), arms]
        log = cb.Log(
            x[:, None],
            arms,
            rewards,
            played,
            cb.Cone.orthant(2),
            probabilities=chances if known else None,
            adaptive=make is adaptive,
        )
        found = cb.evaluate(log, POLICIES, estimator=estimator)
        away = np.abs(found.values - TRUTH)
        single.append(away <= found.radii(simultaneous=False))
        together.append((away <= found.radii()).all())
        # The third policy dominates the others, which are tied.
        wrong += found.standings["better"] == "off" or "on" in (found.standings["first"], found.standings["second"])
    assert LEAST <= np.mean(together) <= MOST
    for share in np.mean(single, axis=0).ravel():
        assert LEAST <= share <= MOST
    assert wrong <= binom.ppf(1 - ERROR, LOGS, 0.05)
