"""Blocks of contexts, summed up: how high and how far out each coordinate is, and how pairs of them go together.

Every coordinate of a context is replaced by its *score*: its rank, from -1 to 1 and in the middle of equal ones, among
contexts that were set aside at the beginning. A row of a block has, for each coordinate, the mean score (*level*) and
the mean size of the score (*spread*); and one number for all pairs of coordinates (*dependence*): the mean product of
two scores, less what it was among the contexts set aside and in units of its deviation there, for the pair for which
this is largest. All these are functions of the block alone, once the contexts set aside are fixed.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from conebandit.kernels.compile import in_place

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

FILLED, LENGTH, GAP, MARGINALS = range(4)  # places in ``size``: contexts in the block so far, and what never changes


@in_place
def summarise(
    size: Ints, ordered: Floats, usual: Floats, sums: Floats, contexts: Floats, rows: Floats, pairs: Ints
) -> int:
    """Feed contexts (n, d); writes a row for each block that they complete, and the pair that is furthest off in it.

    ordered (d, n), sorted contexts that were set aside; usual (2, P), means and deviations of the products of the P
    pairs of scores; sums (3 d + P,): of scores, of their sizes, room for the scores of a context, and of products.
    Gives the number of contexts that were fed: all, or those before the first that is not finite.
    """
    done, dim = 0, contexts.shape[1]
    scores, products = sums[2 * dim : 3 * dim], sums[3 * dim :]
    for i in range(contexts.shape[0]):
        for m in range(dim):
            if not np.isfinite(contexts[i, m]):
                return i
        if size[FILLED] >= size[GAP]:
            for m in range(dim):
                scores[m] = score(ordered[m], contexts[i, m])
                sums[m] += scores[m]
                sums[dim + m] += abs(scores[m])
            add_products(scores, products)
        size[FILLED] += 1
        if size[FILLED] == size[LENGTH]:
            pairs[done] = end(size, usual, sums, rows[done])
            done += 1
    return int(contexts.shape[0])


@in_place
def end(size: Ints, usual: Floats, sums: Floats, row: Floats) -> int:
    """End the block: write its row, and begin anew. Gives the pair that is furthest off."""
    n_pairs, used = usual.shape[1], float(size[FILLED] - size[GAP])
    column = pair = 0
    if size[MARGINALS]:
        column = 2 * ((sums.size - n_pairs) // 3)
        for c in range(column):
            row[c] = sums[c] / used
    if n_pairs:
        pair, row[column] = furthest(sums[sums.size - n_pairs :], usual, used)
    sums[:] = 0.0
    size[FILLED] = 0
    return int(pair)


@in_place
def score(ordered: Floats, x: float) -> float:
    """The rank of a number among sorted ones, from -1 to 1, in the middle of equal ones."""
    below, upto = np.searchsorted(ordered, x, "left"), np.searchsorted(ordered, x, "right")
    return float((below + upto + 1) / (ordered.size + 1.0) - 1.0)


@in_place
def add_products(scores: Floats, products: Floats) -> None:
    """Add the products of all pairs of scores, in the order (0, 1), (0, 2), ..., (1, 2), ...; if there is room."""
    k = 0
    if products.size:
        for i in range(scores.size):
            for j in range(i + 1, scores.size):
                products[k] += scores[i] * scores[j]
                k += 1


@in_place
def furthest(products: Floats, usual: Floats, n: float) -> tuple[int, float]:
    """The pair whose mean product is furthest from what is usual, in deviations, and how far."""
    best, most = 0, 0.0
    for k in range(products.size):
        if usual[1, k] > 0.0:
            far = abs(products[k] / n - usual[0, k]) / usual[1, k]
            if far > most:
                best, most = k, far
    return best, most
