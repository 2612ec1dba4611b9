"""Pareto contextual zooming: finer cells where an arm is played often."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from conebandit.kernels import queries, rows
from conebandit.kernels import zooming as kernels
from conebandit.policies.common import setting
from conebandit.policies.compiled import CompiledPolicy
from conebandit.policies.layout import Array, Counter, Index, Layout
from conebandit.validate.arguments import as_positive

MAX_COORDINATES = 64


@dataclass(eq=False, repr=False, kw_only=True)
class ParetoZooming(CompiledPolicy):
    """Pareto Contextual Zooming (Turgay, Öner and Tekin, 2018), for any cone and arms without a metric of their own.

    Every arm has its own cover of the contexts by active cells. The relevant cell of an arm is the smallest one around
    the context. Its index on a facet is the least upper bound (mean + confidence + radius) that it or a larger active
    cell around it gives. Plays, uniformly, an arm whose index is on the front of all indices; the observation counts
    in the relevant cell alone. When the confidence of that cell has come down to its radius, the cell of half the
    radius around the context becomes active. Reports the front of the means, each taken from the cell in which it is
    known best.

    It departs from the publication in three points. Balls are dyadic cells, whose sides are their radii in the sup
    norm, so that a round costs no more than a walk down one tree for each arm, whereas balls centred at contexts
    overlap and have to be searched. An index is bounded by the cells around it only, not by distant ones. And the
    confidence grows with the logarithm of the round, since the horizon is not known.

    Parameters
    ----------
    n_arms, cone, context_dim, seed, bounds, explore, resolution
        As for :class:`ConeTree`; at most 64 coordinates.
    width
        Factor on the confidence. The default was chosen on the development suite (``benchmarks/results/tuning.md``),
        like that of ``smoothness``.
    smoothness
        Factor on radii: how much means may differ across the unit cube.

    Examples
    --------
    >>> import conebandit as cb
    >>> policy = cb.ParetoZooming(n_arms=2, cone=cb.Cone.orthant(1), context_dim=1, width=0.1)
    >>> for i in range(500):
    ...     x = i * 0.618 % 1
    ...     arm = policy.decide([x], key=i).arm
    ...     policy.observe([x], arm, [abs(x - arm)])
    >>> policy.front([0.1]).arms, policy.front([0.9]).arms
    ((1,), (0,))
    """

    width: float = setting(0.2, as_positive)
    smoothness: float = setting(0.2, as_positive)

    _why_not_merged: ClassVar[str] = (
        "an observation counts in the smallest cell that there was at its time, and no samples are kept to deal anew"
    )
    _kernels: ClassVar[Any] = kernels
    _query: ClassVar[Any] = staticmethod(queries.ask_zooming)
    _observe_rows: ClassVar[Any] = staticmethod(rows.observe_zooming)
    _layout: ClassVar[Layout] = Layout(
        kernels.State,
        {"observations": Counter(), "nodes": Counter("arms", step="coordinates")},
        {
            "links": Array(("nodes", 2), np.int64, indices=Index("nodes")),
            "counts": Array(("nodes", "objectives"), np.int64),
            "totals": Array(("nodes", "objectives")),
            "facets": Array(("facets", "objectives")),
            "constants": Array((2,)),
        },
        cone_free=True,
    )

    def _given(self) -> dict[str, NDArray[Any]]:
        if self.context_dim > MAX_COORDINATES:
            raise ValueError(f"context_dim must be at most {MAX_COORDINATES}; got {self.context_dim}.")
        return {**super()._given(), "constants": np.array([self.width, self.smoothness])}
