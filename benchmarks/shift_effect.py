"""Do source rounds help after the shift? The paper says so; here it is measured.

    python benchmarks/shift_effect.py

The default policy and Pareto contextual zooming meet 0, 1,000, 3,000 or 10,000 rounds from the source, then 10,000 from
the target; regrets are averages over the latter. Written: ``benchmarks/results/shift_effect.*`` and the figure in
``docs/figures``.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
from joblib import Parallel, delayed

import conebandit as cb
from conebandit import plots
from conebandit.environments.base import World
from report import Report

SOURCE_ROUNDS = (0, 1000, 3000, 10_000)
TARGET_ROUNDS, SEEDS = 10_000, range(20)
QUANTITIES = ("play", "coverage")
POLICIES: dict[str, Callable[..., Any]] = {"default policy": cb.default_policy, "contextual zooming": cb.ParetoZooming}
HERE = Path(__file__).resolve().parent


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


def main() -> None:
    report = Report(
        title="Regret after the shift, by rounds from the source",
        command="python benchmarks/shift_effect.py",
        versions={name: metadata.version(name) for name in ("conebandit", "numpy", "numba")},
        machine=f"{platform.machine()}, {os.cpu_count()} cores",
    )
    panels: dict[str, dict[str, Any]] = {}
    for environment in environments(0):
        for policy in POLICIES:
            means, errors = [], []
            for source in SOURCE_ROUNDS:
                runs = np.array(Parallel(n_jobs=-1)(delayed(one)(policy, environment, source, s) for s in SEEDS))
                means.append(runs.mean(axis=0))
                errors.append(runs.std(axis=0, ddof=1) / np.sqrt(len(runs)))
                figures = {q: float(means[-1][i]) for i, q in enumerate(QUANTITIES)}
                spread = {f"{q} error": float(errors[-1][i]) for i, q in enumerate(QUANTITIES)}
                row = {"environment": environment, "policy": policy, "source rounds": source, "runs": len(runs)}
                report.add(**row, **figures, **spread)
            for i, quantity in enumerate(QUANTITIES):
                curve = (np.array(SOURCE_ROUNDS), np.array(means)[:, i], np.array(errors)[:, i])
                panels.setdefault(f"{quantity}\n{environment}", {})[policy] = curve
    report.show()
    report.write(HERE / "results" / "shift_effect")
    figure = plots.shift_effect_figure(panels, xlabel="source rounds")
    plots.save(figure, HERE.parent / "docs" / "figures" / "shift-effect")


if __name__ == "__main__":
    main()
