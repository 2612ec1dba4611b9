"""Watching contexts for a shift: exact ranks among all contexts so far, and bets against their uniformity.

A *stream* looks at each context and says between which earlier ones it falls: a share [low, high] of [0, 1]. Streams
0, ..., d - 1 look at one coordinate each. With d > 1 there are three more: the *level* of a context (is it high in
many coordinates, or low in many?), its *spread* (is it far out in many?), and all coordinates together.

A stream is a binary tree whose nodes are contexts; each cuts what its node covers at its own value of one column (the
last stream takes the coordinates in turn). The reference is planted as a balanced tree. From then on the first context
that falls into a leaf cuts it in two, down to a certain depth; contexts at that depth are only counted. Say that a
leaf has one unit of mass, and one more for each context that it holds but that did not cut it. Then the masses of the
leaves have, whatever the law of the contexts, the Dirichlet law with these parameters. For a single leaf that is
trivial; a context that falls into a leaf adds one to its parameter; and one that cuts a leaf splits its mass, which
had parameter 1 before and 2 with it, at a uniform place, so that both parts have parameter 1 (statistically equivalent
blocks, Tukey 1947). Thus the next context falls into a leaf of m units, of n in total, with probability exactly m / n,
independently of the stream's past. Equal values are ordered by a random number of their own.

Level and spread are functions of the ranks of the coordinates among the first half of the reference alone, so the
contexts after it are independent draws of them from one law; their trees hold only those.

A *bet* is a density on [0, 1]; its wealth is multiplied by the mean of the density over [low, high]. Every round some
fresh wealth, a share of one unit in total, joins each bet (the rest is kept in cash), so that a change at any time
finds wealth that is not yet lost. The wealth of a stream has mean at most 1 at any stopping time of its own, and
exceeds S / alpha ever with probability at most alpha / S (Ville 1939; for bets on ranks Vovk, Gammerman & Shafer 2005,
for fresh wealth Shin, Ramdas & Rinaldo 2022); so the first of S streams to do so gives an alarm. (Their average would
not do: the ranks of a stream are independent of its own past, but not of that of the others, which may tell something
about the masses of its leaves; see Choe & Ramdas 2024 on evidence across filtrations.) Wealth beyond S / alpha is of no
use, so where a bet could win more, its density is cut off and what that saves is spread evenly.
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
WEALTH, GAIN, BEGIN, ODDS = 0, 1, 2, 3  # rows of ``bets`` in each stream; odds are those of the last round
VALUE, TIE, LEFT = 0, 1, 2  # places in the last axis of ``nodes``

GROWTH = 2  # levels by which trees grow beyond the reference

LOW, HIGH, OUT, IN = 0, 1, 2, 3  # where a bet expects ranks: near 0, near 1, near either, near 1/2
SIDES = (LOW, LOW, LOW, LOW, HIGH, HIGH, HIGH, HIGH, OUT, IN)  # of the fixed bets
POWERS = (0.25, 0.5, 0.75, 2.0, 0.25, 0.5, 0.75, 2.0, 0.5, 0.5)  # k: density k v^(k - 1) of the distance v from there
FIXED = len(POWERS)
BINS = 12  # of the densities that follow what was seen lately
MEMORY = (32.0, 256.0)  # over how many contexts they average
TRUST = 0.9  # share of such a density that is what was seen; the rest is uniform
# Of the fresh wealth, by bet: fixed ones, then those with a memory. The bolder a bet, the sooner it loses wealth when
# nothing happens, and the more it needs for a change to find as much in it as in others.
SHARES = tuple(share / 19.0 for share in (4.0, 2.0, 1.0, 1.0, 4.0, 2.0, 1.0, 1.0, 1.0, 1.0, 0.5, 0.5))
PATIENCE = 1024.0  # fresh wealth comes at first evenly over about this many contexts, then ever more slowly
RICHEST = 1e200  # wealth is cut off here, so that it never overflows
LONG_SHOT = 1e4  # a bet is not cut off at higher odds than this


class State(NamedTuple):
    """The arrays of a monitor with S streams over C columns, R reference contexts and B bets.

    size (4,); nodes (S, N, 3), in heap order: the cut, and the units of mass to its left, 0 where there is no cut yet;
    bets (S, 4, B); lately (S, memories, BINS + 1), share of recent contexts below the edges of the bins;
    ordered (d, (R + 1) / 2), the first half of the reference, sorted; logs (R + 3,), log(j / (R + 3)) for j > 0;
    rows (R + window, d), the reference and a ring of the last contexts; columns (C,), room for what the streams look
    at: coordinates, level, spread; limit (1,), wealth of a stream for an alarm.
    """

    size: Ints
    nodes: Floats
    bets: Floats
    lately: Floats
    ordered: Floats
    logs: Floats
    rows: Floats
    columns: Floats
    limit: Floats


@in_place
def tie_breaker(seed: np.uint64, seen: int, column: int, n_columns: int) -> float:
    """The random number that belongs to a column of a context."""
    return uniform(seed, np.uint64(seen) * np.uint64(n_columns) + np.uint64(column))


@in_place
def cash_after(t: float) -> float:
    """What is left of a unit of wealth when fresh wealth has come t times."""
    root = np.sqrt(PATIENCE / (PATIENCE + t))
    return float(root * np.sqrt(root))


@in_place
def watch(
    size: Ints,
    nodes: Floats,
    bets: Floats,
    lately: Floats,
    ordered: Floats,
    logs: Floats,
    rows: Floats,
    columns: Floats,
    limit: Floats,
    seed: np.uint64,
    contexts: Floats,
) -> int:
    """Feed contexts (n, d) to a monitor that has its reference.

    Gives 1 if there is or was an alarm and 0 if not; -1 - i if context i is not finite (those before it were fed).
    """
    n, dim = contexts.shape
    reference = 2 * ordered.shape[1] - 1
    window = rows.shape[0] - reference
    for i in range(n):
        for m in range(dim):
            if not np.isfinite(contexts[i, m]):
                return -1 - int(i)
        seen = size[SEEN]
        for m in range(dim):
            rows[reference + seen % window, m] = contexts[i, m]
        look(ordered, logs, contexts, i, columns)
        cash = cash_after(float(seen - reference + 1))
        fresh = cash_after(float(seen - reference)) - cash
        ceiling = limit[0] if size[ALARM] < 0 else np.inf
        most, richest = 0.0, 0
        for s in range(nodes.shape[0]):
            low, high = _rank(nodes, columns, ordered, seed, seen, s)
            wealth = cash + _bet(bets, lately, s, low, high, fresh, ceiling, seen)
            if wealth > most:
                most, richest = wealth, s
        size[SEEN] = seen + 1
        if most >= limit[0] and size[ALARM] < 0:
            size[ALARM], size[STREAM], size[CHANGE] = seen + 1, richest, _began(bets, richest)
    return int(size[ALARM] >= 0)


@in_place
def look(ordered: Floats, logs: Floats, contexts: Floats, i: int, columns: Floats) -> None:
    """What streams look at in context i: its coordinates and, if there are several, its level and spread.

    With u the rank of a coordinate, in the middle of equal ones, among the first half of the reference: sums over the
    coordinates of log(u / (1 - u)) and of -log(min(u, 1 - u)), as in Fisher's way to combine tests.
    """
    dim, n = ordered.shape
    level = spread = 0.0
    for m in range(dim):
        x = contexts[i, m]
        columns[m] = x
        if dim > 1:
            below = upto = _below(ordered, m, x, False)
            if below < n and ordered[m, below] == x:
                upto = _below(ordered, m, x, True)
            log_u, log_rest = logs[below + upto + 1], logs[2 * n + 1 - below - upto]
            level += log_u - log_rest
            spread -= min(log_u, log_rest)
    if dim > 1:
        columns[dim], columns[dim + 1] = level, spread


@in_place
def _below(ordered: Floats, m: int, x: float, equal: bool) -> int:
    """How many of the sorted values, a power of two of them, are less than x (or equal to it, if those count)."""
    below, bit = 0, 0
    while (2 << bit) <= ordered.shape[1]:
        bit += 1
    while bit > 0:
        bit -= 1
        value = ordered[m, below + (1 << bit) - 1]
        # Shifted, not chosen: a branch would be guessed wrong every other time.
        below += int(np.int64((value < x) | (equal & (value == x))) << bit)
    value = ordered[m, below]
    return int(below + ((value < x) | (equal & (value == x))))


@in_place
def _rank(nodes: Floats, columns: Floats, ordered: Floats, seed: np.uint64, seen: int, s: int) -> tuple[float, float]:
    """Where a context stands among those before it, in the order of a stream's leaves; adds it to the tree."""
    n_columns, dim = columns.size, ordered.shape[0]
    units = seen + 1.0  # one for each context in the tree, and one
    if dim <= s < n_columns:
        units -= ordered.shape[1]
    below, share = 0.0, units
    node, depth = 0, 0
    while node < nodes.shape[1]:
        c = s if s < n_columns else depth % dim
        x, left = columns[c], nodes[s, node, LEFT]
        if left == 0.0:
            nodes[s, node, VALUE], nodes[s, node, TIE] = x, tie_breaker(seed, seen, c, n_columns)
            nodes[s, node, LEFT] = 1.0
            break
        right = x > nodes[s, node, VALUE]
        if x == nodes[s, node, VALUE]:
            right = tie_breaker(seed, seen, c, n_columns) >= nodes[s, node, TIE]
        nodes[s, node, LEFT] += not right
        below += left if right else 0.0
        share = share - left if right else left
        node = 2 * node + 1 + right
        depth += 1
    return below / units, (below + share) / units


