"""What an experiment is: arms, metrics, cone, context, policy. Declared in TOML or JSON and checked here."""

from __future__ import annotations

import json
import re
import tomllib
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np

from conebandit.experiment import cones, entries
from conebandit.experiment.errors import InvalidError
from conebandit.geometry.cone import Cone
from conebandit.validate.arrays import FloatArray

Mode = Literal["live", "shadow", "off"]
MODES: tuple[Mode, ...] = get_args(Mode)

MAX_ARMS, MAX_METRICS, MAX_COORDINATES = 200, 16, 100
# Arms times metrics times coordinates squared: what a regression keeps; a tree keeps four times that, in every leaf.
MAX_ESTIMATES = 4_000_000
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
        number = entries.number(value, f"context: {self.name!r}")
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
            raise InvalidError(f"context: {self.name!r} must be a string; got {entries.short(value)}.")
        out[:] = 0.0
        value = unicodedata.normalize("NFKC", value)  # as levels are
        if value in self.levels:
            out[self.levels.index(value)] = 1.0
        elif self.unknown == "refuse":
            raise InvalidError(
                f"context: {self.name!r} must be one of {', '.join(self.levels)}; got {entries.short(value)}, and its "
                "rule for that is to refuse."
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
        given = entries.plain(entries.table(declaration, "the declaration"))
        known = ("id", "arms", "metrics", "cone", "context", "policy", "seed", "mode", "baseline")
        entries.only(given, known, "the declaration")
        id_ = given.get("id")
        if not isinstance(id_, str) or not ID.fullmatch(id_):
            raise InvalidError(f"id must be 1 to 64 letters, digits, '_', '.' or '-'; got {entries.short(id_)}.")
        arms = entries.names(given.get("arms"), "arms", most=MAX_ARMS)
        metrics = _metrics(given.get("metrics"))
        columns = _columns(given.get("context", []))
        check_estimates(len(arms), len(metrics), sum(c.width for c in columns))
        policy = _policy(given.get("policy", {}))
        _check_settings(policy)
        name = policy.pop("name", "ConeTree")
        if not isinstance(name, str):
            raise InvalidError(f"policy.name must be a string; got {entries.short(name)}.")
        if name == "ConeTree":
            policy.setdefault("preset", "adaptive")
        return cls(
            id=id_,
            arms=arms,
            metrics=metrics,
            cone=cones.declared(given.get("cone", "orthant"), tuple(m.name for m in metrics)),
            columns=columns,
            policy=name,
            settings=policy,
            seed=entries.integer(given.get("seed", 0), "seed"),
            mode=as_mode(given.get("mode", "live")),
            baseline=entries.one_of(given.get("baseline", arms[0]), arms, "baseline"),
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
            entries.only(context, tuple(c.name for c in self.columns), "context")
        return x

    @cached_property
    def _column_names(self) -> frozenset[str]:
        return frozenset(c.name for c in self.columns)

    def check_value(self, metric: Any, value: Any) -> float:
        """A reported value."""
        if metric not in self.metric_index:
            known = ", ".join(self.metric_index)
            raise InvalidError(f"values: there is no metric {entries.short(metric)}; this experiment has {known}.")
        return entries.number(value, f"values: {metric!r}")


def as_mode(mode: Any) -> Mode:
    """One of the traffic modes."""
    checked: Mode = entries.one_of(mode, MODES, "mode")
    return checked


def as_arm_name(name: Any) -> str:
    """A name that an arm may have."""
    return entries.name(name, "arm")


# ---- the parts ------------------------------------------------------------------------------------------------------


def _policy(given: Any) -> dict[str, Any]:
    """A name, or a table of a name and settings."""
    return {"name": given} if isinstance(given, str) else entries.table(given, "policy")


def _check_settings(policy: Mapping[str, Any]) -> None:
    if "bounds" in policy:
        raise InvalidError("policy.bounds cannot be given: contexts are scaled by the bounds of their columns.")
    for name, value in policy.items():
        if isinstance(value, list | dict):
            raise InvalidError(
                f"policy.{entries.short(name)[1:-1]} must be a number or a text; got {entries.short(value)}."
            )
        if isinstance(value, int | float) and value and not 1 / entries.MAX_SIZE <= abs(value) <= entries.MAX_SIZE:
            raise InvalidError(
                f"policy.{entries.short(name)[1:-1]} must be between {1 / entries.MAX_SIZE:g} and "
                f"{entries.MAX_SIZE:g} in size, or 0; got {entries.short(value)}."
            )


def _metrics(given: Any) -> tuple[Metric, ...]:
    if not isinstance(given, list) or not 1 <= len(given) <= MAX_METRICS:
        raise InvalidError(f"metrics must be a list of 1 to {MAX_METRICS} tables; got {entries.short(given)}.")
    metrics = tuple(_metric(m, f"metrics[{i}]") for i, m in enumerate(given))
    entries.names([m.name for m in metrics], "metrics", most=MAX_METRICS)
    return metrics


def _metric(given: Any, where: str) -> Metric:
    table = entries.table(given, where)
    entries.only(table, ("name", "direction", "worst", "window", "default"), where)
    name = entries.names([table.get("name")], f"{where}.name", most=1)[0]
    direction = entries.one_of(table.get("direction", "max"), ("max", "min"), f"{where}.direction")
    worst = table.get("worst")
    if (direction == "min") != (worst is not None):
        raise InvalidError(
            f"{where}: direction 'min' needs 'worst', the value that counts as reward 0; 'max' has none. "
            f"Got direction {direction!r} and worst {entries.short(worst)}."
        )
    window, default = table.get("window"), table.get("default")
    if default is not None and window is None:
        raise InvalidError(f"{where}: a default counts when the window closes, so it needs a 'window'.")
    return Metric(
        name=name,
        direction=direction,
        worst=None if worst is None else entries.number(worst, f"{where}.worst"),
        window=None if window is None else entries.seconds(window, f"{where}.window"),
        default=None if default is None else entries.number(default, f"{where}.default"),
    )


def _columns(given: Any) -> tuple[Column, ...]:
    if not isinstance(given, list) or len(given) > MAX_COORDINATES:
        raise InvalidError(f"context must be a list of at most {MAX_COORDINATES} tables; got {entries.short(given)}.")
    columns = tuple(_column(c, f"context[{i}]") for i, c in enumerate(given))
    if columns:
        entries.names([c.name for c in columns], "context", most=MAX_COORDINATES)
    if sum(c.width for c in columns) > MAX_COORDINATES:
        raise InvalidError(
            f"context has {sum(c.width for c in columns)} coordinates, one for each number and each level; at most "
            f"{MAX_COORDINATES} are allowed."
        )
    return columns


def _column(given: Any, where: str) -> Column:
    table = entries.table(given, where)
    name = entries.names([table.get("name")], f"{where}.name", most=1)[0]
    if "levels" in table:
        entries.only(table, ("name", "levels", "unknown", "missing"), where)
        levels = entries.names(table["levels"], f"{where}.levels", most=MAX_COORDINATES)
        missing = table.get("missing", "refuse")
        return Categorical(
            name=name,
            levels=levels,
            unknown=entries.one_of(table.get("unknown", "refuse"), ("refuse", "zeros"), f"{where}.unknown"),
            missing=None if missing == "refuse" else entries.one_of(missing, levels, f"{where}.missing"),
        )
    entries.only(table, ("name", "low", "high", "out_of_range", "missing"), where)
    low, high = (entries.number(table.get(end), f"{where}.{end}") for end in ("low", "high"))
    if not low < high:
        raise InvalidError(f"{where}: low must be below high; got {low:g} and {high:g}.")
    missing = table.get("missing", "refuse")
    if missing != "refuse" and not low <= entries.number(missing, f"{where}.missing") <= high:
        raise InvalidError(f"{where}.missing must be 'refuse' or a number in [{low:g}, {high:g}]; got {missing!r}.")
    return Numeric(
        name=name,
        low=low,
        high=high,
        out_of_range=entries.one_of(table.get("out_of_range", "refuse"), ("refuse", "clip"), f"{where}.out_of_range"),
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
    conebandit.experiment.errors.InvalidError: arms, metrics and context are too large together: ...
    """
    if arms * metrics * coordinates**2 > MAX_ESTIMATES:
        raise InvalidError(
            f"arms, metrics and context are too large together: arms x metrics x coordinates^2 must be at most "
            f"{MAX_ESTIMATES:,}; got {arms} x {metrics} x {coordinates}^2. Leave out coordinates, first of all."
        )
