"""From runs to standings: means and standard errors, ranks by score, and how far ahead the default policy is."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from conebandit.regret import SERIES
from conebandit.studies.bench import CONTENDERS, DEFAULT, PRINTED, Row

REPORT_WEIGHT = 0.1  # a tenth of how wrong the picture of the trade-off is, beside what bad plays cost
QUANTITIES = ("score", *SERIES)
RATIOS = ("score", "report", "coverage", "play", "play_to_printed")  # of a comparison
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

    ``report`` is about the error of the report, ``shortfall + front``. ``play`` compares with baselines whose report
    error is at most twice the default's only (play alone is won by never exploring); nan where there is none.
    """

    task: str
    score: float
    report: float
    coverage: float
    play: float
    play_to_printed: float


def report_error(series: Mapping[str, float]) -> float:
    """How wrong the reported front is: what it lacks, and what is bad in it. Continuous in the true means.

    Examples
    --------
    >>> round(report_error({"shortfall": 0.2, "front": 0.1}), 3)
    0.3
    """
    return series["shortfall"] + series["front"]


def score(series: Mapping[str, float]) -> float:
    """What rankings go by, from averages of the series: ``play + 0.1 (shortfall + front)``; smaller is better.

    Examples
    --------
    >>> round(score({"play": 0.02, "shortfall": 0.2, "front": 0.1}), 3)
    0.05
    """
    return series["play"] + REPORT_WEIGHT * report_error(series)


def standings(rows: Iterable[Row]) -> list[Standing]:
    """Means and standard errors, task by task, best score first.

    Examples
    --------
    >>> run = {name: 0.0 for name in SERIES} | {"task": "a", "policy": "b", "seed": 0, "play": 0.02}
    >>> standings([run])[0].mean["score"]
    0.02
    """
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        if missing := [name for name in SERIES if name not in row]:
            raise ValueError(f"runs lack {', '.join(missing)}: they are of an earlier version and must be made anew.")
        groups.setdefault((row["task"], row["policy"]), []).append({**row, "score": score(row)})
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
        near = [rival["play"] for rival in rivals if report_error(rival) <= 2.0 * report_error(ours)]
        printed = policies[PRINTED].mean["play"] if PRINTED in policies else np.nan
        found.append(
            Comparison(
                task,
                score=ours["score"] / min(rival["score"] for rival in rivals),
                report=report_error(ours) / min(report_error(rival) for rival in rivals),
                coverage=ours["coverage"] / min(rival["coverage"] for rival in rivals),
                play=ours["play"] / min(near) if near else float("nan"),
                play_to_printed=ours["play"] / printed,
            )
        )
    return found


def summary(found: Sequence[Comparison]) -> dict[str, tuple[float, float]]:
    """Geometric mean over tasks, and the worst task, of every ratio; tasks without one are left out."""
    result = {}
    for name in RATIOS:
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
