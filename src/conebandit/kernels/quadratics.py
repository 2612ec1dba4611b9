"""Quadratic functions on a box by their coefficients: what to expect of them, halving the box, and least squares.

Features are products of coordinates u in [-1, 1]^d of the box: 1, every u_j, every (3 u_j^2 - 1) / 2, and perhaps every
u_i u_j. ``terms`` (p, 2) says which coordinates make up a feature, -1 for none.
"""

from __future__ import annotations

import numpy as np

from conebandit.kernels.compile import compiled, in_place
from conebandit.kernels.types import Floats, Ints


@in_place
def prior_variance(terms: Ints, a: int) -> float:
    """1 / (mean square of a feature on its box): a prior that expects as much from every feature."""
    if terms[a, 0] < 0:
        return 1.0
    if terms[a, 1] < 0:
        return 3.0
    return 5.0 if terms[a, 0] == terms[a, 1] else 9.0


@compiled
def halving(terms: Ints, axis: int, upper: bool) -> Floats:
    """The matrix (p, p) that takes coefficients in a box to those of the same function in one of its halves.

    With u = (v + s) / 2, s = 1 in the upper half and -1 in the lower one, u_i u = u_i v / 2 + s u_i / 2, and
    (3 u^2 - 1) / 2 = (3 v^2 - 1) / 8 + 3 s v / 4.
    """
    sign = 0.5 if upper else -0.5
    matrix = np.eye(terms.shape[0])
    for a in range(1, terms.shape[0]):
        one, two = terms[a, 0], terms[a, 1]
        if one == axis and two == axis:
            matrix[a, a], matrix[1 + axis, a] = 0.25, 1.5 * sign
        elif axis in (one, two):
            other = two if one == axis else one  # -1 for the coordinate itself, whose partner is the constant
            matrix[a, a], matrix[1 + other, a] = 0.5, sign
    return matrix


@in_place
def least_squares(gram: Floats, moment: Floats, total: float) -> tuple[float, int]:
    """Residual sum of squares and rank, by Cholesky's method in place; dependent features are left out."""
    rank = 0
    for a in range(moment.size):
        pivot = gram[a, a]
        for c in range(a):
            pivot -= gram[a, c] ** 2
        if pivot <= 1e-9 * gram[a, a]:
            gram[a:, a] = 0.0
            moment[a] = 0.0
            continue
        rank += 1
        root = np.sqrt(pivot)
        gram[a, a] = root
        for b in range(a + 1, moment.size):
            for c in range(a):
                gram[b, a] -= gram[b, c] * gram[a, c]
            gram[b, a] /= root
        for c in range(a):
            moment[a] -= gram[a, c] * moment[c]
        moment[a] /= root
        total -= moment[a] ** 2
    return max(total, 0.0), rank
