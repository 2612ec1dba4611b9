"""The paper's experiment, "effect of the change point": all runs, in parallel, kept on disk."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
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
from conebandit.policies.default import default_policy
from conebandit.policies.random_arm import RandomArm
from conebandit.progress import Progress, steps
from conebandit.regret import SERIES
from conebandit.simulate import simulate
from conebandit.validate.arguments import as_increasing
from conebandit.validate.arrays import FloatArray

RANDOM, PAPER, SOUND, DEFAULT = POLICIES = ("random arm", "paper", "sound", "default")
POINTS = 200  # points of each curve that are kept


class Cell(NamedTuple):
    """One cell of the study: K, nu, t_p and the name of a policy."""

    n_arms: int
    nu: float
    change_point: int
    policy: str


@dataclass(frozen=True)
class Setting:
    """What the paper says of the experiment, what it does not say (K and nu), and what we add.

    Attributes
    ----------
    arms, nus, change_points, horizon, sigma
        K, nu, t_p, T and the deviation of the noise.
    runs
        Of each cell.
    pairs
        Runs of the paper's policy at the first and at the last change point, which are compared run by run: seeds are
        the same, and with them luck. With ten, as many as in the paper, the comparison stays open.
    default_runs
        Runs of the default policy, at the middle change point only: one takes as long as ten of the others.
    """

    arms: tuple[int, ...] = (5, 10)
    nus: tuple[float, ...] = (1.0, 3.0)
    change_points: tuple[int, ...] = (1000, 2000, 3000)
    horizon: int = 50_000
    runs: int = 10
    pairs: int = 60
    default_runs: int = 3
    sigma: float = 1.0

    @property
    def middle(self) -> int:
        """The change point at which the default policy is shown."""
        return self.change_points[len(self.change_points) // 2]

    @property
    def ends(self) -> tuple[int, int]:
        """The first and the last change point, which are compared."""
        return self.change_points[0], self.change_points[-1]

    @property
    def panels(self) -> list[tuple[int, float]]:
        """Every combination of K and nu."""
        return list(product(self.arms, self.nus))

    @property
    def rounds_after(self) -> int:
        """Rounds after the shift that count: as many for every change point, so that they can be compared."""
        return self.horizon - max(self.change_points)

    def cells(self) -> list[Cell]:
        """Every cell that is run."""
        every = starmap(Cell, product(self.arms, self.nus, self.change_points, POLICIES))
        return [cell for cell in every if self.runs_of(cell)]

    def runs_of(self, cell: Cell) -> int:
        """Number of runs of a cell, with seeds 0, 1, ..."""
        if cell.policy == DEFAULT:
            return self.default_runs if cell.change_point == self.middle else 0
        return self.pairs if cell.policy == PAPER and cell.change_point in self.ends else self.runs


def changed(
    setting: Setting,
    *,
    arms: Sequence[int] = (),
    nus: Sequence[float] = (),
    change_points: Sequence[int] = (),
    horizon: int | None = None,
) -> Setting:
    """A setting with other K, nu, t_p or T, where they are given; checked.

    Examples
    --------
    >>> changed(QUICK, arms=[20], horizon=5000).panels
    [(20, 1.0), (20, 3.0)]
    """
    made = replace(
        setting,
        arms=tuple(arms) or setting.arms,
        nus=tuple(nus) or setting.nus,
        change_points=tuple(change_points) or setting.change_points,
        horizon=horizon or setting.horizon,
    )
    points = as_increasing(made.change_points, "change points", least=1)
    if len(points) < 2:
        raise ValueError(f"change points must be two or more, since the first and the last are compared; got {points}.")
    if made.horizon <= points[-1]:
        raise ValueError(f"the horizon must be beyond the last change point, {points[-1]}; got {made.horizon}.")
    for name, values in (("arms", made.arms), ("nu", made.nus)):
        if len(set(values)) < len(values):
            raise ValueError(f"{name} must be different from each other; got {values}.")
    for n_arms, nu in made.panels:
        environments.paper(n_arms, nu, points[0])  # it checks both
    return made


QUICK = Setting(change_points=(100, 200, 300), horizon=4000, runs=3, pairs=10, default_runs=2)

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
        point on, at the rounds ``rounds``.
    """

    setting: Setting
    curves: Curves

    @property
    def rounds(self) -> FloatArray:
        """Rounds after the change point at which curves are kept, shape (POINTS,)."""
        return _rounds_kept(self.setting)

    def of(self, cell: Cell, series: str) -> FloatArray:
        """A series of a cell, summed from the change point on, shape (runs, POINTS)."""
        return self.curves[cell][:, SERIES.index(series)]

    def per_round(self, cell: Cell, series: str) -> FloatArray:
        """Average of a series over the rounds after the change point that count, one number for each run."""
        return np.asarray(self.of(cell, series)[:, -1] / self.setting.rounds_after)

    def differences(self, n_arms: int, nu: float, policy: str, series: str) -> FloatArray:
        """The summed series at the last change point minus that at the first, run by run; shape (runs, POINTS)."""
        few, many = (self.of(Cell(n_arms, nu, point, policy), series) for point in self.setting.ends)
        return np.asarray(many - few)

    def mean(self, policy: str, series: str, *, n_arms: int | None = None, change_point: int | None = None) -> float:
        """Average over runs, panels and change points; only those with ``n_arms`` or ``change_point``, if given."""
        cells = [
            cell
            for cell in self.curves
            if cell.policy == policy and n_arms in (None, cell.n_arms) and change_point in (None, cell.change_point)
        ]
        return float(np.mean([self.per_round(cell, series).mean() for cell in cells]))


