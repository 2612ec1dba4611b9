"""Reports under a declared resolution of 0.02: what they miss, and what is bad in them.

    python benchmarks/resolution.py                                 everything, on the reported seeds
    python benchmarks/resolution.py --development --runs 2          a quick look while designing

Nine tasks of the suite, averages over the rounds after the last change until round 20,000 or 50,000. A policy that
takes a resolution is told it.

``missed``: share of essential arms that no reported arm covers up to the resolution; ``bad``: share of reported arms
that are unacceptable. ``holds``: their sum is below 0.08 over the nine tasks.
"""

from __future__ import annotations

from dataclasses import fields, is_dataclass, replace
from itertools import product
from typing import Any

import numpy as np

import conebandit as cb
from conebandit.studies.bench import Contender
from conebandit.studies.suite import SUITE, Task
from conebandit.validate.arrays import FloatArray
from contest import in_parallel, mean_and_error, options

RESOLUTION, MOST = 0.02, 0.08
TASKS = ("paper", "paper-loud", "smooth-1", "smooth-2", "arms-16", "metrics-3", "piecewise", "dose", "bernoulli")
HORIZONS, RUNS = (20_000, 50_000), 10
POLICIES = ("default", "tree-adaptive", "neighbours", "linear")
FIGURES = ("missed", "bad", "play", "shortfall", "front")


def told(policy: Any) -> Any:
    """The same policy, told the resolution if it takes one."""
    takes = is_dataclass(policy) and "resolution" in {each.name for each in fields(policy)}
    return replace(policy, resolution=RESOLUTION) if takes else policy


def one(task: Task, contender: Contender, seed: int) -> FloatArray:
    """A run, (horizons, figures)."""
    world = task.make(seed)
    policy = told(contender.make(world, seed))
    run = cb.simulate(policy, world, HORIZONS[-1], seed=seed, resolution=RESOLUTION)
    parts = [slice(world.change_points[-1], horizon) for horizon in HORIZONS]
    return np.array([[run.series[name][part].mean() for name in FIGURES] for part in parts])


def row_of(runs: FloatArray) -> dict[str, Any]:
    """Means over runs, (runs, figures)."""
    total, error = mean_and_error(runs[:, 0] + runs[:, 1])
    means = dict(zip(FIGURES, runs.mean(axis=0).tolist(), strict=True))
    return {"runs": len(runs), "missed + bad": total, "se": error, **means}


def main() -> None:
    asked = options("resolution", __doc__, POLICIES)
    seeds = asked.seeds(RUNS)
    tasks = [task for task in SUITE if task.name in TASKS]
    kinds = list(product(asked.contenders, tasks))
    found = iter(in_parallel(one, [(task, c, seed) for c, task in kinds for seed in seeds], "runs"))
    results = {c.name: np.array([[next(found) for _ in seeds] for _ in tasks]) for c in asked.contenders}
    report = asked.report(f"Reports under a resolution of {RESOLUTION}")
    for (policy, runs), (position, horizon) in product(results.items(), enumerate(HORIZONS)):
        for task, of_task in zip(tasks, runs[:, :, position], strict=True):
            report.add(task=task.name, rounds=horizon, policy=policy, **row_of(of_task))
        over_all = row_of(runs[:, :, position].mean(axis=0))
        report.add(task="all", rounds=horizon, policy=policy, **over_all, holds=over_all["missed + bad"] < MOST)
    asked.finish(report)


if __name__ == "__main__":
    main()
