"""Preference cones, which say when one reward vector is better than another.

A cone is the set of improvements. ``b`` is at least as good as ``a`` iff ``b - a`` lies in it. Only this module, with
its arithmetic in ``description``, knows how a cone was specified (facets, rays, weights, exchange rates); everything
else takes a :class:`Cone`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from conebandit.geometry import description
from conebandit.geometry.description import Description
from conebandit.geometry.directions import Labels, read_labels, signs
from conebandit.geometry.preferences import Matrix, Names, Preferences
from conebandit.geometry.questions import Question, next_question
from conebandit.geometry.words import in_words
from conebandit.validate.arguments import as_count
from conebandit.validate.arrays import FloatArray


class Cone(Preferences):
    """A polyhedral cone of improvements with non-empty interior.

    Make one with :meth:`orthant`, :meth:`from_facets`, :meth:`from_rays`, :meth:`wedge`, :meth:`from_weights`,
    :meth:`from_weight_ranges`, :meth:`from_tradeoffs` or :meth:`from_comparisons`. More is better in every objective
    that is not named in ``minimise``. Vectors are in the objectives' own units: costs keep their sign.

    Attributes
    ----------
    facets : numpy.ndarray
        Shape (F, M). The cone is ``{v : facets @ v >= 0}``. No row is redundant; rows are in a canonical order and
        scaled by powers of two only, so that integer input stays exact. (Floats that were rounded, read again as input,
        may give rows of another scale and order: the same cone.)
    rays : numpy.ndarray
        Shape (R, M). The cone is the set of non-negative combinations of these rows, none of them redundant.
    names : tuple of str or None
        Names of the objectives, if given. They are labels: two cones that differ in names alone are equal.
    minimise : tuple of str
        Names of the objectives of which less is better.

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
    def orthant(cls, dim: int, *, names: Names | None = None, minimise: Names = (), maximise: Names = ()) -> Cone:
        """Better means better in every objective: the usual Pareto order.

        Parameters
        ----------
        dim
            Number of objectives.
        names
            Names of the objectives.
        minimise, maximise
            As for :meth:`from_weights`.

        Examples
        --------
        >>> Cone.orthant(3).facets
        array([[1., 0., 0.],
               [0., 1., 0.],
               [0., 0., 1.]])
        """
        return cls._make(description.orthant(as_count(dim, "dim")), names, minimise, maximise)

    @classmethod
    def from_facets(
        cls, facets: Matrix, *, names: Names | None = None, minimise: Names = (), maximise: Names = ()
    ) -> Cone:
        """Cone of all ``v`` with ``facets @ v >= 0``.

        Parameters
        ----------
        facets
            Shape (F, M), the inner normals of the half-spaces. Scaling does not matter, redundant rows are dropped.
        names
            Names of the objectives.
        minimise, maximise
            Which way is better in objectives, by name. They change nothing, since the rows say it: ``v`` is in the
            objectives' own units, and the entries of a cost are negative. Rows that say the opposite are refused.

        Examples
        --------
        >>> Cone.from_facets([[1, 0], [0, 1], [1, 1]]) == Cone.orthant(2)
        True
        """
        return cls._make(description.from_facets(facets), names, minimise, maximise, in_own_units=True)

    @classmethod
    def from_rays(cls, rays: Matrix, *, names: Names | None = None, minimise: Names = (), maximise: Names = ()) -> Cone:
        """Cone of all non-negative combinations of ``rays``.

        Parameters
        ----------
        rays
            Shape (R, M), directions that count as improvements. Scaling does not matter, redundant rows are dropped.
        names
            Names of the objectives.
        minimise, maximise
            As for :meth:`from_facets`: an improvement in a cost is a negative entry.

        Examples
        --------
        >>> Cone.from_rays([[1, 0], [0, 1], [1, 2]]) == Cone.orthant(2)
        True
        """
        return cls._make(description.from_rays(rays), names, minimise, maximise, in_own_units=True)

    @classmethod
    def wedge(cls, degrees: float, *, names: Names | None = None, minimise: Names = (), maximise: Names = ()) -> Cone:
        """Two objectives, a cone of the given opening angle, symmetric about the diagonal.

        Parameters
        ----------
        degrees
            Opening angle, from 1e-6 to 180 - 1e-6, or 180. 90 is the orthant; below 90 fewer vectors are comparable,
            above 90 more; 180 is the half-plane "the sum is larger".
        names
            Names of the objectives.
        minimise, maximise
            As for :meth:`from_weights`.

        Examples
        --------
        >>> Cone.wedge(90) == Cone.orthant(2)
        True
        """
        return cls._make(description.wedge(degrees), names, minimise, maximise)

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
        return Cone._labelled(description.from_rays(self.facets), Labels(self.names, self.minimise))

    def turned(self, names: Sequence[str]) -> Cone:
        """The same preference for vectors in which these objectives have changed sign.

        Those that were minimised no longer are, and the other way round. ``cone.turned(cone.minimise)`` is the cone of
        rewards, where more is better in everything: a vector ``v`` of outcomes becomes ``v * cone.signs``, plus any
        constant.

        Examples
        --------
        >>> cone = Cone.orthant(2, names=["efficacy", "toxicity"], minimise=["toxicity"])
        >>> cone.turned(["toxicity"]) == Cone.orthant(2)
        True
        """
        changed = read_labels(self.names, self.dim, names, ()).minimise
        before = Description(self.facets, self.rays, self._lineality)
        after = description.turned(before, signs(self.names, changed, self.dim))
        minimise = [n for n in self.names or () if (n in self.minimise) != (n in changed)]
        return Cone._labelled(after, Labels(self.names, tuple(minimise)))

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

    def describe(self) -> str:
        """What the cone says, in words: which way is better, and at which rates.

        With two metrics, :meth:`from_tradeoffs` makes the cone again from these rates, as far as their six digits go.
        With more, they are what follows for each pair of metrics if all others stay the same.

        Examples
        --------
        >>> Cone.from_weight_ranges({"efficacy": (0.4, 0.8), "safety": (0.2, 0.6)}).describe()
        'More efficacy and more safety are better. One unit of efficacy is worth between 0.666667 and 4 of safety.'
        """
        return in_words(self)

    def ask(self, points: ArrayLike, /, *, outcomes: ArrayLike | None = None) -> Question | None:
        """The question, which of two outcomes is better, whose answer settles most about a set of arms.

        A pair of points is *open* if both are on the front and neither is as good as the other. Each question has two
        answers, and each answer widens the cone (:meth:`from_comparisons`) and so leaves fewer pairs open. The best
        question is the one that leaves fewest after the less helpful answer; among those, fewest after both taken
        together; among those, the first.

        Parameters
        ----------
        points
            Shape (N, M), the outcomes of the arms, such as estimates of their means. At most 64 on the front.
        outcomes
            Shape (P, M), at most 64 outcomes to ask about, real or made up. By default the points.

        Returns
        -------
        Question or None
            None if nothing is left to ask: no pair of points is open.

        Examples
        --------
        >>> cone = Cone.orthant(2, names=["efficacy", "toxicity"], minimise=["toxicity"])
        >>> question = cone.ask([[0.5, 0.1], [0.6, 0.2], [0.65, 0.4]])
        >>> print(question)
        Would you rather have efficacy 0.5, toxicity 0.1 or efficacy 0.6, toxicity 0.2?
        >>> question.open_pairs, question.left
        (3, (0, 1))
        """
        return next_question(self, points, outcomes)


