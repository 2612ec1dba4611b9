"""Plain, slow, independent versions of the fast routines. They share no code with the package."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations, product
from math import gcd, lcm

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, linprog, milp

# ---- cones ----------------------------------------------------------------------------------------------------------


def _null_vector(rows: list[list[Fraction]], dim: int) -> list[Fraction] | None:
    """The one direction orthogonal to all rows, or None if there is none or more than one."""
    matrix = [list(r) for r in rows]
    pivots: list[int] = []
    for column in range(dim):
        r = next((i for i in range(len(pivots), len(matrix)) if matrix[i][column] != 0), None)
        if r is None:
            continue
        k = len(pivots)
        matrix[k], matrix[r] = matrix[r], matrix[k]
        lead = matrix[k][column]
        matrix[k] = [x / lead for x in matrix[k]]
        for i in range(len(matrix)):
            if i != k and matrix[i][column] != 0:
                f = matrix[i][column]
                matrix[i] = [x - f * y for x, y in zip(matrix[i], matrix[k], strict=True)]
        pivots.append(column)
    if len(pivots) != dim - 1:
        return None
    free = next(c for c in range(dim) if c not in pivots)
    v = [Fraction(0)] * dim
    v[free] = Fraction(1)
    for i, c in enumerate(pivots):
        v[c] = -matrix[i][free]
    return v


def integer_direction(v: list[Fraction]) -> tuple[int, ...]:
    scale = lcm(*(x.denominator for x in v))
    w = [int(x * scale) for x in v]
    g = gcd(*w)
    return tuple(x // g for x in w)


def facets_by_enumeration(rays: list[tuple[int, ...]]) -> set[tuple[int, ...]]:
    """Facet normals of a full-dimensional cone: every hyperplane through d-1 rays that has all rays on one side."""
    dim = len(rays[0])
    found = set()
    for chosen in combinations(rays, dim - 1):
        v = _null_vector([[Fraction(x) for x in r] for r in chosen], dim)
        if v is None:
            continue
        heights = [sum(a * b for a, b in zip(v, r, strict=True)) for r in rays]
        if all(h >= 0 for h in heights):
            found.add(integer_direction(v))
        elif all(h <= 0 for h in heights):
            found.add(integer_direction([-x for x in v]))
    return found


def directions(rows: np.ndarray) -> set[tuple[int, ...]]:
    """Float rows of dyadic numbers as integer directions."""
    return {integer_direction([Fraction(float(x)) for x in row]) for row in rows}


# ---- fronts ---------------------------------------------------------------------------------------------------------


def front_by_pairs(points: np.ndarray, facets: np.ndarray, tolerance: float = 1e-12) -> np.ndarray:
    """Compare every pair of points by their difference."""
    n = len(points)
    mask = np.ones(n, dtype=bool)
    for k in range(n):
        for i in range(n):
            rise = facets @ (points[i] - points[k])
            noise = tolerance * (np.abs(facets) @ np.maximum(np.abs(points[i]), np.abs(points[k])))
            if (rise >= -noise).all() and (rise > noise).any():
                mask[k] = False
    return mask


def front_exactly(points: list[list[int]], facets: list[list[int]]) -> list[bool]:
    """Integer points under integer facets, in integer arithmetic."""
    images = [[sum(w * x for w, x in zip(row, p, strict=True)) for row in facets] for p in points]
    return [not any(all(a >= b for a, b in zip(i, k, strict=True)) and i != k for i in images) for k in images]


# ---- gaps -----------------------------------------------------------------------------------------------------------


def smallest_move_by_milp(
    x: np.ndarray, front: np.ndarray, facets: np.ndarray, scale: np.ndarray, most: float
) -> float:
    """Smallest t with 0 <= u <= t such that x + u * scale is not strongly dominated; inf if none up to ``most``.

    One binary for each front point and facet says by which facet the front point is escaped. The binaries that the
    solver finds are then fixed and the rest is solved again as a linear program, which takes the big-M slack away.
    """
    n_rows, dim = facets.shape
    moves = facets * scale
    deficits = (front - x) @ facets.T  # (P, F)
    n_binary = deficits.size
    cost = np.zeros(dim + 1 + n_binary)
    cost[dim] = 1.0
    lowest = np.minimum(moves, 0).sum(axis=1) * most
    big = np.maximum(deficits - lowest, 0.0)
    rows, lower = [], []
    for p in range(len(front)):
        for j in range(n_rows):
            row = np.zeros_like(cost)
            row[:dim] = moves[j]
            row[dim + 1 + p * n_rows + j] = -big[p, j]
            rows.append(row)
            lower.append(deficits[p, j] - big[p, j])
        row = np.zeros_like(cost)
        row[dim + 1 + p * n_rows : dim + 1 + (p + 1) * n_rows] = 1.0
        rows.append(row)
        lower.append(1.0)
    for m in range(dim):
        row = np.zeros_like(cost)
        row[dim], row[m] = 1.0, -1.0
        rows.append(row)
        lower.append(0.0)
    upper = np.r_[np.full(dim + 1, most), np.ones(n_binary)]
    result = milp(
        cost,
        constraints=LinearConstraint(np.array(rows), np.array(lower), np.inf),
        integrality=np.r_[np.zeros(dim + 1), np.ones(n_binary)],
        bounds=Bounds(0, upper),
        options={"mip_rel_gap": 0.0},
    )
    if result.status == 2:
        return np.inf
    assert result.status == 0, result.message
    chosen = result.x[dim + 1 :].reshape(deficits.shape) > 0.5
    need = np.where(chosen, deficits, -np.inf).max(axis=0)
    return smallest_move_for_need(moves, need)


def smallest_move_for_need(moves: np.ndarray, need: np.ndarray) -> float:
    """Least t with moves @ u >= need, 0 <= u <= t, by scipy's linear programming."""
    dim = moves.shape[1]
    real = np.isfinite(need)
    a_ub = np.block([[-moves[real], np.zeros((real.sum(), 1))], [np.eye(dim), -np.ones((dim, 1))]])
    b_ub = np.r_[-need[real], np.zeros(dim)]
    result = linprog(np.r_[np.zeros(dim), 1.0], A_ub=a_ub, b_ub=b_ub, bounds=[(0, None)] * (dim + 1))
    return float(result.fun) if result.status == 0 else np.inf


