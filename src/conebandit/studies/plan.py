"""What a study runs: every policy in every environment with every seed."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np

from conebandit.environments.base import Environment
from conebandit.policies.base import Policy
from conebandit.studies.bench import find_contenders, last_change
from conebandit.studies.modules import digest, files_of, marks
from conebandit.studies.own import imported, is_own
from conebandit.studies.worlds import OURS, world_maker
from conebandit.validate.arrays import FloatArray

OF_ENVIRONMENTS = ("n_arms", "n_objectives", "context_dim", "cone", "change_points", "contexts", "means", "rewards")
OF_POLICIES = ("n_arms", "n_objectives", "context_dim", "decide", "observe", "front")


Made_co = TypeVar("Made_co", bound="Maker", covariant=True)


class Entry(NamedTuple):
    """A policy or an environment: what it is, what it is called here, and with which settings it is made."""

    name: str
    label: str
    settings: dict[str, Any]


class Scene(NamedTuple):
    """Where policies are compared: an environment and a number of rounds."""

    environment: Entry
    horizon: int
    label: str


class Job(NamedTuple):
    """One run: its number, who runs where, and with which seed."""

    run: int
    policy: Entry
    scene: Scene
    seed: int

    @property
    def columns(self) -> dict[str, int | str]:
        """What tells its row of results from the others."""
        return {
            "run": self.run,
            "policy": self.policy.label,
            "environment": self.scene.label,
            "horizon": self.scene.horizon,
            "seed": self.seed,
        }

    @property
    def modules(self) -> dict[str, str]:
        """Marks of the modules of the user's own that it was made with, once it was made in this process."""
        return marks([self.policy.name, self.scene.environment.name])


@dataclass(frozen=True)
class Maker:
    """Makes the environments and policies of runs.

    Attributes
    ----------
    folders
        Where modules of the user's own are looked for; the first one is that of the study file, where files of data
        are looked for, too.
    data
        Digests of files of data as they were when the study was begun, by name, once that is known. Another one is
        refused: it may have been edited while the study runs.
    """

    folders: tuple[str, ...]
    data: Mapping[str, str] = field(default_factory=dict, kw_only=True)

    def environment(self, scene: Scene, seed: int) -> Environment:
        """The environment of a run."""
        entry = scene.environment
        return make_environment(
            entry.label, lambda: world_maker(entry.name, self.folders, self.known(entry))(seed, **self.settings(entry))
        )

    def policy(self, entry: Entry, world: Environment, seed: int) -> Policy:
        """The policy of a run."""
        return make_policy(
            entry.label, lambda: find_contenders([entry.name], self.folders)[0].make(world, seed, **entry.settings)
        )

    def settings(self, entry: Entry) -> dict[str, Any]:
        """The settings of an environment, with the whole path of its file of data."""
        file = self.file(entry)
        return dict(entry.settings) if file is None else {**entry.settings, "path": str(file)}

    def known(self, entry: Entry) -> str | None:
        """The digest that the file of data of an environment is to have, if it has one and that is known."""
        return self.data.get(str(entry.settings.get("path")))

    def file(self, entry: Entry) -> Path | None:
        """The file of data that an environment of ours is made from, if it is."""
        path = entry.settings.get("path")
        return Path(self.folders[0], path) if entry.name in OURS and isinstance(path, str) else None


@dataclass(frozen=True)
class Recipe(Maker):
    """How a run is made, and what is kept of it: all that a worker has to know besides the :class:`Job`.

    Attributes
    ----------
    resolution
        The smallest difference that matters, as for :func:`conebandit.simulate`.
    curves, points
        Of which series curves are kept, and with how many points.
    """

    resolution: float
    curves: tuple[str, ...]
    points: int

    def rounds(self, horizon: int) -> FloatArray:
        """The rounds at which curves of this length are kept, at most as many as ``points``."""
        return np.unique(np.linspace(0, horizon, self.points + 1)[1:].round())


