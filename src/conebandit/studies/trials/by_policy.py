"""Trials that a policy conducts: it chooses the dose of every patient by covariates, within the safety rules."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from conebandit.experiment.rules import Rule
from conebandit.policies.base import Policy
from conebandit.policies.compiled import CompiledPolicy, estimates
from conebandit.simulate import step_by_step
from conebandit.studies.trials.conduct import EFFICACY, NO_DOSE, TOXICITY, Conduct, Trial
from conebandit.studies.trials.guard import Guard, drawn
from conebandit.validate.arrays import FloatArray


@dataclass(frozen=True)
class ByPolicy:
    """A policy that learns from efficacy and from the absence of toxicity, patient by patient.

    In the end every fresh patient is recommended a dose of their own: of the doses that were given and are not closed,
    and of which the estimates for this patient are within the limits of the trial, the one with the largest estimated
    utility; none if there is none.

    Attributes
    ----------
    policy
        It is copied; the copy learns.
    rules
        Safety rules; a burn-in among them.
    escalate
        A dose may be given when so many patients have had the one below it; 0 for any dose at any time.
    """

    policy: Policy
    rules: tuple[Rule, ...] = ()
    escalate: int = 0

    def conduct(self, trial: Trial) -> Conduct:
        """Conduct a trial."""
        course = _Course(self, trial)
        course.run()
        recommended, known = _recommended(course.policy, course.guard, trial)
        return Conduct(np.array(course.given, dtype=np.int64), course.guard.closed, recommended, known)


class _Course:
    """A trial under way."""

    def __init__(self, design: ByPolicy, trial: Trial) -> None:
        self.trial = trial
        self.policy: Any = _copied(design.policy)
        self.guard = Guard(design.rules, trial.n_doses, design.escalate)
        self.given: list[int] = []
        self._keys = np.arange(trial.size, dtype=np.uint64) + np.uint64((trial.seed % 2**32) << 32)
        self._rewards = np.abs(trial.outcomes - np.array([0.0, 1.0]))  # efficacy, and no toxicity

    def run(self) -> None:
        """Treat all patients, in the compiled loop of the policy as long as it may give any dose."""
        n_doses = self.trial.n_doses
        while len(self.given) < self.trial.size and (open_ := self.guard.open()):
            if len(open_) == n_doses and len(self.given) >= self.guard.burn_in:
                self._treat_until_something_changes()
            else:
                self._treat_one(open_)

    def _treat_one(self, open_: list[int]) -> None:
        """One patient; the policy decides among the doses that are open, unless it is a burn-in."""
        patient = len(self.given)
        x, lot = self.trial.patients[patient], float(self.trial.lots[patient])
        if patient < self.guard.burn_in:
            dose = drawn(open_, lot)
        else:
            decision = self.policy.decide(x, int(self._keys[patient]))
            chances = decision.probabilities
            weights = (decision.mask if chances is None else chances)[open_].astype(np.float64)
            dose = drawn(open_, lot, weights if weights.sum() > 0.0 else None)
        self.policy.observe(x, dose, self._rewards[patient, dose])
        self._note(dose)

    def _treat_until_something_changes(self) -> None:
        """Patients as the policy alone decides, up to the one after whom a dose is closed.

        The loop knows of no rules. So it runs to the end, rules look at what has happened, and if one fires, the
        policy is taken back to where it was and led up to that patient again.
        """
        first = len(self.given)
        before = None if self.guard.watches_nothing else _copied(self.policy)
        doses = self._play(first, self.trial.size)
        for dose in doses.tolist():
            if self._note(dose):
                break
        if before is not None and len(self.given) < self.trial.size:
            self.policy = before
            self._play(first, len(self.given))

    def _play(self, first: int, end: int) -> NDArray[np.int64]:
        run = self.policy.run_chunk if hasattr(self.policy, "run_chunk") else partial(step_by_step, self.policy)
        part = slice(first, end)
        parts = (self.trial.patients[part], self._rewards[part], self._keys[part])
        doses: NDArray[np.int64] = run(*map(np.ascontiguousarray, parts))[0]
        return doses

    def _note(self, dose: int) -> bool:
        outcome = self.trial.outcomes[len(self.given), dose]
        self.given.append(dose)
        return self.guard.see(dose, outcome)


def _copied(policy: Any) -> Any:
    return policy.copy() if hasattr(policy, "copy") else copy.deepcopy(policy)


def _recommended(policy: Any, guard: Guard, trial: Trial) -> tuple[NDArray[np.int64], FloatArray]:
    """Doses for the fresh patients, (m,), and the estimated chances of efficacy and of toxicity under them, (m, 2)."""
    known = _estimated(policy, trial.fresh, trial.n_doses)  # (m, K, 2)
    efficacy, toxicity = known[:, :, EFFICACY], known[:, :, TOXICITY]
    tried = np.array(guard.given) > 0
    with np.errstate(invalid="ignore"):  # nan where nothing is known
        within = (toxicity <= trial.limits.toxicity) & (efficacy >= trial.limits.efficacy)
    usable = np.asarray(within & tried & ~guard.closed)  # (m, K)
    utility = np.where(usable, trial.utility.expected(efficacy, toxicity), -np.inf)
    best, some = utility.argmax(axis=1), np.asarray(usable.any(axis=1))
    chosen = known[np.arange(len(best)), best]
    chosen[~some] = np.nan
    return np.where(some, best, NO_DOSE), chosen


def _estimated(policy: Any, contexts: FloatArray, n_doses: int) -> FloatArray:
    """Estimated chances of efficacy and of toxicity of all doses, (m, K, 2); nan where a policy does not say."""
    if isinstance(policy, CompiledPolicy):
        rewards = estimates(policy, contexts)[0]
    else:
        rewards = np.full((len(contexts), n_doses, 2), np.nan)
        for row, x in zip(rewards, contexts, strict=True):
            front = policy.front(x)
            row[list(front.arms)] = front.means
    return np.asarray(np.abs(np.clip(rewards, 0.0, 1.0) - np.array([0.0, 1.0])))
