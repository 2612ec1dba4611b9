"""Pareto-UCB1: upper confidence bounds for each arm, whatever the context."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from conebandit.geometry.cone import Cone
from conebandit.kernels import pareto_ucb as kernels
from conebandit.policies.compiled import CompiledPolicy
from conebandit.validate.arguments import as_positive


class ParetoUCB1(CompiledPolicy):
    """Pareto-UCB1 of Drugan and Nowé (2013), for any cone. It ignores the context.

    Plays, uniformly, an arm on the front of the upper confidence bounds; reports the front of the estimated means.

    Parameters
    ----------
    n_arms, cone, context_dim, seed, bounds
        As for :class:`ConeTree`.
    width
        Factor on the confidence bonus; 1 is the published one, for rewards in [0, 1].

    Notes
    -----
    The default was chosen on the development suite, ``benchmarks/results/tuning.md``.

    Examples
    --------
    >>> import conebandit as cb
    >>> policy = cb.ParetoUCB1(n_arms=3, cone=cb.Cone.orthant(2), context_dim=1)
    >>> policy.observe([0.5], 0, [0.9, 0.1])
    >>> policy.decide([0.5], key=1).arm in (1, 2)      # arms never seen come first
    True
    """

    kernels: ClassVar[Any] = kernels

    def __init__(
        self,
        n_arms: int,
        cone: Cone,
        context_dim: int,
        *,
        width: float = 0.3,
        seed: int = 0,
        bounds: ArrayLike | None = None,
    ) -> None:
        super().__init__(n_arms, cone, context_dim, seed=seed, bounds=bounds, width=as_positive(width, "width"))

    def _fresh_state(self) -> kernels.State:
        shape = (self.n_arms, self.n_objectives)
        return kernels.State(
            size=np.zeros(1, dtype=np.int64),
            counts=np.zeros(shape, dtype=np.int64),
            totals=np.zeros(shape),
            facets=self.cone.facets.copy(),
            width=np.array([self.settings["width"]]),
        )
