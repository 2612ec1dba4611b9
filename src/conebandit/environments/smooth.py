"""Random smooth mean functions."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from conebandit.environments import shift
from conebandit.environments.base import World
from conebandit.environments.noise import Gaussian, Noise
from conebandit.geometry.cone import Cone
from conebandit.validate.arguments import as_count, as_fraction, as_integer, as_positive
from conebandit.validate.arrays import FloatArray

WAVES = 16  # cosines in each sum: enough that a sum of them looks like a Gaussian process


@dataclass(frozen=True)
class _Waves:
    """Means between ``low`` and 1: squashed sums of cosines that all arms and objectives share."""

    frequencies: FloatArray  # (d, waves)
    phases: FloatArray  # (waves,)
    amplitudes: FloatArray  # (waves, K * M)
    n_arms: int
    low: float

    def __call__(self, contexts: FloatArray) -> FloatArray:
        angles = contexts @ self.frequencies  # in place from here on: fresh memory costs as much as the arithmetic
        angles += self.phases
        waves = np.cos(angles, out=angles) @ self.amplitudes
        np.tanh(waves, out=waves)
        waves *= 0.5 * (1.0 - self.low)
        waves += 0.5 * (1.0 + self.low)
        return waves.reshape(len(contexts), self.n_arms, -1)


def _random_waves(
    rng: np.random.Generator, sizes: tuple[int, int, int], relevant: int, length_scale: float, low: float
) -> _Waves:
    """Random frequencies, phases and amplitudes for K arms, M objectives and d coordinates."""
    n_arms, n_objectives, context_dim = sizes
    frequencies = np.zeros((context_dim, WAVES))
    frequencies[:relevant] = rng.standard_normal((relevant, WAVES)) / length_scale
    return _Waves(
        frequencies=frequencies,
        phases=rng.uniform(0.0, 2.0 * np.pi, WAVES),
        amplitudes=rng.standard_normal((WAVES, n_arms * n_objectives)) * np.sqrt(2.0 / WAVES),
        n_arms=n_arms,
        low=low,
    )


def choose_schedule(schedule: shift.Schedule | None, context_dim: int, nu: float, change_point: int) -> shift.Schedule:
    """The given schedule, if it fits; by default the paper's shift in every coordinate."""
    if schedule is None:
        at = as_integer(change_point, "change_point", least=0)
        return shift.change_point(shift.power_law(nu, context_dim), shift.uniform(context_dim), at=at)
    if schedule.context_dim != context_dim:
        raise ValueError(
            f"schedule has dimension {schedule.context_dim}, but context_dim is {context_dim}; they must agree."
        )
    return schedule


def smooth(
    n_arms: int = 8,
    n_objectives: int = 2,
    context_dim: int = 2,
    *,
    relevant: int | None = None,
    length_scale: float = 0.5,
    low: float = 0.2,
    nu: float = 3.0,
    change_point: int = 5000,
    schedule: shift.Schedule | None = None,
    noise: Noise | None = None,
    cone: Cone | None = None,
    seed: int = 0,
) -> World:
    """Random smooth positive mean functions with a given length scale.

    Parameters
    ----------
    n_arms, n_objectives, context_dim
        K, M and d.
    relevant
        How many of the coordinates matter (the first ones); all by default.
    length_scale
        Distance over which means change noticeably, in units of the box.
    low
        Means lie between this and 1.
    nu, change_point
        Shift in every coordinate as in the paper; unless ``schedule`` is given.
    schedule
        Any schedule on the unit cube.
    noise
        Gaussian with deviation 0.3 by default.
    cone
        The orthant by default.
    seed
        Which random functions.

    Examples
    --------
    >>> from conebandit.environments import smooth
    >>> env = smooth(n_arms=4, n_objectives=3, context_dim=2, seed=1)
    >>> means = env.means(env.contexts(np.random.default_rng(0), 1000, 0))
    >>> means.shape, bool(0.2 <= means.min() and means.max() <= 1)
    ((1000, 4, 3), True)
    """
    n_arms, n_objectives = as_count(n_arms, "n_arms"), as_count(n_objectives, "n_objectives")
    context_dim = as_count(context_dim, "context_dim")
    relevant = context_dim if relevant is None else as_integer(relevant, "relevant", least=1, most=context_dim)
    length_scale, low = as_positive(length_scale, "length_scale"), as_fraction(low, "low")
    when = choose_schedule(schedule, context_dim, nu, change_point)
    rng = np.random.default_rng(as_integer(seed, "seed", least=0))
    waves = _random_waves(rng, (n_arms, n_objectives, context_dim), relevant, length_scale, low)
    name = f"smooth, d = {context_dim} ({relevant} relevant), K = {n_arms}, M = {n_objectives}"
    return World(name, when, waves, cone or Cone.orthant(n_objectives), n_arms, noise or Gaussian(0.3))
