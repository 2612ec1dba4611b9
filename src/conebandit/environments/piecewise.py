"""Random mean functions that jump, to test methods that rely on smoothness."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from conebandit.environments import shift
from conebandit.environments.base import World
from conebandit.environments.noise import Gaussian, Noise
from conebandit.environments.smooth import choose_schedule
from conebandit.geometry.cone import Cone
from conebandit.validate.arguments import as_count, as_fraction, as_integer
from conebandit.validate.arrays import FloatArray


@dataclass(frozen=True)
class _Steps:
    """Squashed sums of steps, each along one coordinate."""

    coordinate: NDArray[np.intp]  # (steps,)
    threshold: FloatArray  # (steps,)
    heights: FloatArray  # (steps, K * M)
    base: FloatArray  # (K * M,)
    n_arms: int
    low: float

    def __call__(self, contexts: FloatArray) -> FloatArray:
        above = (contexts[:, self.coordinate] >= self.threshold).astype(np.float64)
        means = 0.5 * (1.0 + self.low) + 0.5 * (1.0 - self.low) * np.tanh(self.base + above @ self.heights)
        return np.asarray(means.reshape(len(contexts), self.n_arms, -1))


def piecewise(
    n_arms: int = 8,
    n_objectives: int = 2,
    context_dim: int = 2,
    *,
    jumps: int = 3,
    low: float = 0.2,
    nu: float = 3.0,
    change_point: int = 5000,
    schedule: shift.Schedule | None = None,
    noise: Noise | None = None,
    cone: Cone | None = None,
    seed: int = 0,
) -> World:
    """Random piecewise constant means with ``jumps`` jumps along each coordinate.

    Other parameters are those of :func:`smooth`.

    Examples
    --------
    >>> from conebandit.environments import piecewise
    >>> env = piecewise(context_dim=1, jumps=2)
    >>> x = np.linspace(0, 1, 1000)[:, None]
    >>> len(np.unique(env.means(x)[:, 0, 0]))
    3
    """
    n_arms, n_objectives = as_count(n_arms, "n_arms"), as_count(n_objectives, "n_objectives")
    context_dim, jumps, low = as_count(context_dim, "context_dim"), as_count(jumps, "jumps"), as_fraction(low, "low")
    when = choose_schedule(schedule, context_dim, nu, change_point)
    rng = np.random.default_rng(as_integer(seed, "seed", least=0))
    steps = _Steps(
        coordinate=np.repeat(np.arange(context_dim), jumps),
        threshold=rng.random(context_dim * jumps),
        heights=rng.standard_normal((context_dim * jumps, n_arms * n_objectives)),
        base=0.5 * rng.standard_normal(n_arms * n_objectives),
        n_arms=n_arms,
        low=low,
    )
    name = f"piecewise, d = {context_dim}, K = {n_arms}, M = {n_objectives}"
    return World(name, when, steps, cone or Cone.orthant(n_objectives), n_arms, noise or Gaussian(0.3))