@in_place
def _bet(
    bets: Floats, lately: Floats, s: int, low: float, high: float, fresh: float, ceiling: float, seen: int
) -> float:
    """Settle the bets of a stream on a rank between low and high; the sum of their wealth."""
    _fixed_odds(bets, s, low, high)
    _recent_odds(bets, lately, s, low, high)
    staked = 0.0
    for b in range(bets.shape[2]):
        bets[s, WEALTH, b] += fresh * SHARES[b]
        staked += bets[s, WEALTH, b]
    if staked * LONG_SHOT > ceiling:
        for b in range(FIXED):
            most = ceiling / bets[s, WEALTH, b]
            if POWERS[b] < 1.0 and most < LONG_SHOT:
                bets[s, ODDS, b] = cut_off_odds(SIDES[b], POWERS[b], low, high, most)
    total = 0.0
    for b in range(bets.shape[2]):
        odds = bets[s, ODDS, b]
        bets[s, WEALTH, b] = min(bets[s, WEALTH, b] * odds, RICHEST)
        total += bets[s, WEALTH, b]
        # The best moment to have begun is where the product of gains was last at its lowest.
        gain = bets[s, GAIN, b]
        bets[s, BEGIN, b] = seen if gain <= 1.0 else bets[s, BEGIN, b]
        bets[s, GAIN, b] = min(max(gain, 1.0) * odds, RICHEST)
    return total


