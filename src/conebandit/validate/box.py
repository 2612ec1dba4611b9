"""The box that contexts come from, and its map to the unit cube."""

from __future__ import annotations

from typing import NoReturn

import numpy as np
from numpy.typing import ArrayLike

from conebandit.validate.arrays import FloatArray, as_floats


def as_bounds(bounds: ArrayLike | None, context_dim: int) -> FloatArray:
    """Lowest and highest value of each coordinate, shape (d, 2); the unit cube by default."""
    if bounds is None:
        return np.tile([0.0, 1.0], (context_dim, 1))
    box = as_floats(bounds, "bounds").copy()
    finite = box.shape == (context_dim, 2) and np.isfinite(box).all()
    if not finite or not (box[:, 0] < box[:, 1]).all():
        raise ValueError(
            f"bounds must have shape ({context_dim}, 2), a finite (lowest, highest) for each coordinate, "
            f"lowest below highest; got {np.asarray(bounds).tolist()}."
        )
    with np.errstate(over="ignore"):
        if not np.isfinite(box[:, 1] - box[:, 0]).all():
            raise ValueError(
                f"bounds must have a finite difference between highest and lowest; got {box.tolist()}. "
                "Give the contexts in other units."
            )
    return box


class Box:
    """The box that contexts come from, mapped to the unit cube.

    Parameters
    ----------
    context_dim
        Number of coordinates, d.
    bounds
        Shape (d, 2): lowest and highest value of each coordinate; the unit cube by default.
    """

    def __init__(self, context_dim: int, bounds: ArrayLike | None = None) -> None:
        self.bounds = as_bounds(bounds, context_dim)
        self.is_unit = bool((self.bounds == [0.0, 1.0]).all())
        self._low, self._span = self.bounds[:, 0].copy(), np.ptp(self.bounds, axis=1)
        self._shape = (context_dim,)

    def __len__(self) -> int:
        return len(self.bounds)

    def scaled(self, context: ArrayLike) -> FloatArray:
        """One context (d,) mapped by the bounds; the caller checks whether it lies within them."""
        x = as_floats(context, "context")
        if x.shape != self._shape:
            raise ValueError(f"context must have shape ({len(self)},); got {x.shape}.")
        return x if self.is_unit else (x - self._low) / self._span

    def point(self, context: ArrayLike) -> FloatArray:
        """One context (d,) in the unit cube; a ``ValueError`` says what is wrong with it."""
        x = self.scaled(context)
        for value in x.tolist():  # faster than NumPy for so few, and this is called in every step
            if not 0.0 <= value <= 1.0:
                self._refuse(x, context)
        return x

    def _refuse(self, x: FloatArray, context: ArrayLike) -> NoReturn:
        """Say which coordinate of a context, ``x`` in the unit cube, is the first that is out of bounds."""
        m = int(np.argmin((x >= 0.0) & (x <= 1.0)))
        low, high = self.bounds[m]
        raise ValueError(
            f"context[{m}] must lie in [{low:g}, {high:g}]; got {np.asarray(context, dtype=float)[m]}. "
            "Give the policy other bounds, or clip the context before."
        )

    def rows(self, contexts: ArrayLike) -> FloatArray:
        """Many contexts as an array (n, d), not mapped; a ``ValueError`` or ``TypeError`` if they are not that."""
        x = as_floats(contexts, "contexts")
        if x.shape[1:] != self._shape:
            raise ValueError(f"contexts must have shape (n, {len(self)}); got {x.shape}.")
        return x

    def scaled_rows(self, contexts: FloatArray) -> FloatArray:
        """Many contexts (n, d) mapped by the bounds; the caller checks whether they lie within them."""
        return contexts if self.is_unit else (contexts - self._low) / self._span

    def points(self, contexts: FloatArray) -> FloatArray:
        """Many contexts (n, d) in the unit cube."""
        x = self.scaled_rows(contexts)
        good = ((x >= 0.0) & (x <= 1.0)).all(axis=1)
        if not good.all():
            self.point(contexts[int(np.argmin(good))])  # raises and says which coordinate
        return np.ascontiguousarray(x)
