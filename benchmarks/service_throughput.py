"""Decisions a second: one by one beside a bare endpoint that keeps nothing, in batches of 1000, and after a start.

    python benchmarks/service_throughput.py      # three minutes; writes results/throughput.json and .md

Everything runs on loopback with SQLite: one load generator beside one server process, in turns. The bare endpoint
checks a body like ours and answers, with the same server (uvicorn) and framework (FastAPI).
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path
from statistics import median

import numpy as np

import conebandit as cb
from report import Report, machine, versions
from servers import running, serving, teach
from service_load import PATH, load

BARE = str(Path(__file__).parent / "bare_endpoint.py")
CONCURRENCIES, ROUNDS, SECONDS = (8, 32), 5, 3.0
BATCH, BATCHES = 1000, 20
LONG, STARTS = 100_000, 5  # events


def one_by_one(connections: int, address: str) -> dict[str, float]:
    """The service beside the bare endpoint, in turns; the ratio is the median of those of the rounds."""
    rates: list[tuple[float, float]] = []
    for _ in range(ROUNDS):
        with running(BARE) as (port, _):
            load(port, "/rows", connections, 0.5)
            bare = load(port, "/rows", connections, SECONDS)["per_second"]
        with running(*serving(address)) as (port, _):
            load(port, PATH, connections, 0.5)
            rates.append((bare, load(port, PATH, connections, SECONDS)["per_second"]))
    ratios = [service / bare for bare, service in rates]
    return {
        "bare_per_second": median(bare for bare, _ in rates),
        "per_second": median(service for _, service in rates),
        "ratio": median(ratios),
        "lowest_ratio": min(ratios),
        "highest_ratio": max(ratios),
    }


def in_batches(address: str) -> dict[str, float]:
    """Decisions a second in batches, of one caller, each with a context of its own."""
    rng = np.random.default_rng(1)
    rates = []
    with running(*serving(address)) as (port, _), cb.Client(f"http://127.0.0.1:{port}") as client:
        for _ in range(BATCHES):
            contexts = [{"age": float(a), "load": float(b)} for a, b in rng.random((BATCH, 2))]
            begun = time.perf_counter()
            client.decide_many("bench", contexts)
            rates.append(BATCH / (time.perf_counter() - begun))
    return {"per_second": median(rates), "lowest": min(rates), "highest": max(rates)}


def starts(address: str) -> dict[str, float]:
    """Seconds from the command to the first answer, with a snapshot of a long log."""
    with running(*serving(address)) as (port, _):
        teach(port, LONG)
    spent = []
    for _ in range(STARTS):
        begun = time.perf_counter()
        with running(*serving(address)):
            spent.append(time.perf_counter() - begun)
    return {"start_seconds": median(spent), "longest": max(spent)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--to", type=Path, default=Path(__file__).parent / "results" / "throughput")
    asked = parser.parse_args()
    report = Report(
        title="Decisions a second, and the start with a long log",
        command="python benchmarks/service_throughput.py",
        versions=versions("conebandit", "uvicorn", "fastapi"),
        machine=machine("2 cores, shared with the load generator"),
    )
    with tempfile.TemporaryDirectory() as folder:
        address = f"{folder}/log.db"
        with running(*serving(address)) as (port, _):
            teach(port, 4000)
        for connections in CONCURRENCIES:
            report.add(what=f"one by one, {connections} connections", **one_by_one(connections, address))
        report.add(what=f"in batches of {BATCH}", **in_batches(address))
        report.add(what=f"start with {LONG:,} events", **starts(f"{folder}/long.db"))
    report.show()
    report.write(asked.to)


if __name__ == "__main__":
    main()
