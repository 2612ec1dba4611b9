"""The paper's dissimilarity of two populations of contexts (Definition 2, after Pathak, Ma & Wainwright 2022).

``rho_h(P, Q)`` is the mean over x from Q of 1 / P(B(x, h)): how hard it is to have learned from P what happens within h
of a context from Q. B(x, h) is the closed ball of the sup norm. Contexts are scaled to the unit cube first, as the tree
does, so h is a share of the range of each coordinate.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import scipy  # its parts are loaded when they are used: some take longer than this whole package
from numpy.typing import ArrayLike, NDArray

from conebandit.diagnose import laws
from conebandit.diagnose.fit import slopes
from conebandit.diagnose.samples import Neighbours, cell_ratio_estimate
from conebandit.environments.shift import Distribution
from conebandit.validate.arguments import as_integer, as_number
from conebandit.validate.arrays import FloatArray, as_floats

Method = Literal["quadrature", "monte carlo", "samples"]

RADII: FloatArray = 2.0 ** -np.arange(2.0, 9.0)  # of a curve, unless others are wanted
MAX_CELLS = 2**20
MAX_EMPTY = 0.05  # share of empty balls; with more of them an estimate is only a lower bound


@dataclass(frozen=True)
class Rho:
    """A dissimilarity, how sure it is, and where it comes from.

    Attributes
    ----------
    value
        The estimate; ``float(...)`` gives it.
    error
        Standard error; for quadrature the last change when panels were halved.
    low, high
        Confidence interval (normal on the log scale); for quadrature ``value`` twice.
    empty
        Share of target rows without a source row within h; if it is not small, the value is a lower bound.
    method
        ``"quadrature"``, ``"monte carlo"`` or ``"samples"``.

    Examples
    --------
    >>> import conebandit as cb
    >>> from conebandit.environments import shift
    >>> float(cb.rho(shift.uniform(), shift.uniform(), 1 / 2))     # ln 4
    1.386...
    """

    value: float
    error: float
    low: float
    high: float
    empty: float
    method: Method

    def __float__(self) -> float:
        return self.value

    @property
    def is_lower_bound(self) -> bool:
        """Whether so many balls are empty that the value is only a lower bound."""
        return self.empty > MAX_EMPTY


@dataclass(frozen=True)
class Exponent:
    """The smallest family D(gamma, C), ``h^gamma rho_h <= C``, that a curve suggests.

    Attributes
    ----------
    gamma
        Slope of log rho against log 1/h.
    low, high
        Interval for it: by resampling where the curve was estimated; for an exact curve, which is no straight line, the
        smallest and largest slope between neighbouring radii.
    constant
        Largest ``h^gamma rho_h`` on the curve.
    radii
        The radii that were used.

    Examples
    --------
    >>> import conebandit as cb
    >>> from conebandit.environments import shift
    >>> curve = cb.rho_curve(shift.power_law(3.0), shift.uniform(1))
    >>> round(curve.exponent().gamma)
    3
    """

    gamma: float
    low: float
    high: float
    constant: float
    radii: FloatArray


@dataclass(frozen=True)
class RhoCurve:
    """Dissimilarity over a grid of radii.

    Attributes
    ----------
    h
        Radii, shape (H,).
    value, error, low, high, empty
        As in :class:`Rho`, each of shape (H,).
    method
        As in :class:`Rho`.
    replicates
        Shape (B, H), the curve on resampled data; no rows for quadrature.

    Examples
    --------
    >>> import conebandit as cb
    >>> from conebandit.environments import shift
    >>> curve = cb.rho_curve(shift.power_law(3), shift.uniform(), h=[2**-4, 2**-8])
    >>> [float(f"{v:.4g}") for v in curve.value]
    [1371.0, 5620000.0]
    """

    h: FloatArray
    value: FloatArray
    error: FloatArray
    low: FloatArray
    high: FloatArray
    empty: FloatArray
    method: Method
    replicates: FloatArray = field(repr=False)

    @property
    def is_lower_bound(self) -> NDArray[np.bool_]:
        """Shape (H,), where so many balls are empty that the value is only a lower bound."""
        return self.empty > MAX_EMPTY

    def at(self, i: int) -> Rho:
        """One point of the curve."""
        value, error, low, high, empty = (
            float(a[i]) for a in (self.value, self.error, self.low, self.high, self.empty)
        )
        return Rho(value, error, low, high, empty, self.method)

    def exponent(self) -> Exponent:
        """The exponent and constant of the family D(gamma, C), from the radii at which balls are filled.

        Examples
        --------
        >>> import conebandit as cb
        >>> from conebandit.environments import shift
        >>> fit = cb.rho_curve(shift.power_law(3), shift.uniform(), h=2.0 ** -np.arange(5, 11)).exponent()
        >>> round(fit.gamma, 1)       # max(1, nu)
        3.0
        """
        used = ~self.is_lower_bound & np.isfinite(self.value)
        if used.sum() < 2:
            raise ValueError(
                f"h must hold at least two radii at which no more than {MAX_EMPTY:.0%} of the balls are empty; "
                f"at {self.h.tolist()} {np.round(self.empty, 3).tolist()} are. Use larger radii or more rows."
            )
        x = -np.log(self.h[used])
        gamma = float(slopes(x, np.log(self.value[used])[None])[0])
        if len(self.replicates):
            spread = float(slopes(x, np.log(self.replicates[:, used])).std(ddof=1))
            low, high = gamma - 1.96 * spread, gamma + 1.96 * spread
        else:
            order = np.argsort(x)
            local = np.diff(np.log(self.value[used])[order]) / np.diff(x[order])
            low, high = float(local.min()), float(local.max())
        constant = float((self.h[used] ** gamma * self.value[used]).max())
        return Exponent(gamma, low, high, constant, self.h[used])


def rho(
    source: Distribution | ArrayLike,
    target: Distribution | ArrayLike,
    h: float,
    *,
    method: Literal["quadrature", "monte carlo"] | None = None,
    bounds: ArrayLike | None = None,
    draws: int = 100_000,
    resamples: int = 200,
    confidence: float = 0.95,
    seed: int = 0,
) -> Rho:
    """Dissimilarity rho_h(P, Q) of a source P and a target Q: the mean over x from Q of 1 / P(B(x, h)).

    Parameters
    ----------
    source, target
        Two laws from ``environments.shift`` (a mixture of sources is one), or two tables of shape (n, d). The same
        table twice, or a copy of it: how dissimilar it is to itself, no row being its own neighbour.
    h
        Radius of the balls (sup norm), as a share of the range of each coordinate.
    method
        For laws: ``"quadrature"`` (d = 1 and 2, needs a density of the target; the default there) or
        ``"monte carlo"`` (the default otherwise). Tables are always compared by counting neighbours, with the rule for
        empty balls of ``diagnose/samples.py``: c of n rows in a ball count as the mass (c + 1) / (n + 1).
    bounds
        Shape (d, 2), the box that is scaled to the unit cube; by default the smallest around both.
    draws
        Contexts drawn from the target for Monte Carlo.
    resamples
        Bootstrap samples for the interval when tables are compared. Memory grows with rows times resamples: some 100 MB
        for 100,000 rows; of much longer tables a random part does.
    confidence
        Of the interval.
    seed
        Of draws and resamples.

    Returns
    -------
    Rho

    Examples
    --------
    >>> import numpy as np, conebandit as cb
    >>> from conebandit.environments import shift
    >>> P, Q = shift.power_law(1), shift.uniform()
    >>> round(float(cb.rho(P, Q, 2**-4)), 1)
    19.2
    >>> rng = np.random.default_rng(0)
    >>> estimate = cb.rho(P.sample(rng, 2000), Q.sample(rng, 2000), 2**-4, bounds=[[0, 1]])
    >>> estimate.low < 19.2 < estimate.high
    True
    """
    sampling = {"draws": draws, "resamples": resamples, "seed": seed}
    return rho_curve(source, target, [h], method=method, bounds=bounds, confidence=confidence, **sampling).at(0)


def rho_curve(
    source: Distribution | ArrayLike,
    target: Distribution | ArrayLike,
    h: Sequence[float] | FloatArray | None = None,
    *,
    method: Literal["quadrature", "monte carlo"] | None = None,
    bounds: ArrayLike | None = None,
    draws: int = 100_000,
    resamples: int = 200,
    confidence: float = 0.95,
    seed: int = 0,
) -> RhoCurve:
    """Dissimilarity over a grid of radii; parameters as for :func:`rho`, radii 2^-2, ..., 2^-8 by default.

    Examples
    --------
    >>> import conebandit as cb
    >>> from conebandit.environments import shift
    >>> curve = cb.rho_curve(shift.power_law(2), shift.uniform(), [2**-4, 2**-8])
    >>> curve.value.round(0)
    array([  132., 34439.])
    """
    radii = _check_radii(RADII if h is None else h)
    as_number(confidence, "confidence", above=0, below=1)
    z = float(scipy.special.ndtri(0.5 + confidence / 2))
    rng = np.random.default_rng(seed)
    pair = _laws(source, target)
    if pair is None:
        if method is not None:
            raise ValueError(f"method must be None when tables are compared; got {method!r}.")
        as_integer(resamples, "resamples", least=2)
        x, y, same = _tables(source, target, bounds)  # type: ignore[arg-type]
        return _from_tables(Neighbours.of(x, y, same=same, resamples=resamples, rng=rng), radii, z)
    P, Q = pair
    span = np.ptp(_box(P.bounds, Q.bounds, bounds), axis=1)
    if (method or _best_method(Q)) == "quadrature":
        return _exact(P, Q, radii, span)
    as_integer(draws, "draws", least=2)
    values = laws.reciprocals(P, Q.sample(rng, draws), [r * span for r in radii])
    return _from_draws(values, radii, z)


def rho_tree(
    source: Distribution | ArrayLike,
    target: Distribution | ArrayLike,
    levels: int = 5,
    *,
    bounds: ArrayLike | None = None,
) -> FloatArray:
    """Tree plug-in of the dissimilarity, sum over bins B of Q(B) / P(B), at levels 0 to ``levels``.

    A bin of level l is a dyadic cube of side 2^-l. Parameters are as for :func:`rho`; from tables, bins without a
    source row follow the same rule as empty balls.

    Returns
    -------
    Array of shape (levels + 1,)

    Examples
    --------
    >>> import conebandit as cb
    >>> from conebandit.environments import shift
    >>> cb.rho_tree(shift.power_law(1), shift.uniform(), 3).round(2)
    array([ 1.  ,  2.67,  6.7 , 16.17])
    """
    as_integer(levels, "levels", least=0)
    pair = _laws(source, target)
    if pair is None:
        x, y, _ = _tables(source, target, bounds)  # type: ignore[arg-type]
        return np.array([cell_ratio_estimate(x, y, level) for level in range(levels + 1)])
    P, Q = pair
    if 2 ** (P.context_dim * levels) > MAX_CELLS:
        raise ValueError(
            f"levels must be at most {20 // P.context_dim} for laws in {P.context_dim} dimensions; got {levels}."
        )
    box = _box(P.bounds, Q.bounds, bounds)
    return np.array([laws.cell_ratios(P, Q, box, level) for level in range(levels + 1)])


# ---- reading arguments ----------------------------------------------------------------------------------------------


def _check_radii(h: Sequence[float] | FloatArray) -> FloatArray:
    radii = as_floats(h, "h")
    if radii.ndim != 1 or not radii.size or not ((radii > 0.0) & np.isfinite(radii)).all():
        raise ValueError(f"h must hold positive radii, shares of the range of a coordinate; got {radii.tolist()}.")
    return radii


def _laws(source: object, target: object) -> tuple[Distribution, Distribution] | None:
    """Both as laws; None if both are tables."""
    are_laws = [hasattr(x, "mass") and hasattr(x, "sample") for x in (source, target)]
    if not any(are_laws):
        return None
    if not all(are_laws):
        raise TypeError(
            "source and target must be two laws or two tables; wrap a table in environments.shift.empirical(table) to "
            "compare it with a law."
        )
    P, Q = source, target
    if P.context_dim != Q.context_dim:  # type: ignore[attr-defined]
        raise ValueError(f"source has dimension {P.context_dim} and target {Q.context_dim}; they must agree.")  # type: ignore[attr-defined]
    return P, Q  # type: ignore[return-value]


def _best_method(target: Distribution) -> Method:
    if target.context_dim > 2:
        return "monte carlo"
    try:
        target.density(target.bounds.mean(axis=1))
    except ValueError:  # an empirical law, or a mixture with one
        return "monte carlo"
    return "quadrature"


def _box(first: FloatArray, second: FloatArray, bounds: ArrayLike | None) -> FloatArray:
    if bounds is None:
        return np.column_stack([np.minimum(first[:, 0], second[:, 0]), np.maximum(first[:, 1], second[:, 1])])
    box = as_floats(bounds, "bounds")
    if box.shape != first.shape or not np.isfinite(box).all() or not (box[:, 0] < box[:, 1]).all():
        raise ValueError(f"bounds must have shape {first.shape}, lowest below highest; got {box.tolist()}.")
    return box


def _tables(source: ArrayLike, target: ArrayLike, bounds: ArrayLike | None) -> tuple[FloatArray, FloatArray, bool]:
    """Both tables scaled to the unit cube, and whether they hold the same rows in the same order: one sample."""
    x, y = _table(source, "source"), _table(target, "target")
    if x.shape[1] != y.shape[1]:
        raise ValueError(f"source has {x.shape[1]} columns and target {y.shape[1]}; they must agree.")
    ranges = [np.column_stack([t.min(axis=0), t.max(axis=0)]) for t in (x, y)]
    box = _box(ranges[0], ranges[1], bounds)
    if bounds is not None and any((t < box[:, 0]).any() or (t > box[:, 1]).any() for t in (x, y)):
        raise ValueError(f"bounds must contain all rows of source and target; got {box.tolist()}.")
    span = np.ptp(box, axis=1)
    span[span == 0.0] = 1.0  # a constant column tells nothing apart
    return (x - box[:, 0]) / span, (y - box[:, 0]) / span, np.array_equal(x, y)


def _table(values: ArrayLike, name: str) -> FloatArray:
    table = as_floats(values, name)
    if table.ndim != 2 or 0 in table.shape:
        raise ValueError(f"{name} must be a table of shape (n, d) with at least one row; got shape {table.shape}.")
    if not np.isfinite(table).all():
        row, column = np.argwhere(~np.isfinite(table))[0]
        raise ValueError(f"{name} must be finite; row {row}, column {column} is {table[row, column]}.")
    return table


# ---- the three ways -------------------------------------------------------------------------------------------------


def _exact(source: Distribution, target: Distribution, radii: FloatArray, span: FloatArray) -> RhoCurve:
    if source.context_dim > 2:
        raise ValueError(f"method 'quadrature' is for d = 1 and 2; got d = {source.context_dim}. Use 'monte carlo'.")
    pairs = np.array([laws.by_quadrature(source, target, r * span) for r in radii])
    value, error = pairs[:, 0], pairs[:, 1]
    none = np.empty((0, len(radii)))
    return RhoCurve(radii, value, error, value, value, np.zeros(len(radii)), "quadrature", none)


def _from_draws(values: FloatArray, radii: FloatArray, z: float) -> RhoCurve:
    """Monte Carlo from 1 / P(B(x, h)), shape (draws, H); replicates are means over 40 blocks, spread as the mean is."""
    mean = values.mean(axis=0)
    error = values.std(axis=0, ddof=1) / np.sqrt(len(values))
    blocks = np.array([block.mean(axis=0) for block in np.array_split(values, min(40, len(values)))])
    replicates = mean + (blocks - mean) / np.sqrt(len(blocks))
    width = np.exp(z * error / mean)
    return RhoCurve(radii, mean, error, mean / width, mean * width, np.zeros(len(radii)), "monte carlo", replicates)


def _from_tables(near: Neighbours, radii: FloatArray, z: float) -> RhoCurve:
    found = [near.estimates(r) for r in radii]
    all_values = np.column_stack([values for values, _ in found])  # (1 + B, H)
    value, replicates = all_values[0], all_values[1:]
    spread = np.log(replicates).std(axis=0, ddof=1)
    width = np.exp(z * spread)
    empty = np.array([share for _, share in found])
    return RhoCurve(radii, value, value * spread, value / width, value * width, empty, "samples", replicates)
