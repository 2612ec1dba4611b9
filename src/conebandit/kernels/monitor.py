"""Watching contexts for a shift: exact ranks against a reference, and bets against their uniformity.

A *stream* turns every context into one number u that is uniform, and independent of the stream's past, as long as the
contexts are independent draws from one law, whatever law that is. Streams 0, ..., d - 1 look at one coordinate each;
with d > 1 stream d looks at all of them together. A stream is a binary tree whose 2^k - 1 inner nodes are the reference
contexts: each cuts what its node covers at its own value of one coordinate (the joint stream takes the coordinates in
turn). The masses of the 2^k leaves then have the Dirichlet law with all parameters 1 (statistically equivalent blocks,
Tukey 1947), so the next context falls into leaf j with probability (1 + c_j) / (2^k + n) after n contexts of which c_j
fell there. Placing u at random within its leaf's share makes it exactly uniform. Equal values are ordered by a random
number of their own.

A *bet* is a density on [0, 1]; its wealth is multiplied by the density at u. Every round some fresh wealth, a share of
one unit in total, joins each bet (the rest is kept in cash), so that a change at any time finds wealth that is not yet
lost. The wealth of a stream has mean at most 1 at any stopping time, and exceeds 1 / alpha ever with probability at
most alpha (Ville 1939; for bets on ranks Vovk, Gammerman & Shafer 2005, for fresh wealth Shin, Ramdas & Rinaldo 2022).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from conebandit.kernels.compile import in_place
from conebandit.kernels.rng import uniform

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

SEEN, ALARM, STREAM, CHANGE = 0, 1, 2, 3  # places in ``size``: contexts seen; -1 while there is no alarm
WEALTH, GAIN, BEGIN = 0, 1, 2  # places in the last axis of ``bets``
VALUE, TIE = 0, 1  # places in the last axis of ``cuts``

GRID = 1024  # cells in which fixed densities are constant
BINS = 16  # of the densities that follow what was seen lately
MEMORY = (32.0, 256.0)  # over how many contexts they average
TRUST = 0.8  # share of such a density that is what was seen; the rest is uniform
PATIENCE = 256.0  # fresh wealth comes at first evenly over about this many contexts, then ever more slowly
RICHEST = 1e200  # wealth is cut off here, so that it never overflows


class State(NamedTuple):
    """The arrays of a monitor with S streams, R reference contexts and B bets.

    size (4,); cuts (S, R, 2), of the nodes in heap order; lefts (S, R), contexts since the reference that went left
    there; bets (S, B, 3); lately (S, memories, BINS), shares of recent contexts; table (GRID, fixed bets);
    rows (R + window, d), the reference and a ring of the last contexts; limit (1,), wealth for an alarm.
    """

    size: Ints
    cuts: Floats
    lefts: Ints
    bets: Floats
    lately: Floats
    table: Floats
    rows: Floats
    limit: Floats


@in_place
def tie_breaker(seed: np.uint64, seen: int, column: int, dim: int) -> float:
    """The random number that belongs to a coordinate (``column < d``) or stream (``d + stream``) of a context."""
    return uniform(seed, np.uint64(seen) * np.uint64(2 * dim + 1) + np.uint64(column))


@in_place
def watch(
    size: Ints,
    cuts: Floats,
    lefts: Ints,
    bets: Floats,
    lately: Floats,
    table: Floats,
    rows: Floats,
    limit: Floats,
    seed: np.uint64,
    contexts: Floats,
) -> int:
    """Feed contexts (n, d) to a monitor that has its reference.

    Gives 1 if there is or was an alarm and 0 if not; -1 - i if context i is not finite (those before it were fed).
    """
    n, dim = contexts.shape
    reference = cuts.shape[1]
    window = rows.shape[0] - reference
    for i in range(n):
        for m in range(dim):
            if not np.isfinite(contexts[i, m]):
                return -1 - int(i)
        seen = size[SEEN]
        for m in range(dim):
            rows[reference + seen % window, m] = contexts[i, m]
        t = float(seen - reference)
        cash = np.log(PATIENCE) / np.log(PATIENCE + t + 1.0)
        fresh = np.log(PATIENCE) / np.log(PATIENCE + t) - cash
        for s in range(cuts.shape[0]):
            u = _rank(cuts, lefts, seed, seen, contexts, i, s)
            wealth = cash + _bet(bets, lately, table, s, u, fresh, seen)
            if wealth >= limit[0] and size[ALARM] < 0:
                size[ALARM], size[STREAM], size[CHANGE] = seen + 1, s, _began(bets, s)
        size[SEEN] = seen + 1
    return int(size[ALARM] >= 0)


@in_place
def _rank(cuts: Floats, lefts: Ints, seed: np.uint64, seen: int, contexts: Floats, i: int, s: int) -> float:
    """Where a context stands among all before it, in the order of a stream's leaves; adds it to the counts."""
    dim, reference = contexts.shape[1], cuts.shape[1]
    total = seen + 1  # 2^k leaves that count one each, and the contexts since the reference
    below, share, half = 0, total, (reference + 1) // 2
    node, depth = 0, 0
    while node < reference:
        axis = s if s < dim else depth % dim
        x, cut = contexts[i, axis], cuts[s, node, VALUE]
        right = x > cut
        if x == cut:
            right = tie_breaker(seed, seen, axis, dim) >= cuts[s, node, TIE]
        left = half + lefts[s, node]
        lefts[s, node] += not right
        below += left if right else 0
        share = share - left if right else left
        node = 2 * node + 1 + right
        half //= 2
        depth += 1
    return float((below + tie_breaker(seed, seen, dim + s, dim) * share) / total)


@in_place
def _bet(bets: Floats, lately: Floats, table: Floats, s: int, u: float, fresh: float, seen: int) -> float:
    """Settle the bets of a stream on u; their average wealth."""
    fixed = table.shape[1]
    cell, bin_ = min(int(u * GRID), GRID - 1), min(int(u * BINS), BINS - 1)  # u may be rounded to 1
    total = 0.0
    for b in range(bets.shape[1]):
        density = table[cell, b] if b < fixed else 1.0 - TRUST + TRUST * BINS * lately[s, b - fixed, bin_]
        wealth = min((bets[s, b, WEALTH] + fresh) * density, RICHEST)
        bets[s, b, WEALTH] = wealth
        total += wealth
        # The best moment to have begun is where the product of gains was last at its lowest.
        if bets[s, b, GAIN] <= 1.0:
            bets[s, b, GAIN] = 1.0
            bets[s, b, BEGIN] = seen
        bets[s, b, GAIN] = min(bets[s, b, GAIN] * density, RICHEST)
    for a in range(lately.shape[1]):
        rate = 1.0 / MEMORY[a]
        for j in range(BINS):
            lately[s, a, j] *= 1.0 - rate
        lately[s, a, bin_] += rate
    return float(total / bets.shape[1])


@in_place
def _began(bets: Floats, s: int) -> int:
    """How many contexts came before the change, by the richest bet of a stream."""
    best = 0
    for b in range(bets.shape[1]):
        if bets[s, b, WEALTH] > bets[s, best, WEALTH]:
            best = b
    return int(bets[s, best, BEGIN])
