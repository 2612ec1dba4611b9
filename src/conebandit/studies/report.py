"""The report on a study: a page with curves, averages and paired differences, and its tables as files."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from conebandit import plots
from conebandit._version import __version__
from conebandit.pages import page
from conebandit.plots.banded import MAX_CURVES
from conebandit.plots.curves import Curve
from conebandit.regret import SERIES, SHARES
from conebandit.studies.paired import LEVEL, Average, half_width
from conebandit.studies.results import Results
from conebandit.studies.tables import Rows, average_rows, difference_rows, write_tables
from conebandit.validate.arrays import FloatArray

MIN_SEEDS = 10  # with fewer, intervals rely on a normal distribution that nobody can see
DEFAULT_SERIES = ("play", "front", "shortfall")


class Report(NamedTuple):
    """What was written: the page, and tables and figures beside it."""

    page: Path
    tables: list[Path]


def write_report(results: Results, to: Path, *, reference: str | None = None, series: Sequence[str] = ()) -> Report:
    """Write the report on a study into a folder.

    Parameters
    ----------
    results
        Of the study, finished or not.
    to
        The folder.
    reference
        The policy that others are compared with; the first one by default.
    series
        What is shown; by default what the study has curves of.
    """
    drawn = results.plan.recipe.curves
    shown = tuple(dict.fromkeys(series)) or drawn or DEFAULT_SERIES
    base = reference or results.policies[0]
    differences, means = results.differences(shown, base), results.averages(shown)
    to.mkdir(parents=True, exist_ok=True)
    tables = write_tables(to / "averages", average_rows(means), means)
    if differences:
        tables += write_tables(to / "differences", difference_rows(differences, f"minus {base}"), differences)
    sections = []
    for number, place in enumerate(results.environments):
        figures = [path for name in shown if name in drawn for path in _figures(results, number, name, base, to)]
        mine = average_rows([each for each in means if each.environment == place])
        paired = difference_rows([each for each in differences if each.environment == place], f"minus {base}")
        tabled = page.table(_without_place(mine)) + page.table(_without_place(paired))
        sections.append(page.section(f"s{number}", page.heading(place) + tabled + page.figures(figures)))
    names = [(f"s{number}", place, "") for number, place in enumerate(results.environments)]
    words = "".join(map(page.paragraph, _method(results, base, len(differences), means)))
    contents = page.contents(names) if len(names) > 1 else ""
    body = page.definitions(_facts(results)) + words + contents + "".join(sections)
    path = to / "index.html"
    footer = f"Made by conebandit {__version__}: conebandit study report {results.path}."
    path.write_text(page.document(f"Study: {results.path.resolve().name}", body, footer), encoding="utf-8")
    return Report(path, tables)


def _without_place(rows: Rows) -> Rows:
    return [row[1:] for row in rows]


# ---- words ----------------------------------------------------------------------------------------------------------


def _facts(results: Results) -> list[tuple[str, str]]:
    return [
        ("Policies", ", ".join(results.policies)),
        ("Environments", ", ".join(results.environments)),
        ("Seeds", f"{len(results.plan.seeds):,}"),
        *facts_of_runs(results, "runs"),
    ]


def facts_of_runs(results: Results, what: str) -> list[tuple[str, str]]:
    """How many runs there are, whatever they are called, and what they were made with."""
    kind, plan, done = results.kind.name, results.plan, results.n_finished
    made = sorted(set(results.rows(["versions"])["versions"].to_list()))
    missing = f": the {kind} is not finished, {len(plan) - done:,} {what} are missing" if done < len(plan) else ""
    facts = [
        ("Finished" if what != "runs" else "Runs", f"{done:,} of {len(plan):,}{missing}"),
        ("Made with", "; ".join(made)),
        (f"{kind.capitalize()} file", f"SHA-256 {results.about['digest']}"),
    ]
    if len(made) > 1:
        facts.append(
            (
                "Caution",
                f"{what.capitalize()} were made with different versions, under which one may come out differently.",
            )
        )
    return facts


def _method(results: Results, reference: str, at_once: int, means: Sequence[Average]) -> list[str]:
    """How the numbers were found, and what they do not say."""
    level = f"{LEVEL:.0%}".replace("%", " %")
    small_is_good = [name for name in SERIES if name not in ("recall", "precision")]
    texts = [
        "Every series is averaged over the rounds after the last change of the environment, then over seeds. Of "
        f"{', '.join(small_is_good)} less is better, of recall and precision more. Intervals are Student's t over "
        f"seeds and hold with a probability of {level} each, if the average over seeds is close to normal. Bands "
        "around curves are the same, for each round alone. Curves are summed from the first round on; a dotted line is "
        "where contexts change for the last time.",
    ]
    if at_once:
        texts.append(
            "Differences are paired: a seed draws contexts, noise and, where an environment is random, its mean "
            f"functions, and all policies meet the same (common random numbers). So {reference} is subtracted seed by "
            "seed, over the seeds that both policies have. The first interval holds for one difference. The second "
            f"one holds with a probability of {level} for all {at_once} differences on this page together "
            "(Bonferroni), and only by it a difference is called lower or higher. Open means that this study does not "
            "decide it, not that policies are equal; same, that they are under every seed."
        )
    fewest = min(each.seeds for each in means)
    if fewest < MIN_SEEDS:
        texts.append(
            f"Caution: some averages are over {fewest} {'seed' if fewest == 1 else 'seeds'} only. With fewer than "
            f"{MIN_SEEDS} seeds intervals rely on a normal distribution that the data can hardly show"
            f"{', and with one seed there are none' if fewest == 1 else ''}."
        )
    if len(results.policies) > MAX_CURVES:
        texts.append(f"Figures show the first {MAX_CURVES} policies; tables have all.")
    return texts


# ---- figures --------------------------------------------------------------------------------------------------------


def _figures(results: Results, number: int, series: str, reference: str, to: Path) -> list[Path]:
    """Two pictures of a series in an environment: the policies, and their differences to one of them."""
    scene = results.plan.scenes[number]
    runs = results.curves(series, scene.label)
    if not runs:
        return []
    at, share = results.plan.recipe.rounds(scene.horizon), series in SHARES
    scale = at if share else np.ones(len(at))  # shares are shown as averages, the others are summed
    base, levels, differences = runs.get(reference, {}), {}, {}
    with np.errstate(invalid="ignore"):  # a series may be infinite
        for name, each in runs.items():
            levels[name] = _band(at, np.array(list(each.values())) / scale)
            pairs = [each[seed] - base[seed] for seed in each if seed in base]
            if pairs:  # of the reference, too: a line at zero, so that others keep their colours
                differences[name] = _band(at, np.array(pairs) / scale)
    stem = to / f"{series}-in-{_slug(scene.label)}-{number + 1}"
    label = f"{series}, average so far" if share else f"{series}, summed"
    change = [last for last in (results.changes()[scene.label],) if last]
    paths = [_drawn(levels, stem, label, change)]
    if len(differences) > 1:
        beside = stem.with_name(f"{stem.name}-minus-reference")
        paths.append(_drawn(differences, beside, f"{label}, minus {reference}", change))
    return paths


def _band(at: FloatArray, values: FloatArray) -> Curve:
    return at, values.mean(axis=0), half_width(values)


def _drawn(curves: dict[str, Curve], stem: Path, label: str, points: list[int]) -> Path:
    first = dict(list(curves.items())[:MAX_CURVES])
    figure = plots.bands(first, ylabel=label, change_points=points)
    return plots.save(figure, stem)[1]


def _slug(label: str) -> str:
    """A name for files, from a label that may hold anything."""
    return re.sub("[^A-Za-z0-9]+", "-", label).strip("-")[:60].lower()
