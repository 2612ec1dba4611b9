"""Facets and rays of a cone, in exact arithmetic: one function for each constructor of :class:`conebandit.Cone`."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from fractions import Fraction
from math import cos, radians, sin
from typing import Any, NamedTuple

import numpy as np

from conebandit.geometry import polyhedra
from conebandit.geometry.contradictions import ContradictionError, smallest_contradiction
from conebandit.geometry.inputs import check_ranges, read_rows
from conebandit.geometry.polyhedra import Vector
from conebandit.geometry.sentences import tradeoff_rays
from conebandit.validate.arguments import as_number
from conebandit.validate.arrays import FloatArray

# Shares that sum to one within this tolerance are taken to sum to one exactly.
SAME_SHARE = 1e-12

# Two cones are the same if their unit facet normals differ by no more than this.
SAME_FACET = 1e-9

# Wedges thinner than this many degrees, or closer than this to a half-plane, cannot be told from rounding.
MIN_DEGREES = 1e-6


class Description(NamedTuple):
    """Irredundant facets (F, M) and rays (R, M) in canonical order; dimension of the largest subspace inside."""

    facets: FloatArray
    rays: FloatArray
    lineality: int


def orthant(dim: int) -> Description:
    """The cone of vectors without a negative entry."""
    unit = polyhedra.units(dim)
    return _as_floats(unit, unit, [])


def from_facets(facets: Any) -> Description:
    """See :meth:`conebandit.Cone.from_facets`."""
    rows, exact, dim = read_rows(facets, "facets")
    if not exact:
        rows = polyhedra.drop_nearly_redundant(rows)
    lineality, rays = polyhedra.double_description(rows, dim)
    inner = [sum(column) for column in zip(*rays, strict=True)] if rays else [0] * dim
    flat = [i for i, row in enumerate(rows) if polyhedra.dot(row, tuple(inner)) == 0]
    if flat:
        which = f"facets[{flat[0]}]" if exact else "one of its rows"
        raise ValueError(
            f"facets describe a cone with empty interior: {which} is zero on all of it. No vector would "
            "strictly improve on another; drop or relax one of the opposing rows."
        )
    extreme = polyhedra.extreme_only(rows, rays)
    if not exact:
        _refuse_if_unclear("facets", extreme, rays, pointed=not lineality)
        rays = polyhedra.drop_nearly_redundant(rays)
    return _as_floats(extreme, rays, lineality)


def from_rays(rays: Any) -> Description:
    """See :meth:`conebandit.Cone.from_rays`."""
    rows, exact, dim = read_rows(rays, "rays")
    if not exact:
        rows = polyhedra.drop_nearly_redundant(rows)
    missing, facets = polyhedra.double_description(rows, dim)  # of the dual cone
    if missing:
        raise ValueError(
            f"rays span only {dim - len(missing)} of {dim} dimensions, so the cone has empty interior and no "
            f"vector would strictly improve on another. Add rays until they have rank {dim}."
        )
    if not facets:
        raise ValueError(
            "rays generate the whole space: every vector would improve on every other. "
            "Leave out rays that contradict each other."
        )
    lineality = polyhedra.orthogonal_complement(facets, dim)
    pointed = [polyhedra.orthogonal_part(r, lineality) for r in rows]
    extreme = polyhedra.extreme_only([r for r in pointed if any(r)], facets)
    if not exact:
        _refuse_if_unclear("rays", facets, extreme, pointed=not lineality)
        facets = polyhedra.drop_nearly_redundant(facets)
    return _as_floats(facets, extreme, lineality)


def wedge(degrees: float) -> Description:
    """See :meth:`conebandit.Cone.wedge`."""
    angle = as_number(degrees, "degrees")
    if not (MIN_DEGREES <= angle <= 180 - MIN_DEGREES or angle == 180):
        least = f"{MIN_DEGREES:g}"
        raise ValueError(f"degrees must be a number from {least} to 180 - {least}, or 180; got {degrees!r}.")
    lower = radians((90 - angle) / 2)  # angle of the lower ray; 0 at 90 degrees, with no rounding
    return from_facets([[-sin(lower), cos(lower)], [cos(lower), -sin(lower)]])


def from_weight_ranges(ranges: Mapping[str, tuple[float, float]]) -> Description:
    """See :meth:`conebandit.Cone.from_weight_ranges`."""
    shares = check_ranges(ranges)
    for bound in (0, 1):  # the lows, or the highs, may already be the only weighting there is
        only = [share[bound] for share in shares]
        if abs(float(sum(only)) - 1.0) <= SAME_SHARE:
            return from_facets([only])
    dim = len(ranges)
    rows = polyhedra.units(dim)
    for i, (low, high) in enumerate(shares):
        rows.append(polyhedra.primitive((i == j) - low for j in range(dim)))
        rows.append(polyhedra.primitive(high - (i == j) for j in range(dim)))
    _, weightings = polyhedra.double_description([r for r in rows if any(r)], dim)
    if not weightings:
        raise ValueError(
            f"ranges allow no weighting at all: the shares must be able to add up to 1; got {dict(ranges)}."
        )
    return from_facets([[Fraction(x) for x in w] for w in weightings])


def from_tradeoffs(statements: Sequence[str], names: Sequence[str]) -> Description:
    """See :meth:`conebandit.Cone.from_tradeoffs`."""
    trades = [polyhedra.primitive(ray) for ray in tradeoff_rays(statements, names)]
    _, weightings = polyhedra.double_description([*polyhedra.units(len(names)), *trades], len(names))
    # Statements that fit together leave weightings under which every metric counts.
    worthless = [n for i, n in enumerate(names) if not any(w[i] for w in weightings)]
    if worthless:
        raise ValueError(
            f"statements contradict each other: they leave no worth for {', '.join(worthless)}. "
            f"Look for an 'at least' above an 'at most' in: {'; '.join(statements)}."
        )
    return from_facets([[Fraction(x) for x in w] for w in weightings])


def from_comparisons(gains: Sequence[Vector], statements: Sequence[str], *, exact: bool) -> Description:
    """See :meth:`conebandit.Cone.from_comparisons`; the gains are differences of rewards, more is better."""
    dim = len(gains[0])
    rows = list(dict.fromkeys([*polyhedra.units(dim), *gains]))
    _, weightings = polyhedra.double_description(rows, dim)
    if not polyhedra.is_strict(rows, weightings):
        which = smallest_contradiction(gains)
        words = "; ".join(f"[{i}] {statements[i]}" for i in which)
        one_another = "each other" if len(which) > 1 else "what is better"
        raise ContradictionError(
            which,
            f"comparisons {list(which)} contradict {one_another}: {words}. Nobody who wants more of every reward and "
            f"less of every cost can mean {'all of these' if len(which) > 1 else 'this'}; take one back.",
        )
    extreme = polyhedra.extreme_only(rows, weightings)
    if not exact:
        _refuse_if_unclear("comparisons", weightings, extreme, pointed=True)
    return _as_floats(weightings, extreme, [])


def turned(described: Description, signs: FloatArray) -> Description:
    """The cone after objectives with sign -1 have changed sign; nothing is rounded."""
    lines = len(described.rays) - 2 * described.lineality  # where the rays begin that go both ways
    parts = (described.facets, described.rays[:lines], described.rays[lines:])
    facets, rays, both_ways = (sorted((rows * signs + 0.0).tolist(), reverse=True) for rows in parts)
    return Description(np.array(facets), np.array([*rays, *both_ways]), described.lineality)


def _refuse_if_unclear(name: str, facets: Sequence[Vector], rays: Sequence[Vector], *, pointed: bool) -> None:
    """Refuse float input for which rounding decides whether there is an interior, or a line, in the cone."""
    advice = "Give exact numbers (integers or fractions), or move the rows apart."
    if polyhedra.largest_margin(facets) <= SAME_FACET:
        raise ValueError(f"{name} describe a cone with empty interior, up to rounding. {advice}")
    if pointed and polyhedra.largest_margin(rays) <= SAME_FACET:
        raise ValueError(f"{name} describe a cone that contains a line, but only up to rounding. {advice}")


def _as_floats(facets: Sequence[Vector], rays: Sequence[Vector], lineality: Sequence[Vector]) -> Description:
    """From irredundant facets and from rays modulo the lineality space."""
    basis = polyhedra.reduced_basis(lineality)
    pointed = {polyhedra.orthogonal_part(r, basis) for r in rays}
    both_ways = {tuple(s * x for x in v) for v in basis for s in (1, -1)}
    rows = np.vstack([_sorted_rows(pointed), _sorted_rows(both_ways)]) if basis else _sorted_rows(pointed)
    return Description(_sorted_rows(facets), rows, len(basis))


def _sorted_rows(vectors: Collection[Vector]) -> FloatArray:
    """Float rows in a canonical order, which does not depend on how they were scaled when they were given."""
    rows = polyhedra.binary_rows(list(vectors))
    return np.array(sorted(rows.tolist(), reverse=True))
