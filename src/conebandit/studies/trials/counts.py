"""What was seen under each dose of a trial, and the dose that is chosen from it in the end."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from conebandit.studies.trials.conduct import Choice, Limits, Utility
from conebandit.validate.arrays import FloatArray


class Counts:
    """Numbers of patients under each dose: treated, with efficacy, with toxicity, with both.

    Examples
    --------
    >>> counts = Counts(2)
    >>> counts.add(0, efficacy=True, toxicity=False)
    >>> counts.add(0, efficacy=False, toxicity=False)
    >>> counts.treated, counts.worth(0, Utility(both=60.0, neither=40.0))
    ([2, 0], 1.4)
    """

    def __init__(self, n_doses: int) -> None:
        self.treated = [0] * n_doses
        self.effective = [0] * n_doses
        self.toxic = [0] * n_doses
        self.both = [0] * n_doses

    def __len__(self) -> int:
        return len(self.treated)

    def add(self, dose: int, *, efficacy: bool, toxicity: bool) -> None:
        """One more patient."""
        self.treated[dose] += 1
        self.effective[dose] += efficacy
        self.toxic[dose] += toxicity
        self.both[dose] += efficacy and toxicity

    def worth(self, dose: int, utility: Utility) -> float:
        """The sum of the utilities of the patients of a dose, each from 0 to 1."""
        both = self.both[dose]
        alone = self.effective[dose] - both
        neither = self.treated[dose] - self.effective[dose] - self.toxic[dose] + both
        return (100.0 * alone + utility.both * both + utility.neither * neither) / 100.0

    def key(self) -> tuple[tuple[int, ...], ...]:
        """All numbers: what follows from them can be kept under this key."""
        return tuple(self.treated), tuple(self.effective), tuple(self.toxic), tuple(self.both)


def isotonic(values: Sequence[float], weights: Sequence[float]) -> FloatArray:
    """The non-decreasing numbers closest to these in weighted squares, by pooling neighbours that violate the order.

    Examples
    --------
    >>> isotonic([0.1, 0.4, 0.2, 0.5], [1.0, 1.0, 3.0, 1.0]).tolist()
    [0.1, 0.25, 0.25, 0.5]
    """
    pools: list[tuple[float, float, int]] = []  # mean, weight, how many
    for value, weight in zip(values, weights, strict=True):
        pools.append((value, weight, 1))
        while len(pools) > 1 and pools[-2][0] >= pools[-1][0]:
            (a, wa, na), (b, wb, nb) = pools[-2:]
            pools[-2:] = [((a * wa + b * wb) / (wa + wb), wa + wb, na + nb)]
    return np.repeat([pool[0] for pool in pools], [pool[2] for pool in pools])


def select(counts: Counts, closed: NDArray[np.bool_], limits: Limits, utility: Utility) -> Choice | None:
    """The dose that BOIN12 selects when a trial is over; None if there is none.

    Toxicity must not fall with the dose: rates are pooled until they do not. Of the doses that were given, the one
    whose rate is closest to the limit is the highest that is tolerated. Up to that one, the dose with the largest
    estimated utility (the posterior mean, with a uniform prior) is selected, unless it is closed.
    """
    tried = [dose for dose, n in enumerate(counts.treated) if n]
    if not tried:
        return None
    rates = [(counts.toxic[dose] + 0.05) / (counts.treated[dose] + 0.1) for dose in tried]
    pooled = isotonic(rates, [counts.treated[dose] + 0.1 for dose in tried])
    # Of equal rates below the limit the highest dose is the tolerated one, of equal ones above it the lowest.
    tolerated = int(np.abs(pooled + 1e-10 * np.arange(len(tried)) - limits.toxicity).argmin())
    open_ = [i for i in range(tolerated + 1) if not closed[tried[i]]]
    if not open_:
        return None

    def estimated(i: int) -> float:
        return (1.0 + counts.worth(tried[i], utility)) / (2.0 + counts.treated[tried[i]])

    best = max(open_, key=estimated)
    dose = tried[best]
    return Choice(dose, counts.effective[dose] / counts.treated[dose], float(pooled[best]))
