"""The features among which a fit chooses."""

from __future__ import annotations

from itertools import combinations, product
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from conebandit.kernels.cone_kernel.constants import (
    MAX_INTERACTION,
    MAX_ORDER_PRODUCTS,
    MAX_PAIR_ORDERS,
    MAX_TRIPLE_ORDERS,
    SENTINEL_ORDER,
)
from conebandit.kernels.cone_kernel.features import highest_order

IntArray = NDArray[np.int64]


class Candidates(NamedTuple):
    """Features by their orders (N, d), by their positions in the table of cosines (N, Q), and which are sentinels."""

    orders: IntArray
    parts: IntArray
    sentinels: NDArray[np.bool_]

    @classmethod
    def of_dim(cls, context_dim: int) -> Self:
        """All candidates for contexts of so many coordinates, the constant feature first."""
        highest = int(highest_order(context_dim))
        orders = _orders(context_dim, highest)
        return cls(orders, _parts(orders, max_parts(context_dim), highest), are_sentinels(orders))


def max_parts(context_dim: int) -> int:
    """Most coordinates that a feature depends on."""
    return min(context_dim, MAX_INTERACTION)


def are_sentinels(orders: IntArray) -> NDArray[np.bool_]:
    """Which features are main effects of the lowest orders."""
    return np.asarray(((orders > 0).sum(axis=1) == 1) & (orders.sum(axis=1) <= SENTINEL_ORDER))


def _orders(dim: int, highest: int) -> IntArray:
    """Orders of the constant, main effects, interactions of two and of three coordinates.

    Interactions have lower orders in more coordinates, so that there are a few thousand candidates at most.
    """
    most = {1: highest, 2: _step(MAX_PAIR_ORDERS, dim), 3: _step(MAX_TRIPLE_ORDERS, dim)}
    rows = [np.zeros((1, dim), dtype=np.int64)]
    for size in range(1, max_parts(dim) + 1):
        orders = np.array(list(product(range(1, most[size] + 1), repeat=size)), dtype=np.int64)
        if len(orders):
            kept = orders[orders.prod(axis=1) <= _step(MAX_ORDER_PRODUCTS, dim)]
            for coordinates in combinations(range(dim), size):
                block = np.zeros((len(kept), dim), dtype=np.int64)
                block[:, coordinates] = kept
                rows.append(block)
    return np.concatenate(rows)


def _step(steps: tuple[tuple[float, int], ...], dim: int) -> int:
    """The value of the first step that reaches up to ``dim`` coordinates."""
    return next(value for up_to, value in steps if dim <= up_to)


def _parts(orders: IntArray, most: int, highest: int) -> IntArray:
    """Features as positions in the table of one-dimensional cosines: (N, d) -> (N, ``most``)."""
    coordinates = np.argsort(orders == 0, axis=1, kind="stable")[:, :most]  # those that matter first
    order = np.take_along_axis(orders, coordinates, axis=1)
    return np.where(order > 0, coordinates * highest + order, 0)
