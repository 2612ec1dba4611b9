"""What would be better than an arm, as an area of a picture: the cone, with its tip at the arm, cut to the picture."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

Point = tuple[float, float]


def better_region(tip: Point, facets: Iterable[Sequence[float]], low: Point, high: Point) -> tuple[Point, ...]:
    """Corners of the points of a rectangle that are at least as good as one of them; none if that is no area.

    Parameters
    ----------
    tip
        The point that they are compared with.
    facets
        Pairs (a, b): better points are those with ``a (x - tip x) + b (y - tip y) >= 0`` for each pair. For values of
        metrics, so that signs are turned for a cost. Any number of pairs: what is left may be a half-plane, a wedge,
        acute or obtuse, or no area at all.
    low, high
        Corners of the rectangle.

    Examples
    --------
    >>> better_region((0.5, 0.5), [(1, 0), (0, -1)], (0, 0), (1, 1))        # more of x, less of y
    ((0.5, 0.5), (0.5, 0.0), (1.0, 0.0), (1.0, 0.5))
    """
    width, height = high[0] - low[0], high[1] - low[1]
    u, v = (tip[0] - low[0]) / width, (tip[1] - low[1]) / height  # so that units do not matter
    corners: list[Point] = [(0.0, 0.0), (1.0, 0.0), (1.0, 1.0), (0.0, 1.0)]
    for facet in facets:
        a, b = facet[0] * width, facet[1] * height
        size = math.hypot(a, b)
        if size > 0.0:  # else it says nothing about these two
            corners = _cut(corners, a / size, b / size, u, v)
    if _area(corners) < 1e-9:
        return ()
    return tuple((low[0] + x * width, low[1] + y * height) for x, y in corners)


def needed_facets(facets: Sequence[Sequence[float]]) -> list[Sequence[float]]:
    """Of pairs (a, b) as above the two, or the one, from which all others follow; all of them if they leave no area.

    Examples
    --------
    >>> needed_facets([(1, 0), (1, 1), (2, 1), (0, 1), (0, 0)])
    [(1, 0), (0, 1)]
    """
    some = sorted((pair for pair in facets if any(pair)), key=lambda pair: math.atan2(pair[1], pair[0]))
    if len(some) < 3:
        return some
    angles = [math.atan2(b, a) for a, b in some]
    gaps = [after - before for before, after in zip([angles[-1] - math.tau, *angles[:-1]], angles, strict=True)]
    first = max(range(len(some)), key=gaps.__getitem__)  # before it, nothing for more than half a turn
    return [some[first], some[first - 1]] if gaps[first] > math.pi else some


def _cut(corners: Sequence[Point], a: float, b: float, u: float, v: float) -> list[Point]:
    """The part of a convex polygon on one side of a line through (u, v) (Sutherland and Hodgman, 1974)."""
    kept: list[Point] = []
    for i, end in enumerate(corners):
        start = corners[i - 1]
        before, after = (a * (x - u) + b * (y - v) for x, y in (start, end))
        if (before < 0.0 < after) or (after < 0.0 < before):
            share = before / (before - after)
            kept.append((start[0] + share * (end[0] - start[0]), start[1] + share * (end[1] - start[1])))
        if after >= 0.0:
            kept.append(end)
    return kept


def _area(corners: Sequence[Point]) -> float:
    return 0.5 * abs(sum(a[0] * b[1] - b[0] * a[1] for a, b in zip(corners, [*corners[1:], *corners[:1]], strict=True)))
