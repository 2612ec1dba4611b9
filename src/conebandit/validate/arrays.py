"""Checks of array arguments, with messages that name the argument."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

FloatArray = NDArray[np.float64]
FLOAT64 = np.dtype(np.float64)


def as_floats(values: ArrayLike, name: str) -> FloatArray:
    """Contiguous float64 array, or a ``TypeError`` that names the argument."""
    if type(values) is np.ndarray and values.dtype is FLOAT64 and values.flags.c_contiguous:
        return values  # the most common case, and the fastest
    try:
        array: Any = np.asarray(values)
        if array.dtype.kind not in "iufbO" or isinstance(values, np.ma.MaskedArray):
            raise TypeError
        if array.dtype == object and any(isinstance(x, str | bytes) for x in array.flat):
            raise TypeError
        return np.ascontiguousarray(array, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise TypeError(f"{name} must be an array of real numbers; got {_describe(values)}.") from None


def as_vectors(values: ArrayLike, name: str, length: int, ndims: tuple[int, ...]) -> FloatArray:
    """Finite float64 array of vectors of the given length, with one of the given numbers of axes."""
    array = as_floats(values, name)
    if array.ndim not in ndims:
        wanted = " or ".join(_SHAPES[n] for n in ndims)
        raise ValueError(f"{name} must have shape {wanted} with M = {length}; got shape {array.shape}.")
    if array.shape[-1] != length:
        raise ValueError(
            f"{name} must have {length} columns, one for each objective of the cone; got shape {array.shape}."
        )
    if 0 in array.shape:
        raise ValueError(f"{name} must not be empty; got shape {array.shape}.")
    if not np.isfinite(magnitude(array)):
        where = tuple(int(i) for i in np.argwhere(~np.isfinite(array))[0])
        raise ValueError(f"{name} must be finite; entry {where} is {array[where]}.")
    return array


def magnitude(array: FloatArray) -> float:
    """Largest absolute value; nan if there is a nan. Reads the array twice but makes no copy of it."""
    return float(max(array.max(), -array.min()))


def safe_exponent(largest: float) -> int:
    """Power of two by which to multiply data of this size so that sums neither overflow nor lose tiny digits.

    Zero for all but extreme data, and never larger than needed, so that small numbers beside huge ones survive.
    """
    if largest == 0:
        return 0
    exponent = int(np.frexp(largest)[1])
    return min(0, 1000 - exponent) + max(0, -900 - exponent)


_SHAPES = {1: "(M,)", 2: "(N, M)", 3: "(n, K, M)"}


def _describe(values: Any) -> str:
    text = repr(values)
    return text if len(text) <= 60 else f"{text[:57]}..."
