"""What is expected of arms, in the names and units of an experiment."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from conebandit.experiment.metrics import Metric
from conebandit.experiment.summary import as_text


class Interval(NamedTuple):
    """An estimate and where the truth may lie, in the units of its metric; nan and infinite if nothing is known.

    Examples
    --------
    >>> print(Interval(12.345, 11.2, 13.4))
    12.3 (11.2 to 13.4)
    """

    estimate: float
    low: float
    high: float

    def __str__(self) -> str:
        if not math.isfinite(self.high - self.low):
            return "not known"
        return "{} ({} to {})".format(*(_rounded(number, self.high - self.low) for number in self))


@dataclass(frozen=True)
class Outlook:
    """What is expected of an arm in a context.

    Attributes
    ----------
    arm
        Its name.
    on_front
        Whether it is reported to be on the front.
    chance
        That it is on the front, or essential if there is a resolution; nan if the policy does not say.
    estimates
        Of each metric, by name.
    beaten_by
        For an arm off the front the one that beats it most clearly, by the estimates; None if no single one does.

    Examples
    --------
    >>> Outlook("new", True, 0.97, {"revenue": Interval(12.3, 11.2, 13.4)}).estimates["revenue"].low
    11.2
    """

    arm: str
    on_front: bool
    chance: float
    estimates: dict[str, Interval]
    beaten_by: str | None = None


@dataclass(frozen=True)
class RowExplanation:
    """What is expected of every arm for one row, and which columns matter; print it.

    Attributes
    ----------
    arms
        What is expected of each, those on the front first.
    relevance
        Of each context column, how much it matters: 1 for the one that matters most. Empty if the policy does not say.
    units
        Of each metric that has some, by name.

    Examples
    --------
    >>> new = Outlook("new", True, 0.97, {"revenue": Interval(12.3, 11.2, 13.4)})
    >>> old = Outlook("old", False, 0.03, {"revenue": Interval(9.1, 8.2, 10.0)}, beaten_by="new")
    >>> print(RowExplanation((new, old), {"age": 1.0, "device": 0.2}, {"revenue": "EUR"}))
    arm  on the front  chance  revenue, EUR         beaten by
    new  yes           0.97    12.3 (11.2 to 13.4)
    old                0.03    9.1 (8.2 to 10.0)    new
    <BLANKLINE>
    What matters, from 0 to 1: age 1.00, device 0.20.
    """

    arms: tuple[Outlook, ...]
    relevance: dict[str, float]
    units: dict[str, str]

    def __str__(self) -> str:
        metrics = list(self.arms[0].estimates)
        rows = [["arm", "on the front", "chance", *with_units(metrics, self.units), "beaten by"]]
        for each in self.arms:
            chance = "" if math.isnan(each.chance) else f"{each.chance:.2f}"
            estimates = map(str, each.estimates.values())
            rows.append([each.arm, "yes" if each.on_front else "", chance, *estimates, each.beaten_by or ""])
        listed = ", ".join(f"{name} {share:.2f}" for name, share in self.relevance.items())
        return as_text(rows) + (f"\n\nWhat matters, from 0 to 1: {listed}." if listed else "")


def estimates_by_name(metrics: Sequence[Metric], means: Sequence[float], radii: Sequence[float]) -> dict[str, Interval]:
    """Estimates of rewards (M,) as estimates of the metrics, in their units; within the range that is declared."""
    found = {}
    for metric, mean, radius in zip(metrics, means, radii, strict=True):
        value = metric.value(mean)
        low, high = metric.range if metric.range and math.isfinite(radius) else (-math.inf, math.inf)
        found[metric.name] = Interval(*(min(max(x, low), high) for x in (value, value - radius, value + radius)))
    return found


def units_of(metrics: Sequence[Metric]) -> dict[str, str]:
    """The units of the metrics that have some."""
    return {metric.name: metric.units for metric in metrics if metric.units is not None}


def with_units(names: Sequence[str], units: dict[str, str]) -> list[str]:
    """Names for the head of a table."""
    return [f"{name}, {units[name]}" if name in units else name for name in names]


def _rounded(number: float, width: float) -> str:
    """With as many digits as an interval of this width gives a meaning to."""
    if width <= 0.0:
        return f"{number:.4g}"
    places = 1 - math.floor(math.log10(width))
    return f"{number:.4g}" if places > 12 else f"{round(number, places) + 0.0:.{max(places, 0)}f}"
