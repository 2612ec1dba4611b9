"""Elimination at a level of detail that tunes itself to the contexts seen."""

from __future__ import annotations

from typing import Any, ClassVar

from numpy.typing import ArrayLike

from conebandit.geometry.cone import Cone
from conebandit.kernels import self_tuning as kernels
from conebandit.kernels.cells import Cells
from conebandit.policies.cells import GROWS, check_links, fresh_cells
from conebandit.policies.compiled import CompiledPolicy
from conebandit.validate.arguments import as_positive


class SelfTuning(CompiledPolicy):
    """Self-tuning elimination of Suk and Kpotufe (2021), for vector rewards and any cone.

    Made for contexts whose law shifts at an unknown time. For each context it takes the smallest dyadic cell around it
    that has seen n contexts with ``width * sqrt(K log(K M t) / n) <= smoothness * side``, plays uniformly from its
    active arms, and then eliminates those that another one beats on every facet of the cone with both estimates at
    their worst, ``width * sqrt(log(K M t) / n_k) + smoothness * side`` off. Smaller cells inherit eliminations.

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
    Estimates use all samples in a cell, as published, but for those from before it was made: cells are made one level
    ahead of those in use, since to keep all levels from the start would cost memory without bound. Reported is the
    front of the active arms, with each estimate from the cell around the context whose radius is the smallest.

    Defaults were chosen on the development suite, ``benchmarks/results/tuning.md``.

    Examples
    --------
    >>> import conebandit as cb
    >>> policy = cb.SelfTuning(n_arms=2, cone=cb.Cone.orthant(2), context_dim=1)
    >>> for t in range(2000):
    ...     arm = policy.decide([0.5], key=t).arm
    ...     policy.observe([0.5], arm, [[0.9, 0.8], [0.2, 0.1]][arm])
    >>> policy.decide([0.5], key=2000).active
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
        width: float = 0.03,
        smoothness: float = 0.3,
        seed: int = 0,
        bounds: ArrayLike | None = None,
    ) -> None:
        settings = {"width": as_positive(width, "width"), "smoothness": as_positive(smoothness, "smoothness")}
        super().__init__(n_arms, cone, context_dim, seed=seed, bounds=bounds, **settings)

    def _fresh_state(self) -> Cells:
        return fresh_cells(self.n_arms, self.cone, self.context_dim, **self.settings)

    def _check_indices(self) -> None:
        check_links(self._state)
