"""Vectors of four numbers, written down for LLVM as they are to be: for loops that a compiler would not vectorise.

A compiler must not reorder a sum, and so does not vectorise it; whether and how it would if it were allowed to depends
on the machine, and so would the result. What is written here is the same arithmetic on every machine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.core.errors import TypingError

LANES = 4  # numbers in a vector
INDEX = ir.IntType(64)
_NUMBER, _LANE = ir.DoubleType(), ir.IntType(32)
_VECTOR = ir.VectorType(_NUMBER, LANES)
_BYTES = 8  # of a number
_FOR_READING, _KEEP, _DATA = 0, 3, 1  # how LLVM's prefetch is told what for


class Rows:
    """An array of numbers, of which it is known how far its rows are from each other."""

    def __init__(self, builder: Any, array: Any) -> None:
        self._builder, self._data = builder, array.data
        first, *_ = cgutils.unpack_tuple(builder, array.strides)
        self._width = builder.sdiv(first, INDEX(_BYTES))
        self.length = cgutils.unpack_tuple(builder, array.shape)[0]

    @property
    def start(self) -> Any:
        """Where the first row begins; the vector itself, if the array has one axis."""
        return self._data

    def row(self, number: Any) -> Any:
        """Where a row begins."""
        return self._builder.gep(self._data, [self._builder.mul(self._width, number)])


class Writer:
    """Writes operations on vectors of four numbers."""

    def __init__(self, builder: Any) -> None:
        self.builder = builder

    def number(self, start: Any, i: Any) -> Any:
        """The number at place ``i``, four times."""
        value, nothing = self.builder.load(self.builder.gep(start, [i])), ir.Constant(_VECTOR, ir.Undefined)
        return self.pick(self.builder.insert_element(nothing, value, _LANE(0)), nothing, *[0] * LANES)

    def load(self, start: Any, i: Any) -> Any:
        """Four numbers from place ``i`` on."""
        return self.builder.load(self._place(start, i), align=_BYTES)

    def store(self, value: Any, start: Any, i: Any) -> None:
        """Write four numbers from place ``i`` on."""
        self.builder.store(value, self._place(start, i), align=_BYTES)

    def _place(self, start: Any, i: Any) -> Any:
        return self.builder.bitcast(self.builder.gep(start, [i]), _VECTOR.as_pointer())

    def plus(self, total: Any, a: Any, b: Any) -> Any:
        """``total`` + ``a`` * ``b``, rounded twice."""
        return self.builder.fadd(total, self.builder.fmul(a, b))

    def minus(self, a: Any, b: Any) -> Any:
        """``a`` - ``b``."""
        return self.builder.fsub(a, b)

    def places(self, n: int, value: float = 0.0) -> list[Any]:
        """Places of vectors, to add up in, say: LLVM makes registers of them."""
        places = [cgutils.alloca_once(self.builder, _VECTOR) for _ in range(n)]
        for place in places:
            self.builder.store(ir.Constant(_VECTOR, [value] * LANES), place)
        return places

    def add(self, place: Any, a: Any, b: Any) -> None:
        """Add ``a`` * ``b`` to what is at a place."""
        self.builder.store(self.plus(self.builder.load(place), a, b), place)

    def keep(self, comparison: str, value: Any, place: Any) -> None:
        """Replace numbers at a place by those of ``value`` that are ``"<"`` or ``">"``; by none that is nan."""
        before = self.builder.load(place)
        better = self.builder.fcmp_ordered(comparison, value, before)
        self.builder.store(self.builder.select(better, value, before), place)

    def pick(self, a: Any, b: Any, *places: int) -> Any:
        """Four of the eight numbers in ``a`` and ``b``."""
        return self.builder.shuffle_vector(a, b, ir.Constant(ir.VectorType(_LANE, LANES), list(places)))

    def sums(self, v: Sequence[Any]) -> Any:
        """The four sums over the numbers of each vector: (first + second) + (third + fourth)."""
        pairs = [
            self.builder.fadd(self.pick(a, b, 0, 4, 2, 6), self.pick(a, b, 1, 5, 3, 7))
            for a, b in ((v[0], v[1]), (v[2], v[3]))
        ]
        return self.builder.fadd(self.pick(*pairs, 0, 1, 4, 5), self.pick(*pairs, 2, 3, 6, 7))

    @contextmanager
    def steps(self, first: Any, end: Any, step: int) -> Iterator[Any]:
        """A loop over ``first``, ``first + step``, ... below ``end``."""
        with cgutils.for_range_slice(self.builder, first, end, INDEX(step)) as (i, _):
            yield i

    def fetch(self, start: Any, i: Any) -> None:
        """Have the number at place ``i`` brought near; places beyond the end of an array do no harm."""
        byte = ir.IntType(8).as_pointer()
        kind = ir.FunctionType(ir.VoidType(), [byte, _LANE, _LANE, _LANE])
        prefetch = self.builder.module.declare_intrinsic("llvm.prefetch", [byte], kind)
        place = self.builder.bitcast(self.builder.gep(start, [i]), byte)
        self.builder.call(prefetch, [place, *map(_LANE, (_FOR_READING, _KEEP, _DATA))])


Write = Callable[..., None]


def vector_code(write: Write, arrays: Sequence[Any], integers: int) -> tuple[Any, Any]:
    """What an intrinsic of Numba gives: its signature, and what writes it down.

    ``write(writer, *rows, *integers)`` gets a :class:`Rows` for each of the ``arrays``, and then so many integers.
    """
    if any(array.layout != "C" for array in arrays):
        raise TypingError("rows must be contiguous: the loop steps from number to number.")

    def codegen(context: Any, builder: Any, _signature: Any, values: Sequence[Any]) -> Any:
        made = [context.make_array(kind)(context, builder, value) for kind, value in zip(arrays, values, strict=False)]
        write(Writer(builder), *[Rows(builder, array) for array in made], *values[len(arrays) :])
        return context.get_dummy_value()

    return types.none(*arrays, *[types.intp] * integers), codegen
