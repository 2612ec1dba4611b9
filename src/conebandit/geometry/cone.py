"""Preference cones, which say when one reward vector is better than another.

A cone is the set of improvements. ``b`` is at least as good as ``a`` iff ``b - a`` lies in it. Only this module, with
its arithmetic in ``description``, knows how a cone was specified (facets, rays, weights, exchange rates); everything
else takes a :class:`Cone`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from conebandit.geometry import description
from conebandit.geometry.description import Description
from conebandit.geometry.inputs import check_names, weight_rows
from conebandit.geometry.order import Order
from conebandit.validate.arguments import as_count

Matrix = ArrayLike | Sequence[Sequence[Fraction]]  # rational entries are read exactly


class Cone(Order):
    """A polyhedral cone of improvements with non-empty interior.

    Make one with :meth:`orthant`, :meth:`from_facets`, :meth:`from_rays`, :meth:`wedge`, :meth:`from_weights`,
    :meth:`from_weight_ranges` or :meth:`from_tradeoffs`. More is better in every reward; change
    the sign of a cost first.

    Attributes
    ----------
    facets : numpy.ndarray
        Shape (F, M). The cone is ``{v : facets @ v >= 0}``. No row is redundant; rows are in a canonical order and
        scaled by powers of two only, so that integer input stays exact.
    rays : numpy.ndarray
        Shape (R, M). The cone is the set of non-negative combinations of these rows, none of them redundant.
    names : tuple of str or None
        Names of the objectives, if given. They are labels: two cones that differ in names alone are equal.

    Notes
    -----
    Conversion between facets and rays is exact for rational input: integers, :class:`fractions.Fraction`, and floats
    whose ratios within a row are recognisably rational, such as ``(1, 0.6)``. Other floats are taken at face value and
    rows that are redundant up to rounding are dropped.

    Cones compare equal if they are the same set (facet normals within 1e-9), whatever the scaling, order and
    redundancy of what they were made from. Cones are immutable and hashable.

    Examples
    --------
    >>> import conebandit as cb
    >>> cone = cb.Cone.from_rays([[1, 0.6], [0.6, 1]])
    >>> cone.facets
    array([[ 1.25, -0.75],
           [-0.75,  1.25]])
    >>> cone.dominates([1.0, 1.0], [0.9, 0.9])
    True
    >>> cone == cb.Cone.from_facets([[5, -3], [-3, 5], [2, 2]])
    True
    """

    def __init__(self) -> None:
        raise TypeError("Cone() cannot be called; use Cone.orthant, Cone.from_facets, Cone.from_rays, ...")

    # ---- constructors -------------------------------------------------------------------------------------------

    @classmethod
    def orthant(cls, dim: int, *, names: Sequence[str] | None = None) -> Cone:
        """Better means better in every objective: the usual Pareto order.

        Parameters
        ----------
        dim
            Number of objectives.
        names
            Names of the objectives.

        Examples
        --------
        >>> Cone.orthant(3).facets
        array([[1., 0., 0.],
               [0., 1., 0.],
               [0., 0., 1.]])
        """
        return cls._make(description.orthant(as_count(dim, "dim")), names)

    @classmethod
    def from_facets(cls, facets: Matrix, *, names: Sequence[str] | None = None) -> Cone:
        """Cone of all ``v`` with ``facets @ v >= 0``.

        Parameters
        ----------
        facets
            Shape (F, M), the inner normals of the half-spaces. Scaling does not matter, redundant rows are dropped.
        names
            Names of the objectives.

        Examples
        --------
        >>> Cone.from_facets([[1, 0], [0, 1], [1, 1]]) == Cone.orthant(2)
        True
        """
        return cls._make(description.from_facets(facets), names)

    @classmethod
    def from_rays(cls, rays: Matrix, *, names: Sequence[str] | None = None) -> Cone:
        """Cone of all non-negative combinations of ``rays``.

        Parameters
        ----------
        rays
            Shape (R, M), directions that count as improvements. Scaling does not matter, redundant rows are dropped.
        names
            Names of the objectives.

        Examples
        --------
        >>> Cone.from_rays([[1, 0], [0, 1], [1, 2]]) == Cone.orthant(2)
        True
        """
        return cls._make(description.from_rays(rays), names)

    @classmethod
    def wedge(cls, degrees: float, *, names: Sequence[str] | None = None) -> Cone:
        """Two objectives, a cone of the given opening angle, symmetric about the diagonal.

        Parameters
        ----------
        degrees
            Opening angle, from 1e-6 to 180 - 1e-6, or 180. 90 is the orthant; below 90 fewer vectors are comparable,
            above 90 more; 180 is the half-plane "the sum is larger".
        names
            Names of the objectives.

        Examples
        --------
        >>> Cone.wedge(90) == Cone.orthant(2)
        True
        """
        return cls._make(description.wedge(degrees), names)

    @classmethod
    def from_weights(
        cls,
        weights: Matrix | Sequence[Mapping[str, float]],
        *,
        names: Sequence[str] | None = None,
    ) -> Cone:
        """Better means better under every one of the weightings.

        Use this when people agree on a few ways to weigh the objectives but not on one. A single weighting is allowed:
        then everything is comparable, and the cone is not pointed.

        Parameters
        ----------
        weights
            Shape (F, M), non-negative; or a sequence of mappings from metric name to weight.
        names
            Names of the objectives; needed, to fix the order of the columns, if ``weights`` are mappings with
            different keys. By default the keys of the first mapping.

        Examples
        --------
        Safety counts between 30 % and 60 %:

        >>> cone = Cone.from_weights([{"efficacy": 0.7, "safety": 0.3}, {"efficacy": 0.4, "safety": 0.6}])
        >>> cone.names
        ('efficacy', 'safety')
        >>> cone.dominates([0.9, 0.5], [0.5, 0.7])
        True
        """
        rows, order = weight_rows(weights, names)
        return cls._make(description.from_facets(rows), order)

    @classmethod
    def from_weight_ranges(cls, ranges: Mapping[str, tuple[float, float]]) -> Cone:
        """Better means better under every weighting whose shares lie in the given ranges.

        Parameters
        ----------
        ranges
            For each metric the smallest and the largest share it may have of the total weight, which is 1.

        Examples
        --------
        >>> cone = Cone.from_weight_ranges({"efficacy": (0.4, 0.7), "safety": (0.3, 0.6)})
        >>> cone == Cone.from_weights([[0.7, 0.3], [0.4, 0.6]])
        True
        """
        return cls._make(description.from_weight_ranges(ranges), tuple(ranges))

    @classmethod
    def from_tradeoffs(cls, *statements: str, names: Sequence[str]) -> Cone:
        """Better in every objective, or a trade at an exchange rate that the statements call fair.

        Parameters
        ----------
        *statements
            Sentences of the form ``"one unit of A is worth at most 3 of B"``. Instead of *at most*: *at least*,
            *exactly*, or *between 1 and 3*. "One unit of" may also be a number (``"10 A is worth ..."``) and "units
            of" may be left out.
        names
            Names of all objectives, in the order of the reward vectors.

        Notes
        -----
        "A is worth at most 3 B" says that giving up one A for three B is never a loss, so the direction ``-1 A, +3 B``
        joins the cone. "At least" adds ``+1 A, -r B``. Statements only add comparisons to the Pareto order;
        contradictory ones (at least 3, at most 2) are refused.

        Examples
        --------
        >>> cone = Cone.from_tradeoffs(
        ...     "one unit of efficacy is worth at most 3 of safety",
        ...     "one unit of efficacy is worth at least 1 of safety",
        ...     names=["efficacy", "safety"],
        ... )
        >>> cone.rays
        array([[ 1. , -1. ],
               [-0.5,  1.5]])
        >>> cone.dominates([0.4, 0.9], [0.5, 0.5])    # 0.1 efficacy given up for 0.4 safety
        True
        """
        checked = check_names(names, None)
        if not all(isinstance(s, str) for s in statements):
            raise TypeError(f"statements must be strings, each an argument of its own; got {statements!r}.")
        return cls._make(description.from_tradeoffs(statements, checked), checked)

    @classmethod
    def _make(cls, described: Description, names: Sequence[str] | None) -> Cone:
        self = object.__new__(cls)
        self._set(described, None if names is None else check_names(names, described.facets.shape[1]))
        return self

    # ---- other cones --------------------------------------------------------------------------------------------

    @property
    def dual(self) -> Cone:
        """All weightings that agree with the order: ``w`` such that ``w . v >= 0`` for every improvement ``v``.

        Examples
        --------
        >>> Cone.wedge(60).dual == Cone.wedge(120)
        True
        """
        if not self.is_pointed:
            raise ValueError("The dual of a cone that is not pointed has empty interior, so it is not a Cone.")
        return Cone.from_rays(self.facets, names=self.names)

    def is_subset_of(self, other: Cone) -> bool:
        """Whether every improvement under this cone is one under ``other``.

        Examples
        --------
        >>> Cone.wedge(60).is_subset_of(Cone.orthant(2))
        True
        """
        if as_cone(other, "other").dim != self.dim:
            raise ValueError(f"other must have dimension {self.dim}, like this cone; got {other.dim}.")
        return bool(np.all(other.contains(self.rays)))


def as_cone(value: Any, name: str = "cone") -> Cone:
    """The argument, if it is a cone."""
    if not isinstance(value, Cone):
        raise TypeError(f"{name} must be a conebandit.Cone, such as Cone.orthant(2); got {value!r}.")
    return value
