"""Distributions of contexts, and schedules that say which one is in force when.

A distribution lives on a box and can sample, give its density and the mass of a box. Coordinates of the basic families
are independent; mixtures of products give dependence.

Examples
--------
>>> import numpy as np
>>> from conebandit.environments import shift
>>> source, target = shift.power_law(3), shift.uniform()
>>> round(float(source.mass([0.5], [1.0])), 4)      # 1 - 0.5^4
0.9375
>>> schedule = shift.change_point(source, target, at=1000)
>>> schedule.sample(np.random.default_rng(0), 3, start=999).shape
(3, 1)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from conebandit.validate.arrays import FloatArray, as_vectors


class Distribution(Protocol):
    """A law of contexts on a box."""

    @property
    def dim(self) -> int:
        """Number of coordinates."""
        ...

    @property
    def bounds(self) -> FloatArray:
        """Shape (d, 2): the box."""
        ...

    def sample(self, rng: np.random.Generator, n: int) -> FloatArray:
        """N contexts, shape (n, d)."""
        ...

    def density(self, x: ArrayLike) -> FloatArray:
        """Density at points (..., d)."""
        ...

    def mass(self, lower: ArrayLike, upper: ArrayLike) -> FloatArray:
        """Probability of the boxes [lower, upper), corners of shape (..., d); closed at the edge of the domain."""
        ...


# ---- one coordinate -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Coordinate:
    """A law on [0, 1] by its distribution function, the inverse of it, and its density."""

    cdf: Callable[[FloatArray], FloatArray]
    quantile: Callable[[FloatArray], FloatArray]
    pdf: Callable[[FloatArray], FloatArray]


@dataclass(frozen=True)
class _Product:
    """Independent coordinates, each a law on [0, 1] stretched to its bounds."""

    coordinates: tuple[_Coordinate, ...]
    bounds: FloatArray

    @property
    def dim(self) -> int:
        return len(self.coordinates)

    def sample(self, rng: np.random.Generator, n: int) -> FloatArray:
        u = rng.random((n, self.dim))
        for m, coordinate in enumerate(self.coordinates):
            low, high = self.bounds[m]
            u[:, m] = low + (high - low) * np.clip(coordinate.quantile(u[:, m]), 0.0, 1.0)
        return u

    def density(self, x: ArrayLike) -> FloatArray:
        z, inside = self._scaled(x)
        factors = [c.pdf(z[..., m]) for m, c in enumerate(self.coordinates)]
        value: FloatArray = np.prod(factors, axis=0) / np.prod(np.ptp(self.bounds, axis=1))
        return np.where(inside, value, 0.0)

    def mass(self, lower: ArrayLike, upper: ArrayLike) -> FloatArray:
        (a, _), (b, _) = self._scaled(lower), self._scaled(upper)
        shares = [np.maximum(c.cdf(b[..., m]) - c.cdf(a[..., m]), 0.0) for m, c in enumerate(self.coordinates)]
        total: FloatArray = np.prod(shares, axis=0)
        return total

    def _scaled(self, x: ArrayLike) -> tuple[FloatArray, NDArray[np.bool_]]:
        """Points in the unit cube, clipped to it, and whether they were inside."""
        z = (np.asarray(x, dtype=np.float64) - self.bounds[:, 0]) / np.ptp(self.bounds, axis=1)
        return np.clip(z, 0.0, 1.0), np.asarray(((z >= 0.0) & (z <= 1.0)).all(axis=-1))


def _basic(coordinate: _Coordinate, dim: int, bounds: ArrayLike | None) -> Distribution:
    if not isinstance(dim, int | np.integer) or dim < 1:
        raise ValueError(f"dim must be a positive integer; got {dim!r}.")
    box = np.tile([0.0, 1.0], (dim, 1)) if bounds is None else np.array(bounds, dtype=np.float64)
    if box.shape != (dim, 2) or not np.isfinite(box).all() or not (box[:, 0] < box[:, 1]).all():
        raise ValueError(f"bounds must have shape ({dim}, 2), lowest below highest; got {box.tolist()}.")
    return _Product((coordinate,) * dim, box)


def _positive(value: float, name: str) -> float:
    if not (isinstance(value, int | float | np.number) and np.isfinite(value) and value > 0):
        raise ValueError(f"{name} must be a positive number; got {value!r}.")
    return float(value)


def uniform(dim: int = 1, bounds: ArrayLike | None = None) -> Distribution:
    """Uniform on the box."""
    return _basic(_Coordinate(lambda z: z, lambda u: u, np.ones_like), dim, bounds)


def power_law(nu: float, dim: int = 1, bounds: ArrayLike | None = None) -> Distribution:
    """Density (nu + 1) z^nu in each coordinate z, nu > -1; the paper's source."""
    if not (isinstance(nu, int | float | np.number) and -1 < nu < np.inf):
        raise ValueError(f"nu must be a number above -1; got {nu!r}.")
    p = float(nu + 1)
    return _basic(
        _Coordinate(lambda z: z**p, lambda u: u ** (1 / p), lambda z: p * np.exp(special.xlogy(nu, z))), dim, bounds
    )


