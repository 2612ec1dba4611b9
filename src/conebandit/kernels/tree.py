"""Algorithm 1 of the paper on arrays: an adaptive dyadic tree over contexts with elimination of arms in each bin.

The state is a handful of arrays (few, since handing an array to compiled code costs a tenth of a microsecond):

    size    (2,)                observations, nodes
    links   (nodes, 6)          LEVEL h, PARENT, CHILD (first of 2^d in a row, -1 at a leaf), FIRST and LAST sample of
                                a leaf, SEEN (contexts in the bin)
    tallies (nodes, K, 4 + M)   ACTIVE, REPORTED, WHEN (observation at which an arm was eliminated, or -1), BY (whom),
                                and from COUNT on n_{k,t} of equation (2), for each objective on its own
    moments (nodes, K, 3M + 4F) sum, mean (3), radius (4) for each objective; then for each facet the image of the mean,
                                the blur |W| C, the image of the upper bound u (5), and the margin of an elimination
    data    (samples, d + M)    contexts and rewards
    chain   (samples, 2)        arm, and the next sample of the same leaf, -1 at the end
    facets  (F, M)              of the cone
    constants                   by position, see below

:func:`choose` and :func:`estimate` read it, :func:`learn` is the only routine that changes it, :func:`run` does both
for a whole chunk. Single steps take the arrays one by one: to hand over a tuple of them costs as much as the step.
Contexts live in the unit cube. Symbols are the paper's: K arms, M objectives, F facets, h the level of a bin,
V_h = 2^-h its side. "Line" numbers are those of Algorithm 1.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from conebandit.kernels.compile import in_place
from conebandit.kernels.floor import any_arm, with_floor
from conebandit.kernels.rng import uniform
from conebandit.kernels.types import Bools, Floats, Ints

OBSERVATIONS, NODES = 0, 1
LEVEL, PARENT, CHILD, FIRST, LAST, SEEN = 0, 1, 2, 3, 4, 5
ACTIVE, REPORTED, WHEN, BY, COUNT = 0, 1, 2, 3, 4
ARM, FOLLOWING = 0, 1
OPTIMISTIC = REPORTED  # lent out while arms are eliminated; what is reported is found anew right after that

# Positions in the array of constants; from BIAS on, c_1 V_h^beta for each level h; from UNION on, what a level adds to
# the logarithm (for all bins of all levels).
SOUND, NOISE, LOG_TERM, SPLIT_AT, WARM_UP, BIAS = 0, 1, 2, 3, 4, 5
DEEPEST = 50  # a bin of side 2^-50 is a point
UNION = BIAS + DEEPEST + 1
CONSTANTS = UNION + DEEPEST + 1


class State(NamedTuple):
    """The arrays; longer than what is in use."""

    size: Ints
    links: Ints
    tallies: Ints
    moments: Floats
    data: Floats
    chain: NDArray[np.int32]
    facets: Floats
    constants: Floats


@in_place
def leaf_of(links: Ints, x: Floats) -> int:
    """The leaf whose bin contains the point ``x`` (d,)."""
    return find_leaf(links, x.reshape((1, x.size)), 0, x.size)


@in_place
def find_leaf(links: Ints, points: Floats, i: int, dim: int) -> int:
    """Line 8, for the first ``dim`` entries of row ``i`` (making a view of it would be slower than the search)."""
    node = 0
    while links[node, CHILD] >= 0:
        node = links[node, CHILD] + part_of(links[node, LEVEL], points, i, dim)
    return node


@in_place
def part_of(level: int, points: Floats, i: int, dim: int) -> int:
    """In which of the 2^d parts of its bin at a level a point is.

    Bins are closed below and open above, except at the upper edge of the cube. Doubling and subtracting one are exact,
    so a context on a boundary always falls on the same side.
    """
    which = 0
    scale = float(1 << level)
    for m in range(dim):
        inside = points[i, m] * scale  # position in units of the bin
        inside -= min(np.floor(inside), scale - 1.0)
        if inside >= 0.5:
            which |= 1 << m
    return which


@in_place
def choose(
    size: Ints,
    links: Ints,
    tallies: Ints,
    constants: Floats,
    seed: np.uint64,
    x: Floats,
    key: int,
    active: Bools,
    reported: Bools,
    chances: Floats,
) -> int:
    """An arm, as a function of state, context and key; all active ones have the same chance."""
    leaf, warm_up = leaf_of(links, x), int(constants[WARM_UP])
    _flag_reported(tallies, leaf, reported.reshape((1, reported.size)), 0)
    arm, chance = _choose(size, tallies, warm_up, seed, leaf, key, active.reshape((1, active.size)), 0)
    for k in range(active.size):
        chances[k] = chance if active[k] else 0.0
    return arm


@in_place
def _choose(
    size: Ints, tallies: Ints, warm_up: int, seed: np.uint64, leaf: int, key: int, active: Bools, row: int
) -> tuple[int, float]:
    """Lines 5 and 12, with the probability of the arm; ``active[row]`` receives the arms that were in the running."""
    arms = tallies.shape[1]
    if size[OBSERVATIONS] < warm_up:
        for k in range(arms):
            active[row, k] = True
        # Round robin when keys count rounds.
        return int(np.int64(np.uint64(key) % np.uint64(arms))), 1.0 / arms
    n = 0
    for k in range(arms):
        active[row, k] = tallies[leaf, k, ACTIVE] == 1
        n += tallies[leaf, k, ACTIVE]
    pick = int(uniform(seed, key) * n)
    for k in range(arms):
        pick -= tallies[leaf, k, ACTIVE]
        if pick < 0:
            return k, 1.0 / n
    return -1, 0.0  # not reached: a leaf always has an active arm


@in_place
def choose_in(
    leaf: int,
    i: int,
    size: Ints,
    tallies: Ints,
    warm_up: int,
    seed: np.uint64,
    keys: Ints,
    explore: float,
    arms: Ints,
    propensities: Floats,
    active: Bools,
    reported: Bools,
) -> int:
    """The arm for round ``i`` of a chunk, whose context is in this leaf; all about it is written into the chunk."""
    arm, chance = _choose(size, tallies, warm_up, seed, leaf, keys[i], active, i)
    if explore > 0.0:
        arm, chance = _explored(explore, seed, keys[i], arm, chance, active, i)
    _flag_reported(tallies, leaf, reported, i)
    arms[i], propensities[i] = arm, chance
    return arm


@in_place
def _explored(
    explore: float, seed: np.uint64, key: int, arm: int, chance: float, active: Bools, row: int
) -> tuple[int, float]:
    """The arm to play and its probability, where ``arm`` was chosen among equally probable ones; all become active."""
    instead = any_arm(explore, seed, key, active.shape[1])
    if instead >= 0:
        arm, chance = instead, (chance if active[row, instead] else 0.0)
    for k in range(active.shape[1]):
        active[row, k] = True
    return arm, with_floor(explore, chance, active.shape[1])


@in_place
def _flag_reported(tallies: Ints, leaf: int, reported: Bools, row: int) -> None:
    for k in range(tallies.shape[1]):
        reported[row, k] = tallies[leaf, k, REPORTED] == 1


@in_place
def estimate(state: State, x: Floats, means: Floats, radii: Floats) -> None:
    """Means and radii of all arms in the bin of ``x``; nan and inf where nothing is known."""
    leaf, objectives = leaf_of(state.links, x), means.shape[1]
    for k in range(means.shape[0]):
        for m in range(objectives):
            unknown = state.tallies[leaf, k, COUNT + m] == 0
            means[k, m] = np.nan if unknown else state.moments[leaf, k, objectives + m]
            radii[k, m] = state.moments[leaf, k, 2 * objectives + m]


@in_place
def learn(
    size: Ints,
    links: Ints,
    tallies: Ints,
    moments: Floats,
    data: Floats,
    chain: NDArray[np.int32],
    facets: Floats,
    constants: Floats,
    x: Floats,
    arm: int,
    reward: Floats,
) -> None:
    """One observation."""
    leaf, contexts, rewards = leaf_of(links, x), x.reshape((1, x.size)), reward.reshape((1, reward.size))
    _learn(size, links, tallies, moments, data, chain, facets, constants, leaf, contexts, 0, arm, rewards, 0)


@in_place
def _learn(
    size: Ints,
    links: Ints,
    tallies: Ints,
    moments: Floats,
    data: Floats,
    chain: NDArray[np.int32],
    facets: Floats,
    constants: Floats,
    leaf: int,
    contexts: Floats,
    i: int,
    arm: int,
    rewards: Floats,
    r: int,
) -> None:
    """Lines 6 and 9 to 19: context ``i`` and reward ``r`` change the leaf they fall into, and may split it."""
    due = take(size, links, tallies, moments, data, chain, facets, constants, leaf, contexts, i, arm, rewards, r)
    report(links, tallies, moments, facets, leaf)
    if due:
        split(size, links, tallies, moments, data, chain, facets, constants, leaf, contexts.shape[1])


@in_place
def take(
    size: Ints,
    links: Ints,
    tallies: Ints,
    moments: Floats,
    data: Floats,
    chain: NDArray[np.int32],
    facets: Floats,
    constants: Floats,
    leaf: int,
    contexts: Floats,
    i: int,
    arm: int,
    rewards: Floats,
    r: int,
) -> bool:
    """All that an observation changes but what is reported in its leaf; whether the leaf is to be split."""
    sample, dim = size[OBSERVATIONS], contexts.shape[1]
    for m in range(dim):
        data[sample, m] = contexts[i, m]
    for m in range(rewards.shape[1]):
        data[sample, dim + m] = rewards[r, m]
    chain[sample, ARM] = arm
    size[OBSERVATIONS] += 1
    append(links, tallies, moments, data, chain, leaf, sample)
    judge(size, links, tallies, moments, facets, constants, leaf, arm)
    return is_due(size, links, constants, leaf)


@in_place
def judge(
    size: Ints, links: Ints, tallies: Ints, moments: Floats, facets: Floats, constants: Floats, leaf: int, arm: int
) -> None:
    """What follows in a leaf from one more sample of an arm: its estimate, and arms that are eliminated."""
    estimate_arm(links, tallies, moments, facets, constants, leaf, arm)
    if size[OBSERVATIONS] >= constants[WARM_UP]:
        # While round robin lasts nothing is eliminated, so at its end all pairs are new.
        news = -1 if size[OBSERVATIONS] == constants[WARM_UP] else arm
        refine(tallies, moments, facets, constants, leaf, news, size[OBSERVATIONS])


@in_place
def is_due(size: Ints, links: Ints, constants: Floats, leaf: int) -> bool:
    """Line 14, with n the number of contexts in the bin: c_2^2 8K log(KM / delta) / n < c_1^2 V_h^(2 beta)."""
    h = links[leaf, LEVEL]
    due = constants[SPLIT_AT] < links[leaf, SEEN] * constants[BIAS + h] ** 2
    return bool(due and h < DEEPEST and size[OBSERVATIONS] > constants[WARM_UP])


@in_place
def append(
    links: Ints, tallies: Ints, moments: Floats, data: Floats, chain: NDArray[np.int32], leaf: int, sample: int
) -> None:
    """Add a stored sample to a leaf: counts, sums, and the leaf's chain of samples, oldest first."""
    chain[sample, FOLLOWING] = -1
    if links[leaf, FIRST] < 0:
        links[leaf, FIRST] = sample
    else:
        chain[links[leaf, LAST], FOLLOWING] = sample
    links[leaf, LAST] = sample
    links[leaf, SEEN] += 1
    k = chain[sample, ARM]
    objectives = tallies.shape[2] - COUNT
    dim = data.shape[1] - objectives
    for m in range(objectives):
        r = data[sample, dim + m]
        if not np.isnan(r):
            tallies[leaf, k, COUNT + m] += 1
            moments[leaf, k, m] += r


