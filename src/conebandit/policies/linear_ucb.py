"""Linear Pareto-UCB: a ridge regression for each arm and metric."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from conebandit.geometry.cone import Cone
from conebandit.kernels import linear_ucb as kernels
from conebandit.policies.compiled import CompiledPolicy
from conebandit.validate.arguments import as_positive


class LinearParetoUCB(CompiledPolicy):
    """LinUCB with disjoint models (Li, Chu, Langford and Schapire, 2010), made a vector policy for any cone.

    Each metric of each arm is regressed on the context, scaled to the unit cube, and a constant. Plays, uniformly, an
    arm on the front of the upper confidence bounds; reports the front of the predictions. The constant is penalised
    like all coefficients, so a large offset of all rewards matters: take it off before.

    Parameters
    ----------
    n_arms, cone, context_dim, seed, bounds
        As for :class:`ConeTree`.
    width
        Factor on the standard error of a prediction. The default was chosen on the development suite
        (``benchmarks/results/tuning.md``), like that of ``ridge``.
    ridge
        Penalty on squared coefficients: as many observations as it takes to outweigh the guess that all are zero.

    Examples
    --------
    >>> import conebandit as cb
    >>> policy = cb.LinearParetoUCB(n_arms=2, cone=cb.Cone.orthant(1), context_dim=1)
    >>> for x in (0.0, 0.4, 0.6):
    ...     policy.observe([x], 0, [1 - x])
    ...     policy.observe([x], 1, [x])
    >>> policy.front([1.0]).arms      # beyond what was seen, along the lines
    (1,)
    """

    kernels: ClassVar[Any] = kernels

    def __init__(
        self,
        n_arms: int,
        cone: Cone,
        context_dim: int,
        *,
        width: float = 0.7,
        ridge: float = 0.003,
        seed: int = 0,
        bounds: ArrayLike | None = None,
    ) -> None:
        settings = {"width": as_positive(width, "width"), "ridge": as_positive(ridge, "ridge")}
        super().__init__(n_arms, cone, context_dim, seed=seed, bounds=bounds, **settings)

    def _fresh_state(self) -> kernels.State:
        pairs, features = (self.n_arms, self.n_objectives), self.context_dim + 1
        return kernels.State(
            size=np.zeros(1, dtype=np.int64),
            counts=np.zeros(pairs, dtype=np.int64),
            inverses=np.tile(np.eye(features) / self.settings["ridge"], (*pairs, 1, 1)),
            weights=np.zeros((*pairs, features)),
            facets=self.cone.facets.copy(),
            width=np.array([self.settings["width"]]),
        )
