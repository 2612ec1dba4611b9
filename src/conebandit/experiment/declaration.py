"""What an experiment is: arms, metrics, cone, context, policy. Declared in TOML or JSON and checked here."""

from __future__ import annotations

import json
import os
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self, get_args
from warnings import warn

import numpy as np

from conebandit.experiment import cones, entries
from conebandit.experiment.arms import Features, read_added_arms, read_arms
from conebandit.experiment.columns import Column, plain_coordinates, read_columns
from conebandit.experiment.errors import InvalidError
from conebandit.experiment.inference import infer
from conebandit.experiment.metrics import Metric, read_metrics, warnings_about, warnings_about_ranges
from conebandit.experiment.rules import Rule, read_rules
from conebandit.experiment.summary import summarise
from conebandit.experiment.toml import to_toml
from conebandit.experiment.units import Units, read_units
from conebandit.geometry.cone import Cone
from conebandit.geometry.directions import CostWarning
from conebandit.validate.arguments import is_integer
from conebandit.validate.arrays import FloatArray

if TYPE_CHECKING:
    from conebandit.experiment.learner import Learner

Mode = Literal["live", "shadow", "off"]
MODES: tuple[Mode, ...] = get_args(Mode)

Stage = Literal["draft", "running", "paused", "ended"]
STAGES: tuple[Stage, ...] = get_args(Stage)
FIRST_STAGES: tuple[Stage, ...] = ("running", "draft")  # in which an experiment may begin

Calendar = Literal["day", "week"]
CALENDAR: tuple[Calendar, ...] = get_args(Calendar)
ShiftBlock = int | Literal["auto"] | Calendar  # what ShiftMonitor calls a block; days and weeks by the clock of the log

# Arms times metrics times coordinates squared: what a regression keeps; a tree keeps four times that, in every leaf.
MAX_ESTIMATES = 4_000_000
MAX_COLUMN = 128  # characters of the name of a column that is not part of a context
MAX_SHIFT_BLOCK = 1_000_000
MIN_FOR_ARRAYS = 8  # contexts from which on arrays are quicker than lists
KNOWN = (
    *("id", "arms", "metrics", "cone", "context", "policy", "seed", "mode", "baseline", "shift_block", "table"),
    *("unit", "rules", "stage", "added_arms"),
)
ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")


