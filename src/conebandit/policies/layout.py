"""What the arrays of a state are, said once for each: making, growing, cutting and checking them follow from it.

A state is a ``NamedTuple`` of arrays. The first is ``size``: integers, of which some count the rows in use of arrays
that grow as a policy learns. Shapes are given by name (``"arms"``, ``"nodes"``), and a policy says how large each is.
"""

from __future__ import annotations

import math
import mmap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from conebandit.validate import storage

_PRIVATE: Any = {"flags": mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS} if hasattr(mmap, "MAP_PRIVATE") else {}
_LINE = 64  # bytes of a line of a cache
_HUGE_PAGES_FROM = 2**20  # bytes; NumPy asks for them from four times as many on

OBSERVATIONS = "observations"  # the first counter of every layout

Size = int | str  # a number, or the name of one
Sizes = Mapping[str, int]
Limits = list[tuple[int, int]]  # positions in ``size``, each with the largest count that leaves room for one more step


@dataclass(frozen=True)
class Counter:
    """One entry of ``size``: its value at the start, and by how much one observation raises it at the most.

    A counter without a step does not count rows. ``room`` rows at least are added at once; to add many takes no memory
    until they are written to, and saves copying them.
    """

    start: Size = 0
    step: Size = 0
    room: int = 0


@dataclass(frozen=True)
class Index:
    """Integers that point at something: from 0 to below ``end``, or -1 for nothing if there may be ``none``.

    ``block`` is the number of rows in a row that are pointed at; all of them must be there. ``towards`` says in which
    direction rows point that point at others of their own array; so whoever follows them comes to an end.
    """

    end: Size
    none: bool = False
    block: Size = 1
    towards: Literal["later", "earlier"] | None = None


@dataclass(frozen=True)
class Array:
    """One array of a state.

    Attributes
    ----------
    shape
        Numbers and names. If the first one is the name of a counter with a step, the array grows with it.
    dtype
        Of its entries.
    fill
        Its entries at the start: one number for all, or one for each place of the last axis. Arrays that
        begin otherwise come from the policy's ``_given``.
    indices
        What its entries point at: all of them, or those in some places of the last axis.
    fixed
        Whether it follows from the settings, so that a file must hold exactly what they give. Arrays of floats are
        taken from the file instead, since other machines may round otherwise.
    saved
        Whether it is in files at all. What is not is made from the settings.
    """

    shape: tuple[Size, ...]
    dtype: type = np.float64
    fill: float | tuple[float, ...] = 0
    indices: Index | Mapping[int, Index] | None = None
    fixed: bool = False
    saved: bool = True


