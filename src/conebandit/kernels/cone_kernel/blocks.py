"""Linear algebra for the fits and updates: rows of matrices added to each other, four at a time.

Loops run along the last axis and add to a vector: the compiler can use vector instructions without changing the order
of any sum, so that results are the same on every machine. Four rows (``BLOCK``) are added at once, so that what they
are added to is read and written a quarter as often. Rows are taken as ``a[j, k:]``, never out of ``a[j:, k:]``: a row
of the latter is not known to be contiguous, and loops over it would not be vectorised.
"""

from __future__ import annotations

import math
from typing import Any

from numba.extending import intrinsic

from conebandit.kernels.compile import in_place
from conebandit.kernels.cone_kernel.constants import BLOCK, N_DRAWS
from conebandit.kernels.types import Bools, Floats, Ints
from conebandit.kernels.vectors import INDEX, LANES, Rows, Writer, vector_code

Four = tuple[float, float, float, float]
COLUMNS = N_DRAWS + 1  # of a table of weights: the mean and the draws


@in_place
def add_rows(total: Floats, shares: Floats, rows: Floats) -> None:
    """Add ``shares[k] * rows[k]`` for k = 0, ... to ``total``, which may be shorter than the rows."""
    whole = shares.size - shares.size % BLOCK
    for k in range(0, whole, BLOCK):
        a, b, c, d = shares[k], shares[k + 1], shares[k + 2], shares[k + 3]
        p, q, r, s = rows[k], rows[k + 1], rows[k + 2], rows[k + 3]
        for i in range(total.size):
            total[i] = (((total[i] + a * p[i]) + b * q[i]) + c * r[i]) + d * s[i]
    for k in range(whole, shares.size):
        share, row = shares[k], rows[k]
        for i in range(total.size):
            total[i] += share * row[i]


@in_place
def predict_columns(weights: Floats, phi: Floats, values: Floats) -> None:
    """Write the predictions of all columns of the weights (D, L) at features ``phi`` into ``values`` (L,).

    Each is the sum over features in their order.
    """
    _sum_columns(weights, phi, values)  # type: ignore[call-arg]


@intrinsic
def _sum_columns(_typing: Any, weights: Any, phi: Any, values: Any) -> tuple[Any, Any]:
    """The number of columns is known, so that their sums stay in registers, which a compiler does not see."""
    return vector_code(_write_column_sums, (weights, phi, values), 0)


def _write_column_sums(write: Writer, weights: Rows, phi: Rows, values: Rows) -> None:
    columns = [INDEX(c) for c in range(0, COLUMNS, LANES)]
    totals = write.places(len(columns))
    with write.steps(INDEX(0), phi.length, 1) as j:
        share, row = write.number(phi.start, j), weights.row(j)
        for total, column in zip(totals, columns, strict=True):
            write.add(total, share, write.load(row, column))
    for total, column in zip(totals, columns, strict=True):
        write.store(write.builder.load(total), values.start, column)


@in_place
def add_transposed(total: Floats, lower: Floats, share: float) -> None:
    """Add ``share`` times the transpose of a lower triangle; by blocks, so that what is read and written is near."""
    for first in range(0, lower.shape[0], BLOCK):
        last = min(first + BLOCK, lower.shape[0])
        for i in range(last):
            for j in range(max(first, i), last):
                total[i, j] += share * lower[j, i]


@in_place
def write_transposed(upper: Floats, lower: Floats) -> None:
    """Write the transpose of an upper triangle; entries above it are left alone, but for blocks on the diagonal.

    The number of rows is a multiple of four.
    """
    for first in range(0, upper.shape[0], BLOCK):
        for j in range(0, first + BLOCK, BLOCK):
            for i in range(first, first + BLOCK):
                for k in range(j, j + BLOCK):
                    lower[i, k] = upper[k, i]


@in_place
def add_four_products(matrix: Floats, phi: Floats) -> None:
    """Add phi phi' of the four rows of ``phi``, one after the other, to the lower triangle of ``matrix``."""
    p, q, r, s = phi[0], phi[1], phi[2], phi[3]
    last = matrix.shape[0] - 1
    for j in range(0, last, 2):
        add_four_to_two(matrix[j, : j + 1], matrix[j + 1, : j + 1], column(phi, j), column(phi, j + 1), p, q, r, s)
        matrix[j + 1, j + 1] = _add_product_of_columns(matrix[j + 1, j + 1], phi, j + 1, j + 1)
    if last % 2 == 0:
        for i in range(last + 1):
            matrix[last, i] = _add_product_of_columns(matrix[last, i], phi, last, i)


