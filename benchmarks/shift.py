"""The shift monitor beside river's ADWIN and Page-Hinkley: false alarms, delays and cost.

    python benchmarks/shift.py                     (everything: some ten minutes)
    python benchmarks/shift.py --part cost         (one part; rows of the others are kept as they were)
    python benchmarks/shift.py --ours              (the monitor alone, on the same streams; rows of the peers are kept)

*False alarms*: 400 streams of 100,000 stationary contexts (density 4 x^3 in each of d = 1, 2, 5 coordinates), alpha
0.01. *Delays*: the paper's shift, density (nu + 1) x^nu for 2000 contexts, then uniform; 100 streams; all detectors on
the same ones, the peers with one detector for each coordinate. The peers are first tuned to the same rate of false
alarms: on 100 stationary sequences of 100,000 contexts (in d dimensions 100 // d streams) the largest ADWIN delta of a
grid, and the smallest Page-Hinkley threshold, with at most 1 % of the streams giving an alarm. Page-Hinkley comes as it
is, and once more told the shift: with the best of five (delta, alpha), chosen on the very streams that are compared,
which no user could do. The monitor, which is told nothing, is compared with the best of them all.
*Cost*: contexts fed one by one from Python, and many at a time.

The peers are in ``benchmarks/shift_peers.py`` and run in an environment and a process of their own.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

import conebandit as cb
from conebandit.environments import shift
from peers import install_peers, last_line, peers_python
from report import Report, machine, versions
from shift_peers import ALPHA, CHANGE, DETECTORS, DIMS, LONG, SEQUENCES, late

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "results" / "shift"

NUS = (1.0, 3.0)
STREAMS = 400
AFTER, DELAY_STREAMS = 1000, 100
MICROSECONDS = 5.0

PARTS = (*(f"false alarms {d}" for d in DIMS), *(f"delays {nu:g}" for nu in NUS), "cost")


def main() -> None:
    parser = argparse.ArgumentParser(description="The shift monitor beside river's detectors.")
    parser.add_argument("--part", choices=PARTS)
    parser.add_argument("--ours", action="store_true", help="keep the rows of the peers")
    options = parser.parse_args()
    file = RESULTS.with_suffix(".json")
    earlier = json.loads(file.read_text()) if file.exists() else {"rows": []}
    rows = earlier["rows"]
    for part in [options.part] if options.part else PARTS:
        before = [row for row in rows if row["part"] == part]
        kept = [row for row in before if row["detector"] in DETECTORS] if options.ours else []
        rows = [row for row in rows if row["part"] != part] + measure(part, kept)
    asked = not options.ours and (not options.part or options.part.startswith("delays"))
    river = river_version() if asked or not file.exists() else earlier["versions"]["river"]
    report = Report(
        title="Shift: false alarms, delays and cost of the monitor, beside river's detectors",
        command="python benchmarks/shift.py",
        versions=versions("conebandit", "numba") | {"river": river},
        machine=machine(),
    )
    for row in sorted(rows, key=lambda row: PARTS.index(row["part"])):
        report.add(**row)
    report.show()
    report.write(RESULTS)


def measure(part: str, kept: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows of a part; those of the peers may be kept from before."""
    kind, _, number = part.rpartition(" ")
    if kind == "false alarms":
        return [{"part": part} | false_alarms(int(number))]
    if kind == "delays":
        return [{"part": part} | row for row in delays(float(number), kept)]
    return [{"part": part} | row for row in costs()]


# ---- ours -----------------------------------------------------------------------------------------------------------


def false_alarms(dim: int) -> dict[str, Any]:
    law = shift.power_law(3, dim)
    alarms = 0
    for seed in range(STREAMS):
        monitor = cb.ShiftMonitor(dim, alpha=ALPHA, seed=seed)
        alarms += monitor.update_many(law.sample(np.random.default_rng([seed, dim]), LONG))
    return {
        "detector": "ShiftMonitor",
        "d": dim,
        "streams": STREAMS,
        "rounds": LONG,
        "false_alarms": alarms / STREAMS,
        "wanted": f"<= {ALPHA:g}",
        "reached": alarms <= ALPHA * STREAMS,
    }


