"""The form of *what if*: exchange rates and resolutions that somebody enters, and what they start from."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations

from conebandit.experiment.declaration import Experiment
from conebandit.experiment.errors import InvalidError
from conebandit.experiment.what_if import (
    DIGITS,
    Hypothesis,
    Rate,
    present,
    present_rates,
    present_resolution,
    suppose,
)
from conebandit.geometry.words import as_digits

MAX_ALL_PAIRS = 4  # metrics up to which every pair has its row; with more, one chooses the pairs
SPARE = 2  # rows that are empty, where one chooses
MAX_ROWS = 64  # of exchange rates; as many as a declaration may have
SPAN = 2.0  # a slider reaches as many powers of ten to either side


@dataclass(frozen=True)
class RateRow:
    """A line of the form: one unit of a metric is worth at least, and at most, so many of another."""

    number: int
    metric: str
    other: str
    least: str
    most: str
    middle: float = 0.0  # power of ten of the rate at the middle of its sliders

    def slider(self, text: str) -> tuple[float, float, float]:
        """Ends and position of the slider of a bound, as powers of ten."""
        low, high = self.middle - SPAN, self.middle + SPAN
        try:
            at = math.log10(float(text))
        except ValueError:  # nothing was entered, or nothing that can be
            at = self.middle
        return low, high, round(min(max(at, low), high), 2)


def rate_rows(experiment: Experiment, query: Mapping[str, str], spreads: Mapping[str, float]) -> list[RateRow]:
    """The lines of the form, as they were entered; at first what is declared.

    Parameters
    ----------
    experiment
        What is declared.
    query
        What was entered.
    spreads
        By how much estimates of each metric differ, so that sliders begin where something happens.
    """
    names, given = [metric.name for metric in experiment.metrics], _given(query)
    if not is_asked(query):
        given = _declared(experiment)
    if len(names) <= MAX_ALL_PAIRS:
        entered = {(metric, other): (least, most) for metric, other, least, most in given}
        given = [(a, b, *entered.get((a, b), ("", ""))) for a, b in combinations(names, 2)]
    else:
        given += [(names[0], names[1], "", "")] * SPARE
    return [RateRow(i, *row, middle=_middle(spreads.get(row[0]), spreads.get(row[1]))) for i, row in enumerate(given)]


def resolutions(experiment: Experiment, query: Mapping[str, str]) -> list[str]:
    """The resolution of each metric, as it was entered; at first what is declared."""
    declared = present_resolution(experiment)
    return [query.get(f"resolution.{m}", _text(each)) for m, each in enumerate(declared)]


def is_asked(query: Mapping[str, str]) -> bool:
    """Whether somebody has entered something, so that what is declared does not count."""
    return any(name.startswith(("metric.", "resolution.")) for name in query)


def supposed(experiment: Experiment, query: Mapping[str, str]) -> Hypothesis:
    """What was entered; an ``InvalidError`` says what is wrong with it."""
    if not is_asked(query):
        return present(experiment)
    resolution = [_number(text, "resolution") or 0.0 for text in resolutions(experiment, query)]
    given = _given(query)
    if given == _declared(experiment) or not any(name.startswith("metric.") for name in query):
        return suppose(experiment, None, resolution)
    names = {metric.name for metric in experiment.metrics}
    rates = []
    for metric, other, least, most in given:
        if not {metric, other} <= names:
            raise InvalidError(
                f"an exchange rate is between two metrics; there is no {metric[:40]!a} and {other[:40]!a}."
            )
        rates.append(Rate(metric, other, _number(least, "exchange rate"), _number(most, "exchange rate")))
    return suppose(experiment, rates, resolution)


def _given(query: Mapping[str, str]) -> list[tuple[str, str, str, str]]:
    """Lines in which something was entered."""
    found = []
    for i in range(MAX_ROWS):
        metric, other = query.get(f"metric.{i}"), query.get(f"other.{i}")
        least, most = (query.get(f"{name}.{i}", "").strip() for name in ("least", "most"))
        if metric is not None and other is not None and (least or most):
            found.append((metric, other, least, most))
    return found


def is_said_by_rates(experiment: Experiment) -> bool:
    """Whether exchange rates between pairs of metrics say all that the declared cone does."""
    return suppose(experiment, present_rates(experiment), present_resolution(experiment)).is_present


def _declared(experiment: Experiment) -> list[tuple[str, str, str, str]]:
    """The lines of the form that say what is declared."""
    return [(r.metric, r.other, _text(r.least), _text(r.most)) for r in present_rates(experiment)]


def _text(rate: float | None) -> str:
    return "" if rate is None else as_digits(rate, DIGITS)


def _number(text: str, what: str) -> float | None:
    if not text.strip():
        return None
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise InvalidError(f"{what}: this must be a number, or empty; got {text[:40]!a}.")
    return number


def _middle(first: float | None, second: float | None) -> float:
    """Power of ten of the rate at which two differences are worth the same; 1 if one of them is not known."""
    return round(math.log10(second / first), 1) if first and second else 0.0
