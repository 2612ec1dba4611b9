"""How far a point is from not being dominated, and how far two sets are apart.

A point ``x`` escapes a front by a move to ``x + u * scale`` with ``0 <= u <= t``; wanted is the smallest ``t`` such
that no front point strongly dominates it any more. With ``scale = x`` and ``t = G - 1`` this is the
gap of the paper (Definition 5), ``log G``; with ``scale = 1`` it is its additive sibling.

In facet coordinates a front point ``p`` no longer dominates iff *some* facet ``j`` has ``(A u)_j >= deficit_pj``, where
``A = W diag(scale)`` and ``deficit_p = W (p - x)``. If the cone contains the orthant, moving all coordinates alike is
optimal (:func:`_escape_along`). Otherwise coordinates compete, and :func:`_escape_freely` branches over the facet by
which to escape each front point, with a small linear program as the bound. The two are compiled apart: most cones never
need the search.

Steps of the innermost loops are ``inlined``: as calls they would cost up to a fifth more time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from conebandit.kernels.compile import compiled, in_place, inlined
from conebandit.kernels.order import TOLERANCE, facet_value

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

UNIFORM, FREE = 0, 1  # move all coordinates alike, or each on its own
SUP, EUCLIDEAN = 0, 1  # norms

Workspace = tuple[Floats, Ints, Ints, Floats, Floats, Floats, Ints]


def escapes(
    points: Floats,
    fronts: Floats,
    members: Bools,
    wanted: Bools,
    facets: Floats,
    slack: Floats,
    relative: float,
    freedom: int,
) -> Floats:
    """Smallest ``t`` for each of n sets of points.

    Parameters
    ----------
    points, fronts, members
        Shapes (n, K, M), (n, P, M), (n, P); the front of set i are the members among ``fronts[i]``.
    wanted
        Shape (n, K): for which points the answer is wanted; nan for the others.
    facets
        Shape (F, M).
    slack
        Shape (F,): on each facet, by how much more than that a front point must be above to count as above.
    relative
        Multiple of the point relative to which moves are measured (``scale = relative * x``), or 0 if they are measured
        absolutely (``scale = 1``).
    freedom
        UNIFORM or FREE.

    Returns
    -------
    numpy.ndarray
        Shape (n, K); 0 for points that no front point strongly dominates, inf if no move helps.
    """
    kernel = _escapes_along if freedom == UNIFORM else _escapes_freely
    return kernel(points, fronts, members, wanted, facets, slack, relative)


@compiled
def _escapes_along(
    points: Floats, fronts: Floats, members: Bools, wanted: Bools, facets: Floats, slack: Floats, relative: float
) -> Floats:
    return _escapes_by(_escape_along, (), points, fronts, members, wanted, facets, slack, relative)


@compiled
def _escapes_freely(
    points: Floats, fronts: Floats, members: Bools, wanted: Bools, facets: Floats, slack: Floats, relative: float
) -> Floats:
    work = workspace(facets.shape[0], facets.shape[1], fronts.shape[1])
    return _escapes_by(_escape_freely, work, points, fronts, members, wanted, facets, slack, relative)


@inlined
def _escapes_by(
    escape: Callable[..., float],
    work: tuple[Any, ...],
    points: Floats,
    fronts: Floats,
    members: Bools,
    wanted: Bools,
    facets: Floats,
    slack: Floats,
    relative: float,
) -> Floats:
    """``escapes`` by one of the two ways to find the smallest ``t`` of a point, with the room that it needs."""
    n, arms, dim = points.shape
    rows, most = facets.shape[0], fronts.shape[1]
    result = np.empty((n, arms))
    values, sizes, deficits = np.empty((most, rows)), np.empty((most, rows)), np.empty((most, rows))
    moves, speed = np.empty((rows, dim)), np.empty(rows)
    for i in range(n):
        size = front_values(fronts, members, i, facets, values, sizes)
        for k in range(arms):
            if not wanted[i, k]:
                result[i, k] = np.nan
            elif _deficits(points, i, k, facets, slack, values, sizes, size, deficits):
                fill_moves(points, i, k, facets, relative, moves, speed)
                result[i, k] = escape(moves, speed, deficits, size, work)
            else:
                result[i, k] = 0.0
    return result


@inlined
def front_values(fronts: Floats, members: Bools, i: int, facets: Floats, values: Floats, sizes: Floats) -> int:
    """Fill the facet coordinates of the front of set ``i``, and the sizes of their terms; how many points it has."""
    size = 0
    for p in range(fronts.shape[1]):
        if members[i, p]:
            for j in range(facets.shape[0]):
                values[size, j], sizes[size, j] = facet_value(facets, j, fronts, i, p)
            size += 1
    return size


@inlined
def fill_moves(points: Floats, i: int, k: int, facets: Floats, relative: float, moves: Floats, speed: Floats) -> None:
    """Fill ``A = W diag(scale)``, and for each facet how fast it rises when all coordinates move alike."""
    for j in range(facets.shape[0]):
        speed[j] = 0.0
        for m in range(facets.shape[1]):
            moves[j, m] = facets[j, m] * (relative * points[i, k, m] if relative else 1.0)
            speed[j] += moves[j, m]


@in_place
def _deficits(
    points: Floats,
    i: int,
    k: int,
    facets: Floats,
    slack: Floats,
    values: Floats,
    sizes: Floats,
    size: int,
    deficits: Floats,
) -> bool:
    """Fill ``deficits[p, j] = w_j . (p - x) - slack_j``, zero for a tie; say whether some front point has all above."""
    rows = facets.shape[0]
    for j in range(rows):
        own, own_size = facet_value(facets, j, points, i, k)
        for p in range(size):
            rise = values[p, j] - own - slack[j]
            deficits[p, j] = rise if abs(rise) > TOLERANCE * max(sizes[p, j], own_size) else 0.0
    for p in range(size):
        above = True
        for j in range(rows):
            above &= deficits[p, j] > 0.0
        if above:
            return True
    return False


@in_place
def _escape_along(moves: Floats, speed: Floats, deficits: Floats, size: int, work: tuple[Any, ...]) -> float:
    """Smallest uniform ``t``: the first one outside every front point's interval of domination.

    ``speed[j]`` is how fast facet j rises when all coordinates move alike; nothing else is needed.
    """
    t, moved, falling = 0.0, True, False
    for j in range(speed.size):
        falling |= speed[j] < 0.0
    while moved:
        moved = False
        for p in range(size):
            low, high = -np.inf, np.inf
            for j in range(speed.size):
                if speed[j] > 0.0:
                    high = min(high, deficits[p, j] / speed[j])
                elif speed[j] < 0.0:
                    low = max(low, deficits[p, j] / speed[j])
                elif deficits[p, j] <= 0.0:
                    high = -np.inf
            if t - low > TOLERANCE * t and high - t > TOLERANCE * t:
                if high == np.inf:
                    return np.inf
                t = high
                # Only where a facet falls on the way can a later t be worse than an earlier one.
                moved = falling
    return t


@compiled
def workspace(rows: int, dim: int, most: int) -> Workspace:
    """Room for one linear program and for the branching, made once for many points."""
    depth = rows * (most + 1) + 2  # every branch settles at least one front point; one row to spare
    return (
        np.empty((rows + dim + 1, dim + 2)),  # the dictionary of the linear program
        np.empty(rows + dim, dtype=np.int64),  # which variables are basic
        np.empty(dim + 1, dtype=np.int64),  # which are not
        np.empty((depth, rows)),  # stack: what each facet must reach
        np.empty((depth, dim + 1)),  # stack: the moves u and their size t
        np.empty((depth, rows)),  # stack: what each facet must stay below
        np.empty(depth, dtype=np.int64),  # stack: the facet that a child was made for
    )


@in_place
def _escape_freely(moves: Floats, speed: Floats, deficits: Floats, size: int, work: Workspace) -> float:
    """Smallest free ``t`` by branch and bound over the facet by which each front point is escaped.

    ``deficits`` are changed: they are measured in units of a lower bound on ``t``, so that tolerances are relative.
    """
    rows, dim = moves.shape
    need, found, cap = work[3], work[4], work[5]
    unit = _lower_bound(moves, deficits, size)
    if unit == np.inf:
        return np.inf
    for p in range(size):
        for j in range(rows):
            deficits[p, j] /= unit
    best = np.inf
    need[0, :] = -np.inf
    found[0, :] = 0.0
    cap[0, :] = np.inf
    top = 0
    while top >= 0:
        p = -1
        if found[top, dim] < best:
            p = _most_dominating(moves, deficits, size, need, found, top)
            if p < 0:
                best = found[top, dim]
        if p < 0:
            top -= 1
            continue
        top = _branch(moves, deficits, p, top, best, work)
    return best * unit


@in_place
def _branch(moves: Floats, deficits: Floats, p: int, top: int, best: float, work: Workspace) -> int:
    """Replace the node on top of the stack by one child for each facet by which ``p`` may be escaped.

    Children that cannot be better are left out, and the most promising one comes to lie on top; returns its position.
    A child need only look at moves that do *not* escape ``p`` by the facet of a more promising sibling, so it gets a
    cap on that facet; one whose needs reach its caps is left out too, which keeps the search from finding the same
    place along many ways.
    """
    rows, dim = moves.shape
    table, basic, free, need, found, cap, facet = work
    parent, first = need.shape[0] - 1, top
    _copy_row(need, top, parent)
    _copy_row(cap, top, parent)
    for j in range(rows):
        _copy_row(need, parent, top)
        need[top, j] = max(need[parent, j], deficits[p, j])
        facet[top] = j
        if need[top, j] < cap[parent, j]:
            least_move(moves, need, top, table, basic, free, found)
            if found[top, dim] < best:
                child = top
                while child > first and found[child - 1, dim] < found[child, dim]:
                    _swap_rows(need, child)
                    _swap_rows(found, child)
                    facet[child], facet[child - 1] = facet[child - 1], facet[child]
                    child -= 1
                top += 1
    kept = first
    for child in range(first, top):
        useful = True
        for j in range(rows):
            cap[kept, j] = cap[parent, j]
        for sibling in range(child + 1, top):
            j = facet[sibling]
            cap[kept, j] = min(cap[kept, j], deficits[p, j])
            useful &= need[child, j] < cap[kept, j]
        if useful:
            _copy_row(need, child, kept)
            _copy_row(found, child, kept)
            kept += 1
    return kept - 1


@in_place
def _copy_row(a: Floats, source: int, target: int) -> None:
    for j in range(a.shape[1]):
        a[target, j] = a[source, j]


@in_place
def _swap_rows(a: Floats, i: int) -> None:
    """Swap rows ``i`` and ``i - 1``."""
    for j in range(a.shape[1]):
        a[i, j], a[i - 1, j] = a[i - 1, j], a[i, j]


@in_place
def _lower_bound(moves: Floats, deficits: Floats, size: int) -> float:
    """A ``t`` that is needed at least: what the hardest single front point takes, each facet on its own."""
    bound = 0.0
    for p in range(size):
        easiest = np.inf
        for j in range(moves.shape[0]):
            speed = 0.0
            for m in range(moves.shape[1]):
                speed += max(moves[j, m], 0.0)
            if deficits[p, j] <= 0.0:
                easiest = 0.0
            elif speed > 0.0:
                easiest = min(easiest, deficits[p, j] / speed)
        bound = max(bound, easiest)
    return bound


@in_place
def _most_dominating(moves: Floats, deficits: Floats, size: int, need: Floats, found: Floats, node: int) -> int:
    """Front point that dominates the moved point by the widest margin; -1 if none does."""
    rows, dim = moves.shape
    worst, widest = -1, 0.0
    for p in range(size):
        margin = np.inf
        for j in range(rows):
            if need[node, j] >= deficits[p, j]:  # settled, whatever rounding says
                margin = 0.0
                break
            left = deficits[p, j]
            reach = abs(left)
            for m in range(dim):
                left -= moves[j, m] * found[node, m]
                reach += abs(moves[j, m]) * found[node, m]
            if left <= TOLERANCE * reach:
                margin = 0.0
                break
            margin = min(margin, left)
        if margin > widest:
            worst, widest = p, margin
    return worst


@in_place
def least_move(moves: Floats, need: Floats, node: int, table: Floats, basic: Ints, free: Ints, found: Floats) -> None:
    """Minimise ``t`` subject to ``moves @ u >= need[node]`` and ``0 <= u <= t``, by the dual simplex method.

    ``found[node]`` receives ``u`` and, last, ``t`` (inf if there is no solution). Variables are numbered 0..M-1 for u,
    M for t, then the slacks. The start, u = 0 and t = 0, is dual feasible; Bland's rule takes over after a while, so
    the method ends.
    """
    rows, dim = moves.shape
    used = _add_facets(moves, need, node, table, basic)
    if used < 0:
        found[node, dim] = np.inf
        return
    used = _add_bounds_and_objective(rows, dim, used, table, basic, free)
    step = 0
    while True:
        step += 1
        careful = step > 20 * (rows + dim)
        leaving = _leaving_row(table, basic, used, careful)
        if leaving < 0:
            break
        entering = _entering_column(table, free, leaving, used, careful)
        if entering < 0:
            found[node, dim] = np.inf
            return
        _pivot(table, basic, free, leaving, entering, used)
    for m in range(dim):
        found[node, m] = 0.0
    for i in range(used):
        if basic[i] < dim:
            found[node, basic[i]] = max(table[i, -1], 0.0)
    found[node, dim] = table[used, -1]


@inlined
def _add_facets(moves: Floats, need: Floats, node: int, table: Floats, basic: Ints) -> int:
    """Write one row for each facet that needs something: its slack, ``moves_j . u - need_j``, in units of the facet.

    Returns the number of rows; -1 if a facet must rise that nothing raises, so that there is no solution.
    """
    rows, dim = moves.shape
    used = 0
    for j in range(rows):
        wanted = need[node, j]
        if not wanted > -np.inf:
            continue
        unit = 0.0
        for m in range(dim):
            unit = max(unit, moves[j, m])
        if wanted <= 0.0:  # met at the start; may come to bind through the other entries
            for m in range(dim):
                unit = max(unit, -moves[j, m], -wanted)
        elif unit == 0.0:
            return -1
        if unit == 0.0:
            continue
        for m in range(dim):
            table[used, m] = moves[j, m] / unit
        table[used, dim] = 0.0
        table[used, dim + 1] = -wanted / unit
        basic[used] = dim + 1 + j
        used += 1
    return used


@inlined
def _add_bounds_and_objective(rows: int, dim: int, used: int, table: Floats, basic: Ints, free: Ints) -> int:
    """Write a row for the slack ``t - u_m`` of each bound and, last, the objective ``t``; the number of rows before it.

    Column ``dim`` is that of ``t``.
    """
    for m in range(dim):
        table[used, :] = 0.0
        table[used, m] = -1.0
        table[used, dim] = 1.0
        basic[used] = dim + 1 + rows + m
        used += 1
    table[used, :] = 0.0
    table[used, dim] = 1.0
    for m in range(dim + 1):
        free[m] = m
    return used


@in_place
def _leaving_row(table: Floats, basic: Ints, used: int, careful: bool) -> int:
    """Row with the most negative value; if careful, the negative one with the smallest variable."""
    leaving = -1
    for i in range(used):
        if table[i, -1] < -TOLERANCE and (
            leaving < 0 or (basic[i] < basic[leaving] if careful else table[i, -1] < table[leaving, -1])
        ):
            leaving = i
    return leaving


@in_place
def _entering_column(table: Floats, free: Ints, leaving: int, used: int, careful: bool) -> int:
    """Column that keeps the objective's coefficients non-negative.

    Ties go to the largest pivot; if careful, to the smallest variable.
    """
    entering, least = -1, np.inf
    for k in range(free.size):
        if table[leaving, k] > TOLERANCE:
            ratio = table[used, k] / table[leaving, k]
            if ratio < least or (
                ratio == least
                and (free[k] < free[entering] if careful else table[leaving, k] > table[leaving, entering])
            ):
                entering, least = k, ratio
    return entering


@in_place
def _pivot(table: Floats, basic: Ints, free: Ints, leaving: int, entering: int, used: int) -> None:
    """Swap a basic and a free variable: solve the leaving row for the entering variable and substitute."""
    columns = table.shape[1]
    pivot = table[leaving, entering]
    for k in range(columns):
        table[leaving, k] /= -pivot
    table[leaving, entering] = 1.0 / pivot
    for i in range(used + 1):
        factor = table[i, entering]
        if i != leaving and factor != 0.0:
            table[i, entering] = 0.0
            for k in range(columns):
                table[i, k] += factor * table[leaving, k]
    basic[leaving], free[entering] = free[entering], basic[leaving]


@compiled
def hausdorff_of_batch(a: Floats, b: Floats, in_a: Bools, in_b: Bools, norm: int) -> Floats:
    """Hausdorff distance for n pairs of sets, (n, P, M) and (n, R, M), with members given by masks."""
    n = a.shape[0]
    result = np.empty(n)
    first, second = np.empty(a.shape[1], dtype=np.int64), np.empty(b.shape[1], dtype=np.int64)
    nearest = np.empty(b.shape[1])  # distance of each member of b to the nearest one of a
    for i in range(n):
        n_first, n_second = positions(in_a, i, first), positions(in_b, i, second)
        farthest = 0.0
        nearest[:n_second] = np.inf
        for p in range(n_first):
            closest = np.inf
            for q in range(n_second):
                distance = _distance(a, first[p], b, second[q], i, norm)
                closest = min(closest, distance)
                nearest[q] = min(nearest[q], distance)
            farthest = max(farthest, closest)
        for q in range(n_second):
            farthest = max(farthest, nearest[q])
        result[i] = farthest
    return result


@in_place
def positions(mask: Bools, i: int, found: Ints) -> int:
    """Write the True positions of row ``i`` to ``found``; how many there are."""
    n = 0
    for p in range(mask.shape[1]):
        found[n] = p
        n += mask[i, p]
    return n


@in_place
def _distance(a: Floats, p: int, b: Floats, q: int, i: int, norm: int) -> float:
    widest = 0.0
    for m in range(a.shape[2]):
        widest = max(widest, abs(a[i, p, m] - b[i, q, m]))
    if norm == SUP or widest == 0.0:
        return widest
    total = 0.0
    for m in range(a.shape[2]):
        total += ((a[i, p, m] - b[i, q, m]) / widest) ** 2
    return float(widest * np.sqrt(total))
