"""What a design meets, and what it does: a trial with all its potential outcomes, and its conduct."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from conebandit.validate.arrays import FloatArray

NO_DOSE = -1
EFFICACY, TOXICITY = 0, 1  # columns of outcomes and of estimates


class Limits(NamedTuple):
    """Which doses are acceptable: those with a chance of toxicity of at most, and of efficacy of at least so much."""

    toxicity: float
    efficacy: float


class Utility(NamedTuple):
    """What the four outcomes of a patient are worth: efficacy alone 100, toxicity alone 0, and these two.

    Examples
    --------
    >>> float(Utility(both=60.0, neither=40.0).expected(0.5, 0.3))
    58.0
    """

    both: float
    neither: float

    def expected(
        self, efficacy: FloatArray | float, toxicity: FloatArray | float, together: FloatArray | float | None = None
    ) -> FloatArray:
        """The expected utility, from the chances of efficacy, of toxicity, and of both together.

        Without the last one the two are taken to be independent. Where ``both + neither`` is 100, it does not matter.
        """
        both = np.multiply(efficacy, toxicity) if together is None else together
        neither = 1.0 - np.asarray(efficacy) - toxicity + both
        return np.asarray(100.0 * (np.asarray(efficacy) - both) + self.both * both + self.neither * neither)


@dataclass(frozen=True)
class Trial:
    """The patients of one simulated trial. Every design meets the same ones.

    Attributes
    ----------
    seed
        Of the trial; it also enters the draws of policies.
    patients
        Shape (n, d), covariates in the order of enrolment.
    outcomes
        Shape (n, K, 2), of every patient under every dose: whether there would be efficacy, and toxicity; 0 or 1.
    lots
        Shape (n,), numbers from 0 to 1 that decide where a design draws lots.
    fresh
        Shape (m, d), patients who want a dose recommended when the trial is over.
    limits, utility
        Of the trial.
    """

    seed: int
    patients: FloatArray
    outcomes: FloatArray
    lots: FloatArray
    fresh: FloatArray
    limits: Limits
    utility: Utility

    @property
    def size(self) -> int:
        """Number of patients, n."""
        return len(self.patients)

    @property
    def n_doses(self) -> int:
        """Number of doses, K."""
        return int(self.outcomes.shape[1])


@dataclass(frozen=True)
class Conduct:
    """What a design has done.

    Attributes
    ----------
    doses
        The dose of every patient who was treated, in order of enrolment; counted from 0.
    closed
        Shape (K,), which doses may not be given any more at the end, as too toxic or of no use.
    recommended
        Shape (m,), the dose for each of the fresh patients; ``NO_DOSE`` for none.
    estimates
        Shape (m, 2), the estimated chances of efficacy and of toxicity under that dose; nan for none.
    """

    doses: NDArray[np.int64]
    closed: NDArray[np.bool_]
    recommended: NDArray[np.int64]
    estimates: FloatArray

    @property
    def stopped(self) -> bool:
        """Whether the trial has ended with all doses closed."""
        return bool(self.closed.all())


class Design(Protocol):
    """How a trial is conducted: anything with this method."""

    def conduct(self, trial: Trial) -> Conduct:
        """Treat the patients of a trial one after the other, and recommend doses."""
        ...


class Choice(NamedTuple):
    """A dose for everybody, with the estimated chances of efficacy and of toxicity."""

    dose: int
    efficacy: float
    toxicity: float


def for_everybody(trial: Trial, doses: list[int], closed: NDArray[np.bool_], choice: Choice | None) -> Conduct:
    """The conduct of a design that recommends the same dose, or none, to all patients."""
    m = len(trial.fresh)
    dose, *estimates = choice or (NO_DOSE, np.nan, np.nan)
    return Conduct(np.array(doses, dtype=np.int64), closed, np.full(m, dose), np.tile(np.array(estimates), (m, 1)))
