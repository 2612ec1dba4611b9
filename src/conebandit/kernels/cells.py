"""A dyadic tree of cells over the unit cube that grows where contexts fall, for policies that refine it as they learn.

A cell of level h has side 2^-h and 2^d children, which are made one at a time, when first visited, so that the number
of coordinates costs nothing. The children of a cell form a digital search tree (Coffman and Eve 1970): each of them
holds one child, and those below it are sorted by the next bit of WHICH, so that one is found in at most d steps.

Small steps take the arrays they need rather than all: to hand over a tuple of eight arrays costs more than they do.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from conebandit.kernels.averages import add_reward, clear_estimates
from conebandit.kernels.compile import compiled, in_place
from conebandit.kernels.fronts import images, report
from conebandit.kernels.types import Bools, Floats, Ints

OBSERVATIONS, CELLS = 0, 1
CHILD, LOWER, UPPER, WHICH, OPEN = 0, 1, 2, 3, 4
WIDTH, SMOOTHNESS = 0, 1
DEEPEST = 50  # a cell of side 2^-50 is a point
MAX_COORDINATES = 62  # bits of WHICH


class Cells(NamedTuple):
    """The tree and what is known in each cell.

    ``size`` (2,) observations and cells in use; ``links`` (cells, 5) first CHILD, siblings LOWER and UPPER by the next
    bit, WHICH child of its parent it is (a bit for each coordinate), and whether it is OPEN to have children;
    ``active`` (cells, K) arms not eliminated in it; ``pulls`` (cells, K), and ``counts`` and ``totals`` (cells, K, M)
    of the rewards that were known; the cone; ``constants`` (2,) WIDTH and SMOOTHNESS.
    """

    size: Ints
    links: Ints
    active: Bools
    pulls: Ints
    counts: Ints
    totals: Floats
    facets: Floats
    constants: Floats


@in_place
def which_child(h: int, x: Floats) -> int:
    """Which child of its cell of level ``h`` a point is in. Cells are closed below, those at the edge also above."""
    which = 0
    scale = float(1 << (h + 1))
    for m in range(x.size):
        if int(min(np.floor(x[m] * scale), scale - 1.0)) & 1:
            which |= 1 << m
    return which


@in_place
def child_of(links: Ints, cell: int, h: int, x: Floats) -> int:
    """The child of a cell of level ``h`` that contains a point, -1 if there is none yet."""
    which = which_child(h, x)
    node, rest = links[cell, CHILD], which
    while node >= 0 and links[node, WHICH] != which:
        node = links[node, LOWER + (rest & 1)]
        rest >>= 1
    return int(node)


@in_place
def add_child(cells: Cells, cell: int, h: int, x: Floats) -> int:
    """Make the child of a cell that contains a point: it inherits the active arms and knows nothing."""
    new, which = cells.size[CELLS], which_child(h, x)
    above, branch, rest = cell, CHILD, which
    while cells.links[above, branch] >= 0:
        above, branch = cells.links[above, branch], LOWER + (rest & 1)
        rest >>= 1
    cells.links[above, branch] = new
    for link in (CHILD, LOWER, UPPER):
        cells.links[new, link] = -1
    cells.links[new, WHICH] = which
    for k in range(cells.active.shape[1]):
        cells.active[new, k] = cells.active[cell, k]
    cells.size[CELLS] += 1
    return int(new)


@in_place
def unit_noise(cells: Cells) -> float:
    """Radius of a single observation; the logarithm is over arms, objectives and rounds."""
    rounds = cells.size[OBSERVATIONS] + 1.0
    return float(cells.constants[WIDTH] * np.sqrt(np.log(rounds * cells.totals.shape[1] * cells.totals.shape[2])))


@in_place
def has_room(cells: Cells, x: Floats) -> bool:
    """Whether there is room for one more cell."""
    return bool(cells.size[CELLS] < cells.links.shape[0])


@in_place
def add_observation(pulls: Ints, counts: Ints, totals: Floats, cell: int, arm: int, reward: Floats) -> None:
    """Add one observation to a cell."""
    pulls[cell, arm] += 1
    add_reward(counts[cell, arm], totals[cell, arm], reward)


@in_place
def take_better_estimates(
    counts: Ints, totals: Floats, cell: int, bias: float, noise: float, means: Floats, radii: Floats
) -> None:
    """Replace each estimate for which this cell has a smaller radius, ``bias + noise / sqrt(n)``.

    A cell just made knows little; what is known at a context is best taken from whichever cell around it is surest.
    """
    for k in range(means.shape[0]):
        for m in range(means.shape[1]):
            n = counts[cell, k, m]
            if n > 0:
                radius = bias + noise / np.sqrt(n)
                if radius <= radii[k, m]:
                    means[k, m], radii[k, m] = totals[cell, k, m] / n, radius


@in_place
def estimate(state: Cells, x: Floats, means: Floats, radii: Floats) -> None:
    """Estimates of all arms, each from the cell around ``x`` with the smallest radius."""
    clear_estimates(means, radii)
    noise, cell, bias = unit_noise(state), 0, state.constants[SMOOTHNESS]
    for h in range(DEEPEST + 1):
        take_better_estimates(state.counts, state.totals, cell, bias, noise, means, radii)
        cell, bias = child_of(state.links, cell, h, x), 0.5 * bias
        if cell < 0:
            return


@compiled
def report_front(state: Cells, x: Floats, active: Bools, reported: Bools) -> None:
    """Flag the front of the estimates at ``x``, among the active arms."""
    shape = (active.size, state.facets.shape[1])
    means, radii = np.empty(shape), np.empty(shape)
    estimate(state, x, means, radii)
    report(state.facets, means, radii, active, np.empty((active.size, state.facets.shape[0])), reported)


@compiled
def eliminate(state: Cells, cell: int, bias: float, noise: float, flags: Bools) -> None:
    """Clear the flags of arms that a flagged arm beats by the estimates of a cell, ``bias + noise / sqrt(n)`` off."""
    arms, (rows, objectives) = flags.size, state.facets.shape
    means, radii = np.empty((arms, objectives)), np.empty((arms, objectives))
    clear_estimates(means, radii)
    take_better_estimates(state.counts, state.totals, cell, bias, noise, means, radii)
    _clear_beaten(state.facets, means, radii, np.empty((arms, rows)), np.empty((arms, rows)), flags)


@in_place
def _clear_beaten(facets: Floats, means: Floats, radii: Floats, lower: Floats, upper: Floats, flags: Bools) -> None:
    """Clear the flags of arms that a flagged arm beats on every facet with both estimates at their worst.

    Sound for any cone. ``lower`` and ``upper`` (K, F) are room to work in. An arm that beats another one is not
    forgotten when it is beaten itself: whoever beats it beats the other one too.
    """
    images(facets, means, radii, -1.0, lower)
    images(facets, means, radii, 1.0, upper)
    for k in range(flags.size):
        for other in range(flags.size):
            if flags[k] and flags[other] and _surely_above(lower, other, upper, k):
                flags[k] = False


@in_place
def _surely_above(lower: Floats, better: int, upper: Floats, worse: int) -> bool:
    for j in range(lower.shape[1]):
        if not lower[better, j] > upper[worse, j]:  # also if one of them is not known
            return False
    return True
