"""How well the default policy estimates means from samples with evenly drawn arms, and whether its radii cover them.

    python benchmarks/estimates.py                          the problems that it is designed on; writes results
    python benchmarks/estimates.py --before OTHER/src       beside another checkout: ratios of squared errors
    python benchmarks/estimates.py --kind doses --seeds 20  a closer look at some; writes nothing

What a policy plays decides on what it sees, so a run tells little about the model alone, and varies much. Here every
model sees the same samples: half of the contexts come from before the shift, half from after it. Errors are those at
fresh contexts after the shift, less what all arms have in common, in units of the deviation of the true means over
contexts and arms; of the five dose-response scenarios of ``benchmarks/trials.py`` as well. ``covered`` is the share of
means within pointwise 95 % radii. Development seeds: nothing that is claimed of the policy is measured on these.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import conebandit as cb
import trials
from calibration import Estimates
from conebandit.environments.base import World
from contest import CORES, DEVELOPMENT, RESULTS, in_parallel
from design_kinds import KINDS
from report import Report, machine, versions

SIZES = (120, 400, 1_600, 6_400)
SEEDS, FRESH = 4, 300
LATER = 1_000_000  # a round long after the shift


def problems(seed: int) -> dict[str, World]:
    """All problems of a seed, by name."""
    made = {kind.name: replace(kind, rounds=SIZES[-1]).make(seed) for kind in KINDS}
    return made | {f"trial, {name}": trials.trial_world(name, seed) for name in trials.SCENARIOS}


def judged(name: str, seed: int) -> list[tuple[float, float]]:
    """Mean squared error and share of covered means after each number of samples."""
    world, rng = problems(seed)[name], np.random.default_rng([seed, 7])
    n, arms = SIZES[-1], rng.integers(world.n_arms, size=SIZES[-1])
    first, second = world.contexts(rng, n, 0), world.contexts(rng, n, LATER)
    contexts = np.where(rng.random((n, 1)) < 0.5, first, second)
    rewards = world.rewards(rng, world.means(contexts))[np.arange(n), arms]
    fresh = world.contexts(rng, FRESH, LATER)
    means = world.means(fresh)
    unit = means.reshape(-1, world.n_objectives).std(axis=0)
    policy, found, start = cb.default_policy(world.n_arms, world.cone, world.context_dim, seed=seed), [], 0
    for size in SIZES:
        for t in range(start, size):
            policy.observe(contexts[t], int(arms[t]), rewards[t])
        start = size
        said = Estimates.of(policy, fresh)
        errors = said.means - means
        apart = (errors - errors.mean(axis=1, keepdims=True)) / unit
        # Before the first fit, which waits for two samples of each arm, nothing is said.
        found.append((float(np.mean(apart**2)), float(np.mean(np.abs(errors) <= said.pointwise))))
    return found


def child(names: list[str], seeds: int) -> None:
    """Print what all runs give, as JSON."""
    jobs = [(name, seed) for name in names for seed in range(DEVELOPMENT, DEVELOPMENT + seeds)]
    print(json.dumps(in_parallel(judged, jobs, "estimates")))


def runs_of(source: Path | None, names: list[str], seeds: int) -> Any:
    """(problems, seeds, sizes, 2), from a process that has the package from ``source``."""
    path = {"PYTHONPATH": str(source)} if source else {}
    command = [sys.executable, __file__, "--child", "--seeds", str(seeds), *(f"--kind={name}" for name in names)]
    found = subprocess.run(command, env={**os.environ, **path}, check=True, stdout=subprocess.PIPE, text=True)
    return np.array(json.loads(found.stdout)).reshape(len(names), seeds, len(SIZES), 2)


def add_rows(report: Report, name: str, now: Any, before: Any) -> None:
    """A row for each number of samples; of several problems if ``now`` is of more than one."""
    for place, size in enumerate(SIZES):
        logs = np.log(now[..., place, 0])
        row: dict[str, Any] = {"problem": name, "samples": size, "squared error": float(np.exp(np.nanmean(logs)))}
        if before is not None:
            ratios = (logs - np.log(before[..., place, 0])).ravel()
            ratios = ratios[np.isfinite(ratios)]
            row |= {"ratio": float(np.exp(ratios.mean())), "ratio se": float(ratios.std() / np.sqrt(ratios.size))}
        report.add(**row, covered=float(now[..., place, 1].mean()))


def main() -> None:
    names = list(problems(DEVELOPMENT))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--before", type=Path, help="folder src of another checkout")
    parser.add_argument("--kind", action="append", choices=names, help="may be given several times")
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    chosen = asked.kind or names
    if asked.child:
        child(chosen, asked.seeds)
        return
    now = runs_of(None, chosen, asked.seeds)
    before = runs_of(asked.before.resolve(), chosen, asked.seeds) if asked.before else None
    report = Report(
        title="Estimates of the default policy from evenly drawn arms (development seeds)",
        command="python benchmarks/estimates.py" + (" --before OTHER/src" if asked.before else ""),
        versions=versions("conebandit", "numpy", "numba"),
        machine=machine(f"{CORES} cores"),
    )
    rows = partial(add_rows, report)
    for i, name in enumerate(chosen):
        rows(name, now[i], None if before is None else before[i])
    if not asked.kind:
        rows("all", now, before)
    report.show()
    if not asked.kind and asked.seeds == SEEDS:
        report.write(RESULTS / "estimates")


if __name__ == "__main__":
    main()
