"""The shift monitor on streams whose contexts depend on each other, and on pairs of coordinates.

    python benchmarks/shift_streams.py                         (everything: a few hours)
    python benchmarks/shift_streams.py --part "alarms weekly"  (one part; rows of the others are kept as they were)
    python benchmarks/shift_streams.py --part "alarms weekly" --way block=700   (one row)
    python benchmarks/shift_streams.py --seed 1 --streams 50   (other, fewer streams, only printed: to try something)

*Alarms*: streams of 100,000 contexts in three coordinates whose law does not change, alpha 0.01. Autoregressive
ones, AR(.3) and AR(.7); *weekly*, with a mean that swings by a deviation over 700 contexts; *weekend*, with a mean a
deviation higher on the last two of seven days of 100 contexts; *uneven* weekends, with a Poisson number of contexts a
day. Each with blocks of one context, with the block that its user would give (a week, ended by hand if days are uneven;
64 contexts for AR), and with ``block="auto"``. To see weekends, auto must be shown at least two: its reference is 2047.
*Delays*: the same with a mean that is one deviation higher from context 50,000 on. *Pairs*: ten independent normal
coordinates, of which two, drawn anew in each stream, have correlation .9 (or .5) from context 2000 on; each coordinate
alone stays as it was.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from scipy.signal import lfilter

import conebandit as cb
from report import Report, machine, versions

RESULTS = Path(__file__).resolve().parent / "results" / "shift_streams"

ALPHA, DIM, LONG = 0.01, 3, 100_000
STREAMS, FEWER = 4000, 100
DAY, WEEK, AR_BLOCK = 100, 700, 64
CHANGE, MOVED = 50_000, 1.0
PAIR_DIM, PAIR_CHANGE, PAIR_AFTER, FOUND = 10, 2000, 4000, 0.9

Days = Any  # the number of the day of each context
Stream = tuple[Any, Days]


def autoregressive(correlation: float) -> Callable[[np.random.Generator], Stream]:
    def draw(rng: np.random.Generator) -> Stream:
        before = 200  # contexts until it is stationary
        noise = rng.standard_normal((before + LONG, DIM)) * np.sqrt(1 - correlation**2)
        return lfilter([1.0], [1.0, -correlation], noise, axis=0)[before:], np.arange(LONG) // DAY

    return draw


def weekly(rng: np.random.Generator) -> Stream:
    time = np.arange(LONG)
    return rng.normal(np.sin(2 * np.pi * time / WEEK)[:, None], size=(LONG, DIM)), time // DAY


def weekend(rng: np.random.Generator) -> Stream:
    days = np.arange(LONG) // DAY
    return rng.normal((days % 7 >= 5)[:, None], size=(LONG, DIM)), days


def uneven(rng: np.random.Generator) -> Stream:
    days = np.repeat(np.arange(2 * LONG // DAY), rng.poisson(DAY, 2 * LONG // DAY))[:LONG]
    return rng.normal((days % 7 >= 5)[:, None], size=(LONG, DIM)), days


KINDS: dict[str, Callable[[np.random.Generator], Stream]] = {
    "AR(.3)": autoregressive(0.3),
    "AR(.7)": autoregressive(0.7),
    "weekly": weekly,
    "weekend": weekend,
    "uneven": uneven,
}
WAYS: dict[str, dict[str, dict[str, Any]]] = {
    "AR(.3)": {"block=1": {}, "block=64": {"block": AR_BLOCK}, "auto": {"block": "auto"}},
    "AR(.7)": {"block=1": {}, "block=64": {"block": AR_BLOCK}, "auto": {"block": "auto"}},
    "weekly": {"block=1": {}, "block=700": {"block": WEEK}, "auto": {"block": "auto"}},
    "weekend": {
        "block=1": {},
        "block=700": {"block": WEEK},
        "auto, reference=2047": {"block": "auto", "reference": 2047},
    },
    "uneven": {"block=1": {}, "manual": {"block": "manual"}},
}
PARTS = (*(f"alarms {kind}" for kind in KINDS), *(f"delays {kind}" for kind in KINDS), "pairs 0.9", "pairs 0.5")


def main() -> None:
    parser = argparse.ArgumentParser(description="The shift monitor on streams of dependent contexts.")
    parser.add_argument("--part", choices=PARTS)
    parser.add_argument("--way", help="one of the ways of a part")
    parser.add_argument("--seed", type=int, default=0, help="of the streams; results are kept only for 0")
    parser.add_argument("--streams", type=int, help="how many, for all parts; results are then not kept")
    options = parser.parse_args()
    parts = [options.part] if options.part else list(PARTS)
    rows = [row for part in parts for row in measure(part, options.way, options.seed, options.streams)]
    file = RESULTS.with_suffix(".json")
    kept = json.loads(file.read_text())["rows"] if file.exists() else []
    measured = {(row["part"], row["way"]) for row in rows}
    rows += [row for row in kept if (row["part"], row["way"]) not in measured]
    report = Report(
        title="Shift: the monitor on streams of dependent contexts, and on pairs of coordinates",
        command="python benchmarks/shift_streams.py",
        versions=versions("conebandit", "numba"),
        machine=machine(),
    )
    for row in sorted(rows, key=place):
        report.add(**row)
    report.show()
    if options.seed == 0 and options.streams is None:
        report.write(RESULTS)


def place(row: dict[str, Any]) -> tuple[int, int]:
    """Where a row belongs in the table."""
    ways = list(WAYS.get(row["part"].partition(" ")[2], ()))
    return PARTS.index(row["part"]), ways.index(row["way"]) if ways else 0


def measure(part: str, only: str | None, seed: int, streams: int | None) -> list[dict[str, Any]]:
    """The rows of a part, or one of them."""
    what, _, kind = part.partition(" ")
    if what == "pairs":
        return [{"part": part} | pairs(float(kind), seed, streams or FEWER)]
    ways = WAYS[kind] if what == "alarms" else {name: way for name, way in WAYS[kind].items() if way}
    ways = {name: way for name, way in ways.items() if only in (None, name)}
    moved = MOVED if what == "delays" else 0.0
    first: dict[str, list[int]] = {way: [] for way in ways}
    for stream in range(streams or (FEWER if moved else STREAMS)):
        x, days = KINDS[kind](np.random.default_rng([seed, PARTS.index(part), stream]))
        x[CHANGE:] += moved
        for way, options in ways.items():
            if options or stream < FEWER:  # a false alarm in most streams needs no large sample
                first[way].append(first_alarm(x, days, stream, options))
    describe = delays if moved else false_alarms
    return [{"part": part, "way": way} | describe(first[way], bool(options)) for way, options in ways.items()]


def first_alarm(x: Any, days: Days, seed: int, options: dict[str, Any]) -> int:
    """How many contexts were seen at the alarm; 0 if there was none."""
    monitor = cb.ShiftMonitor(x.shape[1], alpha=ALPHA, seed=seed, **options)
    if options.get("block") == "manual":
        for week in np.split(x, np.flatnonzero(np.diff(days // 7)) + 1):
            monitor.update_many(week)
            monitor.end_block()
    else:
        monitor.update_many(x)
    return monitor.alarm.at if monitor.alarm else 0


def false_alarms(first: list[int], bar: bool) -> dict[str, Any]:
    alarms = sum(at > 0 for at in first)
    rate = alarms / len(first)
    wanted = {"wanted": f"<= {ALPHA:g}", "reached": rate <= ALPHA} if bar else {}
    error = float(np.sqrt(rate * (1.0 - rate) / len(first)))
    return {"streams": len(first), "rounds": LONG, "false_alarms": rate, "standard_error": error} | wanted


def delays(first: list[int], bar: bool) -> dict[str, Any]:
    late = [at - CHANGE for at in first if at > CHANGE]
    found = {"streams": len(first), "rounds": LONG, "found": len(late) / len(first)}
    return found | ({"delay": float(np.mean(late)), "longest": max(late)} if late else {})


def pairs(correlation: float, seed: int, streams: int) -> dict[str, Any]:
    """One pair of ten coordinates."""
    late, named = [], 0
    for stream in range(streams):
        rng = np.random.default_rng([seed, int(100 * correlation), stream])
        x = rng.standard_normal((PAIR_CHANGE + PAIR_AFTER, PAIR_DIM))
        i, j = sorted(rng.choice(PAIR_DIM, 2, replace=False))
        x[PAIR_CHANGE:, j] = correlation * x[PAIR_CHANGE:, i] + np.sqrt(1 - correlation**2) * x[PAIR_CHANGE:, j]
        monitor = cb.ShiftMonitor(PAIR_DIM, alpha=ALPHA, seed=stream)
        monitor.update_many(x)
        if monitor.alarm and monitor.alarm.at > PAIR_CHANGE:
            late.append(monitor.alarm.at - PAIR_CHANGE)
            named += monitor.alarm.pair == (i, j)
    found = {"way": "block=1", "streams": streams, "rounds": PAIR_CHANGE + PAIR_AFTER, "found": len(late) / streams}
    found |= {"delay": float(np.mean(late)), "longest": max(late), "pair_named": named / streams}
    return found | (
        {"wanted": f">= {FOUND:g}", "reached": len(late) >= FOUND * streams} if correlation == FOUND else {}
    )


if __name__ == "__main__":
    main()
