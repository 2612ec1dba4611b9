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
which no user could do. The monitor, which is told nothing, is held against the best of them all.
*Cost*: contexts fed one by one from Python, and many at a time.

The peers run in an environment and a process of their own, as in ``benchmarks/speed.py``.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from importlib import import_module, metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

IN_PEERS_ENVIRONMENT = "--peers" in sys.argv  # where conebandit is not installed
if TYPE_CHECKING or not IN_PEERS_ENVIRONMENT:
    import conebandit as cb
    from conebandit.environments import shift
    from report import Report
    from speed import install_peers, last_line, peers_python

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "results" / "shift"

ALPHA = 0.01
DIMS, NUS = (1, 2, 5), (1.0, 3.0)
STREAMS, LONG = 400, 100_000
CHANGE, AFTER, DELAY_STREAMS = 2000, 1000, 100
SEQUENCES = 100  # stationary ones on which the peers are tuned
DELTAS = (0.05, 0.02, 0.01, 0.005, 0.002, 0.0005)  # of ADWIN; the default is 0.002
HINKLEY = ((0.005, 0.9999), *((delta, 1.0) for delta in (0.005, 0.02, 0.05, 0.1)))  # delta, alpha; first: the defaults
TOLD = "Page-Hinkley, told the shift"
PEERS = ("ADWIN", "Page-Hinkley", TOLD)
MICROSECONDS = 5.0

PARTS = (*(f"false alarms {d}" for d in DIMS), *(f"delays {nu:g}" for nu in NUS), "cost")


