"""Averages of rewards, kept as counts and sums, since some metrics of a reward may be unknown (nan)."""

from __future__ import annotations

import numpy as np

from conebandit.kernels.compile import in_place
from conebandit.kernels.types import Floats, Ints


@in_place
def add_reward(counts: Ints, totals: Floats, reward: Floats) -> None:
    """Add the known metrics of one reward to the counts and sums (M,) of its arm."""
    for m in range(reward.size):
        if not np.isnan(reward[m]):
            counts[m] += 1
            totals[m] += reward[m]


@in_place
def clear_estimates(means: Floats, radii: Floats) -> None:
    """Estimates of which nothing is known: nan means, infinite radii."""
    means[:] = np.nan
    radii[:] = np.inf


@in_place
def ucb1(counts: Ints, totals: Floats, rounds: int, width: float, means: Floats, radii: Floats) -> None:
    """Means and bonuses of Pareto-UCB1 (Drugan and Nowé 2013) for all arms (K, M), after so many rounds."""
    arms, objectives = means.shape
    log_term = np.log(rounds * (objectives * arms) ** 0.25)
    for k in range(arms):
        for m in range(objectives):
            n = counts[k, m]
            means[k, m] = totals[k, m] / n if n > 0 else np.nan
            radii[k, m] = width * np.sqrt(2.0 * log_term / n) if n > 0 else np.inf
