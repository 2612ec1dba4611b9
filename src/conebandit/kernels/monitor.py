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

# Places in ``size``: contexts seen and the alarm, -1 while there is none; what never changes; a node for each stream.
SEEN, ALARM, STREAM, CHANGE, DIM, REFERENCE, WINDOW, DEPTH, PATIENCE, SEED, LANES, NODES = range(12)
WEALTH, GAIN, BEGIN, ODDS = 0, 1, 2, 3  # rows of ``bets`` in each stream; odds are those of the last round
VALUE, TIE, LEFT = 0, 1, 2  # places in the last axis of ``nodes``


LOW, HIGH, OUT, IN = 0, 1, 2, 3  # where a bet expects ranks: near 0, near 1, near either, near 1/2
SIDES = (LOW, LOW, LOW, LOW, HIGH, HIGH, HIGH, HIGH, OUT, IN)  # of the fixed bets
POWERS = (0.25, 0.5, 0.75, 2.0, 0.25, 0.5, 0.75, 2.0, 0.5, 0.5)  # k: density k v^(k - 1) of the distance v from there
FIXED = len(POWERS)
BINS = 12  # of the densities that follow what was seen lately
MEMORY = (32.0, 256.0)  # over how many contexts they average
TRUST = 0.9  # share of such a density that is what was seen; the rest is uniform
# Of the fresh wealth, by bet: fixed ones, then those with a memory. The bolder a bet, the sooner it loses wealth when
# nothing happens, and the more it needs for a change to find as much in it as in others.
SHARES = np.array([4.0, 2.0, 1.0, 1.0, 4.0, 2.0, 1.0, 1.0, 1.0, 1.0, 0.5, 0.5]) / 19.0
MAX_WEALTH = 1e200  # of a bet, so that it never overflows
MAX_ODDS = 1e4  # a bet is not cut off at higher odds than this

# Four streams, each in its *lane*, are a *group*; the last group may have empty lanes. Each row of a group has a number
# of every lane, so that one instruction does the same for all four: bets, what was seen lately, and room to work.
LANE = 4
BETS, EDGES = FIXED + len(MEMORY), BINS + 1
LATELY = 4 * BETS
LOWS = LATELY + len(MEMORY) * EDGES  # the rank of the context, from low to high
HIGHS, TOTAL, INSIDE = LOWS + 1, LOWS + 2, LOWS + 3
ROWS = INSIDE + EDGES
ONE = np.uint64(1)
MANY = 1e300  # more than all contexts


