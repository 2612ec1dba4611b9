"""Trees without samples: their regret beside that of trees with them, and their memory over 20,000,000 rounds.

    python benchmarks/scale_stream.py [--quick]

*Regret.* ``ConeTree(history="stream")`` and ``"exact"`` in every task of the contest, with seeds that nothing was
chosen on: both meet the same contexts and the same luck. A row is the ratio of the averages over seeds after the last
change point, and how many standard errors of the paired difference lie between them.

*Memory.* One run in a process of its own, chunk by chunk, so that only the policy grows: bytes of its arrays, and what
the process held at most, after 1,000,000 rounds and after 20,000,000.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np

import conebandit as cb
from conebandit.policies.cone_tree import Preset
from conebandit.simulate import CHUNK
from conebandit.studies.bench import last_change
from conebandit.studies.pool import Workers, as_finished
from conebandit.studies.suite import HORIZON, SUITE, find_tasks
from report import Report, machine, versions

HERE = Path(__file__).resolve().parent
PRESETS: tuple[Preset, ...] = ("paper", "sound", "adaptive")
SEEDS = range(2000, 2030)
SERIES = ("play", "front", "shortfall")
WITHIN = 1.1
FEW, MANY = 1_000_000, 20_000_000
FLAT = 1.1  # times as much memory after MANY rounds as after FEW

Job = tuple[str, Preset, int, int]  # task, preset, seed, horizon


def main() -> None:
    parser = argparse.ArgumentParser(description="Trees without samples: regret and memory.")
    parser.add_argument("--quick", action="store_true", help="three tasks, four seeds, short runs; nothing is written")
    parser.add_argument("--memory", nargs=4, help=argparse.SUPPRESS, metavar=("PRESET", "HISTORY", "FEW", "MANY"))
    options = parser.parse_args()
    if options.memory:
        preset, history, few, many = options.memory
        print(json.dumps(memory_of_a_run(preset, history, int(few), int(many))))
        return
    report = Report(
        title="Trees without samples beside trees with them",
        command="python benchmarks/scale_stream.py",
        versions=versions("conebandit", "numpy", "numba"),
        machine=machine(),
    )
    tasks = ["paper", "smooth-2", "piecewise"] if options.quick else [task.name for task in SUITE]
    measure_regret(report, tasks, SEEDS[:4] if options.quick else SEEDS, 20_000 if options.quick else HORIZON)
    measure_memory(report, *((20_000, 400_000) if options.quick else (FEW, MANY)))
    report.show()
    if not options.quick:
        report.write(HERE / "results" / "scale_stream")


# ---- regret ----------------------------------------------------------------------------------------------------------


def measure_regret(report: Report, tasks: list[str], seeds: range, horizon: int) -> None:
    """A row for each preset and task, and one for all tasks of a preset together."""
    jobs = [(task, preset, seed, horizon) for preset in PRESETS for task in tasks for seed in seeds]
    runs = dict(as_finished(one_pair, jobs, Workers()))
    for preset in PRESETS:
        rows = {task: [runs[n] for n, job in enumerate(jobs) if job[:2] == (task, preset)] for task in tasks}
        for task, pairs in rows.items():
            report.add(what="regret", preset=preset, task=task, **compared(np.array(pairs)))
        everything = np.array(list(rows.values())).mean(axis=0)
        report.add(what="regret", preset=preset, task="all tasks", **compared(everything))


def one_pair(job: Job) -> list[list[float]]:
    """Averages of the series with samples and without, in one task with one seed."""
    task, preset, seed, horizon = job
    env = find_tasks([task])[0].make(seed)
    found = []
    for history in ("exact", "stream"):
        policy = cb.ConeTree(env.n_arms, env.cone, env.context_dim, preset=preset, history=history, seed=seed)
        run = cb.simulate(policy, env, horizon, seed)
        found.append([run.average(name, after=last_change(env)) for name in SERIES])
    return found


def compared(pairs: np.ndarray) -> dict[str, Any]:
    """Ratios of averages over seeds (n, 2, series), with standard errors of the first one's difference."""
    exact, stream = pairs.mean(axis=0)
    difference = pairs[:, 1, 0] - pairs[:, 0, 0]
    error = float(difference.std(ddof=1) / np.sqrt(len(pairs)))
    return {
        "play, exact": float(exact[0]),
        **{f"{name}, stream / exact": float(b / a) for name, a, b in zip(SERIES, exact, stream, strict=True)},
        "standard errors": float(difference.mean() / error) if error else 0.0,
        "as wanted": bool(stream[0] <= WITHIN * exact[0]),
    }


# ---- memory ----------------------------------------------------------------------------------------------------------


def measure_memory(report: Report, few: int, many: int) -> None:
    """A row for each preset without samples, and one with them to compare with."""
    for preset, history in [*((preset, "stream") for preset in PRESETS), ("sound", "exact")]:
        most = many if history == "stream" else few
        command = [sys.executable, str(HERE / "scale_stream.py"), "--memory", preset, history, str(few), str(most)]
        found = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        (arrays, peak), (later_arrays, later_peak) = found
        report.add(
            what="memory",
            preset=preset,
            task=f"history={history!r}, smooth-2",
            **{
                f"MB of arrays, {few:,} rounds": arrays / 2**20,
                f"{many:,} rounds": later_arrays / 2**20 if most == many else None,
                "MB of the process at most": peak / 2**20,
                f"after {many:,}": later_peak / 2**20 if most == many else None,
                "as wanted": later_peak <= FLAT * peak if most == many else None,
            },
        )


def memory_of_a_run(preset: Preset, history: Any, few: int, many: int) -> list[tuple[int, int]]:
    """Bytes of the policy's arrays and the most that this process has held, after few rounds and after many."""
    env = find_tasks(["smooth-2"])[0].make(0)
    policy = cb.ConeTree(env.n_arms, env.cone, env.context_dim, preset=preset, history=history)
    rng, found = np.random.default_rng(0), []
    for start in range(0, many, CHUNK):
        contexts = np.ascontiguousarray(env.contexts(rng, CHUNK, start))
        outcomes = np.ascontiguousarray(env.rewards(rng, env.means(contexts)))
        policy.run_chunk(contexts, outcomes, np.arange(start, start + CHUNK, dtype=np.uint64))
        if start + CHUNK in (few, many):
            arrays = sum(array.nbytes for array in policy._state)
            found.append((arrays, held_at_most()))
    return [found[0], found[-1]]


def held_at_most() -> int:
    """Bytes that this process has held at most; ``getrusage`` would count those of the one that started it as well."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * int(next(line for line in lines if line.startswith("VmHWM")).split()[1])


if __name__ == "__main__":
    main()
