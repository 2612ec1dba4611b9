"""Pareto-UCB1 in each cell of a fixed grid over the contexts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from conebandit.kernels import binned_pareto_ucb as kernels
from conebandit.kernels import queries, rows
from conebandit.policies.common import setting
from conebandit.policies.compiled import CompiledPolicy
from conebandit.policies.layout import Array, Counter, Index, Layout
from conebandit.policies.merging import added
from conebandit.validate.arguments import as_count, as_positive

MAX_CELLS = 2**20  # a grid is a table; beyond this it is the wrong tool
VISITS = 500  # the default grid is one that this many observations of an arm would ask for


def default_bins(context_dim: int, visits: int = VISITS) -> int:
    """Parts of a coordinate that balance bias and noise of a Lipschitz mean: visits ** (1 / (2 + d)), rounded."""
    parts: float = visits ** (1.0 / (2 + context_dim))
    return round(parts)


def _as_bins(value: Any, name: str) -> int | None:
    return None if value is None else as_count(value, name)


@dataclass(eq=False, repr=False, kw_only=True)
class BinnedParetoUCB(CompiledPolicy):
    """Pareto-UCB1 (Drugan and Nowé 2013) on its own in each cell of a fixed grid, for any cone.

    The unit cube is cut into equal parts along each coordinate, as in the UCBogram of Rigollet and Zeevi (2010). In a
    cell it plays, uniformly, an arm on the front of the upper confidence bounds, and reports the front of the means.

    Parameters
    ----------
    n_arms, cone, context_dim, seed, bounds, explore, resolution
        As for :class:`ConeTree`.
    bins
        Parts of each coordinate, so that there are ``bins ** context_dim`` cells, at most 2^20. By default
        ``500 ** (1 / (2 + context_dim))``, rounded: 8, 5, 3, 3 for one to four coordinates, 2 for up to 13, then 1.
    width
        Factor on the confidence bonus; 1 is the published one, for rewards in [0, 1].

    Notes
    -----
    Defaults were chosen on the development suite, ``benchmarks/results/tuning.md``.

    Examples
    --------
    >>> import conebandit as cb
    >>> policy = cb.BinnedParetoUCB(n_arms=2, cone=cb.Cone.orthant(2), context_dim=1, bins=4)
    >>> policy.observe([0.1], 0, [0.9, 0.1])
    >>> policy.decide([0.2], key=1).arm, policy.front([0.2]).arms, policy.front([0.8]).arms
    (1, (0,), (0, 1))
    """

    bins: int | None = setting(None, _as_bins)
    width: float = setting(0.1, as_positive)

    _kernels: ClassVar[Any] = kernels
    _query: ClassVar[Any] = staticmethod(queries.ask_binned_pareto_ucb)
    _observe_rows: ClassVar[Any] = staticmethod(rows.observe_binned_pareto_ucb)
    _layout: ClassVar[Layout] = Layout(
        kernels.State,
        {"observations": Counter(), "rows": Counter(step=1)},
        {
            "rows": Array(("cells",), np.int64, fill=-1, indices=Index("rows", none=True)),
            "seen": Array(("rows",), np.int64),
            "counts": Array(("rows", "arms", "objectives"), np.int64),
            "totals": Array(("rows", "arms", "objectives")),
            "facets": Array(("facets", "objectives")),
            "bins": Array((1,), np.int64, fixed=True),
            "width": Array((1,)),
        },
        cone_free=True,
    )

    def _own_sizes(self) -> dict[str, int]:
        if self.bins is None:
            self.bins = default_bins(self.context_dim)
        if self.bins**self.context_dim > MAX_CELLS:
            raise ValueError(
                f"bins ** context_dim must be at most {MAX_CELLS:,} cells; got bins = {self.bins} with "
                f"context_dim = {self.context_dim}. Choose fewer bins, or a policy that adapts its cells."
            )
        return {"cells": self.bins**self.context_dim}

    def _merged(self, other: Self, start: Self) -> Self:
        states = self._state, other._state, start._state
        visited = np.flatnonzero((self._state.rows >= 0) | (other._state.rows >= 0))
        merged = added((_in_cells(state, visited) for state in states), ("size", "seen", "counts", "totals"))
        rows = np.full(len(self._state.rows), -1)
        rows[visited] = np.arange(len(visited))
        size = np.append(merged["size"], len(visited))
        return self.clone()._with({**self.state(), **merged, "size": size, "rows": rows})

    def _given(self) -> dict[str, NDArray[Any]]:
        return {**super()._given(), "bins": np.array([self.bins]), "width": np.array([self.width])}


def _in_cells(state: kernels.State, cells: NDArray[np.int64]) -> kernels.State:
    """The statistics of these cells, in their order; of ``size``, the observations."""
    rows = state.rows[cells]
    made = {}
    for name in ("seen", "counts", "totals"):
        used = getattr(state, name)
        made[name] = np.zeros((len(cells), *used.shape[1:]), dtype=used.dtype)
        made[name][rows >= 0] = used[rows[rows >= 0]]
    return state._replace(size=state.size[:1], **made)
