"""What an experiment is: arms, metrics, cone, context, policy. Declared in TOML or JSON and checked here."""

from __future__ import annotations

import json
import math
import re
import tomllib
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np

from conebandit._cone_input import check_ranges
from conebandit._tradeoffs import tradeoff_rays
from conebandit._validate import FloatArray
from conebandit.cone import Cone
from conebandit.service.errors import InvalidError

Mode = Literal["live", "shadow", "off"]
MODES: tuple[Mode, ...] = get_args(Mode)

MOST_ARMS, MOST_METRICS, MOST_COORDINATES, MOST_CONE_ROWS = 200, 16, 100, 64
# Arms times metrics times coordinates squared: what a regression keeps; a tree keeps four times that, in every leaf.
MOST_ESTIMATES = 4_000_000
# Facets times metrics of the largest cone that the rows may describe, so that conversion takes a second at most.
MOST_CONE_NUMBERS = {"tradeoffs": 20_000, "weight_ranges": 3_000, "weights": 3_000, "facets": 3_000, "rays": 3_000}
LONGEST_STATEMENT = 250
MOST_WORDS = 500  # letters of a message that may hold what was given
MOST = 1e15  # numbers beyond are slips of the pen, and squares of them would not be finite for long
UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
LONGEST_WINDOW = 3650 * UNITS["d"]
NAME = re.compile(r"\w(?:[\w .:/+-]{0,62}[\w.:/+-])?")
ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")


@dataclass(frozen=True)
class Metric:
    """One outcome. The policy sees rewards, more is better: the value, or for a cost ``worst - value``, at least 0.

    Attributes
    ----------
    name
        Its name.
    direction
        ``"max"`` or ``"min"``.
    worst
        For ``"min"``: the value that counts as reward 0; larger ones count the same.
    window
        Seconds after the decision until which values count; None for no end.
    default
        Value that counts when the window closes and none has come; None to leave it unknown.
    """

    name: str
    direction: Literal["max", "min"] = "max"
    worst: float | None = None
    window: float | None = None
    default: float | None = None

    def reward(self, value: float) -> float:
        """What the policy is told."""
        return value if self.worst is None else max(self.worst - value, 0.0)


@dataclass(frozen=True)
class Numeric:
    """A number between two bounds, scaled to [0, 1]; outside and missing by rule."""

    name: str
    low: float
    high: float
    out_of_range: Literal["refuse", "clip"] = "refuse"
    missing: float | None = None  # None: refuse
    width = 1

    def encode(self, value: Any, out: FloatArray) -> None:
        """Write the coordinate."""
        if value is None:
            if self.missing is None:
                raise InvalidError(f"context: {self.name!r} is missing, and its rule for that is to refuse.")
            value = self.missing
        number = _number(value, f"context: {self.name!r}")
        if not self.low <= number <= self.high:
            if self.out_of_range == "refuse":
                raise InvalidError(
                    f"context: {self.name!r} must lie in [{self.low:g}, {self.high:g}]; got {number!r}, and its rule "
                    "for that is to refuse."
                )
            number = min(max(number, self.low), self.high)
        out[0] = min((number - self.low) / (self.high - self.low), 1.0)


@dataclass(frozen=True)
class Categorical:
    """One of several levels, in any spelling, as one coordinate in {0, 1} for each; unknown and missing by rule."""

    name: str
    levels: tuple[str, ...]
    unknown: Literal["refuse", "zeros"] = "refuse"
    missing: str | None = None  # None: refuse

    @property
    def width(self) -> int:
        """Number of coordinates."""
        return len(self.levels)

    def encode(self, value: Any, out: FloatArray) -> None:
        """Write the coordinates."""
        if value is None:
            if self.missing is None:
                raise InvalidError(f"context: {self.name!r} is missing, and its rule for that is to refuse.")
            value = self.missing
        if not isinstance(value, str):
            raise InvalidError(f"context: {self.name!r} must be a string; got {_short(value)}.")
        out[:] = 0.0
        value = unicodedata.normalize("NFKC", value)  # as levels are
        if value in self.levels:
            out[self.levels.index(value)] = 1.0
        elif self.unknown == "refuse":
            raise InvalidError(
                f"context: {self.name!r} must be one of {', '.join(self.levels)}; got {_short(value)}, and its rule "
                "for that is to refuse."
            )


Column = Numeric | Categorical


