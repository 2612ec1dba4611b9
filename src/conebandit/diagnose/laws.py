"""Dissimilarity of two laws of contexts: by quadrature in one and two dimensions, by Monte Carlo in any."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from conebandit.environments.shift import Distribution, Mixture
from conebandit.validate.arrays import FloatArray

NODES = 16  # of Gauss-Legendre in each panel
MAX_REFINEMENTS = 7  # how often panels are halved at most
PRECISION = 1e-9  # relative change between two refinements that is small enough


def ball_masses(law: Distribution, centres: FloatArray, radius: FloatArray) -> FloatArray:
    """Mass of the closed boxes with these centres (..., d) and this half-width in each coordinate (d,)."""
    return law.mass(centres - radius, np.nextafter(centres + radius, np.inf))


def by_quadrature(source: Distribution, target: Distribution, radius: FloatArray) -> tuple[float, float]:
    """Integral of q(x) / P(B(x, h)), and how far it may be off.

    Gauss-Legendre on panels that end where the integrand may have a kink (an edge of a domain, or one ball away from
    it) and that shrink towards there. They are refined until the value settles and the density q adds up to one, so
    that no peak of it is overlooked.
    """
    value, error = np.inf, 0.0
    for refinement in range(MAX_REFINEMENTS if source.context_dim == 1 else MAX_REFINEMENTS - 3):
        axes = [_nodes(source, target, radius, m, refinement) for m in range(source.context_dim)]
        before = value
        value, total = _integrals(source, target, radius, axes)
        if np.isinf(value):
            return value, 0.0  # the target reaches a region around which no ball holds any of the source
        error = abs(value - before) + abs(total - 1.0) * value
        if error <= PRECISION * value:
            break
    return value, error


def _integrals(
    source: Distribution, target: Distribution, radius: FloatArray, axes: list[tuple[FloatArray, FloatArray]]
) -> tuple[float, float]:
    """Integrals of q / P(B) and of q on a grid of nodes."""
    points = np.stack(np.meshgrid(*(x for x, _ in axes), indexing="ij"), axis=-1)
    density = target.density(points)
    density = np.where(np.isfinite(density), density, 0.0)  # a pole at an edge, hit by a node that was rounded to it
    masses = ball_masses(source, points, radius)
    if np.any((density > 0.0) & (masses == 0.0)):
        return np.inf, 1.0
    values = np.stack([density / np.where(density > 0.0, masses, 1.0), density])
    for _, weights in reversed(axes):
        values = values @ weights
    return float(values[0]), float(values[1])


def _nodes(
    source: Distribution, target: Distribution, radius: FloatArray, m: int, refinement: int
) -> tuple[FloatArray, FloatArray]:
    """Nodes and weights along one coordinate, over the range of the target."""
    low, high = target.bounds[m]
    kinks = {float(edge) for law in (source, target) for edge in _edges(law, m)}
    kinks |= {kink + sign * float(radius[m]) for kink in kinks for sign in (-1.0, 1.0)}
    steps = (high - low) * 0.5 ** np.arange(2 + 7 * (1 + refinement), 1, -1)  # towards the kinks, geometrically
    cuts = np.array([k + s for k in kinks for s in (0.0, *steps, *-steps)])
    even = np.linspace(low, high, 2 ** (3 + refinement) + 1)
    ends = np.unique(np.clip(np.concatenate([cuts, even]), low, high))
    nodes, weights = np.polynomial.legendre.leggauss(NODES)
    width = np.diff(ends)[:, None]
    return (ends[:-1, None] + width * (nodes + 1.0) / 2.0).ravel(), (width * weights / 2.0).ravel()


def _edges(law: Distribution, m: int) -> Iterator[float]:
    yield from law.bounds[m].tolist()
    for part in law.parts if isinstance(law, Mixture) else ():
        yield from _edges(part, m)


def reciprocals(source: Distribution, contexts: FloatArray, radii: list[FloatArray]) -> FloatArray:
    """1 / P(B(x, h)) at contexts (n, d) for each radius, shape (n, len(radii)): what Monte Carlo averages."""
    with np.errstate(divide="ignore"):
        return np.column_stack([1.0 / ball_masses(source, contexts, radius) for radius in radii])


def cell_ratios(source: Distribution, target: Distribution, box: FloatArray, level: int) -> float:
    """Sum over the dyadic cells of a level of Q(B) / P(B); cells that the target does not reach count nothing."""
    side = np.ptp(box, axis=1) / 2**level
    index = np.stack(np.meshgrid(*[np.arange(2**level)] * source.context_dim, indexing="ij"), axis=-1)
    lower = box[:, 0] + index * side
    upper = np.where(index == 2**level - 1, box[:, 1], box[:, 0] + (index + 1) * side)
    reached, held = target.mass(lower, upper), source.mass(lower, upper)
    with np.errstate(divide="ignore"):
        return float(np.sum(np.where(reached > 0.0, reached / np.where(reached > 0.0, held, 1.0), 0.0)))