@dataclass(frozen=True)
class Plan(Generic[Made_co]):
    """What a study runs.

    Attributes
    ----------
    policies, scenes, seeds
        What is combined with what.
    recipe
        How each run is made.
    declaration
        All that was declared, every combination of settings by its label.
    given
        The same as the file says it.
    """

    policies: tuple[Entry, ...]
    scenes: tuple[Scene, ...]
    seeds: tuple[int, ...]
    recipe: Made_co
    declaration: dict[str, Any]
    given: dict[str, Any]

    def __len__(self) -> int:
        return len(self.policies) * len(self.scenes) * len(self.seeds)

    def job(self, run: int) -> Job:
        """The run of this number. Seeds change last, so that a study that was stopped has a part of everything."""
        rest, policy = divmod(run, len(self.policies))
        seed, scene = divmod(rest, len(self.scenes))
        return Job(run, self.policies[policy], self.scenes[scene], self.seeds[seed])

    def try_all(self) -> None:
        """Make every environment, and every policy for it; a ``ValueError`` says what cannot be made, and why."""
        for scene in self.scenes:
            world = self.recipe.environment(scene, self.seeds[0])
            last = last_change(world)
            if scene.horizon <= last:
                raise ValueError(
                    f"horizon must be beyond round {last}, the last change of environment {scene.label}; "
                    f"got {scene.horizon}."
                )
            for entry in self.policies:
                self.recipe.policy(entry, world, self.seeds[0])

    def data(self) -> dict[str, str]:
        """Digests of the files of data that environments are made from, by name."""
        files = {str(e.settings["path"]): file for e in self._environments() if (file := self.recipe.file(e))}
        return {name: digest(file) for name, file in files.items() if file.is_file()}

    def modules(self) -> dict[str, str]:
        """Digests of the files of the user's own modules, and of those beside them that they import, by name."""
        names = {e.name.partition(":")[0]: e.name for e in (*self.policies, *self._environments()) if is_own(e.name)}
        found: dict[str, str] = {}
        for module, path in names.items():
            imported(path, self.recipe.folders)
            file = getattr(sys.modules[module], "__file__", None)
            found |= files_of(module) or {module: digest(Path(file)) if file else "unknown"}
        return found

    def _environments(self) -> Iterable[Entry]:
        return (scene.environment for scene in self.scenes)


class Kind(NamedTuple):
    """What a folder holds: the runs of a study, say, or simulated trials.

    Attributes
    ----------
    name
        What it is called; the file that says what is in the folder is named so.
    read
        Makes a plan of what its file says and of the folder that the file is in.
    run
        Makes one run from a recipe and a job, as a row.
    series
        What is known of each run as a number.
    words
        What policies, environments, seeds, runs and rounds are called.
    """

    name: str
    read: Callable[[Mapping[str, Any], Path], Plan[Any]]
    run: Callable[[Any, Job], Any]
    series: tuple[str, ...]
    words: tuple[str, str, str, str, str] = ("policies", "environments", "seeds", "runs", "rounds")

    @property
    def about(self) -> str:
        """The name of the file that says what is in the folder."""
        return f"{self.name}.json"


@contextmanager
def naming(what: str) -> Iterator[None]:
    """Within, anything that goes wrong is a ``ValueError`` that says what it was about."""
    try:
        yield
    except (Exception, SystemExit) as error:  # whatever settings lead to, and whatever somebody's own class raises
        kind = "" if isinstance(error, ValueError) else f"{type(error).__name__}: "
        missing = _MISSING.search(str(error)) if isinstance(error, TypeError) else None
        told = f"{kind}{error}" if missing is None else f"it needs an entry {missing[1]}."
        raise ValueError(f"{what}: {told}") from error


_MISSING = re.compile(r"missing \d+ required [\w -]*arguments?: (\S+?)(?:$|,| and )")


def make_environment(label: str, make: Callable[[], Environment]) -> Environment:
    """What ``make`` gives; a ``ValueError`` with the label if that fails, or if it is no environment."""
    with naming(f"environment {label} cannot be made"):
        made = make()
        require(made, OF_ENVIRONMENTS)
    return made


def make_policy(label: str, make: Callable[[], Policy]) -> Policy:
    """What ``make`` gives; a ``ValueError`` with the label if that fails, or if it is no policy."""
    with naming(f"policy {label} cannot be made"):
        made = make()
        require(made, OF_POLICIES)
    return made


def require(made: Any, members: tuple[str, ...]) -> None:
    """Raise a ``ValueError`` unless an object has these members."""
    missing = [name for name in members if not hasattr(made, name)]
    if missing:
        kind = "policy" if members is OF_POLICIES else "environment"
        raise ValueError(f"it has no {missing[0]}; check_{kind} says what else is wrong with it.")
