"""Steps that optimistic policies share: the width of bounds, a draw from the optimistic front.

What a policy does not know is a nan mean with an infinite radius.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from conebandit.kernels.compile import compiled, in_place, inlined
from conebandit.kernels.fronts import draw, images, keep_undominated, report
from conebandit.kernels.rng import uniform
from conebandit.kernels.types import Bools, Floats


@in_place
def spread(width: float, rounds: int) -> float:
    """How far a single reward may be off after so many rounds, for the mean of n rewards to be divided by root n."""
    return float(width * np.sqrt(np.log(2.0 + rounds)))


@in_place
def flag_candidates(values: Floats, radii: Floats, known: int, flags: Bools) -> None:
    """Flag the arms with an unknown metric or, without any, those on the front of the optimistic ``values`` (K, F)."""
    for k in range(flags.size):
        flags[k] = known == flags.size
        for m in range(radii.shape[1]):
            flags[k] |= not np.isfinite(radii[k, m])
    if known == flags.size:
        keep_undominated(values, flags)


@inlined
def play_front_of(
    estimate: Callable[..., None],
    state: Any,
    seed: np.uint64,
    x: Floats,
    key: int,
    active: Bools,
    reported: Bools,
    chances: Floats,
) -> int:
    """``choose`` of every policy that plays an arm on the front of the upper bounds of its estimates."""
    shape = (active.size, state.facets.shape[1])
    means, radii = np.empty(shape), np.empty(shape)
    estimate(state, x, means, radii)
    return play_front(state.facets, means, radii, uniform(seed, key), active, reported, chances)


@compiled
def play_front(
    facets: Floats, means: Floats, radii: Floats, u: float, active: Bools, reported: Bools, chances: Floats
) -> int:
    """An arm on the front of the upper bounds, by a uniform number; unknown arms come first."""
    values, flags = np.empty((means.shape[0], facets.shape[0])), np.empty(means.shape[0], dtype=np.bool_)
    active[:] = True
    known = report(facets, means, radii, active, values, reported)
    images(facets, means, radii, 1.0, values)
    flag_candidates(values, radii, known, flags)
    return draw(flags, u, chances)