@dataclass(frozen=True)
class Experiment:
    """A declaration that has been checked.

    Make one with :meth:`from_dict` or :meth:`from_file`.

    Examples
    --------
    >>> experiment = Experiment.from_dict({
    ...     "id": "checkout",
    ...     "arms": ["old", "new"],
    ...     "metrics": [{"name": "revenue"}, {"name": "latency", "direction": "min", "worst": 2000}],
    ...     "cone": {"tradeoffs": ["one unit of revenue is worth at most 50 of latency"]},
    ...     "context": [{"name": "age", "low": 18, "high": 98}, {"name": "device", "levels": ["phone", "desk"]}],
    ... })
    >>> experiment.encode({"age": 38, "device": "desk"})
    array([0.25, 0.  , 1.  ])
    >>> experiment.metrics[1].reward(300.0)
    1700.0
    """

    id: str
    arms: tuple[str, ...]
    metrics: tuple[Metric, ...]
    cone: Cone = field(compare=False)
    columns: tuple[Column, ...]
    policy: str
    settings: dict[str, Any]
    seed: int
    mode: Mode
    baseline: str
    declaration: dict[str, Any]  # as given; what is written into the log

    @classmethod
    def from_dict(cls, declaration: Mapping[str, Any]) -> Experiment:
        """Check a declaration; an ``InvalidError`` says which entry is wrong and what to do."""
        given = _plain(_table(declaration, "the declaration"))
        known = ("id", "arms", "metrics", "cone", "context", "policy", "seed", "mode", "baseline")
        _only(given, known, "the declaration")
        id_ = given.get("id")
        if not isinstance(id_, str) or not ID.fullmatch(id_):
            raise InvalidError(f"id must be 1 to 64 letters, digits, '_', '.' or '-'; got {_short(id_)}.")
        arms = _names(given.get("arms"), "arms", most=MOST_ARMS)
        metrics = _metrics(given.get("metrics"))
        columns = _columns(given.get("context", []))
        check_estimates(len(arms), len(metrics), sum(c.width for c in columns))
        policy = _policy(given.get("policy", {}))
        _check_settings(policy)
        name = policy.pop("name", "ConeTree")
        if not isinstance(name, str):
            raise InvalidError(f"policy.name must be a string; got {_short(name)}.")
        if name == "ConeTree":
            policy.setdefault("preset", "adaptive")
        return cls(
            id=id_,
            arms=arms,
            metrics=metrics,
            cone=_cone(given.get("cone", "orthant"), tuple(m.name for m in metrics)),
            columns=columns,
            policy=name,
            settings=policy,
            seed=_integer(given.get("seed", 0), "seed"),
            mode=as_mode(given.get("mode", "live")),
            baseline=_one_of(given.get("baseline", arms[0]), arms, "baseline"),
            declaration=given,
        )

    @classmethod
    def from_file(cls, path: Path) -> Experiment:
        """Read a declaration from a ``.toml`` or ``.json`` file."""
        try:
            text = path.read_text(encoding="utf-8")
            return cls.from_dict(json.loads(text) if path.suffix == ".json" else tomllib.loads(text))
        except (OSError, UnicodeDecodeError) as error:
            raise InvalidError(f"{path} cannot be read: {error}.") from None
        except (tomllib.TOMLDecodeError, json.JSONDecodeError) as error:
            kind = "JSON" if path.suffix == ".json" else "TOML"
            raise InvalidError(f"{path} is not {kind}: {error}.") from None

    @cached_property
    def dim(self) -> int:
        """Number of context coordinates; one, constant, if there are no columns."""
        return max(sum(c.width for c in self.columns), 1)

    @cached_property
    def metric_index(self) -> dict[str, int]:
        """Position of each metric."""
        return {m.name: i for i, m in enumerate(self.metrics)}

    def encode(self, context: Mapping[str, Any]) -> FloatArray:
        """A context in the unit cube, shape (dim,); an ``InvalidError`` if a rule refuses it."""
        x = np.full(self.dim, 0.5)
        start = 0
        for column in self.columns:
            column.encode(context.get(column.name), x[start : start + column.width])
            start += column.width
        if len(context) > len(self.columns) or any(name not in self._column_names for name in context):
            _only(context, tuple(c.name for c in self.columns), "context")
        return x

    @cached_property
    def _column_names(self) -> frozenset[str]:
        return frozenset(c.name for c in self.columns)

    def check_value(self, metric: Any, value: Any) -> float:
        """A reported value."""
        if metric not in self.metric_index:
            known = ", ".join(self.metric_index)
            raise InvalidError(f"values: there is no metric {_short(metric)}; this experiment has {known}.")
        return _number(value, f"values: {metric!r}")


