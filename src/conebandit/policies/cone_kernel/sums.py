"""Sums over the samples of a :class:`ConeKernel`, kept from one fit to the next."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from conebandit.kernels.cone_kernel.constants import MIN_KEPT_FEATURES
from conebandit.kernels.cone_kernel.fit import add_samples
from conebandit.kernels.cone_kernel.state import CENTRE, OBSERVATIONS, SPREAD, State
from conebandit.validate.arrays import FloatArray


class Sums:
    """Sums of products of features, and of features times rewards, over the samples that were added so far.

    Not part of a policy's state: a new one adds up the same sums from all samples, in the same order, bit for bit.
    """

    def __init__(self) -> None:
        self.seen = 0  # samples that were added
        self._parts: NDArray[np.int64] = np.empty((0, 0), dtype=np.int64)  # the features
        self._gram, self._cross = np.empty((0, 1, 0, 0)), np.empty((0, 0, 0))  # see ``add_samples``

    def over_all(self, state: State) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Sums over all samples: of phi phi', see ``add_samples``; of phi y (K, M, D); and of y^2 (K, M).

        Rewards y are in units of their spread, from their centre. Only what is new is added up.
        """
        n, dim = int(state.size[OBSERVATIONS]), state.orders.shape[1]
        rewards, centre, spread = state.data[:n, dim:], state.scales[CENTRE], state.scales[SPREAD]
        known = ~np.isnan(rewards)
        first = np.take_along_axis(rewards, known.argmax(axis=0)[None], axis=0)[0]
        origin = np.where(known.any(axis=0), first, 0.0)  # near the centre, and it never changes
        if not np.array_equal(self._parts, state.parts):
            self._change_features(state, origin)
        some_in_part = (known.any(axis=1) & ~known.all(axis=1)).any()
        if some_in_part and self._gram.shape[1] == 1:
            arms, metrics, size = self._cross.shape
            self._gram = np.concatenate([self._gram, np.zeros((arms, metrics, size, size))], axis=1)
        self._add(state, self.seen, n, np.ones(len(state.parts), dtype=np.bool_), origin)
        self.seen = n
        ones = self._gram[:, :1, :, 0]  # feature 0 is the constant
        if some_in_part:
            ones = ones + self._gram[:, 1:, :, 0]
        cross = (self._cross - (centre - origin)[:, None] * ones) / spread[:, None]
        squares = np.empty(cross.shape[:2])
        for m, seen in enumerate(known.T):
            targets = (rewards[seen, m] - centre[m]) / spread[m]
            squares[:, m] = np.bincount(state.chosen[:n][seen], targets**2, len(squares))
        return self._gram, cross, squares

    def _change_features(self, state: State, origin: FloatArray) -> None:
        """Go on with other features: what is known of them is kept, unless it is little."""
        arms, metrics, size = state.weights.shape[:3]
        gram, cross = np.zeros((arms, self._gram.shape[1], size, size)), np.zeros((arms, metrics, size))
        fresh = np.ones(size, dtype=np.bool_)
        if self.seen:
            here, there = np.nonzero((state.parts[:, None] == self._parts).all(axis=2))
            if len(here) > MIN_KEPT_FEATURES * size:
                gram[:, :, here[:, None], here] = self._gram[:, :, there[:, None], there]
                cross[:, :, here] = self._cross[:, :, there]
                fresh[here] = False
        self._parts, self._gram, self._cross = state.parts, gram, cross
        if fresh.all():
            self.seen = 0
        else:
            self._add(state, 0, self.seen, fresh, origin)

    def _add(self, state: State, first: int, last: int, fresh: NDArray[np.bool_], origin: FloatArray) -> None:
        """Add samples ``first``, ..., ``last`` - 1 to the sums of ``fresh`` features."""
        add_samples(state.parts, state.data, state.chosen, first, last, fresh, origin, self._gram, self._cross)