def beta(a: float, b: float, dim: int = 1, bounds: ArrayLike | None = None) -> Distribution:
    """Beta(a, b) in each coordinate."""
    a, b = _positive(a, "a"), _positive(b, "b")
    law = _Coordinate(
        lambda z: special.betainc(a, b, z),
        lambda u: special.betaincinv(a, b, u),
        lambda z: np.exp(special.xlogy(a - 1, z) + special.xlog1py(b - 1, -z) - special.betaln(a, b)),
    )
    return _basic(law, dim, bounds)


def truncated_normal(mean: float, std: float, dim: int = 1, bounds: ArrayLike | None = None) -> Distribution:
    """Normal with this mean and deviation (in units of the box), cut to the box, in each coordinate."""
    std = _positive(std, "std")
    sign = -1.0 if mean < 0 else 1.0  # work in the left tail, where the distribution function keeps its digits
    ends = special.ndtr(sign * (np.array([0.0, 1.0]) - mean) / std)
    total = abs(ends[1] - ends[0])
    if not total > 1e-12:
        raise ValueError(f"mean {mean!r} and std {std!r} leave no mass inside the box.")
    law = _Coordinate(
        lambda z: np.abs(special.ndtr(sign * (z - mean) / std) - ends[0]) / total,
        lambda u: mean + sign * std * special.ndtri(ends[0] + u * (ends[1] - ends[0])),
        lambda z: np.exp(-0.5 * ((z - mean) / std) ** 2) / (np.sqrt(2 * np.pi) * std * total),
    )
    return _basic(law, dim, bounds)


def exponential(rate: float, dim: int = 1, bounds: ArrayLike | None = None) -> Distribution:
    """Density proportional to exp(-rate z) on [0, 1] in each coordinate."""
    rate = _positive(rate, "rate")
    total = -np.expm1(-rate)
    law = _Coordinate(
        lambda z: -np.expm1(-rate * z) / total,
        lambda u: -np.log1p(-u * total) / rate,
        lambda z: rate * np.exp(-rate * z) / total,
    )
    return _basic(law, dim, bounds)


def product(*parts: Distribution) -> Distribution:
    """Independent coordinates from one-coordinate-or-more basic distributions, one after the other."""
    basic = [p for p in parts if isinstance(p, _Product)]
    if not parts or len(basic) != len(parts):
        raise ValueError("product takes one or more basic distributions (uniform, power_law, beta, ...).")
    return _Product(sum((p.coordinates for p in basic), ()), np.vstack([p.bounds for p in basic]))


