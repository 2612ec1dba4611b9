"""Cones from what people say: weights, shares, exchange rates, comparisons of outcomes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Self

from numpy.typing import ArrayLike

from conebandit.geometry import description, polyhedra
from conebandit.geometry.description import Description
from conebandit.geometry.directions import Labels, check_directions, read_labels, signs, warn_of_costs
from conebandit.geometry.inputs import check_names, read_comparisons, weight_rows
from conebandit.geometry.order import Order

Matrix = ArrayLike | Sequence[Sequence[Fraction]]  # rational entries are read exactly
Names = Sequence[str]
Outcomes = Matrix | Sequence[Mapping[str, float]]


class Preferences(Order):
    """An order that can be made from statements: the constructors of :class:`conebandit.Cone` with metrics by name.

    ``minimise`` and ``maximise`` mean the same in each of them: names of the objectives of which less is better, and of
    those of which more is better although they sound like costs. All others are maximised, and one that sounds like a
    cost gets a :class:`conebandit.CostWarning`.
    """

    @classmethod
    def from_weights(
        cls,
        weights: Matrix | Sequence[Mapping[str, float]],
        *,
        names: Names | None = None,
        minimise: Names = (),
        maximise: Names = (),
    ) -> Self:
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
        minimise, maximise
            Names of objectives of which less is better, and of those that only sound like it.

        Examples
        --------
        Safety counts between 30 % and 60 %:

        >>> import conebandit as cb
        >>> cone = cb.Cone.from_weights([{"efficacy": 0.7, "safety": 0.3}, {"efficacy": 0.4, "safety": 0.6}])
        >>> cone.names
        ('efficacy', 'safety')
        >>> cone.dominates([0.9, 0.5], [0.5, 0.7])
        True
        """
        rows, order = weight_rows(weights, names)
        return cls._make(description.from_facets(rows), order, minimise, maximise)

    @classmethod
    def from_weight_ranges(
        cls, ranges: Mapping[str, tuple[float, float]], *, minimise: Names = (), maximise: Names = ()
    ) -> Self:
        """Better means better under every weighting whose shares lie in the given ranges.

        Parameters
        ----------
        ranges
            For each metric the smallest and the largest share it may have of the total weight, which is 1.
        minimise, maximise
            As for :meth:`from_weights`.

        Examples
        --------
        >>> import conebandit as cb
        >>> cone = cb.Cone.from_weight_ranges({"efficacy": (0.4, 0.7), "safety": (0.3, 0.6)})
        >>> cone == cb.Cone.from_weights([[0.7, 0.3], [0.4, 0.6]])
        True
        """
        return cls._make(description.from_weight_ranges(ranges), tuple(ranges), minimise, maximise)

    @classmethod
    def from_tradeoffs(cls, *statements: str, names: Names, minimise: Names = (), maximise: Names = ()) -> Self:
        """Better in every objective, or a trade at an exchange rate that the statements call fair.

        Parameters
        ----------
        *statements
            Sentences of the form ``"one unit of A is worth at most 3 of B"``. Instead of *at most*: *at least*,
            *exactly*, or *between 1 and 3*. "One unit of" may also be a number (``"10 A is worth ..."``) and "units
            of" may be left out. A unit of a cost is a unit less of it.
        names
            Names of all objectives, in the order of the reward vectors.
        minimise, maximise
            As for :meth:`from_weights`.

        Notes
        -----
        "A is worth at most 3 B" says that giving up one A for three B is never a loss, so the direction ``-1 A, +3 B``
        joins the cone. "At least" adds ``+1 A, -r B``. Statements only add comparisons to the Pareto order;
        contradictory ones (at least 3, at most 2) are refused.

        Examples
        --------
        >>> import conebandit as cb
        >>> cone = cb.Cone.from_tradeoffs(
        ...     "one unit of toxicity is worth between 2 and 3 of efficacy",
        ...     names=["efficacy", "toxicity"],
        ...     minimise=["toxicity"],
        ... )
        >>> cone.dominates([0.6, 0.1], [0.8, 0.2])    # 0.1 less toxicity is worth at least 0.2 efficacy
        True
        >>> cone.dominates([0.8, 0.2], [0.5, 0.1])    # and at most 0.3
        True
        """
        checked = check_names(names, None)
        if not all(isinstance(s, str) for s in statements):
            raise TypeError(f"statements must be strings, each an argument of its own; got {statements!r}.")
        return cls._make(description.from_tradeoffs(statements, checked), checked, minimise, maximise)

    @classmethod
    def from_comparisons(
        cls,
        better: Outcomes,
        worse: Outcomes,
        *,
        names: Names | None = None,
        minimise: Names = (),
        maximise: Names = (),
    ) -> Self:
        """Better in every objective, or better by what somebody has said about pairs of outcomes.

        For people who cannot name an exchange rate but can say which of two outcomes they would rather have. The cone
        is the smallest one that contains the orthant and every difference between a better and a worse outcome.
        :meth:`conebandit.Cone.ask` proposes what to compare next.

        Parameters
        ----------
        better, worse
            Outcomes, row by row: ``better[i]`` is preferred to ``worse[i]``. Shape (n, M); or sequences of mappings
            from metric to value, where a metric that neither of the two mentions is the same in both.
        names
            Names of the objectives. By default the keys of the first mapping, if outcomes are mappings.
        minimise, maximise
            As for :meth:`from_weights`.

        Raises
        ------
        ContradictionError
            If no weighting agrees with all comparisons. It names as few of them as possible that contradict each other.

        Examples
        --------
        >>> import conebandit as cb
        >>> cone = cb.Cone.from_comparisons(
        ...     [{"efficacy": 0.6, "toxicity": 0.1}],
        ...     [{"efficacy": 0.8, "toxicity": 0.2}],
        ...     minimise=["toxicity"],
        ... )
        >>> cone.describe()
        'More efficacy and less toxicity are better. One unit of efficacy is worth at most 0.5 of toxicity.'
        """
        given = read_comparisons(better, worse, names)
        dim = len(given.gains[0])
        labels = read_labels(given.names, dim, minimise, maximise)
        sign = signs(labels.names, labels.minimise, dim).astype(int).tolist()
        gains = [polyhedra.primitive(s * x for s, x in zip(sign, gain, strict=True)) for gain in given.gains]
        described = description.from_comparisons(gains, given.statements, exact=given.exact)
        return cls._make(described, given.names, minimise, maximise)

    @classmethod
    def _make(
        cls,
        described: Description,
        names: Sequence[str] | None,
        minimise: Sequence[str] = (),
        maximise: Sequence[str] = (),
        *,
        in_own_units: bool = False,
    ) -> Self:
        """The cone of a description of rewards, more is better; or of outcomes in their own units, as they are."""
        labels = read_labels(names, described.facets.shape[1], minimise, maximise)
        if in_own_units:
            check_directions(described, labels)
        elif labels.minimise:
            described = description.turned(described, signs(labels.names, labels.minimise, described.facets.shape[1]))
        warn_of_costs(described, labels, stacklevel=3)
        return cls._labelled(described, labels)

    @classmethod
    def _labelled(cls, described: Description, labels: Labels) -> Self:
        self = object.__new__(cls)
        self._set(described, labels.names, labels.minimise)
        return self
