"""What every policy offers, and the small types it speaks in."""

from __future__ import annotations

import math
from dataclasses import dataclass
from hashlib import blake2b
from numbers import Integral, Real
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from conebandit._validate import FloatArray, as_floats
from conebandit.kernels.tree import MOST_REWARD

Key = int | str | bytes


class Decision(NamedTuple):
    """An arm to play.

    Attributes
    ----------
    arm
        Index of the arm.
    propensity
        Probability with which this arm is drawn in this state for this context; for off-policy evaluation.
    mask
        Shape (K,), True for arms that are still in the running.

    Examples
    --------
    >>> Decision(arm=1, propensity=0.5, mask=np.array([False, True, True])).active
    (1, 2)
    """

    arm: int
    propensity: float
    mask: NDArray[np.bool_]

    @property
    def active(self) -> tuple[int, ...]:
        """Arms that are still in the running."""
        return tuple(int(k) for k in np.flatnonzero(self.mask))


@dataclass(frozen=True, slots=True)
class Front:
    """Arms that a policy holds for undominated in a context, with what it knows about them.

    Attributes
    ----------
    arms
        Their indices, ascending; never empty.
    means
        Shape (len(arms), M), estimated means; nan where nothing is known.
    radii
        Shape (len(arms), M), how far each estimate may be off; inf where nothing is known.

    Examples
    --------
    >>> front = Front(arms=(0, 2), means=np.array([[0.9, 0.4], [0.5, 0.8]]), radii=np.full((2, 2), 0.1))
    >>> dict(zip(front.arms, front.means.tolist()))
    {0: [0.9, 0.4], 2: [0.5, 0.8]}
    """

    arms: tuple[int, ...]
    means: FloatArray
    radii: FloatArray


@runtime_checkable
class Policy(Protocol):
    """Any object with these members can be simulated and served.

    ``decide`` must not change the policy, and must give the same answer to the same context and key until the next
    ``observe``.
    """

    @property
    def n_arms(self) -> int:
        """Number of arms, K."""
        ...

    @property
    def n_objectives(self) -> int:
        """Number of objectives, M."""
        ...

    @property
    def context_dim(self) -> int:
        """Number of context coordinates, d."""
        ...

    def decide(self, context: ArrayLike, key: Key) -> Decision:
        """Arm for a context; ``key`` stands for the randomness of this decision."""
        ...

    def observe(self, context: ArrayLike, arm: int, reward: ArrayLike) -> None:
        """Learn from a reward vector, nan where a metric is not known yet."""
        ...

    def front(self, context: ArrayLike) -> Front:
        """Arms held for undominated in a context."""
        ...


def as_key(key: Key) -> np.uint64:
    """64 bits from an integer (its lowest 64 bits) or a text (a hash of it)."""
    if type(key) is int:  # by far the most common
        return np.uint64(key & 0xFFFFFFFFFFFFFFFF)
    if isinstance(key, str | bytes):
        digest = blake2b(key.encode() if isinstance(key, str) else key, digest_size=8).digest()
        return np.uint64(int.from_bytes(digest, "little"))
    if isinstance(key, Integral) and not isinstance(key, bool):
        return np.uint64(int(key) & 0xFFFFFFFFFFFFFFFF)
    raise TypeError(f"key must be an integer, a string or bytes that identifies the decision; got {key!r}.")


def as_seed(seed: Any) -> np.uint64:
    """64 bits from an integer."""
    if not isinstance(seed, Integral) or isinstance(seed, bool):
        raise TypeError(f"seed must be an integer; got {seed!r}.")
    return as_key(int(seed))


def as_count(value: Any, name: str, *, most: int | None = None) -> int:
    """A positive integer, up to ``most`` if that is given."""
    if not isinstance(value, Integral) or isinstance(value, bool) or value < 1:
        raise ValueError(f"{name} must be a positive integer; got {value!r}.")
    if most is not None and int(value) > most:
        raise ValueError(f"{name} must be at most {most}; got {value!r}.")
    return int(value)


def as_positive(value: Any, name: str) -> float:
    """A finite number above zero."""
    try:
        number = float(value) if isinstance(value, Real) and not isinstance(value, bool) else math.nan
    except OverflowError:  # of an integer
        number = math.inf
    if not 0.0 < number < math.inf:
        raise ValueError(f"{name} must be a positive number; got {value!r}.")
    return number