# ---- several laws ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Mixture:
    """Several distributions with weights."""

    parts: tuple[Distribution, ...]
    weights: FloatArray

    @property
    def dim(self) -> int:
        """Number of coordinates."""
        return self.parts[0].dim

    @property
    def bounds(self) -> FloatArray:
        """Smallest box around all parts."""
        boxes = np.array([p.bounds for p in self.parts])
        return np.column_stack([boxes[:, :, 0].min(axis=0), boxes[:, :, 1].max(axis=0)])

    def sample(self, rng: np.random.Generator, n: int) -> FloatArray:
        """N contexts."""
        which = np.searchsorted(np.cumsum(self.weights)[:-1], rng.random(n), side="right")
        return _draw(self.parts, which, rng)

    def density(self, x: ArrayLike) -> FloatArray:
        """Weighted mean of the densities."""
        values = [w * p.density(x) for w, p in zip(self.weights, self.parts, strict=True)]
        return np.asarray(np.sum(values, axis=0))

    def mass(self, lower: ArrayLike, upper: ArrayLike) -> FloatArray:
        """Weighted mean of the masses."""
        values = [w * p.mass(lower, upper) for w, p in zip(self.weights, self.parts, strict=True)]
        return np.asarray(np.sum(values, axis=0))


def mixture(parts: Sequence[Distribution], weights: ArrayLike | None = None) -> Mixture:
    """A mixture; equal weights by default, others are scaled to sum to one."""
    if not parts or len({p.dim for p in parts}) != 1:
        raise ValueError("parts must be one or more distributions of the same dimension.")
    w = np.ones(len(parts)) if weights is None else np.array(weights, dtype=np.float64)
    if w.shape != (len(parts),) or not (np.isfinite(w).all() and (w >= 0).all() and w.sum() > 0):
        raise ValueError(f"weights must be {len(parts)} numbers >= 0 that are not all zero; got {w.tolist()}.")
    whole = Mixture(tuple(parts), w / w.sum())
    # Boxes are closed at the upper edge of the domain, which for a part is now that of the mixture.
    shared = tuple(Empirical(p.rows, whole.bounds) if isinstance(p, Empirical) else p for p in parts)
    return Mixture(shared, whole.weights)


def _draw(parts: Sequence[Distribution], which: NDArray[np.intp], rng: np.random.Generator) -> FloatArray:
    x = np.empty((len(which), parts[0].dim))
    for i, part in enumerate(parts):
        chosen = which == i
        count = int(chosen.sum())
        if count:
            x[chosen] = part.sample(rng, count)
    return x


@dataclass(frozen=True)
class Empirical:
    """Rows of a table, each equally likely. It has masses but no density."""

    rows: FloatArray
    bounds: FloatArray

    @property
    def dim(self) -> int:
        """Number of coordinates."""
        return int(self.rows.shape[1])

    def sample(self, rng: np.random.Generator, n: int) -> FloatArray:
        """N rows, with replacement."""
        return self.rows[rng.integers(len(self.rows), size=n)]

    def density(self, x: ArrayLike) -> FloatArray:
        """Not defined: points have mass."""
        raise ValueError("An empirical distribution has no density; use mass.")

    def mass(self, lower: ArrayLike, upper: ArrayLike) -> FloatArray:
        """Share of rows in each box; at the upper edge of the domain boxes are closed."""
        a, b = np.asarray(lower, dtype=np.float64), np.asarray(upper, dtype=np.float64)
        above = self.rows >= a[..., None, :]
        below = (self.rows < b[..., None, :]) | (b[..., None, :] >= self.bounds[:, 1])
        return np.asarray((above & below).all(axis=-1).mean(axis=-1))


def empirical(rows: ArrayLike, bounds: ArrayLike | None = None) -> Empirical:
    """The rows of an array (n, d); bounds are their range by default."""
    if np.ndim(rows) != 2:
        raise ValueError(f"rows must be a table of shape (n, d); got shape {np.shape(rows)}.")
    dim = np.shape(rows)[-1]
    table = as_vectors(rows, "rows", dim, (2,))
    box = np.column_stack([table.min(axis=0), table.max(axis=0)]) if bounds is None else np.array(bounds, float)
    inside = box.shape == (dim, 2) and np.isfinite(box).all()
    if not inside or (table < box[:, 0]).any() or (table > box[:, 1]).any():
        raise ValueError(f"bounds must have shape ({dim}, 2) and contain all rows; got {box.tolist()}.")
    return Empirical(table, box)