@in_place
def estimate_arm(
    links: Ints, tallies: Ints, moments: Floats, facets: Floats, constants: Floats, node: int, k: int
) -> None:
    """Line 13: mean and radius of one arm, and their images on the facets."""
    rows, objectives = facets.shape
    h = links[node, LEVEL]
    for m in range(objectives):
        n = tallies[node, k, COUNT + m]
        if n == 0:
            moments[node, k, objectives + m] = 0.0
            moments[node, k, 2 * objectives + m] = np.inf
            continue
        log_term = constants[LOG_TERM]
        if constants[SOUND]:  # union over all bins of all levels, and over the number of samples
            log_term += constants[UNION + h] + np.log(n * (n + 1.0))
        moments[node, k, objectives + m] = moments[node, k, m] / n
        moments[node, k, 2 * objectives + m] = constants[BIAS + h] + constants[NOISE] * np.sqrt(log_term / n)
    image, blur, upper = 3 * objectives, 3 * objectives + rows, 3 * objectives + 2 * rows
    for j in range(rows):
        y = spread = lift = 0.0
        for m in range(objectives):
            if facets[j, m] != 0.0:
                y += facets[j, m] * moments[node, k, objectives + m]
                spread += abs(facets[j, m]) * moments[node, k, 2 * objectives + m]
                lift += facets[j, m] * moments[node, k, 2 * objectives + m]
        moments[node, k, image + j] = y
        moments[node, k, blur + j] = spread
        moments[node, k, upper + j] = y + lift


