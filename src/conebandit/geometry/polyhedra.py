"""Exact conversion between the two descriptions of a polyhedral cone.

A cone is either an intersection of half-spaces, ``{v : row . v >= 0 for every row}``, or the set of non-negative
combinations of generators. :func:`double_description` goes from the first to the second (Motzkin et al. 1953, in the
form of Fukuda & Prodon 1996 with a combinatorial adjacency test); by duality the same routine goes back. All numbers
are Python integers, so nothing is rounded.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction
from math import gcd, lcm

import numpy as np
import scipy  # its parts are loaded when they are used: some take longer than this whole package
from numpy.typing import NDArray

Vector = tuple[int, ...]

# Floats are read as the fraction p/q, q <= MAX_DENOMINATOR, that lies within a few units in the last place, if
# there is one. Two such fractions are 1e-14 apart, so at most one fits.
MAX_DENOMINATOR = 10**7
FLOAT_NOISE = 2.0**-50

# A generator this close to the cone of the others (as a unit vector) is redundant. Only used for input that is not
# rational to begin with, where exact arithmetic would take rounding errors for geometry.
REDUNDANT = 1e-10


def dot(a: Vector, b: Vector) -> int:
    """Scalar product of two integer vectors."""
    return sum(x * y for x, y in zip(a, b, strict=True))


def primitive(v: Iterable[Fraction | int]) -> Vector:
    """Shortest integer vector in the direction of ``v``.

    Examples
    --------
    >>> primitive([Fraction(1), Fraction(3, 5)])
    (5, 3)
    """
    fractions = [Fraction(x) for x in v]
    common = lcm(*(x.denominator for x in fractions))
    integers = [int(x * common) for x in fractions]
    divisor = gcd(*integers)
    return tuple(x // divisor for x in integers) if divisor else tuple(integers)


def units(dim: int) -> list[Vector]:
    """The unit vectors.

    Examples
    --------
    >>> units(2)
    [(1, 0), (0, 1)]
    """
    return [tuple(int(i == j) for j in range(dim)) for i in range(dim)]


def simplest(x: Fraction | int | float) -> tuple[Fraction, bool]:
    """The number that is meant, and whether it is certain: a float is the simple fraction or the decimal that it shows.

    Examples
    --------
    >>> simplest(0.7), simplest(0.12345678901)
    ((Fraction(7, 10), True), (Fraction(12345678901, 100000000000), False))
    """
    if not isinstance(x, float):
        return Fraction(x), True
    near = _recognise(x)
    return (Fraction(repr(x)), False) if near is None else (near, True)


def rational_row(row: Sequence[Fraction | int | float]) -> tuple[Vector, bool]:
    """Read one row as an integer direction; the flag says whether it was recognised as rational.

    Integers and fractions are taken as they are. In a row with floats the *ratios* to its largest entry are looked at,
    so that ``(0.1, 0.06)`` and ``(1, 0.6)`` give the same direction.
    """
    exact = [x for x in row if not isinstance(x, float)]
    if len(exact) == len(row):
        return primitive(exact), True
    largest = max(abs(Fraction(x)) for x in row)
    ratios = [_recognise(float(Fraction(x) / largest)) for x in row]
    if any(r is None for r in ratios):
        return primitive(Fraction(x) for x in row), False
    return primitive(r for r in ratios if r is not None), True


def _recognise(x: float) -> Fraction | None:
    near = Fraction(x).limit_denominator(MAX_DENOMINATOR)
    return near if abs(near - Fraction(x)) <= FLOAT_NOISE * abs(x) else None


def double_description(rows: Sequence[Vector], dim: int) -> tuple[list[Vector], list[Vector]]:
    """Generators of ``{v : row . v >= 0 for every row}``.

    Parameters
    ----------
    rows
        The half-spaces.
    dim
        Dimension of the space.

    Returns
    -------
    lineality
        Basis of the largest linear subspace inside the cone.
    rays
        One vector for each extreme ray, modulo the lineality space.

    Examples
    --------
    >>> double_description([(5, -3), (-3, 5)], 2)
    ([], [(5, 3), (3, 5)])
    """
    lineality = units(dim)
    rays: list[tuple[Vector, int]] = []  # (ray, bit i is set where row i is tight)
    for i, row in enumerate(rows):
        pivot = next((v for v in lineality if dot(row, v)), None)
        if pivot is None:
            rays = _cut(rays, row, i, dim - len(lineality))
            continue
        # The row cuts the lineality space: one of its directions becomes a ray, all else moves into the hyperplane.
        lineality.remove(pivot)
        if dot(row, pivot) < 0:
            pivot = tuple(-x for x in pivot)
        lineality = [_into_hyperplane(v, pivot, row) for v in lineality]
        rays = [(_into_hyperplane(v, pivot, row), tight | 1 << i) for v, tight in rays]
        rays.append((pivot, (1 << i) - 1))
    return lineality, [v for v, _ in rays]


def _into_hyperplane(v: Vector, pivot: Vector, row: Vector) -> Vector:
    along, across = dot(row, pivot), dot(row, v)
    return primitive(along * x - across * p for x, p in zip(v, pivot, strict=True))


def _cut(rays: list[tuple[Vector, int]], row: Vector, i: int, rank: int) -> list[tuple[Vector, int]]:
    """Intersect a cone, pointed up to its lineality space, with one more half-space."""
    inside, on, outside = [], [], []
    for v, tight in rays:
        height = dot(row, v)
        if height > 0:
            inside.append((v, tight, height))
        elif height < 0:
            outside.append((v, tight, height))
        else:
            on.append((v, tight | 1 << i))
    if not outside:
        return [(v, tight) for v, tight, _ in inside] + on
    masks = [tight for _, tight in rays]
    for v, v_tight, v_height in inside:
        for u, u_tight, u_height in outside:
            common = v_tight & u_tight
            # Two rays span a 2-face iff no third ray is tight wherever both are; the count is a cheap first test.
            if common.bit_count() >= rank - 2 and sum(common & ~m == 0 for m in masks) == 2:
                crossing = primitive(v_height * x - u_height * y for x, y in zip(u, v, strict=True))
                on.append((crossing, common | 1 << i))
    return [(v, tight) for v, tight, _ in inside] + on


def orthogonal_part(v: Vector, basis: Sequence[Vector]) -> Vector:
    """Part of ``v`` that is orthogonal to the span of ``basis``, as a primitive vector (exact Gram-Schmidt)."""
    orthogonal: list[list[Fraction]] = []
    for b in [*basis, v]:
        rest = [Fraction(x) for x in b]
        for o in orthogonal:
            share = Fraction(sum(x * y for x, y in zip(rest, o, strict=True)), sum(x * x for x in o))
            rest = [x - share * y for x, y in zip(rest, o, strict=True)]
        orthogonal.append(rest)
    return primitive(orthogonal[-1])


def reduced_basis(vectors: Sequence[Vector]) -> list[Vector]:
    """Canonical basis of the span of ``vectors``: the reduced row echelon form, as primitive vectors.

    Examples
    --------
    >>> reduced_basis([(1, 1, 0), (2, 2, 0), (0, 1, 1)])
    [(1, 0, -1), (0, 1, 1)]
    """
    rows = [[Fraction(x) for x in v] for v in vectors]
    done = 0
    for column in range(len(rows[0]) if rows else 0):
        lead = next((r for r in rows[done:] if r[column]), None)
        if lead is None:
            continue
        rows.remove(lead)
        lead = [x / lead[column] for x in lead]
        rows = [[x - r[column] * y for x, y in zip(r, lead, strict=True)] for r in rows]
        rows.insert(done, lead)
        done += 1
    return [primitive(r) for r in rows[:done]]


def orthogonal_complement(vectors: Sequence[Vector], dim: int) -> list[Vector]:
    """Canonical basis of all that is orthogonal to ``vectors``.

    Examples
    --------
    >>> orthogonal_complement([(1, 0, -1)], 3)
    [(1, 0, 1), (0, 1, 0)]
    """
    basis = reduced_basis(vectors)
    return reduced_basis([orthogonal_part(u, basis) for u in units(dim)])


def is_strict(rows: Sequence[Vector], generators: Sequence[Vector]) -> bool:
    """Whether some ``w`` of the cone of these generators has ``row . w > 0`` for every row.

    Examples
    --------
    >>> is_strict([(1, 0), (0, 1)], [(1, 0), (1, 2)]), is_strict([(1, 0), (0, 1)], [(1, 0)])
    (True, False)
    """
    inner = tuple(sum(column) for column in zip(*generators, strict=True))
    return bool(generators) and all(dot(row, inner) > 0 for row in rows)


def extreme_only(vectors: Sequence[Vector], supports: Sequence[Vector]) -> list[Vector]:
    """Those of ``vectors`` that generate extreme rays of the pointed cone ``{v : support . v >= 0}`` they span.

    A generator is extreme iff no other one is tight on all the supports it is tight on.
    """
    distinct = sorted(set(vectors))
    tight = [sum(1 << j for j, s in enumerate(supports) if dot(s, v) == 0) for v in distinct]
    return [v for v, t in zip(distinct, tight, strict=True) if sum(t & ~other == 0 for other in tight) == 1]


def drop_nearly_redundant(vectors: Sequence[Vector]) -> list[Vector]:
    """Leave out vectors that the others generate up to rounding, for input that was not rational."""
    distinct = sorted(set(vectors))
    unit = unit_rows(distinct)
    kept = list(range(len(distinct)))
    for i in range(len(distinct)):
        others = [k for k in kept if k != i]
        if others and _distance_to_cone(unit[i], unit[others]) <= REDUNDANT:
            kept = others
    return [distinct[i] for i in kept]


def _distance_to_cone(v: NDArray[np.float64], generators: NDArray[np.float64]) -> float:
    # The residual is computed here, since the one that nnls returns can be wrong for dependent columns.
    combination = scipy.optimize.nnls(generators.T, v)[0]
    return float(np.linalg.norm(generators.T @ combination - v))


def largest_margin(vectors: Sequence[Vector]) -> float:
    """Largest ``t`` such that some ``w`` in the unit cube has ``w . v >= t`` for every unit vector ``v`` of these."""
    unit = unit_rows(vectors)
    dim = unit.shape[1]
    result = scipy.optimize.linprog(
        np.r_[np.zeros(dim), -1.0],
        A_ub=np.column_stack([-unit, np.ones(len(unit))]),
        b_ub=np.zeros(len(unit)),
        bounds=[(-1.0, 1.0)] * dim + [(None, 1.0)],
    )
    return -float(result.fun) if result.fun is not None else 0.0


def unit_rows(vectors: Sequence[Vector]) -> NDArray[np.float64]:
    """Float rows of length one, from integers of any size."""
    rows = []
    for v in vectors:
        largest = max(abs(x) for x in v)
        row = np.array([float(Fraction(x, largest)) for x in v])
        rows.append(row / np.linalg.norm(row))
    return np.array(rows)


def binary_rows(vectors: Sequence[Vector]) -> NDArray[np.float64]:
    """Float rows, each an integer vector divided by the power of two that brings its largest entry into [1, 2).

    Dividing by a power of two rounds nothing, so products with integer or dyadic data stay exact.
    """
    rows = []
    for v in vectors:
        shift = max(abs(x) for x in v).bit_length() - 1
        rows.append([float(Fraction(x, 1 << shift)) for x in v])
    return np.array(rows)
