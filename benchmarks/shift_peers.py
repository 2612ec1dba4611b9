"""River's detectors of a shift, tuned on stationary sequences and run on the streams of ``benchmarks/shift.py``.

``python benchmarks/shift_peers.py streams.npz`` prints JSON. It is run in the environment of the peers
(``benchmarks/peers.py``), where conebandit is not installed, so nothing of it is imported here.
"""

from __future__ import annotations

import json
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

ALPHA = 0.01
DIMS = (1, 2, 5)
LONG = 100_000
CHANGE = 2000
SEQUENCES = 100  # stationary ones on which the peers are tuned
DELTAS = (0.05, 0.02, 0.01, 0.005, 0.002, 0.0005)  # of ADWIN; the default is 0.002
HINKLEY = ((0.005, 0.9999), *((delta, 1.0) for delta in (0.005, 0.02, 0.05, 0.1)))  # delta, alpha; first: the defaults
TOLD = "Page-Hinkley, told the shift"
DETECTORS = ("ADWIN", "Page-Hinkley", TOLD)


def run_peers(path: Path) -> list[dict[str, Any]]:
    """When each detector gave its first alarm on each stream, for each number of coordinates."""
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


def late(first: list[int]) -> list[int]:
    """Delays of the alarms after the change."""
    return [at - CHANGE for at in first if at > CHANGE]


if __name__ == "__main__":
    print(json.dumps(run_peers(Path(sys.argv[1]))))
