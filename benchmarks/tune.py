"""Choose the constants of policies on the development suite.

    python benchmarks/tune.py                            all policies
    python benchmarks/tune.py SelfTuning ParetoUCB1      some of them; results of the others are kept

The development suite is the suite of environments with seeds from 1000 on, which no reported result uses. A setting is
scored on each task as on the leaderboard, play + 0.1 (shortfall + front), averaged over the rounds after the last
change point and over seeds; the geometric mean over tasks counts, so that no task outweighs the others by its scale.
Results are in ``benchmarks/results/tuning.*``; the best setting of a policy is the one with which it enters
the contest (``TUNED`` in ``conebandit.studies.bench``).
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

import conebandit as cb
from conebandit.environments.base import World
from conebandit.policies.binned_pareto_ucb import default_bins
from conebandit.studies.standings import score
from conebandit.studies.suite import SUITE
from report import Report, machine, versions

HORIZON = 22_000  # beyond the last change point of every task
SEEDS = (1000, 1001)
SERIES = ("play", "shortfall", "front")  # what the score is made of
RESULTS = Path(__file__).parent / "results" / "tuning"


@dataclass(frozen=True)
class ForVisits:
    """A number of bins that depends on the dimension of the contexts."""

    visits: int

    def __call__(self, environment: World) -> int:
        """Parts of a coordinate."""
        return default_bins(environment.context_dim, self.visits)

    def __str__(self) -> str:
        return f"for {self.visits} visits"


# Values to try for each argument of a constructor: what is not a number is called with the environment to give one.
GRIDS: dict[str, dict[str, list[Any]]] = {
    "ParetoUCB1": {"width": [0.05, 0.1, 0.2, 0.3, 0.5]},
    "BinnedParetoUCB": {"width": [0.06, 0.1, 0.2], "bins": [ForVisits(n) for n in (150, 300, 500, 1000)]},
    "BinnedElimination": {"width": [0.1, 0.15, 0.2, 0.3], "smoothness": [0.06, 0.1, 0.17]},
    "SelfTuning": {"width": [0.015, 0.03, 0.05], "smoothness": [0.1, 0.17, 0.3, 0.5]},
    "NeighbourParetoUCB": {"width": [0.05, 0.1, 0.15], "smoothness": [0.15, 0.2, 0.3]},
    "ScalarisedUCB": {"width": [0.05, 0.1, 0.15], "bins": [4, 9, 16, 25]},
    "LinearParetoUCB": {"width": [0.2, 0.4, 0.7, 1.0], "ridge": [0.003, 0.01, 0.1]},
    "FourierSampling": {"length_scale": [0.2, 0.35, 0.6, 1.0], "temperature": [0.3, 0.7]},
    "ParetoZooming": {"width": [0.15, 0.2, 0.3], "smoothness": [0.15, 0.2, 0.3]},
}


def settings_of(grid: dict[str, list[Any]]) -> Iterator[dict[str, Any]]:
    for values in product(*grid.values()):
        yield dict(zip(grid, values, strict=True))


def run(kind: str, setting: dict[str, Any], environment: World, seed: int) -> list[float]:
    """Mean of each series of one run after the last change point."""
    options = {name: value(environment) if callable(value) else value for name, value in setting.items()}
    size = (environment.n_arms, environment.cone, environment.context_dim)
    policy = getattr(cb, kind)(*size, bounds=environment.bounds, seed=seed, **options)
    result = cb.simulate(policy, environment, HORIZON, seed=seed)
    after = environment.change_points[-1]
    return [result.average(name, after=after) for name in SERIES]


def measure(kind: str, setting: dict[str, Any]) -> dict[str, Any]:
    """One row: a setting and how it does on the development suite."""
    regrets = np.array([[run(kind, setting, task.make(seed), seed) for seed in SEEDS] for task in SUITE]).mean(axis=1)
    tasks = [dict(zip(SERIES, row, strict=True)) for row in regrets.tolist()]
    return {
        "policy": kind,
        "setting": ", ".join(f"{name} = {value}" for name, value in setting.items()),
        "score": float(np.exp(np.mean([np.log(score(task)) for task in tasks]))),
        **dict(zip(SERIES, regrets.mean(axis=0).tolist(), strict=True)),
    }


def earlier_rows(without: list[str]) -> list[dict[str, Any]]:
    """Results on file of other policies than those named."""
    path = RESULTS.with_suffix(".json")
    rows = json.loads(path.read_text())["rows"] if path.exists() else []
    return [row for row in rows if row["policy"] not in without]


def main() -> None:
    parser = argparse.ArgumentParser(description="Choose the constants of policies on the development suite.")
    parser.add_argument("policies", nargs="*", metavar="policy", help=f"which ones, of {', '.join(GRIDS)}; all if none")
    kinds = parser.parse_args().policies or list(GRIDS)
    if unknown := set(kinds) - set(GRIDS):
        parser.error(f"no grid for {', '.join(sorted(unknown))}; there are {', '.join(GRIDS)}")
    report = Report(
        title="Constants of policies: scores on the development suite (smaller is better; other columns: means)",
        command="python benchmarks/tune.py",
        versions=versions("conebandit", "numpy"),
        machine=machine("one core"),
    )
    report.rows = earlier_rows(kinds)
    for kind in kinds:
        rows = [measure(kind, setting) for setting in settings_of(GRIDS[kind])]
        best = min(row["score"] for row in rows)
        for row in rows:
            report.add(**row, best="best" if row["score"] == best else "")
    report.show()
    report.write(RESULTS)


if __name__ == "__main__":
    main()
