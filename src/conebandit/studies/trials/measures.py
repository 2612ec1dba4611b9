"""What is counted of a trial: operating characteristics are averages of these over many of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from conebandit.studies.trials.conduct import EFFICACY, NO_DOSE, TOXICITY, Conduct, Trial

if TYPE_CHECKING:
    from conebandit.studies.trials.plan import Truth

# What is counted, and what it means; the report says it in these words.
MEASURES: dict[str, str] = {
    "best": "share of fresh patients for whom the recommendation is the best: of the doses that are acceptable for "
    "them the one with the largest true utility, or no dose where none is acceptable",
    "front": "share of fresh patients for whom the recommendation is not dominated: an acceptable dose, while no other "
    "acceptable dose has both more efficacy and less toxicity for them; or no dose where none is acceptable",
    "no_dose": "share of fresh patients to whom no dose is recommended",
    "patients": "patients treated in the trial",
    "toxic": "patients of the trial with toxicity",
    "effective": "patients of the trial with efficacy",
    "overdosed": "share of the patients of the trial who were given a dose whose chance of toxicity, for them, is "
    "above the limit",
    "false_stop": "share of trials that end with all doses closed although a dose is acceptable on average over the "
    "population",
    "right_stop": "share of trials that end with all doses closed where no dose is acceptable on average",
    "false_closing": "share of trials in which at least one dose that is acceptable on average is closed at the end",
    "toxicity_error": "absolute difference between the estimated chance of toxicity under the recommended dose and the "
    "true one, averaged over fresh patients with a recommendation",
    "efficacy_error": "the same for efficacy",
    "toxicity_bias": "the same difference with its sign: negative if toxicity is underestimated",
    "efficacy_bias": "the same for efficacy: positive if efficacy is overestimated",
}
GIVEN, RECOMMENDED = "given", "recommended"  # lists: shares of patients under each dose; those of none come last


def measured(trial: Trial, conduct: Conduct, treated: Truth, fresh: Truth, average: Truth) -> dict[str, Any]:
    """What is counted of a trial; nan for what does not apply.

    Parameters
    ----------
    trial, conduct
        What the design met, and what it did.
    treated, fresh
        What is true for each patient of the trial, and for each fresh one, (n, K) and (m, K).
    average
        What is true on average over the population, (K,).
    """
    who = np.arange(len(conduct.doses))
    seen = trial.outcomes[who, conduct.doses]
    advised = conduct.recommended != NO_DOSE
    rows, doses = np.flatnonzero(advised), conduct.recommended[advised]
    errors = conduct.estimates[rows] - np.stack([fresh.efficacy[rows, doses], fresh.toxicity[rows, doses]], axis=1)
    some, stopped = bool(average.acceptable.any()), float(conduct.stopped)
    numbers: dict[str, float] = {
        "best": _right(conduct, fresh, is_best(fresh)),
        "front": _right(conduct, fresh, is_undominated(fresh)),
        "no_dose": 1.0 - float(advised.mean()),
        "patients": float(len(conduct.doses)),
        "toxic": float(seen[:, TOXICITY].sum()),
        "effective": float(seen[:, EFFICACY].sum()),
        "overdosed": float((treated.toxicity[who, conduct.doses] > trial.limits.toxicity + 1e-9).mean()),
        "false_stop": stopped if some else np.nan,
        "right_stop": np.nan if some else stopped,
        "false_closing": float((conduct.closed & average.acceptable).any()) if some else np.nan,
    }
    for column, name in ((TOXICITY, "toxicity"), (EFFICACY, "efficacy")):
        numbers[f"{name}_error"] = float(np.abs(errors[:, column]).mean()) if len(rows) else np.nan
        numbers[f"{name}_bias"] = float(errors[:, column].mean()) if len(rows) else np.nan
    n_doses, m = trial.n_doses, len(conduct.recommended)
    shares = np.bincount(conduct.recommended + 1, minlength=n_doses + 1) / m
    return {
        **{name: numbers[name] for name in MEASURES},
        GIVEN: (np.bincount(conduct.doses, minlength=n_doses) / len(conduct.doses)).tolist(),
        RECOMMENDED: [*shares[1:].tolist(), float(shares[0])],
    }


def is_best(truth: Truth) -> NDArray[np.bool_]:
    """Of each patient, which acceptable doses have the largest utility, (m, K)."""
    utility = np.where(truth.acceptable, truth.utility, -np.inf)
    return np.asarray(truth.acceptable & (utility >= utility.max(axis=1, keepdims=True) - 1e-9))


def is_undominated(truth: Truth) -> NDArray[np.bool_]:
    """Of each patient, which acceptable doses are not dominated by another one, (m, K)."""
    e, t = truth.efficacy, truth.toxicity
    at_least = (e[:, :, None] >= e[:, None, :] - 1e-9) & (t[:, :, None] <= t[:, None, :] + 1e-9)
    more = (e[:, :, None] > e[:, None, :] + 1e-9) | (t[:, :, None] < t[:, None, :] - 1e-9)
    dominated = (truth.acceptable[:, :, None] & at_least & more).any(axis=1)
    return truth.acceptable & ~dominated


def _right(conduct: Conduct, truth: Truth, good: NDArray[np.bool_]) -> float:
    """Share of patients with a good dose, or without a dose where none is acceptable."""
    none = conduct.recommended == NO_DOSE
    chosen = good[np.arange(len(none)), np.where(none, 0, conduct.recommended)]
    return float(np.where(none, ~truth.acceptable.any(axis=1), chosen).mean())
