"""EffTox beside published operating characteristics: 5,000 trials in each of six scenarios, by the R package trialr.

    python benchmarks/trial_published.py       # some 4 minutes; writes results/trial_published.json and .md

What was published is in ``tests/data/trials/efftox_trialr.json``, which names its source. There, as here, the dose that
is recommended is the one that the next cohort would get, toxicity may fall with the dose, and efficacy and toxicity of
a patient are independent. ``errors`` says by how many standard errors of both simulations they differ.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from conebandit.studies.trials.conduct import Limits
from conebandit.studies.trials.counts import Counts
from conebandit.studies.trials.efftox import EffTox
from report import Report, machine, versions

PUBLISHED = Path(__file__).parents[1] / "tests" / "data" / "trials" / "efftox_trialr.json"
NONE = "none"


class Characteristics(NamedTuple):
    """Of some trials: percent that end with each dose, or none; patients under each dose, and their deviations."""

    selected: np.ndarray
    patients: np.ndarray
    deviations: np.ndarray


def simulate(published: dict[str, Any], scenario: dict[str, Any], trials: int, seed: int) -> Characteristics:
    """Trials as they were published."""
    limits = Limits(toxicity=published["toxicity_limit"], efficacy=published["efficacy_limit"])
    design = EffTox(tuple(published["doses"]), limits, cohort=published["cohort"], rising=False)
    rng, n_doses = np.random.default_rng(seed), len(design.doses)
    selected, given = np.zeros(n_doses + 1), np.zeros((trials, n_doses))
    for patients in given:
        counts, dose = Counts(n_doses), design.start - 1
        for _ in range(published["cohorts"]):
            for effect, harm in rng.random((design.cohort, 2)):
                counts.add(
                    dose, efficacy=effect < scenario["efficacy"][dose], toxicity=harm < scenario["toxicity"][dose]
                )
            patients[dose] += design.cohort
            following = design.next_dose(counts, dose)
            if following is None:
                break
            dose = following
        selected[n_doses if following is None else dose] += 1
    return Characteristics(100.0 * selected / trials, given.mean(axis=0), given.std(axis=0))


def errors(published: dict[str, Any], scenario: dict[str, Any], found: Characteristics, trials: int) -> np.ndarray:
    """By how many standard errors of the difference each figure differs: percent selected, then patients."""
    percent, patients = as_published(scenario), np.array(scenario["patients"])
    return in_errors(found, trials, percent, patients, published_trials=published["trials"])


def in_errors(
    found: Characteristics,
    trials: int,
    percent: np.ndarray,
    patients: np.ndarray,
    *,
    published_trials: int,
    rounded: float = 0.0,
) -> np.ndarray:
    """The same, from figures: percent are published with one decimal, patients to multiples of ``rounded``."""
    per_trial = np.sqrt(1.0 / trials + 1.0 / published_trials)
    pooled = (trials * found.selected + published_trials * percent) / (trials + published_trials)
    of_percent = np.hypot(np.sqrt(pooled * (100.0 - pooled)) * per_trial, 0.1 / np.sqrt(12.0))
    of_patients = np.hypot(found.deviations * per_trial, rounded / np.sqrt(12.0))
    differences = np.concatenate([found.selected - percent, found.patients - patients])
    return np.asarray(differences / np.concatenate([of_percent, of_patients]))


def as_published(scenario: dict[str, Any]) -> np.ndarray:
    """Percent that end with each dose, or none."""
    percent = np.array(scenario["selected_percent"])
    return np.append(percent, 100.0 - percent.sum())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=5000, help="in each scenario")
    asked = parser.parse_args()
    published = json.loads(PUBLISHED.read_text(encoding="utf-8"))
    report = Report(
        title="EffTox beside published operating characteristics",
        command="python benchmarks/trial_published.py",
        versions=versions("conebandit", "numpy", "scipy"),
        machine=machine("one core"),
    )
    for number, scenario in enumerate(published["scenarios"]):
        found = simulate(published, scenario, asked.trials, number)
        off = errors(published, scenario, found, asked.trials)
        doses = [*range(1, len(published["doses"]) + 1), NONE]
        patients = [*zip(found.patients, scenario["patients"], off[len(doses) :], strict=True), (None, None, None)]
        percent = zip(found.selected, as_published(scenario), off, strict=False)
        for dose, (ours, theirs, z), (mean, their_mean, z_mean) in zip(doses, percent, patients, strict=True):
            row = {"selected_percent": ours, "published_percent": theirs, "errors": z}
            if mean is not None:
                row |= {"patients": mean, "published_patients": their_mean, "errors_of_patients": z_mean}
            report.add(scenario=scenario["name"], dose=dose, **{name: round(float(v), 2) for name, v in row.items()})
    report.show()
    report.write(Path(__file__).parent / "results" / "trial_published")


if __name__ == "__main__":
    main()
