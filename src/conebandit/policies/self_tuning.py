"""Elimination at a level of detail that tunes itself to the contexts seen."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from conebandit.kernels import queries, rows
from conebandit.kernels import self_tuning as kernels
from conebandit.policies.cells import CellsPolicy
from conebandit.policies.common import setting
from conebandit.validate.arguments import as_positive


@dataclass(eq=False, repr=False, kw_only=True)
class SelfTuning(CellsPolicy):
    """Self-tuning elimination of Suk and Kpotufe (2021), for vector rewards and any cone.

    Made for contexts whose law shifts at an unknown time. For each context it takes the smallest dyadic cell around it
    that has seen n contexts with ``width * sqrt(K log(K M t) / n) <= smoothness * side``, plays uniformly from its
    active arms, and then eliminates those that another one beats on every facet of the cone with both estimates at
    their worst, ``width * sqrt(log(K M t) / n_k) + smoothness * side`` off. Smaller cells inherit eliminations.

    Parameters
    ----------
    n_arms, cone, context_dim, seed, bounds, explore, resolution
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

    width: float = setting(0.03, as_positive)
    smoothness: float = setting(0.3, as_positive)

    _kernels: ClassVar[Any] = kernels
    _query: ClassVar[Any] = staticmethod(queries.ask_self_tuning)
    _observe_rows: ClassVar[Any] = staticmethod(rows.observe_self_tuning)
