"""The policy that knows the truth, as a yardstick."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from conebandit.geometry.cone import Cone
from conebandit.geometry.pareto import pareto_mask
from conebandit.kernels.oracle import draw_many
from conebandit.policies.base import Decision, Decisions, Front, chances_at, fronts_of
from conebandit.policies.common import CommonPolicy
from conebandit.validate.arguments import Key, as_key, as_keys
from conebandit.validate.arrays import FloatArray
from conebandit.validate.sizes import Sizes


class Truth(Sizes, Protocol):
    """What an oracle asks of an environment: less than there is to an :class:`Environment`.

    Examples
    --------
    >>> import conebandit as cb
    >>> def known(environment: cb.Truth) -> cb.Oracle:
    ...     return cb.Oracle(environment, seed=1)
    >>> known(cb.environments.paper(n_arms=5)).n_arms
    5
    """

    @property
    def cone(self) -> Cone:
        """The preference cone."""
        ...

    def means(self, contexts: FloatArray) -> FloatArray:
        """Mean reward vectors of all arms, (n, d) -> (n, K, M)."""
        ...


class Oracle(CommonPolicy):
    """Knows the means: plays uniformly from the true front, and reports it. Every regret of it is zero.

    It is what any policy can at most become, and shows that an environment and its regrets are what they should be. It
    has no ``save``: what it knows is the environment.

    Parameters
    ----------
    environment
        Where the means come from; its ``bounds``, if it has them, are those of the contexts.
    seed
        Seed of the policy's own randomness.

    Examples
    --------
    >>> import conebandit as cb
    >>> env = cb.environments.smooth(n_arms=4, context_dim=1)
    >>> run = cb.simulate(cb.Oracle(env), env, horizon=500)
    >>> run.total("play"), run.total("coverage"), run.average("recall")
    (0.0, 0.0, 1.0)
    """

    def __init__(self, environment: Truth, *, seed: int = 0) -> None:
        missing = [name for name in ("n_arms", "context_dim", "cone", "means") if not hasattr(environment, name)]
        if missing:
            raise TypeError(f"environment must have {', '.join(missing)}; got {environment!r}.")
        self.environment = environment
        size = environment.n_arms, environment.cone, environment.context_dim
        super().__init__(*size, seed=seed, bounds=getattr(environment, "bounds", None))

    def decide(self, context: ArrayLike, key: Key) -> Decision:
        """Any arm of the true front, by the key."""
        mask = pareto_mask(self._means(context), self.cone)
        arms, chances = draw_many(self._seed, np.array([as_key(key)]), mask[np.newaxis])
        return Decision(int(arms[0]), float(chances[0, arms[0]]), mask, chances[0])

    def decide_many(self, contexts: ArrayLike, keys: Iterable[Key]) -> Decisions:
        """Arms for many contexts (n, d) with a key each: row by row what :meth:`decide` says."""
        means = self._many_means(contexts)
        bits = as_keys(keys, len(means))
        masks = self._many_masks(means)
        arms, chances = draw_many(self._seed, bits, masks)
        return Decisions(arms, chances_at(chances, arms), masks, chances)

    def observe(self, context: ArrayLike, arm: int, reward: ArrayLike) -> None:
        """Check the arguments; there is nothing to learn."""
        self._checked(context, arm, reward)

    def front(self, context: ArrayLike) -> Front:
        """The true front and its means, without error."""
        means = self._means(context)
        arms = np.flatnonzero(pareto_mask(means, self.cone))
        return Front(tuple(int(k) for k in arms), means[arms], np.zeros((len(arms), self.n_objectives)))

    def fronts(self, contexts: ArrayLike) -> list[Front]:
        """Fronts in many contexts (n, d): one by one what :meth:`front` says."""
        means = self._many_means(contexts)
        return fronts_of(self._many_masks(means), means, np.zeros_like(means))

    def run_chunk(
        self, contexts: FloatArray, outcomes: FloatArray, keys: NDArray[np.uint64]
    ) -> tuple[NDArray[np.int64], FloatArray, NDArray[np.bool_], NDArray[np.bool_]]:
        """Many rounds at once, for the simulator; see :meth:`ConeTree.run_chunk`."""
        self.box.points(contexts)  # refuses those out of bounds
        fronts = pareto_mask(self.environment.means(contexts), self.cone)
        arms, chances = draw_many(self._seed, keys, fronts)
        return arms, chances_at(chances, arms), fronts, fronts.copy()

    def copy(self) -> Self:
        """Itself: it does not change."""
        return self

    def clone(self) -> Self:
        """Another one for the same environment."""
        return type(self)(self.environment, seed=self.seed)

    def _means(self, context: ArrayLike) -> FloatArray:
        """True means (K, M) in a context, which is in the units of the environment."""
        self.box.point(context)
        means: FloatArray = self.environment.means(np.array(context, dtype=np.float64, ndmin=2))[0]
        return means

    def _many_means(self, contexts: ArrayLike) -> FloatArray:
        """True means (n, K, M), each found on its own: of many contexts at once an environment may round otherwise."""
        rows = self.box.rows(contexts)
        self.box.points(rows)  # refuses those out of bounds
        means = np.empty((len(rows), self.n_arms, self.n_objectives))
        for i in range(len(rows)):
            means[i] = self.environment.means(rows[i : i + 1])[0]
        return means

    def _many_masks(self, means: FloatArray) -> NDArray[np.bool_]:
        """The true fronts (n, K)."""
        return pareto_mask(means, self.cone) if len(means) else np.empty(means.shape[:2], dtype=np.bool_)
