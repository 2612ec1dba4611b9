"""Adaptively binned successive elimination."""

from __future__ import annotations

from typing import Any, ClassVar

from numpy.typing import ArrayLike

from conebandit.geometry.cone import Cone
from conebandit.kernels import binned_elimination as kernels
from conebandit.kernels.cells import Cells
from conebandit.policies.cells import GROWS, check_links, fresh_cells
from conebandit.policies.compiled import CompiledPolicy
from conebandit.validate.arguments import as_positive


class BinnedElimination(CompiledPolicy):
    """Adaptively binned successive elimination of Perchet and Rigollet (2013), for vector rewards and any cone.

    In a cell of side s the active arms take turns. An arm is eliminated when another one is better on every facet of
    the cone with both estimates at their worst, ``width * sqrt(log(K M t) / n)`` off. Once that radius is down to the
    bias ``smoothness * s`` the cell is cut in 2^d; a part inherits the active arms and starts with empty statistics.

    Parameters
    ----------
    n_arms, cone, context_dim, seed, bounds
        As for :class:`ConeTree`; up to 62 coordinates.
    width
        Factor on the radius; in proportion to the noise.
    smoothness
        How much means may differ across the unit cube that contexts are scaled to (a Lipschitz constant, sup norm).

    Notes
    -----
    The published radius knows the horizon; here the number of observations so far stands in for it, so that none need
    be given. Parts of a cell are made when first visited. What is reported, on which the publication is silent, is the
    front of the active arms, with each estimate from the cell around the context whose radius and bias together are
    the smallest: a part just made knows less than the cell it was cut from.

    Defaults were chosen on the development suite, ``benchmarks/results/tuning.md``.

    Examples
    --------
    >>> import conebandit as cb
    >>> policy = cb.BinnedElimination(n_arms=2, cone=cb.Cone.orthant(2), context_dim=1)
    >>> for t in range(200):
    ...     arm = policy.decide([0.5], key=t).arm
    ...     policy.observe([0.5], arm, [[0.9, 0.8], [0.2, 0.1]][arm])
    >>> policy.decide([0.5], key=200).active
    (0,)
    """

    kernels: ClassVar[Any] = kernels
    grows: ClassVar[dict[str, tuple[int, int]]] = GROWS

    def __init__(
        self,
        n_arms: int,
        cone: Cone,
        context_dim: int,
        *,
        width: float = 0.2,
        smoothness: float = 0.1,
        seed: int = 0,
        bounds: ArrayLike | None = None,
    ) -> None:
        settings = {"width": as_positive(width, "width"), "smoothness": as_positive(smoothness, "smoothness")}
        super().__init__(n_arms, cone, context_dim, seed=seed, bounds=bounds, **settings)

    def _fresh_state(self) -> Cells:
        return fresh_cells(self.n_arms, self.cone, self.context_dim, **self.settings)

    def _check_indices(self) -> None:
        check_links(self._state)
