"""How many more rows until a front is settled: a simulation of what the posterior may become."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from conebandit.experiment import entries
from conebandit.experiment.declaration import Experiment
from conebandit.experiment.errors import InvalidError
from conebandit.experiment.policy import Served
from conebandit.experiment.rows import Rows
from conebandit.geometry.cone import Cone
from conebandit.geometry.pareto import facet_slack, pareto_mask
from conebandit.policies.compiled import estimates
from conebandit.validate.arguments import as_fraction, as_resolution, as_seed
from conebandit.validate.arrays import FloatArray

ONE_DEVIATION = math.erf(math.sqrt(0.5))  # the level of one deviation of a normal law
# By hand, for an answer within a second. A share is then off by 0.05 at most (one deviation of 100 contexts at a half),
# which the interval says; draws add little to that.
N_CONTEXTS, N_DRAWS = 100, 40
MAX_PAIRS = 20_000_000  # numbers that are compared at once
GROWTH: FloatArray = 2.0 ** np.arange(0.0, 10.01, 0.25)  # how many times the rows of today are looked at
N_RESAMPLES = 200  # so that ten lie beyond each end of the interval
LEVEL = 0.9  # of the interval

Flags = NDArray[np.bool_]


@dataclass(frozen=True)
class SampleSize:
    """How many more rows are needed until the front is settled; print it.

    Attributes
    ----------
    rows
        How many more; infinite if more than a thousand times those of today.
    low, high
        A 90 % interval: what other contexts and other draws from the posterior would have given.
    power
        In which share of contexts the front was to be settled.
    settled_now
        In which share it is expected to be settled today.
    curve
        Expected share after so many more rows.
    untried
        Names of arms that were never tried, or of which a metric was never seen: they stay as unknown as they are.

    Examples
    --------
    >>> print(SampleSize(1200.0, 900.0, 1700.0, 0.8, 0.55, {0: 0.55, 1200: 0.8}))
    About 1,200 more rows (90 % interval 900 to 1,700) until the front is settled in 80% of the contexts; today: 55%.
    """

    rows: float
    low: float
    high: float
    power: float
    settled_now: float
    curve: dict[int, float]
    untried: tuple[str, ...] = ()

    def __str__(self) -> str:
        untried = (
            f" Never tried, or not seen in every metric: {', '.join(self.untried)}. More rows like these say no more."
        )
        return self._sentence() + untried * bool(self.untried)

    def _sentence(self) -> str:
        if not self.rows:
            return (
                f"No more rows: the front is settled in {self.settled_now:.0%} of the contexts, {self.power:.0%} asked."
            )
        interval = " to ".join(f"{end:,.0f}" if math.isfinite(end) else "many more" for end in (self.low, self.high))
        rows = f"About {self.rows:,.0f}" if math.isfinite(self.rows) else f"Far more than {max(self.curve):,}"
        return (
            f"{rows} more rows (90 % interval {interval}) until the front is settled in {self.power:.0%} of the "
            f"contexts; today: {self.settled_now:.0%}."
        )


def how_many(
    experiment: Experiment, policy: Served, rows: Rows, *, resolution: Any, power: Any, seed: Any
) -> SampleSize:
    """See :meth:`Learner.how_many`."""
    seen = _seen(rows, policy.n_arms)
    return sample_size(experiment, policy, rows.contexts, seen, resolution=resolution, power=power, seed=seed)


def sample_size(
    experiment: Experiment,
    policy: Served,
    contexts: FloatArray,
    seen: Flags,
    *,
    resolution: Any = None,
    power: Any = 0.8,
    seed: Any = 0,
) -> SampleSize:
    """How many more rows until the front is settled, at contexts such as these (n, d).

    At a context, the posterior says what the means may be and what an estimate from more rows may become: with g times
    the rows the variance of the posterior is 1/g of today's, and the estimate moves by what the variance has lost
    (preposterior analysis, Raiffa and Schlaifer 1961). So pairs of a truth and a later estimate are drawn, and the
    front of the estimate is compared with the truth. Where nothing was seen, g times the rows show nothing, either:
    ``seen`` says of which arms and metrics there is any value, shape (K, M).
    """
    power = as_fraction(power, "power")
    eps = _resolution(experiment, resolution)
    rng = np.random.default_rng(int(as_seed(seed)))
    now = _posterior(policy, contexts)
    draws = rng.standard_normal((2, N_DRAWS, *now.means.shape))
    settled = np.array(
        [_settled(now, draws, np.where(seen, g, 1.0), experiment.cone, eps) for g in GROWTH]
    )  # (growths, contexts)
    n = policy.n_observations
    picks = rng.integers(0, settled.shape[1], (N_RESAMPLES, settled.shape[1]))
    again = [_first_reached(settled[:, pick].mean(axis=1), power, n) for pick in picks]
    curve = settled.mean(axis=1)
    low, high = np.quantile(again, [(1 - LEVEL) / 2, (1 + LEVEL) / 2], method="nearest")
    more = np.round(n * (GROWTH - 1.0)).astype(np.int64)
    return SampleSize(
        rows=_first_reached(curve, power, n),
        low=float(low),
        high=float(high),
        power=power,
        settled_now=float(curve[0]),
        curve=dict(zip(more.tolist(), curve.tolist(), strict=True)),
        untried=tuple(name for name, known in zip(experiment.arms, seen, strict=True) if not known.all()),
    )


def _seen(rows: Rows, n_arms: int) -> Flags:
    """Of which arms (K) and metrics (M) there is any value, shape (K, M)."""
    seen = np.zeros((n_arms, rows.values.shape[1]), dtype=np.bool_)
    np.logical_or.at(seen, rows.arms, ~np.isnan(rows.values))
    return seen


def _resolution(experiment: Experiment, given: Any) -> FloatArray:
    """Of each metric, in its units."""
    if given is None:
        return np.array([metric.resolution for metric in experiment.metrics])
    if isinstance(given, Mapping):
        names = tuple(experiment.metric_index)
        entries.only(given, names, "resolution")
        given = [given.get(name, metric.resolution) for name, metric in zip(names, experiment.metrics, strict=True)]
    return as_resolution(given, len(experiment.metrics))


class _Posterior(NamedTuple):
    """Means and deviations, both (n, K, M)."""

    means: FloatArray
    deviations: FloatArray


def _posterior(policy: Served, contexts: FloatArray) -> _Posterior:
    """What is known at some of the contexts."""
    if not hasattr(policy, "radii"):
        raise InvalidError(
            f"how_many needs a policy that has a posterior, and {type(policy).__name__} has none. Declare "
            "policy = 'ConeKernel'."
        )
    places = np.unique(np.linspace(0, len(contexts) - 1, N_CONTEXTS).astype(np.int64))
    means, _ = estimates(policy, contexts[places])
    deviations = policy.radii(contexts[places], level=ONE_DEVIATION)
    if not (np.isfinite(means).all() and np.isfinite(deviations).all()):
        raise InvalidError(
            f"too little has been learned to say how many rows are needed: {policy.n_observations} rows for "
            f"{policy.n_arms} arms. Learn from more, and from each arm."
        )
    return _Posterior(means, np.asarray(deviations))


def _settled(now: _Posterior, draws: FloatArray, growth: FloatArray, cone: Cone, eps: FloatArray) -> FloatArray:
    """At each context (n,), in which share of the draws the front is settled with so many times the values (K, M)."""
    means, deviations = now
    moved, left = deviations * np.sqrt(1.0 - 1.0 / growth), deviations / np.sqrt(growth)
    shape = (-1, *means.shape[1:])
    slack, shares = facet_slack(cone, eps), []
    step = max(MAX_PAIRS // (means.shape[0] * means.shape[1] ** 2 * len(cone.facets)), 1)
    for i in range(0, draws.shape[1], step):
        later = means + moved * draws[0, i : i + step]
        truth = later + left * draws[1, i : i + step]
        reported = pareto_mask(later.reshape(shape), cone, resolution=eps)
        needed = pareto_mask(truth.reshape(shape), cone, resolution=eps)
        good = _is_settled(truth.reshape(shape) @ cone.facets.T, slack, reported, needed)
        shares.append(good.reshape(len(later), -1))
    return np.asarray(np.concatenate(shares).mean(axis=0))


def _is_settled(values: FloatArray, slack: FloatArray, reported: Flags, needed: Flags) -> Flags:
    """Whether reported arms (n, K) cover those that are needed, and none is unacceptable, by true images (n, K, F)."""
    lead = values[:, :, None, :] - values[:, None, :, :]  # of the first arm over the second
    covers, beats = np.all(lead >= -slack, axis=3), np.all(lead > slack, axis=3)
    missed = needed & ~np.any(covers & reported[:, :, None], axis=1)
    bad = reported & np.any(beats, axis=1)
    return np.asarray(~np.any(missed | bad, axis=1))


def _first_reached(curve: FloatArray, power: float, n: int) -> float:
    """The least number of further rows at which the curve over GROWTH reaches the power; infinite if it does not."""
    reached = np.flatnonzero(np.maximum.accumulate(curve) >= power)
    if not len(reached):
        return math.inf
    i = int(reached[0])
    if i == 0:
        return 0.0
    below, above = curve[:i].max(), curve[i]
    ahead = (power - below) / (above - below)
    return float(math.ceil(n * (GROWTH[i - 1] * (GROWTH[i] / GROWTH[i - 1]) ** ahead - 1.0)))