# ---- time -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Schedule:
    """Which distribution contexts come from, round by round.

    Attributes
    ----------
    parts
        The distributions.
    weights
        Function from round numbers (n,) to the probability of each part, (n, parts). Rounds count from 0.
    change_points
        Number of rounds after which the law changes for good; the last one is where the target phase begins.
    """

    parts: tuple[Distribution, ...]
    weights: Callable[[NDArray[np.int64]], FloatArray]
    change_points: tuple[int, ...] = field(default=())

    @property
    def dim(self) -> int:
        """Number of coordinates."""
        return self.parts[0].dim

    @property
    def bounds(self) -> FloatArray:
        """Smallest box around all contexts."""
        return mixture(self.parts).bounds

    def sample(self, rng: np.random.Generator, n: int, start: int = 0) -> FloatArray:
        """Contexts of rounds start, ..., start + n - 1, shape (n, d)."""
        if len(self.parts) == 1:
            return self.parts[0].sample(rng, n)
        cumulated = np.cumsum(self.weights(np.arange(start, start + n)), axis=1)[:, :-1]
        which = (rng.random(n)[:, None] >= cumulated).sum(axis=1)
        return _draw(self.parts, which, rng)

    def mixture(self, until: int) -> Mixture:
        """Law of a context picked at random among the first ``until`` rounds: the effective source."""
        if until < 1:
            raise ValueError(f"until must be at least 1; got {until!r}.")
        return mixture(self.parts, self.weights(np.arange(until)).mean(axis=0))


def stationary(law: Distribution) -> Schedule:
    """Always the same."""
    return Schedule((law,), lambda t: np.ones((len(t), 1)))


def change_point(source: Distribution, target: Distribution, at: int) -> Schedule:
    """The paper's shift: ``at`` rounds from the source, then the target."""
    return shifts([source, target], at=[at])


def shifts(laws: Sequence[Distribution], at: Sequence[int]) -> Schedule:
    """P1 -> ... -> Pn -> Q: law i is in force until ``at[i]`` rounds have passed."""
    points = tuple(at)
    if not all(isinstance(t, int | np.integer) for t in points):
        raise ValueError(f"at must hold whole round numbers; got {list(at)}.")
    if len(laws) != len(points) + 1 or list(points) != sorted(set(points)) or (points and points[0] < 0):
        raise ValueError(f"at must hold {len(laws) - 1} increasing round numbers, one less than laws; got {list(at)}.")
    eye = np.eye(len(laws))
    return Schedule(
        _same_dim(laws), lambda t: eye[np.searchsorted(points, t, side="right")], tuple(p for p in points if p > 0)
    )


def gradual(source: Distribution, target: Distribution, start: int, stop: int) -> Schedule:
    """From source to target, the target's share growing evenly from round ``start`` to round ``stop``."""
    if not 0 <= start < stop:
        raise ValueError(f"start and stop must satisfy 0 <= start < stop; got {start!r} and {stop!r}.")

    def weights(t: NDArray[np.int64]) -> FloatArray:
        share = np.clip((t - start) / (stop - start), 0.0, 1.0)
        return np.column_stack([1.0 - share, share])

    return Schedule(_same_dim([source, target]), weights, (stop,))


def recurring(laws: Sequence[Distribution], period: int) -> Schedule:
    """Each law in turn for ``period`` rounds, then from the first again."""
    if period < 1:
        raise ValueError(f"period must be at least 1; got {period!r}.")
    eye = np.eye(len(laws))
    return Schedule(_same_dim(laws), lambda t: eye[(t // period) % len(laws)])


def _same_dim(laws: Sequence[Distribution]) -> tuple[Distribution, ...]:
    if len({law.dim for law in laws}) != 1:
        raise ValueError(f"all laws must have the same dimension; got {[law.dim for law in laws]}.")
    return tuple(laws)
