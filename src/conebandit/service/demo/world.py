"""The patients of the demonstration: who comes, and what a dose does to them. Nothing here is medicine."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

DOSES = (0, 10, 20, 40, 80)  # mg
EXPERIMENT = "dose-finding"
PATIENTS = 2400
SHIFT_AT = 1100  # from this patient on others come: older ones

DECLARATION: dict[str, Any] = {
    "id": EXPERIMENT,
    "arms": [{"name": f"{dose} mg", "dose": dose} for dose in DOSES],
    "baseline": "0 mg",
    "metrics": [
        {"name": "response", "units": "points", "window": "30d", "resolution": 0.3},
        {"name": "toxicity", "direction": "min", "worst": 1, "range": [0, 1], "resolution": 0.02},
    ],
    "cone": {
        "tradeoffs": [
            "one unit of toxicity is worth at most 60 of response",
            "one unit of response is worth at most 0.06 of toxicity",
        ]
    },
    "context": [
        {"name": "age", "low": 18, "high": 90},
        {"name": "weight", "low": 45, "high": 115},
        {"name": "stage", "levels": ["early", "late"]},
    ],
    "rules": [
        {"name": "burn-in", "burn_in": 40},
        {"name": "too toxic", "metric": "toxicity", "above": 0.2, "error": 0.05, "then": "suspend"},
    ],
    "policy": {"explore": 0.1},  # so that the log can be evaluated, and no dose stays unknown
    "seed": 7,
}


class World:
    """Draws patients and what becomes of them.

    Parameters
    ----------
    seed
        Of everything.

    Examples
    --------
    >>> world = World(seed=0)
    >>> sorted(world.patient(0)), world.toxicity({"age": 80}, 80) > world.toxicity({"age": 30}, 80)
    (['age', 'stage', 'weight'], True)
    """

    def __init__(self, seed: int = 0) -> None:
        self._rng = np.random.default_rng(seed)

    def patient(self, number: int) -> dict[str, Any]:
        """Who comes as the patient of this number: first the young, later the old."""
        centre = 38.0 if number < SHIFT_AT else 70.0
        return {
            "age": float(np.clip(self._rng.normal(centre, 10.0), 18, 90)),
            "weight": float(np.clip(self._rng.normal(76.0, 12.0), 45, 115)),
            "stage": "late" if self._rng.random() < 0.35 else "early",
        }

    @staticmethod
    def response(patient: Mapping[str, Any], dose: float) -> float:
        """What is to be expected: a curve that flattens, and for the old one that falls again at high doses."""
        gain = 9.0 * dose / (dose + (14.0 if patient["stage"] == "early" else 35.0))
        too_much = max(patient["age"] - 50.0, 0.0) / 40.0
        return float(gain * (1.0 - 0.5 * too_much * dose / 80.0))

    @staticmethod
    def toxicity(patient: Mapping[str, Any], dose: float) -> float:
        """The chance of it."""
        return float(1.0 / (1.0 + np.exp(3.4 - dose * (0.026 + 0.05 * (patient["age"] / 90.0) ** 2))))

    def outcome(self, patient: Mapping[str, Any], dose: float) -> dict[str, float]:
        """What is seen."""
        response = self.response(patient, dose) + self._rng.normal(0.0, 2.0)
        return {"response": float(response), "toxicity": float(self._rng.random() < self.toxicity(patient, dose))}
