"""Adaptively binned successive elimination."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from conebandit.kernels import binned_elimination as kernels
from conebandit.kernels import queries, rows
from conebandit.policies.cells import CellsPolicy
from conebandit.policies.common import setting
from conebandit.validate.arguments import as_positive


@dataclass(eq=False, repr=False, kw_only=True)
class BinnedElimination(CellsPolicy):
    """Adaptively binned successive elimination of Perchet and Rigollet (2013), for vector rewards and any cone.

    In a cell of side s the active arms take turns. An arm is eliminated when another one is better on every facet of
    the cone with both estimates at their worst, ``width * sqrt(log(K M t) / n)`` off. Once that radius is down to the
    bias ``smoothness * s`` the cell is cut in 2^d; a part inherits the active arms and starts with empty statistics.

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

    width: float = setting(0.2, as_positive)
    smoothness: float = setting(0.1, as_positive)

    _kernels: ClassVar[Any] = kernels
    _query: ClassVar[Any] = staticmethod(queries.ask_binned_elimination)
    _observe_rows: ClassVar[Any] = staticmethod(rows.observe_binned_elimination)
