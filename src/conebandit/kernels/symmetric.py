"""A symmetric matrix times vectors, from its upper triangle: here the default policy spends most of its time.

With many features the matrices of all arms do not fit into the caches near the processor, so what counts is how much of
them is read. Of each number in the triangle both products are made: one is added to a vector, the other one to a sum
along the row. That sum is made of four partial sums, four rows at once.

For four vectors at once, the same sums are made in the same order, but those of a column, and then those of a row, stay
in registers: that takes two thirds of the time of four vectors one by one.
"""

from __future__ import annotations

from typing import Any

from numba.extending import intrinsic

from conebandit.kernels.compile import in_place
from conebandit.kernels.types import Floats
from conebandit.kernels.vectors import INDEX, LANES, Rows, Writer, vector_code

BLOCK = LANES  # rows at once
VECTORS = 4  # at once
_PAIR = 2


@in_place
def multiply_symmetric(matrix: Floats, x: Floats, product: Floats) -> None:
    """Write ``matrix`` times ``x``; of the matrix, blocks of four rows and columns below the diagonal are not read."""
    n = x.size
    whole = n - n % BLOCK
    for i in range(n):
        product[i] = 0.0
    for row in range(0, whole, BLOCK):
        _add_four_rows(matrix, x, product, row, whole)  # type: ignore[call-arg]
    _add_last_columns(matrix, x, product, whole)


@in_place
def multiply_symmetric_by_four(matrix: Floats, x: Floats, products: Floats) -> None:
    """Write ``matrix`` times each of the four rows of ``x``: bit for bit what :func:`multiply_symmetric` says."""
    n = x.shape[1]
    whole = n - n % BLOCK
    for c in range(VECTORS):
        for i in range(whole, n):
            products[c, i] = 0.0
    for column in range(0, whole - BLOCK, _PAIR * BLOCK):
        _sum_down_two_blocks(matrix, x, products, column)  # type: ignore[call-arg]
    if whole % (_PAIR * BLOCK):
        _sum_down_one_block(matrix, x, products, whole - BLOCK)  # type: ignore[call-arg]
    for row in range(0, whole, BLOCK):
        for first in range(0, VECTORS, _PAIR):
            _add_sums_along(matrix, x, products, row, whole, first)  # type: ignore[call-arg]
    for c in range(VECTORS):
        _add_last_columns(matrix, x[c], products[c], whole)


@in_place
def _add_last_columns(matrix: Floats, x: Floats, product: Floats, whole: int) -> None:
    """Add what columns contribute that do not fill a block."""
    for i in range(whole, x.size):
        for j in range(i):
            product[i] += matrix[j, i] * x[j]
            product[j] += matrix[j, i] * x[i]
        product[i] += matrix[i, i] * x[i]


# ---- one vector ---------------------------------------------------------------------------------------------------


@intrinsic
def _add_four_rows(_typing: Any, matrix: Any, x: Any, product: Any, row: Any, end: Any) -> tuple[Any, Any]:
    """Add what rows ``row``, ..., ``row`` + 3 and the columns of the same numbers, up to column ``end``, contribute."""
    return vector_code(_write_four_rows, (matrix, x, product), 2)


def _write_four_rows(write: Writer, matrix: Rows, x: Rows, product: Rows, row: Any, end: Any) -> None:
    """The block on the diagonal, which is whole, and then the blocks to its right, of which each counts twice."""
    builder = write.builder
    numbers = [builder.add(row, INDEX(r)) for r in range(BLOCK)]
    rows = [matrix.row(number) for number in numbers]
    next_rows = [matrix.row(builder.add(number, INDEX(BLOCK))) for number in numbers]
    shares = [write.number(x.start, number) for number in numbers]
    along = write.places(BLOCK)
    here = write.load(product.start, row)
    for share, start in zip(shares, rows, strict=True):
        here = write.plus(here, share, write.load(start, row))
    write.store(here, product.start, row)
    with write.steps(builder.add(row, INDEX(BLOCK)), end, BLOCK) as i:
        for start in next_rows:
            write.fetch(start, i)
        factors, there = write.load(x.start, i), write.load(product.start, i)
        for share, start, total in zip(shares, rows, along, strict=True):
            values = write.load(start, i)
            there = write.plus(there, share, values)
            write.add(total, values, factors)
        write.store(there, product.start, i)
    totals = write.sums([builder.load(total) for total in along])
    write.store(builder.fadd(write.load(product.start, row), totals), product.start, row)


# ---- four vectors -------------------------------------------------------------------------------------------------


@intrinsic
def _sum_down_two_blocks(_typing: Any, matrix: Any, x: Any, products: Any, column: Any) -> tuple[Any, Any]:
    """Write what is above the diagonal in eight columns from ``column`` on, and the blocks on it, contribute."""
    return vector_code(lambda *given: _write_sums_down(_PAIR, *given), (matrix, x, products), 1)


@intrinsic
def _sum_down_one_block(_typing: Any, matrix: Any, x: Any, products: Any, column: Any) -> tuple[Any, Any]:
    """The same in four columns."""
    return vector_code(lambda *given: _write_sums_down(1, *given), (matrix, x, products), 1)


def _write_sums_down(blocks: int, write: Writer, matrix: Rows, x: Rows, products: Rows, column: Any) -> None:
    """A block ends with the rows on the diagonal: those to its right go on."""
    builder, vectors = write.builder, [INDEX(c) for c in range(VECTORS)]
    columns = [builder.add(column, INDEX(BLOCK * b)) for b in range(blocks)]
    totals = [write.places(blocks) for _ in vectors]
    first: Any = INDEX(0)
    for done in range(blocks):
        end = builder.add(columns[done], INDEX(BLOCK))
        with write.steps(first, end, 1) as j:
            values = [write.load(matrix.row(j), at) for at in columns[done:]]
            for vector, total in zip(vectors, totals, strict=True):
                share = write.number(x.row(vector), j)
                for place, value in zip(total[done:], values, strict=True):
                    write.add(place, share, value)
        first = end
    for vector, total in zip(vectors, totals, strict=True):
        for place, at in zip(total, columns, strict=True):
            write.store(builder.load(place), products.row(vector), at)


@intrinsic
def _add_sums_along(
    _typing: Any, matrix: Any, x: Any, products: Any, row: Any, end: Any, first: Any
) -> tuple[Any, Any]:
    """Add the sums along four rows, right of the block on the diagonal, for vectors ``first`` and ``first`` + 1."""
    return vector_code(_write_sums_along, (matrix, x, products), 3)


def _write_sums_along(write: Writer, matrix: Rows, x: Rows, products: Rows, row: Any, end: Any, first: Any) -> None:
    builder = write.builder
    rows = [matrix.row(builder.add(row, INDEX(r))) for r in range(BLOCK)]
    vectors = [builder.add(first, INDEX(c)) for c in range(_PAIR)]
    totals = [write.places(BLOCK) for _ in vectors]
    with write.steps(builder.add(row, INDEX(BLOCK)), end, BLOCK) as i:
        values = [write.load(start, i) for start in rows]
        for vector, total in zip(vectors, totals, strict=True):
            factors = write.load(x.row(vector), i)
            for place, value in zip(total, values, strict=True):
                write.add(place, value, factors)
    for vector, total in zip(vectors, totals, strict=True):
        sums, start = write.sums([builder.load(place) for place in total]), products.row(vector)
        write.store(builder.fadd(write.load(start, row), sums), start, row)
