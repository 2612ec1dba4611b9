"""Which dose a policy recommends after a small trial, and what the trial costs its patients.

    python benchmarks/trials.py                                     everything, on the reported seeds
    python benchmarks/trials.py --development --runs 100            a quick look while designing
    python benchmarks/trials.py --development --policies default linear

Five doses, patients of two covariates (frailty and severity, both in [0, 1]), two yes-or-no outcomes: response, and no
serious adverse event, whether by the drug or by the disease. Five scenarios: response that rises with the dose of a
well tolerated drug, that reaches a plateau, that has its best in between (umbrella), that no dose brings about, and
that rises with the dose for the severely ill but falls for the others (interaction). Every trial draws its own curves.
The fitter are enrolled first: the share of the population that the drug is for grows evenly over 100 patients.

After 60, 100 and 300 patients a policy recommends a dose to 200 fresh patients of that population: of its reported
front the arm with the largest sum of estimated means (at random among equals, lest ignorance look like caution).
Counted are, as means over trials with their standard errors:

on_front     share of patients whose recommended dose is on their true front
lost         utility lost by the recommendation, utility being the mean of the two probabilities
toxic        probability of an adverse event of the patients in the trial under the doses that they were given
uniform      the same, had the doses been given out evenly

Policies meet the same patients with the same potential outcomes. So ``behind`` is the mean difference within trials to
the best other policy, positive if that one is better, and a policy ``holds`` where it is behind by at most two standard
errors of that difference in both measures. ``default-doses`` is the default policy with ``arm_features``. It is told
more than the others, so they are not compared with it; it is compared with them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

import conebandit as cb
from conebandit.environments import shift
from conebandit.environments.base import World
from conebandit.environments.noise import Bernoulli
from conebandit.kernels.order import fronts_of_batch
from conebandit.policies.base import Front, Policy
from conebandit.studies.bench import Contender
from conebandit.validate.arrays import FloatArray
from contest import behind, in_parallel, mean_and_error, options, play
from report import Report

TRIALS, BLOCK = 1000, 20  # trials in all, and in one job
STOPS = (60, 100, 300)
FRESH = 200
MIXED = 100  # patients after which enrolment is that of the population
DOSES = np.linspace(0.2, 1.0, 5)
SAFETY = 1  # the second metric


def default_with_doses(world: World, seed: int) -> Policy:
    """The default policy, told that arms are doses."""
    size = world.n_arms, world.cone, world.context_dim
    make: Any = cb.default_policy
    policy: Policy = make(*size, seed=seed, bounds=world.bounds, arm_features=DOSES[:, None])
    return policy


WITH_DOSES = Contender("default-doses", "the default policy with arm_features", default_with_doses)
POLICIES = ("default", WITH_DOSES.name, "linear", "tree-adaptive", "ucb1", "binned", "neighbours")


def logistic(x: FloatArray) -> FloatArray:
    return np.asarray(1.0 / (1.0 + np.exp(-x)))


# A response curve: doses (K,), severity (n, 1) and a number in [0, 1] that shifts it, to (n, K).
Curve = Callable[[FloatArray, FloatArray, float], FloatArray]


def rising(dose: FloatArray, severity: FloatArray, number: float) -> FloatArray:
    return logistic((dose - 0.4 - 0.2 * number - 0.5 * (severity - 0.5)) / 0.2)


def plateau(dose: FloatArray, severity: FloatArray, number: float) -> FloatArray:
    """Exactly flat from a dose on that depends on the patient."""
    return np.asarray(0.85 * np.minimum(dose / (0.5 + 0.2 * number + 0.5 * (severity - 0.5)), 1.0))


def umbrella(dose: FloatArray, severity: FloatArray, number: float) -> FloatArray:
    return np.asarray(0.85 * np.exp(-(((dose - 0.5 - 0.2 * number - 0.5 * (severity - 0.5)) / 0.3) ** 2)))


def none_effective(dose: FloatArray, severity: FloatArray, number: float) -> FloatArray:
    return np.asarray(0.1 + 0.1 * number + 0.15 * (1.0 - severity) + 0.0 * dose)


def interaction(dose: FloatArray, severity: FloatArray, number: float) -> FloatArray:
    return np.asarray(0.5 + 0.4 * np.tanh(15.0 * (severity - 0.35 - 0.3 * number) * (dose - 0.6)))


SCENARIOS: dict[str, Curve] = {
    "rising": rising,
    "plateau": plateau,
    "umbrella": umbrella,
    "none effective": none_effective,
    "interaction": interaction,
}
# Dose that a patient of medium frailty tolerates, at least; up to a quarter more, by trial.
TOLERATED = {name: 1.25 if name == "rising" else 0.75 for name in SCENARIOS}


@dataclass(frozen=True)
class DoseResponse:
    """Probabilities of response and of no adverse event; frail patients tolerate less."""

    curve: Curve
    number: float  # shifts the response
    tolerated: float

    def __call__(self, patients: FloatArray) -> FloatArray:
        """(n, 2) -> (n, 5, 2)."""
        frailty, severity = patients[:, :1], patients[:, 1:]
        response = self.curve(DOSES, severity, self.number)
        by_drug = 0.02 + 0.5 * logistic((DOSES * (0.5 + frailty) - self.tolerated) / 0.12)
        by_disease = 0.3 * severity * (1.0 - response)
        return np.stack([0.05 + 0.85 * response, (1.0 - by_drug) * (1.0 - by_disease)], axis=2)


def trial_world(scenario: str, seed: int) -> World:
    number, tolerance = np.random.default_rng([list(SCENARIOS).index(scenario), seed]).random(2)
    means = DoseResponse(SCENARIOS[scenario], float(number), TOLERATED[scenario] + 0.25 * float(tolerance))
    fit = shift.product(shift.beta(2, 5), shift.beta(2, 3))
    population = shift.product(shift.beta(3, 2), shift.uniform())
    cone = cb.Cone.orthant(2, names=("efficacy", "safety"))
    return World(scenario, shift.gradual(fit, population, 0, MIXED), means, cone, len(DOSES), Bernoulli())


def recommended(front: Front, lots: FloatArray) -> int:
    """Arm of the front with the largest sum of means, unknown ones only if there are no others; lots decide ties."""
    arms, sums = np.array(front.arms), np.nan_to_num(front.means.sum(axis=1), nan=-np.inf)
    best = arms[sums == sums.max()]
    return int(best[lots[best].argmax()])


@dataclass(frozen=True)
class Trial:
    """What every policy meets: patients with all their potential outcomes, and fresh ones who want a dose."""

    world: World
    patients: FloatArray
    means: FloatArray
    outcomes: FloatArray
    fresh: FloatArray
    lots: FloatArray

    @classmethod
    def drawn(cls, scenario: str, seed: int) -> Trial:
        """The trial of a seed."""
        world = trial_world(scenario, seed)
        streams = [np.random.default_rng(s) for s in np.random.SeedSequence(seed).spawn(4)]
        patients = world.contexts(streams[0], STOPS[-1], 0)
        means = world.means(patients)
        fresh = world.contexts(streams[2], FRESH, STOPS[-1])
        lots = streams[3].random((FRESH, len(DOSES)))
        return cls(world, patients, means, world.rewards(streams[1], means), fresh, lots)

    def run(self, contender: Contender, seed: int) -> FloatArray:
        """What comes out with a policy, (stops, 4): on_front, lost, toxic, uniform."""
        policy: Any = contender.make(self.world, seed)
        toxic = 1.0 - self.means[:, :, SAFETY]
        suffered = np.empty(len(toxic))
        found, first = [], 0
        for stop in STOPS:
            arms = play(policy, self.patients[first:stop], self.outcomes[first:stop], first, seed)[0]
            suffered[first:stop] = toxic[np.arange(first, stop), arms]
            found.append([*self.judged(policy.fronts(self.fresh)), suffered[:stop].mean(), toxic[:stop].mean()])
            first = stop
        return np.array(found)

    def judged(self, fronts: list[Front]) -> tuple[float, float]:
        """Share of fresh patients with a dose on their front, and utility lost."""
        means = self.world.means(self.fresh)
        utility = means.mean(axis=2)
        chosen = np.arange(len(fronts)), np.array(list(map(recommended, fronts, self.lots)))
        on_front = fronts_of_batch(means, self.world.cone.facets)[chosen]
        return float(on_front.mean()), float((utility.max(axis=1) - utility[chosen]).mean())


def block(contender: Contender, scenario: str, seeds: range) -> FloatArray:
    """Several trials, (trials, stops, 4)."""
    return np.stack([Trial.drawn(scenario, seed).run(contender, seed) for seed in seeds])


def row_of(policy: str, results: dict[str, FloatArray]) -> dict[str, Any]:
    """Figures of a policy; ``results`` of all policies, each (trials, 4)."""
    mine = results[policy]
    results = {name: found for name, found in results.items() if name == policy or name != WITH_DOSES.name}
    row: dict[str, Any] = {"trials": len(mine)}
    holds = True
    for index, (measure, sign) in enumerate((("on_front", -1), ("lost", 1))):
        row[measure], row[f"{measure} se"] = mean_and_error(mine[:, index])
        gap, error = behind(policy, {name: result[:, index] for name, result in results.items()}, sign)
        row[f"{measure} behind"], row[f"{measure} behind se"] = gap, error
        holds = holds and gap <= 2.0 * error
    row["toxic"], row["toxic se"] = mean_and_error(mine[:, 2])
    return {**row, "uniform": float(mine[:, 3].mean()), "holds": holds}


def add_summary(report: Report) -> None:
    """A row for each policy over all scenarios and stops."""
    for policy in dict.fromkeys(row["policy"] for row in report.rows):
        mine = [row for row in report.rows if row["policy"] == policy]
        means = {key: float(np.mean([row[key] for row in mine])) for key in ("on_front", "lost", "toxic", "uniform")}
        share = f"{sum(row['holds'] for row in mine)} of {len(mine)}"
        report.add(scenario="all", policy=policy, trials=mine[0]["trials"], **means, holds=share)


def main() -> None:
    asked = options("trials", __doc__, POLICIES, own=[WITH_DOSES])
    seeds = asked.seeds(TRIALS)
    blocks = [seeds[i : i + BLOCK] for i in range(0, len(seeds), BLOCK)]
    kinds = list(product(SCENARIOS, asked.contenders))
    jobs = [(contender, scenario, part) for scenario, contender in kinds for part in blocks]
    parts = iter(in_parallel(block, jobs, "trials"))
    results = {(scenario, c.name): np.concatenate([next(parts) for _ in blocks]) for scenario, c in kinds}
    report = asked.report("Recommended doses after small trials")
    for scenario, (position, stop), c in product(SCENARIOS, enumerate(STOPS), asked.contenders):
        found = {c.name: results[scenario, c.name][:, position] for c in asked.contenders}
        report.add(scenario=scenario, patients=stop, policy=c.name, **row_of(c.name, found))
    add_summary(report)
    asked.finish(report)


if __name__ == "__main__":
    main()
