"""Uniform allocation: every dose equally often, whatever was seen; what adaptive designs are to be compared with."""

from __future__ import annotations

from dataclasses import dataclass

from conebandit.experiment.rules import Rule
from conebandit.studies.trials.boin12 import Boin12
from conebandit.studies.trials.conduct import EFFICACY, TOXICITY, Conduct, Trial, for_everybody
from conebandit.studies.trials.counts import Counts, select
from conebandit.studies.trials.guard import Guard


@dataclass(frozen=True)
class Uniform:
    """Doses in random order, each once in every block of as many patients as there are doses.

    In the end a dose is selected as in BOIN12, so that the two differ by their allocation alone: doses that BOIN12
    would close are not selected.

    Attributes
    ----------
    rules
        Safety rules.
    escalate
        A dose may be given when so many patients have had the one below it; 0 for any dose at any time.
    """

    rules: tuple[Rule, ...] = ()
    escalate: int = 0

    def conduct(self, trial: Trial) -> Conduct:
        """Conduct a trial."""
        guard, counts, given = Guard(self.rules, trial.n_doses, self.escalate), Counts(trial.n_doses), list[int]()
        for outcome, lot in zip(trial.outcomes, trial.lots, strict=True):
            open_ = guard.open()
            if not open_:
                break
            fewest = min(guard.given[dose] for dose in open_)
            behind = [dose for dose in open_ if guard.given[dose] == fewest]
            dose = behind[int(lot * len(behind))]
            given.append(dose)
            seen = outcome[dose]
            counts.add(dose, efficacy=bool(seen[EFFICACY]), toxicity=bool(seen[TOXICITY]))
            guard.see(dose, seen)
        closed = Boin12(trial.n_doses, trial.limits, trial.utility).closed(counts) | guard.closed
        return for_everybody(trial, given, closed, select(counts, closed, trial.limits, trial.utility))
