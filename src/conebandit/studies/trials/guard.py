"""Safety rules in a simulated trial: the rules of the service, each bound watched by the same bets.

Here all outcomes of a patient are known before the next one is treated.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from conebandit.diagnose.bound_watch import BoundWatch
from conebandit.experiment.metrics import Metric
from conebandit.experiment.rules import BoundRule, BurnInRule, CapRule, Rule, read_rules
from conebandit.studies.trials.conduct import EFFICACY, TOXICITY
from conebandit.validate.arrays import FloatArray

METRICS = (Metric("efficacy", "max", range=(0.0, 1.0)), Metric("toxicity", "min", worst=1.0, range=(0.0, 1.0)))
COLUMNS = {"efficacy": EFFICACY, "toxicity": TOXICITY}
NOTHING_GIVEN = "no dose"  # what is left when all doses are closed


def dose_names(n_doses: int) -> list[str]:
    """What rules call the doses.

    Examples
    --------
    >>> dose_names(2)
    ['dose 1', 'dose 2']
    """
    return [f"dose {k}" for k in range(1, n_doses + 1)]


def declared_rules(given: Any, n_doses: int) -> tuple[Rule, ...]:
    """Rules as for an experiment of the service, on the metrics efficacy and toxicity and arms ``dose 1``, ...

    Examples
    --------
    >>> for rule in declared_rules([{"metric": "toxicity", "above": 0.3, "error": 0.05, "then": "suspend"}], 3):
    ...     print(rule, rule.needed)
    if toxicity is above 0.3 (each arm, error 0.05): not this arm 60.0
    """
    rules = read_rules(given, dose_names(n_doses), METRICS, NOTHING_GIVEN)
    for rule in rules:
        if isinstance(rule, CapRule) and rule.period is not None:
            raise ValueError(f"rules: {rule.name!r} has a period, but patients of simulated trials have no dates.")
    return rules


class Guard:
    """Which doses may be given to the next patient.

    Parameters
    ----------
    rules
        Of the trial.
    n_doses
        How many doses there are.
    escalate
        A dose may be given when so many patients have had the one below it; 0 for any dose at any time.
    """

    def __init__(self, rules: Sequence[Rule], n_doses: int, escalate: int = 0) -> None:
        self.rules, self.escalate, self._names = rules, escalate, dose_names(n_doses)
        self.given = [0] * n_doses
        self.closed = np.zeros(n_doses, dtype=np.bool_)  # by a bound
        self._watches: dict[tuple[str, int | None], BoundWatch] = {}
        self._caps = [rule for rule in rules if isinstance(rule, CapRule)]
        self.burn_in = max((rule.decisions for rule in rules if isinstance(rule, BurnInRule)), default=0)

    def see(self, dose: int, outcome: FloatArray) -> bool:
        """A patient was given a dose, with this outcome; whether something has changed for the next one."""
        before = self.open()
        self.given[dose] += 1
        for rule in self.rules:
            if isinstance(rule, BoundRule) and rule.watches(self._names[dose]):
                self._bet(rule, dose, float(outcome[COLUMNS[rule.metric]]))
        return self.open() != before

    def _bet(self, rule: BoundRule, dose: int, value: float) -> None:
        key = (rule.name, None if rule.arms is None else dose)
        watch = self._watches.setdefault(key, BoundWatch(rule, 0))
        patient = sum(self.given)
        watch.decide(patient)
        watch.settle(patient, value)
        if watch.fired is not None:
            # With a dose that is closed before enough patients have had it, all above it are out of reach.
            above = self.given[dose] < self.escalate
            self.closed[slice(None) if rule.then != "suspend" else slice(dose, None if above else dose + 1)] = True

    def open(self) -> list[int]:
        """Doses that may be given; none when the trial is over."""
        full = {rule.arm for rule in self._caps if self._counted(rule) >= rule.at_most}
        if None in full:
            return []
        found = []
        for dose, name in enumerate(self._names):
            if self.escalate and dose and self.given[dose - 1] < self.escalate:
                break
            if not self.closed[dose] and name not in full:
                found.append(dose)
        return found

    def _counted(self, rule: CapRule) -> int:
        return sum(self.given) if rule.arm is None else self.given[self._names.index(rule.arm)]

    @property
    def watches_nothing(self) -> bool:
        """Whether any dose may be given at any time."""
        return not self.rules and not self.escalate


def drawn(doses: Sequence[int], lot: float, weights: Sequence[float] | None = None) -> int:
    """One of the doses, by a number from 0 to 1; each with the same chance, or by weights.

    Examples
    --------
    >>> drawn([0, 2, 3], 0.5), drawn([0, 2, 3], 0.5, [3.0, 1.0, 1.0])
    (2, 0)
    """
    shares = np.ones(len(doses)) if weights is None else np.array(weights)
    ends = np.cumsum(shares / shares.sum())
    return doses[min(int(np.searchsorted(ends, lot, side="right")), len(doses) - 1)]