def as_arm(arm: Any, n_arms: int) -> int:
    """Index of an arm."""
    if type(arm) is int and 0 <= arm < n_arms:
        return arm
    if not isinstance(arm, Integral) or isinstance(arm, bool) or not 0 <= int(arm) < n_arms:
        raise ValueError(f"arm must be an integer from 0 to {n_arms - 1}; got {arm!r}.")
    return int(arm)


def as_reward(reward: ArrayLike, n_objectives: int) -> FloatArray:
    """A reward vector; whether its entries are finite is for the caller to see."""
    vector = as_floats(reward, "reward")
    if vector.shape != (n_objectives,):
        raise ValueError(f"reward must have {n_objectives} entries, one for each objective; got shape {vector.shape}.")
    return vector


def refuse_extreme(reward: FloatArray) -> None:
    """A ``ValueError`` if an entry is infinite or beyond ``MOST_REWARD`` in size; nan is allowed."""
    for value in reward.tolist():  # faster than NumPy for so few, and this is called in every step
        if abs(value) > MOST_REWARD:
            what = "not be infinite" if math.isinf(value) else f"be at most {MOST_REWARD:g} in size"
            advice = "Use nan for what is not known yet" if math.isinf(value) else "Give it in other units"
            raise ValueError(f"reward must {what}; got {reward.tolist()}. {advice}.")


class Box:
    """Where contexts live: a box, mapped to the unit cube.

    Parameters
    ----------
    dim
        Number of coordinates.
    bounds
        Shape (d, 2), lowest and highest value of each coordinate; the unit cube by default.
    """

    def __init__(self, dim: int, bounds: ArrayLike | None = None) -> None:
        if bounds is None:
            self.bounds = np.tile([0.0, 1.0], (dim, 1))
        else:
            self.bounds = as_floats(bounds, "bounds").copy()
            ordered = self.bounds.shape == (dim, 2) and np.isfinite(self.bounds).all()
            if not ordered or not (self.bounds[:, 0] < self.bounds[:, 1]).all():
                raise ValueError(
                    f"bounds must have shape ({dim}, 2), a finite (lowest, highest) for each coordinate, "
                    f"lowest below highest; got {np.asarray(bounds).tolist()}."
                )
            with np.errstate(over="ignore"):
                if not np.isfinite(self.bounds[:, 1] - self.bounds[:, 0]).all():
                    raise ValueError(
                        f"bounds must have a finite difference between highest and lowest; got {self.bounds.tolist()}. "
                        "Give the contexts in other units."
                    )
        self.is_unit = bool((self.bounds == [0.0, 1.0]).all())
        self._low, self._span = self.bounds[:, 0].copy(), np.ptp(self.bounds, axis=1)
        self._shape = (dim,)

    def __len__(self) -> int:
        return len(self.bounds)

    def scaled(self, context: ArrayLike) -> FloatArray:
        """One context (d,) mapped by the bounds; whether it lies within them is for the caller to see."""
        x = as_floats(context, "context")
        if x.shape != self._shape:
            raise ValueError(f"context must have shape ({len(self)},); got {x.shape}.")
        return x if self.is_unit else (x - self._low) / self._span

    def point(self, context: ArrayLike) -> FloatArray:
        """One context (d,) in the unit cube, or a ``ValueError`` that says what is wrong with it."""
        x = self.scaled(context)
        for m, value in enumerate(x.tolist()):
            if not 0.0 <= value <= 1.0:
                low, high = self.bounds[m]
                raise ValueError(
                    f"context[{m}] must lie in [{low:g}, {high:g}]; got {np.asarray(context, dtype=float)[m]}. "
                    "Give the policy other bounds, or clip the context before."
                )
        return x

    def points(self, contexts: FloatArray) -> FloatArray:
        """Many contexts (n, d) in the unit cube."""
        x = contexts if self.is_unit else (contexts - self._low) / self._span
        good = ((x >= 0.0) & (x <= 1.0)).all(axis=1)
        if not good.all():
            self.point(contexts[int(np.argmin(good))])  # raises and says which coordinate
        return np.ascontiguousarray(x)
