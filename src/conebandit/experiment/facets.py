"""The facets of a cone in words: in what an arm must not be worse than another to beat it, and by how much it leads."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from conebandit.experiment.metrics import Metric
from conebandit.experiment.outlook import Interval
from conebandit.geometry.cone import Cone
from conebandit.validate.arrays import FloatArray


@dataclass(frozen=True)
class Facet:
    """One respect in which arms are compared: a metric, or a weighted sum of several.

    Attributes
    ----------
    metrics
        Those of the experiment.
    coefficients
        Shape (M,), of the values of the metrics in their own units; a larger sum is better. That of the metric whose
        units are counted in is 1 or -1.
    scale
        What a lead on the facet, as policies tell it, is divided by to be in these units.

    Examples
    --------
    >>> metrics = (Metric("response"), Metric("toxicity", "min", worst=1.0))
    >>> for facet in facets_of(Cone.from_facets([[1, 3], [0, 1]]), metrics):
    ...     print(facet.compared(Interval(0.5, 0.25, 0.75)))
    response - 3 toxicity higher by 1.0 (0.5 to 1.5)
    toxicity lower by 0.50 (0.25 to 0.75)
    """

    metrics: tuple[Metric, ...]
    coefficients: tuple[float, ...]
    scale: float

    @property
    def words(self) -> str:
        """What is compared: the name of a metric, or a sum such as ``response - 3 toxicity``."""
        parts = [
            (weight, metric.name) for weight, metric in zip(self.coefficients, self.metrics, strict=True) if weight
        ]
        if len(parts) == 1:
            return parts[0][1]
        terms = [f"{'-' if w < 0 else '+'} {'' if abs(w) == 1 else f'{abs(w):.4g} '}{name}" for w, name in parts]
        return " ".join(terms).removeprefix("+ ")

    @property
    def meaning(self) -> str:
        """What a sum counts each metric as, in words; empty for a single metric."""
        unit = self._unit
        counted = []
        for weight, metric in zip(self.coefficients, self.metrics, strict=True):
            if weight and metric is not unit:
                change = "more" if weight > 0 else "less"
                counted.append(f"one unit {change} of {metric.name} counts as {abs(weight):.4g} of {unit.name}")
        return "; ".join(counted)

    def compared(self, lead: Interval) -> str:
        """By how much an arm is ahead of another, in words; the lead is as policies tell it."""
        if not math.isfinite(lead.estimate):
            return f"{self.words}: not known"
        alone = sum(weight != 0.0 for weight in self.coefficients) == 1
        sign = math.copysign(1.0, self.coefficients[self.metrics.index(self._unit)]) if alone else 1.0
        change, radius = lead.estimate / self.scale * sign, (lead.high - lead.estimate) / self.scale
        if change == 0.0:
            return f"{self.words} the same"
        amount = abs(change)
        size = str(Interval(amount, amount - radius, amount + radius)) if math.isfinite(radius) else f"{amount:.3g}"
        units = f" {self._unit.units}" if self._unit.units else ""
        return f"{self.words} {'higher' if change > 0 else 'lower'} by {size}{units}"

    @property
    def _unit(self) -> Metric:
        """The metric whose units are counted in."""
        return self.metrics[_unit_of(np.array(self.coefficients), self.metrics)]


def facets_of(cone: Cone, metrics: Sequence[Metric]) -> tuple[Facet, ...]:
    """The facets of a cone of rewards, in its order, as sums of values of the metrics."""
    found = []
    for row in value_facets(cone, metrics):
        scale = abs(row[_unit_of(row, metrics)])
        found.append(Facet(tuple(metrics), tuple((row / scale).tolist()), float(scale)))
    return tuple(found)


def value_facets(cone: Cone, metrics: Sequence[Metric]) -> FloatArray:
    """The facets (F, M) of a cone of rewards for values of the metrics: those of costs have changed sign."""
    signs = np.array([-1.0 if metric.direction == "min" else 1.0 for metric in metrics])
    return np.asarray(cone.facets * signs + 0.0)  # never -0.0


def _unit_of(row: FloatArray, metrics: Sequence[Metric]) -> int:
    """Position of the first metric in a sum of which more is better; of the first one at all if there is none."""
    used = np.flatnonzero(row).tolist()
    gains = [m for m in used if row[m] > 0.0 and metrics[m].direction == "max"]
    return gains[0] if gains else used[0]
