"""Preference cones, which say when one reward vector is better than another.

A cone is the set of improvements. ``b`` is at least as good as ``a`` iff ``b - a`` lies in it. Only this module, with
its arithmetic in ``_cone_description``, knows how a cone came about (facets, rays, weights, exchange rates); everything
else takes a :class:`Cone`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from functools import cached_property
from math import cos, radians, sin
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from conebandit.geometry import description as describe
from conebandit.geometry.description import SAME_FACET, Description
from conebandit.geometry.inputs import check_names, read_rows, row_by_name
from conebandit.kernels.order import TOLERANCE
from conebandit.validate.arrays import FloatArray, as_floats, safe_exponent

BoolArray = NDArray[np.bool_]
Matrix = ArrayLike | Sequence[Sequence[Fraction]]  # rational entries are read exactly


class Cone:
    """A polyhedral cone of improvements with non-empty interior.

    Make one with :meth:`orthant`, :meth:`from_facets`, :meth:`from_rays`, :meth:`wedge`, :meth:`from_weights`,
    :meth:`from_weight_ranges` or :meth:`from_tradeoffs`. All rewards are "more is better"; turn a cost into a reward
    by its sign before you come here.

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

    facets: FloatArray
    rays: FloatArray
    names: tuple[str, ...] | None
    _lineality: int  # dimension of the largest subspace inside

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
        if not isinstance(dim, Integral) or dim < 1:
            raise ValueError(f"dim must be a positive integer, the number of objectives; got {dim!r}.")
        return cls._make(describe.orthant(dim), names)

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
        return cls._make(describe.from_facets(facets), names)

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
        return cls._make(describe.from_rays(rays), names)

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
        angle = float(degrees) if isinstance(degrees, Real) and not isinstance(degrees, bool) else np.nan
        thin = 1e-6  # thinner wedges, and what is left of a half-plane beside thicker ones, drown in rounding
        if not (thin <= angle <= 180 - thin or angle == 180):
            raise ValueError(f"degrees must be a number from {thin:g} to 180 - {thin:g}, or 180; got {degrees!r}.")
        lower = radians((90 - angle) / 2)  # angle of the lower ray; 0 at 90 degrees, with no rounding
        return cls.from_facets([[-sin(lower), cos(lower)], [cos(lower), -sin(lower)]], names=names)

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
        rows: Any = weights
        if isinstance(rows, Sequence) and rows and all(isinstance(w, Mapping) for w in rows):
            order = list(rows[0]) if names is None else names
            rows = [row_by_name(w, order, "weights") for w in rows]
            names = order
        read, _, _ = read_rows(rows, "weights")
        for i, row in enumerate(read):
            if min(row) < 0:
                raise ValueError(
                    f"weights must be >= 0; weights[{i}] is not. For normals of any sign use Cone.from_facets."
                )
        return cls.from_facets(rows, names=names)

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
        return cls._make(describe.from_weight_ranges(ranges), tuple(ranges))

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
        return cls._make(describe.from_tradeoffs(statements, checked), checked)

    @classmethod
    def _make(cls, description: Description, names: Sequence[str] | None) -> Cone:
        self = object.__new__(cls)
        self.facets, self.rays = description.facets, description.rays
        self.facets.flags.writeable = False
        self.rays.flags.writeable = False
        self.names = None if names is None else check_names(names, self.dim)
        self._lineality = description.lineality
        return self

    # ---- what it is ---------------------------------------------------------------------------------------------

    @property
    def dim(self) -> int:
        """Number of objectives, M."""
        return int(self.facets.shape[1])

    @property
    def is_pointed(self) -> bool:
        """Whether ``v`` and ``-v`` are never both improvements, so that different vectors are never equally good.

        >>> Cone.orthant(2).is_pointed, Cone.from_weights([[0.5, 0.5]]).is_pointed
        (True, False)
        """
        return self._lineality == 0

    @cached_property
    def contains_orthant(self) -> bool:
        """Whether being better in every objective is always an improvement.

        >>> Cone.wedge(120).contains_orthant, Cone.wedge(60).contains_orthant
        (True, False)
        """
        return bool((self.facets >= 0).all())

    @cached_property
    def is_orthant(self) -> bool:
        """Whether this is the Pareto order itself."""
        return self.facets.shape[0] == self.dim and bool(np.array_equal(self.facets, np.eye(self.dim)))

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

    # ---- order --------------------------------------------------------------------------------------------------

    def contains(self, vectors: ArrayLike) -> bool | BoolArray:
        """Whether each vector is an improvement (or no change at all).

        Parameters
        ----------
        vectors
            Shape (..., M).

        Returns
        -------
        bool or numpy.ndarray
            Shape (...), or a plain bool for one vector.

        Examples
        --------
        >>> Cone.orthant(2).contains([[1, 0], [1, -1]])
        array([ True, False])
        """
        v = self._vectors(vectors, "vectors")
        v = np.ldexp(v, safe_exponent(np.abs(v).max(initial=0.0)))
        return _plain((v @ self.facets.T >= -TOLERANCE * (np.abs(v) @ np.abs(self.facets).T)).all(axis=-1))

    def weakly_dominates(self, a: ArrayLike, b: ArrayLike) -> bool | BoolArray:
        """Whether ``a`` is at least as good as ``b``: ``a - b`` lies in the cone.

        Parameters
        ----------
        a, b
            Shape (..., M); leading axes broadcast.

        Returns
        -------
        bool or numpy.ndarray
            The broadcast leading shape, or a plain bool.

        Notes
        -----
        Differences count as zero up to the one tolerance of the package, 1e-12 relative to the size of the numbers
        compared (``docs/decisions/0001-ties.md``).

        Examples
        --------
        >>> Cone.orthant(2).weakly_dominates([1, 1], [[1, 0], [1, 1], [0, 2]])
        array([ True,  True, False])
        """
        rise, noise = self._rise(a, b)
        return _plain((rise >= -noise).all(axis=-1))

    def dominates(self, a: ArrayLike, b: ArrayLike) -> bool | BoolArray:
        """Whether ``a`` is better than ``b``: at least as good, and better on some facet.

        For a pointed cone "better on some facet" is the same as ``a != b``; for one that is not, such as a single
        weighting, it keeps two vectors of equal worth from dominating each other. Arguments as for
        :meth:`weakly_dominates`.

        Examples
        --------
        >>> Cone.orthant(2).dominates([1, 1], [[1, 0], [1, 1], [0, 2]])
        array([ True, False, False])
        """
        rise, noise = self._rise(a, b)
        return _plain((rise >= -noise).all(axis=-1) & (rise > noise).any(axis=-1))

    def strongly_dominates(self, a: ArrayLike, b: ArrayLike) -> bool | BoolArray:
        """Whether ``a`` is better than ``b`` on every facet: ``a - b`` lies in the interior of the cone.

        Arguments as for :meth:`weakly_dominates`.

        Examples
        --------
        >>> Cone.orthant(2).strongly_dominates([1, 1], [[1, 0], [0.5, 0.5]])
        array([False,  True])
        """
        rise, noise = self._rise(a, b)
        return _plain((rise > noise).all(axis=-1))

    def _rise(self, a: ArrayLike, b: ArrayLike) -> tuple[FloatArray, FloatArray]:
        """How much ``a`` is above ``b`` on each facet, and how much of that may be rounding."""
        x, y = self._vectors(a, "a"), self._vectors(b, "b")
        try:
            size = np.maximum(np.abs(x), np.abs(y))
        except ValueError:
            raise ValueError(f"a and b must broadcast; got shapes {x.shape} and {y.shape}.") from None
        shift = safe_exponent(size.max(initial=0.0))
        if shift:
            x, y, size = np.ldexp(x, shift), np.ldexp(y, shift), np.ldexp(size, shift)
        return (x - y) @ self.facets.T, TOLERANCE * (size @ np.abs(self.facets).T)

    def _vectors(self, values: ArrayLike, name: str) -> FloatArray:
        array = as_floats(values, name)
        if array.ndim == 0 or array.shape[-1] != self.dim:
            raise ValueError(f"{name} must have shape (..., {self.dim}) for this cone; got {array.shape}.")
        if not np.isfinite(array).all():
            raise ValueError(f"{name} must be finite; a vector with an unknown entry cannot be compared.")
        return array

    # ---- identity -----------------------------------------------------------------------------------------------

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Cone):
            return NotImplemented
        if self.facets.shape != other.facets.shape:
            return False
        mine, theirs = _normalised(self.facets), _normalised(other.facets)
        distance = np.abs(mine[:, None, :] - theirs[None, :, :]).max(axis=2)
        return bool((distance.min(axis=0) <= SAME_FACET).all() and (distance.min(axis=1) <= SAME_FACET).all())

    def __hash__(self) -> int:
        # Equality forgives rounding, so the hash may only look at what rounding cannot change.
        return hash((Cone, self.facets.shape))

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self.facets.flags.writeable = False
        self.rays.flags.writeable = False

    def __repr__(self) -> str:
        names = "" if self.names is None else f", names={list(self.names)}"
        if self.is_orthant:
            return f"Cone.orthant({self.dim}{names})"
        rows = [[float(f"{x:.6g}") for x in row] for row in self.facets]
        return f"Cone.from_facets({rows}{names})"

    def __setattr__(self, name: str, value: object) -> None:
        if "_lineality" in self.__dict__:  # the last thing that _make sets
            raise AttributeError(f"Cone is immutable; cannot set {name!r}.")
        super().__setattr__(name, value)


def as_cone(value: Any, name: str = "cone") -> Cone:
    """The argument, if it is a cone."""
    if not isinstance(value, Cone):
        raise TypeError(f"{name} must be a conebandit.Cone, such as Cone.orthant(2); got {value!r}.")
    return value


def _normalised(rows: FloatArray) -> FloatArray:
    unit: FloatArray = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    return unit


def _plain(result: Any) -> bool | BoolArray:
    """A scalar answer as a plain bool."""
    return bool(result) if np.ndim(result) == 0 else result
