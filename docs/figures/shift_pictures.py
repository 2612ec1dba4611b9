"""Draw the pictures of docs/shift.md.

python docs/figures/shift_pictures.py
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

import conebandit as cb
from conebandit import plots
from conebandit.diagnose.page import estimates
from conebandit.diagnose.report import shift_report
from conebandit.diagnose.smoothness import PowerLaw
from conebandit.diagnose.tables import read_pair
from conebandit.environments import shift
from conebandit.reproduce.theory import caption, draw, panels
from conebandit.validate.arrays import FloatArray

HERE = Path(__file__).parent
ROWS, CHANGE = 2000, 2000


def main() -> None:
    """Write the figures beside this file."""
    dissimilarity()
    two_sites()
    monitor()
    exponents()
    draw(panels(runs=10), caption("sound", 10), HERE / "shift-theory")


def dissimilarity() -> None:
    """Exact curves of the paper's pairs, and what 2000 rows of each say."""
    curves = {}
    for nu in (1, 2, 3):
        P, Q = shift.power_law(nu), shift.uniform()
        rng = np.random.default_rng(nu)
        found = cb.rho_curve(P.sample(rng, ROWS), Q.sample(rng, ROWS), 2.0 ** -np.arange(2.0, 8.0), bounds=[[0, 1]])
        curves[f"$(\\nu + 1) x^\\nu$ to uniform, $\\nu$ = {nu}"] = (estimates(cb.rho_curve(P, Q)), estimates(found))
    plots.save(plots.rho_curves_figure(curves), HERE / "shift-rho")


def two_sites() -> None:
    """Overlap of two sites of a health insurance experiment."""
    data = HERE.parent / "data"
    report = shift_report(
        read_pair(data / "randhie-site-2.csv", data / "randhie-site-6.csv", ["income", "education", "age"])
    )
    names = [m.column for m in report.moved[:2]]
    plots.save(plots.overlap_figure(*report.pair.only(names), names), HERE / "shift-overlap")
    curves = {"source to target": estimates(report.curve), "target to itself": estimates(report.within)}
    plots.save(plots.rho_figure(curves, h=report.h), HERE / "shift-sites")


def monitor() -> None:
    """Evidence over time on the paper's shifts, and without a shift."""
    curves = {}
    for name, before, after in (
        ("no change", shift.power_law(1), shift.power_law(1)),
        ("nu = 1 to uniform", shift.power_law(1), shift.uniform()),
        ("nu = 3 to uniform", shift.power_law(3), shift.uniform()),
    ):
        schedule = shift.change_point(before, after, at=CHANGE)
        curves[name] = evidence(schedule.sample(np.random.default_rng(1), CHANGE + 80))
    plots.save(plots.evidence_figure(curves, alpha=0.01, change=CHANGE, first=1900), HERE / "shift-monitor")


def evidence(contexts: FloatArray) -> FloatArray:
    """Evidence after each context."""
    watch = cb.ShiftMonitor(context_dim=1)
    values = np.empty(len(contexts))
    for t, context in enumerate(contexts):
        watch.update(context)
        values[t] = watch.evidence
    return values


def fitted(law: PowerLaw) -> plots.PowerCurve:
    """A power law as ``plots`` takes it."""
    return plots.PowerCurve(law.scale, law.value, law.constant, law.exponent)


def exponents() -> None:
    """Smoothness and margin of two environments."""
    worlds = {"paper": cb.environments.paper(n_arms=5), "smooth, d = 2": cb.environments.smooth(seed=1)}
    smooth = {name: fitted(cb.smoothness(world)) for name, world in worlds.items()}
    figure = plots.power_law_figure(smooth, xlabel="distance of two contexts", ylabel="largest change of a mean")
    plots.save(figure, HERE / "shift-smoothness")
    margins = {name: fitted(cb.margin(world)) for name, world in worlds.items()}
    figure = plots.power_law_figure(margins, xlabel="smallest positive gap", ylabel="share of contexts below it")
    plots.save(figure, HERE / "shift-margin")


if __name__ == "__main__":
    main()
