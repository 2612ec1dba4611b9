"""What if other exchange rates held, or another resolution: the front that would be, on the same estimates."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from conebandit.experiment import cones
from conebandit.experiment.declaration import Experiment
from conebandit.experiment.errors import InvalidError
from conebandit.experiment.metrics import Metric
from conebandit.experiment.policy import Served
from conebandit.experiment.standing import Standing, standings, standings_by_estimates
from conebandit.experiment.toml import to_toml
from conebandit.geometry.cone import Cone
from conebandit.geometry.words import as_digits, exchange_rates
from conebandit.policies.other_cone import under_cone
from conebandit.validate.arrays import FloatArray

MIN_RATE, MAX_RATE = 1e-12, 1e12
DIGITS = 10  # of a rate; cones that differ by less than 1e-9 are the same


class Rate(NamedTuple):
    """One unit of a metric is worth at least, and at most, so many of another; None if nobody says.

    Examples
    --------
    >>> Rate("toxicity", "response", 2.0, 3.0).statements
    ('one unit of toxicity is worth between 2 and 3 of response',)
    >>> Rate("toxicity", "response", None, 3.0).statements
    ('one unit of toxicity is worth at most 3 of response',)
    """

    metric: str
    other: str
    least: float | None = None
    most: float | None = None

    @property
    def statements(self) -> tuple[str, ...]:
        """Sentences of a declaration; two where the bounds contradict each other, so that an error can name both."""
        begin, end = f"one unit of {self.metric} is worth", f"of {self.other}"
        least, most = (None if rate is None else as_digits(rate, DIGITS) for rate in (self.least, self.most))
        if self.least is not None and self.least == self.most:
            return (f"{begin} exactly {least} {end}",)
        if self.least is not None and self.most is not None and self.least < self.most:
            return (f"{begin} between {least} and {most} {end}",)
        bounds = (("at least", least), ("at most", most))
        return tuple(f"{begin} {bound} {rate} {end}" for bound, rate in bounds if rate is not None)


@dataclass(frozen=True)
class Hypothesis:
    """Another cone and resolution for an experiment.

    Attributes
    ----------
    experiment
        The experiment as it is declared.
    cone
        Of rewards, as that of the experiment.
    declared
        The entry ``cone`` of a declaration that gives it.
    resolution
        For each metric, in its units.
    """

    experiment: Experiment
    cone: Cone
    declared: Any
    resolution: tuple[float, ...]

    @property
    def words(self) -> str:
        """What the cone says, about the metrics themselves."""
        return cone_in_words(self.cone, self.experiment.metrics)

    @property
    def is_present(self) -> bool:
        """Whether nothing is different from what is declared."""
        return self.cone == self.experiment.cone and self.resolution == present_resolution(self.experiment)

    def changes(self) -> dict[str, Any]:
        """The entries of a declaration that differ; at least the cone."""
        declaration, changes = self.experiment.declaration, {"cone": self.declared}
        if self.resolution != present_resolution(self.experiment):
            metrics = declaration["metrics"]
            changes["metrics"] = [
                {**{name: value for name, value in metric.items() if name != "resolution"}, "resolution": resolution}
                for metric, resolution in zip(metrics, self.resolution, strict=True)
            ]
            policy = declaration.get("policy")
            if isinstance(policy, dict) and "resolution" in policy:  # once for all metrics; now each has its own
                changes["policy"] = {name: value for name, value in policy.items() if name != "resolution"}
        return changes

    def toml(self) -> str:
        """These entries as TOML: for ``conebandit experiment change``, or to be put in place of those declared."""
        return to_toml(self.changes())


class Comparison(NamedTuple):
    """How arms stand now and under a hypothesis, by the same estimates.

    Attributes
    ----------
    now, then
        All arms, in the order of the policy.
    by_estimates
        Whether both are compared by the estimates alone: the policy learns otherwise under another cone, so that
        nothing is known of chances.
    """

    now: tuple[Standing, ...]
    then: tuple[Standing, ...]
    by_estimates: bool

    @property
    def enter(self) -> tuple[Standing, ...]:
        """Arms that are on the front under the hypothesis alone."""
        return tuple(b for a, b in zip(self.now, self.then, strict=True) if b.outlook.on_front > a.outlook.on_front)

    @property
    def leave(self) -> tuple[Standing, ...]:
        """Arms that are on the front now alone, as they stand then."""
        return tuple(b for a, b in zip(self.now, self.then, strict=True) if b.outlook.on_front < a.outlook.on_front)


def suppose(experiment: Experiment, rates: Sequence[Rate] | None, resolution: Sequence[float]) -> Hypothesis:
    """What an experiment would be with these exchange rates and no others, and this resolution of each metric.

    Without rates (None, not an empty list) the cone is the declared one.

    Raises
    ------
    InvalidError
        If the rates contradict each other (it names the sentences), or cannot be: the message says what is wrong.

    Examples
    --------
    >>> experiment = Experiment.from_dict({"id": "e", "arms": ["a", "b"], "metrics": [{"name": "m"}, {"name": "n"}]})
    >>> print(suppose(experiment, [Rate("m", "n", 1.0, 3.0)], (0.0, 0.0)).toml())
    cone = { tradeoffs = ["one unit of m is worth between 1 and 3 of n"] }
    <BLANKLINE>
    """
    for rate in rates or ():
        for bound in (rate.least, rate.most):
            if bound is not None and not MIN_RATE <= bound <= MAX_RATE:
                raise InvalidError(
                    f"an exchange rate must be a number from {MIN_RATE:g} to {MAX_RATE:g}, or left empty; got "
                    f"{bound:g} for {rate.metric!r} in units of {rate.other!r}."
                )
    for metric, smallest in zip(experiment.metrics, resolution, strict=True):
        if not (math.isfinite(smallest) and smallest >= 0.0):
            raise InvalidError(f"the resolution of {metric.name!r} must be at least 0; got {smallest!r}.")
    in_units = tuple(map(float, resolution))
    statements = [sentence for rate in rates or () for sentence in rate.statements]
    declared: Any = {"tradeoffs": statements} if statements else "orthant"
    cone = experiment.cone if rates is None else cones.declared(declared, experiment.metrics)
    if cone == experiment.cone:  # as people have declared it, in their own words
        return Hypothesis(experiment, experiment.cone, experiment.declaration.get("cone", "orthant"), in_units)
    return Hypothesis(experiment, cone, declared, in_units)


def present(experiment: Experiment) -> Hypothesis:
    """What is declared, as a hypothesis."""
    return suppose(experiment, None, present_resolution(experiment))


def present_rates(experiment: Experiment) -> tuple[Rate, ...]:
    """The exchange rates that the declared cone has; none if it is smaller than the orthant, and has no such thing."""
    cone, names = experiment.cone, [metric.name for metric in experiment.metrics]
    if not cone.contains_orthant:
        return ()
    found = (
        Rate(names[rate.first], names[rate.second], _bound(rate.low), _bound(rate.high))
        for rate in exchange_rates(cone)
    )
    return tuple(rate for rate in found if rate.statements)


def present_resolution(experiment: Experiment) -> tuple[float, ...]:
    """The declared resolution of each metric, be it given with the metrics or once with the policy."""
    own = [metric.resolution for metric in experiment.metrics]
    for_all = experiment.settings.get("resolution", 0.0)
    return tuple(own) if any(own) else (float(for_all),) * len(own)


def compare(hypothesis: Hypothesis, policy: Served, x: FloatArray, retired: Collection[str] = ()) -> Comparison:
    """How arms stand at a context (d,) now and under a hypothesis; the policy stays as it is.

    Parameters
    ----------
    hypothesis
        About the experiment; its arms are those of the policy.
    policy
        As it is now.
    x
        The context as the policy sees it.
    retired
        Arms that are not served any more.
    """
    experiment, cone, resolution = hypothesis.experiment, hypothesis.cone, np.array(hypothesis.resolution)
    other = under_cone(policy, cone, resolution)
    if other is None:
        declared = np.array(present_resolution(experiment))
        now = standings_by_estimates(experiment, policy, x, retired, cone=experiment.cone, resolution=declared)
        then = standings_by_estimates(experiment, policy, x, retired, cone=cone, resolution=resolution)
        return Comparison(now, then, by_estimates=True)
    now, then = (standings(experiment, each, x, retired) for each in (policy, other))
    return Comparison(now, then, by_estimates=False)


def cone_in_words(cone: Cone, metrics: Sequence[Metric]) -> str:
    """What a cone of rewards says about the metrics themselves, where less of a cost is better."""
    return cone.turned([metric.name for metric in metrics if metric.direction == "min"]).describe()


def _bound(rate: float) -> float | None:
    return rate if MIN_RATE <= rate <= MAX_RATE else None