@in_place
def refine(tallies: Ints, moments: Floats, facets: Floats, constants: Floats, node: int, news: int, now: int) -> None:
    """Lines 10 and 11: eliminate arms; ``news`` is the arm whose estimate has changed, -1 for any."""
    if not constants[SOUND]:
        _refine_as_printed(tallies, moments, facets, node, now)
        return
    arms, image = tallies.shape[1], 3 * facets.shape[1]
    blur = image + facets.shape[0]
    for b in range(arms):
        if news < 0 or b == news:  # only pairs with the changed arm can have changed
            for a in range(arms):
                # The first facet tells which of the two, if any, may be surely beaten.
                lead = moments[node, a, image] - moments[node, b, image]
                spread = moments[node, a, blur] + moments[node, b, blur]
                if lead > spread:
                    _eliminate_if_surely_beaten(tallies, moments, facets, node, a, b, now)
                elif -lead > spread:
                    _eliminate_if_surely_beaten(tallies, moments, facets, node, b, a, now)


@in_place
def _eliminate_if_surely_beaten(
    tallies: Ints, moments: Floats, facets: Floats, node: int, a: int, b: int, now: int
) -> None:
    """Drop ``b`` if active ``a`` is above it on every facet by more than both may be off."""
    if a == b or tallies[node, a, ACTIVE] == 0 or tallies[node, b, ACTIVE] == 0:
        return
    rows, objectives = facets.shape
    image, blur, margin = 3 * objectives, 3 * objectives + rows, 3 * objectives + 3 * rows
    for j in range(rows):
        lead = moments[node, a, image + j] - moments[node, b, image + j]
        if not lead > moments[node, a, blur + j] + moments[node, b, blur + j]:
            return
    _eliminate(tallies, node, b, a, now)
    for j in range(rows):
        lead = moments[node, a, image + j] - moments[node, b, image + j]
        moments[node, b, margin + j] = lead - moments[node, a, blur + j] - moments[node, b, blur + j]