def as_mode(mode: Any) -> Mode:
    """One of the traffic modes."""
    checked: Mode = _one_of(mode, MODES, "mode")
    return checked


def as_arm_name(name: Any) -> str:
    """A name that an arm may have."""
    return _name(name, "arm")


# ---- the parts ------------------------------------------------------------------------------------------------------


def _policy(given: Any) -> dict[str, Any]:
    """A name, or a table of a name and settings."""
    return {"name": given} if isinstance(given, str) else _table(given, "policy")


def _check_settings(policy: Mapping[str, Any]) -> None:
    if "bounds" in policy:
        raise InvalidError("policy.bounds cannot be given: contexts are scaled by the bounds of their columns.")
    for name, value in policy.items():
        if isinstance(value, list | dict):
            raise InvalidError(f"policy.{_short(name)[1:-1]} must be a number or a text; got {_short(value)}.")
        if isinstance(value, int | float) and value and not 1 / MOST <= abs(value) <= MOST:
            raise InvalidError(
                f"policy.{_short(name)[1:-1]} must be between {1 / MOST:g} and {MOST:g} in size, or 0; "
                f"got {_short(value)}."
            )


def _metrics(given: Any) -> tuple[Metric, ...]:
    if not isinstance(given, list) or not 1 <= len(given) <= MOST_METRICS:
        raise InvalidError(f"metrics must be a list of 1 to {MOST_METRICS} tables; got {_short(given)}.")
    metrics = tuple(_metric(m, f"metrics[{i}]") for i, m in enumerate(given))
    _names([m.name for m in metrics], "metrics", most=MOST_METRICS)
    return metrics


def _metric(given: Any, where: str) -> Metric:
    table = _table(given, where)
    _only(table, ("name", "direction", "worst", "window", "default"), where)
    name = _names([table.get("name")], f"{where}.name", most=1)[0]
    direction = _one_of(table.get("direction", "max"), ("max", "min"), f"{where}.direction")
    worst = table.get("worst")
    if (direction == "min") != (worst is not None):
        raise InvalidError(
            f"{where}: direction 'min' needs 'worst', the value that counts as reward 0; 'max' has none. "
            f"Got direction {direction!r} and worst {_short(worst)}."
        )
    window, default = table.get("window"), table.get("default")
    if default is not None and window is None:
        raise InvalidError(f"{where}: a default counts when the window closes, so it needs a 'window'.")
    return Metric(
        name=name,
        direction=direction,
        worst=None if worst is None else _number(worst, f"{where}.worst"),
        window=None if window is None else _seconds(window, f"{where}.window"),
        default=None if default is None else _number(default, f"{where}.default"),
    )


def _columns(given: Any) -> tuple[Column, ...]:
    if not isinstance(given, list) or len(given) > MOST_COORDINATES:
        raise InvalidError(f"context must be a list of at most {MOST_COORDINATES} tables; got {_short(given)}.")
    columns = tuple(_column(c, f"context[{i}]") for i, c in enumerate(given))
    if columns:
        _names([c.name for c in columns], "context", most=MOST_COORDINATES)
    if sum(c.width for c in columns) > MOST_COORDINATES:
        raise InvalidError(
            f"context has {sum(c.width for c in columns)} coordinates, one for each number and each level; at most "
            f"{MOST_COORDINATES} are allowed."
        )
    return columns


def _column(given: Any, where: str) -> Column:
    table = _table(given, where)
    name = _names([table.get("name")], f"{where}.name", most=1)[0]
    if "levels" in table:
        _only(table, ("name", "levels", "unknown", "missing"), where)
        levels = _names(table["levels"], f"{where}.levels", most=MOST_COORDINATES)
        missing = table.get("missing", "refuse")
        return Categorical(
            name=name,
            levels=levels,
            unknown=_one_of(table.get("unknown", "refuse"), ("refuse", "zeros"), f"{where}.unknown"),
            missing=None if missing == "refuse" else _one_of(missing, levels, f"{where}.missing"),
        )
    _only(table, ("name", "low", "high", "out_of_range", "missing"), where)
    low, high = (_number(table.get(end), f"{where}.{end}") for end in ("low", "high"))
    if not low < high:
        raise InvalidError(f"{where}: low must be below high; got {low:g} and {high:g}.")
    missing = table.get("missing", "refuse")
    if missing != "refuse" and not low <= _number(missing, f"{where}.missing") <= high:
        raise InvalidError(f"{where}.missing must be 'refuse' or a number in [{low:g}, {high:g}]; got {missing!r}.")
    return Numeric(
        name=name,
        low=low,
        high=high,
        out_of_range=_one_of(table.get("out_of_range", "refuse"), ("refuse", "clip"), f"{where}.out_of_range"),
        missing=None if missing == "refuse" else float(missing),
    )


