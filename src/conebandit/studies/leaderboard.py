"""From runs to a leaderboard: means and standard errors, ranks by score, and how far ahead the default policy is."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
from rich.box import SIMPLE_HEAD
from rich.table import Table

from conebandit.regret import SERIES
from conebandit.studies.bench import CONTENDERS, DEFAULT, PRINTED, Row
from conebandit.studies.suite import EXTRA, SUITE

COVERAGE_WEIGHT = 0.1  # a tenth of how wrong the picture of the trade-off is, beside what bad plays cost
QUANTITIES = ("score", *SERIES)
ENOUGH_SEEDS = 10
WIDE = 150  # columns of a terminal that has room for standard errors
BASELINES = tuple(contender.name for contender in CONTENDERS if contender.baseline)


@dataclass(frozen=True)
class Standing:
    """A policy in one task: mean and standard error (nan for one seed) over seeds of the score and of every series."""

    task: str
    policy: str
    runs: int
    mean: dict[str, float]
    error: dict[str, float]


@dataclass(frozen=True)
class Comparison:
    """The default policy against the best baseline of each task, by ratio; below 1 is better.

    ``play`` compares with baselines whose coverage is at most twice the default's only (play alone is won by never
    exploring); nan where there is none.
    """

    task: str
    score: float
    coverage: float
    play: float
    play_to_printed: float


def standings(rows: Iterable[Row]) -> list[Standing]:
    """Means and standard errors, task by task, best score first.

    Examples
    --------
    >>> run = {"task": "a", "policy": "b", "seed": 0, "play": 0.02, "front": 0.1, "coverage": 0.3,
    ...        "recall": 1.0, "precision": 1.0, "lost": 0.0}
    >>> round(standings([run])[0].mean["score"], 3)
    0.05
    """
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        score = row["play"] + COVERAGE_WEIGHT * row["coverage"]
        groups.setdefault((row["task"], row["policy"]), []).append({**row, "score": score})
    found = []
    for (task, policy), runs in groups.items():
        values = np.array([[run[name] for name in QUANTITIES] for run in runs])
        error = values.std(axis=0, ddof=1) / np.sqrt(len(runs)) if len(runs) > 1 else np.full(len(QUANTITIES), np.nan)
        mean = dict(zip(QUANTITIES, values.mean(axis=0).tolist(), strict=True))
        found.append(Standing(task, policy, len(runs), mean, dict(zip(QUANTITIES, error.tolist(), strict=True))))
    tasks = list(dict.fromkeys(standing.task for standing in found))
    return sorted(found, key=lambda standing: (tasks.index(standing.task), standing.mean["score"]))


def comparisons(table: Sequence[Standing]) -> list[Comparison]:
    """The default policy against the best baseline, in every task that has both."""
    by_task: dict[str, dict[str, Standing]] = {}
    for standing in table:
        by_task.setdefault(standing.task, {})[standing.policy] = standing
    found = []
    for task, policies in by_task.items():
        rivals = [policies[name].mean for name in BASELINES if name in policies]
        if DEFAULT not in policies or not rivals:
            continue
        ours = policies[DEFAULT].mean
        near = [rival["play"] for rival in rivals if rival["coverage"] <= 2.0 * ours["coverage"]]
        printed = policies[PRINTED].mean["play"] if PRINTED in policies else np.nan
        found.append(
            Comparison(
                task,
                score=ours["score"] / min(rival["score"] for rival in rivals),
                coverage=ours["coverage"] / min(rival["coverage"] for rival in rivals),
                play=ours["play"] / min(near) if near else float("nan"),
                play_to_printed=ours["play"] / printed,
            )
        )
    return found


def summary(found: Sequence[Comparison]) -> dict[str, tuple[float, float]]:
    """Geometric mean over tasks, and the worst task, of every ratio; tasks without one are left out."""
    result = {}
    for name in ("score", "coverage", "play", "play_to_printed"):
        ratios = np.array([getattr(comparison, name) for comparison in found])
        ratios = ratios[np.isfinite(ratios)]
        result[name] = (float(np.exp(np.log(ratios).mean())), float(ratios.max())) if len(ratios) else (np.nan, np.nan)
    return result


def mean_ranks(table: Sequence[Standing]) -> dict[str, float]:
    """Average place of each policy by score over the tasks, best first."""
    places: dict[str, list[int]] = {}
    for task in dict.fromkeys(standing.task for standing in table):
        for place, standing in enumerate([s for s in table if s.task == task], start=1):
            places.setdefault(standing.policy, []).append(place)
    return dict(sorted(((name, float(np.mean(p))) for name, p in places.items()), key=lambda item: item[1]))


# ---- as files and tables --------------------------------------------------------------------------------------------


def describe(horizon: int, seconds: float, *, quick: bool, seeds: int) -> dict[str, Any]:
    """How the runs were made: command, machine, versions."""
    command = "conebandit bench --quick" if quick else f"conebandit bench --seeds {seeds} --horizon {horizon}"
    return {
        "command": command,
        "date": datetime.now(UTC).date().isoformat(),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores",
        "versions": {name: metadata.version(name) for name in ("conebandit", "numpy", "numba")},
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
        "Averages per round after the last shift. **score = play + 0.1 coverage**: what bad plays cost, plus a tenth "
        "of how wrong the picture of the trade-off is. Smaller is better, except for recall and precision. Baselines "
        "have their constants from the development suite (`benchmarks/results/tuning.md`).",
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
        lines += ["", f"## {task}: {described.get(task, '')}", "", "| policy | " + " | ".join(QUANTITIES) + " |"]
        lines += ["| --- |" + " --- |" * len(QUANTITIES)]
        for s in table:
            if s.task == task:
                lines.append(f"| {s.policy} | " + " | ".join(_cell(s, name) for name in QUANTITIES) + " |")
    return "\n".join(lines) + "\n"


def _comparison_lines(found: Sequence[Comparison]) -> list[str]:
    lines = ["| task | score | coverage | play | play to the printed rule |", "| --- | --- | --- | --- | --- |"]
    for c in found:
        lines.append(
            f"| {c.task} | {c.score:.2f} | {c.coverage:.2f} | {_ratio(c.play)} | {_ratio(c.play_to_printed)} |"
        )
    total = summary(found)
    for index, name in enumerate(("geometric mean", "worst")):
        cells = " | ".join(_ratio(total[key][index]) for key in ("score", "coverage", "play", "play_to_printed"))
        lines.append(f"| **{name}** | {cells} |")
    return lines


def _ratio(value: float) -> str:
    return "none comparable" if np.isnan(value) else f"{value:.3f}" if value < 0.1 else f"{value:.2f}"


def _cell(standing: Standing, name: str, *, error: bool = True) -> str:
    known = error and np.isfinite(standing.error[name])
    return f"{standing.mean[name]:.4f}" + (f" ± {standing.error[name]:.4f}" if known else "")


def caution(table: Sequence[Standing]) -> list[str]:
    """What to keep in mind when there were few seeds."""
    seeds = max((standing.runs for standing in table), default=0)
    if seeds >= ENOUGH_SEEDS:
        return []
    few = "1 seed" if seeds == 1 else f"{seeds} seeds"
    return [
        f"With {few} these ratios are mostly luck: every seed draws other mean functions, and the best of "
        f"{len(BASELINES)} baselines is taken afterwards. To compare policies, use --seeds {ENOUGH_SEEDS} or more."
    ]


def _table(title: str) -> Table:
    """Narrow enough for 80 columns."""
    return Table(title=title, title_justify="left", box=SIMPLE_HEAD, padding=(0, 0, 0, 1), pad_edge=False)


def rich_tables(rows: Sequence[Row], width: int) -> list[Table]:
    """One table for each task and one for the comparison, for a terminal that is so wide."""
    table = standings(rows)
    shown = []
    for task in dict.fromkeys(standing.task for standing in table):
        one = _table(task)
        for column in ("policy", *QUANTITIES):
            one.add_column(column, justify="left" if column == "policy" else "right")
        for s in table:
            if s.task == task:
                one.add_row(s.policy, *(_cell(s, name, error=width >= WIDE) for name in QUANTITIES))
        shown.append(one)
    ratios = _table("default policy to the best baseline")
    for line, text in enumerate(_comparison_lines(comparisons(table))):
        cells = [cell.strip(" *") for cell in text.strip("|").split("|")]
        if line == 0:
            for cell in cells:
                ratios.add_column(cell)
        elif line > 1:
            ratios.add_row(*cells)
    return [*shown, ratios]
