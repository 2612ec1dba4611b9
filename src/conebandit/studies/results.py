"""What is in the folder of a study, as numbers by environment, policy and seed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from conebandit.studies.folder import Folder
from conebandit.studies.paired import LEVEL, Average, BySeed, Cell, Paired, averages, paired
from conebandit.studies.parts import CURVE, polars
from conebandit.studies.plan import Kind, Scene
from conebandit.studies.runs import STUDY
from conebandit.validate.arrays import FloatArray


class Results:
    """Finished runs of a study, which may go on meanwhile."""

    def __init__(self, path: Path, kind: Kind = STUDY) -> None:
        self.path, self.kind = path, kind
        folder = Folder(path, kind)
        self.plan, self.about, self._parts = folder.plan(), folder.about(), folder.parts
        self.policies = tuple(entry.label for entry in self.plan.policies)
        self.environments = tuple(scene.label for scene in self.plan.scenes)

    @property
    def n_finished(self) -> int:
        """How many runs are finished."""
        frame = self._parts.read(["run"])
        return 0 if frame is None else int(frame.height)

    def rows(self, columns: Sequence[str] | None = None) -> Any:
        """Finished runs as a frame; a ``ValueError`` if there are none."""
        frame = self._parts.read(columns if columns is None else ["run", *columns])
        if frame is None:
            raise ValueError(f"no run of the {self.kind.name} in {self.path} is finished yet.")
        return frame

    def scene(self, environment: str | None) -> Scene:
        """The environment of this label; it may be left out if there is one."""
        if environment is None and len(self.environments) == 1:
            return self.plan.scenes[0]
        if environment not in self.environments:
            raise ValueError(f"environment must be one of {', '.join(self.environments)}; got {environment!r}.")
        return self.plan.scenes[self.environments.index(environment)]

    def cells(self, series: str) -> dict[Cell, BySeed]:
        """A series of every cell that has runs, by seed, in the order in which the study names them."""
        if series not in self.kind.series:
            raise ValueError(f"series must be one of {', '.join(self.kind.series)}; got {series!r}.")
        found: dict[Cell, BySeed] = {}
        names = ("environment", "policy", "seed", series)
        for environment, policy, seed, value in self.rows(names).select(names).iter_rows():
            found.setdefault((environment, policy), {})[seed] = value
        every = ((environment, policy) for environment in self.environments for policy in self.policies)
        return {cell: found[cell] for cell in every if cell in found}

    def curves(self, series: str, environment: str | None) -> dict[str, dict[int, FloatArray]]:
        """Sums of a series from the first round on, for every policy that has runs, by seed."""
        kept = self.plan.recipe.curves
        if series not in kept:
            raise ValueError(
                f"series must be one of those whose curves were kept, {', '.join(kept) or 'none'}; got {series!r}."
            )
        label, names = self.scene(environment).label, ("policy", "seed", f"{series}{CURVE}")
        mine = self.rows(("environment", *names)).filter(polars().col("environment") == label)
        found: dict[str, dict[int, FloatArray]] = {policy: {} for policy in self.policies}
        for policy, seed, curve in mine.select(names).iter_rows():
            found[policy][seed] = np.array(curve)
        return {policy: runs for policy, runs in found.items() if runs}

    def changes(self) -> dict[str, int]:
        """The last change of every environment that has runs, a round; the latest one, if it depends on the seed."""
        found = self.rows(("environment", "after")).group_by("environment").agg(polars().col("after").max())
        return dict(found.select("environment", "after").iter_rows())

    def averages(self, series: Sequence[str], level: float = LEVEL) -> list[Average]:
        """Averages over seeds of several series, each once, in every cell."""
        return [each for name in dict.fromkeys(series) for each in averages(self.cells(name), name, level=level)]

    def differences(self, series: Sequence[str], reference: str | None, level: float = LEVEL) -> list[Paired]:
        """Every policy minus one of them, by default the first, in every environment; all are to hold together.

        A series that is named twice counts once.
        """
        base = reference or self.policies[0]
        if base not in self.policies:
            raise ValueError(f"reference must be one of {', '.join(self.policies)}; got {reference!r}.")
        others = [policy for policy in self.policies if policy != base]
        pairs = [((place, policy), (place, base)) for place in self.environments for policy in others]
        found, names = [], tuple(dict.fromkeys(series))
        for name in names:
            cells = self.cells(name)
            found += paired(cells, cells, pairs, name, level=level, at_once=len(pairs) * len(names))
        return found
