"""Pareto-UCB1: upper confidence bounds for each arm, whatever the context."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from conebandit.kernels import pareto_ucb as kernels
from conebandit.kernels import queries, rows
from conebandit.policies.common import setting
from conebandit.policies.compiled import CompiledPolicy
from conebandit.policies.layout import Array, Counter, Layout
from conebandit.policies.merging import added
from conebandit.validate.arguments import as_positive


@dataclass(eq=False, repr=False, kw_only=True)
class ParetoUCB1(CompiledPolicy):
    """Pareto-UCB1 of Drugan and Nowé (2013), for any cone. It ignores the context.

    Plays, uniformly, an arm on the front of the upper confidence bounds; reports the front of the estimated means.

    Parameters
    ----------
    n_arms, cone, context_dim, seed, bounds, explore, resolution
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

    width: float = setting(0.3, as_positive)

    _kernels: ClassVar[Any] = kernels
    _query: ClassVar[Any] = staticmethod(queries.ask_pareto_ucb)
    _observe_rows: ClassVar[Any] = staticmethod(rows.observe_pareto_ucb)
    _layout: ClassVar[Layout] = Layout(
        kernels.State,
        {"observations": Counter()},
        {
            "counts": Array(("arms", "objectives"), np.int64),
            "totals": Array(("arms", "objectives")),
            "facets": Array(("facets", "objectives")),
            "width": Array((1,)),
        },
        cone_free=True,
    )

    def _merged(self, other: Self, start: Self) -> Self:
        sums = added((self._state, other._state, start._state), ("size", "counts", "totals"))
        return self.clone()._with({**self.state(), **sums})

    def _given(self) -> dict[str, NDArray[Any]]:
        return {**super()._given(), "width": np.array([self.width])}
