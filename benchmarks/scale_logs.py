"""How fast policies learn from Parquet files, in how much memory, and how both grow.

    python benchmarks/scale_logs.py             # about half an hour; writes results/scale_logs.json and .md
    python benchmarks/scale_logs.py --quick     # small logs, two minutes; writes nothing

Each row is a process of its own, on one core, so that its peak of memory is that of one log. A log is files of a
million rows each. Rows for each second are of the time of the processor, reading included; memory is the peak beyond
what the process had when a small log was learned, by which everything is compiled. ``row by row`` is ``observe`` in a
loop of Python, on a small log of the same kind. Growth is the exponent that a line through the logarithms has.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl

import conebandit as cb
from conebandit.diagnose.fit import log_slope
from report import Report, machine, versions

STEM = Path(__file__).parent / "results" / "scale_logs"
POLICIES: dict[str, Callable[[Any], Any]] = {
    "ConeTree": lambda size: cb.ConeTree(*size),
    "ConeTree, adaptive": lambda size: cb.ConeTree(*size, preset="adaptive"),
    "default": lambda size: cb.default_policy(*size),
}
ARMS, DIMENSION = 10, 2  # and two metrics
ONE_CORE = ("POLARS_MAX_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
FILE_ROWS = 1_000_000
SMALL = 20_000  # a log to compile with, and to learn row by row


class Case(NamedTuple):
    """One log and who learns from it."""

    policy: str
    rows: int
    arms: int = ARMS
    dimension: int = DIMENSION


def write_log(case: Case, folder: Path) -> None:
    """Files with the rows of a smooth environment in which arms are drawn uniformly."""
    world = cb.environments.smooth(n_arms=case.arms, context_dim=case.dimension, change_point=0)
    rng = np.random.default_rng(0)
    for number, first in enumerate(range(0, case.rows, FILE_ROWS)):
        parts = []
        for start in range(first, min(first + FILE_ROWS, case.rows), 50_000):
            n = min(50_000, case.rows - start)
            x, arms = world.contexts(rng, n, start), rng.integers(0, case.arms, n)
            y = world.rewards(rng, world.means(x)[np.arange(n), arms])
            columns = {f"context.{j}": x[:, j] for j in range(case.dimension)}
            parts.append(pl.DataFrame({**columns, "arm": arms, "metric.a": y[:, 0], "metric.b": y[:, 1]}))
        pl.concat(parts).write_parquet(folder / f"part-{number:04}.parquet")


def learn(case: Case, folder: Path) -> dict[str, float]:
    """In this process: seconds of learning, megabytes of peak and of the policy, and seconds of a small log by rows."""
    world = cb.environments.smooth(n_arms=case.arms, context_dim=case.dimension, change_point=0)
    fresh = POLICIES[case.policy]((case.arms, world.cone, case.dimension))
    small = pl.scan_parquet(folder / "part-0000.parquet").head(SMALL).collect()
    fresh.clone().learn(small)
    by_rows, policy = _row_by_row(fresh.clone(), small), fresh.clone()
    before, start, began = _peak(), time.process_time(), time.perf_counter()
    policy.learn(folder)
    seconds, passed = time.process_time() - start, time.perf_counter() - began
    assert policy.n_observations == case.rows
    size = sum(array.nbytes for array in policy.state().values()) / 2**20
    return {"seconds": seconds, "wall": passed, "by_rows": by_rows, "peak": _peak() - before, "policy": size}


def _row_by_row(policy: Any, log: pl.DataFrame) -> float:
    """Seconds for each row."""
    # Copies, since kernels would be compiled anew for arrays that may not be written to.
    x, y = (np.array(log.select(pl.col(f"^{kind}.*$")).to_numpy(), order="C") for kind in ("context", "metric"))
    arms = log["arm"].to_list()
    start = time.process_time()
    for context, arm, reward in zip(x, arms, y, strict=True):
        policy.observe(context, arm, reward)
    return (time.process_time() - start) / len(arms)


def _peak() -> float:
    """The largest size of this process so far, in megabytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def measured(case: Case) -> dict[str, float]:
    """The same, of a process of its own, with a log that is gone afterwards."""
    with tempfile.TemporaryDirectory() as folder:
        write_log(case, Path(folder))
        alone = {**os.environ, **dict.fromkeys(ONE_CORE, "1")}
        command = [sys.executable, __file__, "--one", json.dumps(case), folder]
        done = subprocess.run(command, env=alone, check=True, capture_output=True, text=True)
    found: dict[str, float] = json.loads(done.stdout)
    return found


def add_case(report: Report, case: Case) -> dict[str, float]:
    """Measure one log."""
    found = measured(case)
    rate = case.rows / found["seconds"]
    report.add(
        policy=case.policy,
        rows=case.rows,
        arms=case.arms,
        dimension=case.dimension,
        rows_per_second=rate,
        times_row_by_row=found["by_rows"] * rate,
        peak_megabytes=found["peak"],
        policy_megabytes=found["policy"],
    )
    return {**found, "rate": rate}


def add_growth(report: Report, policy: str, along: str, sizes: list[int], cases: list[dict[str, float]]) -> None:
    """The exponents with which time and the size of the policy grow."""
    x = np.array(sizes, dtype=np.float64)
    time_, memory = (log_slope(x, np.array([case[name] for case in cases])) for name in ("seconds", "policy"))
    report.add(policy=policy, growth_with=along, exponent_of_time=time_[0], exponent_of_memory=memory[0])


def scale_logs(*, quick: bool) -> Report:
    """All measurements."""
    report = Report(
        title="Learning from Parquet files",
        command="python benchmarks/scale_logs.py" + " --quick" * quick,
        versions=versions("conebandit", "numba", "numpy", "polars"),
        machine=machine("one core"),
    )
    rows = [50_000, 200_000] if quick else [1_000_000, 3_000_000, 10_000_000]
    arms, dimensions = ([5, 10], [1, 2]) if quick else ([5, 10, 20, 40], [1, 2, 4, 8])
    for policy in POLICIES:
        found = [add_case(report, Case(policy, n)) for n in rows]
        add_growth(report, policy, "rows", rows, found)
        by_arms = [add_case(report, Case(policy, rows[0], arms=k)) for k in arms]
        add_growth(report, policy, "arms", arms, by_arms)
        by_dimension = [add_case(report, Case(policy, rows[0], dimension=d)) for d in dimensions]
        add_growth(report, policy, "dimension", dimensions, by_dimension)
    return report


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="small logs; writes nothing")
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.one:
        json.dump(learn(Case(*json.loads(asked.one[0])), Path(asked.one[1])), sys.stdout)
        return
    report = scale_logs(quick=asked.quick)
    report.show()
    if not asked.quick:
        report.write(STEM)


if __name__ == "__main__":
    main()
