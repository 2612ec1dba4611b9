"""The paper's benchmark: an arm at random."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from conebandit.kernels.rng import choose_many, hash_vector, uniform
from conebandit.policies.base import Decision, Decisions, Front, fronts_of
from conebandit.policies.common import CommonPolicy
from conebandit.validate.arguments import Key, as_key, as_keys
from conebandit.validate.arrays import FloatArray


@dataclass(eq=False, repr=False)
class RandomArm(CommonPolicy):
    """Plays every arm with the same probability and learns nothing.

    Its front in a context is one arm as well, drawn from the bits of the context, so that it is scored as a singleton
    (as in the paper) and not as the set of all arms, which would cover every front. It has no ``save``: there is no
    state to keep.

    Parameters
    ----------
    n_arms, cone, context_dim, seed, bounds
        As for :class:`ConeTree`.

    Examples
    --------
    >>> import conebandit as cb
    >>> policy = cb.RandomArm(n_arms=4, cone=cb.Cone.orthant(2), context_dim=1)
    >>> policy.decide([0.5], key=1).propensity
    0.25
    """

    def decide(self, context: ArrayLike, key: Key) -> Decision:
        """Any arm, by the key alone."""
        self.box.point(context)
        arm = int(uniform(self._seed, as_key(key)) * self.n_arms)
        chance = 1.0 / self.n_arms
        return Decision(arm, chance, np.ones(self.n_arms, dtype=np.bool_), np.full(self.n_arms, chance))

    def decide_many(self, contexts: ArrayLike, keys: Iterable[Key]) -> Decisions:
        """Arms for many contexts (n, d) with a key each: row by row what :meth:`decide` says."""
        rows = self.box.rows(contexts)
        outcomes = np.empty((len(rows), 0, 0))
        arms, propensities, active, _ = self.run_chunk(rows, outcomes, as_keys(keys, len(rows)))
        return Decisions(arms, propensities, active, np.full(active.shape, 1.0 / self.n_arms))

    def observe(self, context: ArrayLike, arm: int, reward: ArrayLike) -> None:
        """Check the arguments and forget them."""
        self._checked(context, arm, reward)

    def front(self, context: ArrayLike) -> Front:
        """One arm, by the context alone; nothing is known about it."""
        bits = np.uint64(hash_vector(self.box.point(context).view(np.uint64)))
        arm = int(uniform(self._seed, bits) * self.n_arms)
        return Front((arm,), np.full((1, self.n_objectives), np.nan), np.full((1, self.n_objectives), np.inf))

    def fronts(self, contexts: ArrayLike) -> list[Front]:
        """Fronts in many contexts (n, d): one by one what :meth:`front` says."""
        rows = self.box.rows(contexts)
        bits, no_keys = self.box.points(rows).view(np.uint64), np.zeros(len(rows), dtype=np.uint64)
        _, reported = choose_many(self._seed, no_keys, bits, self.n_arms)
        shape = (*reported.shape, self.n_objectives)
        return fronts_of(reported, np.full(shape, np.nan), np.full(shape, np.inf))

    def run_chunk(
        self, contexts: FloatArray, outcomes: FloatArray, keys: NDArray[np.uint64]
    ) -> tuple[NDArray[np.int64], FloatArray, NDArray[np.bool_], NDArray[np.bool_]]:
        """Many rounds at once, for the simulator; see :meth:`ConeTree.run_chunk`."""
        bits = self.box.points(contexts).view(np.uint64)
        arms, reported = choose_many(self._seed, keys, bits, self.n_arms)
        active = np.ones((len(arms), self.n_arms), dtype=np.bool_)
        return arms, np.full(len(arms), 1.0 / self.n_arms), active, reported

    def copy(self) -> Self:
        """Itself: there is no state."""
        return self
