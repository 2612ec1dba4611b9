"""Randomly scalarised UCB: every round another weighting of the facets."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from conebandit.kernels import queries, rows
from conebandit.kernels import scalarised_ucb as kernels
from conebandit.policies.common import setting
from conebandit.policies.compiled import CompiledPolicy
from conebandit.policies.layout import Array, Counter, Layout
from conebandit.policies.merging import added
from conebandit.validate.arguments import as_count, as_positive
from conebandit.validate.arrays import FloatArray

N_WEIGHTS = 32  # finite, so that the chance of an arm can be counted
MAX_BINS = 4096  # all are kept from the start, for every arm and metric


@dataclass(eq=False, repr=False, kw_only=True)
class ScalarisedUCB(CompiledPolicy):
    """Random scalarisations (Paria, Kandasamy and Póczos, 2019; Zhang and Golovin, 2020) of upper confidence bounds.

    Contexts are sorted into static bins. Each round draws one of 32 weightings of the facets of the cone, evenly spread
    over the simplex, and plays the arm whose upper bound is closest to the best value on every facet under it: the
    smallest augmented Chebyshev distance, with facets scaled by the range of the arms. Such an arm is on the front of
    the upper bounds, and every part of that front, convex or not, has its weights. Reports the front of the means.

    Parameters
    ----------
    n_arms, cone, context_dim, seed, bounds, explore, resolution
        As for :class:`ConeTree`.
    width
        Factor on the confidence bonus. The default was chosen on the development suite
        (``benchmarks/results/tuning.md``), like that of ``bins``.
    bins
        Most bins, up to 4096: each coordinate is cut into as many equal parts as that allows, so not at all in high
        dimension.

    Examples
    --------
    >>> import conebandit as cb
    >>> policy = cb.ScalarisedUCB(n_arms=2, cone=cb.Cone.orthant(2), context_dim=1, width=0.1)
    >>> for _ in range(100):
    ...     policy.observe([0.5], 0, [0.9, 0.2])
    ...     policy.observe([0.5], 1, [0.1, 0.8])
    >>> policy.decide([0.5], key=1).propensity      # 17 of the 32 weightings
    0.53125
    """

    width: float = setting(0.15, as_positive)
    bins: int = setting(16, partial(as_count, most=MAX_BINS))

    _kernels: ClassVar[Any] = kernels
    _query: ClassVar[Any] = staticmethod(queries.ask_scalarised_ucb)
    _observe_rows: ClassVar[Any] = staticmethod(rows.observe_scalarised_ucb)
    _layout: ClassVar[Layout] = Layout(
        kernels.State,
        {"observations": Counter()},
        {
            "counts": Array(("cells", "arms", "objectives"), np.int64),
            "totals": Array(("cells", "arms", "objectives")),
            "weights": Array((N_WEIGHTS, "facets")),
            "side": Array((1,), np.int64, fixed=True),
            "facets": Array(("facets", "objectives")),
            "width": Array((1,)),
        },
        cone_free=True,
    )

    def _merged(self, other: Self, start: Self) -> Self:
        sums = added((self._state, other._state, start._state), ("size", "counts", "totals"))
        return self.clone()._with({**self.state(), **sums})

    def _side(self) -> int:
        """Number of bins along a coordinate."""
        return _whole_root(self.bins, self.context_dim)

    def _own_sizes(self) -> dict[str, int]:
        return {"cells": self._side() ** self.context_dim}

    def _given(self) -> dict[str, NDArray[Any]]:
        weights = _even_weights(N_WEIGHTS, len(self.cone.facets))
        return {
            **super()._given(),
            "weights": weights,
            "side": np.array([self._side()]),
            "width": np.array([self.width]),
        }


def _whole_root(number: int, degree: int) -> int:
    """The largest integer whose power of this degree is at most the number."""
    near: int = round(number ** (1.0 / degree))
    return near if near**degree <= number else near - 1


def _even_weights(n: int, dim: int) -> FloatArray:
    """Evenly spread points of the simplex: a Kronecker sequence, mapped as uniform numbers become uniform weights.

    Its steps are powers of 1/g with g^(dim + 1) = g + 1, the generalised golden ratio (Roberts, 2018).
    """
    golden = 2.0
    for _ in range(60):  # a contraction, so more than enough for every digit
        golden = (1.0 + golden) ** (1.0 / (dim + 1))
    steps = golden ** -np.arange(1.0, dim + 1)
    cube = (0.5 + np.outer(np.arange(1, n + 1), steps)) % 1.0
    weights = -np.log1p(-cube)
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))
