"""Reading the arguments of the constructors of :class:`conebandit.Cone`: tables of numbers, shares, names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from math import isfinite
from numbers import Integral, Rational, Real
from typing import Any, NamedTuple

import numpy as np

from conebandit.geometry import polyhedra
from conebandit.geometry.polyhedra import Vector


def read_rows(values: Any, name: str) -> tuple[list[Vector], bool, int]:
    """Rows as integer directions; whether all of them were rational; their length."""
    try:
        table = np.array(values, dtype=object)
    except ValueError:
        table = np.empty(0, dtype=object)
    if table.ndim != 2 or 0 in table.shape:
        raise ValueError(
            f"{name} must be a non-empty table, one row for each vector, all of the same length; got {values!r}."
        )
    rows, exact = [], True
    for i, entries in enumerate(table):
        row = [number(x, f"{name}[{i}]") for x in entries]
        if not any(row):
            raise ValueError(f"{name}[{i}] is all zeros and says nothing; leave it out.")
        direction, rational = polyhedra.rational_row(row)
        rows.append(direction)
        exact = exact and rational
    return rows, exact, table.shape[1]


def number(x: Any, name: str) -> Fraction | int | float:
    """An exact number where there is one, else a finite float; in a table, booleans are 0 and 1 as in NumPy."""
    if isinstance(x, Integral | np.bool_):
        return int(x)
    if isinstance(x, Rational):
        return Fraction(int(x.numerator), int(x.denominator))
    if isinstance(x, Decimal) and x.is_finite():
        return Fraction(x)
    if isinstance(x, Real):
        value = float(x)
        if not isfinite(value):
            raise ValueError(f"{name} contains {value}; every entry must be finite.")
        return value
    raise TypeError(f"{name} contains {x!r}; every entry must be a real number.")


def fraction(x: Any) -> Fraction:
    """The simplest fraction that a number may stand for."""
    value = Fraction(number(x, "ranges"))
    near = value.limit_denominator(polyhedra.MAX_DENOMINATOR)
    return near if abs(near - value) <= polyhedra.FLOAT_NOISE else value


def check_ranges(ranges: Mapping[str, tuple[float, float]]) -> list[tuple[Fraction, Fraction]]:
    """Smallest and largest share of each metric."""
    if not isinstance(ranges, Mapping) or not ranges:
        raise TypeError(f"ranges must map the name of each metric to (low, high); got {ranges!r}.")
    shares = []
    for name, pair in ranges.items():
        try:
            low, high = (fraction(x) for x in pair)
            good = 0 <= low <= high <= 1
        except (TypeError, ValueError, OverflowError):
            good = False
        if not good:
            raise ValueError(f"ranges[{name!r}] must be (low, high) with 0 <= low <= high <= 1; got {pair!r}.")
        shares.append((low, high))
    return shares


def weight_rows(weights: Any, names: Sequence[str] | None) -> tuple[Any, Sequence[str] | None]:
    """Weightings as rows without a negative entry, and the names of the objectives if they are known."""
    if isinstance(weights, Sequence) and weights and all(isinstance(w, Mapping) for w in weights):
        names = list(weights[0]) if names is None else names
        weights = [_row_by_name(w, names) for w in weights]
    rows, _, _ = read_rows(weights, "weights")
    for i, row in enumerate(rows):
        if min(row) < 0:
            raise ValueError(
                f"weights must be >= 0; weights[{i}] is not. For normals of any sign use Cone.from_facets."
            )
    return weights, names


Outcome = dict[int, Fraction | int | float]  # values by the position of the objective


class Comparisons(NamedTuple):
    """What each comparison gains, by row; what it says, in words; whether its numbers are certain; names if known."""

    gains: list[list[Fraction]]
    statements: list[str]
    exact: bool
    names: Sequence[str] | None


def read_comparisons(better: Any, worse: Any, names: Sequence[str] | None) -> Comparisons:
    """Differences of outcomes as exact numbers; metrics that neither outcome of a pair mentions are equal in both."""
    for side, given in (("better", better), ("worse", worse)):
        if not _is_list(given) or len(given) == 0:
            raise TypeError(f"{side} must be a non-empty list of outcomes, one for each comparison; got {given!r}.")
    if len(better) != len(worse):
        raise ValueError(f"better and worse must have as many rows; got {len(better)} and {len(worse)}.")
    if names is not None:
        names = check_names(names, None)
    elif isinstance(better[0], Mapping):
        names = check_names(list(better[0]), None)
    gains: list[list[Fraction]] = []
    statements, exact = [], True
    for i, (one, other) in enumerate(zip(better, worse, strict=True)):
        good, bad = _outcome(one, names, f"better[{i}]"), _outcome(other, names, f"worse[{i}]")
        pair = f"better[{i}] and worse[{i}], {outcome_in_words(good, names)} and {outcome_in_words(bad, names)}"
        dim = len(good) if names is None else len(names)
        if good.keys() != bad.keys() or (gains and dim != len(gains[0])):
            raise ValueError(f"{pair}, must give values of the same objectives, as all other rows do.")
        gain, certain = _gain(good, bad, dim)
        if not any(gain):
            raise ValueError(f"{pair}, are the same outcome; leave this comparison out.")
        gains.append(gain)
        statements.append(f"{outcome_in_words(good, names)} rather than {outcome_in_words(bad, names)}")
        exact = exact and certain
    return Comparisons(gains, statements, exact, names)


def _gain(good: Outcome, bad: Outcome, dim: int) -> tuple[list[Fraction], bool]:
    """The difference of two outcomes, zero where they give no values; and whether it is certain."""
    gain, certain = [Fraction(0)] * dim, True
    for m in good:
        (high, sure), (low, also) = polyhedra.simplest(good[m]), polyhedra.simplest(bad[m])
        gain[m] = high - low
        certain = certain and sure and also
    return gain, certain


def _outcome(given: Any, names: Sequence[str] | None, where: str) -> Outcome:
    """Values by the position of the objective."""
    if isinstance(given, Mapping) and given and names is not None and set(given) <= set(names):
        return {m: number(given[name], where) for m, name in enumerate(names) if name in given}
    if not _is_list(given) or len(given) == 0 or (names is not None and len(given) != len(names)):
        known = "objective" if names is None else f"of {list(names)}"
        raise ValueError(f"{where} must be a row with a value for each {known}, or values by name; got {given!r}.")
    return {m: number(x, where) for m, x in enumerate(given)}


def _is_list(given: Any) -> bool:
    return (
        given.ndim > 0 if isinstance(given, np.ndarray) else isinstance(given, Sequence) and not isinstance(given, str)
    )


def outcome_in_words(values: Mapping[int, Any], names: Sequence[str] | None) -> str:
    """Values of objectives, by position.

    Examples
    --------
    >>> outcome_in_words({0: 0.7, 1: 12}, ["efficacy", "toxicity"]), outcome_in_words({0: 0.7, 1: 12}, None)
    ('efficacy 0.7, toxicity 12', '(0.7, 12)')
    """
    if names is None:
        return f"({', '.join(f'{float(x):.6g}' for x in values.values())})"
    return ", ".join(f"{names[m]} {float(x):.6g}" for m, x in values.items())


def _row_by_name(row: Mapping[str, float], names: Sequence[str]) -> list[float]:
    """Weights in the order of the names; zero where one is not mentioned."""
    unknown = set(row) - set(names)
    if unknown:
        raise ValueError(f"weights mention {sorted(unknown)}, which are not among the names {list(names)}.")
    return [row.get(name, 0) for name in names]


def check_names(names: Sequence[str], dim: int | None) -> tuple[str, ...]:
    """Different names, ``dim`` of them if that is known."""
    if not isinstance(names, Sequence) or isinstance(names, str) or not names:
        raise TypeError(f"names must be a sequence of non-empty strings; got {names!r}.")
    if not all(isinstance(n, str) and n.strip() for n in names):
        raise TypeError(f"names must be a sequence of non-empty strings; got {names!r}.")
    if len(set(names)) != len(names) or dim not in (None, len(names)):
        raise ValueError(
            f"names must be {dim or len(names)} different names, one for each objective; got {list(names)}."
        )
    return tuple(names)
