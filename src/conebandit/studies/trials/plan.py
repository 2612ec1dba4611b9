"""What is simulated: every design in every scenario, with every number of patients, so many trials each."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from conebandit.environments.base import Environment
from conebandit.studies.folder import made_with
from conebandit.studies.parts import Row
from conebandit.studies.plan import OF_ENVIRONMENTS, Entry, Job, Maker, Plan, Scene, naming, require
from conebandit.studies.trials import measures
from conebandit.studies.trials.conduct import EFFICACY, TOXICITY, Design, Limits, Trial, Utility
from conebandit.studies.trials.designs import make_design
from conebandit.studies.trials.guard import declared_rules
from conebandit.studies.trials.scenarios import average_means, draw_outcomes, require_chances, scenario_maker, together
from conebandit.validate.arrays import FloatArray


class Truth(NamedTuple):
    """What is true of doses, on average over a population or for each of some patients: (..., K) each."""

    efficacy: FloatArray
    toxicity: FloatArray
    utility: FloatArray
    acceptable: NDArray[np.bool_]


@dataclass(frozen=True)
class Recipe(Maker):
    """How a trial is simulated: all that a worker has to know besides the :class:`Job`.

    Attributes
    ----------
    limits, utility
        Of all trials.
    association
        Between efficacy and toxicity of a patient.
    fresh
        How many patients want a recommendation when a trial is over.
    rules
        Safety rules as declared, of designs that have none of their own.
    doses
        What the doses are, if that is known.
    """

    limits: Limits
    utility: Utility
    association: float
    fresh: int
    rules: list[Mapping[str, Any]]
    doses: tuple[float, ...]

    def environment(self, scene: Scene, seed: int) -> Environment:
        """The scenario of a trial."""
        entry = scene.environment
        with naming(f"scenario {entry.label} cannot be made"):
            made = scenario_maker(entry.name, self.folders, self.known(entry))(seed, **self.settings(entry))
            require(made, OF_ENVIRONMENTS)
            require_chances(made)
        return made

    def design(self, entry: Entry, world: Environment, seed: int) -> Design:
        """The design of a trial."""
        with naming(f"design {entry.label} cannot be made"):
            return make_design(entry, world, seed, self)

    def trial(self, world: Environment, size: int, seed: int) -> Trial:
        """The patients of a trial: a function of the seed, whatever the design."""
        streams = [np.random.default_rng(s) for s in np.random.SeedSequence([seed, 12]).spawn(4)]
        patients = np.ascontiguousarray(world.contexts(streams[0], size, 0))
        outcomes = draw_outcomes(streams[1], world.means(patients), self.association)
        lots = streams[2].random(size)
        fresh = np.ascontiguousarray(world.contexts(streams[3], self.fresh, size))
        return Trial(seed, patients, outcomes, lots, fresh, self.limits, self.utility)

    def truth(self, world: Environment, patients: FloatArray) -> Truth:
        """What is true of every dose for each of these patients, (n, K)."""
        means = world.means(patients)
        return self._truth(means[:, :, EFFICACY], 1.0 - means[:, :, TOXICITY])

    def on_average(self, world: Environment, after: int) -> Truth:
        """What is true of every dose on average over those who come when a trial is over, (K,)."""
        means = average_means(world, after)
        return self._truth(means[:, EFFICACY], 1.0 - means[:, TOXICITY])

    def _truth(self, efficacy: FloatArray, toxicity: FloatArray) -> Truth:
        utility = self.utility.expected(efficacy, toxicity, together(efficacy, toxicity, self.association))
        # Chances that were declared come back through logarithms: what is at a limit is within it.
        acceptable = (toxicity <= self.limits.toxicity + 1e-9) & (efficacy >= self.limits.efficacy - 1e-9)
        return Truth(efficacy, toxicity, utility, acceptable)


class TrialPlan(Plan[Recipe]):
    """What is simulated; ``policies`` are the designs, ``seeds`` the trials."""

    def try_all(self) -> None:
        """Make every scenario, and every design for it; a ``ValueError`` says what cannot be made, and why."""
        for scene in self.scenes:
            world = self.recipe.environment(scene, self.seeds[0])
            with naming(f"scenario {scene.environment.label}"):
                for entry in self.policies:
                    self.recipe.design(entry, world, self.seeds[0])
                declared_rules(self.recipe.rules, world.n_arms)  # also where no design uses them


def one_trial(recipe: Recipe, job: Job) -> Row:
    """One trial as a row of numbers."""
    start = time.perf_counter()
    world = recipe.environment(job.scene, job.seed)
    trial = recipe.trial(world, job.scene.horizon, job.seed)
    conduct = recipe.design(job.policy, world, job.seed).conduct(trial)
    treated = recipe.truth(world, trial.patients)
    found = measures.measured(
        trial, conduct, treated, recipe.truth(world, trial.fresh), recipe.on_average(world, trial.size)
    )
    return {
        **job.columns,
        **found,
        "seconds": time.perf_counter() - start,
        "versions": made_with(job),
    }
