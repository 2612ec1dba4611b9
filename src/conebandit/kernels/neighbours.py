"""Nearest-neighbour upper confidence bounds on arrays, for contexts rounded to the nearest point of a lattice.

    anchors (A, d)         the lattice: which of ``side`` equal parts of each coordinate each point is the centre of
    reach   (R,)           the radii of neighbourhoods to choose from, ascending, the last one 1
    ring    (FINEST + 1,)  the smallest of these radii that holds a distance, by ceil(distance * FINEST)
    rings   (K, R, A, 2M)  what is in a neighbourhood but not in the next smaller one: how many rewards are known, for
                           each metric, then their sums

A neighbourhood of an anchor is the set of samples up to a distance. Since only the distances of a new sample to all
anchors are ever needed, nothing is searched, and a round costs the same however many samples there are. Distances are
in the sup norm, where none in the unit cube exceeds 1; radii are multiples of 1 / FINEST, so that the look-up is exact.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from conebandit.kernels.compile import compiled, in_place
from conebandit.kernels.grid import cell_of
from conebandit.kernels.loop import always, play
from conebandit.kernels.optimism import play_front_of, spread
from conebandit.kernels.types import Bools, Floats, Ints

OBSERVATIONS = 0
WIDTH, SMOOTHNESS = 0, 1
FINEST = 128


class State(NamedTuple):
    """Observations; the lattice and what is around it; the cone; width and smoothness."""

    size: Ints
    side: Ints
    anchors: Ints
    reach: Floats
    ring: Ints
    rings: Floats
    facets: Floats
    constants: Floats


@in_place
def estimate(state: State, x: Floats, means: Floats, radii: Floats) -> None:
    """For each arm and metric, the mean in the neighbourhood with the least uncertainty, and that uncertainty."""
    place = cell_of(state.side[0], x)  # the anchor nearest to x is the centre of its cell
    width, smoothness = spread(state.constants[WIDTH], state.size[OBSERVATIONS]), state.constants[SMOOTHNESS]
    objectives = means.shape[1]
    for k in range(means.shape[0]):
        for m in range(objectives):
            means[k, m], radii[k, m] = np.nan, np.inf
            n, total = 0.0, 0.0
            for r in range(state.reach.size):
                more = state.rings[k, r, place, m]
                if more > 0.0:
                    n += more
                    total += state.rings[k, r, place, objectives + m]
                    radius = width / np.sqrt(n) + smoothness * state.reach[r]
                    if radius < radii[k, m]:
                        means[k, m], radii[k, m] = total / n, radius


@compiled
def choose(state: State, seed: np.uint64, x: Floats, key: int, active: Bools, reported: Bools, chances: Floats) -> int:
    """Any arm that is on the front of the upper bounds; those with an unknown metric come first."""
    return play_front_of(estimate, state, seed, x, key, active, reported, chances)


@compiled
def learn(state: State, x: Floats, arm: int, reward: Floats) -> None:
    """Add one observation to the rings that it lies in around the anchors."""
    state.size[OBSERVATIONS] += 1
    side = state.side[0]
    along = np.empty((x.size, side), dtype=np.int64)  # ring by one coordinate alone; the largest of them counts
    for m in range(x.size):
        for i in range(side):
            along[m, i] = state.ring[int(np.ceil(abs(x[m] - (i + 0.5) / side) * FINEST))]
    for place in range(state.anchors.shape[0]):
        r = 0
        for m in range(x.size):
            r = max(r, along[m, state.anchors[place, m]])
        for m in range(reward.size):
            if not np.isnan(reward[m]):
                state.rings[arm, r, place, m] += 1.0
                state.rings[arm, r, place, reward.size + m] += reward[m]


@compiled
def run(state: State, seed: np.uint64, start: int, *chunk: Any) -> int:
    """Decide and observe, round by round."""
    return play(choose, learn, always, state, seed, start, chunk)