@in_place
def _eliminate(tallies: Ints, node: int, k: int, by: int, now: int) -> None:
    tallies[node, k, ACTIVE] = 0
    tallies[node, k, WHEN] = now
    tallies[node, k, BY] = by


@in_place
def _refine_as_printed(tallies: Ints, moments: Floats, facets: Floats, node: int, now: int) -> None:
    """Keep an arm iff its estimate is within 2C, in the order of the cone, of *some* arm on the optimistic front."""
    arms, (rows, objectives) = tallies.shape[1], facets.shape
    for k in range(arms):
        for m in range(objectives):
            if tallies[node, k, ACTIVE] == 1 and tallies[node, k, COUNT + m] == 0:
                return  # an unknown arm is infinitely optimistic, and nothing is far from it
    upper, margin = 3 * objectives + 2 * rows, 3 * objectives + 3 * rows
    # Line 10: arms whose upper bound no other upper bound strongly dominates. Those are within reach of themselves.
    left_out = 0
    for k in range(arms):
        tallies[node, k, OPTIMISTIC] = 0
        if tallies[node, k, ACTIVE] == 1:
            hopeful = not _beaten(tallies, moments, node, k, ACTIVE, upper, rows, True)
            tallies[node, k, OPTIMISTIC] = hopeful
            left_out += not hopeful
    if left_out == 0:
        return
    for k in range(arms):
        if tallies[node, k, ACTIVE] == 0 or tallies[node, k, OPTIMISTIC] == 1:
            continue
        nearest, least = _nearest(tallies, moments, facets, node, k)
        if least < 0.0:
            _eliminate(tallies, node, k, nearest, now)
            for j in range(rows):
                moments[node, k, margin + j] = -_closeness(moments, facets, node, k, nearest, j)


