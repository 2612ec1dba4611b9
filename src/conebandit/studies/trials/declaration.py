"""Trial files: TOML, checked entry by entry."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from conebandit.experiment import entries
from conebandit.studies.declaration import MAX_RUNS, as_integer, as_integers, combinations, refuse_nan
from conebandit.studies.plan import Entry, Kind, Scene
from conebandit.studies.trials.conduct import Limits, Utility
from conebandit.studies.trials.designs import checked_doses
from conebandit.studies.trials.measures import MEASURES
from conebandit.studies.trials.plan import Recipe, TrialPlan, one_trial
from conebandit.studies.trials.scenarios import DECLARED, SCENARIOS

NEEDED = ("designs", "sizes")
OPTIONAL = ("scenarios", "trials", "limits", "utility", "rules", "doses", "fresh", "association")
TRIALS, FRESH = 1000, 100
MAX_SIZE, MAX_FRESH, MAX_ASSOCIATION = 100_000, 100_000, 20.0
LIMITS, UTILITY = Limits(toxicity=0.35, efficacy=0.25), Utility(both=60.0, neither=40.0)


def trial_plan(given: Mapping[str, Any], folder: Path) -> TrialPlan:
    """What is to be simulated, from a table; ``folder`` is where its files of data are.

    Raises
    ------
    ValueError
        If an entry is wrong; it names the entry and says what to do.

    Examples
    --------
    >>> plan = trial_plan({"designs": ["uniform", "boin12"], "sizes": [30, 60], "trials": 10}, Path())
    >>> len(plan), [scene.label for scene in plan.scenes][:2]
    (240, ['rising, n = 30', 'rising, n = 60'])
    """
    table = entries.plain(entries.table(given, "the trial"))
    entries.only(table, (*NEEDED, *OPTIONAL), "the trial")
    refuse_nan(table, "the trial")
    if missing := [name for name in NEEDED if name not in table]:
        raise ValueError(f"the trial needs an entry {missing[0]!r}.")
    designs = combinations(table["designs"], "designs")
    sizes = as_integers(table["sizes"], "sizes", least=1, most=MAX_SIZE)
    scenarios = _scenarios(table.get("scenarios", list(SCENARIOS)))
    trials = as_integer(table.get("trials", TRIALS), "trials", least=1, most=MAX_RUNS)
    if (runs := len(designs) * len(scenarios) * len(sizes) * trials) > MAX_RUNS:
        raise ValueError(f"these are {runs:,} trials; at most {MAX_RUNS:,} are possible. Split them.")
    recipe = Recipe(
        folders=tuple(dict.fromkeys((str(folder), str(Path.cwd())))),
        limits=_limits(table.get("limits", {})),
        utility=_utility(table.get("utility", {})),
        association=_association(table.get("association", 0.0)),
        fresh=as_integer(table.get("fresh", FRESH), "fresh", least=1, most=MAX_FRESH),
        rules=_rules(table.get("rules", [])),
        doses=checked_doses(table["doses"], "doses") if "doses" in table else (),
    )
    declared = {
        "designs": {e.label: [e.name, e.settings] for e in designs},
        "scenarios": {e.label: [e.name, e.settings] for e in scenarios},
        "sizes": list(sizes),
        "trials": trials,
        "limits": recipe.limits._asdict(),
        "utility": recipe.utility._asdict(),
        "rules": recipe.rules,
        "doses": list(recipe.doses),
        "fresh": recipe.fresh,
        "association": recipe.association,
    }
    scenes = tuple(Scene(e, size, f"{e.label}, n = {size}") for e in scenarios for size in sizes)
    return TrialPlan(designs, scenes, tuple(range(trials)), recipe, declared, table)


WORDS = ("designs", "scenarios with a size", "trials", "trials in all", "patients")
TRIAL = Kind("trial", trial_plan, one_trial, tuple(MEASURES), WORDS)


def _scenarios(given: Any) -> tuple[Entry, ...]:
    """Scenarios by name, or tables with chances, which need no name but a label."""
    if not isinstance(given, list):
        raise ValueError(f"scenarios must be a list of names or tables; got {entries.short(given)}.")
    named = []
    for i, each in enumerate(given):
        if isinstance(each, Mapping) and "name" not in each and ("toxicity" in each or "efficacy" in each):
            if "label" not in each:
                raise ValueError(f"scenarios[{i}] needs a label, which it is called by in the report.")
            named.append({"name": DECLARED, **each})
        else:
            named.append(each)
    return combinations(named, "scenarios")


def _limits(given: Any) -> Limits:
    table = entries.table(given, "limits")
    entries.only(table, Limits._fields, "limits")
    found = LIMITS._replace(**{name: entries.number(value, f"limits.{name}") for name, value in table.items()})
    for name, value in found._asdict().items():
        if not 0.0 < value < 1.0:
            raise ValueError(f"limits.{name} must be between 0 and 1; got {value:g}.")
    return found


def _utility(given: Any) -> Utility:
    table = entries.table(given, "utility")
    entries.only(table, Utility._fields, "utility")
    found = UTILITY._replace(**{name: entries.number(value, f"utility.{name}") for name, value in table.items()})
    for name, value in found._asdict().items():
        if not 0.0 <= value <= 100.0:
            raise ValueError(
                f"utility.{name} must be from 0, the worth of toxicity alone, to 100, that of efficacy alone; "
                f"got {value:g}."
            )
    return found


def _association(given: Any) -> float:
    number = entries.number(given, "association")
    if abs(number) > MAX_ASSOCIATION:
        raise ValueError(f"association must be from {-MAX_ASSOCIATION:g} to {MAX_ASSOCIATION:g}; got {number:g}.")
    return number


def _rules(given: Any) -> list[Mapping[str, Any]]:
    if not isinstance(given, list):
        raise ValueError(f"rules must be a list of tables; got {entries.short(given)}.")
    return [entries.table(rule, f"rules[{i}]") for i, rule in enumerate(given)]
