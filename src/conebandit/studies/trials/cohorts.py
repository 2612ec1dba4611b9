"""Designs that treat cohorts, one dose after the other, and look at nothing but what was seen under each dose."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from conebandit.studies.trials.conduct import EFFICACY, TOXICITY, Choice, Conduct, Trial, for_everybody
from conebandit.studies.trials.counts import Counts


class Escalation(Protocol):
    """The rules of such a design. Doses are counted from 0."""

    @property
    def cohort(self) -> int:
        """Patients of a cohort."""
        ...

    @property
    def first(self) -> int:
        """The dose of the first cohort."""
        ...

    def next_dose(self, counts: Counts, dose: int) -> int | None:
        """The dose of the next cohort, after one that got ``dose``; None if no dose may be given any more."""
        ...

    def finished(self, counts: Counts, dose: int) -> bool:
        """Whether enough patients have had the dose that the next cohort would get."""
        ...

    def closed(self, counts: Counts) -> NDArray[np.bool_]:
        """Which doses may not be given."""
        ...

    def selected(self, counts: Counts) -> Choice | None:
        """The dose that is selected in the end, if there is one."""
        ...


def conduct(design: Escalation, trial: Trial) -> Conduct:
    """Conduct a trial; the last cohort is smaller if the number of patients is not a multiple."""
    counts, given, dose = Counts(trial.n_doses), list[int](), design.first
    outcomes = trial.outcomes.astype(np.bool_).tolist()
    while len(given) < trial.size:
        for patient in range(len(given), min(len(given) + design.cohort, trial.size)):
            outcome = outcomes[patient][dose]
            counts.add(dose, efficacy=outcome[EFFICACY], toxicity=outcome[TOXICITY])
            given.append(dose)
        following = design.next_dose(counts, dose)
        if following is None:
            return for_everybody(trial, given, np.ones(trial.n_doses, dtype=np.bool_), None)
        dose = following
        if design.finished(counts, dose):
            break
    return for_everybody(trial, given, design.closed(counts), design.selected(counts))