@in_place
def _nearest(tallies: Ints, moments: Floats, facets: Floats, node: int, k: int) -> tuple[int, float]:
    """The arm on the optimistic front that ``k`` is closest to, or the first one within reach, and how close it is."""
    nearest, least = -1, -np.inf
    for other in range(tallies.shape[1]):
        if tallies[node, other, OPTIMISTIC] == 1:
            slack = np.inf
            for j in range(facets.shape[0]):
                slack = min(slack, _closeness(moments, facets, node, k, other, j))
            if slack > least:
                nearest, least = other, slack
            if slack >= 0.0:
                break
    return nearest, least


@in_place
def _closeness(moments: Floats, facets: Floats, node: int, a: int, b: int, j: int) -> float:
    """Facet ``j`` of 2C - |muhat_a - muhat_b|, where 2C is the sum of the two radii."""
    objectives = facets.shape[1]
    value = 0.0
    for m in range(objectives):
        distance = abs(moments[node, a, objectives + m] - moments[node, b, objectives + m])
        both = moments[node, a, 2 * objectives + m] + moments[node, b, 2 * objectives + m]
        value += facets[j, m] * (both - distance)
    return value


@in_place
def _beaten(
    tallies: Ints, moments: Floats, node: int, k: int, among: int, column: int, rows: int, strongly: bool
) -> bool:
    """Whether another arm among those flagged dominates ``k``, comparing ``rows`` columns of the moments."""
    for other in range(tallies.shape[1]):
        if tallies[node, other, among] == 1 and other != k:
            larger = 0
            for j in range(rows):
                lead = moments[node, other, column + j] - moments[node, k, column + j]
                if lead < 0.0:
                    larger = -1
                    break
                larger += lead > 0.0
            if larger == rows or (larger > 0 and not strongly):
                return True
    return False


@in_place
def report(links: Ints, tallies: Ints, moments: Floats, facets: Floats, node: int) -> None:
    """Front of the estimates among active arms; where nothing is known, what the parent reports."""
    arms, (rows, objectives) = tallies.shape[1], facets.shape
    known = 0
    for k in range(arms):
        flag = tallies[node, k, ACTIVE]
        for m in range(objectives):
            if tallies[node, k, COUNT + m] == 0:
                flag = 0
        tallies[node, k, REPORTED] = flag
        known += flag
    if known == 0:
        _report_as_parent(links, tallies, node)
        return
    # Whoever is dominated is so by someone undominated, so clearing flags on the way loses no dominator.
    for k in range(arms):
        if tallies[node, k, REPORTED] == 1 and _beaten(
            tallies, moments, node, k, REPORTED, 3 * objectives, rows, False
        ):
            tallies[node, k, REPORTED] = 0


