"""The paper's experiment, "effect of the change point": all runs, in parallel, kept on disk."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import product, starmap
from pathlib import Path
from typing import NamedTuple

import numpy as np
from joblib import Parallel, delayed

from conebandit import environments
from conebandit._version import __version__
from conebandit.environments.base import World
from conebandit.policies.base import Policy
from conebandit.policies.cone_tree import ConeTree
from conebandit.policies.random_arm import RandomArm
from conebandit.progress import Progress, steps
from conebandit.regret import SERIES
from conebandit.simulate import simulate
from conebandit.validate.arrays import FloatArray

POLICIES = ("random arm", "paper", "sound")
POINTS = 200  # points of each curve that are kept


class Cell(NamedTuple):
    """One cell of the study: K, nu, t_p and the name of a policy."""

    n_arms: int
    nu: float
    change_point: int
    policy: str


@dataclass(frozen=True)
class Setting:
    """What the paper says of the experiment, and, for K and nu, what it does not say."""

    arms: tuple[int, ...] = (5, 10)
    nus: tuple[float, ...] = (1.0, 3.0)
    change_points: tuple[int, ...] = (1000, 2000, 3000)
    horizon: int = 50_000
    runs: int = 10
    sigma: float = 1.0

    def cells(self) -> Iterator[Cell]:
        """Every combination of K, nu, t_p and policy."""
        return starmap(Cell, product(self.arms, self.nus, self.change_points, POLICIES))


QUICK = Setting(change_points=(100, 200, 300), horizon=4000, runs=3)

Curves = dict[Cell, FloatArray]


@dataclass(frozen=True)
class Result:
    """Curves of a study.

    Attributes
    ----------
    setting
        What was run.
    curves
        For each cell an array (runs, series, POINTS): each series of ``SERIES``, summed from the change
        point on, at POINTS evenly spaced rounds.
    """

    setting: Setting
    curves: Curves

    def rounds(self, change_point: int) -> FloatArray:
        """Rounds after the change point at which a curve is kept."""
        return _rounds_kept(self.setting, change_point)

    def per_round(self, cell: Cell, series: str) -> FloatArray:
        """Average of a series over all rounds after the change point, one number for each run."""
        totals: FloatArray = self.curves[cell][:, SERIES.index(series), -1]
        return totals / (self.setting.horizon - cell.change_point)

    def mean(self, policy: str, series: str, n_arms: int | None = None) -> float:
        """Average over change points, runs and panels (those with ``n_arms`` arms, if given)."""
        cells = [c for c in self.curves if c.policy == policy and n_arms in (None, c.n_arms)]
        return float(np.mean([self.per_round(c, series) for c in cells]))


def run_study(setting: Setting, folder: Path, *, n_jobs: int, progress: Progress = False) -> Result:
    """All runs of a study; finished cells are read from ``folder`` instead of being run again.

    Parameters
    ----------
    setting
        What to run.
    folder
        Where results are kept, one file for each cell, named after all that determines it.
    n_jobs
        Number of processes.
    progress
        Whether to show a progress bar; or a function, called with a few words after each cell.
    """
    folder.mkdir(parents=True, exist_ok=True)
    curves: Curves = {}
    missing = []
    with steps(progress, "compiling kernels", len(list(setting.cells()))) as step:
        for cell in setting.cells():
            known = _read(_file(folder, setting, cell))
            if known is None:
                missing.append(cell)
            else:
                curves[cell] = known
                step("simulating")
        _run_cell(Setting(horizon=300, runs=1), Cell(2, 1.0, 100, "sound"))  # compile once, not in every process
        jobs = Parallel(n_jobs=n_jobs, return_as="generator")(delayed(_run_cell)(setting, cell) for cell in missing)
        for cell, computed in zip(missing, jobs, strict=True):
            np.save(_file(folder, setting, cell), computed)
            curves[cell] = computed
            step("simulating")
    return Result(setting, {cell: curves[cell] for cell in setting.cells()})


def _rounds_kept(setting: Setting, change_point: int) -> FloatArray:
    """Rounds after the change point at which a curve is kept, shape (POINTS,)."""
    return np.linspace(0, setting.horizon - change_point, POINTS + 1)[1:].round()


def _file(folder: Path, setting: Setting, cell: Cell) -> Path:
    what = json.dumps([__version__, asdict(setting), cell, SERIES, POINTS])
    return folder / f"{hashlib.sha256(what.encode()).hexdigest()[:16]}.npy"


def _read(path: Path) -> FloatArray | None:
    try:
        return np.asarray(np.load(path, allow_pickle=False))
    except (FileNotFoundError, ValueError, EOFError):  # missing, or cut short when a run was stopped
        return None


def make_policy(name: str, environment: World, horizon: int) -> Policy:
    """One of the three policies of the study, with delta = 1 / T as in the paper."""
    size = (environment.n_arms, environment.cone, environment.context_dim)
    if name == "random arm":
        return RandomArm(*size)
    # Means of the repaired form change by at most 4 (1 - floor) per unit of x.
    if name == "sound":
        return ConeTree(*size, preset="sound", delta=1.0 / horizon, holder=4.0)
    return ConeTree(*size, preset="paper", delta=1.0 / horizon)


def _run_cell(setting: Setting, cell: Cell) -> FloatArray:
    environment = environments.paper(cell.n_arms, cell.nu, cell.change_point, sigma=setting.sigma)
    policy = make_policy(cell.policy, environment, setting.horizon)
    at = _rounds_kept(setting, cell.change_point).astype(np.int64) - 1
    curves = np.empty((setting.runs, len(SERIES), POINTS))
    for seed in range(setting.runs):
        run = simulate(policy, environment, setting.horizon, seed)
        for i, series in enumerate(SERIES):
            curves[seed, i] = run.cumulative(series, after=cell.change_point)[at]
    return curves
