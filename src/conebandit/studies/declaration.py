"""Study files: TOML, checked entry by entry."""

from __future__ import annotations

import itertools
import json
import math
import tomllib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from conebandit.experiment import entries
from conebandit.regret import SERIES
from conebandit.studies.plan import Entry, Plan, Recipe, Scene
from conebandit.validate.arguments import is_integer

Read = TypeVar("Read")

NEEDED = ("policies", "environments", "horizon", "seeds")
OPTIONAL = ("resolution", "curves", "points")
NO_SETTINGS = ("name", "label", "grid")  # all other entries of a policy or an environment are settings
CURVES = ("play", "front", "shortfall")
POINTS = 50
MAX_POINTS = 10_000
MAX_RUNS = 100_000_000
MAX_HORIZON = 1_000_000_000
MAX_COMBINATIONS = 100_000  # of one grid: all are made before anything runs


def read_plan(source: Path | str | Mapping[str, Any]) -> Plan[Recipe]:
    """A study from a TOML file, or from the same as a table.

    Raises
    ------
    ValueError
        If it cannot be read, or if an entry is wrong; it names the entry and says what to do.

    Examples
    --------
    >>> plan = read_plan({
    ...     "policies": ["default", {"name": "ConeTree", "grid": {"preset": ["paper", "sound"]}}],
    ...     "environments": [{"name": "paper", "sigma": 0.1, "grid": {"n_arms": [5, 20], "nu": [1, 3]}}],
    ...     "horizon": 20_000,
    ...     "seeds": 10,
    ... })
    >>> len(plan), [entry.label for entry in plan.policies]
    (120, ['default', 'ConeTree(preset=paper)', 'ConeTree(preset=sound)'])
    """
    return read_by(plan_from, source, *given_study(source))


def read_by(
    reader: Callable[[Mapping[str, Any], Path], Read],
    source: Path | str | Mapping[str, Any],
    table: Mapping[str, Any],
    folder: Path,
) -> Read:
    """What a reader makes of a table; what is wrong with it is said with the name of the file that it is from."""
    try:
        return reader(table, folder)
    except ValueError as error:
        if isinstance(source, Mapping):
            raise
        raise ValueError(f"{Path(source).name}: {error}") from None


def given_study(source: Path | str | Mapping[str, Any]) -> tuple[dict[str, Any], Path]:
    """What a study file says, not yet checked, and the folder that it is in."""
    if isinstance(source, Mapping):
        return entries.plain(entries.table(source, "the study")), Path.cwd()
    file = Path(source)
    try:
        table = tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise ValueError(f"{file} cannot be read: {error.strerror}.") from None
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ValueError(f"{file} is not a file in TOML: {error}.") from None
    return table, file.resolve().parent


def plan_from(given: Mapping[str, Any], folder: Path) -> Plan[Recipe]:
    """A study from a table; ``folder`` is where its files of data are."""
    table = entries.plain(entries.table(given, "the study"))
    entries.only(table, (*NEEDED, *OPTIONAL), "the study")
    refuse_nan(table, "the study")
    if missing := [name for name in NEEDED if name not in table]:
        raise ValueError(f"the study needs an entry {missing[0]!r}.")
    policies = combinations(table["policies"], "policies")
    horizons = as_integers(table["horizon"], "horizon", least=1, most=MAX_HORIZON)
    scenes = _scenes(combinations(table["environments"], "environments"), horizons)
    seeds = _seeds(table["seeds"])
    points = as_integer(table.get("points", POINTS), "points", least=1, most=MAX_POINTS)
    resolution, curves = _resolution(table.get("resolution", 0.0)), _curves(table.get("curves", list(CURVES)))
    if (runs := len(policies) * len(scenes) * len(seeds)) > MAX_RUNS:
        raise ValueError(f"the study has {runs:,} runs; at most {MAX_RUNS:,} are possible. Split it.")
    declared = {
        "policies": {e.label: [e.name, e.settings] for e in policies},
        "environments": {s.environment.label: [s.environment.name, s.environment.settings] for s in scenes},
        "horizon": list(horizons),
        "seeds": list(seeds),
        "resolution": resolution,
        "curves": list(curves),
        "points": points,
    }
    folders = tuple(dict.fromkeys((str(folder), str(Path.cwd()))))
    return Plan(policies, scenes, tuple(seeds), Recipe(folders, resolution, curves, points), declared, table)


def _scenes(environments: Sequence[Entry], horizons: Sequence[int]) -> tuple[Scene, ...]:
    """Every environment with every horizon, which is part of the label if there are several."""
    ends = {horizon: f", T = {horizon}" if len(horizons) > 1 else "" for horizon in horizons}
    return tuple(Scene(e, horizon, f"{e.label}{ends[horizon]}") for e in environments for horizon in horizons)


# ---- policies and environments --------------------------------------------------------------------------------------


def combinations(given: Any, where: str) -> tuple[Entry, ...]:
    """Policies or environments, each with every combination of what is in its grid."""
    if not isinstance(given, list) or not given:
        raise ValueError(f"{where} must be a list of names or tables; got {entries.short(given)}.")
    found = [entry for i, each in enumerate(given) for entry in _expanded(each, f"{where}[{i}]")]
    for label, number in Counter(entry.label for entry in found).items():
        if number > 1:
            raise ValueError(f"{where}: {label!r} is there twice. Leave one out, or give one another label.")
    return tuple(found)


