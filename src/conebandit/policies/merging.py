"""How what two policies have learned is put together: whether it can be, and what families have in common in it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from conebandit.kernels.cone_kernel.fit import covariance, inverse_root
from conebandit.validate.arrays import FloatArray

if TYPE_CHECKING:
    from conebandit.policies.logs import LogPolicy

_NONE = np.empty((0, 0))


def require_alike(policy: LogPolicy, other: Any, name: str) -> None:
    """A ``TypeError`` or ``ValueError`` if another policy is not of the same kind with the same arguments.

    The seed may differ: it does not change what is learned. Where it draws features, the family compares these.
    """
    if type(other) is not type(policy):
        raise TypeError(f"{name} must be a {type(policy).__name__}, as this policy is; got a {type(other).__name__}.")
    if other is policy:
        raise ValueError(f"{name} must be another policy, not this one; take a copy of it before it goes on.")
    mine, theirs = ({**each._arguments(), "cone": each.cone} for each in (policy, other))
    for key in dict.fromkeys(["n_arms", "context_dim", "cone", *mine, *theirs]):
        a, b = mine.get(key), theirs.get(key)
        if key != "seed" and not (a == b if key == "cone" else np.array_equal(np.asarray(a), np.asarray(b))):
            raise ValueError(f"{name} must be made as this policy is, but its {key} is {b!r}, not {a!r}.")


class Samples(NamedTuple):
    """Rows that a policy keeps: ``data`` (n, d + M), contexts in the unit cube and rewards, and ``arms`` (n,)."""

    data: FloatArray
    arms: NDArray[np.int64]

    def after(self, start: Samples | None, name: str) -> Samples:
        """Those that came after the ones that another policy keeps; a ``ValueError`` if it does not begin with them."""
        if start is None:
            return self
        n = len(start.arms)
        if n > len(self.arms) or not all(
            np.array_equal(mine[:n], first, equal_nan=True) for mine, first in zip(self, start, strict=True)
        ):
            raise ValueError(
                f"since must be a copy of what both policies were before they went on: {name} does not begin with its "
                f"{n} rows."
            )
        return Samples(self.data[n:], self.arms[n:])

    def columns(self, dim: int) -> tuple[FloatArray, NDArray[np.int64], FloatArray]:
        """As ``_learn_rows`` takes them."""
        contexts, rewards = map(np.ascontiguousarray, np.hsplit(self.data, [dim]))
        return contexts, np.ascontiguousarray(self.arms, dtype=np.int64), rewards


def added(states: Iterable[Any], names: Sequence[str]) -> dict[str, NDArray[Any]]:
    """Arrays of two states that are sums over observations, together; those of a third, in both, count once.

    A ``ValueError`` if the third has counted more than the others.
    """
    mine, theirs, start = states
    found = {}
    for name in names:
        a, b, both = (getattr(state, name) for state in (mine, theirs, start))
        if a.dtype.kind == "i" and ((a < both).any() or (b < both).any()):
            raise ValueError(
                "since must be a copy of what both policies were before they went on; it has seen more than they have."
            )
        found[name] = a + (b - both)
    return found


class Regression(NamedTuple):
    """A Gaussian posterior of weights: ``cov`` (D, D) in any unit and ``mean``, (D,) or (D, columns)."""

    cov: FloatArray
    mean: FloatArray


def pooled(mine: Regression, theirs: Regression, start: Regression) -> Regression:
    """The posterior given the observations of two others; ``start``, the prior say, is in both and counts once.

    Precisions add, and so do precisions times means.

    Examples
    --------
    >>> prior, after_a_one = Regression(np.eye(1), np.zeros(1)), Regression(np.eye(1) / 2, np.ones(1) / 2)
    >>> pooled(after_a_one, after_a_one, prior)
    Regression(cov=array([[0.33333333]]), mean=array([0.66666667]))
    """
    (a, u), (b, v), (both, w) = ((inverse(cov), mean) for cov, mean in (mine, theirs, start))
    cov = inverse(a + (b - both))
    if not np.isfinite(cov).all():  # no factor was found
        raise ValueError(
            "other and since do not go together: nothing is left of what one of them knows beyond the other."
        )
    return Regression(cov, u + cov @ (b @ (v - u) - both @ (w - u)))


def inverse(matrix: FloatArray) -> FloatArray:
    """Inverse of a positive definite matrix, by its upper triangle.

    Examples
    --------
    >>> inverse(np.array([[4.0, 2.0], [0.0, 2.0]]))
    array([[ 0.5, -0.5],
           [-0.5,  1. ]])
    """
    made = np.empty_like(matrix)
    covariance(root_of_inverse(matrix), made)
    return made


def root_of_inverse(matrix: FloatArray) -> FloatArray:
    """As :func:`~conebandit.kernels.cone_kernel.fit.inverse_root` gives it."""
    return inverse_root(np.ascontiguousarray(matrix.T), _NONE, np.full(len(matrix), np.inf), 1.0)