def check_estimates(arms: int, metrics: int, coordinates: int) -> None:
    """Refuse what would need too much memory; arms that are retired need none.

    Examples
    --------
    >>> check_estimates(arms=25, metrics=16, coordinates=100)
    >>> check_estimates(arms=26, metrics=16, coordinates=100)
    Traceback (most recent call last):
        ...
    conebandit.service.errors.InvalidError: arms, metrics and context are too large together: ...
    """
    if arms * metrics * coordinates**2 > MOST_ESTIMATES:
        raise InvalidError(
            f"arms, metrics and context are too large together: arms x metrics x coordinates^2 must be at most "
            f"{MOST_ESTIMATES:,}; got {arms} x {metrics} x {coordinates}^2. Leave out coordinates, first of all."
        )


def _cone(given: Any, names: tuple[str, ...]) -> Cone:
    """A cone from ``"orthant"`` or from a table with one entry: a constructor's name and its argument."""
    if given == "orthant":
        return Cone.orthant(len(names), names=names)
    table = _table(given, "cone")
    kinds = ("facets", "rays", "wedge", "weights", "weight_ranges", "tradeoffs")
    if len(table) != 1 or next(iter(table)) not in kinds:
        raise InvalidError(f"cone must be 'orthant' or a table with one of {', '.join(kinds)}; got {_short(given)}.")
    kind, argument = next(iter(table.items()))
    if kind not in ("wedge", "weight_ranges") and not (
        isinstance(argument, list) and 1 <= len(argument) <= MOST_CONE_ROWS
    ):
        raise InvalidError(f"cone.{kind} must be a list of 1 to {MOST_CONE_ROWS} entries; got {_short(argument)}.")
    try:
        return _make_cone(kind, json.dumps(argument), names)
    except (ValueError, TypeError, OverflowError, KeyError, AttributeError) as error:
        raise InvalidError(f"cone.{kind}: {error}"[:MOST_WORDS]) from None


@lru_cache(maxsize=128)
def _make_cone(kind: str, text: str, names: tuple[str, ...]) -> Cone:
    """From the argument as JSON; remembered, since a declaration is read again whenever a log is folded anew."""
    argument = json.loads(text)
    if kind == "wedge":
        return Cone.wedge(argument, names=names)
    if kind == "tradeoffs":
        if not all(isinstance(s, str) and len(s) <= LONGEST_STATEMENT for s in argument):
            raise ValueError(f"a statement is a text of at most {LONGEST_STATEMENT} characters.")
        _check_conversion(kind, len(names) + len(tradeoff_rays(argument, names)), len(names))
        return Cone.from_tradeoffs(*argument, names=names)
    if kind == "weight_ranges":
        if not isinstance(argument, dict) or set(argument) != set(names):
            raise ValueError(f"a range is needed for each of {', '.join(names)}; got {_short(argument)}.")
        shares = check_ranges(argument)
        least = sum(low for low, _ in shares)
        upper = sum(least - low + high < 1 for low, high in shares)  # the others follow from the lower ends
        _check_conversion(kind, len(names) + upper, len(names))
        return Cone.from_weight_ranges({name: tuple(argument[name]) for name in names})
    for row in argument:
        if not isinstance(row, dict) and len(row) != len(names):
            raise ValueError(f"a row needs {len(names)} entries, one for each metric; got {_short(row)}.")
        for entry in row.values() if isinstance(row, dict) else row:
            _number(entry, f"an entry of cone.{kind}")
    _check_conversion(kind, len(argument), len(names))
    if kind == "weights":
        return Cone.from_weights(argument, names=names)
    return Cone.from_facets(argument, names=names) if kind == "facets" else Cone.from_rays(argument, names=names)


