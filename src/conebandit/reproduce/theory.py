"""Measured regret beside the theorems: against the horizon, the number of arms, the shift and its dissimilarity."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from conebandit import environments
from conebandit.diagnose.fit import log_slope
from conebandit.diagnose.rho import rho
from conebandit.diagnose.smoothness import margin
from conebandit.environments import shift
from conebandit.policies.cone_tree import ConeTree
from conebandit.progress import Progress, steps
from conebandit.reproduce.bounds import (
    Problem,
    effective_samples,
    rate_from_first_principles,
    single_shift_as_printed,
)
from conebandit.simulate import simulate
from conebandit.validate.arrays import FloatArray

Preset = Literal["paper", "sound"]

RADIUS = 1 / 16  # at which dissimilarities are taken; the paper does not say
SIGMA = 0.1
HOLDER = 4.0  # slope of the means of the paper's environment
ARMS, NU = 5, 1.0
CURVES = ("measured", "Theorem 1 as printed", "first principles")


@dataclass(frozen=True)
class Panel:
    """Regret against one thing, beside two curves that were each scaled by one number to the measured values.

    Constants of the theory are unknown, so the scale is chosen such that geometric means agree.
    """

    name: str  # what varies
    x: FloatArray  # (n,), its values
    regret: FloatArray  # (n, runs), sum of the gaps of the reported front over the rounds after the shift
    printed: FloatArray  # (n,), Theorem 1 as printed
    rate: FloatArray  # (n,), the rate from first principles
    slopes: tuple[tuple[float, float], ...]  # of regret, Theorem 1 and the rate on log scales, with standard errors


@dataclass(frozen=True)
class Case:
    """One point: an experiment, and where it stands on the axis of its panel."""

    x: float
    horizon: int
    n_arms: int = ARMS
    nu: float = NU

    @property
    def change_point(self) -> int:
        """Half of the rounds come from the source."""
        return self.horizon // 2

    @property
    def settings(self) -> tuple[int, int, float]:
        """What its runs depend on: T, K and nu."""
        return self.horizon, self.n_arms, self.nu


def panels(
    *, longest: int = 32_000, runs: int = 5, preset: Preset = "sound", progress: Progress = False
) -> list[Panel]:
    """Measure the four panels in the paper's environment (sigma = 0.1, half of the rounds from the source).

    Parameters
    ----------
    longest
        The longest horizon; that of the other panels is a quarter of it.
    runs
        Runs of each point, with seeds 0, 1, ...
    preset
        Of the tree policy.
    progress
        Whether to show a progress bar; or a function, called with a few words after each point.
    """
    usual = longest // 4
    nus = (0.0, 0.5, 1.0, 2.0, 3.0)
    grid = {
        "horizon T": [Case(t, t) for t in (longest // 16, longest // 8, longest // 4, longest // 2, longest)],
        "number of arms K": [Case(k, usual, n_arms=k) for k in (3, 5, 8, 12, 20)],
        "shift nu + 1": [Case(nu + 1, usual, nu=nu) for nu in nus],
        "dissimilarity rho(P, Q) at h = 1/16": [Case(_rho_source(nu), usual, nu=nu) for nu in nus],
    }
    known: dict[tuple[int, int, float], FloatArray] = {}
    with steps(progress, "compiling kernels", sum(map(len, grid.values()))) as step:
        for name, cases in grid.items():
            for case in cases:
                if case.settings not in known:
                    known[case.settings] = _measure(case, runs, preset)
                step(f"{name} = {case.x:.3g}")
    return [_panel(name, cases, np.array([known[c.settings] for c in cases])) for name, cases in grid.items()]


def _source(nu: float) -> shift.Distribution:
    return shift.power_law(nu) if nu else shift.uniform()


def _rho_source(nu: float) -> float:
    return float(rho(_source(nu), shift.uniform(), RADIUS))


def _measure(case: Case, runs: int, preset: Preset) -> FloatArray:
    """Summed gap of the reported front after the shift, one number for each run."""
    change = case.change_point
    world = environments.paper(case.n_arms, case.nu, change, sigma=SIGMA)
    sigma, holder = (SIGMA, HOLDER) if preset == "sound" else (None, None)
    size = (case.n_arms, world.cone, 1)
    policy = ConeTree(*size, preset=preset, delta=1.0 / case.horizon, sigma=sigma, holder=holder)
    return np.array([simulate(policy, world, case.horizon, seed).total("front", after=change) for seed in range(runs)])


def _panel(name: str, cases: Sequence[Case], regret: FloatArray) -> Panel:
    x = np.array([case.x for case in cases])
    target = float(rho(shift.uniform(), shift.uniform(), RADIUS))
    printed, rate = [], []
    for case in cases:
        alpha = margin(environments.paper(case.n_arms, case.nu, 0)).exponent
        problem = Problem(case.n_arms, 2, case.horizon, case.change_point, alpha=alpha)
        source = _rho_source(case.nu)
        printed.append(single_shift_as_printed(problem, source, target))
        rate.append(rate_from_first_principles(problem, effective_samples(problem, source, target)))
    means = regret.mean(axis=1)
    curves = [_through(np.array(values), means) for values in (printed, rate)]
    slopes = tuple(log_slope(x, values) for values in (means, *curves))
    return Panel(name, x, regret, curves[0], curves[1], slopes)


def _through(values: FloatArray, measured: FloatArray) -> FloatArray:
    """Scaled so that the geometric means agree."""
    return np.asarray(values * np.exp(np.log(measured).mean() - np.log(values).mean()))


def caption(preset: Preset, runs: int) -> str:
    """What the figure shows and what it does not."""
    return (
        f"Shown: the summed gap of the front that ConeTree(preset={preset!r}) reports after the shift, in the paper's "
        f"repaired environment with sigma = {SIGMA:g} and half of the rounds from the source, mean and standard error "
        f"of {runs} runs; Theorem 1 as printed (with rho at h = 1/16, which the paper leaves open, and the measured "
        "margin exponent) and the rate from first principles, each moved up or down to the measured values, because "
        "neither has a known constant; slopes on log scales with standard errors. Not shown: that any bound holds. A "
        "measured curve cannot prove a bound, slopes depend on the range, and Theorem 1 as printed falls with T where "
        "a sum over rounds must grow."
    )


def draw(panels: Sequence[Panel], caption: str, stem: Path) -> list[Path]:
    """Draw measured regret with fitted slopes, the printed bound and the rate from first principles, on log scales."""
    from conebandit import plots  # noqa: PLC0415  (needs matplotlib, an extra)

    shown = []
    for panel in panels:
        mean = panel.regret.mean(axis=1)
        error = panel.regret.std(axis=1, ddof=1) / np.sqrt(panel.regret.shape[1])
        curves = zip(CURVES, (mean, panel.printed, panel.rate), panel.slopes, (error, None, None), strict=True)
        shown.append(plots.SlopePanel(panel.name, panel.x, [plots.SlopeCurve(*curve) for curve in curves]))
    return plots.save(plots.slopes_figure(shown, ylabel="regret after the shift", caption=caption), stem)
