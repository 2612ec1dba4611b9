"""The tree of :mod:`conebandit.kernels.tree` without samples: bins count ahead for the parts they may be split into.

Where samples are kept, a split deals them to the new bins. Here the parts of a bin are there before it is split. They
begin to count when the bin has seen EARLY times as many contexts as it takes to split it, and when it is split they
become bins with what they have counted. Parts have parts of their own by the same rule. So what a bin lacks of the
samples that fell into it is a small share, those from before it began to count, and what it has are all samples from
then on. When it began is decided by contexts alone, so confidence bounds hold as they do for samples that are kept.

The state is that of the other tree without data and chain, and in ``links`` two columns mean something else:

    AHEAD   first of the 2^d parts of a bin that is not split yet, -1 if there are none
    SINCE   how many observations there were when the bin began to count

Parts are rows like those of bins; nothing leads to them from CHILD, so no context is looked up in them. There are never
more rows than ``constants[MOST_NODES]``: where there is no room for its parts, a bin is not split any more.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from conebandit.kernels.compile import in_place
from conebandit.kernels.tree import (
    ACTIVE,
    BIAS,
    CHILD,
    CONSTANTS,
    COUNT,
    DEEPEST,
    FIRST,
    LAST,
    LEVEL,
    NODES,
    OBSERVATIONS,
    SEEN,
    SPLIT_AT,
    WARM_UP,
    blank,
    choose_in,
    estimate_arm,
    find_leaf,
    is_due,
    judge,
    leaf_of,
    part_of,
    refine,
    report,
)
from conebandit.kernels.types import Floats, Ints

AHEAD, SINCE = FIRST, LAST
MOST_NODES = CONSTANTS  # one more constant

EARLY = 1.0 / 16.0
ROWS_PER_CONTEXT = 4  # parts that a bin may have at most for each context that it has seen; many coordinates make many


class State(NamedTuple):
    """The arrays; longer than what is in use."""

    size: Ints
    links: Ints
    tallies: Ints
    moments: Floats
    facets: Floats
    constants: Floats


@in_place
def learn(
    size: Ints,
    links: Ints,
    tallies: Ints,
    moments: Floats,
    facets: Floats,
    constants: Floats,
    x: Floats,
    arm: int,
    reward: Floats,
) -> None:
    """One observation."""
    leaf, contexts, rewards = leaf_of(links, x), x.reshape((1, x.size)), reward.reshape((1, reward.size))
    _learn(size, links, tallies, moments, facets, constants, leaf, contexts, 0, arm, rewards, 0)


@in_place
def _learn(
    size: Ints,
    links: Ints,
    tallies: Ints,
    moments: Floats,
    facets: Floats,
    constants: Floats,
    leaf: int,
    contexts: Floats,
    i: int,
    arm: int,
    rewards: Floats,
    r: int,
) -> None:
    """As where samples are kept: context ``i`` and reward ``r`` change the leaf they fall into, and may split it."""
    size[OBSERVATIONS] += 1
    _count(links, tallies, moments, leaf, arm, rewards, r)
    judge(size, links, tallies, moments, facets, constants, leaf, arm)
    report(links, tallies, moments, facets, leaf)
    _count_ahead(size, links, tallies, moments, constants, leaf, contexts, i, arm, rewards, r)
    if links[leaf, AHEAD] >= 0 and is_due(size, links, constants, leaf):
        _split(size, links, tallies, moments, facets, constants, leaf, 1 << contexts.shape[1])


@in_place
def _count(links: Ints, tallies: Ints, moments: Floats, node: int, k: int, rewards: Floats, r: int) -> None:
    """Add a sample to the counts and sums of a bin."""
    links[node, SEEN] += 1
    for m in range(rewards.shape[1]):
        if not np.isnan(rewards[r, m]):
            tallies[node, k, COUNT + m] += 1
            moments[node, k, m] += rewards[r, m]


@in_place
def _count_ahead(
    size: Ints,
    links: Ints,
    tallies: Ints,
    moments: Floats,
    constants: Floats,
    node: int,
    contexts: Floats,
    i: int,
    k: int,
    rewards: Floats,
    r: int,
) -> None:
    """Add a sample to the parts below a leaf that it falls into; the last of them may get parts of its own."""
    dim, rows = contexts.shape[1], size[NODES]
    while size[NODES] == rows:  # room is made for the parts of one bin
        if links[node, AHEAD] < 0 and not _prepared(size, links, tallies, moments, constants, node, 1 << dim):
            return
        node = links[node, AHEAD] + part_of(links[node, LEVEL], contexts, i, dim)
        _count(links, tallies, moments, node, k, rewards, r)


@in_place
def _prepared(
    size: Ints, links: Ints, tallies: Ints, moments: Floats, constants: Floats, node: int, parts: int
) -> bool:
    """Give a bin its parts if it is time, and if there is room; whether it has them."""
    h, start = links[node, LEVEL], size[NODES]
    early = EARLY * constants[SPLIT_AT] < links[node, SEEN] * constants[BIAS + h] ** 2
    early = early and parts <= ROWS_PER_CONTEXT * links[node, SEEN]
    if not early or h >= DEEPEST or start + parts > constants[MOST_NODES]:
        return False
    for new in range(start, start + parts):
        blank(links, tallies, moments, new, h + 1, node)
        links[new, SINCE] = size[OBSERVATIONS] - 1  # the one that is being counted is the first
    links[node, AHEAD] = start
    size[NODES] = start + parts
    return True


@in_place
def _split(
    size: Ints, links: Ints, tallies: Ints, moments: Floats, facets: Floats, constants: Floats, node: int, parts: int
) -> None:
    """Let the parts of a leaf take its place, with what they have counted, and the arms that are active in it."""
    start = links[node, AHEAD]
    links[node, CHILD], links[node, AHEAD] = start, -1
    for new in range(start, start + parts):
        for k in range(tallies.shape[1]):
            tallies[new, k, ACTIVE] = tallies[node, k, ACTIVE]
            estimate_arm(links, tallies, moments, facets, constants, new, k)
        refine(tallies, moments, facets, constants, new, -1, size[OBSERVATIONS])
        report(links, tallies, moments, facets, new)


@in_place
def run(seed: np.uint64, start: int, *arrays: Any) -> int:
    """Decide and observe, round by round, while there is room for the parts of one bin."""
    size, links, tallies, moments, facets, constants = arrays[:6]  # the state
    contexts, outcomes, keys, explore, arms, propensities, active, reported = arrays[6:]  # the chunk
    dim, n_arms, warm_up = contexts.shape[1], tallies.shape[1], int(constants[WARM_UP])
    rewards = outcomes.reshape((-1, outcomes.shape[2]))
    for i in range(start, contexts.shape[0]):
        if size[NODES] + (1 << dim) > links.shape[0]:
            return i
        leaf = find_leaf(links, contexts, i, dim)
        arm = choose_in(leaf, i, size, tallies, warm_up, seed, keys, explore, arms, propensities, active, reported)
        _learn(size, links, tallies, moments, facets, constants, leaf, contexts, i, arm, rewards, i * n_arms + arm)
    return int(contexts.shape[0])


@in_place
def learn_rows(start: int, *arrays: Any) -> int:
    """Observe rows ``start``, ... of a log one after the other, while there is room for the parts of one bin."""
    size, links, tallies, moments, facets, constants = arrays[:6]  # the state
    contexts, arms, rewards = arrays[6:]
    dim = contexts.shape[1]
    for i in range(start, contexts.shape[0]):
        if size[NODES] + (1 << dim) > links.shape[0]:
            return i
        leaf = find_leaf(links, contexts, i, dim)
        _learn(size, links, tallies, moments, facets, constants, leaf, contexts, i, arms[i], rewards, i)
    return int(contexts.shape[0])
