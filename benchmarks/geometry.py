"""Speed of fronts and gaps, beside real peers, in one process and one run.

    make bench            (or: python benchmarks/geometry.py)

Prints one table of ratios and writes it, with the machine it was measured on, to ``benchmarks/results/geometry.*``.
Contenders take turns within each round, and the fastest of all rounds counts, so that a busy machine hurts all alike.

Peers. *moocore* (C): ``is_nondominated``; it knows the orthant only, so for the narrow cone it gets points that were
mapped to facet coordinates first (the mapping is timed for us and not for it). *VOPy* needs PyTorch, so its published
algorithm for cones (keep one point, drop all that it dominates, go on with the next) is timed instead, written again
here with one test for each pair as in the original; where that would take minutes it is left out.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import moocore
import numpy as np
from numpy.typing import NDArray

import conebandit as cb
from report import Report, machine, versions

Array = NDArray[np.float64]

NARROW = {
    2: cb.Cone.from_rays([[1, 0.6], [0.6, 1]]),
    3: cb.Cone.from_rays(np.eye(3) + 0.5),
    5: cb.Cone.from_rays(np.eye(5) + 0.5),
}


def fastest(contenders: dict[str, Callable[[], object]], *, rounds: int) -> dict[str, float]:
    """Shortest time of each contender, in seconds; they take turns."""
    best = dict.fromkeys(contenders, np.inf)
    for run in contenders.values():
        run()  # compile, warm up
    for _ in range(rounds):
        for name, run in contenders.items():
            start = time.perf_counter()
            run()
            best[name] = min(best[name], time.perf_counter() - start)
    return best


def cloud(kind: str, n: int, dim: int, rng: np.random.Generator) -> Array:
    if kind == "cube":
        return rng.random((n, dim))
    points = np.abs(rng.normal(size=(n, dim)))
    unit: Array = points / np.linalg.norm(points, axis=1, keepdims=True)
    return unit


def undominated_by_turns(points: Array, facets: Array) -> list[int]:
    """The published algorithm of VOPy: each surviving point in turn removes what it dominates, pair by pair."""
    left = list(range(len(points)))
    turn = 0
    while turn < len(left):
        chosen = points[left[turn]]
        keep = [i for i in left if i == left[turn] or not (facets @ (chosen - points[i]) >= 0).all()]
        turn = keep.index(left[turn]) + 1
        left = keep
    return left


def measure_fronts(report: Report) -> None:
    rng = np.random.default_rng(0)
    for cone_name in ("orthant", "narrow"):
        for dim in (2, 3, 5):
            cone = cb.Cone.orthant(dim) if cone_name == "orthant" else NARROW[dim]
            for n in (1_000, 10_000, 100_000):
                for kind in ("cube", "front"):
                    points = cloud(kind, n, dim, rng)
                    measure_front(report, cone_name, cone, kind, points)


def measure_front(report: Report, cone_name: str, cone: cb.Cone, kind: str, points: Array) -> None:
    n, dim = points.shape
    mapped = points if cone_name == "orthant" else points @ cone.facets.T
    contenders: dict[str, Callable[[], object]] = {
        "conebandit": lambda: cb.pareto_mask(points, cone),
        "moocore": lambda: moocore.is_nondominated(mapped, maximise=True, keep_weakly=True),
    }
    times = fastest(contenders, rounds={1_000: 200, 10_000: 30, 100_000: 5}[n])
    front = int(cb.pareto_mask(points, cone).sum())
    if n * front <= 1_000_000:
        times |= fastest({"vopy": lambda: undominated_by_turns(points, cone.facets)}, rounds=1)
    limit = 1.5 if n == 1_000 else 1.2
    ratio = times["conebandit"] / times["moocore"]
    report.add(
        task="pareto_mask",
        cone=cone_name,
        input=f"{kind}, N = {n:,}, M = {dim}",
        front=front,
        milliseconds=1e3 * times["conebandit"],
        to_moocore=ratio,
        to_vopy=times["conebandit"] / times["vopy"] if "vopy" in times else None,
        wanted=f"<= {limit} x moocore" if cone_name == "orthant" else "",
        reached=ratio <= limit if cone_name == "orthant" else None,
    )


def measure_batches(report: Report) -> None:
    rng = np.random.default_rng(1)
    means = rng.uniform(0.1, 1.1, (100_000, 10, 2))
    for cone_name, cone, gap_limit in (("orthant", cb.Cone.orthant(2), 0.2), ("narrow", NARROW[2], 1.0)):
        mask = cb.pareto_mask(means, cone)
        runs: dict[str, Callable[[], object]] = {
            "pareto_mask": partial(cb.pareto_mask, means, cone),
            "gap": partial(cb.gap, means, mask, cone),
        }
        times = fastest(runs, rounds=5)
        for task, limit in (("pareto_mask", 0.1), ("gap", gap_limit)):
            report.add(
                task=task,
                cone=cone_name,
                input="batch (100,000, 10, 2)",
                front=round(float(mask.sum(axis=1).mean()), 1),
                milliseconds=1e3 * times[task],
                wanted=f"< {1e3 * limit:g} ms",
                reached=times[task] < limit,
            )


def measure_gap_in_three_dimensions(report: Report) -> None:
    rng = np.random.default_rng(2)
    front = cloud("front", 10, 3, rng) + 0.3
    while not cb.pareto_mask(front, NARROW[3]).all():
        front = cloud("front", 10, 3, rng) + 0.3
    points = rng.uniform(0.1, 0.6, (20_000, 3))
    times = fastest({"gap": lambda: cb.gap(points, front, NARROW[3])}, rounds=5)
    each = times["gap"] / len(points)
    report.add(
        task="gap",
        cone="narrow",
        input="20,000 points, front of 10, M = 3",
        front=10,
        milliseconds=1e3 * times["gap"],
        wanted="< 200 us a point",
        reached=each < 200e-6,
    )


def main() -> None:
    report = Report(
        title="Geometry: time of conebandit, and as a ratio to peers in the same run",
        command="python benchmarks/geometry.py",
        versions=versions("conebandit", "moocore", "numpy"),
        machine=machine("one core"),
    )
    measure_fronts(report)
    measure_batches(report)
    measure_gap_in_three_dimensions(report)
    report.show()
    report.write(Path(__file__).parent / "results" / "geometry")


if __name__ == "__main__":
    main()
