"""What a tree tells about the arms that it offers in a context."""

from __future__ import annotations

from dataclasses import dataclass

from conebandit.validate.arrays import FloatArray


@dataclass(frozen=True)
class Bin:
    """One bin on the way from the root to a context.

    Examples
    --------
    >>> import conebandit as cb
    >>> policy = cb.ConeTree(n_arms=2, cone=cb.Cone.orthant(1), context_dim=1)
    >>> policy.explain([0.3]).path
    (Bin(level=0, lower=array([0.]), upper=array([1.]), seen=0),)
    """

    level: int
    lower: FloatArray
    upper: FloatArray
    seen: int


@dataclass(frozen=True)
class Elimination:
    """Why an arm is no longer played.

    ``margins`` are the leads of ``by`` over the arm on each facet that are left after both estimates are taken at their
    worst (preset ``sound``), or by how much the arm misses the printed rule (preset ``paper``).

    Examples
    --------
    >>> import conebandit as cb
    >>> policy = cb.ConeTree(n_arms=2, cone=cb.Cone.orthant(1), context_dim=1, sigma=0.1, holder=0.1)
    >>> for t in range(200):
    ...     policy.observe([0.3], t % 2, [t % 2])
    >>> [gone] = policy.explain([0.3]).eliminated
    >>> gone.arm, gone.by
    (0, 1)
    """

    arm: int
    observation: int
    by: int
    level: int
    margins: FloatArray


@dataclass(frozen=True)
class Explanation:
    """Everything that led to the arms a context is offered.

    Examples
    --------
    >>> import conebandit as cb
    >>> policy = cb.ConeTree(n_arms=2, cone=cb.Cone.orthant(1), context_dim=1)
    >>> policy.explain([0.3]).active, policy.explain([0.3]).eliminated
    ((0, 1), ())
    """

    path: tuple[Bin, ...]
    active: tuple[int, ...]
    eliminated: tuple[Elimination, ...]
