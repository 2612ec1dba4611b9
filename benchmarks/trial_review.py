"""BOIN12 beside operating characteristics from a review with its first author: 30 settings of 10,000 random scenarios.

    python benchmarks/trial_review.py       # some 2 minutes; writes results/trial_review*.json and .md

What was found there is in ``tests/data/trials/boin12_review.json``, which names its source. BOIN12 is simulated in
three ways. ``paper`` is ours as it is. ``review`` draws lots between equally desirable doses, and selects the lowest
dose where all that are tolerated are closed, as the program of the review does. ``no exploring`` is the same, but no
dose is given just because it is untried. The review selects a dose by smoothed estimates of efficacy, which we do not:
so ``best_selected`` is not expected to agree. Errors are standard errors of both simulations.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from conebandit.studies.trials.boin12 import Boin12
from conebandit.studies.trials.conduct import NO_DOSE, Limits, Trial, Utility
from report import Report, machine, versions

PUBLISHED = Path(__file__).parents[1] / "tests" / "data" / "trials" / "boin12_review.json"
MEASURES = ("patients_at_best", "stopped", "overdosed", "few_at_best", "best_selected")
SHARES = ("patients_at_best", "overdosed")  # of the patients of a trial
WAYS: dict[str, dict[str, Any]] = {
    "paper": {},
    "review": {"draw_ties": True, "fall_back": True},
    "no exploring": {"explore_at": 0, "draw_ties": True, "fall_back": True},
}


class Scenario(NamedTuple):
    """Chances under each dose."""

    toxicity: np.ndarray
    efficacy: np.ndarray


def random_toxicity(rng: np.random.Generator, limits: Limits, n_doses: int, tolerated: int) -> np.ndarray:
    """Rising chances, of which that of the dose ``tolerated`` is the closest to the limit."""
    if tolerated < n_doses - 1:
        top = max(limits.toxicity + 0.1, rng.uniform(limits.toxicity, 1.0, n_doses - 1 - tolerated).max())
    else:
        top = limits.toxicity + (1.0 - limits.toxicity) * rng.beta(0.5, 1.0)
    while True:
        chances = np.sort(rng.uniform(0.0, top, n_doses))
        if np.abs(chances - limits.toxicity).argmin() == tolerated:
            return chances


def random_efficacy(rng: np.random.Generator, limits: Limits, n_doses: int, best: int, *, level: bool) -> np.ndarray:
    """Chances that rise up to the best dose and stay ``level``, or that rise and fall, with a peak there or above."""
    top = rng.uniform(limits.efficacy + 0.1, 1.0)
    if best == n_doses - 1:
        return np.sort(rng.uniform(0.0, top, n_doses))
    if level:
        rising = np.sort(rng.uniform(0.0, top, best + 1))
        return np.append(rising, np.full(n_doses - 1 - best, rising[-1]))
    at, peak = int(rng.integers(best, n_doses)), rng.uniform(0.0, top, n_doses).max()
    below, above = (np.sort(rng.uniform(0.0, peak, n)) for n in (at, n_doses - 1 - at))
    return np.concatenate([below, [peak], above[::-1]])


def random_scenario(rng: np.random.Generator, design: Boin12, best: int) -> Scenario:
    """One in which the dose ``best``, counted from 0, has the largest utility of those that are tolerated."""
    limits, (both, neither), level = design.limits, design.utility, bool(rng.random() < 0.5)
    while True:
        tolerated = int(rng.integers(best, design.n_doses))
        toxicity = random_toxicity(rng, limits, design.n_doses, tolerated)
        efficacy = random_efficacy(rng, limits, design.n_doses, best, level=level)
        acceptable = toxicity[best] <= limits.toxicity + 0.05 and efficacy[best] >= limits.efficacy + 0.05
        utility = both * efficacy + neither * (1.0 - toxicity)  # exactly equal where the efficacy alone matters
        if acceptable and utility[: tolerated + 1].argmax() == best:
            return Scenario(toxicity, efficacy)


def made(published: dict[str, Any], row: dict[str, Any], way: str) -> Boin12:
    """BOIN12 with the settings of a row."""
    limits = Limits(toxicity=published["toxicity_limit"], efficacy=published["efficacy_limit"])
    utility = Utility(both=row["both"], neither=100.0 - row["both"])
    cut_offs = {name: published[name] for name in ("cohort", "too_toxic", "futile")}
    return Boin12(published["doses"], limits, utility, **cut_offs, **WAYS[way])


def simulate(design: Boin12, row: dict[str, Any], trials: int, seed: int) -> np.ndarray:
    """The measures of so many trials, in percent: (trials, measures)."""
    rng, size, best = np.random.default_rng(seed), row["patients"], row["best"] - 1
    nobody, one = np.zeros((size, 0)), np.zeros((1, 0))
    found = np.zeros((trials, len(MEASURES)))
    for number in range(trials):
        scenario = random_scenario(rng, design, best)
        chances = np.stack([scenario.efficacy, scenario.toxicity], axis=1)
        outcomes = (rng.random((size, 1, 2)) < chances).astype(float)
        trial = Trial(0, nobody, outcomes, rng.random(size), one, design.limits, design.utility)
        conduct = design.conduct(trial)
        given, choice = np.bincount(conduct.doses, minlength=design.n_doses), int(conduct.recommended[0])
        overdosed = given[scenario.toxicity > design.limits.toxicity + 0.1].sum()
        few = given[best] < size / design.n_doses
        found[number] = (given[best] / size, choice == NO_DOSE, overdosed / size, few, choice == best)
    return 100.0 * found


def errors(published: dict[str, Any], row: dict[str, Any], found: np.ndarray) -> np.ndarray:
    """By how many standard errors each measure differs; nan where it is 0 on both sides."""
    theirs, ours = np.array([row[name] for name in MEASURES]), found.mean(axis=0)
    pooled = (len(found) * ours + published["trials"] * theirs) / (len(found) + published["trials"])
    yes_or_no = [name not in SHARES for name in MEASURES]  # a chance, whose deviation both simulations tell
    deviation = np.where(yes_or_no, np.sqrt(pooled * (100.0 - pooled)), found.std(axis=0))
    error = deviation * np.sqrt(1.0 / len(found) + 1.0 / published["trials"])
    return np.where(error > 0.0, (ours - theirs) / np.where(error > 0.0, error, 1.0), np.nan)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=800, help="of each row of the published table")
    asked = parser.parse_args()
    published = json.loads(PUBLISHED.read_text(encoding="utf-8"))
    about: dict[str, Any] = {
        "command": "python benchmarks/trial_review.py",
        "versions": versions("conebandit", "numpy", "scipy"),
        "machine": machine("one core"),
    }
    summary = Report(title="BOIN12 beside a review of designs", **about)
    rows = Report(title="BOIN12 beside a review of designs, setting by setting: ours / theirs, percent", **about)
    for way in WAYS:
        off = []
        for number, row in enumerate(published["rows"]):
            found = simulate(made(published, row, way), row, asked.trials, number)
            off.append(errors(published, row, found))
            if way == "review":
                pairs = zip(MEASURES, found.mean(axis=0), strict=True)
                cells = {name: f"{ours:.1f} / {row[name]:.1f}" for name, ours in pairs}
                rows.add(best=row["best"], patients=row["patients"], both=row["both"], **cells)
        for name, column in zip(MEASURES, np.array(off).T, strict=True):
            sizes = np.abs(column[np.isfinite(column)])
            summary.add(
                way=way,
                measure=name,
                figures=len(sizes),
                within_two=int((sizes <= 2.0).sum()),
                largest=round(float(sizes.max()), 1),
                mean_square=round(float((sizes**2).mean()), 2),
            )
    summary.show()
    results = Path(__file__).parent / "results"
    summary.write(results / "trial_review")
    rows.write(results / "trial_review_settings")


if __name__ == "__main__":
    main()
