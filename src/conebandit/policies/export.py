"""A policy as a plain decision tree, for whoever decides without this library: exact where it is one, else distilled.

``docs/neighbours.md`` describes the format; ``examples/read_policy.py`` and ``examples/read_policy.js`` read it.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from itertools import count
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from conebandit.validate.arguments import as_count
from conebandit.validate.arrays import FloatArray

FORMAT, VERSION = "conebandit policy", 1
MIN_CONTEXTS = 100  # fewer say nothing about agreement
MIN_GAIN = 1e-12  # of squares: what is left is rounding
DRAWN = 4096  # contexts from the box, if none are given

Node = dict[str, Any]  # {"probabilities": [...]}, or {"coordinate", "below", "low", "high"}


def fork(coordinate: int, below: float, low: Node, high: Node) -> Node:
    """A node: contexts whose scaled coordinate is below the threshold go to ``low``, others to ``high``."""
    return {"coordinate": int(coordinate), "below": float(below), "low": low, "high": high}


def leaf(probabilities: FloatArray) -> Node:
    """The probabilities of all arms."""
    return {"probabilities": probabilities.tolist()}


def export_policy(policy: Any, contexts: ArrayLike | None, max_leaves: int) -> dict[str, Any]:
    """The tree of a policy that is one, and otherwise a small tree that is close to it."""
    most = as_count(max_leaves, "max_leaves")
    if contexts is None:
        low, high = policy.box.bounds.T
        rows = np.random.default_rng(0).uniform(low, high, (DRAWN, len(low)))
    else:
        rows = policy.box.rows(contexts)
    if len(rows) < MIN_CONTEXTS:
        raise ValueError(f"contexts must be at least {MIN_CONTEXTS}, to measure agreement; got {len(rows)}.")
    live = policy._live_tree()
    return described(policy, live, True, 1.0) if live else distilled(policy, rows, most)


def described(policy: Any, tree: Node, exact: bool, agreement: float) -> dict[str, Any]:
    """Everything that a reader needs."""
    return {
        "format": FORMAT,
        "version": VERSION,
        "policy": type(policy).__name__,
        "exact": exact,
        "agreement": agreement,
        "n_arms": policy.n_arms,
        "bounds": policy.box.bounds.tolist(),
        "tree": tree,
    }


def lookup(tree: Node, point: FloatArray) -> list[float]:
    """The probabilities at a point of the unit cube."""
    while "probabilities" not in tree:
        tree = tree["low"] if point[tree["coordinate"]] < tree["below"] else tree["high"]
    found: list[float] = tree["probabilities"]
    return found


def distilled(policy: Any, contexts: FloatArray, max_leaves: int) -> dict[str, Any]:
    """A small tree of a policy's probabilities, grown on every second context; agreement is measured on the others."""
    points = policy.box.points(contexts)
    chances = policy.decide_many(contexts, range(len(contexts))).probabilities  # (n, K)
    tree = grow(points[::2], chances[::2], max_leaves)
    found = np.array([lookup(tree, point) for point in points[1::2]])
    overlap = np.minimum(found, chances[1::2]).sum(axis=1)
    return described(policy, tree, False, float(overlap.mean()))


def grow(points: FloatArray, chances: FloatArray, max_leaves: int) -> Node:
    """A tree of at most so many leaves: the cut that explains most of the squares that are left, again and again."""
    root: Node = {}
    waiting: list[tuple[float, int, Node, Any, tuple[int, float]]] = []
    serial = count()  # breaks ties: nodes cannot be compared

    def consider(node: Node, rows: Any) -> None:
        node.update(leaf(chances[rows].mean(axis=0)))
        gain, cut = _best_cut(points[rows], chances[rows])
        if gain > MIN_GAIN:
            heapq.heappush(waiting, (-gain, next(serial), node, rows, cut))

    consider(root, np.arange(len(points)))
    for _ in range(max_leaves - 1):
        if not waiting:
            break
        _, _, node, rows, (coordinate, below) = heapq.heappop(waiting)
        node.clear()
        node.update(fork(coordinate, below, {}, {}))
        low = points[rows, coordinate] < below
        consider(node["low"], rows[low])
        consider(node["high"], rows[~low])
    return root


def _best_cut(points: FloatArray, chances: FloatArray) -> tuple[float, tuple[int, float]]:
    """By how much the sum of squares falls at best, and where; between two different values of a coordinate."""
    n, best, cut = len(points), 0.0, (0, 0.0)
    if n < 2:
        return best, cut
    left = np.arange(1, n)[:, None]
    whole = chances.sum(axis=0)
    for coordinate, column in enumerate(points.T):
        order = np.argsort(column, kind="stable")
        values, sums = column[order], np.cumsum(chances[order], axis=0)[:-1]
        gains = (sums**2 / left + (whole - sums) ** 2 / (n - left) - whole**2 / n).sum(axis=1)
        gains[values[1:] == values[:-1]] = 0.0
        at = int(gains.argmax())
        if gains[at] > best:
            best, cut = float(gains[at]), (coordinate, float(values[at + 1]))
    return best, cut


def cells(dim: int, probabilities: Callable[[FloatArray], FloatArray], children: Callable[[int], int]) -> Node:
    """A tree that is cut in 2^d, as one that is cut along a coordinate at a time.

    Parameters
    ----------
    dim
        Number of coordinates, d.
    probabilities
        From the middle of a cell (d,) to those of all arms there.
    children
        The first child of a node, or a negative number; child number ``i`` lies high in the coordinates that are the
        bits of ``i``.
    """

    def cell(node: int, corner: FloatArray, side: float) -> Node:
        first = children(node)
        if first < 0:
            return leaf(probabilities(corner + side / 2.0))
        return cut(first, 0, 0, corner, side / 2.0)

    def cut(first: int, which: int, coordinate: int, corner: FloatArray, half: float) -> Node:
        """Choose child bit by bit."""
        if coordinate == dim:
            return cell(first + which, corner, half)
        step = half * (np.arange(dim) == coordinate)
        low = cut(first, which, coordinate + 1, corner, half)
        high = cut(first, which | 1 << coordinate, coordinate + 1, corner + step, half)
        return fork(coordinate, corner[coordinate] + half, low, high)

    return cell(0, np.zeros(dim), 1.0)
