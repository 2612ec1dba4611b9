"""How smooth mean rewards are and how clearly arms are apart: estimates of (beta, C_beta) and (alpha, C_alpha).

Both are exponents of power laws that the assumptions only bound, read off as slopes on log scales over a range of
radii or gaps. They describe what is seen at those scales, and prove nothing about smaller ones.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from conebandit.diagnose.cells import MAX_LEVEL, dyadic_cells, to_unit_cube
from conebandit.diagnose.fit import log_slope
from conebandit.environments.base import Environment
from conebandit.geometry.cone import Cone
from conebandit.geometry.gap import gap
from conebandit.geometry.pareto import pareto_mask
from conebandit.validate.arguments import as_integer
from conebandit.validate.arrays import FloatArray, as_floats

RADII: FloatArray = 2.0 ** -np.arange(3.0, 9.0)
LOG_RADII: FloatArray = 2.0 ** -np.arange(1.0, 8.0)  # wider: noise hides changes over short distances
MIN_GAP = 1e-9  # smaller ones are rounding errors

Kind = Literal["smoothness", "smoothness from a log", "margin", "margin from a log"]


@dataclass(frozen=True)
class PowerLaw:
    """A power law ``value <= constant * scale ** exponent`` that was read off data.

    Attributes
    ----------
    exponent
        Slope on log scales: beta for smoothness (at most 1), alpha for the margin.
    low, high
        Interval of two standard errors of the least-squares slope.
    constant
        Smallest constant with which the law holds at all points, for this exponent.
    scale, value
        The points: radii and moduli of continuity, or gaps and shares of contexts.
    kind
        What was measured.

    Examples
    --------
    >>> import conebandit as cb
    >>> law = cb.smoothness(cb.environments.smooth(context_dim=1))
    >>> law.low <= law.exponent <= law.high, law.kind
    (True, 'smoothness')
    """

    exponent: float
    low: float
    high: float
    constant: float
    scale: FloatArray
    value: FloatArray
    kind: Kind


def smoothness(environment: Environment, *, pairs: int = 20_000, seed: int = 0) -> PowerLaw:
    """Smoothness (beta, C_beta) of an environment's means: their largest change over each of several distances.

    Parameters
    ----------
    environment
        Contexts come from its own law of the target phase.
    pairs
        How many pairs of contexts are compared at each distance.
    seed
        Of the pairs.

    Examples
    --------
    >>> import conebandit as cb
    >>> law = cb.smoothness(cb.environments.paper(n_arms=5))       # slopes 4 (1 - floor) = 3.8
    >>> round(law.exponent, 2), round(law.constant, 1)
    (1.0, 3.8)
    """
    rng = np.random.default_rng(seed)
    x = _target_contexts(environment, rng, pairs)
    low, span = x.min(axis=0), np.ptp(x, axis=0)
    largest = []
    for r in RADII:
        step = r * span * rng.uniform(-1.0, 1.0, x.shape)
        axis = rng.integers(x.shape[1], size=len(x))
        rows = np.arange(len(x))
        step[rows, axis] = r * span[axis] * rng.choice([-1.0, 1.0], len(x))  # at distance r in the sup norm
        moved = x + step
        inside = ((moved >= low) & (moved <= low + span)).all(axis=1)
        change = np.abs(environment.means(moved[inside]) - environment.means(x[inside]))
        largest.append(float(change.max(initial=0.0)))
    return _fit(RADII, np.array(largest), "smoothness", most=1.0)


def smoothness_from_log(
    contexts: ArrayLike, arms: ArrayLike, rewards: ArrayLike, *, pairs: int = 200_000, seed: int = 0
) -> PowerLaw:
    """Smoothness from logged rounds: the root mean square change of means, noise taken out.

    Half the mean squared difference of two rewards of the same arm is the noise plus half the squared change of the
    mean (a variogram). The noise is its value among nearest neighbours. What is left is a mean, not a maximum, over
    pairs, so the constant is a lower bound; the exponent is the same where changes are spread evenly.

    Parameters
    ----------
    contexts, arms, rewards
        Shapes (n, d), (n,), (n, M).
    pairs
        How many pairs of rounds are compared.
    seed
        Of the pairs.

    Examples
    --------
    >>> import conebandit as cb
    >>> env = cb.environments.paper(n_arms=3, change_point=0, sigma=0.05)
    >>> run = cb.simulate(cb.RandomArm(3, env.cone, 1), env, horizon=20_000)
    >>> law = cb.smoothness_from_log(run.contexts, run.arms, run.rewards)
    >>> 0.8 < law.exponent <= 1.0
    True
    """
    x, y, k = _log(contexts, arms, rewards)
    if len(np.unique(k)) == len(k):
        raise ValueError(f"arms must name an arm more than once, to compare its rewards; got {k.tolist()}. Log more.")
    rng = np.random.default_rng(seed)
    span = np.where(np.ptp(x, axis=0) > 0, np.ptp(x, axis=0), 1.0)
    order = np.lexsort((x[:, 0], k))
    x, y, k = x[order] / span, y[order], k[order]
    # Partners further on in the order of the first coordinate: distances of all sizes, within an arm.
    first = rng.integers(len(x), size=pairs)
    reach = np.exp(rng.uniform(0.0, np.log(len(x) / 2), pairs)).astype(np.int64) + 1
    second = first + reach
    good = second < len(x)
    good[good] = k[first[good]] == k[second[good]]
    first, second = first[good], second[good]
    distance = np.abs(x[first] - x[second]).max(axis=1)
    half = 0.5 * ((y[first] - y[second]) ** 2)  # (pairs, M)
    noise, noise_error = _nugget(x, y, k)
    edges = np.append(LOG_RADII * np.sqrt(2.0), LOG_RADII[-1] / np.sqrt(2.0))
    changes = []
    for upper, lower in pairwise(edges.tolist()):
        near = half[(distance > lower) & (distance <= upper)]
        excess = near.mean(axis=0) - noise if len(near) > 1 else np.zeros(y.shape[1])
        error = np.hypot(near.std(axis=0) / np.sqrt(max(len(near), 1)), noise_error) if len(near) > 1 else noise_error
        clear = np.where(excess > 3.0 * error, excess, 0.0)  # what noise could have done counts as nothing
        changes.append(float(np.sqrt(2.0 * clear.max())))
    return _fit(LOG_RADII, np.array(changes), "smoothness from a log", most=1.0)


def _nugget(x: FloatArray, y: FloatArray, k: NDArray[np.int64]) -> tuple[FloatArray, FloatArray]:
    """Variance of the noise in each metric, and its standard error.

    Half the mean squared difference of neighbours within an arm (Rice 1984).

    Neighbours by the first coordinate; with more of them, only the nearest percent in all coordinates.
    """
    same = k[1:] == k[:-1]
    distance = np.abs(np.diff(x, axis=0)).max(axis=1)
    close = same & (distance <= np.quantile(distance[same], 1.0 if x.shape[1] == 1 else 0.01))
    half = 0.5 * np.diff(y, axis=0)[close] ** 2
    return half.mean(axis=0), half.std(axis=0) / np.sqrt(len(half))


def margin(environment: Environment, *, contexts: int = 20_000, seed: int = 0) -> PowerLaw:
    """Margin (alpha, C_alpha) of an environment: Q(0 < smallest positive gap at X <= eps) <= C eps^alpha.

    Parameters
    ----------
    environment, seed
        As for :func:`smoothness`.
    contexts
        How many contexts are drawn.

    Examples
    --------
    >>> import conebandit as cb
    >>> law = cb.margin(cb.environments.paper(n_arms=5))
    >>> 0.5 < law.exponent < 1.5
    True
    """
    x = _target_contexts(environment, np.random.default_rng(seed), contexts)
    return _margin(environment.means(x), environment.cone, "margin")


def margin_from_log(
    contexts: ArrayLike, arms: ArrayLike, rewards: ArrayLike, cone: Cone, *, level: int = 3
) -> PowerLaw:
    """Margin from logged rounds, by the average reward of each arm in dyadic cells.

    Errors of the averages blur small gaps, so the exponent tends towards 1 with little data. Cells in which an arm was
    never played, or an average is not positive, are left out.

    Parameters
    ----------
    contexts, arms, rewards
        As for :func:`smoothness_from_log`.
    cone
        The preference cone.
    level
        Cells have side 2^-level of the range of each coordinate.

    Examples
    --------
    >>> import conebandit as cb
    >>> env = cb.environments.paper(n_arms=3, change_point=0, sigma=0.1)
    >>> run = cb.simulate(cb.RandomArm(3, env.cone, 1), env, horizon=20_000)
    >>> cb.margin_from_log(run.contexts, run.arms, run.rewards, env.cone, level=6).exponent > 0
    True
    """
    as_integer(level, "level", least=0, most=MAX_LEVEL)
    x, y, k = _log(contexts, arms, rewards)
    cells, cell = dyadic_cells(to_unit_cube(x), level)
    n_arms, n_cells = int(k.max()) + 1, len(cells)
    slot = cell * n_arms + k
    counts = np.bincount(slot, minlength=n_cells * n_arms)
    sums = [np.bincount(slot, weights=y[:, m], minlength=n_cells * n_arms) for m in range(y.shape[1])]
    means = np.stack(sums, axis=-1) / np.maximum(counts, 1)[:, None]
    means = means.reshape(n_cells, n_arms, -1)
    known = (counts.reshape(n_cells, n_arms) > 0).all(axis=1) & (means > 0).all(axis=(1, 2))
    if not known.any():
        raise ValueError(
            f"level = {level} leaves no cell in which every arm has a positive average; use a smaller one."
        )
    weights = np.bincount(cell, minlength=n_cells)[known]
    return _margin(means[known], cone, "margin from a log", weights)


def _target_contexts(environment: Environment, rng: np.random.Generator, n: int) -> FloatArray:
    start = environment.change_points[-1] if environment.change_points else 0
    return environment.contexts(rng, n, start)


def _log(contexts: ArrayLike, arms: ArrayLike, rewards: ArrayLike) -> tuple[FloatArray, FloatArray, NDArray[np.int64]]:
    """Logged rounds without those in which a metric is missing."""
    x, y = as_floats(contexts, "contexts"), as_floats(rewards, "rewards")
    k = np.asarray(arms)
    if x.ndim != 2 or y.ndim != 2 or k.shape != (len(x),) or len(y) != len(x) or len(x) < 2:
        raise ValueError(
            f"contexts, arms and rewards must have shapes (n, d), (n,) and (n, M); got {x.shape}, {k.shape}, {y.shape}."
        )
    if k.dtype.kind not in "iu" or k.min() < 0:
        raise ValueError("arms must hold indices of arms, whole numbers from 0.")
    complete = ~np.isnan(y).any(axis=1)
    if not complete.any():
        raise ValueError("rewards must have a row without nan; got none. Leave out metrics that are never known.")
    return x[complete], y[complete], k[complete].astype(np.int64)


def _margin(
    means: FloatArray,
    cone: Cone,
    kind: Kind,
    weights: NDArray[np.int64] | None = None,
) -> PowerLaw:
    gaps = gap(means, pareto_mask(means, cone), cone)
    smallest = np.where(gaps > MIN_GAP, gaps, np.inf).min(axis=1)
    share = np.ones(len(smallest)) if weights is None else weights.astype(np.float64)
    share /= share.sum()
    if not np.isfinite(smallest).any():
        raise ValueError("every arm is on the front at every context: there is no positive gap to measure.")
    order = np.argsort(smallest)
    sizes, cumulated = smallest[order], np.cumsum(share[order])
    # From the gap that one percent of the contexts are below to the one that half of those with a gap are.
    reached = cumulated[np.isfinite(sizes)]
    ends = np.interp([0.01 * reached[-1], 0.5 * reached[-1]], reached, sizes[np.isfinite(sizes)])
    eps = np.geomspace(max(ends[0], MIN_GAP), ends[1], 12)
    return _fit(eps, cumulated[np.searchsorted(sizes, eps, side="right") - 1], kind)


def _fit(
    scale: FloatArray,
    value: FloatArray,
    kind: Kind,
    most: float = np.inf,
) -> PowerLaw:
    """Least squares on log scales over the points that are positive."""
    used = value > 0.0
    if used.sum() < 3:
        raise ValueError(f"{kind}: fewer than three points are above the noise, {value.tolist()}; use more data.")
    slope, error = log_slope(scale[used], value[used])
    exponent = min(slope, most)
    constant = float((value[used] / scale[used] ** exponent).max())
    return PowerLaw(exponent, slope - 2 * error, slope + 2 * error, constant, scale, value, kind)
