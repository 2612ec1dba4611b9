"""The paper's Example 2: fronts that converge in the Hausdorff distance while preferences do not."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from conebandit.environments import shift
from conebandit.environments.base import World
from conebandit.environments.noise import Gaussian
from conebandit.geometry.cone import Cone
from conebandit.validate.arguments import as_fraction
from conebandit.validate.arrays import FloatArray


class _Harmonic:
    """Contexts 1, 1/2, 1/3, ...: a deterministic schedule."""

    context_dim = 1
    bounds = np.array([[0.0, 1.0]])
    change_points: tuple[int, ...] = ()
    parts = (shift.uniform(),)

    def sample(self, rng: np.random.Generator, n: int, start: int = 0) -> FloatArray:
        return 1.0 / np.arange(start + 1.0, start + n + 1.0)[:, None]


@dataclass(frozen=True)
class _Means:
    floor: float

    def __call__(self, contexts: FloatArray) -> FloatArray:
        means = np.zeros((len(contexts), 3, 2))
        means[:, 0, 0] = means[:, 1, 1] = 1.0
        means[:, 2, :] = contexts**2
        return np.maximum(means, self.floor)


def hausdorff_example(*, sigma: float = 0.1, floor: float = 1e-3) -> World:
    """Arms (1, 0), (0, 1) and (x^2, x^2) with contexts x = 1/t; zeros are raised to ``floor``.

    Noise is Gaussian with deviation ``sigma``.

    Examples
    --------
    >>> from conebandit.environments import hausdorff_example
    >>> env = hausdorff_example()
    >>> env.contexts(np.random.default_rng(0), 3, 0).ravel()
    array([1.        , 0.5       , 0.33333333])
    """
    schedule: shift.Schedule = _Harmonic()  # type: ignore[assignment]
    means = _Means(as_fraction(floor, "floor"))
    return World("hausdorff example", schedule, means, Cone.orthant(2), 3, Gaussian(sigma))
