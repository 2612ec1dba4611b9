"""What a cone says, in words."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import NamedTuple

import numpy as np

from conebandit.geometry.order import Order
from conebandit.validate.arrays import FloatArray


def in_words(cone: Order) -> str:
    """Sentences; see :meth:`conebandit.Cone.describe`."""
    names = cone.names or tuple(f"r{m + 1}" for m in range(cone.dim))
    directions = [f"{'less' if n in cone.minimise else 'more'} {n}" for n in names]
    sentences = [f"{_listed(directions)} {'is' if len(names) == 1 else 'are'} better."]
    if cone.is_orthant:
        if cone.dim > 1:
            sentences.append("No exchange rate is known: an arm beats another if it is worse in nothing.")
    elif cone.contains_orthant:
        sentences += _rates(cone, names)
    else:
        rows = "; ".join(_sum(row, names) for row in cone.facets)
        sentences = [f"An outcome beats another if none of these is smaller, and one is larger: {rows}."]
    text = " ".join(sentences)
    return text[0].upper() + text[1:]


class ExchangeRate(NamedTuple):
    """What one unit of an objective is worth in units of another, by their positions, if all others stay the same.

    Nothing is known if it is between 0 and infinity. If both bounds are infinite, the other one counts for nothing
    beside it; if both are 0, it is the one that does.
    """

    first: int
    second: int
    low: float
    high: float


def exchange_rates(cone: Order) -> list[ExchangeRate]:
    """What is known of the worth of each objective in units of each later one; of a cone that contains the orthant.

    Examples
    --------
    >>> import conebandit as cb
    >>> exchange_rates(cb.Cone.from_tradeoffs("one unit of A is worth at most 3 of B", names=["A", "B"]))
    [ExchangeRate(first=0, second=1, low=0.0, high=3.0)]
    """
    weightings, found = cone.facets * cone.signs, []
    for i, j in combinations(range(cone.dim), 2):
        a, b = weightings[:, [i, j]][weightings[:, [i, j]].any(axis=1)].T
        if a.size:
            rates = np.divide(a, b, out=np.full(a.size, np.inf), where=b != 0)
            found.append(ExchangeRate(i, j, float(rates.min()), float(rates.max())))
    return found


def _rates(cone: Order, names: Sequence[str]) -> list[str]:
    sentences = []
    for i, j, low, high in exchange_rates(cone):
        if low == high == np.inf or high == 0:
            sentences.append(f"{names[j if high else i]} counts for nothing beside {names[i if high else j]}.")
        elif low == high:
            sentences.append(f"One unit of {names[i]} is worth exactly {as_digits(low)} of {names[j]}.")
        elif low > 0 and high < np.inf:
            between = f"between {as_digits(low)} and {as_digits(high)}"
            sentences.append(f"One unit of {names[i]} is worth {between} of {names[j]}.")
        elif low > 0:
            sentences.append(f"One unit of {names[i]} is worth at least {as_digits(low)} of {names[j]}.")
        elif high < np.inf:
            sentences.append(f"One unit of {names[i]} is worth at most {as_digits(high)} of {names[j]}.")
    return sentences


def as_digits(rate: float, digits: int = 6) -> str:
    """So many digits, never with an exponent, which :meth:`conebandit.Cone.from_tradeoffs` would not read."""
    return np.format_float_positional(rate, precision=digits, fractional=False, trim="-")


def _sum(row: FloatArray, names: Sequence[str]) -> str:
    """A weighted sum, such as ``1.25 efficacy - 0.75 safety``."""
    terms = [f"{'-' if w < 0 else '+'} {abs(w):.6g} {n}" for w, n in zip(row.tolist(), names, strict=True) if w]
    return " ".join(terms).removeprefix("+ ")


def _listed(words: Sequence[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"