@dataclass(frozen=True)
class Experiment:
    """What is tried, measured and known: arms, metrics, context, cone and policy, with names and units.

    The same declaration serves the library, the service and the command line. Make one with :meth:`from_toml`,
    :meth:`from_dict` or :meth:`from_frame`; print it to see what it says.

    Attributes
    ----------
    id
        Its name.
    arms, metrics, columns
        What can be chosen, what is measured afterwards, and what is known before.
    arm_features
        For each arm numbers that describe it, such as a dose, by name; empty if there are none.
    cone
        When one vector of rewards is better than another.
    policy, settings, seed
        The policy's name, its settings and its seed.
    mode, baseline, shift_block, units
        For the service: traffic mode, the arm in place of the policy, blocks of the shift monitor, who comes again.
    rules, stage
        For the service: safety rules, and whether it begins as a draft.
    arm_column, propensity_column
        Of a table of past rows: which column says what was played, and with which probability (None: not known).
    declaration
        As it was given; what is written into the log.
    notes
        What was noticed when it was inferred from a table.

    Examples
    --------
    >>> experiment = Experiment.from_dict({
    ...     "id": "checkout", "arms": ["old", "new"],
    ...     "metrics": [{"name": "revenue"}, {"name": "latency", "direction": "min", "worst": 2000, "units": "ms"}],
    ...     "cone": {"tradeoffs": ["one unit of revenue is worth at most 50 of latency"]},
    ...     "context": [{"name": "age", "low": 18, "high": 98}, {"name": "device", "levels": ["phone", "desk"]}],
    ... })
    >>> print(experiment)
    experiment checkout: 2 arms, 2 metrics, 2 context columns
    <BLANKLINE>
    arms: old, new
    <BLANKLINE>
    metric   better  units  worst
    revenue  more
    latency  less    ms     2000
    <BLANKLINE>
    context  holds        if missing  if neither
    age      18 to 98     refused     refused
    device   phone, desk  refused     refused
    >>> experiment.encode({"age": 38, "device": "desk"})
    array([0.25, 0.  , 1.  ])
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
    declaration: dict[str, Any]
    arm_column: str = "arm"
    propensity_column: str | None = None
    arm_features: Features = field(default_factory=dict)
    rules: tuple[Rule, ...] = ()
    stage: Stage = "running"
    notes: tuple[str, ...] = field(default=(), compare=False)
    units: Units | None = None

    @classmethod
    def from_dict(cls, declaration: Mapping[str, Any]) -> Self:
        """Check a declaration; an ``InvalidError`` says which entry is wrong, and why."""
        return cls(**_read(declaration))

    @classmethod
    def from_toml(cls, source: str | os.PathLike[str]) -> Self:
        """Read a declaration in TOML: ``source`` is the path of a file, or the text itself if it has several lines.

        Examples
        --------
        >>> text = '''
        ... id = "checkout"
        ... arms = ["old", "new"]
        ... metrics = [{ name = "revenue" }]
        ... '''
        >>> Experiment.from_toml(text).arms
        ('old', 'new')
        """
        if not isinstance(source, str) or "\n" not in source:
            return cls.from_file(Path(source))
        return cls.from_dict(_parsed(source, "the text", "TOML"))

    @classmethod
    def from_frame(
        cls,
        frame: Any,
        *,
        arm: str,
        metrics: Sequence[str | Mapping[str, Any]],
        context: Sequence[str | Mapping[str, Any]],
        propensity: str | None = None,
        **declared: Any,
    ) -> Self:
        """Declare an experiment from a table of past rows: arms, bounds and levels are what is found in it.

        Print the result: it says what was inferred. Metrics that sound like costs and have no direction get a warning.

        Parameters
        ----------
        frame
            A data frame (pandas, polars, Arrow, all that narwhals knows), a dict of columns, or the path of a file.
        arm
            Name of the column that says what was played.
        metrics
            Columns of outcomes: names, or tables with a name and ``direction``, ``units``, ``worst``, ``range`` or
            ``resolution``. More is better, unless ``direction`` is ``"min"``.
        context
            Columns of what was known *before* the choice: names, or tables as in a declaration. Numbers get their
            lowest and highest value as bounds, values beyond which are clipped; texts and booleans get levels.
        propensity
            Name of the column that has the probability with which the arm was chosen; for evaluation.
        declared
            Other entries: ``id``, ``cone`` (as in a declaration, or a :class:`Cone`), ``policy``, ``seed``, ``arms``.

        Examples
        --------
        >>> log = {
        ...     "page": ["old", "new", "new", "old"],
        ...     "device": ["phone", "desk", "phone", None], "age": [23, 51, 38, 44],
        ...     "revenue": [1.0, 3.5, 0.0, 2.0],
        ... }
        >>> print(Experiment.from_frame(log, arm="page", metrics=["revenue"], context=["age", "device"]))
        experiment experiment: 2 arms, 1 metric, 2 context columns
        <BLANKLINE>
        arms: new, old
        <BLANKLINE>
        metric   better
        revenue  more
        <BLANKLINE>
        context  holds                 if missing  if neither
        age      23 to 51              refused     nearest bound
        device   desk, phone, missing  missing     refused
        <BLANKLINE>
        - 4 rows: 2 of new, 2 of old.
        - 1 of 4 values of 'device' is missing: that is a level of its own, 'missing'.
        """
        declaration, notes = infer(
            frame, arm=arm, metrics=metrics, context=context, propensity=propensity, declared=declared
        )
        experiment = replace(cls.from_dict(declaration), notes=tuple(notes))
        for warning in experiment.warnings:
            warn(warning, CostWarning, stacklevel=2)
        return experiment

    @classmethod
    def from_file(cls, path: str | os.PathLike[str]) -> Self:
        """Read a declaration from a ``.toml`` or ``.json`` file."""
        return cls.from_dict(read_table(path))

    @cached_property
    def context_dim(self) -> int:
        """Number of context coordinates, d; one, constant, if there are no columns."""
        return max(sum(c.width for c in self.columns), 1)

    @cached_property
    def warnings(self) -> tuple[str, ...]:
        """What is allowed but may be a mistake: costs without a direction, values out of range, costs counted twice."""
        costs, ranges = warnings_about(self.declaration["metrics"]), warnings_about_ranges(self.metrics)
        return costs + ranges + cones.warnings_about_cone(self.cone, self.metrics)

    @cached_property
    def metric_index(self) -> dict[str, int]:
        """Position of each metric."""
        return {m.name: i for i, m in enumerate(self.metrics)}

    def metric(self, name: str) -> Metric:
        """The metric of a name; a ``KeyError`` if there is none."""
        return self.metrics[self.metric_index[name]]

    def encode(self, context: Mapping[str, Any]) -> FloatArray:
        """A context in the unit cube, shape (d,); an ``InvalidError`` if a rule refuses it."""
        return np.array(self.coordinates(context))

    def coordinates(self, context: Mapping[str, Any]) -> list[float]:
        """What :meth:`encode` says, as a list: most contexts have few coordinates, and arrays are slow to make."""
        x = [x for column in self.columns for x in column.coordinates(context.get(column.name))]
        if not context.keys() <= self._column_names:
            entries.only(context, tuple(c.name for c in self.columns), "context")
        return x or [0.5]

    @cached_property
    def _column_names(self) -> frozenset[str]:
        return frozenset(c.name for c in self.columns)

    def check_value(self, metric: Any, value: Any) -> float:
        """A value as it was reported; it may have to be clipped or held."""
        if metric not in self.metric_index:
            known = ", ".join(self.metric_index)
            raise InvalidError(f"values: there is no metric {entries.short(metric)}; this experiment has {known}.")
        return self.metric(metric).check_reported(value)

    # ---- from and to people -------------------------------------------------------------------------------------

    def learn(self, frame: Any, *, arm: str | None = None) -> Learner:
        """Learn from a table of past rows.

        Parameters
        ----------
        frame
            As for :meth:`from_frame`, or many Parquet files: a folder, a pattern, a list. Null or nan where an outcome
            is not known. Rows are learned in their order; if one does not fit, none is, and an error says which.
        arm
            Name of the column that says what was played; the declared one by default.

        Returns
        -------
        Learner
            It recommends arms. If no policy was declared, it uses that of :func:`default_policy`.

        Examples
        --------
        >>> log = {"page": ["old", "new"] * 50, "revenue": [1.0, 2.0] * 50}
        >>> experiment = Experiment.from_frame(log, arm="page", metrics=["revenue"], context=[])
        >>> experiment.learn(log).front({})[0].arm
        'new'
        """
        from conebandit.experiment.learner import Learner  # noqa: PLC0415  (which knows this class)

        return Learner(self).learn(frame, arm=arm)

    def summary(self) -> str:
        """What it says, as plain text; what ``print`` shows."""
        return summarise(self)

    __str__ = summary

    def to_toml(self) -> str:
        """The declaration as TOML, to be kept, edited and read with :meth:`from_toml`.

        Examples
        --------
        >>> experiment = Experiment.from_dict({"id": "e", "arms": ["a", "b"], "metrics": [{"name": "m"}]})
        >>> Experiment.from_toml(experiment.to_toml()) == experiment
        True
        """
        return to_toml(self.declaration)


def read_table(given: str | os.PathLike[str]) -> Any:
    """What is in a ``.toml`` or ``.json`` file: a declaration, or a part of one. It is not checked."""
    path = Path(given)
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidError(f"{path} cannot be read: {error}.") from None
    return _parsed(text, path, "JSON" if path.suffix == ".json" else "TOML")


def _parsed(text: str, source: str | Path, kind: Literal["JSON", "TOML"]) -> Any:
    try:
        return json.loads(text) if kind == "JSON" else tomllib.loads(text)
    except (tomllib.TOMLDecodeError, json.JSONDecodeError) as error:
        raise InvalidError(f"{source} is not {kind}: {error}.") from None
    except RecursionError:
        raise InvalidError(f"{source} is nested more deeply than a declaration needs.") from None


def as_mode(mode: Any) -> Mode:
    """One of the traffic modes."""
    checked: Mode = entries.one_of(mode, MODES, "mode")
    return checked


def coordinates_of_many(experiment: Experiment, contexts: Sequence[Mapping[str, Any]]) -> FloatArray:
    """What :meth:`Experiment.encode` says of each of many contexts, shape (n, d)."""
    plain = plain_coordinates(experiment.columns, contexts) if len(contexts) >= MIN_FOR_ARRAYS else None
    return np.array([experiment.coordinates(context) for context in contexts]) if plain is None else plain


def as_stage(stage: Any) -> Stage:
    """One of the stages."""
    checked: Stage = entries.one_of(stage, STAGES, "stage")
    return checked


def as_arm_name(name: Any) -> str:
    """A name that an arm may have."""
    return entries.name(name, "arm")


def _read(declaration: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of an experiment."""
    given = entries.plain(entries.table(declaration, "the declaration"))
    entries.only(given, KNOWN, "the declaration")
    id_ = given.get("id")
    if not isinstance(id_, str) or not ID.fullmatch(id_):
        raise InvalidError(f"id must be 1 to 64 letters, digits, '_', '.' or '-'; got {entries.short(id_)}.")
    arms, features = read_arms(given.get("arms"))
    metrics = read_metrics(given.get("metrics"))
    columns = read_columns(given.get("context", []))
    check_estimates(len(arms), len(metrics), sum(c.width for c in columns))
    table = entries.table(given.get("table", {}), "table")
    entries.only(table, ("arm", "propensity"), "table")
    policy = _policy(given.get("policy", {}))
    _check_settings(policy)
    name = policy.pop("name", "ConeTree")
    if not isinstance(name, str):
        raise InvalidError(f"policy.name must be a string; got {entries.short(name)}.")
    if name == "ConeTree":
        policy.setdefault("preset", "adaptive")
    baseline = entries.one_of(given.get("baseline", arms[0]), arms, "baseline")
    return {
        "id": id_,
        "arms": arms,
        "metrics": metrics,
        "cone": cones.declared(given.get("cone", "orthant"), metrics),
        "columns": columns,
        "policy": name,
        "settings": policy,
        "seed": entries.integer(given.get("seed", 0), "seed"),
        "mode": as_mode(given.get("mode", "live")),
        "baseline": baseline,
        "shift_block": _shift_block(given.get("shift_block", "auto")),
        "declaration": given,
        "arm_column": _column_name(table.get("arm", "arm"), "table.arm"),
        "arm_features": features,
        "units": read_units(given.get("unit")),
        "rules": read_rules(
            given.get("rules", []), arms, metrics, baseline, read_added_arms(given.get("added_arms", []), arms)
        ),
        "stage": entries.one_of(given.get("stage", "running"), FIRST_STAGES, "stage"),
        "propensity_column": _column_name(table["propensity"], "table.propensity") if "propensity" in table else None,
    }


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


def _column_name(given: Any, where: str) -> str:
    """Name of a column of a table of past rows that is neither a metric nor part of the context."""
    return entries.text(given, where, most=MAX_COLUMN)


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