def _check_conversion(kind: str, rows: int, dim: int) -> None:
    facets = _most_facets(rows, dim)
    if facets * dim > MOST_CONE_NUMBERS[kind]:
        raise InvalidError(
            f"cone.{kind} gives {rows} rows for {dim} metrics, which may describe a cone with {facets:,} facets; at "
            f"most {MOST_CONE_NUMBERS[kind] // dim:,} are allowed. Give fewer rows, or declare fewer metrics."
        )


def _most_facets(rows: int, dim: int) -> int:
    """Most facets of a pointed cone with so many rays, or most rays for so many facets (McMullen, 1970)."""
    if rows <= dim:
        return dim
    return sum(math.comb(rows - (dim + i) // 2, rows - dim + 1) for i in (0, 1))


# ---- the smallest parts ---------------------------------------------------------------------------------------------


def _table(given: Any, where: str) -> dict[str, Any]:
    if not isinstance(given, Mapping) or not all(isinstance(k, str) for k in given):
        raise InvalidError(f"{where} must be a table of named entries; got {_short(given)}.")
    return dict(given)


def _plain(given: dict[str, Any]) -> dict[str, Any]:
    """A copy, of what JSON has; TOML has dates, too."""
    try:
        copy: dict[str, Any] = json.loads(json.dumps(given))
    except (TypeError, ValueError, RecursionError):
        raise InvalidError(
            "the declaration must consist of texts, numbers, lists and tables, not nested more deeply than it needs."
        ) from None
    return copy


def _only(table: Mapping[str, Any], known: tuple[str, ...], where: str) -> None:
    for name in table:
        if name not in known:
            allowed = f"it may have {', '.join(known)}" if known else "it must be empty"
            raise InvalidError(f"{where} has an entry {_short(name)} that is not known; {allowed}.")


def _names(given: Any, where: str, *, most: int) -> tuple[str, ...]:
    if not isinstance(given, list) or not 1 <= len(given) <= most:
        raise InvalidError(f"{where} must be a list of 1 to {most} names; got {_short(given)}.")
    for name in given:
        if given.count(_name(name, where)) > 1:
            raise InvalidError(f"{where}: {name!r} is there twice.")
    return tuple(given)


def _name(given: Any, where: str) -> str:
    """A name; of spellings that Unicode holds for the same only one, so that two names are two for the eye as well."""
    if not isinstance(given, str) or not NAME.fullmatch(given):
        raise InvalidError(
            f"{where}: a name has 1 to 64 letters, digits, spaces and '_ . : / + -', begins with a letter or digit and "
            f"does not end with a space; got {_short(given)}."
        )
    if unicodedata.normalize("NFKC", given) != given:
        usual = unicodedata.normalize("NFKC", given)
        raise InvalidError(f"{where}: write the name {_short(given)} as {_short(usual)}, its usual form in Unicode.")
    return given


def _one_of(given: Any, allowed: tuple[Any, ...], where: str) -> Any:
    if not isinstance(given, str) or given not in allowed:
        raise InvalidError(f"{where} must be one of {', '.join(allowed)}; got {_short(given)}.")
    return given


def _number(given: Any, where: str) -> float:
    good = isinstance(given, int | float) and not isinstance(given, bool) and abs(given) <= MOST
    if not good:
        raise InvalidError(f"{where} must be a number, at most {MOST:g} in size; got {_short(given)}.")
    return float(given)


def _integer(given: Any, where: str) -> int:
    if not isinstance(given, int) or isinstance(given, bool) or not 0 <= given < 2**63:
        raise InvalidError(f"{where} must be an integer from 0 to 2^63 - 1; got {_short(given)}.")
    return given


def _seconds(given: Any, where: str) -> float:
    """Seconds from a number, or from a number and a unit: ``90``, ``"36h"``, ``"7d"``."""
    seconds = math.nan
    if isinstance(given, str) and (match := re.fullmatch(r"(\d{1,9}(?:\.\d{1,9})?)\s*([smhd])", given)):
        seconds = float(match[1]) * UNITS[match[2]]
    elif isinstance(given, int | float) and not isinstance(given, bool):
        seconds = float(min(max(given, 0), 2 * LONGEST_WINDOW))
    if not 0.0 < seconds <= LONGEST_WINDOW:
        raise InvalidError(
            f"{where} must be a time above 0 and up to ten years, in seconds or like '36h' or '7d'; "
            f"got {_short(given)}."
        )
    return seconds


def _short(given: Any) -> str:
    """What was given, cut; escaped, so that it can be sent back whatever it is."""
    text = ascii(given)
    return text if len(text) <= 80 else text[:77] + "..."