def delays(nu: float, kept: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The monitor and the peers on the same streams; peers tuned on stationary ones."""
    rng = np.random.default_rng(int(nu))
    streams = {}
    for dim in DIMS:
        schedule = shift.change_point(shift.power_law(nu, dim), shift.uniform(dim), at=CHANGE)
        streams[f"d{dim}"] = np.array([schedule.sample(rng, CHANGE + AFTER) for _ in range(DELAY_STREAMS)])
    peers = kept or ask_peers(streams, shift.power_law(nu).sample(rng, SEQUENCES * LONG).reshape(SEQUENCES, LONG))
    rows = []
    for dim in DIMS:
        first = []
        for seed, x in enumerate(streams[f"d{dim}"]):
            monitor = cb.ShiftMonitor(dim, alpha=ALPHA, seed=seed)
            monitor.update_many(x)
            first.append(monitor.alarm.at if monitor.alarm else CHANGE + AFTER)
        theirs = [peer | {"nu": nu} for peer in peers if peer["d"] == dim]
        ours = {"detector": "ShiftMonitor", "d": dim, "nu": nu} | summary(first)
        best = min(peer["delay"] for peer in theirs)
        rows += [ours | {"wanted": f"< {best:.3g}", "reached": ours["delay"] < best}, *theirs]
    return rows


def summary(first: list[int]) -> dict[str, Any]:
    delay = late(first)
    return {
        "streams": len(first),
        "delay": float(np.mean(delay)),
        "standard_error": float(np.std(delay, ddof=1) / np.sqrt(len(delay))),
        "longest": int(max(delay)),
        "alarms_before_the_change": len(first) - len(delay),
    }


def costs() -> list[dict[str, Any]]:
    """The fastest of many short turns."""
    rows = []
    for dim in DIMS:
        x = np.random.default_rng(0).random((20_000, dim))
        monitor = cb.ShiftMonitor(dim)
        monitor.update_many(x)
        one_by_one = many = np.inf
        for part in np.array_split(x, 40):
            start = time.perf_counter()
            for row in part:
                monitor.update(row)
            one_by_one = min(one_by_one, (time.perf_counter() - start) / len(part))
            start = time.perf_counter()
            monitor.update_many(part)
            many = min(many, (time.perf_counter() - start) / len(part))
        for detector, seconds in (("ShiftMonitor, one by one", one_by_one), ("ShiftMonitor, many at a time", many)):
            rows.append(
                {
                    "detector": detector,
                    "d": dim,
                    "microseconds": 1e6 * seconds,
                    "wanted": f"< {MICROSECONDS:g} us",
                    "reached": bool(1e6 * seconds < MICROSECONDS),
                }
            )
    return rows


# ---- peers, in their own environment --------------------------------------------------------------------------------


def ask_peers(streams: dict[str, Any], stationary: Any) -> list[dict[str, Any]]:
    why = install_peers()["river"]
    if why:
        sys.exit(f"river is not available: {why}")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "streams.npz"
        np.savez(path, allow_pickle=False, stationary=stationary, **streams)
        command = [str(peers_python()), str(HERE / "shift_peers.py"), str(path)]
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ | {"PYTHONPATH": ""})
    if done.returncode:
        sys.exit(last_line(done.stderr))
    answer: list[dict[str, Any]] = json.loads(done.stdout.splitlines()[-1])
    return [{k: v for k, v in peer.items() if k != "first"} | summary(peer["first"]) for peer in answer]


def river_version() -> str:
    command = [str(peers_python()), "-c", "import river; print(river.__version__)"]
    if not peers_python().exists():
        return "not installed"
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


if __name__ == "__main__":
    main()
