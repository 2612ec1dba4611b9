"""Designs by name: BOIN12, EffTox and uniform allocation, or any policy."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from conebandit.environments.base import Environment
from conebandit.experiment import entries
from conebandit.studies.bench import find_contenders
from conebandit.studies.plan import Entry
from conebandit.studies.trials.boin12 import Boin12, boundaries
from conebandit.studies.trials.by_policy import ByPolicy
from conebandit.studies.trials.conduct import Design, Limits
from conebandit.studies.trials.efftox import Contour, EffTox, Priors
from conebandit.studies.trials.guard import declared_rules
from conebandit.studies.trials.uniform import Uniform
from conebandit.validate.arguments import as_integer

if TYPE_CHECKING:
    from conebandit.studies.trials.plan import Recipe

NAMES = ("uniform", "boin12", "efftox")
GUARDED = ("rules", "burn_in", "escalate")  # settings of designs that safety rules apply to
LIMITS = ("toxicity_limit", "efficacy_limit")  # settings of designs that work with limits of their own
OF_BOIN12 = (
    *LIMITS,
    *("cohort", "start", "too_toxic", "futile", "enough", "explore_at", "stop_at", "draw_ties", "fall_back"),
)
OF_EFFTOX = (*LIMITS, "cohort", "start", "sure", "doses", "contour", "priors", "rising")
MAX_PATIENTS = 100_000


def make_design(entry: Entry, world: Environment, seed: int, recipe: Recipe) -> Design:
    """The design of an entry, for a scenario and the seed of a trial.

    Raises
    ------
    ValueError
        If a setting is wrong, or if there is no design or policy of this name.
    """
    settings, k = dict(entry.settings), world.n_arms
    if entry.name == "boin12":
        entries.only(settings, OF_BOIN12, "boin12")
        return _boin12(settings, k, recipe)
    if entry.name == "efftox":
        entries.only(settings, OF_EFFTOX, "efftox")
        return _efftox(settings, k, recipe)
    if entry.name == "uniform":
        entries.only(settings, ("rules", "escalate"), "uniform")
        return Uniform(**_guarded(settings, k, recipe))
    guarded = _guarded(settings, k, recipe)
    own = {name: value for name, value in settings.items() if name not in GUARDED}
    try:
        policy = recipe.policy(entry._replace(settings=own), world, seed)
    except ValueError:
        _require_name(entry.name, recipe.folders)
        raise
    return ByPolicy(policy, **guarded)


def _require_name(name: str, folders: tuple[str, ...]) -> None:
    """A ``ValueError`` if there is no design and no policy of this name, with those that there are."""
    try:
        find_contenders([name], folders)
    except ValueError as error:
        raise ValueError(f"designs are {', '.join(NAMES)}, and all policies: {error}") from None


def _guarded(settings: Mapping[str, Any], n_doses: int, recipe: Recipe) -> dict[str, Any]:
    """Safety rules of a design, its own or those of all, with its burn-in."""
    rules = list(settings.get("rules", recipe.rules))
    if "burn_in" in settings:
        rules = [rule for rule in rules if "burn_in" not in rule]
        if patients := _whole(settings["burn_in"], "burn_in", least=0):
            rules.append({"burn_in": patients})
    escalate = _whole(settings.get("escalate", 0), "escalate", least=0)
    return {"rules": declared_rules(rules, n_doses), "escalate": escalate}


def _boin12(settings: dict[str, Any], n_doses: int, recipe: Recipe) -> Boin12:
    limits = _limits(settings, recipe)
    boundaries(limits.toxicity)  # which must exist
    checked: dict[str, Any] = {}
    for name in ("too_toxic", "futile"):
        if name in settings:
            checked[name] = _chance(settings[name], name)
    for name, least in (("cohort", 1), ("start", 1), ("enough", 1), ("explore_at", 0), ("stop_at", 0)):
        if name in settings:
            checked[name] = _whole(settings[name], name, least=least)
    for name in ("draw_ties", "fall_back"):
        if name in settings:
            checked[name] = _yes_or_no(settings[name], name)
    design = Boin12(n_doses, limits, recipe.utility, **checked)
    _require_dose(design.start, n_doses)
    return design


def _efftox(settings: dict[str, Any], n_doses: int, recipe: Recipe) -> EffTox:
    checked: dict[str, Any] = {}
    for name in ("cohort", "start"):
        if name in settings:
            checked[name] = _whole(settings[name], name, least=1)
    if "sure" in settings:
        checked["sure"] = _chance(settings["sure"], "sure")
    if "contour" in settings:
        checked["contour"] = _contour(settings["contour"])
    if "priors" in settings:
        checked["priors"] = _priors(settings["priors"])
    if "rising" in settings:
        checked["rising"] = _yes_or_no(settings["rising"], "rising")
    doses = checked_doses(settings["doses"], "doses") if "doses" in settings else recipe.doses
    if doses and len(doses) != n_doses:
        raise ValueError(f"doses must be {n_doses} numbers, one for each dose of the scenario; got {len(doses)}.")
    design = EffTox(doses or tuple(map(float, range(1, n_doses + 1))), _limits(settings, recipe), **checked)
    _require_dose(design.start, n_doses)
    return design


def checked_doses(given: Any, where: str) -> tuple[float, ...]:
    """Doses as they are measured: positive numbers, each larger than the one before."""
    values = given if isinstance(given, list) else [given]
    found = tuple(entries.number(value, where) for value in values)
    if not found or found[0] <= 0.0 or any(a >= b for a, b in itertools.pairwise(found)):
        raise ValueError(
            f"{where} must be positive numbers, from the lowest to the highest; got {entries.short(given)}."
        )
    return found


def _contour(given: Any) -> Contour:
    table = entries.table(given, "contour")
    entries.only(table, Contour._fields, "contour")
    if missing := [name for name in Contour._fields if name not in table]:
        raise ValueError(f"contour needs {missing[0]!r}.")
    contour = Contour(**{name: _chance(table[name], f"contour.{name}") for name in Contour._fields})
    if not contour.efficacy < contour.middle_efficacy or not contour.middle_toxicity < contour.toxicity:
        raise ValueError(
            "contour must lead from (efficacy, 0) over (middle_efficacy, middle_toxicity) to (1, toxicity): "
            f"got {entries.short(given)}."
        )
    return contour


def _priors(given: Any) -> Priors:
    """Means and deviations; those that are not given are the usual ones."""
    table = entries.table(given, "priors")
    entries.only(table, Priors._fields, "priors")
    found = {}
    for name, pair in table.items():
        if not isinstance(pair, list) or len(pair) != 2:
            raise ValueError(f"priors.{name} must be a mean and a deviation; got {entries.short(pair)}.")
        mean, deviation = (entries.number(value, f"priors.{name}") for value in pair)
        if not deviation > 0.0:
            raise ValueError(f"priors.{name}: the deviation must be above 0; got {deviation:g}.")
        found[name] = (mean, deviation)
    return Priors(**found)


def _limits(settings: Mapping[str, Any], recipe: Recipe) -> Limits:
    given = (settings.get(name, usual) for name, usual in zip(LIMITS, recipe.limits, strict=True))
    return Limits(*(_chance(value, name) for name, value in zip(LIMITS, given, strict=True)))


def _chance(given: Any, where: str) -> float:
    number = entries.number(given, where)
    if not 0.0 < number < 1.0:
        raise ValueError(f"{where} must be between 0 and 1; got {number:g}.")
    return number


def _yes_or_no(given: Any, where: str) -> bool:
    if not isinstance(given, bool):
        raise ValueError(f"{where} must be true or false; got {entries.short(given)}.")
    return given


def _whole(given: Any, where: str, *, least: int) -> int:
    return as_integer(given, where, least=least, most=MAX_PATIENTS)


def _require_dose(start: int, n_doses: int) -> None:
    if start > n_doses:
        raise ValueError(f"start must be one of the {n_doses} doses of the scenario; got {start}.")
