"""What an environment offers, and the class that all environments here are instances of."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np

from conebandit.environments.noise import Gaussian, Noise
from conebandit.environments.shift import Schedule
from conebandit.geometry.cone import Cone, as_cone
from conebandit.validate.arguments import as_count
from conebandit.validate.arrays import FloatArray
from conebandit.validate.sizes import Sizes


@runtime_checkable
class Environment(Sizes, Protocol):
    """Any object with these members can be simulated.

    Contexts do not depend on actions, so everything is vectorised: whole chunks of rounds at a time.

    Examples
    --------
    >>> import conebandit as cb
    >>> isinstance(cb.environments.paper(), cb.Environment)
    True
    """

    @property
    def cone(self) -> Cone:
        """The preference cone."""
        ...

    @property
    def change_points(self) -> tuple[int, ...]:
        """Number of rounds after which the law of contexts changes for good."""
        ...

    def contexts(self, rng: np.random.Generator, n: int, start: int) -> FloatArray:
        """Contexts of rounds start, ..., start + n - 1 (counted from 0), shape (n, d)."""
        ...

    def means(self, contexts: FloatArray) -> FloatArray:
        """Mean reward vectors of all arms, (n, d) -> (n, K, M)."""
        ...

    def rewards(self, rng: np.random.Generator, means: FloatArray) -> FloatArray:
        """Rewards drawn around means of any leading shape (..., M)."""
        ...


@dataclass(frozen=True)
class World:
    """An environment put together from a schedule, a mean function and a law of noise.

    Parameters
    ----------
    name
        For tables and figures.
    schedule
        Where contexts come from.
    mean_function
        (n, d) -> (n, K, M).
    cone
        The preference cone; its dimension is M.
    n_arms
        Number of arms, K.
    noise
        How rewards are drawn around their means.

    Examples
    --------
    >>> import numpy as np, conebandit as cb
    >>> from conebandit.environments import shift
    >>> def means(x):  # two arms, two objectives: the second arm is better for large contexts
    ...     return np.stack([np.stack([1.5 - x[:, 0], 1 + x[:, 0]], 1), np.stack([0.5 + x[:, 0], 1 + x[:, 0]], 1)], 1)
    >>> world = cb.World("crossing", shift.stationary(shift.uniform(1)), means, cb.Cone.orthant(2), n_arms=2)
    >>> world.means(np.array([[0.2]])).shape
    (1, 2, 2)
    """

    name: str
    schedule: Schedule
    mean_function: Callable[[FloatArray], FloatArray]
    cone: Cone
    n_arms: int
    noise: Noise = Gaussian()  # noqa: RUF009  (frozen, so it can be shared)

    def __post_init__(self) -> None:
        object.__setattr__(self, "n_arms", as_count(self.n_arms, "n_arms"))
        if not all(hasattr(self.schedule, name) for name in ("sample", "context_dim", "bounds", "change_points")):
            raise TypeError(f"schedule must be a Schedule, such as stationary(law); got {self.schedule!r}.")
        as_cone(self.cone)
        probe = self.mean_function(self.schedule.sample(np.random.default_rng(0), 2, 0))
        if probe.shape != (2, self.n_arms, self.cone.dim):
            raise ValueError(
                f"mean_function gives shape {probe.shape} for two contexts, but with n_arms = {self.n_arms} and a cone "
                f"of dimension {self.cone.dim} it must be {(2, self.n_arms, self.cone.dim)}; check cone and schedule."
            )

    @property
    def n_objectives(self) -> int:
        """Number of objectives, M."""
        return self.cone.dim

    @property
    def context_dim(self) -> int:
        """Number of context coordinates, d."""
        return self.schedule.context_dim

    @property
    def change_points(self) -> tuple[int, ...]:
        """Number of rounds after which the law of contexts changes for good."""
        return self.schedule.change_points

    @property
    def bounds(self) -> FloatArray:
        """Box of the contexts, shape (d, 2)."""
        return self.schedule.bounds

    def contexts(self, rng: np.random.Generator, n: int, start: int) -> FloatArray:
        """Contexts of rounds start, ..., start + n - 1."""
        return self.schedule.sample(rng, n, start)

    def means(self, contexts: FloatArray) -> FloatArray:
        """Mean reward vectors of all arms."""
        return self.mean_function(contexts)

    def rewards(self, rng: np.random.Generator, means: FloatArray) -> FloatArray:
        """Rewards drawn around the means."""
        return self.noise.draw(rng, means)
