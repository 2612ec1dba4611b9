"""Small steps that policies share: images of estimates on the facets, fronts of a handful of arms, a uniform draw.

All work in place on arrays of K arms; what is compared are images W y on the facets, where the order of any cone is the
order of the orthant.
"""

from __future__ import annotations

import numpy as np

from conebandit.kernels.compile import in_place
from conebandit.kernels.types import Bools, Floats


@in_place
def images(facets: Floats, means: Floats, radii: Floats, optimism: float, values: Floats) -> None:
    """Write W m + optimism |W| r for each arm into ``values`` (K, F): the best the arm can be on each facet.

    Facets on which an unknown metric (infinite radius) has no weight stay finite.
    """
    for k in range(means.shape[0]):
        for j in range(facets.shape[0]):
            value = 0.0
            for m in range(facets.shape[1]):
                if facets[j, m] != 0.0:
                    value += facets[j, m] * means[k, m]
                    if optimism != 0.0:
                        value += optimism * abs(facets[j, m]) * radii[k, m]
            values[k, j] = value


@in_place
def keep_undominated(values: Floats, flags: Bools) -> None:
    """Clear the flags of arms that another flagged arm dominates; ``values`` (K, F) are images on the facets."""
    # Whoever is dominated is so by someone undominated, so clearing flags on the way loses no dominator.
    for k in range(flags.size):
        if flags[k] and _beaten(values, flags, k):
            flags[k] = False


@in_place
def _beaten(values: Floats, flags: Bools, k: int) -> bool:
    for other in range(flags.size):
        if flags[other] and other != k:
            larger = False
            for j in range(values.shape[1]):
                if values[other, j] < values[k, j]:
                    larger = False
                    break
                larger |= values[other, j] > values[k, j]
            else:
                if larger:
                    return True
    return False


@in_place
def report(facets: Floats, means: Floats, radii: Floats, active: Bools, values: Floats, reported: Bools) -> int:
    """Flag the front of the estimates of active arms; how many of these are known in every metric.

    Arms with an unknown metric, one of infinite radius, are reported only if there are no others. ``values`` (K, F) is
    room to work in; it receives the images of the means.
    """
    known = 0
    for k in range(active.size):
        reported[k] = active[k]
        for m in range(means.shape[1]):
            reported[k] &= radii[k, m] < np.inf
        known += reported[k]
    images(facets, means, radii, 0.0, values)
    if known > 0:
        keep_undominated(values, reported)
    else:
        for k in range(active.size):
            reported[k] = active[k]
    return known


@in_place
def draw(flags: Bools, u: float, chances: Floats) -> int:
    """One of the flagged arms, by a uniform number in [0, 1); ``chances`` (K,) receives how probable each arm was.

    There must be a flagged arm.
    """
    n = 0
    for k in range(flags.size):
        n += flags[k]
    left, chance, arm = int(u * n), 1.0 / n, -1
    for k in range(flags.size):
        chances[k] = 0.0
        if flags[k]:
            chances[k] = chance
            if left == 0:
                arm = k
            left -= 1
    return arm
