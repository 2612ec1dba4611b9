"""Which points are undominated under a cone."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from conebandit.geometry.cone import Cone, as_cone
from conebandit.geometry.order import BoolArray
from conebandit.kernels import order as kernels
from conebandit.validate.arguments import as_resolution
from conebandit.validate.arrays import FloatArray, as_vectors, magnitude, safe_exponent

# Sets up to this size are compared pair by pair when they come in a batch; larger ones are sorted.
FEW = 64

# With four facets or more, points are first compared with this many strong ones.
STRONG = 32

# If no more than this many points are left after that, they are compared pair by pair.
MODEST = 512


def pareto_mask(means: ArrayLike, cone: Cone, /, *, resolution: ArrayLike = 0.0) -> BoolArray:
    """Which points no other point dominates; with a resolution, which points are essential.

    Parameters
    ----------
    means
        Shape (N, M), or (n, K, M) for n separate sets.
    cone
        The preference cone.
    resolution
        The smallest difference that matters: one number, or one for each objective, in its units. A point is then
        *inessential*, and left out, if another one is at least as good up to the resolution on every facet and better
        by more than the resolution on one.

    Returns
    -------
    numpy.ndarray
        Shape (N,) or (n, K), True for undominated or essential points; at least one in each set.

    Notes
    -----
    Equal points do not dominate each other, so all copies of an undominated point are on the front. Points that are
    equal on a facet up to rounding count as equal there: 1e-12 relative to the size of the numbers added up
    (``docs/decisions/0001-ties.md``).

    One, two and three facets take N log N steps. With more, N log N for easy input and in the worst case (nothing is
    dominated) N^2 / 64 machine words for each facet. A resolution adds the time to compare all points with the front.

    On facet j, with the row ``w`` of ``cone.facets``, the resolution is ``sum_m |w_m| resolution_m``: the largest
    change of ``w . x`` when no objective changes by more than its resolution. For the orthant that is the resolution
    itself. A dominated point is essential if no difference to the others matters. With three facets and more, points
    may make each other inessential in a circle; where that leaves none, the undominated ones are given instead.

    Examples
    --------
    >>> import conebandit as cb
    >>> means = [[0.9, 1.2], [1.4, 0.6], [0.8, 0.9], [0.9, 1.2]]
    >>> cb.pareto_mask(means, cb.Cone.orthant(2))
    array([ True,  True, False,  True])

    If a loss of 0.05 does not matter, the first point does for the third:

    >>> means = [[0.9, 1.2], [1.4, 0.6], [0.8, 1.22]]
    >>> cb.pareto_mask(means, cb.Cone.orthant(2), resolution=0.05)
    array([ True,  True, False])
    """
    points = as_vectors(means, "means", as_cone(cone).dim, (2, 3))
    smallest = as_resolution(resolution, cone.dim)
    shift = safe_exponent(magnitude(points))  # so that sums of extreme numbers neither overflow nor lose their digits
    if shift:
        points, smallest = np.ldexp(points, shift), np.ldexp(smallest, shift)
    batch = points.reshape((-1, *points.shape[-2:]))
    if points.ndim == 3 and points.shape[1] <= FEW:
        fronts = kernels.fronts_of_batch(batch, cone.facets)
    else:
        fronts = np.array([_front(*_facet_coordinates(p, cone)) for p in batch])
    if smallest.any():
        fronts = essential(batch, fronts, cone, facet_slack(cone, smallest))
    return fronts.reshape(points.shape[:-1])


def facet_slack(cone: Cone, resolution: FloatArray) -> FloatArray:
    """The resolution of each facet, from that of each objective.

    Examples
    --------
    >>> cone = Cone.from_rays([[1, 0.6], [0.6, 1]])
    >>> cone.facets
    array([[ 1.25, -0.75],
           [-0.75,  1.25]])
    >>> facet_slack(cone, np.array([0.1, 0.2]))
    array([0.275, 0.325])
    """
    return np.asarray(np.abs(cone.facets) @ resolution)


def essential(points: FloatArray, fronts: BoolArray, cone: Cone, slack: FloatArray) -> BoolArray:
    """Essential points of n sets (n, K, M), given their fronts (n, K); nothing is checked.

    Only points of the front need be tried against the others: what a dominated point beats its dominator beats too.
    """
    everyone = np.ones_like(fronts)
    found = ~kernels.matched(points, everyone, fronts, cone.facets, slack, True)
    circular = ~found.any(axis=1)
    found[circular] = fronts[circular]
    return found


def _facet_coordinates(points: FloatArray, cone: Cone) -> tuple[FloatArray, FloatArray]:
    """Map (N, M) points to facets: the values (F, N), and for each the size of the terms it is a sum of."""
    if cone.is_orthant and not cone.minimise:
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