@in_place
def _report_as_parent(links: Ints, tallies: Ints, node: int) -> None:
    """For a bin without estimates: the arms that its parent reports and that are still active here, or all active."""
    parent = links[node, PARENT]
    found = 0
    for k in range(tallies.shape[1]):
        inherited = 1 if parent < 0 else tallies[parent, k, REPORTED]
        tallies[node, k, REPORTED] = inherited * tallies[node, k, ACTIVE]
        found += tallies[node, k, REPORTED]
    if found == 0:
        for k in range(tallies.shape[1]):
            tallies[node, k, REPORTED] = tallies[node, k, ACTIVE]


@in_place
def split(
    size: Ints,
    links: Ints,
    tallies: Ints,
    moments: Floats,
    data: Floats,
    chain: NDArray[np.int32],
    facets: Floats,
    constants: Floats,
    node: int,
    dim: int,
) -> None:
    """Lines 15 and 16: replace a leaf by its 2^d halves and deal its samples to them, oldest first."""
    start = size[NODES]
    stop = start + (1 << dim)
    size[NODES] = stop
    for new in range(start, stop):
        blank(links, tallies, moments, new, links[node, LEVEL] + 1, node)
        for k in range(tallies.shape[1]):
            tallies[new, k, ACTIVE] = tallies[node, k, ACTIVE]
    links[node, CHILD] = start
    _deal(links, tallies, moments, data, chain, node, dim)
    for new in range(start, stop):
        for k in range(tallies.shape[1]):
            estimate_arm(links, tallies, moments, facets, constants, new, k)
        refine(tallies, moments, facets, constants, new, -1, size[OBSERVATIONS])
        report(links, tallies, moments, facets, new)


@in_place
def _deal(
    links: Ints, tallies: Ints, moments: Floats, data: Floats, chain: NDArray[np.int32], node: int, dim: int
) -> None:
    """Deal the samples of a bin to its parts, oldest first."""
    first, level, sample = links[node, CHILD], links[node, LEVEL], links[node, FIRST]
    links[node, FIRST] = links[node, LAST] = -1
    while sample >= 0:
        following = chain[sample, FOLLOWING]
        append(links, tallies, moments, data, chain, first + part_of(level, data, sample, dim), sample)
        sample = following


@in_place
def blank(links: Ints, tallies: Ints, moments: Floats, node: int, level: int, parent: int) -> None:
    """Make a node an empty leaf in which all arms are active."""
    links[node, LEVEL], links[node, PARENT] = level, parent
    links[node, CHILD] = links[node, FIRST] = links[node, LAST] = -1
    links[node, SEEN] = 0
    for k in range(tallies.shape[1]):
        for i in range(tallies.shape[2]):
            tallies[node, k, i] = 0
        tallies[node, k, ACTIVE] = tallies[node, k, REPORTED] = 1
        tallies[node, k, WHEN] = tallies[node, k, BY] = -1
        for i in range(moments.shape[2]):
            moments[node, k, i] = 0.0
        objectives = tallies.shape[2] - COUNT
        for m in range(objectives):
            moments[node, k, 2 * objectives + m] = np.inf


@in_place
def run(seed: np.uint64, start: int, *arrays: Any) -> int:
    """Decide and observe, round by round, while there is room for a split.

    Not the shared loop: here the leaf of a context is found once for both steps, and no rows are cut out of arrays.
    """
    size, links, tallies, moments, data, chain, facets, constants = arrays[:8]  # the state
    contexts, outcomes, keys, explore, arms, propensities, active, reported = arrays[8:]  # the chunk
    dim, n_arms, warm_up = contexts.shape[1], tallies.shape[1], int(constants[WARM_UP])
    rewards = outcomes.reshape((-1, outcomes.shape[2]))
    for i in range(start, contexts.shape[0]):
        if size[NODES] + (1 << dim) > links.shape[0]:
            return i
        leaf = find_leaf(links, contexts, i, dim)
        arm = choose_in(leaf, i, size, tallies, warm_up, seed, keys, explore, arms, propensities, active, reported)
        r = i * n_arms + arm
        _learn(size, links, tallies, moments, data, chain, facets, constants, leaf, contexts, i, arm, rewards, r)
    return int(contexts.shape[0])
