"""Checks of single arguments: each returns the value in the form we use, or says which argument is wrong, and why.

A boolean is never a number here, though Python counts it as an integer.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from hashlib import blake2b
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from conebandit.validate.arrays import FloatArray, as_floats

Key = int | str | bytes

KEY_BYTES = 8  # of the hash of a key
MAX_REWARD = 1e150  # in size; squares of larger ones overflow, and one of them would spoil all estimates for good


def is_integer(value: Any) -> bool:
    """Whether this is an integer, of Python or of NumPy.

    Examples
    --------
    >>> is_integer(3), is_integer(np.int32(3)), is_integer(3.0), is_integer(True)
    (True, True, False, False)
    """
    return isinstance(value, Integral) and not isinstance(value, bool)


def as_key(key: Key) -> np.uint64:
    """64 bits from an integer (its lowest 64 bits) or a string (a hash of it)."""
    if type(key) is int:  # by far the most common
        return np.uint64(key & 0xFFFFFFFFFFFFFFFF)
    if isinstance(key, str | bytes):
        digest = blake2b(key.encode() if isinstance(key, str) else key, digest_size=KEY_BYTES).digest()
        return np.uint64(int.from_bytes(digest, "little"))
    if is_integer(key):
        return np.uint64(int(key) & 0xFFFFFFFFFFFFFFFF)
    raise TypeError(f"key must be an integer, a string or bytes that identifies the decision; got {key!r}.")


def as_keys(keys: Iterable[Key], n: int) -> NDArray[np.uint64]:
    """64 bits for each of ``n`` keys, as :func:`as_key` makes them.

    Examples
    --------
    >>> as_keys([3, -1], 2).tolist() == [3, 2**64 - 1]
    True
    """
    if isinstance(keys, str | bytes):
        raise TypeError(f"keys must be a sequence of keys, one for each context; got {keys!r}.")
    if isinstance(keys, np.ndarray) and keys.ndim == 1 and keys.dtype.kind in "iu":
        bits = keys.astype(np.uint64)  # of negative numbers the same 64 bits
    else:
        given = list(keys)
        texts = [key for key in given if isinstance(key, str)]
        if texts and len(texts) == len(given):  # ids of decisions: in half the time
            digests = b"".join([blake2b(key.encode(), digest_size=KEY_BYTES).digest() for key in texts])
            bits = np.frombuffer(digests, dtype="<u8").astype(np.uint64)
        else:
            bits = np.array([as_key(key) for key in given], dtype=np.uint64)
    if len(bits) != n:
        raise ValueError(f"keys must be {n}, one for each context; got {len(bits)}.")
    return bits


def as_seed(seed: Any) -> np.uint64:
    """64 bits from an integer."""
    if not is_integer(seed):
        raise TypeError(f"seed must be an integer; got {seed!r}.")
    return as_key(int(seed))


def as_integer(value: Any, name: str, *, least: int | None = None, most: int | None = None, hint: str = "") -> int:
    """An integer; the bounds ``least`` and ``most`` are themselves allowed. ``hint`` says what it stands for.

    Examples
    --------
    >>> as_integer(True, "levels", least=0)
    Traceback (most recent call last):
        ...
    ValueError: levels must be an integer, at least 0; got True.
    """
    if not is_integer(value) or (least is not None and value < least) or (most is not None and value > most):
        wanted = [f"at least {least}"] * (least is not None) + [f"at most {most}"] * (most is not None)
        raise ValueError(f"{name} must be an integer{_wanted(wanted)}{hint and f', {hint}'}; got {value!r}.")
    return int(value)


def as_count(value: Any, name: str, *, most: int | None = None) -> int:
    """A positive integer, up to ``most`` if that is given."""
    if not is_integer(value) or value < 1:
        raise ValueError(f"{name} must be a positive integer; got {value!r}.")
    if most is not None and int(value) > most:
        raise ValueError(f"{name} must be at most {most}; got {value!r}.")
    return int(value)


def as_increasing(values: Iterable[Any], name: str, *, least: int | None = None) -> tuple[int, ...]:
    """Integers, each larger than the one before and none below ``least``: the rounds at which something changes.

    Examples
    --------
    >>> as_increasing([10, 10], "change_points")
    Traceback (most recent call last):
        ...
    ValueError: change_points must be increasing integers; got [10, 10].
    """
    try:
        found = tuple(values)
    except TypeError:
        found = (None,)
    good = all(is_integer(v) for v in found) and list(found) == sorted(set(found))
    if not good or (least is not None and any(v < least for v in found)):
        at_least = "" if least is None else f", at least {least}"
        raise ValueError(f"{name} must be increasing integers{at_least}; got {values!r}.")
    return tuple(int(v) for v in found)


def as_number(
    value: Any,
    name: str,
    *,
    above: float = -math.inf,
    least: float = -math.inf,
    most: float = math.inf,
    below: float = math.inf,
) -> float:
    """A finite number; the bounds ``least`` and ``most`` are themselves allowed, ``above`` and ``below`` are not.

    Examples
    --------
    >>> as_number(1.5, "beta", above=0, most=1)
    Traceback (most recent call last):
        ...
    ValueError: beta must be a number, above 0 and at most 1; got 1.5.
    """
    number = _as_float(value)
    if not (above < number < below and least <= number <= most and math.isfinite(number)):
        bounds = {"above": above, "at least": least, "below": below, "at most": most}
        wanted = [f"{word} {bound:g}" for word, bound in bounds.items() if math.isfinite(bound)]
        raise ValueError(f"{name} must be a {'number' if wanted else 'finite number'}{_wanted(wanted)}; got {value!r}.")
    return number


def as_positive(value: Any, name: str) -> float:
    """A finite number above zero."""
    number = _as_float(value)
    if not 0.0 < number < math.inf:
        raise ValueError(f"{name} must be a positive number; got {value!r}.")
    return number


def as_fraction(value: Any, name: str) -> float:
    """A number above 0 and below 1, such as a share or a level of confidence."""
    number = _as_float(value)
    if not 0.0 < number < 1.0:
        raise ValueError(f"{name} must lie between 0 and 1; got {value!r}.")
    return number


def as_resolution(value: ArrayLike, n_objectives: int) -> FloatArray:
    """The smallest difference that matters in each objective, in its units: one number for all, or one for each.

    Examples
    --------
    >>> as_resolution(0.02, 2)
    array([0.02, 0.02])
    >>> as_resolution([0.02, -1], 2)
    Traceback (most recent call last):
        ...
    ValueError: resolution[1] must be a number, at least 0; got -1.
    """
    if not isinstance(value, list | tuple) and not (isinstance(value, np.ndarray) and value.ndim):
        return np.full(n_objectives, as_number(value, "resolution", least=0.0))
    if len(value) != n_objectives:
        raise ValueError(
            f"resolution must be one number or {n_objectives} of them, one for each objective; got {value!r}."
        )
    return np.array([as_number(entry, f"resolution[{m}]", least=0.0) for m, entry in enumerate(value)])


def _as_float(value: Any) -> float:
    """A real number as float; nan for anything else."""
    try:
        return float(value) if isinstance(value, Real) and not isinstance(value, bool) else math.nan
    except OverflowError:  # an integer or fraction beyond all floats
        return math.inf


def _wanted(bounds: list[str]) -> str:
    return f", {' and '.join(bounds)}" if bounds else ""


def as_arm(arm: Any, n_arms: int) -> int:
    """Index of an arm."""
    if type(arm) is int and 0 <= arm < n_arms:
        return arm
    if not is_integer(arm) or not 0 <= int(arm) < n_arms:
        raise ValueError(f"arm must be an integer from 0 to {n_arms - 1}; got {arm!r}.")
    return int(arm)


def as_reward(reward: ArrayLike, n_objectives: int) -> FloatArray:
    """A reward vector; the caller checks whether its entries are finite."""
    vector = as_floats(reward, "reward")
    if vector.shape != (n_objectives,):
        raise ValueError(f"reward must have {n_objectives} entries, one for each objective; got shape {vector.shape}.")
    return vector


def refuse_extreme(reward: FloatArray) -> None:
    """Raise a ``ValueError`` if an entry is infinite or larger than ``MAX_REWARD`` in size; nan is allowed."""
    for value in reward.tolist():  # faster than NumPy for so few, and this is called in every step
        if abs(value) > MAX_REWARD:
            what = "not be infinite" if math.isinf(value) else f"be at most {MAX_REWARD:g} in size"
            advice = "Use nan for what is not known yet" if math.isinf(value) else "Give it in other units"
            raise ValueError(f"reward must {what}; got {reward.tolist()}. {advice}.")
