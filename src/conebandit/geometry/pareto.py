"""Which points are undominated under a cone."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from conebandit.geometry.cone import Cone, as_cone
from conebandit.geometry.order import BoolArray
from conebandit.kernels import order as kernels
from conebandit.validate.arrays import FloatArray, as_vectors, magnitude, safe_exponent

# Sets up to this size are compared pair by pair when they come in a batch; larger ones are sorted.
FEW = 64

# With four facets or more, points are first compared with this many strong ones.
STRONG = 32

# If no more than this many points are left after that, they are compared pair by pair.
MODEST = 512


def pareto_mask(means: ArrayLike, cone: Cone, /) -> BoolArray:
    """Which points no other point dominates.

    Parameters
    ----------
    means
        Shape (N, M), or (n, K, M) for n separate sets.
    cone
        The preference cone.

    Returns
    -------
    numpy.ndarray
        Shape (N,) or (n, K), True for undominated points; at least one in each set.

    Notes
    -----
    Equal points do not dominate each other, so all copies of an undominated point are on the front. Points that are
    equal on a facet up to rounding count as equal there: 1e-12 relative to the size of the numbers added up
    (``docs/decisions/0001-ties.md``).

    One, two and three facets take N log N steps. With more, N log N for easy input and in the worst case (nothing is
    dominated) N^2 / 64 machine words for each facet.

    Examples
    --------
    >>> import conebandit as cb
    >>> means = [[0.9, 1.2], [1.4, 0.6], [0.8, 0.9], [0.9, 1.2]]
    >>> cb.pareto_mask(means, cb.Cone.orthant(2))
    array([ True,  True, False,  True])
    """
    points = as_vectors(means, "means", as_cone(cone).dim, (2, 3))
    if points.ndim == 2:
        return _front(*_facet_coordinates(points, cone))
    if points.shape[1] <= FEW:
        return kernels.fronts_of_batch(_without_extremes(points), cone.facets)
    return np.array([_front(*_facet_coordinates(p, cone)) for p in points])


def _without_extremes(points: FloatArray) -> FloatArray:
    """The points, scaled by a power of two if sums of them could overflow or lose their digits."""
    shift = safe_exponent(magnitude(points))
    return np.ldexp(points, shift) if shift else points


def _facet_coordinates(points: FloatArray, cone: Cone) -> tuple[FloatArray, FloatArray]:
    """Map (N, M) points to facets: the values (F, N), and for each the size of the terms it is a sum of."""
    points = _without_extremes(points)
    if cone.is_orthant:
        y = points.T.copy()
        return y, np.abs(y)
    return cone.facets @ points.T, np.abs(cone.facets) @ np.abs(points).T


def _front(y: FloatArray, sizes: FloatArray) -> BoolArray:
    """Undominated columns of (F, N) facet coordinates."""
    for row, size in zip(y, sizes, strict=True):
        # Near ties are rare, and to see that there are none is cheap.
        if kernels.has_near_ties(np.sort(row), kernels.TOLERANCE * size.max()):
            kernels.merge_ties(row, size, np.argsort(row))
    facets, n = y.shape
    if facets == 1:
        return np.asarray(y[0] == y[0].max())
    if facets > 3:
        return _front_of_many(y)
    front = np.empty(n, dtype=np.bool_)
    if facets == 2:
        kernels.front_of_two(y, np.argsort(y[0]), front)
    else:
        rank = kernels.last_positions(y[1], np.argsort(y[1]))
        kernels.front_of_three(y, np.argsort(y[0]), rank, front)
    return front


def _front_of_many(y: FloatArray) -> BoolArray:
    """Undominated columns for four and more facets: a sieve with strong points, then bit sets for what is left."""
    by_strength = _dominators_first(y)
    rows = np.ascontiguousarray(y[:, by_strength].T)
    alive = kernels.survivors(rows, STRONG)
    left = rows[alive]
    if len(left) <= MODEST:
        alive[alive] = kernels.survivors(left, len(left))
    else:
        ascending = [np.argsort(column) for column in left.T.copy()]
        last = np.array([kernels.last_positions(c, o) for c, o in zip(left.T.copy(), ascending, strict=True)])
        descending = np.array(ascending)[:, ::-1].copy()
        alive[alive] = kernels.front_by_bits(left, last, descending)
    front = np.empty(y.shape[1], dtype=np.bool_)
    front[by_strength] = alive
    return front


def _dominators_first(y: FloatArray) -> NDArray[np.intp]:
    """An order of the columns in which every dominator comes before whatever it dominates."""
    # Rounded sums are monotone, so only equal sums can hide a dominator; those are told apart column by column.
    total = -y.sum(axis=0)
    order = np.argsort(total)
    ordered = total[order]
    if (ordered[1:] == ordered[:-1]).any():
        return np.lexsort([*(-y[::-1]), total])
    return order
