"""Linear Pareto-UCB: a ridge regression for each arm and metric."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from conebandit.kernels import linear_ucb as kernels
from conebandit.kernels import queries, rows
from conebandit.policies.common import setting
from conebandit.policies.compiled import CompiledPolicy
from conebandit.policies.layout import Array, Counter, Layout
from conebandit.policies.merging import Regression, added, pooled
from conebandit.validate.arguments import as_positive


@dataclass(eq=False, repr=False, kw_only=True)
class LinearParetoUCB(CompiledPolicy):
    """LinUCB with disjoint models (Li, Chu, Langford and Schapire, 2010), made a vector policy for any cone.

    Each metric of each arm is regressed on the context, scaled to the unit cube, and a constant. Plays, uniformly, an
    arm on the front of the upper confidence bounds; reports the front of the predictions. The constant is penalised
    like all coefficients, so a large offset of all rewards matters: take it off before.

    Parameters
    ----------
    n_arms, cone, context_dim, seed, bounds, explore, resolution
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

    width: float = setting(0.7, as_positive)
    ridge: float = setting(0.003, as_positive)

    _kernels: ClassVar[Any] = kernels
    _query: ClassVar[Any] = staticmethod(queries.ask_linear_ucb)
    _observe_rows: ClassVar[Any] = staticmethod(rows.observe_linear_ucb)
    _layout: ClassVar[Layout] = Layout(
        kernels.State,
        {"observations": Counter()},
        {
            "counts": Array(("arms", "objectives"), np.int64),
            "inverses": Array(("arms", "objectives", "features", "features")),
            "weights": Array(("arms", "objectives", "features")),
            "facets": Array(("facets", "objectives")),
            "width": Array((1,)),
        },
        cone_free=True,
    )

    def _merged(self, other: Self, start: Self) -> Self:
        states = self._state, other._state, start._state
        made = added(states, ("size", "counts"))
        inverses, weights = np.empty_like(self._state.inverses), np.empty_like(self._state.weights)
        for place in np.ndindex(weights.shape[:2]):
            fits = [Regression(state.inverses[place], state.weights[place]) for state in states]
            inverses[place], weights[place] = pooled(*fits)
        return self.clone()._with({**self.state(), **made, "inverses": inverses, "weights": weights})

    def _own_sizes(self) -> dict[str, int]:
        return {"features": self.context_dim + 1}

    def _given(self) -> dict[str, NDArray[Any]]:
        inverse = np.eye(self.context_dim + 1) / self.ridge
        return {**super()._given(), "inverses": inverse, "width": np.array([self.width])}
