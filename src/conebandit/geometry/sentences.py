"""Exchange rates in words, such as "one unit of efficacy is worth at most 3 of safety", read as directions."""

from __future__ import annotations

import re
from collections.abc import Sequence
from fractions import Fraction

# The words may be in any case, "(?i: )"; the names of the metrics are matched as they are.
_NUMBER = r"(\d+(?:\.\d+)?|(?i:one))"
_UNITS = r"(?i:units?\s+of\s+|of\s+)?"
_RATE = rf"(?:((?i:at most|at least|exactly))\s+{_NUMBER}|(?i:between)\s+{_NUMBER}\s+(?i:and)\s+{_NUMBER})"


def tradeoff_rays(statements: Sequence[str], names: Sequence[str]) -> list[list[Fraction]]:
    """Directions that are no loss according to the statements, one or two for each statement.

    Parameters
    ----------
    statements
        See :meth:`conebandit.Cone.from_tradeoffs`.
    names
        The objectives, in the order of the entries of the result.

    Examples
    --------
    >>> tradeoff_rays(["2 A is worth between 1 and 3 B"], ["A", "B"])
    [[Fraction(2, 1), Fraction(-1, 1)], [Fraction(-2, 1), Fraction(3, 1)]]
    """
    # Longer names first, so that "pain relief" is not read as "pain".
    metric = "(" + "|".join(re.escape(n) for n in sorted(names, key=len, reverse=True)) + ")"
    sentence = re.compile(
        rf"\s*(?:{_NUMBER}\s+)?{_UNITS}{metric}\s+(?i:is\s+worth)\s+{_RATE}\s+{_UNITS}{metric}\s*\.?\s*"
    )
    position = {name: i for i, name in enumerate(names)}
    rays = []
    for statement in statements:
        match = sentence.fullmatch(statement)
        if match is None:
            raise ValueError(
                f"statement {statement!r} was not understood. Write it like 'one unit of {names[0]} is worth at most "
                f"3 of {names[-1]}' (or 'at least 3', 'exactly 3', 'between 1 and 3'), with these names: {list(names)}."
            )
        amount, given, bound, rate, low, high, taken = match.groups()
        if given == taken:
            raise ValueError(f"statement {statement!r} trades {given!r} for itself; name two different metrics.")
        amount, least, most = _value(amount), _value(rate or low), _value(rate or high)
        if not 0 < least <= most or amount == 0:
            raise ValueError(f"statement {statement!r}: amounts must be above 0 and a range must go upwards.")
        up = [Fraction(0)] * len(names)
        up[position[given]], up[position[taken]] = amount, -least
        down = [Fraction(0)] * len(names)
        down[position[given]], down[position[taken]] = -amount, most
        kind = (bound or "between").lower()
        rays += [down] if kind == "at most" else [up] if kind == "at least" else [up, down]
    return rays


def _value(text: str | None) -> Fraction:
    """A number in digits, or "one", which is also what is meant if nothing is said."""
    return Fraction(1) if text is None or text.lower() == "one" else Fraction(text)