def run_study(
    setting: Setting,
    folder: Path,
    *,
    n_jobs: int,
    progress: Progress = False,
    meanwhile: Callable[[], None] = lambda: None,
) -> Result:
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
    meanwhile
        What this process does while others compile and run.
    """
    folder.mkdir(parents=True, exist_ok=True)
    curves: Curves = {}
    missing = []
    with steps(progress, "compiling kernels", len(setting.cells())) as step:
        for cell in _in_turn(setting):
            known = _read(_file(folder, setting, cell))
            if known is None:
                missing.append(cell)
            else:
                curves[cell] = known
                step("simulating")
        pool = Parallel(n_jobs=n_jobs, return_as="generator_unordered")
        finished = pool(delayed(_run_cell)(setting, cell) for cell in missing)
        meanwhile()
        for cell, computed in finished:
            np.save(_file(folder, setting, cell), computed)
            curves[cell] = computed
            step("simulating")
    return Result(setting, {cell: curves[cell] for cell in setting.cells()})


def _in_turn(setting: Setting) -> list[Cell]:
    """The cells in the order in which they are run: long ones first, so that no process is alone in the end.

    While the first process compiles the kernels of the default policy, others begin with those of the paper's.
    """
    by_policy = {policy: [cell for cell in setting.cells() if cell.policy == policy] for policy in POLICIES}
    first, others = by_policy[DEFAULT][:1], by_policy[DEFAULT][1:]
    return [*first, *by_policy[PAPER], *others, *by_policy[SOUND], *by_policy[RANDOM]]


def _rounds_kept(setting: Setting) -> FloatArray:
    """Rounds after the change point at which a curve is kept, shape (POINTS,)."""
    return np.linspace(0, setting.rounds_after, POINTS + 1)[1:].round()


def _file(folder: Path, setting: Setting, cell: Cell) -> Path:
    what = json.dumps([__version__, asdict(setting), cell, SERIES, POINTS])
    return folder / f"{hashlib.sha256(what.encode()).hexdigest()[:16]}.npy"


def _read(path: Path) -> FloatArray | None:
    try:
        return np.asarray(np.load(path, allow_pickle=False))
    except (FileNotFoundError, ValueError, EOFError):  # missing, or cut short when a run was stopped
        return None


def make_policy(name: str, environment: World, horizon: int) -> Policy:
    """One of the policies of the study, those of the paper with its delta = 1 / T."""
    size = (environment.n_arms, environment.cone, environment.context_dim)
    if name == RANDOM:
        return RandomArm(*size)
    if name == DEFAULT:
        return default_policy(*size)
    # Means of the repaired form change by at most 4 (1 - floor) per unit of x.
    if name == SOUND:
        return ConeTree(*size, preset="sound", delta=1.0 / horizon, holder=4.0)
    return ConeTree(*size, preset="paper", delta=1.0 / horizon)


def _run_cell(setting: Setting, cell: Cell) -> tuple[Cell, FloatArray]:
    environment = environments.paper(cell.n_arms, cell.nu, cell.change_point, sigma=setting.sigma)
    policy = make_policy(cell.policy, environment, setting.horizon)
    at = _rounds_kept(setting).astype(np.int64) - 1
    curves = np.empty((setting.runs_of(cell), len(SERIES), POINTS))
    for seed in range(len(curves)):
        run = simulate(policy, environment, setting.horizon, seed)
        for i, series in enumerate(SERIES):
            curves[seed, i] = run.cumulative(series, after=cell.change_point)[at]
    return cell, curves
