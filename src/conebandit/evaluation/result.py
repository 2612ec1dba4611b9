"""What an evaluation found: values, regions, differences, and the front of policies."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np

from conebandit.evaluation.regions import Standing, differences, largest_deviation, standings
from conebandit.evaluation.targets import Overlap
from conebandit.geometry.cone import Cone
from conebandit.geometry.pareto import pareto_mask
from conebandit.validate.arguments import as_fraction
from conebandit.validate.arrays import FloatArray


class Difference(NamedTuple):
    """By how much one policy is above another; arrays of shape (M,).

    Attributes
    ----------
    values
        Differences in every metric.
    errors
        Their standard errors. Both policies are judged on the same rows, so these may be far smaller than the errors of
        the two.
    radii
        Half widths of intervals that hold for all pairs of policies and all metrics at once.

    Examples
    --------
    >>> import numpy as np, conebandit as cb
    >>> rng = np.random.default_rng(0)
    >>> arms = rng.integers(2, size=1000)
    >>> rewards = np.column_stack([arms, 1 - arms]) + rng.normal(0, 0.1, (1000, 2))
    >>> log = cb.Log(rng.random((1000, 1)), arms, rewards, np.full(1000, 0.5), cb.Cone.orthant(2))
    >>> difference = cb.evaluate(log, {"first": 0, "second": 1}).difference("second", "first")
    >>> difference.values.round(1).tolist(), bool((difference.radii < 0.05).all())
    ([1.0, -1.0], True)
    """

    values: FloatArray
    errors: FloatArray
    radii: FloatArray


@dataclass(frozen=True, eq=False)
class Evaluation:
    """Values of policies, estimated from a log, and how sure that is.

    Attributes
    ----------
    policies, metrics
        Their names.
    cone
        The preference cone.
    values
        Shape (P, M), the estimated mean rewards.
    covariance
        Shape (P, M, P, M), of all estimates with each other.
    level
        Probability with which a region holds.
    estimator
        Which one was used.
    adaptive
        Whether the log was taken to come from a policy that learns.
    n_rows
        Number of decisions in the log.
    n_units
        Number of units that they are about, if the log says it; errors are then those between units.
    overlap
        For each policy how much the log says about it.
    notes
        What a reader must know, in sentences.

    Examples
    --------
    >>> import conebandit as cb
    >>> env = cb.environments.dose_finding(n_arms=3)
    >>> run = cb.simulate(cb.RandomArm(3, env.cone, env.context_dim), env, horizon=2000)
    >>> found = cb.evaluate(run, ["0", "1", "2"])
    >>> found.values.shape, found.errors.shape, bool((found.radii() > 1.96 * found.errors).all())
    ((3, 2), (3, 2), True)
    >>> found.front, found.standings
    (('0', '1', '2'), {'0': 'on', '1': 'on', '2': 'on'})
    """

    policies: tuple[str, ...]
    metrics: tuple[str, ...]
    cone: Cone
    values: FloatArray
    covariance: FloatArray
    level: float
    estimator: str
    adaptive: bool
    n_rows: int
    overlap: Mapping[str, Overlap]
    notes: tuple[str, ...]
    n_units: int | None = None

    @cached_property
    def errors(self) -> FloatArray:
        """Standard errors of the values, shape (P, M)."""
        size = self.values.size
        return np.sqrt(np.diag(self.covariance.reshape(size, size))).reshape(self.values.shape)

    def radii(self, *, level: float | None = None, simultaneous: bool = True) -> FloatArray:
        """Half widths of intervals around the values, shape (P, M).

        Parameters
        ----------
        level
            Probability with which they hold; by default that of the evaluation.
        simultaneous
            Whether they hold for all policies and metrics at once, or each for itself.
        """
        chance = self.level if level is None else as_fraction(level, "level")
        if simultaneous:
            size = self.values.size
            return largest_deviation(self.covariance.reshape(size, size), chance) * self.errors
        return largest_deviation(np.ones((1, 1)), chance) * self.errors

    def difference(self, policy: str, other: str) -> Difference:
        """By how much a policy is above another, in every metric."""
        places = [self._place(name) for name in (policy, other)]
        if places[0] == places[1]:
            raise ValueError(f"policy and other must be two different policies; got {policy!r} twice.")
        leads, errors, radii = differences(self.values, self.covariance, np.eye(len(self.metrics)), self.level)
        pair = list(combinations(range(len(self.policies)), 2)).index((min(places), max(places)))
        sign = 1.0 if places[0] < places[1] else -1.0
        return Difference(sign * leads[pair], errors[pair], radii[pair])

    @cached_property
    def front(self) -> tuple[str, ...]:
        """Policies whose estimated values no other policy's dominate."""
        return tuple(np.array(self.policies, dtype=object)[pareto_mask(self.values, self.cone)])

    @cached_property
    def standings(self) -> dict[str, Standing]:
        """For each policy ``"on"`` if it is surely on the front of policies, ``"off"`` if surely not, else ``"open"``.

        With the probability of the evaluation, all that is called sure is right.
        """
        return dict(zip(self.policies, standings(self.values, self.covariance, self.cone, self.level), strict=True))

    def _place(self, name: str) -> int:
        if name not in self.policies:
            raise ValueError(f"policy must be one of {', '.join(self.policies)}; got {name!r}.")
        return self.policies.index(name)

    # ---- for people and files -----------------------------------------------------------------------------------

    def rows(self) -> list[list[str]]:
        """A table, its head first: values with the half widths of simultaneous intervals, standing, rows in effect."""
        head = ["policy", *map(self._label, self.metrics), "front", "rows in effect"]
        table = [head]
        for name, values, radii in zip(self.policies, self.values, self.radii(), strict=True):
            cells = [f"{value:.4g} ± {radius:.2g}" for value, radius in zip(values, radii, strict=True)]
            standing = {"on": "surely on", "off": "surely off", "open": "open"}[self.standings[name]]
            estimated = {"open": f", {'on' if name in self.front else 'off'} by the estimates"}
            said = standing + estimated.get(standing, "")
            table.append([name, *cells, said, f"{self.overlap[name].effective_rows:,.0f}"])
        return table

    def _label(self, metric: str) -> str:
        """A metric, and which way is better if that is less."""
        return f"{metric} (less is better)" if metric in self.cone.minimise else metric

    def __str__(self) -> str:
        table = self.rows()
        widths = [max(map(len, column)) for column in zip(*table, strict=True)]
        lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in table]
        return "\n".join([*(line.rstrip() for line in lines), *self.sentences()])

    def sentences(self) -> list[str]:
        """What the table means, and what a reader must know."""
        log = "an adaptive log" if self.adaptive else "a log that is not adaptive"
        of_units = "" if self.n_units is None else f" about {self.n_units:,} units"
        about = f"{self.n_rows:,} rows{of_units} of {log}, estimator {self.estimator}; "
        about += f"with probability {self.level:.4g} all intervals hold at once."
        return [about, *self.notes]

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain values, for JSON."""
        radii, pointwise = self.radii(), self.radii(simultaneous=False)
        return {
            "estimator": self.estimator,
            "adaptive": self.adaptive,
            "level": self.level,
            "rows": self.n_rows,
            **({} if self.n_units is None else {"units": self.n_units}),
            "metrics": list(self.metrics),
            "minimise": list(self.cone.minimise),
            "facets": self.cone.facets.tolist(),
            "notes": list(self.notes),
            "policies": [
                {
                    "name": name,
                    "values": self.values[p].tolist(),
                    "errors": self.errors[p].tolist(),
                    "radii": radii[p].tolist(),
                    "pointwise_radii": pointwise[p].tolist(),
                    "on_front": name in self.front,
                    "standing": self.standings[name],
                    "overlap": vars(self.overlap[name]).copy(),
                }
                for p, name in enumerate(self.policies)
            ],
            "covariance": self.covariance.tolist(),
        }

    def figure(self, metrics: tuple[str, str] | None = None) -> Any:
        """A figure of matplotlib: policies in two metrics, their simultaneous intervals, what is known of the front.

        Parameters
        ----------
        metrics
            Names of the metrics to show; the first two by default.
        """
        from conebandit.plots import evaluation_figure  # noqa: PLC0415  (matplotlib is an extra)

        names = self.metrics[:2] if metrics is None else tuple(metrics)
        unknown = [name for name in names if name not in self.metrics]
        if len(self.metrics) < 2:
            raise ValueError(f"a figure shows two metrics; this evaluation has one, {self.metrics[0]}.")
        if len(names) != 2 or unknown or names[0] == names[1]:
            raise ValueError(f"metrics must be two of {', '.join(self.metrics)}; got {names}.")
        shown = [self.metrics.index(name) for name in names]
        return evaluation_figure(
            self.values[:, shown],
            self.radii()[:, shown],
            labels=self.policies,
            standings=[self.standings[name] for name in self.policies],
            metrics=(self._label(names[0]), self._label(names[1])),
            level=self.level,
        )
