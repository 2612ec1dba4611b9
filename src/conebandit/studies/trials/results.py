"""What simulated trials have found: averages over trials, with their standard errors."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from conebandit.studies.paired import BySeed, Cell
from conebandit.studies.plan import Scene
from conebandit.studies.results import Results
from conebandit.studies.trials.declaration import TRIAL
from conebandit.studies.trials.measures import GIVEN, RECOMMENDED
from conebandit.studies.trials.plan import Recipe, Truth
from conebandit.validate.arrays import FloatArray


class Characteristic(NamedTuple):
    """A measure of a design in a scenario, averaged over trials.

    Attributes
    ----------
    scenario, patients, design, measure
        What it is of.
    trials
        Those to which the measure applies.
    mean, error
        The average, and its standard error; nan if there are too few trials for it.
    """

    scenario: str
    patients: int
    design: str
    measure: str
    trials: int
    mean: float
    error: float


class Share(NamedTuple):
    """The share of patients under a dose: of those in the trial, or of those who want a recommendation.

    The dose is counted from 1; 0 stands for none.
    """

    scenario: str
    patients: int
    design: str
    what: str
    dose: int
    trials: int
    mean: float
    error: float


class Fact(NamedTuple):
    """What is true of a dose in a scenario, on average over the population."""

    scenario: str
    dose: int
    toxicity: float
    efficacy: float
    utility: float
    acceptable: bool


class TrialResults(Results):
    """Finished trials of a folder, which may go on meanwhile."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, TRIAL)
        self.recipe: Recipe = self.plan.recipe

    def cells(self, series: str) -> dict[Cell, BySeed]:
        """A measure of every cell, by trial, where it applies."""
        found = super().cells(series)
        return {cell: {seed: x for seed, x in values.items() if not math.isnan(x)} for cell, values in found.items()}

    def characteristics(self, measures: Sequence[str]) -> list[Characteristic]:
        """Averages of several measures, in every scenario, with every size, of every design."""
        found = []
        for name in measures:
            for (place, design), values in self.cells(name).items():
                scene = self.scene(place)
                mean, error = mean_and_error(np.array(list(values.values())))
                found.append(Characteristic(_scenario(scene), scene.horizon, design, name, len(values), mean, error))
        return found

    def shares(self) -> list[Share]:
        """Shares of patients under each dose, in trials and in recommendations."""
        names = ("environment", "policy", GIVEN, RECOMMENDED)
        lists: dict[tuple[str, str, str], list[list[float]]] = {}
        for place, design, given, recommended in self.rows(names).select(names).iter_rows():
            lists.setdefault((place, design, GIVEN), []).append(given)
            lists.setdefault((place, design, RECOMMENDED), []).append(recommended)
        found = []
        for place in self.environments:
            scene = self.scene(place)
            for design in self.policies:
                for what in (GIVEN, RECOMMENDED):
                    columns = np.array(lists.get((place, design, what), [])).T
                    doses = [*range(1, len(columns) + (what == GIVEN)), *([0] if what == RECOMMENDED else [])]
                    for dose, column in zip(doses, columns, strict=True) if len(columns) else ():
                        mean, error = mean_and_error(column)
                        found.append(
                            Share(_scenario(scene), scene.horizon, design, what, dose, len(column), mean, error)
                        )
        return found

    def truth(self, scene: Scene) -> Truth:
        """What is true of the doses of a scenario, on average over the population; with the first seed, if random."""
        return self.recipe.on_average(self.recipe.environment(scene, self.plan.seeds[0]), scene.horizon)

    def facts(self) -> list[Fact]:
        """What is true of every dose of every scenario."""
        scenes = {_scenario(scene): scene for scene in self.plan.scenes}
        found = []
        for name, scene in scenes.items():
            truth = self.truth(scene)
            columns = (truth.toxicity, truth.efficacy, truth.utility, truth.acceptable)
            rows = zip(*(column.tolist() for column in columns), strict=True)
            found += [Fact(name, dose, *row) for dose, row in enumerate(rows, start=1)]
        return found


def mean_and_error(values: FloatArray) -> tuple[float, float]:
    """The average and its standard error; nan where there are too few values.

    Examples
    --------
    >>> [round(each, 3) for each in mean_and_error(np.array([0.0, 1.0, 1.0, 0.0]))]
    [0.5, 0.289]
    """
    if not len(values):
        return math.nan, math.nan
    mean = float(values.mean())
    return mean, float(values.std(ddof=1) / math.sqrt(len(values))) if len(values) > 1 else math.nan


def _scenario(scene: Scene) -> str:
    return scene.environment.label