def with_labels(cone: Cone, names: Sequence[str] | None, minimise: Sequence[str] = ()) -> Cone:
    """The same cone with other labels. For what was checked before: nothing is warned of.

    Examples
    --------
    >>> with_labels(Cone.from_facets([[1, 0], [0, -1]]), ["efficacy", "toxicity"], ["toxicity"])
    Cone.orthant(2, names=['efficacy', 'toxicity'], minimise=['toxicity'])
    """
    labels = read_labels(names, cone.dim, minimise, ())
    return Cone._labelled(Description(cone.facets, cone.rays, cone._lineality), labels)


def as_saved(facets: FloatArray, names: Sequence[str] | None, minimise: Sequence[str] = ()) -> Cone:
    """The cone whose ``facets`` were saved, with these very numbers in this order: what was learned refers to them.

    :meth:`Cone.from_facets` makes sense of floats anew, which may change scale and order of the rows.

    Examples
    --------
    >>> as_saved(np.array([[0.0, 3.0], [1.0, 0.0]]), None).facets
    array([[0., 3.],
           [1., 0.]])
    """
    found = description.from_facets(facets)
    if found.facets.shape == facets.shape:
        found = found._replace(facets=np.array(facets, dtype=np.float64))
    return Cone._labelled(found, read_labels(names, facets.shape[1], minimise, ()))


def as_cone(value: Any, name: str = "cone") -> Cone:
    """The argument, if it is a cone."""
    if not isinstance(value, Cone):
        raise TypeError(f"{name} must be a conebandit.Cone, such as Cone.orthant(2); got {value!r}.")
    return value
