"""Distributions of contexts on a box: each can sample, give its density, and give the mass of a box.

Coordinates of the basic families are independent; mixtures of products give dependence. Users reach all of these
through :mod:`conebandit.environments.shift`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import scipy  # its parts are loaded when they are used: some take longer than this whole package
from numpy.typing import ArrayLike, NDArray

from conebandit.validate.arguments import as_count, as_number, as_positive
from conebandit.validate.arrays import FloatArray, as_vectors
from conebandit.validate.box import as_bounds


class Distribution(Protocol):
    """A law of contexts on a box.

    Examples
    --------
    >>> import numpy as np
    >>> from conebandit.environments import shift
    >>> shift.uniform(2).sample(np.random.default_rng(0), 3).shape
    (3, 2)
    """

    @property
    def context_dim(self) -> int:
        """Number of coordinates, d."""
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


# ---- independent coordinates ----------------------------------------------------------------------------------------


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
    def context_dim(self) -> int:
        return len(self.coordinates)

    def sample(self, rng: np.random.Generator, n: int) -> FloatArray:
        u = rng.random((n, self.context_dim))
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


def _independent(coordinate: _Coordinate, context_dim: int, bounds: ArrayLike | None) -> Distribution:
    """The same law in each of so many coordinates."""
    count = as_count(context_dim, "context_dim")
    return _Product((coordinate,) * count, as_bounds(bounds, count))


def uniform(context_dim: int = 1, bounds: ArrayLike | None = None) -> Distribution:
    """Uniform on the box.

    Parameters
    ----------
    context_dim
        Number of coordinates, which are independent of each other.
    bounds
        Shape (d, 2), the box; from 0 to 1 by default.

    Examples
    --------
    >>> from conebandit.environments import shift
    >>> float(shift.uniform(bounds=[[18, 98]]).mass([18], [58]))
    0.5
    """
    return _independent(_Coordinate(lambda z: z, lambda u: u, np.ones_like), context_dim, bounds)


def power_law(nu: float, context_dim: int = 1, bounds: ArrayLike | None = None) -> Distribution:
    """Density (nu + 1) z^nu in each coordinate z from 0 to 1 of the box; the paper's source.

    Parameters
    ----------
    nu
        Above -1; 0 is uniform, and the larger it is, the fewer contexts are near 0.
    context_dim, bounds
        As for :func:`uniform`.

    Examples
    --------
    >>> from conebandit.environments import shift
    >>> float(shift.power_law(1).mass([0.0], [0.5]))
    0.25
    """
    nu = as_number(nu, "nu", above=-1)
    p = nu + 1.0
    law = _Coordinate(lambda z: z**p, lambda u: u ** (1 / p), lambda z: p * np.exp(scipy.special.xlogy(nu, z)))
    return _independent(law, context_dim, bounds)


def beta(a: float, b: float, context_dim: int = 1, bounds: ArrayLike | None = None) -> Distribution:
    """Beta(a, b) in each coordinate of the box.

    Parameters
    ----------
    a, b
        Above 0; both 1 is uniform.
    context_dim, bounds
        As for :func:`uniform`.

    Examples
    --------
    >>> from conebandit.environments import shift
    >>> shift.beta(2, 5, context_dim=3).sample(np.random.default_rng(0), 10).shape
    (10, 3)
    """
    a, b = as_positive(a, "a"), as_positive(b, "b")
    law = _Coordinate(
        lambda z: scipy.special.betainc(a, b, z),
        lambda u: scipy.special.betaincinv(a, b, u),
        lambda z: np.exp(scipy.special.xlogy(a - 1, z) + scipy.special.xlog1py(b - 1, -z) - scipy.special.betaln(a, b)),
    )
    return _independent(law, context_dim, bounds)


def truncated_normal(mean: float, std: float, context_dim: int = 1, bounds: ArrayLike | None = None) -> Distribution:
    """Normal with this mean and deviation, cut to the box, in each coordinate.

    Parameters
    ----------
    mean, std
        In units of the box: 0.5 is its middle.
    context_dim, bounds
        As for :func:`uniform`.

    Examples
    --------
    >>> from conebandit.environments import shift
    >>> round(float(shift.truncated_normal(0.5, 0.1).mass([0.4], [0.6])), 3)
    0.683
    """
    mean, std = as_number(mean, "mean"), as_positive(std, "std")
    sign = -1.0 if mean < 0 else 1.0  # work in the left tail, where the distribution function keeps its digits
    ends = scipy.special.ndtr(sign * (np.array([0.0, 1.0]) - mean) / std)
    total = abs(ends[1] - ends[0])
    if not total > 1e-12:
        raise ValueError(f"mean {mean:g} and std {std:g} leave no mass inside the box.")
    law = _Coordinate(
        lambda z: np.abs(scipy.special.ndtr(sign * (z - mean) / std) - ends[0]) / total,
        lambda u: mean + sign * std * scipy.special.ndtri(ends[0] + u * (ends[1] - ends[0])),
        lambda z: np.exp(-0.5 * ((z - mean) / std) ** 2) / (np.sqrt(2 * np.pi) * std * total),
    )
    return _independent(law, context_dim, bounds)


def exponential(rate: float, context_dim: int = 1, bounds: ArrayLike | None = None) -> Distribution:
    """Density proportional to exp(-rate z) in each coordinate z from 0 to 1 of the box.

    Parameters
    ----------
    rate
        Above 0: the larger it is, the more contexts are near 0.
    context_dim, bounds
        As for :func:`uniform`.

    Examples
    --------
    >>> from conebandit.environments import shift
    >>> bool(shift.exponential(5).mass([0.0], [0.5]) > 0.9)
    True
    """
    rate = as_positive(rate, "rate")
    total = -np.expm1(-rate)
    law = _Coordinate(
        lambda z: -np.expm1(-rate * z) / total,
        lambda u: -np.log1p(-u * total) / rate,
        lambda z: rate * np.exp(-rate * z) / total,
    )
    return _independent(law, context_dim, bounds)


def product(*parts: Distribution) -> Distribution:
    """Independent coordinates: those of several basic distributions, one after the other.

    Examples
    --------
    >>> from conebandit.environments import shift
    >>> shift.product(shift.uniform(), shift.beta(2, 5)).context_dim
    2
    """
    basic = [p for p in parts if isinstance(p, _Product)]
    if not parts or len(basic) != len(parts):
        raise ValueError("product takes one or more basic distributions (uniform, power_law, beta, ...).")
    return _Product(sum((p.coordinates for p in basic), ()), np.vstack([p.bounds for p in basic]))


# ---- a table of contexts --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Empirical:
    """Rows of a table, each equally likely. It has masses but no density."""

    rows: FloatArray
    bounds: FloatArray

    @property
    def context_dim(self) -> int:
        """Number of coordinates, d."""
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
    """The rows of a table, each equally likely.

    Parameters
    ----------
    rows
        Shape (n, d).
    bounds
        Shape (d, 2), a box around them; their range by default.

    Examples
    --------
    >>> from conebandit.environments import shift
    >>> float(shift.empirical([[1.0], [2.0], [4.0]]).mass([1.0], [3.0]).round(2))
    0.67
    """
    if np.ndim(rows) != 2:
        raise ValueError(f"rows must be a table of shape (n, d); got shape {np.shape(rows)}.")
    dim = np.shape(rows)[-1]
    table = as_vectors(rows, "rows", dim, (2,))
    box = np.column_stack([table.min(axis=0), table.max(axis=0)]) if bounds is None else np.array(bounds, float)
    inside = box.shape == (dim, 2) and np.isfinite(box).all()
    if not inside or (table < box[:, 0]).any() or (table > box[:, 1]).any():
        raise ValueError(f"bounds must have shape ({dim}, 2) and contain all rows; got {box.tolist()}.")
    return Empirical(table, box)


def as_labels(values: ArrayLike, name: str, n: int) -> tuple[NDArray[Any], NDArray[np.intp]]:
    """Labels of n rows, numbers or text: the different ones, sorted, and for each row the position of its label."""
    array = np.asarray(values)
    if array.shape != (n,):
        raise ValueError(f"{name} must have shape ({n},), a label for each row; got shape {array.shape}.")
    try:
        labels, which = np.unique(array, return_inverse=True)
    except TypeError:
        raise TypeError(f"{name} must be labels of one type without gaps: all numbers or all text.") from None
    if labels.dtype.kind == "f" and np.isnan(labels).any():
        raise ValueError(f"{name} must not be nan; leave such rows out.")
    return labels, which


# ---- several laws ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Mixture:
    """Several distributions with weights."""

    parts: tuple[Distribution, ...]
    weights: FloatArray

    @property
    def context_dim(self) -> int:
        """Number of coordinates, d."""
        return self.parts[0].context_dim

    @property
    def bounds(self) -> FloatArray:
        """Smallest box around all parts."""
        boxes = np.array([p.bounds for p in self.parts])
        return np.column_stack([boxes[:, :, 0].min(axis=0), boxes[:, :, 1].max(axis=0)])

    def sample(self, rng: np.random.Generator, n: int) -> FloatArray:
        """N contexts."""
        which = np.searchsorted(np.cumsum(self.weights)[:-1], rng.random(n), side="right")
        return sample_parts(self.parts, which, rng)

    def density(self, x: ArrayLike) -> FloatArray:
        """Weighted mean of the densities."""
        return self._average([p.density(x) for p in self.parts])

    def mass(self, lower: ArrayLike, upper: ArrayLike) -> FloatArray:
        """Weighted mean of the masses."""
        return self._average([p.mass(lower, upper) for p in self.parts])

    def _average(self, values: Sequence[FloatArray]) -> FloatArray:
        return np.asarray(np.sum([w * v for w, v in zip(self.weights, values, strict=True)], axis=0))


def mixture(parts: Sequence[Distribution], weights: ArrayLike | None = None) -> Mixture:
    """Several distributions, drawn from by chance: the sources of a study, say.

    Parameters
    ----------
    parts
        One or more, of the same dimension.
    weights
        Not negative; equal by default. They are scaled to sum to one.

    Examples
    --------
    >>> from conebandit.environments import shift
    >>> whole = shift.mixture([shift.uniform(), shift.power_law(1)], weights=[1, 3])
    >>> float(whole.mass([0.0], [0.5]))
    0.3125
    """
    if not parts or len({p.context_dim for p in parts}) != 1:
        raise ValueError("parts must be one or more distributions of the same dimension.")
    w = np.ones(len(parts)) if weights is None else np.array(weights, dtype=np.float64)
    if w.shape != (len(parts),) or not (np.isfinite(w).all() and (w >= 0).all() and w.sum() > 0):
        raise ValueError(f"weights must be {len(parts)} numbers >= 0 that are not all zero; got {w.tolist()}.")
    whole = Mixture(tuple(parts), w / w.sum())
    # Boxes are closed at the upper edge of the domain, which for a part is now that of the mixture.
    shared = tuple(Empirical(p.rows, whole.bounds) if isinstance(p, Empirical) else p for p in parts)
    return Mixture(shared, whole.weights)


def sample_parts(parts: Sequence[Distribution], which: NDArray[np.intp], rng: np.random.Generator) -> FloatArray:
    """One context for each entry of ``which``, from the part with that index; part after part."""
    x = np.empty((len(which), parts[0].context_dim))
    for i, part in enumerate(parts):
        chosen = which == i
        count = int(chosen.sum())
        if count:
            x[chosen] = part.sample(rng, count)
    return x
