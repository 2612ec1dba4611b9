"""The context columns of a declaration: how each value becomes coordinates in the unit cube."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from conebandit.experiment import entries
from conebandit.experiment.errors import InvalidError
from conebandit.validate.arrays import FloatArray

MAX_COORDINATES = 100


_NUMBERS, _WORDS = {int, float}, {str, bool}


@dataclass(frozen=True)
class Numeric:
    """A number between two bounds, scaled to [0, 1]; rules say what to do with values outside and with missing ones.

    Attributes
    ----------
    name
        Its name.
    low, high
        The bounds.
    out_of_range
        What is done with a value beyond them: ``"refuse"``, or ``"clip"`` it to the nearest bound.
    missing
        What stands for a missing value; None: it is refused.

    Examples
    --------
    >>> Numeric("age", low=18, high=98).decode(np.array([[0.25]]))
    array([38.])
    """

    name: str
    low: float
    high: float
    out_of_range: Literal["refuse", "clip"] = "refuse"
    missing: float | None = None
    width = 1

    def coordinates(self, value: Any) -> list[float]:
        """The one coordinate that a value has."""
        plain = type(value) in _NUMBERS and self.low <= value <= self.high  # as nearly always, so it is quick
        number = float(value) if plain else self._checked(value)
        return [min((number - self.low) / (self.high - self.low), 1.0)]

    def plain_coordinates(self, values: Sequence[Any]) -> FloatArray | None:
        """The coordinates (n, 1) of many values, quickly; None unless all of them are numbers within the bounds."""
        if not _NUMBERS.issuperset(map(type, values)):
            return None
        try:
            numbers = np.array(values, dtype=np.float64)
        except OverflowError:  # an integer of hundreds of digits
            return None
        if not ((numbers >= self.low) & (numbers <= self.high)).all():
            return None
        return np.minimum((numbers - self.low) / (self.high - self.low), 1.0)[:, None]

    def _checked(self, value: Any) -> float:
        """The number within the bounds that a value stands for."""
        value = _value_or_default(self, value)
        number = entries.number(value, f"context: {self.name!r}")
        if not self.low <= number <= self.high:
            if self.out_of_range == "refuse":
                raise InvalidError(
                    f"context: {self.name!r} must lie in [{self.low:g}, {self.high:g}]; got {number!r}, and its rule "
                    "for that is to refuse. With out_of_range = 'clip' the nearest bound counts."
                )
            number = min(max(number, self.low), self.high)
        return number

    def decode(self, coordinates: FloatArray) -> FloatArray:
        """The numbers (n,) that coordinates (n, 1) stand for."""
        return np.asarray(self.low + coordinates[:, 0] * (self.high - self.low))


@dataclass(frozen=True)
class Categorical:
    """One of several levels, one coordinate in {0, 1} for each; rules say what to do with other and missing values.

    Attributes
    ----------
    name
        Its name.
    levels
        What it can be; ``"true"`` and ``"false"`` stand for booleans.
    unknown
        What is done with another value: ``"refuse"``, or ``"zeros"``, no level at all.
    missing
        The level that stands for a missing value; None: it is refused.

    Examples
    --------
    >>> Categorical("device", ("phone", "desk")).width
    2
    """

    name: str
    levels: tuple[str, ...]
    unknown: Literal["refuse", "zeros"] = "refuse"
    missing: str | None = None

    @property
    def width(self) -> int:
        """Number of coordinates."""
        return len(self.levels)

    def coordinates(self, value: Any) -> list[float]:
        """The coordinates that a value has."""
        value = _value_or_default(self, value)
        if isinstance(value, bool):
            value = str(value).lower()
        if not isinstance(value, str):
            raise InvalidError(f"context: {self.name!r} must be a string; got {entries.short(value)}.")
        value = unicodedata.normalize("NFKC", value)  # as levels are
        if value not in self.levels and self.unknown == "refuse":
            raise InvalidError(
                f"context: {self.name!r} must be one of {', '.join(self.levels)}; got {entries.short(value)}, and its "
                "rule for that is to refuse. Add the level, or with unknown = 'zeros' it counts as none of them."
            )
        return [float(level == value) for level in self.levels]

    def plain_coordinates(self, values: Sequence[Any]) -> FloatArray | None:
        """The coordinates (n, levels) of many values, quickly; None unless all of them are levels, or booleans."""
        if not _WORDS.issuperset(map(type, values)):
            return None
        position: dict[Any, int] = {level: i for i, level in enumerate(self.levels)}
        position |= {value: position.get(str(value).lower(), -1) for value in (True, False)}
        found = [position.get(value, -1) for value in values]
        return None if -1 in found else np.eye(len(self.levels))[found]


Column = Numeric | Categorical


def by_column(columns: Sequence[Column], contexts: FloatArray) -> Iterator[tuple[Column, FloatArray]]:
    """Each column with its coordinates (n, width) of contexts (n, d).

    Examples
    --------
    >>> columns = Numeric("age", 20, 60), Categorical("device", ("phone", "desk"))
    >>> [part.tolist() for _, part in by_column(columns, np.array([[0.5, 0.0, 1.0]]))]
    [[[0.5]], [[0.0, 1.0]]]
    """
    start = 0
    for column in columns:
        yield column, contexts[:, start : start + column.width]
        start += column.width


def plain_coordinates(columns: Sequence[Column], contexts: Sequence[Mapping[str, Any]]) -> FloatArray | None:
    """The coordinates (n, d) of many contexts, column by column, which is much quicker than one after the other.

    None if some context leaves anything to a rule, or is wrong.

    Examples
    --------
    >>> columns = Numeric("age", 20, 60), Categorical("device", ("phone", "desk"))
    >>> plain_coordinates(columns, [{"age": 30, "device": "desk"}, {"age": 60.0, "device": "phone"}]).tolist()
    [[0.25, 0.0, 1.0], [1.0, 1.0, 0.0]]
    >>> plain_coordinates(columns, [{"age": 30, "device": "desk"}, {"age": None, "device": "desk"}])
    """
    if not columns or set(map(type, contexts)) != {dict} or set(map(len, contexts)) != {len(columns)}:
        return None
    parts = []
    for column in columns:
        try:
            part = column.plain_coordinates([context[column.name] for context in contexts])
        except KeyError:
            return None
        if part is None:
            return None
        parts.append(part)
    return np.hstack(parts)


def _value_or_default(column: Column, value: Any) -> Any:
    """What was given, or what the column's rule puts in its place if nothing was."""
    if value is not None:
        return value
    if column.missing is None:
        raise InvalidError(
            f"context: {column.name!r} is missing, and its rule for that is to refuse. Declare what "
            "stands for it with 'missing'."
        )
    return column.missing


def read_columns(given: Any) -> tuple[Column, ...]:
    """Columns with different names; none at all is fine."""
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
    return _categorical(name, table, where) if "levels" in table else _numeric(name, table, where)


def _categorical(name: str, table: dict[str, Any], where: str) -> Categorical:
    entries.only(table, ("name", "levels", "unknown", "missing"), where)
    levels = entries.names(table["levels"], f"{where}.levels", most=MAX_COORDINATES)
    missing = table.get("missing", "refuse")
    return Categorical(
        name=name,
        levels=levels,
        unknown=entries.one_of(table.get("unknown", "refuse"), ("refuse", "zeros"), f"{where}.unknown"),
        missing=None if missing == "refuse" else entries.one_of(missing, levels, f"{where}.missing"),
    )


def _numeric(name: str, table: dict[str, Any], where: str) -> Numeric:
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
