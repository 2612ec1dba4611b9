"""The page of what the service costs, from the results on file."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from service_load import CONNECTIONS, CORRECTED, DISTURBED, ROUNDS

MAX_STALL = 25.0  # ms: turns in which the machine kept an idle process waiting for longer say nothing of us


def service_page(results: dict[str, Any]) -> str:
    """Markdown."""
    lines = ["# What the service costs", "", "Made by `python benchmarks/service.py`, on loopback, one server process."]
    parts: dict[str, Callable[[Any], list[str]]]
    parts = {"load": _load_lines, "disturb": _disturb_lines, "correct": _correct_lines, "memory": _memory_lines}
    for part, describe in parts.items():
        if part in results:
            lines += ["", *describe(results[part])]
    return "\n".join(lines) + "\n"


def _load_lines(runs: list[dict[str, Any]]) -> list[str]:
    lines = [f"Decisions in a closed loop of {CONNECTIONS} connections; medians of {ROUNDS} rounds in turns.", ""]
    lines += ["| store | who | per second | p50 ms | p99 ms | ratio |", "|---|---|---|---|---|---|"]
    for run in runs:
        for who, r in run["rows"].items():
            ratio = f"{run['ratio']:.2f} (wanted: {run['wanted']})" if who == "service" else ""
            numbers = f"{r['per_second']:.0f} | {r['p50']:.1f} | {r['p99']:.1f}"
            lines.append(f"| {run['store']} | {who} | {numbers} | {ratio} |")
    return [*lines, "", "The ratio is to the faster of the bare endpoints, which commit one row for each request."]


def _disturb_lines(d: dict[str, Any]) -> list[str]:
    reading = [turn for turn in d["turns"] if turn["who"] == "while reading"]
    exports, fronts = (sum(turn[what] for turn in reading) for what in ("exports", "fronts"))
    lines = [
        f"One caller on a log that had {d['events']} events at first (SQLite), {DISTURBED:g} seconds alone, and as",
        f"long while others export the log as CSV and read the front, in {len(reading)} turns ({exports} exports,",
        f"{fronts} fronts). Beside them a process that does next to nothing says how long the machine keeps anybody",
        "waiting, for a core and for the disk (`benchmarks/stalls.py`):",
        "",
        "| | p50 ms | p99 ms | longest ms | latest nap beside it, ms | longest write beside it, ms |",
        "|---|---|---|---|---|---|",
    ]
    for turn in d["turns"]:
        numbers = [f"{turn[what]:.1f}" for what in ("p50", "p99", "longest", "nap", "write")]
        lines.append(f"| {turn['who']} | {' | '.join(numbers)} |")
    quiet = [turn["longest"] for turn in reading if max(turn["nap"], turn["write"]) <= MAX_STALL]
    return [
        *lines,
        "",
        f"Where it kept nobody waiting for more than {MAX_STALL:g} ms, in {len(quiet)} of {len(reading)} turns, the",
        f"longest decision while reading took {max(quiet, default=float('nan')):.1f} ms. Wanted: at most 50.",
    ]


def _correct_lines(runs: dict[str, dict[str, Any]]) -> list[str]:
    lines = [
        f"One caller, {CORRECTED:g} seconds each, on a log that is folded anew meanwhile (SQLite). *Counts after*:",
        "from the change to the first decision that takes it into account.",
        "",
        "| version | events in the log | meanwhile | p50 ms | p99 ms | longest ms | counts after |",
        "|---|---|---|---|---|---|---|",
    ]
    for version, run in runs.items():
        for what, r in run["rows"].items():
            numbers = f"{r['p50']:.1f} | {r['p99']:.1f} | {r['longest']:.1f}"
            counts = f"{r['counts_after']:.1f} s" if "counts_after" in r else ""
            lines.append(f"| {version} | {run['events']} | {what} | {numbers} | {counts} |")
    return lines


def _memory_lines(runs: dict[str, list[dict[str, Any]]]) -> list[str]:
    lines = [
        "Memory of writer, engine and store (SQLite). Decisions and outcomes come in batches of 500; one of the",
        "two metrics has a window of 36 hours and a default, so the windows of all decisions stay open:",
        "",
        "| policy | events in the log | MB | of which arrays of the policy | the rest | seconds |",
        "|---|---|---|---|---|---|",
    ]
    for policy, rows in runs.items():
        for r in rows:
            numbers = f"{r['megabytes']:.0f} | {r['policy']:.1f} | {r['megabytes'] - r['policy']:.0f}"
            lines.append(f"| {policy} | {r['events']} | {numbers} | {r['seconds']:.0f} |")
    return [
        *lines,
        "",
        "The arrays are what the policy has learned, in the library as in the service: a tree keeps its samples,",
        "here 48 bytes each, because a leaf that splits deals them out anew. The service itself looks decisions, ids,",
        "outcomes and open windows up in the store: with a policy of constant size it is flat once caches are full.",
        "With the tree the rest moves by a few MB, because its arrays are copied when they grow and for snapshots.",
    ]
