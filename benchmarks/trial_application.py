"""BOIN12 beside operating characteristics that its authors' application has printed: 148 runs of 1,000 trials.

    python benchmarks/trial_application.py       # some 15 minutes; writes results/trial_application*.json and .md

What was printed is in ``tests/data/trials/boin12_application.json``, which names its source and says which settings it
does not name. BOIN12 is simulated in three ways. ``paper`` is ours as it is. Without ``exploring``, no dose is given
just because it is untried. ``application`` also draws lots between equally desirable doses, and selects the lowest dose
where all that are tolerated are closed. The ways were found with the first two sets of figures; the other two were not
looked at before, but for four scenarios that say what the cut-off is. Efficacy and toxicity of a patient are
independent. Errors are standard errors of both simulations.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np

from conebandit.studies.trials.boin12 import Boin12
from conebandit.studies.trials.conduct import NO_DOSE, Limits, Trial, Utility
from report import Report, machine, versions
from trial_published import Characteristics, in_errors

PUBLISHED = Path(__file__).parents[1] / "tests" / "data" / "trials" / "boin12_application.json"
WAYS: dict[str, dict[str, Any]] = {
    "paper": {},
    "no exploring": {"explore_at": 0},
    "application": {"explore_at": 0, "draw_ties": True, "fall_back": True},
}
PRINTED = 0.1  # mean numbers of patients are printed to multiples of this


def design(published: dict[str, Any], run: dict[str, Any], way: str) -> Boin12:
    """BOIN12 with the settings of a run."""
    n_doses = len(published["scenarios"][0]["toxicity"])
    limits = Limits(toxicity=published["toxicity_limit"], efficacy=published["efficacy_limit"])
    utility = Utility(**published["utility"])
    return Boin12(n_doses, limits, utility, cohort=published["cohort"], futile=run["futile"], **WAYS[way])


def simulate(boin12: Boin12, scenario: dict[str, Any], patients: int, trials: int, seed: int) -> Characteristics:
    """So many trials in a scenario."""
    rng, k = np.random.default_rng(seed), boin12.n_doses
    chances = np.stack([scenario["efficacy"], scenario["toxicity"]], axis=1)
    selected, given = np.zeros(k + 1), np.zeros((trials, k))
    nobody, one = np.zeros((patients, 0)), np.zeros((1, 0))
    for trial in range(trials):
        outcomes = (rng.random((patients, 1, 2)) < chances).astype(float)
        conduct = boin12.conduct(Trial(0, nobody, outcomes, rng.random(patients), one, boin12.limits, boin12.utility))
        given[trial] = np.bincount(conduct.doses, minlength=k)
        choice = int(conduct.recommended[0])
        selected[k if choice == NO_DOSE else choice] += 1
    return Characteristics(100.0 * selected / trials, given.mean(axis=0), given.std(axis=0))


def printed(run: dict[str, Any], number: int) -> tuple[np.ndarray, np.ndarray]:
    """Percent that end with each dose or none, and mean numbers of patients, in a scenario."""
    return np.array(run["selected_percent"][number]), np.array(run["mean_patients"][number])


def errors(
    published: dict[str, Any], run: dict[str, Any], number: int, found: Characteristics, trials: int
) -> np.ndarray:
    """By how many standard errors each figure of a scenario differs; nan where it is 0 on both sides."""
    percent, patients = printed(run, number)
    off = in_errors(found, trials, percent, patients, published_trials=published["trials"], rounded=PRINTED)
    seen = np.concatenate([found.selected + percent, found.patients.round(1) + patients]) > 0.0
    return np.where(seen, off, np.nan)


def summary(off: np.ndarray, doses: int) -> dict[str, float]:
    """Of the errors of all figures of a run; mean squares are 1 if nothing but chance is between the simulations."""
    percent, patients = off[:, : doses + 1], off[:, doses + 1 :]
    return {
        "figures": int(np.isfinite(off).sum()),
        "within_two": int((np.abs(off) <= 2.0).sum()),
        "largest": round(float(np.nanmax(np.abs(off))), 1),
        "mean_square_selected": round(float(np.nanmean(percent**2)), 2),
        "mean_square_patients": round(float(np.nanmean(patients**2)), 2),
    }


def cells(ours: np.ndarray, theirs: np.ndarray) -> list[str]:
    """Figures of both, side by side."""
    return [f"{a:.1f} / {b:.1f}" for a, b in zip(ours, theirs, strict=True)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=2000, help="in each scenario of each run")
    asked = parser.parse_args()
    published = json.loads(PUBLISHED.read_text(encoding="utf-8"))
    about: dict[str, Any] = {
        "command": "python benchmarks/trial_application.py",
        "versions": versions("conebandit", "numpy", "scipy"),
        "machine": machine("one core"),
    }
    summaries = Report(title="BOIN12 beside its authors' application", **about)
    scenarios = Report(title="BOIN12 beside its authors' application, scenario by scenario: ours / theirs", **about)
    for run in published["runs"]:
        size, futile = run["patients"], run["futile"]
        for way in WAYS:
            boin12, off = design(published, run, way), []
            for number, scenario in enumerate(published["scenarios"]):
                found = simulate(boin12, scenario, size, asked.trials, number)
                off.append(errors(published, run, number, found, asked.trials))
                if way == "application":
                    percent, patients = printed(run, number)
                    ends = [*(f"selected {dose + 1}" for dose in range(boin12.n_doses)), "none"]
                    row = dict(zip(ends, cells(found.selected, percent), strict=True))
                    row |= {f"patients {d + 1}": c for d, c in enumerate(cells(found.patients, patients))}
                    largest = round(float(np.nanmax(np.abs(off[-1]))), 1)
                    scenarios.add(patients=size, futile=futile, scenario=number + 1, **row, largest_error=largest)
            summaries.add(patients=size, futile=futile, way=way, **summary(np.array(off), boin12.n_doses))
    summaries.show()
    results = Path(__file__).parent / "results"
    summaries.write(results / "trial_application")
    scenarios.write(results / "trial_application_scenarios")


if __name__ == "__main__":
    main()
