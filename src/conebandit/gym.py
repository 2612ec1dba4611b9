"""Environments for Gymnasium, with vector rewards by the convention of MO-Gymnasium. Importing this registers them.

Needs Gymnasium: ``pip install 'conebandit[gym]'``.

Examples
--------
>>> import gymnasium, conebandit.gym
>>> env = gymnasium.make("conebandit/dose_finding-v0", n_arms=6)
>>> observation, info = env.reset(seed=1)
>>> observation, reward, terminated, truncated, info = env.step(2)
>>> reward.shape, env.unwrapped.reward_dim
((2,), 2)
"""

from __future__ import annotations

from typing import Any

import numpy as np

from conebandit import environments
from conebandit.environments.base import Environment
from conebandit.validate.arguments import as_arm, as_count
from conebandit.validate.arrays import FloatArray

try:
    import gymnasium
except ModuleNotFoundError:
    raise ImportError("conebandit.gym needs Gymnasium: pip install 'conebandit[gym]'.") from None

CHUNK = 500  # rounds that are drawn at a time. Part of what a seed means
PREFIX = "conebandit/"


class BanditEnv(gymnasium.Env[FloatArray, int]):
    """An environment, one round a step: observations are contexts, actions are arms, rewards are vectors.

    What is observed next does not depend on the action. An episode is truncated after ``horizon`` rounds, and never
    terminated; the population shifts within it as the environment says. ``reward_space`` and ``reward_dim`` are as in
    MO-Gymnasium. ``info["means"]`` has the mean rewards of all arms in the context just played, shape (K, M), for
    whoever measures regret; a learner must not look.

    Parameters
    ----------
    environment
        Any object that :func:`conebandit.simulate` takes.
    horizon
        Rounds of an episode.

    Examples
    --------
    >>> import conebandit as cb
    >>> from conebandit.gym import BanditEnv
    >>> env = BanditEnv(cb.environments.smooth(n_arms=4, n_objectives=3), horizon=100)
    >>> env.action_space, env.reward_space.shape
    (Discrete(4), (3,))
    """

    metadata: dict[str, Any] = {"render_modes": []}  # noqa: RUF012  (as Gymnasium declares it)

    def __init__(self, environment: Environment, *, horizon: int = 10_000) -> None:
        self.environment, self.horizon = environment, as_count(horizon, "horizon")
        unbounded = np.tile([-np.inf, np.inf], (environment.context_dim, 1))
        low, high = np.asarray(getattr(environment, "bounds", unbounded)).T
        self.observation_space = gymnasium.spaces.Box(low, high, dtype=np.float64)
        self.action_space = gymnasium.spaces.Discrete(environment.n_arms)  # type: ignore[assignment]
        self.reward_dim = environment.n_objectives
        self.reward_space = gymnasium.spaces.Box(-np.inf, np.inf, (self.reward_dim,), dtype=np.float64)
        self._round = -1  # before the first reset

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[FloatArray, dict[str, Any]]:
        """The first context of an episode."""
        super().reset(seed=seed)
        self._round = 0
        self._draw()
        return self._contexts[0].copy(), {}

    def step(self, action: int) -> tuple[FloatArray, Any, bool, bool, dict[str, Any]]:
        """Play an arm: the next context, the reward vector (M,), and the means of all arms in ``info``."""
        arm = as_arm(action, self.environment.n_arms)
        if not 0 <= self._round < self.horizon:
            raise gymnasium.error.ResetNeeded("reset must be called before the first step, and after the last one.")
        row = self._round % CHUNK
        reward, means = self._rewards[row, arm].copy(), self._means[row].copy()
        self._round += 1
        if self._round % CHUNK == 0:
            self._draw()
        return self._contexts[self._round % CHUNK].copy(), reward, False, self._round == self.horizon, {"means": means}

    def _draw(self) -> None:
        """The next rounds: contexts, means and rewards of all arms."""
        self._contexts = self.environment.contexts(self.np_random, CHUNK, self._round)
        self._means = self.environment.means(self._contexts)
        self._rewards = self.environment.rewards(self.np_random, self._means)


def make(name: str, horizon: int = 10_000, **options: Any) -> BanditEnv:
    """One of our environments by its name; what registered ids lead to.

    Parameters
    ----------
    name
        One of :func:`names`.
    horizon
        Rounds of an episode.
    options
        Of the environment: ``n_arms``, say.

    Examples
    --------
    >>> from conebandit.gym import make
    >>> make("paper", n_arms=5, horizon=100).action_space
    Discrete(5)
    """
    if name not in names():
        raise ValueError(f"name must be one of {', '.join(names())}; got {name!r}.")
    return BanditEnv(getattr(environments, name)(**options), horizon=horizon)


def names() -> tuple[str, ...]:
    """Environments that are registered: all but ``from_table``, which needs a table; give its world to ``BanditEnv``.

    Examples
    --------
    >>> from conebandit.gym import names
    >>> "dose_finding" in names()
    True
    """
    return tuple(name for name in environments.__all__ if name != "from_table")


def _register() -> None:
    """Offer ``conebandit/NAME-v0``, without the check at every ``make``, which complains of vectors as rewards."""
    for name in names():
        gymnasium.register(f"{PREFIX}{name}-v0", "conebandit.gym:make", kwargs={"name": name}, disable_env_checker=True)


_register()
