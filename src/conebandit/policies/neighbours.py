"""Nearest-neighbour Pareto-UCB: the past samples closest to a context speak for it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from conebandit.kernels import neighbours as kernels
from conebandit.kernels import queries, rows
from conebandit.policies.common import setting
from conebandit.policies.compiled import CompiledPolicy
from conebandit.policies.layout import Array, Counter, Layout
from conebandit.policies.merging import added
from conebandit.validate.arguments import as_positive

MAX_ANCHORS = 512

# From 1 / FINEST to 1 by factors of the root of two, rounded to multiples of 1 / FINEST: radii, in that unit.
_HALVINGS = np.arange(2.0 * np.log2(kernels.FINEST), -1.0, -1.0) / 2.0
_RADII = np.unique(np.round(kernels.FINEST * 0.5**_HALVINGS)).astype(np.int64)


@dataclass(eq=False, repr=False, kw_only=True)
class NeighbourParetoUCB(CompiledPolicy):
    """The k-nearest-neighbour UCB of Reeve, Mellor and Brown (2018), made a vector policy for any cone.

    A mean is estimated from the nearest past samples of the arm in which the metric is known. Their number is chosen
    anew for each context, arm and metric: the one with the least uncertainty, which is ``width`` times the confidence
    bonus and ``smoothness`` times the distance within which they lie (sup norm, unit cube). Plays, uniformly, an arm on
    the front of the upper bounds; reports the front of the estimates.

    It departs from the publication in two points, so that a round costs the same however many samples there are.
    Distances are not taken from the context itself but from the nearest point of a lattice of at most 512 (22 x 22 in
    two dimensions, 3 along each coordinate in five, but only the centre of the cube beyond nine). And they are rounded
    up to radii of which there are two for each halving, from 1 down to 1/128.

    Parameters
    ----------
    n_arms, cone, context_dim, seed, bounds, explore, resolution
        As for :class:`ConeTree`.
    width
        Factor on the confidence bonus. The default was chosen on the development suite
        (``benchmarks/results/tuning.md``), like that of ``smoothness``.
    smoothness
        How fast means are expected to change with the distance.

    Examples
    --------
    >>> import conebandit as cb
    >>> policy = cb.NeighbourParetoUCB(n_arms=2, cone=cb.Cone.orthant(2), context_dim=1, width=0.1)
    >>> for x in (0.1, 0.2, 0.8, 0.9):
    ...     for arm in (0, 1):
    ...         policy.observe([x], arm, [abs(arm - x), 0.5])
    >>> policy.front([0.15]).arms, policy.front([0.85]).arms
    ((1,), (0,))
    """

    width: float = setting(0.1, as_positive)
    smoothness: float = setting(0.15, as_positive)

    _kernels: ClassVar[Any] = kernels
    _query: ClassVar[Any] = staticmethod(queries.ask_neighbours)
    _observe_rows: ClassVar[Any] = staticmethod(rows.observe_neighbours)
    _layout: ClassVar[Layout] = Layout(
        kernels.State,
        {"observations": Counter()},
        {
            "side": Array((1,), np.int64, fixed=True),
            "anchors": Array(("anchors", "coordinates"), np.int64, fixed=True),
            "reach": Array((len(_RADII),)),
            "ring": Array((kernels.FINEST + 1,), np.int64, fixed=True),
            "rings": Array(("arms", len(_RADII), "anchors", "twice objectives")),
            "facets": Array(("facets", "objectives")),
            "constants": Array((2,)),
        },
        cone_free=True,
    )

    def _merged(self, other: Self, start: Self) -> Self:
        sums = added((self._state, other._state, start._state), ("size", "rings"))
        return self.clone()._with({**self.state(), **sums})

    def _side(self) -> int:
        """Number of anchors along a coordinate."""
        side = 1
        while (side + 1) ** self.context_dim <= MAX_ANCHORS:
            side += 1
        return side

    def _own_sizes(self) -> dict[str, int]:
        return {"anchors": self._side() ** self.context_dim, "twice objectives": 2 * self.n_objectives}

    def _given(self) -> dict[str, NDArray[Any]]:
        side = self._side()
        digits = side ** np.arange(self.context_dim)[::-1]
        return {
            **super()._given(),
            "side": np.array([side]),
            "anchors": np.arange(side**self.context_dim)[:, None] // digits % side,  # (A, d)
            "reach": _RADII / kernels.FINEST,
            "ring": np.searchsorted(_RADII, np.arange(kernels.FINEST + 1)),
            "constants": np.array([self.width, self.smoothness]),
        }