def main() -> None:
    parser = argparse.ArgumentParser(description="The shift monitor beside river's detectors.")
    parser.add_argument("--part", choices=PARTS)
    parser.add_argument("--ours", action="store_true", help="keep the rows of the peers")
    parser.add_argument("--peers", type=Path, help="run the peers on these streams and print JSON")
    options = parser.parse_args()
    if options.peers:
        print(json.dumps(run_peers(options.peers)))
        return
    file = RESULTS.with_suffix(".json")
    earlier = json.loads(file.read_text()) if file.exists() else {"rows": []}
    rows = earlier["rows"]
    for part in [options.part] if options.part else PARTS:
        before = [row for row in rows if row["part"] == part]
        kept = [row for row in before if row["detector"] in PEERS] if options.ours else []
        rows = [row for row in rows if row["part"] != part] + measure(part, kept)
    asked = not options.ours and (not options.part or options.part.startswith("delays"))
    river = river_version() if asked or not file.exists() else earlier["versions"]["river"]
    report = Report(
        title="Shift: false alarms, delays and cost of the monitor, beside river's detectors",
        command="python benchmarks/shift.py",
        versions={"conebandit": cb.__version__, "numba": metadata.version("numba"), "river": river},
        machine=f"{platform.machine()}, Python {platform.python_version()}",
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


def late(first: list[int]) -> list[int]:
    """Delays of the alarms after the change."""
    return [at - CHANGE for at in first if at > CHANGE]


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
        command = [str(peers_python()), str(HERE / "shift.py"), "--peers", str(path)]
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


def run_peers(path: Path) -> list[dict[str, Any]]:
    drift = import_module("river.drift")
    data = np.load(path)
    stationary = data["stationary"]
    alarms = tune_adwin(drift, stationary)
    peaks = {setting: hinkley_peaks(stationary, *setting) for setting in HINKLEY}
    check_peaks(drift, stationary[0, :5000])
    rows = []
    for dim in DIMS:
        streams = data[f"d{dim}"]
        delta, share = choose_delta(alarms, dim)
        first = [first_alarm([drift.ADWIN(delta=delta) for _ in range(dim)], x) for x in streams]
        settings = f"delta {delta:g}; {share:.3f} of {SEQUENCES // dim} stationary streams"
        rows.append({"detector": "ADWIN", "d": dim, "first": first, "settings": settings})
        tried: list[dict[str, Any]] = []
        for setting in HINKLEY:
            threshold, share = choose_threshold(peaks[setting], dim)
            first = [first_alarm([hinkley(drift, threshold, *setting) for _ in range(dim)], x) for x in streams]
            settings = f"delta {setting[0]:g}, alpha {setting[1]:g}, threshold {threshold:.3g}; {share:.3f} of "
            settings += f"{SEQUENCES // dim} stationary streams"
            tried.append({"detector": "Page-Hinkley", "d": dim, "first": first, "settings": settings})
        rows.append(tried[0])
        best = min(tried, key=lambda row: float(np.mean(late(row["first"]))))
        rows.append(best | {"detector": TOLD})
    return rows


def first_alarm(detectors: list[Any], x: Any) -> int:
    """How many contexts were seen when any coordinate's detector gave an alarm; all if none did."""
    for t, row in enumerate(x.tolist(), start=1):
        for detector, value in zip(detectors, row, strict=False):
            detector.update(value)
            if detector.drift_detected:
                return t
    return len(x)


def as_streams(values: Any, dim: int) -> Any:
    """Sequences put together to streams in ``dim`` coordinates: (streams, dim)."""
    return values[: len(values) // dim * dim].reshape(-1, dim)


def tune_adwin(drift: Any, stationary: Any) -> dict[float, Any]:
    """For each delta, from large to small, which sequences give an alarm (they are fewer each time)."""
    alarms: dict[float, Any] = {}
    suspects = np.arange(len(stationary))
    for delta in DELTAS:
        flags = np.zeros(len(stationary), dtype=bool)
        for i in suspects:
            flags[i] = first_alarm([drift.ADWIN(delta=delta)], stationary[i][:, None]) < LONG
        alarms[delta], suspects = flags, np.flatnonzero(flags)
    return alarms


def choose_delta(alarms: dict[float, Any], dim: int) -> tuple[float, float]:
    shares = {delta: float(as_streams(flags, dim).any(axis=1).mean()) for delta, flags in alarms.items()}
    delta = max(delta for delta, share in shares.items() if share <= ALPHA)
    return delta, shares[delta]


def hinkley(drift: Any, threshold: float, delta: float, alpha: float) -> Any:
    return drift.PageHinkley(threshold=threshold, delta=delta, alpha=alpha)


def hinkley_peaks(x: Any, delta: float, alpha: float, min_instances: int = 30) -> Any:
    """The largest statistic of river's Page-Hinkley on each sequence (n, rounds): all thresholds in one go."""
    n = len(x)
    mean, up, down = np.zeros(n), np.zeros(n), np.zeros(n)
    lowest, highest, peak = np.full(n, np.inf), np.full(n, -1.0), np.zeros(n)
    for t, value in enumerate(np.ascontiguousarray(x.T), start=1):
        mean += (value - mean) / t
        up, down = alpha * up + value - mean - delta, alpha * down + value - mean + delta
        np.minimum(lowest, up, out=lowest)
        np.maximum(highest, down, out=highest)
        if t >= min_instances:
            np.maximum(peak, np.maximum(up - lowest, highest - down), out=peak)
    return peak


def check_peaks(drift: Any, x: Any) -> None:
    """The same as river's own, just below and just above the peak."""
    peak = float(hinkley_peaks(x[None], *HINKLEY[0])[0])
    for factor, expected in ((0.999, True), (1.001, False)):
        detector = hinkley(drift, factor * peak, *HINKLEY[0])
        found = False
        for value in x.tolist():
            detector.update(value)
            found = found or detector.drift_detected
        if found != expected:
            sys.exit("hinkley_peaks does not agree with river's PageHinkley.")


def choose_threshold(peaks: Any, dim: int) -> tuple[float, float]:
    """The smallest threshold that at most a share ALPHA of the streams exceeds."""
    highest = np.sort(as_streams(peaks, dim).max(axis=1))
    allowed = int(ALPHA * len(highest))
    threshold = float(highest[len(highest) - 1 - allowed])
    return threshold, float((highest > threshold).mean())


if __name__ == "__main__":
    main()