class Layout:
    """The arrays of a state and what their rows count.

    Parameters
    ----------
    state
        The ``NamedTuple``; its fields are ``size`` and the arrays, in this order.
    counters
        What the entries of ``size`` are, in order; the first is ``observations``.
    arrays
        By name, in the order of the fields.
    learned
        Sizes that change as the policy learns other than by adding rows, each with its least value, which is also
        the one at the start. Arrays that have it are replaced by the policy.
    cone_free
        Whether nothing that estimates and reports rest on depends on the cone, so that all arrays for them but those
        with a size ``"facets"`` are the same under every cone. Such a policy can be asked under another one.

    Examples
    --------
    >>> from typing import NamedTuple
    >>> class State(NamedTuple):
    ...     size: NDArray[np.int64]
    ...     data: NDArray[np.float64]
    >>> layout = Layout(State, {"observations": Counter(step=1)}, {"data": Array(("observations", "objectives"))})
    >>> layout.fresh({"objectives": 2}, {}).data.shape
    (0, 2)
    """

    def __init__(
        self,
        state: type[Any],
        counters: Mapping[str, Counter],
        arrays: Mapping[str, Array],
        *,
        learned: Mapping[str, int] | None = None,
        cone_free: bool = False,
    ) -> None:
        if state._fields != ("size", *arrays):
            raise TypeError(f"{state.__name__} must have the fields size, {', '.join(arrays)}; got {state._fields}.")
        self._state, self._counters, self._arrays = state, counters, arrays
        self._learned = learned or {}
        self.cone_free = cone_free
        self._position = {name: i for i, name in enumerate(counters)}

    def fresh(self, sizes: Sizes, given: Mapping[str, NDArray[Any]]) -> Any:
        """A state before the first observation; arrays that are not simply filled are ``given``."""
        at_start = {**sizes, **self._learned}
        start = [_number(counter.start, at_start) for counter in self._counters.values()]
        known = {**at_start, **dict(zip(self._counters, start, strict=True))}
        arrays = {}
        for name, array in self._arrays.items():
            shape = tuple(_number(size, known) for size in array.shape)
            made: NDArray[Any] = np.zeros(shape, dtype=array.dtype)  # takes no memory until it is written to
            if name in given or array.fill != 0:
                made[...] = given.get(name, array.fill)
            arrays[name] = made
        return self._state(size=np.array(start, dtype=np.int64), **arrays)

    def grown(self, state: Any, sizes: Sizes, observations: int) -> tuple[Any, Limits]:
        """The state with room for more observations; for each counter, the largest value at which one more still fits.

        Rows that do not count observations are added as the next observation alone may need them.
        """
        longer: dict[str, NDArray[Any]] = {}
        limits = []
        for counter, names in self._growing():
            used, step = self._used(state, counter), _number(self._counters[counter].step, sizes)
            have = len(getattr(state, names[0]))
            need = used + step * (observations if counter == OBSERVATIONS else 1)
            if need > have:
                have = max(need, have + max(have // 2, self._counters[counter].room))
                for name in names:
                    array = getattr(state, name)
                    longer[name] = page_by_page((have, *array.shape[1:]), array.dtype)
                    longer[name][:used] = array[:used]
            limits.append((self._position[counter], have - step))
        return (state._replace(**longer) if longer else state), limits

    def _growing(self) -> Iterator[tuple[str, list[str]]]:
        """Counters of rows, each with the arrays that have these rows."""
        for counter in self._counters:
            names = [name for name, array in self._arrays.items() if array.shape[0] == counter]
            if names:
                yield counter, names

    def _used(self, state: Any, counter: str) -> int:
        return int(state.size[self._position[counter]])

    def saved(self, state: Any) -> dict[str, NDArray[Any]]:
        """Copies of the arrays that belong in a file, cut to what is in use."""
        arrays = {name: array for name, array in state._asdict().items() if name == "size" or self._arrays[name].saved}
        for counter, names in self._growing():
            for name in names:
                arrays[name] = arrays[name][: self._used(state, counter)]
        return {name: _copied(array) for name, array in arrays.items()}

    def restored(self, fresh: Any, sizes: Sizes, arrays: Mapping[str, NDArray[Any]]) -> Any:
        """The state that these arrays are, given a fresh one; a ``ValueError`` if they cannot have been saved.

        Compiled code does not look where an index leads, so everything that it relies on is checked here.
        """
        size = _same(arrays["size"], "size", fresh.size.shape, np.int64)
        known = {**sizes, **self._lengths_learned(arrays)}
        for name, value, start in zip(self._counters, size.tolist(), fresh.size.tolist(), strict=True):
            if self._counters[name].step and value < start:
                raise ValueError(f"array 'size' counts {value} {name} where there are at least {start}")
            known[name] = value
        fields = {"size": size}
        for name, array in self._arrays.items():
            like = getattr(fresh, name)
            if array.saved:
                shape = tuple(_number(length, known) for length in array.shape)
                fields[name] = _same(arrays[name], name, shape, array.dtype)
                if array.fixed and not np.array_equal(fields[name], like):
                    raise ValueError(f"array {name!r} does not fit the options")
                _check_indices(name, array.indices, fields[name], known)
            else:
                fields[name] = like
        return self._state(**fields)

    def under_cone(self, arrays: Mapping[str, NDArray[Any]], fresh: Any) -> dict[str, NDArray[Any]]:
        """Saved arrays with what depends on the cone from a fresh state of another cone; only if ``cone_free``."""
        own = {name for name, array in self._arrays.items() if "facets" in array.shape}
        return {name: getattr(fresh, name).copy() if name in own else array for name, array in arrays.items()}

    def _lengths_learned(self, arrays: Mapping[str, NDArray[Any]]) -> dict[str, int]:
        """The sizes that a policy has learned, by the first array that has them."""
        found: dict[str, int] = {}
        for name, array in self._arrays.items():
            for axis, size in enumerate(array.shape):
                if isinstance(size, str) and size in self._learned and size not in found:
                    found[size] = arrays[name].shape[axis]
                    if found[size] < self._learned[size]:
                        raise ValueError(f"array {name!r} has {found[size]} {size}")
        return found


def page_by_page(shape: tuple[int, ...], dtype: Any = np.float64) -> NDArray[Any]:
    """Zeros that take memory as they are written to, a small page at a time.

    For large arrays NumPy asks for huge pages, and to clear one of them may take 5 ms: too long for one observation.
    The memory belongs to this process alone: shared memory takes more than twice as long to give back, 7 ms for what is
    dropped after the last fit of a large policy, and a process that was forked would write into that of its parent.
    """
    size = math.prod(shape) * np.dtype(dtype).itemsize
    if size < _HUGE_PAGES_FROM:
        return _zeros(shape, dtype)
    memory = mmap.mmap(-1, size, **_PRIVATE)
    if hasattr(mmap, "MADV_NOHUGEPAGE"):
        memory.madvise(mmap.MADV_NOHUGEPAGE)
    return np.frombuffer(memory, dtype=dtype).reshape(shape)


def _zeros(shape: tuple[int, ...], dtype: Any) -> NDArray[Any]:
    """Zeros that begin where a line of a cache does, which arrays of NumPy need not.

    Half of the vectors of four numbers would be spread over two lines, and kernels that read many of them take about a
    fifth longer.
    """
    size = math.prod(shape) * np.dtype(dtype).itemsize
    memory = np.zeros(size + _LINE, dtype=np.uint8)
    first = -memory.ctypes.data % _LINE
    return np.asarray(memory[first : first + size].view(dtype).reshape(shape))


def _copied(array: NDArray[Any]) -> NDArray[Any]:
    """A copy that begins with a line of a cache."""
    made = _zeros(array.shape, array.dtype)
    made[...] = array
    return made


def _number(size: Size, sizes: Sizes) -> int:
    return sizes[size] if isinstance(size, str) else size


def _same(array: NDArray[Any], name: str, shape: tuple[int, ...], dtype: type) -> NDArray[Any]:
    """The array, if it has this shape and type."""
    if array.dtype != dtype or array.shape != shape:
        raise ValueError(f"array {name!r} is {array.dtype} {array.shape} where {np.dtype(dtype)} {shape} is needed")
    is_good = array.flags.c_contiguous and array.ctypes.data % _LINE == 0
    return array if is_good else _copied(array)


def _check_indices(name: str, indices: Index | Mapping[int, Index] | None, array: NDArray[Any], sizes: Sizes) -> None:
    """A ``ValueError`` if an index leads out of what it points at, or in circles."""
    if isinstance(indices, Index):
        least, end = (-1 if indices.none else 0), _number(indices.end, sizes)
        storage.require_range(name, array, least, max(0, end - _number(indices.block, sizes) + 1))
        if indices.towards is not None:
            ahead = (array - np.arange(len(array)))[array >= 0]
            if not ((ahead > 0) if indices.towards == "later" else (ahead < 0)).all():
                raise ValueError(f"array {name!r} leads in circles")
    elif indices is not None:
        for place, index in indices.items():
            _check_indices(name, index, array[..., place], sizes)
