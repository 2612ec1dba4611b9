"""How far an arm is from the front, and how far two fronts are from each other; exact for every polyhedral cone."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import ArrayLike

from conebandit.geometry.cone import Cone, as_cone
from conebandit.geometry.order import BoolArray
from conebandit.kernels import gap as kernels
from conebandit.kernels.shortfall import shortfalls_by_logs, shortfalls_by_programs
from conebandit.validate.arguments import as_positive
from conebandit.validate.arrays import FloatArray, as_floats, as_vectors, magnitude, safe_exponent

OVERFLOW = 1000  # if an arm must grow by more than 2 to this power, the factor may be too large for a double


def gap(
    means: ArrayLike, front: ArrayLike, cone: Cone, /, *, floor: float | None = None, where: ArrayLike | None = None
) -> FloatArray:
    """The paper's scale-independent gap of each arm to a front (Definition 5), exact.

    The gap is the smallest ``g`` such that multiplying each coordinate of the arm's mean by some factor between 1 and
    ``exp(g)`` makes it *not strongly dominated* by any front point. Factors are free per coordinate and must work
    against the whole front at once.

    Parameters
    ----------
    means
        Shape (N, M), or (n, K, M) for n separate sets. All positive, unless ``floor`` is given.
    front
        Either points, shape (P, M) or (n, P, M); or a boolean mask, shape (N,) or (n, K), that says which of ``means``
        are the front (as :func:`pareto_mask` returns it).
    cone
        The preference cone.
    floor
        Replace smaller means by this positive number first, in ``means`` and ``front``. Logarithms need positive
        numbers; where to cut is a modelling choice, so it has no default.
    where
        Boolean mask, shape (N,) or (n, K): which gaps are wanted; the others are reported as nan. All by default.

    Returns
    -------
    numpy.ndarray
        Shape (N,) or (n, K). Zero iff no front point strongly dominates the arm, so it can be zero for a dominated arm
        that ties on a facet. Infinite if no enlargement helps, which needs a cone for which more is not better.

    Notes
    -----
    If the cone contains the orthant, scaling all coordinates alike is optimal and there is a closed form,
    ``max_p min_j log+ ((W p)_j / (W mu)_j)``. Otherwise the coordinates compete; then the arm escapes every front
    point by one of the cone's facets, each choice of facets is a linear program in M + 1 variables, and a branch and
    bound search finds the best choice. See ``docs/departures.md`` for why no simpler formula gives the paper's table.

    Examples
    --------
    >>> import conebandit as cb
    >>> means = [[0.7, 0.8], [0.9, 1.2], [1.25, 1.05]]
    >>> cone = cb.Cone.orthant(2)
    >>> cb.gap(means, cb.pareto_mask(means, cone), cone).round(4)
    array([0.2719, 0.    , 0.    ])
    """
    points, fronts, members = _points_and_front(means, front, require_rewards(cone))
    own_front = fronts is points
    points = _positive(points, "means", floor)
    fronts = points if own_front else _positive(fronts, "front", floor)
    freedom = kernels.UNIFORM if cone.contains_orthant else kernels.FREE
    wanted = _wanted(where, np.shape(means)[:-1], points.shape[:2])
    moves = _escapes(points, fronts, members, cone, relative=1.0, freedom=freedom, wanted=wanted)
    gaps = np.log1p(moves)
    overflown = np.isinf(moves) & (np.log2(fronts.max()) - np.log2(points.max(axis=2)) > OVERFLOW)
    for i, k in np.argwhere(overflown):
        gaps[i, k] = _gap_of_huge_move(points, fronts, members, cone, freedom=freedom, arm=(i, k))
    return gaps.reshape(np.shape(means)[:-1])


def additive_gap(means: ArrayLike, front: ArrayLike, cone: Cone, /, *, per_objective: bool = False) -> FloatArray:
    """Smallest amount that, added to each objective, makes an arm not strongly dominated; for rewards of any sign.

    Parameters
    ----------
    means, front, cone
        As for :func:`gap`; any sign.
    per_objective
        By default the same amount is added to every objective. If True, each objective may get its own amount between
        0 and the gap. This is never more, and the same for cones that contain the orthant.

    Returns
    -------
    numpy.ndarray
        Shape (N,) or (n, K), in the unit of the rewards. Zero iff no front point strongly dominates the arm; infinite
        if no addition helps. From a cost, ``cone.minimise``, the amount is taken away.

    Examples
    --------
    >>> import conebandit as cb
    >>> cb.additive_gap([[-1.0, 0.0]], [[0.5, 0.25]], cb.Cone.orthant(2))
    array([0.25])
    """
    points, fronts, members = _points_and_front(means, front, cone)
    if cone.minimise:
        turned = points * cone.signs
        fronts, points = turned if fronts is points else fronts * cone.signs, turned
        cone = cone.turned(cone.minimise)
    free = per_objective and not cone.contains_orthant
    freedom = kernels.FREE if free else kernels.UNIFORM
    wanted = _wanted(None, np.shape(means)[:-1], points.shape[:2])
    moves = _escapes(points, fronts, members, cone, relative=0.0, freedom=freedom, wanted=wanted)
    return moves.reshape(np.shape(means)[:-1])


def dominance_distance(a: ArrayLike, b: ArrayLike, cone: Cone, /, *, floor: float | None = None) -> float:
    """The paper's Definition 8: the largest gap of a point of one set to the other set, both ways.

    It answers "is anything in either set bad, judged by the other?". It cannot tell whether one set covers the other:
    a single undominated point is at distance zero from the whole front, and ``{(1, 2)}`` is at distance zero from
    ``{(2, 1)}``. It is therefore *not* a metric, although the paper says so; the triangle inequality fails too. For
    that use :func:`log_hausdorff`.

    Parameters
    ----------
    a, b
        Shapes (P, M) and (R, M), positive unless ``floor`` is given.
    cone
        The preference cone.
    floor
        As for :func:`gap`.

    Examples
    --------
    >>> import conebandit as cb
    >>> cb.dominance_distance([[1, 2]], [[2, 1]], cb.Cone.orthant(2))
    0.0
    """
    dim = require_rewards(cone).dim
    points = as_vectors(a, "a", dim, (2,)), as_vectors(b, "b", dim, (2,))
    first, second = (_positive(p, n, floor) for p, n in zip(points, "ab", strict=True))
    return float(max(gap(first, second, cone).max(), gap(second, first, cone).max()))


def log_hausdorff(
    a: ArrayLike,
    b: ArrayLike,
    /,
    *,
    in_a: ArrayLike | None = None,
    in_b: ArrayLike | None = None,
    floor: float | None = None,
) -> float | FloatArray:
    """Hausdorff distance between two sets of points on a log scale, under the sup norm.

    It answers "does each point of either set have a close relative in the other?", close meaning within the same
    *factor* in every objective: a distance of 0.1 is about ten per cent. So it sees both a bad point and a missing
    one, and it is a metric (this is the form that the paper's appendix proves to be one). It does not know the cone:
    a missing point costs its distance to the nearest one that is there, whether or not anyone would prefer it.

    Parameters
    ----------
    a, b
        Shapes (P, M) and (R, M), or (n, P, M) and (n, R, M) for n pairs of sets. Positive unless ``floor`` is given.
    in_a, in_b
        Boolean masks, shapes (P,) and (R,), or (n, P) and (n, R): which rows belong to the sets. All by default.
    floor
        Replace smaller values by this positive number first.

    Returns
    -------
    float or numpy.ndarray
        One number, or shape (n,).

    Examples
    --------
    >>> import conebandit as cb
    >>> round(cb.log_hausdorff([[1, 2]], [[2, 1]]), 4)
    0.6931
    """
    first, second, in_first, in_second = _two_sets({"a": (a, in_a), "b": (b, in_b)})
    logs = [np.log(_positive(s, name, floor)) for s, name in ((first, "a"), (second, "b"))]
    result = kernels.hausdorff_of_batch(logs[0], logs[1], in_first, in_second, kernels.SUP)
    return float(result[0]) if np.ndim(a) == 2 else result


def hausdorff(
    a: ArrayLike, b: ArrayLike, /, *, in_a: ArrayLike | None = None, in_b: ArrayLike | None = None
) -> float | FloatArray:
    """Classical Hausdorff distance between two sets of points, Euclidean.

    It answers "how far is the point of either set that lies farthest from the other set?" in the unit of the rewards,
    so it depends on how the objectives are scaled against each other. It is a metric, but it knows neither cone nor
    preference: two sets can be arbitrarily close and yet one of them contain a point that the other strongly dominates
    (the paper's Hausdorff example).

    Parameters
    ----------
    a, b, in_a, in_b
        As for :func:`log_hausdorff`, and so is what is returned; any sign.

    Examples
    --------
    >>> import conebandit as cb
    >>> cb.hausdorff([[0, 0], [3, 4]], [[0, 0]])
    5.0
    """
    first, second, in_first, in_second = _two_sets({"a": (a, in_a), "b": (b, in_b)})
    result = kernels.hausdorff_of_batch(first, second, in_first, in_second, kernels.EUCLIDEAN)
    return float(result[0]) if np.ndim(a) == 2 else result


def shortfall(
    reported: ArrayLike,
    front: ArrayLike,
    cone: Cone,
    /,
    *,
    in_reported: ArrayLike | None = None,
    in_front: ArrayLike | None = None,
    floor: float | None = None,
) -> float | FloatArray:
    """By what factor (log) a reported set must improve so that it weakly dominates a front, exact.

    It answers "what does someone lose who knows the reported points only?": a shortfall of 0.1 says that for every
    front point there is a reported one that, improved by about ten per cent, is at least as good. A missing point costs
    little if a reported one nearly replaces it, and a superfluous one costs nothing. Unlike :func:`log_hausdorff` it
    knows the cone, and it is continuous in the points.

    Parameters
    ----------
    reported, front
        Shapes (P, M) and (R, M), or (n, P, M) and (n, R, M) for n pairs of sets. Positive unless ``floor`` is given.
    cone
        The preference cone.
    in_reported, in_front
        Boolean masks, shapes (P,) and (R,), or (n, P) and (n, R): which rows belong to the sets. All by default.
    floor
        Replace smaller values by this positive number first.

    Returns
    -------
    float or numpy.ndarray
        One number, or shape (n,). Zero iff every front point is weakly dominated by a reported one. Infinite if no
        enlargement helps, which needs a cone for which more is not better.

    Notes
    -----
    The shortfall is the smallest ``g`` such that for every front point there is a reported one whose coordinates,
    multiplied by factors between 1 and ``exp(g)``, weakly dominate it. Factors are free per coordinate, as for
    :func:`gap`. If the cone contains the orthant, scaling all coordinates alike is optimal, and the closed form is
    ``max_p min_r max_j log+ ((W p)_j / (W r)_j)``: for the orthant the log of the multiplicative epsilon indicator
    (Zitzler et al. 2003), and never more than the log-Hausdorff distance. Otherwise scaling alike may lead away from
    the front point on a facet, so the factors are sought that lead inside the cone: a linear program in M + 1
    variables for each pair of points.

    Examples
    --------
    >>> import conebandit as cb
    >>> front = [[1.0, 0.5], [0.8, 0.8], [0.5, 1.0]]
    >>> round(cb.shortfall([[1.0, 0.5], [0.5, 1.0]], front, cb.Cone.orthant(2)), 4)     # 0.8 to 0.5
    0.47
    """
    dim = require_rewards(cone).dim
    sets = {"reported": (reported, in_reported), "front": (front, in_front)}
    first, second, in_first, in_second = _two_sets(sets, dim)
    points, fronts = _positive(first, "reported", floor), _positive(second, "front", floor)
    shift = safe_exponent(max(magnitude(points), magnitude(fronts)))
    if shift:
        points, fronts = np.ldexp(points, shift), np.ldexp(fronts, shift)
    result = shortfalls(points, fronts, in_first, in_second, cone)
    return float(result[0]) if np.ndim(reported) == 2 else result


def shortfalls(
    points: FloatArray, fronts: FloatArray, in_points: BoolArray, in_fronts: BoolArray, cone: Cone
) -> FloatArray:
    """:func:`shortfall` of n pairs of sets, (n, P, M) and (n, R, M), positive and with masks; nothing is checked."""
    if cone.contains_orthant:
        own = log_images(points, cone)
        return shortfalls_by_logs(own, own if fronts is points else log_images(fronts, cone), in_points, in_fronts)
    moves = shortfalls_by_programs(points, fronts, in_points, in_fronts, cone.facets, 1.0)
    result = np.log1p(moves)
    overflown = np.isinf(moves) & (np.log2(fronts.max()) - np.log2(points.max(axis=(1, 2))) > OVERFLOW)
    for i in np.flatnonzero(overflown):
        exponent = _exponent_of_one(points[i])
        one = slice(i, i + 1)
        again = shortfalls_by_programs(
            points[one], fronts[one], in_points[one], in_fronts[one], cone.facets, 2.0**exponent
        )
        result[i] = np.log(again[0]) + exponent * np.log(2.0)
    return result


def log_images(points: FloatArray, cone: Cone) -> FloatArray:
    """Logs of the facet coordinates of positive points, (n, K, M) -> (n, K, F); the cone must contain the orthant."""
    if cone.is_orthant:
        return np.log(points)
    images = np.zeros((*points.shape[:2], len(cone.facets)))
    for m in range(cone.dim):  # a matrix product may add in another order, depending on shapes and machine
        images += points[:, :, m, None] * cone.facets[:, m]
    return np.log(images)


def require_rewards(cone: Cone) -> Cone:
    """The cone, if more is better in every objective: only then is improving by a factor the same as growing by it."""
    if as_cone(cone).minimise:
        raise ValueError(
            f"cone minimises {', '.join(cone.minimise)}, and this measures by which factor rewards would have to grow. "
            "Make rewards of the costs, such as their worst value minus the value, and take the cone "
            "cone.turned(cone.minimise); or use additive_gap, which takes costs as they are."
        )
    return cone


def _points_and_front(means: ArrayLike, front: ArrayLike, cone: Cone) -> tuple[FloatArray, FloatArray, BoolArray]:
    """Everything as batches: points (n, K, M), front candidates (n, P, M) and which of them are the front (n, P)."""
    points = as_vectors(means, "means", as_cone(cone).dim, (2, 3))
    batch = points.reshape((-1, *points.shape[-2:]))
    members = _as_mask(front)
    if members is not None:
        if members.shape != points.shape[:-1]:
            raise ValueError(
                f"front is a mask of shape {members.shape}; for means of shape {points.shape} it must be "
                f"{points.shape[:-1]}."
            )
        members = np.ascontiguousarray(members.reshape(batch.shape[:2]))
        _require_members(members, "front")
        return batch, batch, members
    others = as_vectors(front, "front", cone.dim, (2, 3))
    if others.ndim == 3 and others.shape[0] != batch.shape[0]:
        raise ValueError(f"front has {others.shape[0]} sets but means have {batch.shape[0]}; they must match.")
    # A copy: a view that cannot be written is another type of array, for which kernels would be compiled anew.
    others = np.broadcast_to(others, (batch.shape[0], *others.shape[-2:])).copy()
    return batch, others, np.ones(others.shape[:2], dtype=np.bool_)


def _two_sets(
    sets: Mapping[str, tuple[ArrayLike, ArrayLike | None]], dim: int | None = None
) -> tuple[FloatArray, FloatArray, BoolArray, BoolArray]:
    """Two batches of sets, (n, P, M) and (n, R, M), with their masks, from points and mask by name."""
    batches, masks = [], []
    for name, (values, mask) in sets.items():
        shape = as_floats(values, name).shape
        points = as_vectors(values, name, dim or (shape[-1] if shape else 0), (2, 3))
        batch = points.reshape((-1, *points.shape[-2:]))
        members = np.ones(points.shape[:-1], dtype=np.bool_) if mask is None else np.asarray(mask)
        if members.dtype != np.bool_ or members.shape != points.shape[:-1]:
            raise ValueError(
                f"in_{name} must be a boolean array of shape {points.shape[:-1]}; "
                f"got {members.dtype} of shape {members.shape}."
            )
        members = np.ascontiguousarray(members.reshape(batch.shape[:2]))
        _require_members(members, f"in_{name}" if mask is not None else name)
        batches.append(batch)
        masks.append(members)
    (a, (first, _)), (b, (second, _)) = sets.items()
    if np.ndim(first) != np.ndim(second) or batches[0].shape[0] != batches[1].shape[0]:
        raise ValueError(
            f"{a} and {b} must hold the same number of sets; got shapes {np.shape(first)} and {np.shape(second)}."
        )
    if batches[0].shape[2] != batches[1].shape[2]:
        raise ValueError(f"{b} must have {batches[0].shape[2]} columns, as many as {a}; got shape {np.shape(second)}.")
    return batches[0], batches[1], masks[0], masks[1]


def _as_mask(front: ArrayLike) -> BoolArray | None:
    """The front, if it is a boolean mask."""
    try:
        mask = np.asarray(front)
    except ValueError:  # ragged; the check of points says so
        return None
    return mask if mask.dtype == np.bool_ else None


def _require_members(members: BoolArray, name: str) -> None:
    empty = ~members.any(axis=1)
    if empty.any():
        raise ValueError(f"{name} selects no point in set {int(np.argmax(empty))}; every set needs at least one.")


def _positive(points: FloatArray, name: str, floor: float | None) -> FloatArray:
    """The points, cut at ``floor`` if there is one; all positive, or an error that says what to do."""
    if floor is not None:
        return np.maximum(points, as_positive(floor, "floor"))
    if points.min() <= 0:
        raise ValueError(
            f"{name} must be positive for a gap on a log scale; the smallest entry is {points.min()}. Pass floor=... "
            "to cut at a small positive value, or use additive_gap, which takes rewards of any sign."
        )
    return points


def _wanted(where: ArrayLike | None, shape: tuple[int, ...], batch: tuple[int, ...]) -> BoolArray:
    if where is None:
        return np.ones(batch, dtype=np.bool_)
    mask = np.asarray(where)
    if mask.dtype != np.bool_ or mask.shape != shape:
        raise ValueError(f"where must be a boolean array of shape {shape}; got {mask.dtype} of shape {mask.shape}.")
    return np.ascontiguousarray(mask.reshape(batch))


def _gap_of_huge_move(
    points: FloatArray, fronts: FloatArray, members: BoolArray, cone: Cone, *, freedom: int, arm: tuple[int, int]
) -> float:
    """The gap of an arm whose move overflows: measured relative to 2^s times the arm, which is about 1, it does not."""
    exponent = _exponent_of_one(points[arm])
    wanted = np.zeros(points.shape[:2], dtype=np.bool_)
    wanted[arm] = True
    moves = _escapes(points, fronts, members, cone, relative=2.0**exponent, freedom=freedom, wanted=wanted)
    return float(np.log(moves[arm]) + exponent * np.log(2.0))


def _exponent_of_one(points: FloatArray) -> int:
    """Power of two by which to multiply points so that the largest entry is about 1."""
    return min(1000, -int(np.frexp(points.max())[1]))


def _escapes(
    points: FloatArray,
    fronts: FloatArray,
    members: BoolArray,
    cone: Cone,
    *,
    relative: float,
    freedom: int,
    wanted: BoolArray,
) -> FloatArray:
    """Moves of the kernel, on data scaled so that nothing overflows."""
    shift = safe_exponent(max(magnitude(points), magnitude(fronts)))
    if shift:
        points, fronts = np.ldexp(points, shift), np.ldexp(fronts, shift)
    moves = kernels.escapes(points, fronts, members, wanted, cone.facets, np.zeros(len(cone.facets)), relative, freedom)
    return np.ldexp(moves, -shift) if shift and not relative else moves
