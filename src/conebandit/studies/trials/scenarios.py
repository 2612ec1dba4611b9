"""Scenarios: what is true of the doses, and of whom."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from conebandit.environments import shift
from conebandit.environments.base import Environment, World
from conebandit.geometry.cone import Cone
from conebandit.studies.trials.conduct import EFFICACY, TOXICITY
from conebandit.studies.worlds import world_maker
from conebandit.validate.arguments import as_integer
from conebandit.validate.arrays import FloatArray, as_floats

DECLARED = "doses"  # the name of a scenario whose chances are in the file
MAX_DOSES = 50
MAX_COVARIATES = 20
NAMES = ("efficacy", "safety")
POPULATION, POPULATION_SEED = 2000, 12  # patients over whom the truth about a scenario is averaged

# True chances under five doses, of a patient in the middle of the population. There are two covariates, each even
# from 0 to 1. They matter in the last scenario alone: there higher doses help those with a large second covariate,
# lower doses those with a small one, and a large first one makes every dose more toxic.
SCENARIOS: Mapping[str, Mapping[str, Any]] = {
    "rising": {"toxicity": [0.05, 0.08, 0.12, 0.18, 0.25], "efficacy": [0.10, 0.20, 0.35, 0.50, 0.65]},
    "plateau": {"toxicity": [0.05, 0.10, 0.18, 0.30, 0.45], "efficacy": [0.15, 0.35, 0.60, 0.60, 0.60]},
    "umbrella": {"toxicity": [0.05, 0.10, 0.18, 0.30, 0.45], "efficacy": [0.15, 0.40, 0.60, 0.40, 0.20]},
    "none": {"toxicity": [0.05, 0.10, 0.18, 0.30, 0.45], "efficacy": [0.05, 0.05, 0.05, 0.05, 0.05]},
    "all-toxic": {"toxicity": [0.50, 0.58, 0.65, 0.72, 0.80], "efficacy": [0.20, 0.35, 0.50, 0.60, 0.65]},
    "interaction": {
        "toxicity": [0.05, 0.08, 0.12, 0.16, 0.20],
        "efficacy": [0.45, 0.45, 0.45, 0.45, 0.45],
        "toxicity_effects": [1.0, 0.0],
        "efficacy_slopes": [0.0, 6.0],
    },
}


@dataclass(frozen=True)
class Chances:
    """Chances of efficacy and of no toxicity by dose and covariates: logistic in the covariates.

    Effects are log odds per unit of a covariate, which is even from 0 to 1 and is counted from its middle. Slopes are
    the same for the highest dose, and the opposite for the lowest one, in even steps between.

    Attributes
    ----------
    logits
        Shape (K, 2), log odds of efficacy and of toxicity of a patient in the middle.
    effects, slopes
        Shape (d, 2), of the covariates on the log odds of efficacy and of toxicity.
    """

    logits: FloatArray
    effects: FloatArray
    slopes: FloatArray

    def __call__(self, patients: FloatArray) -> FloatArray:
        """(n, d) -> (n, K, 2)."""
        place = np.linspace(-1.0, 1.0, len(self.logits)) if len(self.logits) > 1 else np.zeros(1)
        middle = patients - 0.5
        shifts = (middle @ self.effects)[:, None, :] + place[:, None] * (middle @ self.slopes)[:, None, :]
        chances = 0.5 + 0.5 * np.tanh(0.5 * (self.logits + shifts))
        chances[:, :, TOXICITY] = 1.0 - chances[:, :, TOXICITY]
        return np.asarray(chances)

    @cached_property
    def average(self) -> FloatArray:
        """What it gives on average over the population, (K, 2)."""
        return _average(self, np.random.default_rng(POPULATION_SEED).random((POPULATION, len(self.effects))))


def average_means(world: Environment, after: int) -> FloatArray:
    """What an environment gives on average over those who come after so many patients, (K, 2)."""
    law = getattr(world, "mean_function", None)
    if isinstance(law, Chances):
        return law.average
    return _average(world.means, world.contexts(np.random.default_rng(POPULATION_SEED), POPULATION, after))


def _average(law: Callable[[FloatArray], FloatArray], patients: FloatArray) -> FloatArray:
    return np.asarray(law(patients).mean(axis=0))


def doses(
    *,
    toxicity: Sequence[float],
    efficacy: Sequence[float],
    covariates: int = 2,
    toxicity_effects: Sequence[float] = (),
    efficacy_effects: Sequence[float] = (),
    toxicity_slopes: Sequence[float] = (),
    efficacy_slopes: Sequence[float] = (),
) -> World:
    """A scenario from chances of toxicity and of efficacy under each dose, and effects of covariates on them.

    Parameters
    ----------
    toxicity, efficacy
        Chances under each dose, from the lowest to the highest, of a patient in the middle of the population.
    covariates
        How many there are, each even from 0 to 1; whether they matter or not.
    toxicity_effects, efficacy_effects, toxicity_slopes, efficacy_slopes
        One number for each covariate, see :class:`Chances`; 0 by default.

    Examples
    --------
    >>> world = doses(toxicity=[0.1, 0.3], efficacy=[0.2, 0.5], toxicity_effects=[2.0, 0.0])
    >>> world.means(np.array([[0.5, 0.9], [1.0, 0.9]])).round(2).tolist()
    [[[0.2, 0.9], [0.5, 0.7]], [[0.2, 0.77], [0.5, 0.46]]]
    """
    chances = [_chances(efficacy, "efficacy"), _chances(toxicity, "toxicity")]
    if len(chances[0]) != len(chances[1]):
        raise ValueError(
            f"toxicity and efficacy must have a chance for each dose; got {len(chances[1])} and {len(chances[0])}."
        )
    d = as_integer(covariates, "covariates", least=1, most=MAX_COVARIATES)
    effects = [_effects(efficacy_effects, d, "efficacy_effects"), _effects(toxicity_effects, d, "toxicity_effects")]
    slopes = [_effects(efficacy_slopes, d, "efficacy_slopes"), _effects(toxicity_slopes, d, "toxicity_slopes")]
    stacked = np.stack(chances, axis=1)
    with np.errstate(divide="ignore"):  # a chance may be 0 or 1
        logits = np.log(stacked) - np.log1p(-stacked)
    law = Chances(logits, np.stack(effects, axis=1), np.stack(slopes, axis=1))
    schedule = shift.stationary(shift.uniform(d))
    return World("doses", schedule, law, Cone.orthant(2, names=NAMES), len(stacked))


def _chances(given: Any, name: str) -> FloatArray:
    values = as_floats(given, name)
    if values.ndim != 1 or not 1 <= len(values) <= MAX_DOSES or not ((values >= 0.0) & (values <= 1.0)).all():
        raise ValueError(f"{name} must be a list of at most {MAX_DOSES} chances from 0 to 1; got {given}.")
    return values


def _effects(given: Any, covariates: int, name: str) -> FloatArray:
    values = as_floats(given, name) if len(given) else np.zeros(covariates)
    if values.shape != (covariates,) or not np.isfinite(values).all():
        raise ValueError(f"{name} must be a list of {covariates} numbers, one for each covariate; got {given}.")
    return values


def scenario_maker(name: str, folders: tuple[str, ...] = (), known: str | None = None) -> Callable[..., Environment]:
    """What makes the scenario of this name from the seed of a trial and settings, as :func:`world_maker`.

    Raises
    ------
    ValueError
        If there is none of this name, with those that there are.
    """
    if name not in SCENARIOS and name != DECLARED:
        try:
            return world_maker(name, folders, known)
        except ValueError as error:
            known = ", ".join(SCENARIOS)
            raise ValueError(f"{error} Scenarios are {known}, or a table with toxicity and efficacy.") from None

    def make(_seed: int, /, **settings: Any) -> Environment:
        return _kept(json.dumps({**SCENARIOS.get(name, {}), **settings}))

    return make


@lru_cache(maxsize=100)
def _kept(settings: str) -> World:
    """As :func:`doses`, from settings as JSON: the trials of a worker need the same few."""
    return doses(**json.loads(settings))


def require_chances(world: Environment) -> None:
    """Raise a ``ValueError`` unless an environment has chances of efficacy and of no toxicity."""
    if world.n_objectives != 2:
        raise ValueError(
            f"a scenario has two metrics, chances of efficacy and of no toxicity; this one has {world.n_objectives}."
        )
    means = world.means(world.contexts(np.random.default_rng(0), 100, 0))
    if not ((means >= 0.0) & (means <= 1.0)).all():
        raise ValueError(
            "means of a scenario are chances of efficacy and of no toxicity, from 0 to 1; "
            f"got {means.min():g} to {means.max():g}."
        )


def draw_outcomes(rng: np.random.Generator, chances: FloatArray, association: float) -> FloatArray:
    """Whether there would be efficacy, and toxicity, under each dose: (n, K, 2), from chances (n, K, 2).

    Each patient has two numbers, one for either outcome, that hold for all doses: without association, who tolerates a
    dose tolerates one that is less toxic. Given the efficacy, toxicity has the chance that the association says.
    """
    efficacy, toxicity = chances[:, :, EFFICACY], 1.0 - chances[:, :, TOXICITY]
    numbers = rng.random((len(chances), 2))
    effective = numbers[:, :1] < efficacy
    with np.errstate(invalid="ignore", divide="ignore"):
        both = together(efficacy, toxicity, association)
        given = np.where(effective, both / efficacy, (toxicity - both) / (1.0 - efficacy))
    return np.stack([effective, numbers[:, 1:] < given], axis=2).astype(np.float64)


def together(efficacy: FloatArray, toxicity: FloatArray, association: float) -> FloatArray:
    """The chance of both: their product if the association (psi of EffTox) is 0, more if it is positive."""
    spread = efficacy * (1.0 - efficacy) * toxicity * (1.0 - toxicity)
    return np.asarray(efficacy * toxicity + spread * np.tanh(association / 2.0))
