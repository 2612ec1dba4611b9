"""Averages over seeds and paired differences between policies, with intervals.

Intervals are Student's t over seeds: they rely on averages over seeds that are close to normal, and on seeds that are
independent of each other, as those of a study are. A difference is *paired*: policies are compared seed by seed, where
both meet the same contexts and the same luck (common random numbers), and only seeds that both have are used.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from conebandit.validate.arrays import FloatArray

LEVEL = 0.95

Cell = tuple[str, str]  # environment, policy
BySeed = dict[int, float]


class Average(NamedTuple):
    """A series of a policy in an environment, averaged over seeds, with its interval."""

    environment: str
    policy: str
    series: str
    seeds: int
    mean: float
    low: float
    high: float


class Paired(NamedTuple):
    """A series of ``policy`` minus that of ``reference``, seed by seed.

    ``low`` to ``high`` is the interval of this difference alone; those from ``low_all`` to ``high_all`` hold together
    for all differences that were asked for at once (Bonferroni).
    """

    environment: str
    policy: str
    reference: str
    series: str
    seeds: int
    difference: float
    low: float
    high: float
    low_all: float
    high_all: float

    @property
    def decided(self) -> str:
        """Which way it is decided by the interval that holds together with the others; "open" if it is not.

        "same" if there is no difference under any of two or more seeds.
        """
        if self.low_all == self.high_all == 0.0:
            return "same"
        if self.high_all < 0.0:
            return "lower"
        return "higher" if self.low_all > 0.0 else "open"


def half_width(values: FloatArray, level: float = LEVEL) -> FloatArray:
    """Half the width of Student's t interval for the mean over the first axis; nan with fewer than two values.

    Examples
    --------
    >>> float(half_width(np.array([1.0, 2.0, 3.0])).round(3))
    2.484
    """
    from scipy.stats import t  # noqa: PLC0415  (takes long to load)

    if not 0.0 < level < 1.0:
        raise ValueError(f"level must be between 0 and 1; got {level}.")
    n = len(values)
    if n < 2:
        return np.full(values.shape[1:], np.nan)
    with np.errstate(invalid="ignore"):  # a series may be infinite
        return np.asarray(t.ppf(0.5 + level / 2.0, n - 1) * values.std(axis=0, ddof=1) / np.sqrt(n))


def averages(cells: Mapping[Cell, BySeed], series: str, *, level: float = LEVEL) -> list[Average]:
    """Averages over seeds, cell by cell."""
    found = []
    for (environment, policy), values in cells.items():
        array = np.array(list(values.values()))
        mean, half = _mean(array), float(half_width(array, level))
        found.append(Average(environment, policy, series, len(array), mean, mean - half, mean + half))
    return found


def paired(
    first: Mapping[Cell, BySeed],
    second: Mapping[Cell, BySeed],
    pairs: Sequence[tuple[Cell, Cell]],
    series: str,
    *,
    level: float = LEVEL,
    at_once: int,
) -> list[Paired]:
    """Differences of the first cell of every pair, in ``first``, minus the second one, in ``second``.

    ``at_once`` is how many differences, over all series, are to hold together. Pairs without a seed in common are left
    out.

    Examples
    --------
    >>> cells = {("world", "a"): {0: 1.0, 1: 2.0, 2: 4.0}, ("world", "b"): {0: 0.5, 1: 1.5, 3: 9.0}}
    >>> found = paired(cells, cells, [(("world", "a"), ("world", "b"))], "play", at_once=1)[0]
    >>> found.seeds, found.difference
    (2, 0.5)
    """
    found = []
    for mine, theirs in pairs:
        a, b = first.get(mine, {}), second.get(theirs, {})
        seeds = sorted(a.keys() & b.keys())
        if not seeds:
            continue
        with np.errstate(invalid="ignore"):
            values = np.array([a[s] for s in seeds]) - np.array([b[s] for s in seeds])
        mean = _mean(values)
        alone, together = (float(half_width(values, 1.0 - (1.0 - level) / n)) for n in (1, at_once))
        ends = (mean - alone, mean + alone, mean - together, mean + together)
        found.append(Paired(mine[0], mine[1], theirs[1], series, len(seeds), mean, *ends))
    return found


def _mean(values: FloatArray) -> float:
    with np.errstate(invalid="ignore"):
        return float(values.mean())
