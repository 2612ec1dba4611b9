"""Which comparisons contradict each other: as few as possible, so that people can see what to take back."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import scipy  # its parts are loaded when they are used: some take longer than this whole package

from conebandit.geometry import polyhedra
from conebandit.geometry.polyhedra import Vector


class ContradictionError(ValueError):
    """Comparisons that no weighting of the objectives can agree with.

    Attributes
    ----------
    comparisons : tuple of int
        Positions of comparisons that contradict each other: as few as possible.

    Examples
    --------
    >>> import conebandit as cb
    >>> try:
    ...     _ = cb.Cone.from_comparisons([[3, 1], [0, 9], [1, 2]], [[1, 2], [0, 8], [3, 1]])
    ... except cb.ContradictionError as error:
    ...     print(error.comparisons)
    (0, 2)
    """

    def __init__(self, comparisons: Sequence[int], message: str = "") -> None:
        super().__init__(message)
        self.comparisons = tuple(comparisons)


def contradict(gains: Sequence[Vector]) -> bool:
    """Whether no weighting with something for each objective scores every one of these differences above zero.

    By Gordan's theorem that is so iff a combination of them, with coefficients that are not negative and not all zero,
    has no positive entry.

    Examples
    --------
    >>> contradict([(2, -1), (-1, 2)]), contradict([(2, -1), (-2, 1)])
    (False, True)
    """
    if not gains:
        return False
    dim = len(gains[0])
    rows = list(dict.fromkeys([*polyhedra.units(dim), *gains]))
    _, weightings = polyhedra.double_description(rows, dim)
    return not polyhedra.is_strict(rows, weightings)


def smallest_contradiction(gains: Sequence[Vector]) -> tuple[int, ...]:
    """Positions of as few differences as possible that contradict each other; all of them together do.

    An integer program proposes them; exact arithmetic checks that they do contradict each other and that none can be
    left out. Where rounding leads the program astray, the latter is all that is known.

    Examples
    --------
    >>> smallest_contradiction([(2, -1), (1, 1), (-2, 1), (-1, 1)])
    (0, 2)
    """
    chosen = _proposed(gains)
    if not contradict([gains[i] for i in chosen]):
        chosen = list(range(len(gains)))
    for i in list(chosen):
        others = [k for k in chosen if k != i]
        if contradict([gains[k] for k in others]):
            chosen = others
    return tuple(chosen)


def _proposed(gains: Sequence[Vector]) -> list[int]:
    """The fewest differences of which a convex combination has no positive entry, up to rounding."""
    unit = polyhedra.unit_rows(gains)
    n, dim = unit.shape
    found = scipy.optimize.milp(  # the coefficients, and whether each may differ from zero
        np.r_[np.zeros(n), np.ones(n)],
        integrality=np.r_[np.zeros(n), np.ones(n)],
        bounds=scipy.optimize.Bounds(0, 1),
        constraints=[
            scipy.optimize.LinearConstraint(np.r_[np.ones(n), np.zeros(n)][None], 1, 1),
            scipy.optimize.LinearConstraint(np.hstack([unit.T, np.zeros((dim, n))]), -np.inf, 0),
            scipy.optimize.LinearConstraint(np.hstack([np.eye(n), -np.eye(n)]), -np.inf, 0),
        ],
    )
    return [] if found.x is None else np.flatnonzero(found.x[n:] > 0.5).tolist()