@in_place
def _add_product_of_columns(total: float, phi: Floats, j: int, i: int) -> float:
    for row in range(BLOCK):
        total += phi[row, j] * phi[row, i]
    return total


@in_place
def add_products(matrix: Floats, phi: Floats, rows: int, fresh: Bools, fresh_columns: Ints) -> None:
    """Add phi phi' of the first ``rows`` rows of ``phi`` to the lower triangle, where row or column is ``fresh``."""
    for row in range(rows):
        for j in range(matrix.shape[0]):
            if fresh[j]:
                for i in range(j + 1):
                    matrix[j, i] += phi[row, j] * phi[row, i]
            else:
                for i in fresh_columns:
                    if i < j:
                        matrix[j, i] += phi[row, j] * phi[row, i]


@in_place
def column(rows: Floats, j: int) -> Four:
    """Column ``j`` of four rows."""
    return rows[0, j], rows[1, j], rows[2, j], rows[3, j]


@in_place
def _minus_first_four(a: Floats) -> Four:
    return -a[0], -a[1], -a[2], -a[3]


@in_place
def add_four_to_two(one: Floats, other: Floats, a: Four, b: Four, p: Floats, q: Floats, r: Floats, s: Floats) -> None:
    """Add rows p, q, r, s with weights ``a`` to ``one`` and with weights ``b`` to ``other``, which may be shorter.

    This is where fits spend their time: of each number that is read, all is made before the next one is read.
    """
    for i in range(one.size):
        x, y, z, w = p[i], q[i], r[i], s[i]
        one[i] = (((one[i] + a[0] * x) + a[1] * y) + a[2] * z) + a[3] * w
        other[i] = (((other[i] + b[0] * x) + b[1] * y) + b[2] * z) + b[3] * w


@in_place
def add_symmetric_row(row: Floats, weight: float, total: Floats, j: int) -> None:
    """Add ``weight`` times row ``j`` of a lower triangle, entries left of the diagonal counted twice."""
    twice = 2.0 * weight
    for i in range(j):
        total[i] += row[i] * twice
    total[j] += row[j] * weight


@in_place
def cholesky(a: Floats) -> None:
    """Replace the upper triangle of a positive definite matrix by R with R'R = a; below it, entries lose their meaning.

    The number of rows is a multiple of four. When four rows are done, all others are rid of them.
    """
    n = a.shape[0]
    for first in range(0, n, BLOCK):
        for j in range(first, first + BLOCK):
            row = a[j, j:]
            for k in range(first, j):
                share, done = a[k, j], a[k, j:]
                for i in range(row.size):
                    row[i] -= share * done[i]
            scale = 1.0 / math.sqrt(row[0])
            for i in range(row.size):
                row[i] *= scale
        p, q, r, s = a[first], a[first + 1], a[first + 2], a[first + 3]
        for j in range(first + BLOCK, n, 2):
            one, other = (-p[j], -q[j], -r[j], -s[j]), (-p[j + 1], -q[j + 1], -r[j + 1], -s[j + 1])
            add_four_to_two(a[j, j:], a[j + 1, j:], one, other, p[j:], q[j:], r[j:], s[j:])


@in_place
def invert(root: Floats, inverse: Floats) -> None:
    """Inverse of an upper triangular matrix, from its last rows up; ``inverse`` comes as zeros."""
    n = root.shape[0]
    for j in range(n):
        inverse[j, j] = 1.0
    for first in range(n - BLOCK, -1, -BLOCK):
        for j in range(first + BLOCK - 1, first - 1, -1):
            row = inverse[j, first:]
            for k in range(j + 1, first + BLOCK):
                share, done = root[j, k], inverse[k, first:]
                for i in range(row.size):
                    row[i] -= share * done[i]
            scale = 1.0 / root[j, j]
            for i in range(row.size):
                row[i] *= scale
        p, q = inverse[first, first:], inverse[first + 1, first:]
        r, s = inverse[first + 2, first:], inverse[first + 3, first:]
        for j in range(0, first, 2):
            one, other = _minus_first_four(root[j, first:]), _minus_first_four(root[j + 1, first:])
            add_four_to_two(inverse[j, first:], inverse[j + 1, first:], one, other, p, q, r, s)
