"""A symmetric matrix times a vector, from its upper triangle: here the default policy spends most of its time.

With many features the matrices of all arms do not fit into the caches near the processor, so what counts is how much of
them is read. Of each number in the triangle both products are made: one is added to a vector, the other one to a sum
along the row. A compiler must not reorder such a sum, and so does not vectorise it; whether and how it would if it were
allowed to depends on the machine, and so would the result. Hence the inner loop is written down for LLVM as it is to
be: four rows at once, each with four partial sums. That is the same arithmetic on every machine.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.core.errors import TypingError
from numba.extending import intrinsic

from conebandit.kernels.compile import in_place
from conebandit.kernels.types import Floats

BLOCK = 4  # rows at once, and numbers in a vector
_NUMBER, _INDEX, _LANE = ir.DoubleType(), ir.IntType(64), ir.IntType(32)
_VECTOR = ir.VectorType(_NUMBER, BLOCK)
_FOR_READING, _KEEP, _DATA = 0, 3, 1  # how LLVM's prefetch is told what for


@in_place
def multiply_symmetric(matrix: Floats, x: Floats, product: Floats) -> None:
    """Write ``matrix`` times ``x``; of the matrix, blocks of four rows and columns below the diagonal are not read."""
    n = x.size
    whole = n - n % BLOCK
    for i in range(n):
        product[i] = 0.0
    for row in range(0, whole, BLOCK):
        _add_four_rows(matrix, x, product, row, whole)  # type: ignore[call-arg]
    for i in range(whole, n):  # columns that do not fill a block
        for j in range(i):
            product[i] += matrix[j, i] * x[j]
            product[j] += matrix[j, i] * x[i]
        product[i] += matrix[i, i] * x[i]


@intrinsic
def _add_four_rows(_typing: Any, matrix: Any, x: Any, product: Any, row: Any, end: Any) -> tuple[Any, Any]:
    """Add what rows ``row``, ..., ``row`` + 3 and the columns of the same numbers, up to column ``end``, contribute."""
    arrays = matrix, x, product
    if any(array.layout != "C" for array in arrays):
        raise TypingError("rows must be contiguous: the loop steps from number to number.")

    def codegen(context: Any, builder: Any, _signature: Any, values: Sequence[Any]) -> Any:
        data = [context.make_array(kind)(context, builder, value) for kind, value in zip(arrays, values, strict=False)]
        _write_loop(_Writer(builder, data[1].data, data[2].data), data[0], values[3], values[4])
        return context.get_dummy_value()

    return types.none(matrix, x, product, types.intp, types.intp), codegen


class _Writer:
    """Writes operations on vectors of four numbers; ``x`` and ``product`` are pointers to numbers."""

    def __init__(self, builder: Any, x: Any, product: Any) -> None:
        self.builder, self.x, self.product = builder, x, product

    def load(self, start: Any, i: Any) -> Any:
        """Four numbers from place ``i`` on."""
        place = self.builder.bitcast(self.builder.gep(start, [i]), _VECTOR.as_pointer())
        return self.builder.load(place, align=8)

    def store(self, value: Any, i: Any) -> None:
        """Write four numbers of the product."""
        place = self.builder.bitcast(self.builder.gep(self.product, [i]), _VECTOR.as_pointer())
        self.builder.store(value, place, align=8)

    def plus(self, total: Any, a: Any, b: Any) -> Any:
        """``total`` + ``a`` * ``b``, rounded twice."""
        return self.builder.fadd(total, self.builder.fmul(a, b))

    def pick(self, a: Any, b: Any, *places: int) -> Any:
        """Four of the eight numbers in ``a`` and ``b``."""
        return self.builder.shuffle_vector(a, b, ir.Constant(ir.VectorType(_LANE, BLOCK), list(places)))

    def repeated(self, number: Any) -> Any:
        """A number, four times."""
        nothing = ir.Constant(_VECTOR, ir.Undefined)
        return self.pick(self.builder.insert_element(nothing, number, _LANE(0)), nothing, *[0] * BLOCK)

    def sums(self, v: Sequence[Any]) -> Any:
        """The four sums over the numbers of each vector: (first + second) + (third + fourth)."""
        pairs = [
            self.builder.fadd(self.pick(a, b, 0, 4, 2, 6), self.pick(a, b, 1, 5, 3, 7))
            for a, b in ((v[0], v[1]), (v[2], v[3]))
        ]
        return self.builder.fadd(self.pick(*pairs, 0, 1, 4, 5), self.pick(*pairs, 2, 3, 6, 7))

    def fetch(self, start: Any, i: Any) -> None:
        """Have the number at place ``i`` brought near; places beyond the end of an array do no harm."""
        byte = ir.IntType(8).as_pointer()
        kind = ir.FunctionType(ir.VoidType(), [byte, _LANE, _LANE, _LANE])
        prefetch = self.builder.module.declare_intrinsic("llvm.prefetch", [byte], kind)
        place = self.builder.bitcast(self.builder.gep(start, [i]), byte)
        self.builder.call(prefetch, [place, *map(_LANE, (_FOR_READING, _KEEP, _DATA))])


def _write_loop(write: _Writer, matrix: Any, row: Any, end: Any) -> None:
    """The block on the diagonal, which is whole, and then the blocks to its right, of which each counts twice."""
    builder = write.builder
    width = builder.sdiv(cgutils.unpack_tuple(builder, matrix.strides)[0], _INDEX(8))
    numbers = [builder.add(row, _INDEX(r)) for r in range(BLOCK)]
    rows = [builder.gep(matrix.data, [builder.mul(width, number)]) for number in numbers]
    next_rows = [builder.gep(start, [builder.mul(width, _INDEX(BLOCK))]) for start in rows]
    shares = [write.repeated(builder.load(builder.gep(write.x, [number]))) for number in numbers]
    none = ir.Constant(_VECTOR, [0.0] * BLOCK)
    along = [cgutils.alloca_once(builder, _VECTOR) for _ in rows]
    for total in along:
        builder.store(none, total)
    here = write.load(write.product, row)
    for share, start in zip(shares, rows, strict=True):
        here = write.plus(here, share, write.load(start, row))
    write.store(here, row)
    with cgutils.for_range_slice(builder, builder.add(row, _INDEX(BLOCK)), end, _INDEX(BLOCK)) as (i, _):
        for start in next_rows:
            write.fetch(start, i)
        x, there = write.load(write.x, i), write.load(write.product, i)
        for share, start, total in zip(shares, rows, along, strict=True):
            values = write.load(start, i)
            there = write.plus(there, share, values)
            builder.store(write.plus(builder.load(total), values, x), total)
        write.store(there, i)
    totals = write.sums([builder.load(total) for total in along])
    write.store(builder.fadd(write.load(write.product, row), totals), row)
