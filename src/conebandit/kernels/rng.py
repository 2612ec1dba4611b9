"""Random numbers as a function of (seed, key): the same key gives the same draw, in any order, in any process."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic
from numpy.typing import NDArray

from conebandit.kernels.compile import compiled, in_place

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_FIRST = np.uint64(0xBF58476D1CE4E5B9)
_SECOND = np.uint64(0x94D049BB133111EB)
_LOW_32_BITS = np.uint64(0xFFFFFFFF)


@compiled
def mix(x: np.uint64) -> np.uint64:
    """Scramble 64 bits (the finaliser of SplitMix64, Steele, Lea & Flood 2014)."""
    x = (x ^ (x >> np.uint64(30))) * _FIRST
    x = (x ^ (x >> np.uint64(27))) * _SECOND
    return x ^ (x >> np.uint64(31))


@compiled
def hash_vector(x: NDArray[np.uint64]) -> np.uint64:
    """One key from the bits of several numbers."""
    key = np.uint64(0)
    for m in range(x.size):
        key = mix(key * GOLDEN + x[m] + np.uint64(1))
    return key


@in_place
def hash_numbers(x: NDArray[np.float64]) -> np.uint64:
    """One key from several numbers, the same for -0.0 as for 0.0; what :func:`hash_vector` makes of their bits."""
    key = np.uint64(0)
    for m in range(x.size):
        bits: np.uint64 = _bits_of(x[m] + 0.0)  # type: ignore[call-arg]  # adding 0.0 turns -0.0 into 0.0
        key = mix(key * GOLDEN + bits + np.uint64(1))
    return key


@intrinsic
def _bits_of(_typing: Any, number: Any) -> tuple[Any, Any]:
    """The bits of a number; to view an array of numbers as bits takes longer to compile than all else here."""

    def codegen(_context: Any, builder: Any, _signature: Any, values: Any) -> Any:
        return builder.bitcast(values[0], ir.IntType(64))

    return types.uint64(types.float64), codegen


@compiled
def uniform(seed: np.uint64, key: int | np.uint64) -> float:
    """A number in [0, 1) that depends on nothing but seed and the 64 bits of the key."""
    bits = mix(mix(seed + GOLDEN) ^ mix(np.uint64(key) * GOLDEN + _FIRST))
    return float(bits >> np.uint64(11)) * 2.0**-53


@compiled
def normal(bits: np.uint64) -> float:
    """A standard normal number from 64 random bits (Box and Muller 1958): half of them each for radius and angle."""
    radius = math.sqrt(-2.0 * math.log((float(bits >> np.uint64(32)) + 0.5) * 2.0**-32))
    return radius * math.cos(2.0 * math.pi * float(bits & _LOW_32_BITS) * 2.0**-32)


@compiled
def choose_many(
    seed: np.uint64, keys: NDArray[np.uint64], bits: NDArray[np.uint64], n: int
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """For each round one of ``n`` by its key, and another one, as a row of flags, by the bits of its context."""
    chosen = np.empty(keys.size, dtype=np.int64)
    flags = np.zeros((keys.size, n), dtype=np.bool_)
    for i in range(keys.size):
        chosen[i] = np.int64(uniform(seed, keys[i]) * n)
        flags[i, np.int64(uniform(seed, hash_vector(bits[i])) * n)] = True
    return chosen, flags
