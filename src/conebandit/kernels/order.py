"""Which points are undominated, in facet coordinates.

Every routine here takes *facet coordinates*: one column for each facet of the cone, ``y = W x``. There, "better" is
"at least as large in every column and larger in one", whatever the cone. Ties are decided once, by :func:`merge_ties`,
and after that all comparisons are exact.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from conebandit.kernels.compile import compiled, in_place, inlined

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

# The one tolerance of the package. Two facet values are equal if they differ by at most TOLERANCE times the size of
# the terms they are sums of (sum_m |W_jm x_m|). See docs/decisions/0001-ties.md.
TOLERANCE = 1e-12

_WORD = 64  # bits in a machine word
_STRIPE = 64  # words that are combined at a time


@inlined
def facet_value(facets: Floats, j: int, points: Floats, i: int, k: int) -> tuple[float, float]:
    """Coordinate ``w_j . points[i, k]`` of a point, and the size of the terms it is a sum of, for the tolerance."""
    value = size = 0.0
    for m in range(facets.shape[1]):
        term = facets[j, m] * points[i, k, m]
        value += term
        size += abs(term)
    return value, size


@in_place
def merge_ties(values: Floats, sizes: Floats, order: Ints) -> None:
    """Give values that are equal up to rounding the same value, in place.

    ``order`` sorts ``values``. Neighbours closer than the tolerance are linked, so that equality is transitive.
    """
    previous = representative = values[order[0]]
    for i in range(1, order.size):
        current = values[order[i]]
        if current - previous > TOLERANCE * max(sizes[order[i]], sizes[order[i - 1]]):
            representative = current
        values[order[i]] = representative
        previous = current


@in_place
def has_near_ties(ascending: Floats, slack: float) -> bool:
    """Whether two different neighbours in a sorted array are within ``slack`` of each other."""
    found = False
    for i in range(1, ascending.size):
        gap = ascending[i] - ascending[i - 1]
        found |= 0.0 < gap <= slack
    return found


@compiled
def last_positions(values: Floats, order: Ints) -> Ints:
    """For each value how many come before the last of its equals when sorted in *descending* order."""
    n = order.size
    last = np.empty(n, dtype=np.int64)
    first = 0  # of the run of equal values, ascending
    for i in range(n):
        if values[order[i]] > values[order[first]]:
            first = i
        last[order[i]] = n - 1 - first
    return last


@compiled
def front_of_two(y: Floats, order: Ints, front: Bools) -> None:
    """Undominated points of (2, N) coordinates by one sweep; ``order`` sorts the first row."""
    best = -np.inf  # largest second coordinate among points with a larger first one
    stop = order.size
    while stop > 0:
        start = stop - 1
        while start > 0 and y[0, order[start - 1]] == y[0, order[stop - 1]]:
            start -= 1
        top = -np.inf
        for i in range(start, stop):
            top = max(top, y[1, order[i]])
        for i in range(start, stop):
            front[order[i]] = y[1, order[i]] == top and top > best
        best = max(best, top)
        stop = start


@compiled
def front_of_three(y: Floats, order: Ints, rank: Ints, front: Bools) -> None:
    """Undominated points of (3, N) coordinates in N log N (a sweep in the spirit of Kung, Luccio & Preparata 1975).

    ``order`` sorts the first row; ``rank`` holds the :func:`last_positions` of the second. A Fenwick tree over ranks
    holds the largest third coordinate seen so far.
    """
    n = order.size
    tree = np.full(n + 1, -np.inf)
    stop = n
    while stop > 0:
        start = stop - 1
        while start > 0 and y[0, order[start - 1]] == y[0, order[stop - 1]]:
            start -= 1
        for p in range(start, stop):
            k = order[p]
            best = -np.inf  # among points with a larger first and no smaller second coordinate
            i = rank[k] + 1
            while i > 0:
                best = max(best, tree[i])
                i -= i & -i
            front[k] = y[2, k] > best
        if stop - start > 1:
            _front_within_group(y, order[start:stop], rank, front)
        for p in range(start, stop):
            k = order[p]
            i = rank[k] + 1
            while i <= n and front[k]:
                tree[i] = max(tree[i], y[2, k])
                i += i & -i
        stop = start


@compiled
def _front_within_group(y: Floats, group: Ints, rank: Ints, front: Bools) -> None:
    """Among points with equal first coordinate, clear those that another one beats in the other two."""
    by_rank = group[np.argsort(rank[group], kind="mergesort")]
    best = -np.inf
    start = 0
    while start < by_rank.size:
        stop = start
        top = -np.inf
        while stop < by_rank.size and rank[by_rank[stop]] == rank[by_rank[start]]:
            top = max(top, y[2, by_rank[stop]])
            stop += 1
        for i in range(start, stop):
            k = by_rank[i]
            if y[2, k] <= best or y[2, k] < top:
                front[k] = False
        best = max(best, top)
        start = stop


@in_place
def _beats(a: Floats, i: int, b: Floats, k: int) -> bool:
    """Whether row ``i`` of ``a`` dominates row ``k`` of ``b`` (indices, since making views is slow in a hot loop)."""
    larger = False
    for j in range(a.shape[1]):
        if a[i, j] < b[k, j]:
            return False
        if a[i, j] > b[k, j]:
            larger = True
    return larger


@compiled
def survivors(y: Floats, most: int) -> Bools:
    """Points that none of the first ``most`` undominated ones beats; rows are sorted, dominators first.

    If fewer than ``most`` survive, these are exactly the undominated points.
    """
    n = y.shape[0]
    alive = np.zeros(n, dtype=np.bool_)
    archive = np.empty((most, y.shape[1]))
    size = 0
    for i in range(n):
        beaten = False
        for k in range(size):
            if _beats(archive, k, y, i):
                beaten = True
                break
        if not beaten:
            alive[i] = True
            if size < most:
                for j in range(y.shape[1]):
                    archive[size, j] = y[i, j]
                size += 1
    return alive


@compiled
def front_by_bits(y: Floats, last: Ints, descending: Ints) -> Bools:
    """Undominated points of (N, F) coordinates; rows are sorted, dominators first.

    For each column the set of points that are at least as large as a given one is an initial piece of the column's
    descending order. Such pieces, cut at block boundaries, are kept as bit sets; a point's possible dominators are the
    intersection over the columns, 64 at a time, and the few that are left are compared one by one.

    Parameters
    ----------
    y
        Shape (N, F).
    last
        Shape (F, N): the :func:`last_positions` of each column.
    descending
        Shape (F, N): indices that sort each column in descending order.
    """
    n = y.shape[0]
    block = max(_WORD, n // 256)
    pieces = _initial_pieces(descending, block)
    front = np.ones(n, dtype=np.bool_)
    common = np.empty(_STRIPE, dtype=np.uint64)
    for stripe in range(pieces.shape[0]):  # one stripe of points at a time, so that its bit sets stay in the cache
        for i in range(stripe * _STRIPE * _WORD, n):  # dominators come before what they dominate
            if front[i] and _beaten_in_stripe(y, i, last, pieces[stripe], block, stripe, common):
                front[i] = False
    return front


@compiled
def _initial_pieces(descending: Ints, block: int) -> NDArray[np.uint64]:
    """Bit sets [stripe, column, b] of the points in the first b blocks of a column's descending order."""
    columns, n = descending.shape
    blocks = (n + block - 1) // block
    stripes = (n + _STRIPE * _WORD - 1) // (_STRIPE * _WORD)
    pieces = np.zeros((stripes, columns, blocks + 1, _STRIPE), dtype=np.uint64)
    for j in range(columns):
        for b in range(blocks):
            for stripe in range(stripes):
                for w in range(_STRIPE):
                    pieces[stripe, j, b + 1, w] = pieces[stripe, j, b, w]
            for i in range(b * block, min(n, (b + 1) * block)):
                word, bit = divmod(descending[j, i], _WORD)
                pieces[word // _STRIPE, j, b + 1, word % _STRIPE] |= np.uint64(1) << np.uint64(bit)
    return pieces


@compiled
def _beaten_in_stripe(
    y: Floats,
    i: int,
    last: Ints,
    pieces: NDArray[np.uint64],
    block: int,
    stripe: int,
    common: NDArray[np.uint64],
) -> bool:
    """Whether one of the points in a stripe dominates point ``i``."""
    piece = pieces[0, last[0, i] // block + 1]
    for w in range(_STRIPE):
        common[w] = piece[w]
    for j in range(1, y.shape[1]):
        piece = pieces[j, last[j, i] // block + 1]
        for w in range(_STRIPE):
            common[w] &= piece[w]
    for w in range(_STRIPE):
        bits = common[w]
        k = (stripe * _STRIPE + w) * _WORD
        while bits:
            if bits & np.uint64(1) and _beats(y, k, y, i):
                return True
            bits >>= np.uint64(1)
            k += 1
    return False


@in_place
def sort_few(values: Floats, order: Ints) -> None:
    """Write into ``order`` the indices that sort a handful of values (insertion sort)."""
    for i in range(values.size):
        j = i
        while j > 0 and values[order[j - 1]] > values[i]:
            order[j] = order[j - 1]
            j -= 1
        order[j] = i


@in_place
def _clear_beaten(y: Floats, slack: Floats, front: Bools, i: int) -> bool:
    """Clear ``front[i]`` for dominated columns of a small (F, K) table, looking at each pair once.

    Returns whether a row has two different values within the row's slack; then ties are to be merged first.
    """
    near = False
    for a in range(1, y.shape[1]):
        for b in range(a):
            above = below = False
            for j in range(y.shape[0]):
                rise = y[j, a] - y[j, b]
                above |= rise > 0.0
                below |= rise < 0.0
                near |= (rise != 0.0) & (abs(rise) <= slack[j])
            front[i, a] &= above | (not below)
            front[i, b] &= below | (not above)
    return near


@compiled
def fronts_of_batch(points: Floats, facets: Floats) -> Bools:
    """Undominated points in each of n small sets; ``points`` has shape (n, K, M), ``facets`` (F, M)."""
    n, arms = points.shape[:2]
    front = np.empty((n, arms), dtype=np.bool_)
    front[:] = True
    y, sizes = np.empty((facets.shape[0], arms)), np.empty((facets.shape[0], arms))
    slack = np.empty(facets.shape[0])
    order = np.empty(arms, dtype=np.int64)
    for i in range(n):
        for j in range(facets.shape[0]):
            slack[j] = 0.0
            for k in range(arms):
                y[j, k], sizes[j, k] = facet_value(facets, j, points, i, k)
                slack[j] = max(slack[j], TOLERANCE * sizes[j, k])
        if _clear_beaten(y, slack, front, i):
            for j in range(facets.shape[0]):
                sort_few(y[j], order)
                merge_ties(y[j], sizes[j], order)
            for k in range(arms):
                front[i, k] = not _beaten(y, k)
    return front


@in_place
def _beaten(y: Floats, k: int) -> bool:
    """Whether another column of (F, K) dominates column ``k``."""
    for other in range(y.shape[1]):
        larger = 0
        for j in range(y.shape[0]):
            if y[j, other] < y[j, k]:
                larger = -1
                break
            larger += y[j, other] > y[j, k]
        if larger > 0:
            return True
    return False


@compiled
def matched(points: Floats, wanted: Bools, by: Bools, facets: Floats, slack: Floats, beaten: bool) -> Bools:
    """Which points of n small sets some point matches: it is at least as good on every facet, up to a slack.

    Parameters
    ----------
    points, wanted, by
        Shapes (n, K, M), (n, K), (n, K): for which points the answer is wanted (False for the others), and which ones
        may match them.
    facets, slack
        Shapes (F, M) and (F,).
    beaten
        Whether it must also be better by more than the slack on a facet.
    """
    n, arms = points.shape[:2]
    rows = facets.shape[0]
    result = np.empty((n, arms), dtype=np.bool_)
    result[:] = False
    y, sizes = np.empty((arms, rows)), np.empty((arms, rows))
    for i in range(n):
        ready = False  # in most rounds of a run nothing is wanted
        for k in range(arms):
            if not wanted[i, k]:
                continue
            if not ready:
                for other in range(arms):
                    for j in range(rows):
                        y[other, j], sizes[other, j] = facet_value(facets, j, points, i, other)
                ready = True
            for other in range(arms):
                if by[i, other] and _matches(y, sizes, other, k, slack, beaten):
                    result[i, k] = True
                    break
    return result


@in_place
def _matches(y: Floats, sizes: Floats, other: int, k: int, slack: Floats, beaten: bool) -> bool:
    above = not beaten
    for j in range(y.shape[1]):
        rise, noise = y[other, j] - y[k, j], TOLERANCE * max(sizes[other, j], sizes[k, j])
        if rise < -slack[j] - noise:
            return False
        above |= rise > slack[j] + noise
    return above
