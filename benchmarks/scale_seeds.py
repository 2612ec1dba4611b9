"""Runs of many seeds in one process: the rate of two threads, beside that of one.

    python benchmarks/scale_seeds.py [--quick]

``simulate_many(..., threads=2)`` and ``threads=1`` take turns; both make the same runs, bit for bit, which is checked.
A turn is a ratio: how many times as many rounds a second two threads make as one. *Best* compares the fastest turns of
both, *typical* is the median over turns. Libraries for linear algebra have one thread. Kernels are compiled before
anything is timed. The machine must be quiet: two threads can only be as fast as there are two cores for them.

*Outside kernels* is a share of the processor time of a run, as a profiler tells, which adds to it. Python's lock is
held for a part of it, since NumPy lets go of it as well. Of two threads that ask for a lock at random, each holding it
for a share g of its time, a rate of 2 / (1 + g^2) is to be expected: 1.8 for a third.
"""

from __future__ import annotations

import argparse
import cProfile
import pstats
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import conebandit as cb
from conebandit.environments.base import World
from conebandit.kernels.compile import compiling
from conebandit.studies.suite import find_tasks
from peers import on_one_core
from report import Report, machine, versions

WANTED = 1.8
HERE = Path(__file__).resolve().parent

POLICIES: dict[str, Callable[[World], Any]] = {
    "tree, paper": lambda env: cb.ConeTree(env.n_arms, env.cone, env.context_dim, preset="paper"),
    "tree, sound": lambda env: cb.ConeTree(env.n_arms, env.cone, env.context_dim, preset="sound"),
    "tree, adaptive": lambda env: cb.ConeTree(env.n_arms, env.cone, env.context_dim, preset="adaptive"),
    "default": lambda env: cb.default_policy(env.n_arms, env.cone, env.context_dim),
}
TASKS = ("paper", "smooth-2")
ROUNDS = {"default": 50_000}  # of a run, as in the contest
OTHER_ROUNDS = 200_000
SEEDS, TURNS = 8, 9


def main() -> None:
    parser = argparse.ArgumentParser(description="Rate of two threads beside that of one.")
    parser.add_argument(
        "--quick", action="store_true", help="a tenth of the rounds and three turns; nothing is written"
    )
    options = parser.parse_args()
    on_one_core()
    report = Report(
        title="Many seeds in one process: rounds a second of two threads and of one",
        command="python benchmarks/scale_seeds.py",
        versions=versions("conebandit", "numpy", "numba", "joblib"),
        machine=machine("two cores"),
    )
    for task in TASKS:
        env = find_tasks([task])[0].make(0)
        for name, make in POLICIES.items():
            rounds = ROUNDS.get(name, OTHER_ROUNDS) // (10 if options.quick else 1)
            report.add(task=task, policy=name, **measured(make(env), env, rounds, 3 if options.quick else TURNS))
    report.show()
    if not options.quick:
        report.write(HERE / "results" / "scale_seeds")


def measured(policy: Any, env: World, rounds: int, turns: int) -> dict[str, Any]:
    """One row: rates of one thread and of two, and their ratio."""
    require_the_same(policy, env, min(rounds, 10_000))
    known = len(compiling.kernels)
    times = [(seconds(policy, env, rounds, 1), seconds(policy, env, rounds, 2)) for _ in range(turns)]
    assert len(compiling.kernels) == known, "a kernel was compiled while it was timed"
    one, two = (min(each) for each in zip(*times, strict=True))
    best = one / two
    return {
        "rounds a second, one thread": int(SEEDS * rounds / one),
        "two threads": int(SEEDS * rounds / two),
        "best": best,
        "typical": statistics.median(a / b for a, b in times),
        "outside kernels": share_outside_kernels(policy, env, rounds),
        f"best at least {WANTED}": best >= WANTED,
    }


def seconds(policy: Any, env: World, rounds: int, threads: int) -> float:
    """Wall time of all runs."""
    start = time.perf_counter()
    cb.simulate_many(policy, env, rounds, range(SEEDS), threads=threads, progress=False)
    return time.perf_counter() - start


def require_the_same(policy: Any, env: World, rounds: int) -> None:
    """Runs do not depend on the number of threads."""
    one, two = (cb.simulate_many(policy, env, rounds, range(3), threads=n, progress=False) for n in (1, 2))
    for a, b in zip(one, two, strict=True):
        assert np.array_equal(a.arms, b.arms)
        assert np.array_equal(a.reported, b.reported)
        assert np.array_equal(a.series["play"], b.series["play"])


def share_outside_kernels(policy: Any, env: World, rounds: int) -> float:
    """The share of the processor time of a run that is spent outside of kernels, as a profiler tells."""
    profile = cProfile.Profile(time.thread_time)
    profile.runcall(cb.simulate, policy, env, rounds)
    # A kernel is listed under the file that it is in.
    spent = [(Path(where[0]).parts, row[2]) for where, row in pstats.Stats(profile).stats.items()]  # type: ignore[attr-defined]
    return 1.0 - float(sum(own for parts, own in spent if "kernels" in parts)) / float(sum(own for _, own in spent))


if __name__ == "__main__":
    main()
