"""Do source rounds help after the shift? The paper says so; here it is measured.

    python benchmarks/shift_effect.py

The default policy and Pareto contextual zooming meet 0, 1,000, 3,000 or 10,000 rounds from the source, then 10,000 from
the target; regrets are averages over the latter. Written: ``benchmarks/results/shift_effect.*`` and the figure in
``docs/figures``; with ``--figure`` the figure alone, from results on file.
"""

from __future__ import annotations

import json
import os
import platform
import sys
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from joblib import Parallel, delayed

import conebandit as cb
from conebandit import plots
from conebandit.environments.base import World
from report import Report, versions

SOURCE_ROUNDS = (0, 1000, 3000, 10_000)
TARGET_ROUNDS, SEEDS = 10_000, range(20)
QUANTITIES = ("play", "coverage")
POLICIES: dict[str, Callable[..., Any]] = {"default policy": cb.default_policy, "contextual zooming": cb.ParetoZooming}
HERE = Path(__file__).resolve().parent
RESULTS = HERE / "results" / "shift_effect"


def environments(source: int) -> dict[str, Callable[[int], World]]:
    return {
        "paper, nu = 1, sigma = 0.3": lambda seed: cb.environments.paper(10, 1.0, source, sigma=0.3),
        "smooth, d = 2, nu = 1": lambda seed: cb.environments.smooth(nu=1.0, change_point=source, seed=seed),
    }


def one(policy: str, environment: str, source: int, seed: int) -> list[float]:
    env = environments(source)[environment](seed)
    learner = POLICIES[policy](env.n_arms, env.cone, env.context_dim, seed=seed)
    run = cb.simulate(learner, env, source + TARGET_ROUNDS, seed=seed)
    return [run.average(name, after=source) for name in QUANTITIES]


def measure() -> Report:
    report = Report(
        title="Regret after the shift, by rounds from the source",
        command="python benchmarks/shift_effect.py",
        versions=versions("conebandit", "numpy", "numba"),
        machine=f"{platform.machine()}, {os.cpu_count()} cores",
    )
    for environment, policy, source in product(environments(0), POLICIES, SOURCE_ROUNDS):
        runs = np.array(Parallel(n_jobs=-1)(delayed(one)(policy, environment, source, s) for s in SEEDS))
        mean, error = runs.mean(axis=0), runs.std(axis=0, ddof=1) / np.sqrt(len(runs))
        row = {"environment": environment, "policy": policy, "source rounds": source, "runs": len(runs)}
        figures = {name: float(mean[i]) for i, name in enumerate(QUANTITIES)}
        report.add(**row, **figures, **{f"{name} error": float(error[i]) for i, name in enumerate(QUANTITIES)})
    return report


def draw(rows: list[dict[str, Any]]) -> None:
    """The figure, from rows of the report."""
    panels: dict[str, dict[str, Any]] = {}
    for environment, quantity, policy in product(environments(0), QUANTITIES, POLICIES):
        mine = [row for row in rows if (row["environment"], row["policy"]) == (environment, policy)]
        curve = tuple(np.array([row[key] for row in mine]) for key in ("source rounds", quantity, f"{quantity} error"))
        panels.setdefault(f"{quantity}\n{environment}", {})[policy] = curve
    figure = plots.shift_effect_figure(panels, xlabel="source rounds")
    plots.save(figure, HERE.parent / "docs" / "figures" / "shift-effect")


def main() -> None:
    if "--figure" in sys.argv:
        draw(json.loads(RESULTS.with_suffix(".json").read_text())["rows"])
        return
    report = measure()
    report.show()
    report.write(RESULTS)
    draw(report.rows)


if __name__ == "__main__":
    main()
