"""Many rows at once for the tree of :mod:`conebandit.kernels.tree`: a log, learned in its order, and what is merged."""

from __future__ import annotations

from typing import Any

from conebandit.kernels.compile import in_place
from conebandit.kernels.tree import (
    ACTIVE,
    ARM,
    BY,
    CHILD,
    COUNT,
    NODES,
    OBSERVATIONS,
    PARENT,
    SEEN,
    WARM_UP,
    WHEN,
    append,
    estimate_arm,
    find_leaf,
    is_due,
    refine,
    report,
    split,
    take,
)
from conebandit.kernels.types import Floats, Ints


@in_place
def learn_rows(start: int, *arrays: Any) -> int:
    """Observe rows ``start``, ... in their order, while there is room for a split; bit for bit what ``learn`` does.

    What is reported in a leaf follows from the rest of it, so it is found only where somebody will see it: before the
    leaf is split, since children look at it, and at the end. ``touched`` (nodes,) comes as False.
    """
    size, links, tallies, moments, data, chain, facets, constants = arrays[:8]  # the state
    contexts, arms, rewards, touched = arrays[8:]
    n, dim = contexts.shape
    stop = n
    for i in range(start, n):
        if size[NODES] + (1 << dim) > links.shape[0]:
            stop = i
            break
        leaf = find_leaf(links, contexts, i, dim)
        touched[leaf] = True
        if take(size, links, tallies, moments, data, chain, facets, constants, leaf, contexts, i, arms[i], rewards, i):
            report(links, tallies, moments, facets, leaf)
            split(size, links, tallies, moments, data, chain, facets, constants, leaf, dim)
    for leaf in range(size[NODES]):
        if touched[leaf] and links[leaf, CHILD] < 0:
            report(links, tallies, moments, facets, leaf)
    return int(stop)


@in_place
def add_samples(*arrays: Any) -> None:
    """Add samples of another tree to the leaves that they fall into: to counts and sums, not to what follows."""
    size, links, tallies, moments, data, chain, _, _ = arrays[:8]
    samples, arms = arrays[8:]
    dim = data.shape[1] - (tallies.shape[2] - COUNT)
    for i in range(samples.shape[0]):
        sample = size[OBSERVATIONS]
        for j in range(data.shape[1]):
            data[sample, j] = samples[i, j]
        chain[sample, ARM] = arms[i]
        size[OBSERVATIONS] += 1
        append(links, tallies, moments, data, chain, find_leaf(links, data, sample, dim), sample)


@in_place
def split_due(node: int, *state: Any) -> int:
    """Split every leaf from ``node`` on that is due, and its parts; gives the first for which there is no room."""
    size, links, tallies, moments, data, chain, facets, constants = state
    dim = data.shape[1] - (tallies.shape[2] - COUNT)
    while node < size[NODES]:
        if links[node, CHILD] < 0 and is_due(size, links, constants, node):
            if size[NODES] + (1 << dim) > links.shape[0]:
                return node
            split(size, links, tallies, moments, data, chain, facets, constants, node, dim)
        node += 1
    return int(node)


@in_place
def judge_anew(*state: Any) -> None:
    """Let everything but counts and sums of the leaves follow from these, as if all samples had come at once.

    A bin that is split gets the counts and sums of its parts. Then, from the root down, arms are eliminated by what all
    samples in a bin say, and its parts inherit what is left.
    """
    size, links, tallies, moments, _, _, facets, constants = state
    dim = state[4].shape[1] - facets.shape[1]
    for node in range(size[NODES] - 1, -1, -1):  # parts come after what they are parts of
        if links[node, CHILD] >= 0:
            _add_up(links, tallies, moments, node, 1 << dim)
    for node in range(size[NODES]):
        for k in range(tallies.shape[1]):
            parent = links[node, PARENT]
            tallies[node, k, ACTIVE] = 1 if parent < 0 else tallies[parent, k, ACTIVE]
            tallies[node, k, WHEN] = tallies[node, k, BY] = -1
            for i in range(moments.shape[2] - facets.shape[0], moments.shape[2]):
                moments[node, k, i] = 0.0  # margins of eliminations
            estimate_arm(links, tallies, moments, facets, constants, node, k)
        if size[OBSERVATIONS] >= constants[WARM_UP]:
            refine(tallies, moments, facets, constants, node, -1, size[OBSERVATIONS])
        report(links, tallies, moments, facets, node)


@in_place
def _add_up(links: Ints, tallies: Ints, moments: Floats, node: int, children: int) -> None:
    """Replace counts and sums of a bin by those of its parts together."""
    first = links[node, CHILD]
    links[node, SEEN] = 0
    for child in range(first, first + children):
        links[node, SEEN] += links[child, SEEN]
    for k in range(tallies.shape[1]):
        for m in range(tallies.shape[2] - COUNT):
            tallies[node, k, COUNT + m], moments[node, k, m] = 0, 0.0
            for child in range(first, first + children):
                tallies[node, k, COUNT + m] += tallies[child, k, COUNT + m]
                moments[node, k, m] += moments[child, k, m]
