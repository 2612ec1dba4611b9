"""By what factor a reported set must improve to weakly dominate a front.

A reported point ``x`` comes to weakly dominate a front point ``p`` by a move to ``x + u * x`` with ``0 <= u <= t``;
wanted is the smallest ``t = G - 1``, as for the gap. If the cone contains the orthant, moving all coordinates alike is
optimal, and ``log G`` is the largest difference of the logs of the facet coordinates (:func:`shortfalls_by_logs`).
Otherwise it is a small linear program for each pair (:func:`shortfalls_by_programs`).
"""

from __future__ import annotations

import numpy as np

from conebandit.kernels.compile import compiled, in_place
from conebandit.kernels.gap import Bools, Floats, Workspace, fill_moves, front_values, least_move, positions, workspace
from conebandit.kernels.order import TOLERANCE


@compiled
def shortfalls_by_logs(own: Floats, front: Floats, in_own: Bools, in_front: Bools) -> Floats:
    """``log G`` for n pairs of sets, given the logs of their facet coordinates, (n, K, F) and (n, P, F), and masks."""
    n = own.shape[0]
    result = np.empty(n)
    first, second = np.empty(own.shape[1], dtype=np.int64), np.empty(front.shape[1], dtype=np.int64)
    for i in range(n):
        n_first, n_second = positions(in_own, i, first), positions(in_front, i, second)
        largest = 0.0
        for q in range(n_second):
            least = np.inf
            for p in range(n_first):
                rise = 0.0
                for j in range(own.shape[2]):
                    rise = max(rise, front[i, second[q], j] - own[i, first[p], j])
                least = min(least, rise)
                if least <= largest:  # this front point is not the hardest
                    break
            largest = max(largest, least)
        result[i] = largest if largest > TOLERANCE else 0.0
    return result


@compiled
def shortfalls_by_programs(
    points: Floats, fronts: Floats, in_points: Bools, in_fronts: Bools, facets: Floats, relative: float
) -> Floats:
    """Smallest ``t`` for n pairs of sets, (n, K, M) and (n, P, M), with masks.

    Parameters
    ----------
    points, fronts, in_points, in_fronts
        The reported points and the front.
    facets
        Shape (F, M).
    relative
        Multiple of the point relative to which moves are measured.

    Returns
    -------
    numpy.ndarray
        Shape (n,); inf if no move helps.
    """
    n, arms, dim = points.shape
    rows, most = facets.shape[0], fronts.shape[1]
    result = np.zeros(n)
    own, own_sizes = np.empty((arms, rows)), np.empty((arms, rows))
    values, sizes = np.empty((most, rows)), np.empty((most, rows))
    reported = np.empty(arms, dtype=np.int64)
    moves, speed = np.empty((rows, dim)), np.empty(rows)
    work = workspace(rows, dim, 1)
    for i in range(n):
        front_values(points, in_points, i, facets, own, own_sizes)
        n_reported = positions(in_points, i, reported)
        for q in range(front_values(fronts, in_fronts, i, facets, values, sizes)):
            least = np.inf
            for p in range(n_reported):  # most front points are reported; then no program is needed
                if not _fill_need(values, sizes, q, own, own_sizes, p, work):
                    least = 0.0
                    break
            p = 0
            while p < n_reported and least > result[i]:  # otherwise this front point is not the hardest
                _fill_need(values, sizes, q, own, own_sizes, p, work)
                fill_moves(points, i, reported[p], facets, relative, moves, speed)
                least = min(least, _least_reach(moves, least, work))
                p += 1
            result[i] = max(result[i], least)
    return result


@in_place
def _fill_need(values: Floats, sizes: Floats, q: int, own: Floats, own_sizes: Floats, p: int, work: Workspace) -> bool:
    """Fill the rise that each facet of reported point ``p`` needs, zero for a tie; whether it needs one at all."""
    need, any_rise = work[3], False
    for j in range(values.shape[1]):
        rise = values[q, j] - own[p, j]
        need[0, j] = rise if abs(rise) > TOLERANCE * max(sizes[q, j], own_sizes[p, j]) else 0.0
        any_rise |= need[0, j] > 0.0
    return any_rise


@in_place
def _least_reach(moves: Floats, below: float, work: Workspace) -> float:
    """Smallest ``t`` that raises every facet as needed; inf if it is not ``below`` what is known already.

    Needs are measured in units of a lower bound on ``t``, so that the tolerances of the program are relative.
    """
    rows, dim = moves.shape
    table, basic, free, need, found = work[0], work[1], work[2], work[3], work[4]
    unit = 0.0
    for j in range(rows):
        most = 0.0  # by how much a move with t = 1 can raise this facet
        for m in range(dim):
            most += max(moves[j, m], 0.0)
        if need[0, j] > 0.0:
            unit = max(unit, need[0, j] / most)
    if unit >= below:
        return np.inf
    for j in range(rows):
        need[0, j] /= unit
    least_move(moves, need, 0, table, basic, free, found)
    return float(found[0, dim] * unit)
