"""The order that the facets of a cone define: what it is, which vector is better, when two orders are the same."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from conebandit.geometry.description import SAME_FACET, Description
from conebandit.geometry.directions import counted_as_better, signs
from conebandit.kernels.order import TOLERANCE
from conebandit.validate.arrays import FloatArray, as_floats, safe_exponent

BoolArray = NDArray[np.bool_]


class Order:
    """An immutable order of vectors: ``b`` is at least as good as ``a`` iff ``facets @ (b - a) >= 0``.

    The half of :class:`conebandit.Cone` that compares; constructors are the other half.

    Attributes
    ----------
    facets, rays, names, minimise
        See :class:`conebandit.Cone`.
    """

    facets: FloatArray
    rays: FloatArray
    names: tuple[str, ...] | None
    minimise: tuple[str, ...] = ()
    _lineality: int  # dimension of the largest subspace inside the cone

    def _set(self, description: Description, names: tuple[str, ...] | None, minimise: tuple[str, ...]) -> None:
        """Set the attributes, once; from then on nothing can be changed."""
        self.facets, self.rays = description.facets, description.rays
        self.facets.flags.writeable = False
        self.rays.flags.writeable = False
        self.names, self.minimise = names, minimise
        self._lineality = description.lineality

    # ---- what it is ---------------------------------------------------------------------------------------------

    @property
    def dim(self) -> int:
        """Number of objectives, M."""
        return int(self.facets.shape[1])

    @property
    def signs(self) -> FloatArray:
        """Which way is better: -1 for objectives that are minimised, else 1; shape (M,).

        Examples
        --------
        >>> import conebandit as cb
        >>> cb.Cone.orthant(2, names=["efficacy", "toxicity"], minimise=["toxicity"]).signs
        array([ 1., -1.])
        """
        return signs(self.names, self.minimise, self.dim)

    @property
    def costs(self) -> BoolArray:
        """Shape (M,): of which objectives less is better, by their labels or, without any, by the numbers.

        Examples
        --------
        >>> import conebandit as cb
        >>> cb.Cone.orthant(2, names=["efficacy", "toxicity"], minimise=["toxicity"]).costs
        array([False,  True])
        >>> cb.Cone.from_facets([[1, 0], [0, -1]]).costs
        array([False,  True])
        """
        described = Description(self.facets, self.rays, self._lineality)
        return np.asarray((self.signs < 0.0) | counted_as_better(described, -1))

    @property
    def is_pointed(self) -> bool:
        """Whether ``v`` and ``-v`` are never both improvements, so that different vectors are never equally good.

        Examples
        --------
        >>> import conebandit as cb
        >>> cb.Cone.orthant(2).is_pointed, cb.Cone.from_weights([[0.5, 0.5]]).is_pointed
        (True, False)
        """
        return self._lineality == 0

    @cached_property
    def contains_orthant(self) -> bool:
        """Whether being better in every objective is always an improvement.

        Examples
        --------
        >>> import conebandit as cb
        >>> cb.Cone.wedge(120).contains_orthant, cb.Cone.wedge(60).contains_orthant
        (True, False)
        """
        return bool((self.facets * self.signs >= 0).all())

    @cached_property
    def is_orthant(self) -> bool:
        """Whether this is the Pareto order itself: better in one objective and worse in none."""
        return bool(
            np.array_equal(np.array(sorted((self.facets * self.signs).tolist(), reverse=True)), np.eye(self.dim))
        )

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
        >>> import conebandit as cb
        >>> cb.Cone.orthant(2).contains([[1, 0], [1, -1]])
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
        >>> import conebandit as cb
        >>> cb.Cone.orthant(2).weakly_dominates([1, 1], [[1, 0], [1, 1], [0, 2]])
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
        >>> import conebandit as cb
        >>> cb.Cone.orthant(2).dominates([1, 1], [[1, 0], [1, 1], [0, 2]])
        array([ True, False, False])
        """
        rise, noise = self._rise(a, b)
        return _plain((rise >= -noise).all(axis=-1) & (rise > noise).any(axis=-1))

    def strongly_dominates(self, a: ArrayLike, b: ArrayLike) -> bool | BoolArray:
        """Whether ``a`` is better than ``b`` on every facet: ``a - b`` lies in the interior of the cone.

        Arguments as for :meth:`weakly_dominates`.

        Examples
        --------
        >>> import conebandit as cb
        >>> cb.Cone.orthant(2).strongly_dominates([1, 1], [[1, 0], [0.5, 0.5]])
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
        if not isinstance(other, Order):
            return NotImplemented
        if self.facets.shape != other.facets.shape:
            return False
        mine, theirs = _normalised(self.facets), _normalised(other.facets)
        distance = np.abs(mine[:, None, :] - theirs[None, :, :]).max(axis=2)
        return bool((distance.min(axis=0) <= SAME_FACET).all() and (distance.min(axis=1) <= SAME_FACET).all())

    def __hash__(self) -> int:
        # Equality forgives rounding, so the hash may only look at what rounding cannot change.
        return hash((Order, self.facets.shape))

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self.facets.flags.writeable = False
        self.rays.flags.writeable = False

    def __repr__(self) -> str:
        labels = "" if self.names is None else f", names={list(self.names)}"
        labels += f", minimise={list(self.minimise)}" if self.minimise else ""
        if self.is_orthant:
            return f"Cone.orthant({self.dim}{labels})"
        rows = [[float(f"{x:.6g}") for x in row] for row in self.facets]
        return f"Cone.from_facets({rows}{labels})"

    def __setattr__(self, name: str, value: object) -> None:
        if "_lineality" in self.__dict__:  # the last thing that _set sets
            raise AttributeError(f"Cone is immutable; cannot set {name!r}.")
        super().__setattr__(name, value)


def _normalised(rows: FloatArray) -> FloatArray:
    unit: FloatArray = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    return unit


def _plain(result: Any) -> bool | BoolArray:
    """A scalar answer as a plain bool."""
    return bool(result) if np.ndim(result) == 0 else result