@in_place
def _fixed_odds(bets: Floats, s: int, low: float, high: float) -> None:
    """Means of the densities of the fixed bets between low and high: ``cut_off_odds`` without bounds, but fast."""
    scale = 1.0 / (high - low)
    for side in (LOW, HIGH):
        near, far = (low, high) if side == LOW else (1.0 - high, 1.0 - low)
        near_root, far_root = np.sqrt(near), np.sqrt(far)
        near_fourth, far_fourth = np.sqrt(near_root), np.sqrt(far_root)
        bets[s, ODDS, 4 * side] = scale * (far_fourth - near_fourth)
        bets[s, ODDS, 4 * side + 1] = scale * (far_root - near_root)
        bets[s, ODDS, 4 * side + 2] = scale * (far_root * far_fourth - near_root * near_fourth)
        bets[s, ODDS, 4 * side + 3] = scale * (far * far - near * near)
    out_low, out_high = np.sqrt(2.0 * min(low, 1.0 - low)), np.sqrt(2.0 * min(high, 1.0 - high))
    in_low, in_high = np.sqrt(abs(2.0 * low - 1.0)), np.sqrt(abs(2.0 * high - 1.0))
    if high <= 0.5:
        out_mass, in_mass = out_high - out_low, in_low - in_high
    elif low >= 0.5:
        out_mass, in_mass = out_low - out_high, in_high - in_low
    else:
        out_mass, in_mass = 2.0 - out_low - out_high, in_low + in_high
    bets[s, ODDS, FIXED - 2], bets[s, ODDS, FIXED - 1] = 0.5 * scale * out_mass, 0.5 * scale * in_mass


@in_place
def cut_off_odds(side: int, power: float, low: float, high: float, most: float) -> float:
    """The mean between low and high of a density k v^(k - 1), k < 1, that is cut off at ``most``.

    v is the distance from a side. What the cut saves is spread evenly over [0, 1].
    """
    edge = (most / power) ** (1.0 / (power - 1.0))
    saved = edge**power - most * edge
    mass = _mass(side, power, high, most, edge, saved) - _mass(side, power, low, most, edge, saved)
    return float(mass / (high - low) + saved)


@in_place
def _mass(side: int, power: float, u: float, most: float, edge: float, saved: float) -> float:
    """What a density that is cut off has below u, up to a constant."""
    v = u
    if side == HIGH:
        v = 1.0 - u
    elif side == OUT:
        v = 2.0 * min(u, 1.0 - u)
    elif side == IN:
        v = abs(2.0 * u - 1.0)
    mass = most * v if v < edge else v**power - saved
    if side == LOW:
        return mass
    if side == HIGH:
        return -mass
    whole = 1.0 - saved  # of the distances on one side of 1/2
    if side == OUT:
        return 0.5 * mass if u < 0.5 else whole - 0.5 * mass
    return -0.5 * mass if u < 0.5 else 0.5 * mass


@in_place
def _recent_odds(bets: Floats, lately: Floats, s: int, low: float, high: float) -> None:
    """Means of the densities that follow what was seen lately; and what was seen now joins them."""
    scale = 1.0 / (high - low)
    for a in range(lately.shape[1]):
        seen_lately = _share_below(lately, s, a, high) - _share_below(lately, s, a, low)
        bets[s, ODDS, FIXED + a] = 1.0 - TRUST + TRUST * scale * seen_lately
        rate = 1.0 / MEMORY[a]
        for j in range(1, BINS):
            inside = min(max((j * (1.0 / BINS) - low) * scale, 0.0), 1.0)
            lately[s, a, j] += rate * (inside - lately[s, a, j])


@in_place
def _share_below(lately: Floats, s: int, a: int, u: float) -> float:
    """Share of recent contexts with ranks below u."""
    j = min(int(u * BINS), BINS - 1)
    return float(lately[s, a, j] + (u * BINS - j) * (lately[s, a, j + 1] - lately[s, a, j]))


@in_place
def _began(bets: Floats, s: int) -> int:
    """How many contexts came before the change, by the richest bet of a stream."""
    best = 0
    for b in range(bets.shape[2]):
        if bets[s, WEALTH, b] > bets[s, WEALTH, best]:
            best = b
    return int(bets[s, BEGIN, best])