def smallest_move_by_corners(
    x: np.ndarray, front: np.ndarray, facets: np.ndarray, scale: np.ndarray, slack: np.ndarray | float = 0.0
) -> float:
    """The same by trying every assignment of front points to facets (tiny fronts only).

    With a slack on each facet, front points dominate only if they are above by more than that.
    """
    moves = facets * scale
    deficits = (front - x) @ facets.T - slack
    best = np.inf
    for choice in product(range(len(facets)), repeat=len(front)):
        need = np.full(len(facets), -np.inf)
        for p, j in enumerate(choice):
            need[j] = max(need[j], deficits[p, j])
        best = min(best, smallest_move_for_need(moves, need))
    return best


def closed_form_gap(x: np.ndarray, front: np.ndarray, facets: np.ndarray) -> float:
    """For cones that contain the orthant."""
    ratios = (front @ facets.T) / (facets @ x)
    return float(max(0.0, np.log(ratios.min(axis=1).max())))


# ---- reports --------------------------------------------------------------------------------------------------------


def closed_form_shortfall(reported: np.ndarray, front: np.ndarray, facets: np.ndarray) -> float:
    """For cones that contain the orthant; for the orthant itself the log of the multiplicative epsilon indicator."""
    factors = (front @ facets.T)[:, None] / (reported @ facets.T)[None]  # (P, R, F)
    return float(np.log(max(1.0, factors.max(axis=2).min(axis=1).max())))


def shortfall_by_linprog(reported: np.ndarray, front: np.ndarray, facets: np.ndarray) -> float:
    """For any cone: a linear program for each pair, in the factors themselves."""
    hardest = 0.0
    for p in front:
        easiest = min(smallest_move_for_need(facets * r, facets @ (p - r)) for r in reported)
        hardest = max(hardest, easiest)
    return float(np.log1p(hardest))


def scaled_facets(facets: np.ndarray, resolution: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Facets divided by the L1 norm of their rows, and the resolution of each: the mean by the weights of its row."""
    weights = np.abs(facets) / np.abs(facets).sum(axis=1, keepdims=True)
    return facets / np.abs(facets).sum(axis=1, keepdims=True), weights @ resolution


def relations(points: np.ndarray, facets: np.ndarray, resolution: np.ndarray) -> tuple[np.ndarray, ...]:
    """(N, N) tables, by the definitions: whether a covers b, makes it inessential, makes it unacceptable."""
    scaled, eps = scaled_facets(facets, resolution)
    n = len(points)
    covers, beats, shames = (np.zeros((n, n), dtype=bool) for _ in range(3))
    for a in range(n):
        for b in range(n):
            rise = scaled @ points[a] - scaled @ points[b]
            noise = 1e-12 * (np.abs(scaled) @ np.maximum(np.abs(points[a]), np.abs(points[b])))
            covers[a, b] = (rise >= -eps - noise).all()
            beats[a, b] = covers[a, b] and (rise > eps + noise).any()
            shames[a, b] = (rise > eps + noise).all()
    return covers, beats, shames


def essential_by_pairs(points: np.ndarray, facets: np.ndarray, resolution: np.ndarray) -> np.ndarray:
    """Arms that no arm makes inessential; the front if there is none."""
    found = ~relations(points, facets, resolution)[1].any(axis=0)
    return found if found.any() else front_by_pairs(points, facets)