def _expanded(given: Any, where: str) -> list[Entry]:
    table = {"name": given} if isinstance(given, str) else entries.table(given, where)
    if "name" not in table:
        raise ValueError(f"{where} needs a name; got {entries.short(given)}.")
    name = entries.text(table["name"], f"{where}.name", most=200)
    grid = entries.table(table.get("grid", {}), f"{where}.grid")
    fixed = {key: value for key, value in table.items() if key not in NO_SETTINGS}
    for key, values in grid.items():
        if not isinstance(values, list) or not values:
            raise ValueError(f"{where}.grid.{key} must be a list of values; got {entries.short(values)}.")
        if key in fixed or key in NO_SETTINGS:
            raise ValueError(f"{where}.grid.{key} cannot vary: it is an entry of {where} as well. Leave one out.")
    if (number := math.prod(map(len, grid.values()))) > MAX_COMBINATIONS:
        raise ValueError(
            f"{where}.grid has {number:,} combinations; at most {MAX_COMBINATIONS:,} are possible. Split it."
        )
    label = entries.text(table["label"], f"{where}.label", most=200) if "label" in table else None
    found = []
    for values in itertools.product(*grid.values()):
        varied = dict(zip(grid, values, strict=True))
        shown = varied if label else fixed | varied
        found.append(Entry(name, f"{label or name}{_in_brackets(shown)}", fixed | varied))
    return found


def _in_brackets(settings: Mapping[str, Any]) -> str:
    def text(value: Any) -> str:
        return value if isinstance(value, str) and value.isprintable() else json.dumps(value)

    return f"({', '.join(f'{key}={text(value)}' for key, value in settings.items())})" if settings else ""


# ---- numbers --------------------------------------------------------------------------------------------------------


def refuse_nan(given: Any, where: str) -> None:
    """No number may be nan: it does not equal itself, so a study would not be known again."""
    if isinstance(given, dict | list):
        inner = given.items() if isinstance(given, dict) else enumerate(given)
        for key, value in inner:
            refuse_nan(value, f"{where}, {key}" if isinstance(given, dict) else where)
    elif isinstance(given, float) and math.isnan(given):
        raise ValueError(f"{where} must be a number; got nan.")


def as_integer(given: Any, where: str, *, least: int, most: int) -> int:
    """An integer between two others."""
    if not is_integer(given) or not least <= given <= most:
        raise ValueError(f"{where} must be an integer from {least} to {most:,}; got {entries.short(given)}.")
    return int(given)


def as_integers(given: Any, where: str, *, least: int, most: int) -> tuple[int, ...]:
    """One integer, or several different ones in a list."""
    values = given if isinstance(given, list) else [given]
    found = tuple(as_integer(value, where, least=least, most=most) for value in values)
    if not found or len(set(found)) < len(found):
        raise ValueError(f"{where} must be an integer, or a list of different ones; got {entries.short(given)}.")
    return found


def _seeds(given: Any) -> Sequence[int]:
    """A list of seeds, or so many of them from 0 on: not a tuple yet, which may be too large."""
    if isinstance(given, list):
        return as_integers(given, "seeds", least=0, most=2**63 - 1)
    return range(as_integer(given, "seeds", least=1, most=MAX_RUNS))


def _resolution(given: Any) -> float:
    number = entries.number(given, "resolution")
    if number < 0.0:
        raise ValueError(f"resolution must be a number from 0 on; got {number:g}.")
    return number


def _curves(given: Any) -> tuple[str, ...]:
    if not isinstance(given, list) or len(set(map(str, given))) < len(given):
        raise ValueError(f"curves must be a list of different series; got {entries.short(given)}.")
    return tuple(entries.one_of(each, SERIES, "curves") for each in given)


# ---- two studies ----------------------------------------------------------------------------------------------------


def in_order(given: Any) -> Any:
    """What a file says, with the entries of every table sorted by name; lists stay as they are.

    Examples
    --------
    >>> in_order({"seeds": [2, 1], "policies": [{"width": 0.1, "name": "ucb1"}]})
    {'policies': [{'name': 'ucb1', 'width': 0.1}], 'seeds': [2, 1]}
    """
    if isinstance(given, Mapping):
        return {name: in_order(given[name]) for name in sorted(given)}
    return [in_order(each) for each in given] if isinstance(given, list) else given


def differences(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """In what two declarations differ, in words.

    Examples
    --------
    >>> differences({"seeds": [0, 1], "policies": {"a": 1}}, {"seeds": [0, 1], "policies": {"b": 1}})
    ["policies: 'a' is not in it any more", "policies: 'b' is new"]
    """
    found = []
    for name in dict.fromkeys((*before, *now)):
        was, new = before.get(name), now.get(name)
        if isinstance(was, Mapping) and isinstance(new, Mapping):
            found += [f"{name}: {label!r} is not in it any more" for label in was if label not in new]
            found += [f"{name}: {label!r} is new" for label in new if label not in was]
            changed = [label for label in was if label in new and was[label] != new[label]]
            found += [f"{name}: {label!r} is another one than before" for label in changed]
            if not found and list(was) != list(new):
                found.append(f"{name}: they are in another order")
        elif was != new:
            found.append(f"{name}: {entries.short(new)}, and before {entries.short(was)}")
    return found
