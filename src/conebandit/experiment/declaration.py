"""What an experiment is: arms, metrics, cone, context, policy. Declared in TOML or JSON and checked here."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np

from conebandit.experiment import cones, entries
from conebandit.experiment.columns import Column, read_columns
from conebandit.experiment.errors import InvalidError
from conebandit.experiment.metrics import Metric, read_metrics, warnings_about
from conebandit.geometry.cone import Cone
from conebandit.validate.arguments import is_integer
from conebandit.validate.arrays import FloatArray

Mode = Literal["live", "shadow", "off"]
MODES: tuple[Mode, ...] = get_args(Mode)

Calendar = Literal["day", "week"]
CALENDAR: tuple[Calendar, ...] = get_args(Calendar)
ShiftBlock = int | Literal["auto"] | Calendar  # what ShiftMonitor calls a block; days and weeks by the clock of the log

MAX_ARMS = 200
# Arms times metrics times coordinates squared: what a regression keeps; a tree keeps four times that, in every leaf.
MAX_ESTIMATES = 4_000_000
MAX_SHIFT_BLOCK = 1_000_000
ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")


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
    shift_block: ShiftBlock
    declaration: dict[str, Any]  # as given; what is written into the log

    @classmethod
    def from_dict(cls, declaration: Mapping[str, Any]) -> Experiment:
        """Check a declaration; an ``InvalidError`` says which entry is wrong, and why."""
        given = entries.plain(entries.table(declaration, "the declaration"))
        known = ("id", "arms", "metrics", "cone", "context", "policy", "seed", "mode", "baseline", "shift_block")
        entries.only(given, known, "the declaration")
        id_ = given.get("id")
        if not isinstance(id_, str) or not ID.fullmatch(id_):
            raise InvalidError(f"id must be 1 to 64 letters, digits, '_', '.' or '-'; got {entries.short(id_)}.")
        arms = entries.names(given.get("arms"), "arms", most=MAX_ARMS)
        metrics = read_metrics(given.get("metrics"))
        columns = read_columns(given.get("context", []))
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
            cone=cones.declared(given.get("cone", "orthant"), metrics),
            columns=columns,
            policy=name,
            settings=policy,
            seed=entries.integer(given.get("seed", 0), "seed"),
            mode=as_mode(given.get("mode", "live")),
            baseline=entries.one_of(given.get("baseline", arms[0]), arms, "baseline"),
            shift_block=_shift_block(given.get("shift_block", "auto")),
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
    def context_dim(self) -> int:
        """Number of context coordinates, d; one, constant, if there are no columns."""
        return max(sum(c.width for c in self.columns), 1)

    @cached_property
    def warnings(self) -> tuple[str, ...]:
        """What is allowed but may be a mistake: metrics that sound like costs, without a direction."""
        return warnings_about(self.declaration["metrics"])

    @cached_property
    def metric_index(self) -> dict[str, int]:
        """Position of each metric."""
        return {m.name: i for i, m in enumerate(self.metrics)}

    def encode(self, context: Mapping[str, Any]) -> FloatArray:
        """A context in the unit cube, shape (d,); an ``InvalidError`` if a rule refuses it."""
        x = np.full(self.context_dim, 0.5)
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


def _shift_block(given: Any) -> ShiftBlock:
    """Contexts in a block of the shift monitor, or what else says where a block ends."""
    if given in ("auto", *CALENDAR) or (is_integer(given) and 1 <= given <= MAX_SHIFT_BLOCK):
        block: ShiftBlock = given
        return block
    raise InvalidError(
        f"shift_block must be 'auto', 'day', 'week' or a number of contexts from 1 to {MAX_SHIFT_BLOCK:,}; got "
        f"{entries.short(given)}."
    )


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
