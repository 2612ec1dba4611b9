"""What a cone says, in words."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

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
        sentences += _rates(cone.facets * cone.signs, names)
    else:
        rows = "; ".join(_sum(row, names) for row in cone.facets)
        sentences = [f"An outcome beats another if none of these is smaller, and one is larger: {rows}."]
    text = " ".join(sentences)
    return text[0].upper() + text[1:]


def _rates(weightings: FloatArray, names: Sequence[str]) -> list[str]:
    """What is known of the worth of each metric in units of each later one, under all of the weightings."""
    sentences = []
    for i, j in combinations(range(len(names)), 2):
        a, b = weightings[:, [i, j]][weightings[:, [i, j]].any(axis=1)].T
        if not a.size:
            continue
        rates = np.divide(a, b, out=np.full(a.size, np.inf), where=b != 0)
        low, high = float(rates.min()), float(rates.max())
        if low == high == np.inf or high == 0:
            sentences.append(f"{names[j if high else i]} counts for nothing beside {names[i if high else j]}.")
        elif low == high:
            sentences.append(f"One unit of {names[i]} is worth exactly {_rate(low)} of {names[j]}.")
        elif low > 0 and high < np.inf:
            sentences.append(f"One unit of {names[i]} is worth between {_rate(low)} and {_rate(high)} of {names[j]}.")
        elif low > 0:
            sentences.append(f"One unit of {names[i]} is worth at least {_rate(low)} of {names[j]}.")
        elif high < np.inf:
            sentences.append(f"One unit of {names[i]} is worth at most {_rate(high)} of {names[j]}.")
    return sentences


def _rate(rate: float) -> str:
    """Six digits, never with an exponent, which :meth:`conebandit.Cone.from_tradeoffs` would not read."""
    return np.format_float_positional(rate, precision=6, fractional=False, trim="-")


def _sum(row: FloatArray, names: Sequence[str]) -> str:
    """A weighted sum, such as ``1.25 efficacy - 0.75 safety``."""
    terms = [f"{'-' if w < 0 else '+'} {abs(w):.6g} {n}" for w, n in zip(row.tolist(), names, strict=True) if w]
    return " ".join(terms).removeprefix("+ ")


def _listed(words: Sequence[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"
