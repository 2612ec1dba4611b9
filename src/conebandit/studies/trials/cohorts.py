"""Designs that treat cohorts, one dose after the other, and look at nothing but what was seen under each dose."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
from numpy.typing import NDArray

from conebandit.studies.trials.conduct import EFFICACY, TOXICITY, Choice, Conduct, Trial, for_everybody
from conebandit.studies.trials.counts import Counts


class ByCohorts(ABC):
    """Such a design. Its rules count doses from 0, its settings from 1.

    Attributes
    ----------
    cohort, start
        Patients of a cohort, and the dose of the first one.
    """

    cohort: int
    start: int

    @abstractmethod
    def next_dose(self, counts: Counts, dose: int, lot: float = 1.0) -> int | None:
        """The dose of the next cohort, after one that got ``dose``; None if no dose may be given any more.

        ``lot``, from 0 to 1, decides between equally good doses in a design that draws lots.
        """

    @abstractmethod
    def closed(self, counts: Counts) -> NDArray[np.bool_]:
        """Which doses may not be given."""

    @abstractmethod
    def selected(self, counts: Counts) -> Choice | None:
        """The dose that is selected in the end, if there is one."""

    def finished(self, counts: Counts, dose: int) -> bool:
        """Whether enough patients have had the dose that the next cohort would get; never, by default."""
        return False

    def conduct(self, trial: Trial) -> Conduct:
        """Conduct a trial; the last cohort is smaller if the number of patients is not a multiple."""
        counts, given, dose = Counts(trial.n_doses), list[int](), self.start - 1
        outcomes = trial.outcomes.astype(np.bool_).tolist()
        while len(given) < trial.size:
            for patient in range(len(given), min(len(given) + self.cohort, trial.size)):
                outcome = outcomes[patient][dose]
                counts.add(dose, efficacy=outcome[EFFICACY], toxicity=outcome[TOXICITY])
                given.append(dose)
            following = self.next_dose(counts, dose, float(trial.lots[len(given) - 1]))
            if following is None:
                return for_everybody(trial, given, np.ones(trial.n_doses, dtype=np.bool_), None)
            dose = following
            if self.finished(counts, dose):
                break
        return for_everybody(trial, given, self.closed(counts), self.selected(counts))
