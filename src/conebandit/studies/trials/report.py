"""The report on simulated trials: operating characteristics as a page, and its tables as files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from conebandit._version import __version__
from conebandit.pages import page
from conebandit.studies.paired import Paired
from conebandit.studies.report import MIN_SEEDS, Report, facts_of_runs
from conebandit.studies.tables import Rows, difference_rows, write_tables
from conebandit.studies.trials.guard import declared_rules
from conebandit.studies.trials.measures import GIVEN, MEASURES, RECOMMENDED
from conebandit.studies.trials.results import Characteristic, Fact, Share, TrialResults

PERCENT = 100.0


class Shown(NamedTuple):
    """A table of the report: the name of its files, its title, and its measures with their heads and scales."""

    name: str
    title: str
    columns: dict[str, tuple[str, float]]


TABLES = (
    Shown(
        "recommendations",
        "Recommendations and stops",
        {
            "best": ("best, %", PERCENT),
            "front": ("undominated, %", PERCENT),
            "no_dose": ("no dose, %", PERCENT),
            "false_stop": ("false stops, %", PERCENT),
            "right_stop": ("right stops, %", PERCENT),
            "false_closing": ("acceptable dose closed, %", PERCENT),
        },
    ),
    Shown(
        "patients",
        "Patients of the trial",
        {
            "patients": ("patients", 1.0),
            "toxic": ("with toxicity", 1.0),
            "effective": ("with efficacy", 1.0),
            "overdosed": ("overdosed, %", PERCENT),
        },
    ),
    Shown(
        "estimates",
        "Estimates for the recommended dose",
        {
            "toxicity_error": ("toxicity, error, %", PERCENT),
            "toxicity_bias": ("toxicity, bias, %", PERCENT),
            "efficacy_error": ("efficacy, error, %", PERCENT),
            "efficacy_bias": ("efficacy, bias, %", PERCENT),
        },
    ),
)
COMPARED = ("best", "toxic", "effective")  # of which differences between designs are shown


def write_report(results: TrialResults, to: Path, *, reference: str | None = None) -> Report:
    """Write the report on simulated trials into a folder.

    Parameters
    ----------
    results
        Of the trials, finished or not.
    to
        The folder.
    reference
        The design that others are compared with; the first one by default.
    """
    found = Found.of(results, reference or results.policies[0])
    to.mkdir(parents=True, exist_ok=True)
    tables = write_tables(to / "truth", truth_rows(found.facts), found.facts)
    for shown in TABLES:
        mine = [each for each in found.characteristics if each.measure in shown.columns]
        tables += write_tables(to / shown.name, characteristic_rows(mine, shown), mine)
    tables += write_tables(to / "doses", share_rows(found.shares), found.shares)
    if found.differences:
        tables += write_tables(to / "differences", found.difference_rows(found.differences), found.differences)
    sections, names = [], []
    for number, scenario in enumerate(dict.fromkeys(each.scenario for each in found.facts)):
        sections.append(page.section(f"s{number}", page.heading(scenario) + _section(results, scenario, found)))
        names.append((f"s{number}", scenario, ""))
    words = "".join(map(page.paragraph, _method(results, found)))
    folded = page.folded("Designs", _designs(results)) + page.folded("What is counted", _definitions())
    body = page.definitions(_facts(results)) + words + folded
    path = to / "index.html"
    footer = f"Made by conebandit {__version__}: conebandit trial report {results.path}."
    title = f"Operating characteristics: {results.path.resolve().name}"
    path.write_text(page.document(title, body + page.contents(names) + "".join(sections), footer), encoding="utf-8")
    return Report(path, tables)


class Found(NamedTuple):
    """What a report tells; differences are to the design ``reference``."""

    characteristics: list[Characteristic]
    shares: list[Share]
    facts: list[Fact]
    differences: list[Paired]
    reference: str

    @classmethod
    def of(cls, results: TrialResults, reference: str) -> Found:
        """What trials have found."""
        differences = results.differences(COMPARED, reference)
        return cls(results.characteristics(list(MEASURES)), results.shares(), results.facts(), differences, reference)

    def difference_rows(self, differences: Sequence[Paired]) -> Rows:
        """Differences as a table of texts."""
        rows = difference_rows(differences, f"minus {self.reference}")
        return [["scenario", "design", "measure", "trials", *rows[0][4:]], *rows[1:]]


def _section(results: TrialResults, scenario: str, found: Found) -> str:
    """Everything about a scenario, size by size."""
    parts = [page.table(_without(truth_rows([each for each in found.facts if each.scenario == scenario]), 1))]
    for scene in results.plan.scenes:
        if scene.environment.label != scenario:
            continue
        here = (scenario, scene.horizon)
        parts.append(f"<h3>{scene.horizon} patients</h3>")
        for shown in TABLES:
            mine = [each for each in found.characteristics if each[:2] == here and each.measure in shown.columns]
            parts.append(page.paragraph(shown.title) + page.table(_without(characteristic_rows(mine, shown), 2)))
        shares = share_rows([each for each in found.shares if each[:2] == here])
        parts.append(page.paragraph("Shares of patients under each dose, %") + page.table(_without(shares, 2)))
        paired = [each for each in found.differences if each.environment == scene.label]
        if paired:
            rows = page.table(_without(found.difference_rows(paired), 1))
            parts.append(page.folded(f"Differences to {found.reference}, trial by trial", rows))
    return "".join(parts)


def _without(rows: Rows, columns: int) -> Rows:
    return [row[columns:] for row in rows]


# ---- tables ---------------------------------------------------------------------------------------------------------


def truth_rows(facts: Sequence[Fact]) -> Rows:
    """What is true of the doses, as a table of texts."""
    rows = [["scenario", "dose", "toxicity, %", "efficacy, %", "utility", "acceptable"]]
    for each in facts:
        chances = (f"{PERCENT * each.toxicity:.1f}", f"{PERCENT * each.efficacy:.1f}", f"{each.utility:.1f}")
        rows.append([each.scenario, str(each.dose), *chances, "yes" if each.acceptable else "no"])
    return rows


def characteristic_rows(found: Sequence[Characteristic], shown: Shown) -> Rows:
    """Averages with standard errors in brackets, a row for each design; columns that apply nowhere are left out."""
    values = {(each.scenario, each.patients, each.design, each.measure): each for each in found}
    cells = dict.fromkeys((each.scenario, each.patients, each.design) for each in found)
    names = [name for name in shown.columns if any(each.measure == name and each.trials for each in found)]
    rows = [["scenario", "n", "design", "trials", *(shown.columns[name][0] for name in names)]]
    for cell in cells:
        of_cell = [values[*cell, name] for name in names]
        trials = max((each.trials for each in of_cell), default=0)
        scaled = [_with_error(each.mean, each.error, shown.columns[each.measure][1]) for each in of_cell]
        rows.append([cell[0], str(cell[1]), cell[2], str(trials), *scaled])
    return rows


def share_rows(shares: Sequence[Share]) -> Rows:
    """Shares of patients under each dose, a row for each design and for either kind of patients."""
    values = {(each.scenario, each.patients, each.design, each.what, each.dose): each for each in shares}
    cells = dict.fromkeys(key[:4] for key in values)
    most = max((each.dose for each in shares), default=0)
    doses = [*range(1, most + 1), 0]
    words = {GIVEN: "given", RECOMMENDED: "recommended"}
    rows = [["scenario", "n", "design", "what", *(f"dose {dose}" if dose else "none" for dose in doses)]]
    for cell in cells:
        of_cell = (values.get((*cell, dose)) for dose in doses)
        texts = ["" if each is None else _with_error(each.mean, each.error, PERCENT) for each in of_cell]
        rows.append([cell[0], str(cell[1]), cell[2], words[cell[3]], *texts])
    return rows


def _with_error(mean: float, error: float, scale: float) -> str:
    if np.isnan(mean):
        return "none"
    digits = 1 if scale == PERCENT else 2
    return f"{scale * mean:.{digits}f} ({'none' if np.isnan(error) else f'{scale * error:.{digits}f}'})"


# ---- words ----------------------------------------------------------------------------------------------------------


def _facts(results: TrialResults) -> list[tuple[str, str]]:
    recipe, plan = results.recipe, results.plan
    sizes = dict.fromkeys(str(scene.horizon) for scene in plan.scenes)
    most = max(results.recipe.environment(scene, plan.seeds[0]).n_arms for scene in plan.scenes)
    rules = [str(rule) for rule in declared_rules(recipe.rules, most)]
    return [
        ("Designs", ", ".join(results.policies)),
        ("Sizes", f"{', '.join(sizes)} patients"),
        ("Trials", f"{len(plan.seeds):,} for each scenario, size and design"),
        (
            "Acceptable doses",
            f"chance of toxicity at most {recipe.limits.toxicity:g}, of efficacy at least {recipe.limits.efficacy:g}",
        ),
        (
            "Utility",
            f"efficacy alone 100, both {recipe.utility.both:g}, neither {recipe.utility.neither:g}, toxicity alone 0",
        ),
        ("Safety rules", "; ".join(rules) or "none, unless a design has its own"),
        ("Association", f"{recipe.association:g} between efficacy and toxicity of a patient"),
        *facts_of_runs(results, "trials"),
    ]


def _designs(results: TrialResults) -> str:
    """Every design with all its settings, also those that nobody has given."""
    plan = results.plan
    world = results.recipe.environment(plan.scenes[0], plan.seeds[0])
    found = []
    for entry in plan.policies:
        design: Any = results.recipe.design(entry, world, plan.seeds[0])
        settings = {each.name: getattr(design, each.name) for each in fields(design)}
        if "rules" in settings:
            settings["rules"] = "; ".join(map(str, settings["rules"])) or "none"
        found.append((entry.label, ", ".join(f"{name}: {value}" for name, value in settings.items())))
    return page.definitions(found)


def _definitions() -> str:
    return page.definitions(
        [(name.replace("_", " "), f"{text[0].upper()}{text[1:]}.") for name, text in MEASURES.items()]
    )


def _method(results: TrialResults, found: Found) -> list[str]:
    """How the numbers were found, and what they do not say."""
    recipe = results.recipe
    texts = [
        "Numbers are averages over simulated trials, with standard errors of these averages in brackets: they say how "
        "exact the simulation is, not how much trials vary. Where none of n trials shows something, the error is 0, "
        "and its chance is below 3/n with a probability of 95 %.",
        f"When a trial is over, {recipe.fresh} fresh patients of the same population want a dose. BOIN12, EffTox and "
        "uniform allocation name one dose for all; policies may name another one for each patient. Truth is that of "
        "the scenario, patient by patient.",
        "All designs meet the same patients with the same outcomes under every dose (common random numbers). All "
        "outcomes of a patient are known before the next decision, there are no drop-outs, and efficacy and toxicity "
        "are yes or no. Scenarios are assumptions: a design that does well in these may do badly in others.",
    ]
    if found.differences:
        texts.append(
            f"Differences are to {found.reference}, trial by trial. Of the two intervals the second one holds with a "
            f"probability of 95 % for all {len(found.differences)} differences on this page together (Bonferroni), and "
            "only by it a difference is called lower or higher; open means that these trials do not decide it. "
            "Differences of best are between shares, from -1 to 1, the others between numbers of patients."
        )
    fewest = min((each.trials for each in found.characteristics if each.measure == "patients"), default=0)
    if fewest < MIN_SEEDS:
        texts.append(f"Caution: some averages are over {fewest} trials only, so that their errors are not known well.")
    return texts
