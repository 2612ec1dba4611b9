"""BOIN12: a dose for the next cohort from a table that can be printed before the trial begins.

R. Lin, Y. Zhou, F. Yan, D. Li and Y. Yuan, *BOIN12: Bayesian optimal interval phase I/II trial design for utility-based
dose finding in immunotherapy and targeted therapies*, JCO Precision Oncology 4 (2020) 1393-1402. The boundaries are
those of S. Liu and Y. Yuan, *Bayesian optimal interval designs for phase I clinical trials*, Journal of the Royal
Statistical Society C 64 (2015) 507-523. Written from what the papers say, and from what is published about the authors'
application; ``docs/trials.md`` says what it was compared with.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import betainc, betaincc

from conebandit.studies.trials.cohorts import ByCohorts
from conebandit.studies.trials.conduct import Choice, Limits, Utility
from conebandit.studies.trials.counts import Counts, select


class Boundaries(NamedTuple):
    """Up to which observed rate of toxicity a dose is clearly tolerated, and from which one on it is too toxic."""

    escalate: float
    deescalate: float


def boundaries(limit: float) -> Boundaries:
    """The boundaries of BOIN, which lead to the fewest wrong decisions between 0.6, 1 and 1.4 times the limit.

    Examples
    --------
    >>> [round(each, 3) for each in boundaries(0.35)]
    [0.276, 0.419]
    """
    low, high = 0.6 * limit, 1.4 * limit
    if not limit > 0.0 or high >= 1.0:
        raise ValueError(f"the limit of toxicity must be above 0 and below {1 / 1.4:.3f} for BOIN12; got {limit:g}.")
    escalate = math.log((1 - low) / (1 - limit)) / math.log(limit * (1 - low) / (low * (1 - limit)))
    return Boundaries(
        escalate, math.log((1 - limit) / (1 - high)) / math.log(high * (1 - limit) / (limit * (1 - high)))
    )


@dataclass(frozen=True)
class Boin12(ByCohorts):
    """BOIN12 for a number of doses.

    Attributes
    ----------
    n_doses, limits, utility
        Of the trial. The limits are the highest chance of toxicity and the lowest one of efficacy that are acceptable.
    cohort, start
        Patients of a cohort, and the dose of the first one, counted from 1.
    too_toxic, futile
        How sure one must be that a dose is beyond its limit, to close it.
    enough
        From how many patients on a dose with a rate of toxicity between the boundaries leads no higher.
    explore_at
        From how many patients at a tolerated dose on the next one is tried, if it was not yet; 0 for never.
    stop_at
        The trial is over when the next cohort would get a dose that so many patients have had; 0 for never.
    draw_ties
        Whether lots are drawn between doses that are equally desirable; else the highest of them is given.
    fall_back
        Whether the lowest dose is selected where all that are tolerated are closed, but the trial was not stopped; else
        none is. The dose that is selected then is one that may not be given.

    Examples
    --------
    >>> design = Boin12(5, Limits(toxicity=0.35, efficacy=0.25), Utility(both=60.0, neither=40.0))
    >>> round(design.benchmark, 4), round(design.desirability(3, 3.0), 3)
    (0.705, 0.753)
    """

    n_doses: int
    limits: Limits
    utility: Utility
    cohort: int = 3
    start: int = 1
    too_toxic: float = 0.95
    futile: float = 0.9
    enough: int = 6
    explore_at: int = 9
    stop_at: int = 0
    draw_ties: bool = False
    fall_back: bool = False

    @property
    def benchmark(self) -> float:
        """The utility, from 0 to 1, that doses are compared with: half way from the worst acceptable one to 1."""
        least = float(self.utility.expected(self.limits.efficacy, self.limits.toxicity)) / 100.0
        return least + (1.0 - least) / 2.0

    def desirability(self, treated: int, worth: float) -> float:
        """The chance that the utility of a dose is above the benchmark, where ``worth`` counts as so many successes."""
        return _chance_above(self.benchmark, treated, worth)

    def closed(self, counts: Counts) -> NDArray[np.bool_]:
        """Doses that are too toxic, with all above them, or not effective enough, as far as one can be sure."""
        closed = np.zeros(self.n_doses, dtype=np.bool_)
        for dose, n in enumerate(counts.treated):
            if n and _chance_above(self.limits.toxicity, n, counts.toxic[dose]) >= self.too_toxic:
                closed[dose:] = True
            if n and _chance_below(self.limits.efficacy, n, counts.effective[dose]) >= self.futile:
                closed[dose] = True
        return closed

    def finished(self, counts: Counts, dose: int) -> bool:
        """Whether enough patients have had a dose."""
        return 0 < self.stop_at <= counts.treated[dose]

    def next_dose(self, counts: Counts, dose: int, lot: float = 1.0) -> int | None:
        """The dose of the next cohort; None if the trial must stop."""
        closed = self.closed(counts).tolist()
        lower = next((k for k in range(dose - 1, -1, -1) if not closed[k]), None)
        higher = next((k for k in range(dose + 1, self.n_doses) if not closed[k]), None)
        here = None if closed[dose] else dose
        rate, (escalate, deescalate) = counts.toxic[dose] / counts.treated[dose], boundaries(self.limits.toxicity)
        if rate >= deescalate:
            return here if lower is None else lower
        explore = 0 < self.explore_at <= counts.treated[dose]
        if explore and higher is not None and not counts.treated[higher]:
            return higher
        may_rise = rate <= escalate or counts.treated[dose] < self.enough
        candidates = [k for k in (lower, here, higher if may_rise else None) if k is not None]
        return self._most_desirable(candidates, counts, lot) if candidates else None

    def _most_desirable(self, doses: list[int], counts: Counts, lot: float) -> int:
        wanted = [self.desirability(counts.treated[k], counts.worth(k, self.utility)) for k in doses]
        best = [k for k, value in zip(doses, wanted, strict=True) if value == max(wanted)]  # from low to high
        return best[min(int(lot * len(best)), len(best) - 1)] if self.draw_ties else best[-1]

    def selected(self, counts: Counts) -> Choice | None:
        """The dose that is selected in the end."""
        closed = self.closed(counts)
        choice = select(counts, closed, self.limits, self.utility)
        if choice is None and self.fall_back and any(counts.treated):
            closed[np.flatnonzero(counts.treated)[0]] = False  # now the only open one of those that are tolerated
            return select(counts, closed, self.limits, self.utility)
        return choice

    def scores(self, sizes: Sequence[int]) -> dict[tuple[int, int, int], float]:
        """The rank-based desirability scores of the paper, by numbers of patients, of toxicities and of efficacies.

        All outcomes that leave a dose open are ranked by desirability, from 1; equal ones share their ranks. It is the
        table that is printed in a protocol. It needs utilities that do not depend on who had both.
        """
        if self.utility.both + self.utility.neither != 100.0:
            raise ValueError("scores depend on more than these numbers unless both + neither is 100.")
        found = {}
        for n in sizes:
            for toxic in range(n + 1):
                for effective in range(n + 1):
                    if n and _chance_above(self.limits.toxicity, n, toxic) >= self.too_toxic:
                        continue
                    if n and _chance_below(self.limits.efficacy, n, effective) >= self.futile:
                        continue
                    worth = (self.utility.both * effective + self.utility.neither * (n - toxic)) / 100.0
                    found[n, toxic, effective] = round(self.desirability(n, worth), 12)
        values = np.array(list(found.values()))
        below, upto = (np.searchsorted(np.sort(values), values, side=side) for side in ("left", "right"))
        return dict(zip(found, ((below + 1 + upto) / 2.0).tolist(), strict=True))


@lru_cache(maxsize=100_000)
def _chance_above(bound: float, n: int, successes: float) -> float:
    """That a chance is above a bound, after so many successes among ``n``, with a uniform prior."""
    return float(betaincc(1.0 + successes, 1.0 + n - successes, bound))


@lru_cache(maxsize=100_000)
def _chance_below(bound: float, n: int, successes: float) -> float:
    """That a chance is below a bound."""
    return float(betainc(1.0 + successes, 1.0 + n - successes, bound))
