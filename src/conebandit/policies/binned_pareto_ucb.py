"""Pareto-UCB1 in each cell of a fixed grid over the contexts."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from conebandit.geometry.cone import Cone
from conebandit.kernels import binned_pareto_ucb as kernels
from conebandit.policies.compiled import CompiledPolicy
from conebandit.validate import storage
from conebandit.validate.arguments import as_count, as_positive

MAX_CELLS = 2**20  # a grid is a table; beyond this it is the wrong tool
VISITS = 500  # the default grid is one that this many observations of an arm would ask for


def default_bins(context_dim: int, visits: int = VISITS) -> int:
    """Parts of a coordinate that balance bias and noise of a Lipschitz mean: visits ** (1 / (2 + d)), rounded."""
    parts: float = visits ** (1.0 / (2 + context_dim))
    return round(parts)


class BinnedParetoUCB(CompiledPolicy):
    """Pareto-UCB1 (Drugan and Nowé 2013) on its own in each cell of a fixed grid, for any cone.

    The unit cube is cut into equal parts along each coordinate, as in the UCBogram of Rigollet and Zeevi (2010). In a
    cell it plays, uniformly, an arm on the front of the upper confidence bounds, and reports the front of the means.

    Parameters
    ----------
    n_arms, cone, context_dim, seed, bounds
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

    kernels: ClassVar[Any] = kernels
    grows: ClassVar[dict[str, tuple[int, int]]] = dict.fromkeys(("seen", "counts", "totals"), (kernels.ROWS, 1))
    fixed: ClassVar[frozenset[str]] = frozenset({"bins"})

    def __init__(
        self,
        n_arms: int,
        cone: Cone,
        context_dim: int,
        *,
        bins: int | None = None,
        width: float = 0.1,
        seed: int = 0,
        bounds: ArrayLike | None = None,
    ) -> None:
        parts = default_bins(as_count(context_dim, "context_dim")) if bins is None else as_count(bins, "bins")
        if parts**context_dim > MAX_CELLS:
            raise ValueError(
                f"bins ** context_dim must be at most {MAX_CELLS:,} cells; got bins = {parts} with "
                f"context_dim = {context_dim}. Choose fewer bins, or a policy that adapts its cells."
            )
        settings = {"bins": parts, "width": as_positive(width, "width")}
        super().__init__(n_arms, cone, context_dim, seed=seed, bounds=bounds, **settings)

    def _fresh_state(self) -> kernels.State:
        bins, shape = self.settings["bins"], (0, self.n_arms, self.n_objectives)
        return kernels.State(
            size=np.zeros(2, dtype=np.int64),
            rows=np.full(bins**self.context_dim, -1),
            seen=np.zeros(0, dtype=np.int64),
            counts=np.zeros(shape, dtype=np.int64),
            totals=np.zeros(shape),
            facets=self.cone.facets.copy(),
            bins=np.array([bins]),
            width=np.array([self.settings["width"]]),
        )

    def _check_indices(self) -> None:
        storage.require_range("rows", self._state.rows, -1, len(self._state.seen))
