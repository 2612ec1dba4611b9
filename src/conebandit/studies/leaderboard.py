"""The leaderboard as JSON, as a page and on the terminal; and joining new runs to those on file."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
from rich.box import SIMPLE_HEAD
from rich.table import Table

from conebandit._version import __version__
from conebandit.studies.bench import CONTENDERS, Row
from conebandit.studies.standings import (
    BASELINES,
    QUANTITIES,
    RATIOS,
    REPORT_WEIGHT,
    Comparison,
    Standing,
    comparisons,
    mean_ranks,
    standings,
    summary,
)
from conebandit.studies.suite import EXTRA, SUITE

MIN_SEEDS = 10  # with fewer, ratios are mostly luck
MIN_WIDTH = 150  # columns of a terminal that has room for everything
NARROW = tuple(name for name in QUANTITIES if name not in ("recall", "precision"))  # shown where there is less room


def describe(horizon: int, seconds: float, *, quick: bool, seeds: int) -> dict[str, Any]:
    """How the runs were made: command, machine, versions."""
    command = "conebandit bench --quick" if quick else f"conebandit bench --seeds {seeds} --horizon {horizon}"
    return {
        "command": command,
        "date": datetime.now(UTC).date().isoformat(),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores",
        "versions": {"conebandit": __version__, **{name: metadata.version(name) for name in ("numpy", "numba")}},
        "horizon": horizon,
        "seconds": round(seconds),
    }


def to_json(rows: Sequence[Row], about: Mapping[str, Any]) -> str:
    """All runs, and what is computed from them, with how they were made."""
    table = standings(rows)
    found = comparisons(table)
    data = {
        **about,
        "summary": {name: {"geometric mean": g, "worst": w} for name, (g, w) in summary(found).items()},
        "comparisons": [asdict(comparison) for comparison in found],
        "standings": [asdict(standing) for standing in table],
        "runs": list(rows),
    }
    return json.dumps(data, indent=1).replace("NaN", "null") + "\n"


def read_rows(path: Path) -> tuple[list[Row], dict[str, Any]]:
    """Runs and description from a file that :func:`to_json` wrote."""
    data = json.loads(path.read_text())
    about = {name: data[name] for name in ("command", "date", "machine", "versions", "horizon", "seconds")}
    return data["runs"], about


@dataclass(frozen=True)
class Earlier:
    """Runs on file, and how they were made."""

    rows: list[Row]
    about: dict[str, Any]

    @classmethod
    def read(cls, path: Path, *, horizon: int, seeds: int) -> Earlier | None:
        """What :func:`to_json` wrote, checked to be as long and as many as the new runs; None if there is no file."""
        if not path.exists():
            return None
        try:
            rows, about = read_rows(path)
            about["seconds"] = float(about["seconds"])
            standings(rows)
            found = {row["seed"] for row in rows}
        except (OSError, ValueError, LookupError, TypeError) as error:
            raise ValueError(f"{path} cannot be read as a leaderboard: {type(error).__name__}, {error}.") from None
        if about["horizon"] != horizon or found != set(range(seeds)):
            raise ValueError(
                f"runs in {path} have another horizon or other seeds ({about['horizon']} rounds, {len(found)} seeds) "
                f"than the new ones ({horizon} rounds, {seeds} seeds); they cannot be joined."
            )
        return cls(rows, about)

    def joined(self, rows: Sequence[Row], about: Mapping[str, Any]) -> tuple[list[Row], dict[str, Any]]:
        """New runs together with the earlier ones of other policies or tasks."""
        new = {(row["policy"], row["task"]) for row in rows}
        kept = [row for row in self.rows if (row["policy"], row["task"]) not in new]
        again = f"{self.about['command']}, then again with --keep for {', '.join(sorted({name for name, _ in new}))}"
        seconds = round(self.about["seconds"] + about["seconds"])
        return [*rows, *kept], {**about, "command": again, "seconds": seconds}


def to_markdown(rows: Sequence[Row], about: Mapping[str, Any]) -> str:
    """The leaderboard page."""
    table = standings(rows)
    found = comparisons(table)
    seeds = len({row["seed"] for row in rows})
    versions = ", ".join(f"{name} {version}" for name, version in about["versions"].items())
    lines = [
        "# Leaderboard",
        "",
        f"Made by `{about['command']}` on {about['date']} ({about['machine']}; {versions}): {about['horizon']:,} "
        f"rounds, {seeds} seeds, {about['seconds'] / 60:.0f} minutes. Do not edit: it is generated.",
        "",
        f"Averages per round after the last shift. **score = play + {REPORT_WEIGHT:g} (shortfall + front)**: what bad "
        "plays cost, plus a tenth of how wrong the picture of the trade-off is (report: what it lacks, and what is bad "
        "in it). Smaller is better, except for recall and precision. Baselines have their constants from the "
        "development suite (`benchmarks/results/tuning.md`).",
        "",
        "## The default policy against the best baseline of each task",
        "",
        *_comparison_lines(found),
        *(f"\n{line}" for line in caution(table)),
        "",
        "## All policies",
        "",
        "| policy | what it is | mean rank by score |",
        "| --- | --- | --- |",
    ]
    what = {contender.name: contender.about for contender in CONTENDERS}
    lines += [f"| {name} | {what.get(name, '')} | {rank:.1f} |" for name, rank in mean_ranks(table).items()]
    described = {task.name: task.about for task in (*SUITE, *EXTRA)}
    for task in dict.fromkeys(standing.task for standing in table):
        lines += ["", f"## {task}: {described.get(task, '')}", "", _line(["policy", *QUANTITIES])]
        lines += [_line(["---"] * (1 + len(QUANTITIES)))]
        lines += [_line([s.policy, *(_cell(s, name) for name in QUANTITIES)]) for s in table if s.task == task]
    return "\n".join(lines) + "\n"


def comparison_rows(found: Sequence[Comparison]) -> list[list[str]]:
    """How the default policy compares in every task and in all, as a table whose first row is its head."""
    rows = [["task", "score", "report", "coverage", "play", "play to the printed rule"]]
    rows += [[c.task, *(_ratio(getattr(c, ratio)) for ratio in RATIOS)] for c in found]
    total = summary(found)
    for index, name in enumerate(("geometric mean", "worst")):
        rows.append([name, *(_ratio(total[ratio][index]) for ratio in RATIOS)])
    return rows


def _comparison_lines(found: Sequence[Comparison]) -> list[str]:
    head, *rows = comparison_rows(found)
    names = [row[0] for row in rows[:-2]] + [f"**{row[0]}**" for row in rows[-2:]]
    body = [[name, *row[1:]] for name, row in zip(names, rows, strict=True)]
    return [_line(head), _line(["---"] * len(head)), *map(_line, body)]


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _ratio(value: float) -> str:
    return "none comparable" if np.isnan(value) else f"{value:.3f}" if value < 0.1 else f"{value:.2f}"


def _cell(standing: Standing, name: str, *, error: bool = True) -> str:
    known = error and np.isfinite(standing.error[name])
    return f"{standing.mean[name]:.4f}" + (f" ± {standing.error[name]:.4f}" if known else "")


def caution(table: Sequence[Standing]) -> list[str]:
    """What to keep in mind when there were few seeds."""
    seeds = max((standing.runs for standing in table), default=0)
    if seeds >= MIN_SEEDS:
        return []
    few = "1 seed" if seeds == 1 else f"{seeds} seeds"
    baselines = len({standing.policy for standing in table}.intersection(BASELINES))
    best = f", and the best of {baselines} baselines is taken afterwards" if baselines > 1 else ""
    return [
        f"With {few} these ratios are mostly luck: every seed draws other mean functions{best}. To compare policies, "
        f"use --seeds {MIN_SEEDS} or more."
    ]


def _table(title: str) -> Table:
    """Narrow enough for 80 columns."""
    return Table(title=title, title_justify="left", box=SIMPLE_HEAD, padding=(0, 0, 0, 1), pad_edge=False)


def rich_tables(rows: Sequence[Row], width: int) -> list[Table]:
    """One table for each task and one for the comparison, for a terminal of this width."""
    table = standings(rows)
    wide = width >= MIN_WIDTH
    names = QUANTITIES if wide else NARROW
    shown = []
    for task in dict.fromkeys(standing.task for standing in table):
        one = _table(task)
        for column in ("policy", *names):
            one.add_column(column, justify="left" if column == "policy" else "right")
        for s in table:
            if s.task == task:
                one.add_row(s.policy, *(_cell(s, name, error=wide) for name in names))
        shown.append(one)
    ratios = _table("default policy to the best baseline")
    head, *body = comparison_rows(comparisons(table))
    for cell in head:
        ratios.add_column(cell)
    for row in body:
        ratios.add_row(*row)
    return [*shown, ratios]