class State(NamedTuple):
    """The arrays of a monitor with S streams over C columns, R reference contexts and B bets.

    size (4,); nodes (S, N, 3), in heap order: the cut, and the units of mass to its left, 0 where there is no cut yet;
    bets (S, 4, B); lately (S, memories, BINS + 1), share of recent contexts below the edges of the bins;
    ordered (d, (R + 1) / 2), the first half of the reference, sorted; logs (R + 3,), log(j / (R + 3)) for j > 0;
    rows (R + window, d), the reference and a ring of the last contexts; columns (C,), what the streams look at:
    coordinates, level, spread; limit (1,), wealth of a stream for an alarm.
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


class Places(NamedTuple):
    """Where the arrays begin in ``room``, which holds them all: each that is passed to a kernel costs time."""

    columns: int  # (S,), what the streams look at; the last one at each coordinate in turn
    breakers: int  # (S,), the random numbers that order equal values of these
    lows: int  # (S,), units of mass below the leaf of the context, and with it
    highs: int
    groups: int  # (groups, ROWS, LANE)
    logs: int
    ordered: int
    values: int  # (S, N), ties and lefts alike
    ties: int
    lefts: int
    rows: int
    end: int
    n_streams: int
    n_nodes: int


@in_place
def places(dim: int, reference: int, window: int, depth: int) -> Places:
    """The places for a monitor with these options; trees have at most ``depth`` levels."""
    n_streams, n_nodes = dim + 3 if dim > 1 else 1, 2**depth - 1
    columns = 1  # after the limit
    breakers = columns + n_streams
    lows = breakers + n_streams
    highs = lows + n_streams
    groups = highs + n_streams
    logs = groups + (n_streams + LANE - 1) // LANE * ROWS * LANE
    ordered = logs + reference + 3
    values = ordered + dim * ((reference + 1) // 2)
    ties = values + n_streams * n_nodes
    lefts = ties + n_streams * n_nodes
    rows = lefts + n_streams * n_nodes
    end = rows + (reference + window) * dim
    return Places(
        columns, breakers, lows, highs, groups, logs, ordered, values, ties, lefts, rows, end, n_streams, n_nodes
    )


def arrays(size: Ints, room: Floats) -> State:
    """The arrays of a monitor, where they are in the two that kernels get; but those of bets are copies."""
    dim, reference, window, depth = (int(size[i]) for i in (DIM, REFERENCE, WINDOW, DEPTH))
    at = places(dim, reference, window, depth)
    streams = np.array(_streams(room, at))
    return State(
        size=size[:DIM],
        nodes=room[at.values : at.rows].reshape(3, at.n_streams, -1).transpose(1, 2, 0),
        bets=streams[:, :LATELY].reshape(-1, 4, BETS),
        lately=streams[:, LATELY:LOWS].reshape(-1, len(MEMORY), EDGES),
        ordered=room[at.ordered : at.values].reshape(dim, -1),
        logs=room[at.logs : at.ordered],
        rows=room[at.rows :].reshape(-1, dim),
        columns=room[at.columns :][: dim + 2 if dim > 1 else 1],
        limit=room[:1],
    )


def put_bets(room: Floats, at: Places, bets: Floats, lately: Floats) -> None:
    """Write the bets of all streams."""
    for stream, its_bets, its_lately in zip(_streams(room, at), bets, lately, strict=True):
        stream[:LATELY], stream[LATELY:LOWS] = its_bets.ravel(), its_lately.ravel()


def _streams(room: Floats, at: Places) -> list[Floats]:
    """The part of each stream in its group."""
    lanes = groups(room, at)
    return [lanes[s // LANE, :, s % LANE] for s in range(at.n_streams)]


def groups(room: Floats, at: Places) -> Floats:
    """The groups, (groups, ROWS, LANE)."""
    return room[at.groups : at.logs].reshape(-1, ROWS, LANE)


def wealth(room: Floats, at: Places) -> Floats:
    """Wealth of all bets, (S, B)."""
    return groups(room, at)[:, WEALTH * BETS : GAIN * BETS].transpose(0, 2, 1).reshape(-1, BETS)[: at.n_streams]


@in_place
def tie_breaker(seed: np.uint64, seen: int, column: int, n_columns: int) -> float:
    """The random number that belongs to a column of a context."""
    return uniform(seed, np.uint64(seen) * np.uint64(n_columns) + np.uint64(column))


@in_place
def cash_after(t: float, patience: float) -> float:
    """What is left of a unit of wealth after fresh wealth was added t times.

    It comes at first evenly over about ``patience`` rows, then ever more slowly.
    """
    root = np.sqrt(patience / (patience + t))
    return float(root * np.sqrt(root))


@in_place
def watch(size: Ints, room: Floats, contexts: Floats) -> int:
    """Feed contexts, one after the other in a flat array, to a monitor that has its reference.

    Gives 1 if there is or was an alarm and 0 if not; -1 - i if context i is not finite (those before it were fed).
    """
    dim, reference, window = size[DIM], size[REFERENCE], size[WINDOW]
    at = places(dim, reference, window, size[DEPTH])
    for i in range(contexts.size // dim):
        x = contexts[i * dim : (i + 1) * dim]
        for m in range(dim):
            if not np.isfinite(x[m]):
                return -1 - int(i)
        row = at.rows + (reference + size[SEEN] % window) * dim
        for m in range(dim):
            room[row + m] = x[m]
        fill_columns(room, at, x)
        n_columns = dim + 2 if dim > 1 else 1
        for c in range(n_columns):
            room[at.breakers + c] = tie_breaker(np.uint64(size[SEED]), size[SEEN], c, n_columns)
        rank(size, room, at)
        settle(size, room, at)
        size[SEEN] += 1
    return int(size[ALARM] >= 0)


@in_place
def fill_columns(room: Floats, at: Places, x: Floats) -> None:
    """What streams look at in a context: its coordinates and, if there are several, its level and spread.

    With u the rank of a coordinate, in the middle of equal ones, among the first half of the reference: sums over the
    coordinates of log(u / (1 - u)) and of -log(min(u, 1 - u)), as in Fisher's way to combine tests.
    """
    dim = x.size
    n = (at.values - at.ordered) // dim
    columns, logs = room[at.columns : at.breakers], room[at.logs : at.ordered]
    level = spread = 0.0
    for m in range(dim):
        columns[m] = x[m]
        if dim > 1:
            ordered = room[at.ordered + m * n : at.ordered + (m + 1) * n]
            below = upto = _below(ordered, x[m], False)
            if below < n and ordered[below] == x[m]:
                upto = _below(ordered, x[m], True)
            log_u, log_rest = logs[below + upto + 1], logs[2 * n + 1 - below - upto]
            level += log_u - log_rest
            spread -= min(log_u, log_rest)
    if dim > 1:
        columns[dim], columns[dim + 1] = level, spread


@in_place
def _below(ordered: Floats, x: float, equal: bool) -> int:
    """How many of the sorted values, a power of two of them, are less than x (or equal to it, if those count)."""
    below, bit = np.uint64(0), np.uint64(0)
    while (np.uint64(2) << bit) <= np.uint64(ordered.size):
        bit += ONE
    while bit > 0:
        bit -= ONE
        value = ordered[below + (ONE << bit) - ONE]
        # Shifted, not chosen: a branch would be guessed wrong every other time.
        below += np.uint64((value < x) | (equal & (value == x))) << bit
    value = ordered[below]
    return int(np.int64(below) + np.int64((value < x) | (equal & (value == x))))


@in_place
def rank(size: Ints, room: Floats, at: Places) -> None:
    """Where a context stands among those before it, in the order of each stream's leaves; adds it to the trees.

    All streams go down together, level by level: a step waits for the one before it, but not for those of others.
    """
    dim, n_nodes = size[DIM], at.n_nodes
    nodes, columns, breakers = size[NODES:], room[at.columns : at.breakers], room[at.breakers : at.lows]
    lows, highs = room[at.lows : at.highs], room[at.highs : at.groups]
    values, ties, lefts = room[at.values : at.ties], room[at.ties : at.lefts], room[at.lefts : at.rows]
    units = size[SEEN] + 1.0  # of mass: one for each context in the tree, and one
    fewer = units - (size[REFERENCE] + 1) // 2  # where the tree began with the second half of the reference
    for s in range(at.n_streams):
        nodes[s], lows[s], highs[s] = 0, 0.0, fewer if 1 < dim <= s < dim + 2 else units
    turn, width = 0, 1
    while width <= n_nodes:
        if dim > 1:
            columns[dim + 2], breakers[dim + 2] = columns[turn], breakers[turn]
        for s in range(at.n_streams):
            node = np.uint64(nodes[s])
            if node >= np.uint64(n_nodes):
                continue
            k = np.uint64(s * n_nodes) + node
            x, value, left = columns[s], values[k], lefts[k]
            if left == 0.0:
                values[k], ties[k], lefts[k], nodes[s] = x, breakers[s], 1.0, n_nodes
                continue
            right = x > value
            if x == value:
                right = breakers[s] >= ties[k]
            # Multiplied, not chosen: a branch would be guessed wrong every other time.
            one = np.float64(np.uint64(right))
            lefts[k] = left + (1.0 - one)
            highs[s] = min(highs[s], lows[s] + left + one * MANY)
            lows[s] += one * left
            nodes[s] = np.int64(node + node + ONE + np.uint64(right))
        turn, width = (turn + 1 if turn + 1 < dim else 0), 2 * width
    for s in range(at.n_streams):
        mass = fewer if 1 < dim <= s < dim + 2 else units
        first = at.groups + s // LANE * (ROWS * LANE) + s % LANE
        room[first + LOWS * LANE], room[first + HIGHS * LANE] = lows[s] / mass, highs[s] / mass


@in_place
def settle(size: Ints, room: Floats, at: Places) -> None:
    """Settle the bets of all streams, and see whether one is rich enough for an alarm."""
    seen, limit, lanes = float(size[SEEN]), room[0], size[LANES]
    patience = float(size[PATIENCE])
    cash = cash_after(seen - size[REFERENCE] + 1.0, patience)
    fresh = cash_after(seen - size[REFERENCE], patience) - cash
    most, richest = 0.0, 0
    for first in range(0, at.n_streams, LANE):
        start, streams = at.groups + first * ROWS, min(LANE, at.n_streams - first)
        group = room[start : start + ROWS * LANE]
        fixed_odds(group, lanes)
        recent_odds(group, lanes, streams)
        _stake(group, lanes, fresh)
        if size[ALARM] < 0:
            _cut_off(group, streams, limit)
        _pay(group, lanes, seen)
        for lane in range(streams):
            wealth = cash + group[TOTAL * LANE + lane]
            if wealth > most:
                most, richest = wealth, first + lane
    if most >= limit and size[ALARM] < 0:
        size[ALARM], size[STREAM] = size[SEEN] + 1, richest
        size[CHANGE] = _began(room, at.groups + richest // LANE * (ROWS * LANE) + richest % LANE)


# Loops over lanes do four at once only if the compiler does not know that there are four: else it writes out each.
# So ``lanes`` comes from ``size``.


@in_place
def fixed_odds(group: Floats, lanes: int) -> None:
    """Means of the densities of the fixed bets between low and high: ``cut_off_odds`` without bounds, but fast."""
    for lane in range(lanes):
        low, high = group[LOWS * LANE + lane], group[HIGHS * LANE + lane]
        scale = 1.0 / (high - low)
        odds = ODDS * BETS * LANE + lane
        for side in (LOW, HIGH):
            near, far = (low, high) if side == LOW else (1.0 - high, 1.0 - low)
            near_root, far_root = np.sqrt(near), np.sqrt(far)
            near_fourth, far_fourth = np.sqrt(near_root), np.sqrt(far_root)
            k = odds + 4 * side * LANE
            group[k] = scale * (far_fourth - near_fourth)
            group[k + LANE] = scale * (far_root - near_root)
            group[k + 2 * LANE] = scale * (far_root * far_fourth - near_root * near_fourth)
            group[k + 3 * LANE] = scale * (far * far - near * near)
        out_low, out_high = np.sqrt(2.0 * min(low, 1.0 - low)), np.sqrt(2.0 * min(high, 1.0 - high))
        in_low, in_high = np.sqrt(abs(2.0 * low - 1.0)), np.sqrt(abs(2.0 * high - 1.0))
        # Multiplied, not chosen, as in ``rank``: one of these is 1, the others 0.
        before, after = np.float64(np.uint64(high <= 0.5)), np.float64(np.uint64(low >= 0.5))
        across = 1.0 - before - after
        out_mass = before * (out_high - out_low) + after * (out_low - out_high) + across * (2.0 - out_low - out_high)
        in_mass = before * (in_low - in_high) + after * (in_high - in_low) + across * (in_low + in_high)
        group[odds + (FIXED - 2) * LANE] = 0.5 * scale * out_mass
        group[odds + (FIXED - 1) * LANE] = 0.5 * scale * in_mass


@in_place
def recent_odds(group: Floats, lanes: int, streams: int) -> None:
    """Means of the densities that follow what was seen lately; and what was seen now joins them."""
    for lane in range(streams):
        low, high = group[LOWS * LANE + lane], group[HIGHS * LANE + lane]
        scale = 1.0 / (high - low)
        for a in range(len(MEMORY)):
            first = (LATELY + a * EDGES) * LANE + lane
            seen_lately = _share_below(group, first, high) - _share_below(group, first, low)
            group[(ODDS * BETS + FIXED + a) * LANE + lane] = 1.0 - TRUST + TRUST * scale * seen_lately
    for lane in range(lanes):
        low, high = group[LOWS * LANE + lane], group[HIGHS * LANE + lane]
        scale = 1.0 / (high - low)
        for j in range(1, BINS):
            inside = min(max((j * (1.0 / BINS) - low) * scale, 0.0), 1.0)
            group[(INSIDE + j) * LANE + lane] = inside
    for a in range(len(MEMORY)):
        rate = 1.0 / MEMORY[a]
        for k in range(LANE, BINS * LANE):
            lately = (LATELY + a * EDGES) * LANE + k
            group[lately] += rate * (group[INSIDE * LANE + k] - group[lately])


@in_place
def _share_below(group: Floats, first: int, u: float) -> float:
    """Share of recent contexts with ranks below u."""
    j = min(int(u * BINS), BINS - 1)
    k = np.uint64(first + j * LANE)
    return float(group[k] + (u * BINS - j) * (group[k + np.uint64(LANE)] - group[k]))


@in_place
def _stake(group: Floats, lanes: int, fresh: float) -> None:
    """Fresh wealth joins the bets."""
    for lane in range(lanes):
        total = 0.0
        for b in range(BETS):
            group[b * LANE + lane] += fresh * SHARES[b]
            total += group[b * LANE + lane]
        group[TOTAL * LANE + lane] = total


@in_place
def _cut_off(group: Floats, streams: int, limit: float) -> None:
    """Cut off what bets could win beyond the limit."""
    for lane in range(streams):
        if group[TOTAL * LANE + lane] * MAX_ODDS > limit:
            low, high = group[LOWS * LANE + lane], group[HIGHS * LANE + lane]
            for b in range(FIXED):
                most = limit / group[b * LANE + lane]
                if POWERS[b] < 1.0 and most < MAX_ODDS:
                    odds = cut_off_odds(SIDES[b], POWERS[b], low, high, most)
                    group[(ODDS * BETS + b) * LANE + lane] = odds


@in_place
def _pay(group: Floats, lanes: int, seen: float) -> None:
    """Multiply wealth by the odds."""
    for lane in range(lanes):
        total = 0.0
        for b in range(BETS):
            k = b * LANE + lane
            wealth, gain = k + WEALTH * BETS * LANE, k + GAIN * BETS * LANE
            begin, odds = k + BEGIN * BETS * LANE, k + ODDS * BETS * LANE
            group[wealth] = min(group[wealth] * group[odds], MAX_WEALTH)
            total += group[wealth]
            # The best moment to have begun is where the product of gains was last at its lowest.
            group[begin] = seen if group[gain] <= 1.0 else group[begin]
            group[gain] = min(max(group[gain], 1.0) * group[odds], MAX_WEALTH)
        group[TOTAL * LANE + lane] = total


@in_place
def _began(room: Floats, stream: int) -> int:
    """How many contexts came before the change, by the richest bet of a stream."""
    best = 0
    for b in range(BETS):
        if room[stream + (WEALTH * BETS + b) * LANE] > room[stream + (WEALTH * BETS + best) * LANE]:
            best = b
    return int(room[stream + (BEGIN * BETS + best) * LANE])


@in_place
def cut_off_odds(side: int, power: float, low: float, high: float, most: float) -> float:
    """The mean between low and high of a density k v^(k - 1), k < 1, that is cut off at ``most``.

    v is the distance from a side. What the cut saves is spread evenly over [0, 1].
    """
    edge = (most / power) ** (1.0 / (power - 1.0))
    saved = _raise(edge, power) - most * edge
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
    mass = most * v if v < edge else _raise(v, power) - saved
    if side == LOW:
        return mass
    if side == HIGH:
        return -mass
    whole = 1.0 - saved  # of the distances on one side of 1/2
    if side == OUT:
        return 0.5 * mass if u < 0.5 else whole - 0.5 * mass
    return -0.5 * mass if u < 0.5 else 0.5 * mass


@in_place
def _raise(v: float, power: float) -> float:
    """Power of a number. The compiler would take a root for 1/2 in some places, not in others, and round otherwise."""
    return float(np.sqrt(v) if power == 0.5 else v**power)
