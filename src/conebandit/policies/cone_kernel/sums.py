"""Sums over the samples of a :class:`ConeKernel`, kept from one fit to the next."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from conebandit.kernels.cone_kernel.constants import COST_OF_A_FUNCTION, MIN_KEPT_FEATURES, UNIT
from conebandit.kernels.cone_kernel.fit import add_samples, add_squares, first_known, keep_products, some_are_partial
from conebandit.kernels.cone_kernel.state import CENTRE, OBSERVATIONS, SPREAD, State
from conebandit.policies.cone_kernel.work import Work
from conebandit.policies.layout import page_by_page
from conebandit.validate.arrays import FloatArray


class Totals(NamedTuple):
    """Sums over all samples, rewards y in units of their spread, from their centre.

    Attributes
    ----------
    gram
        Sums of phi phi', see ``add_samples``: shape (K, 1, D, D), or (K, 1 + M, D, D) if some samples are partial.
    cross
        Sums of phi y, shape (K, M, D).
    squares
        Sums of y^2, shape (K, M).
    """

    gram: FloatArray
    cross: FloatArray
    squares: FloatArray


class Sums:
    """Sums of products of features, and of features times rewards, over the samples that were added so far.

    Not part of a policy's state: a new one adds up the same sums from all samples, in the same order, bit for bit, and
    counts the same cost. What counts as known are only sums that the same fit has added up before.
    """

    def __init__(self) -> None:
        self.seen = 0  # samples that were added
        self.unit = UNIT  # multiply-adds between two looks at the budget
        self._parts: NDArray[np.int64] = np.empty((0, 0), dtype=np.int64)  # the features
        self._gram, self._cross = np.empty((0, 1, 0, 0)), np.empty((0, 0, 0))  # see ``add_samples``

    def over_all(self, state: State, *, again: bool = False) -> Work[Totals]:
        """Sums over all samples; only what is new is added up. ``again`` if the same fit has asked before."""
        n, (arms, metrics, size, _) = int(state.size[OBSERVATIONS]), state.weights.shape
        centre, spread, origin = state.scales[CENTRE], state.scales[SPREAD], np.zeros(metrics)
        first_known(state.data, n, origin)  # near the centre, and it never changes
        partial = False
        for rows, _ in self._blocks(state, COST_OF_A_FUNCTION * metrics):
            partial = partial or some_are_partial(rows, len(rows), metrics)
            yield COST_OF_A_FUNCTION * metrics * len(rows)
        parts_of_gram = 1 + metrics if partial else 1
        fresh = yield from self._change_features(state, parts_of_gram)
        kept = int((~fresh).sum()) if again else 0
        if kept < size:
            for_a_sample = (size**2 - kept**2) * parts_of_gram + (metrics + state.data.shape[1]) * size
            yield from self._add_all(state, fresh, origin, for_a_sample)
        self.seen = n
        ones = self._gram[:, :1, :, 0]  # feature 0 is the constant
        if parts_of_gram > 1:
            ones = ones + self._gram[:, 1:, :, 0]
        cross = (self._cross - (centre - origin)[:, None] * ones) / spread[:, None]
        squares = np.zeros((arms, metrics))
        for rows, chosen in self._blocks(state, COST_OF_A_FUNCTION * metrics):
            add_squares(rows, chosen, len(rows), centre, spread, squares)
            yield COST_OF_A_FUNCTION * metrics * len(rows)
        return Totals(self._gram, cross, squares)

    def _change_features(self, state: State, parts_of_gram: int) -> Work[NDArray[np.bool_]]:
        """Go on with other features: what is known of them is kept, unless it is little. Gives those that are new."""
        arms, metrics, size = state.weights.shape[:3]
        for_an_arm = COST_OF_A_FUNCTION * parts_of_gram * size**2  # memory that is touched for the first time
        fresh = np.zeros(size, dtype=np.bool_)
        if np.array_equal(self._parts, state.parts) and self._gram.shape[1] == parts_of_gram:
            yield arms * for_an_arm
            return fresh
        gram, cross = page_by_page((arms, parts_of_gram, size, size)), np.zeros((arms, metrics, size))
        here = there = np.empty(0, dtype=np.int64)
        if self.seen:
            here, there = np.nonzero((state.parts[:, None] == self._parts).all(axis=2))
        fresh[:] = True
        if len(here) > MIN_KEPT_FEATURES * size:
            fresh[here] = False
            cross[:, :, here] = self._cross[:, :, there]
        else:
            self.seen, here = 0, here[:0]
        for k in range(arms):
            if len(here):
                keep_products(self._gram[k], there, here, gram[k])
            yield for_an_arm
        self._parts, self._gram, self._cross = state.parts, gram, cross
        return fresh

    def _add_all(self, state: State, fresh: NDArray[np.bool_], origin: FloatArray, for_a_sample: int) -> Work[None]:
        """Add all samples to the sums of ``fresh`` features, and those that were not seen yet to the others as well."""
        n, seen, block = int(state.size[OBSERVATIONS]), self.seen, max(self.unit // for_a_sample, 1)
        known = seen
        if fresh.any():
            known = 0
        else:
            yield seen * for_a_sample  # nothing to do, but it counts
        for flags, start, end in ((fresh, known, seen), (np.ones_like(fresh), seen, n)):
            for first in range(start, end, block):
                last = min(first + block, end)
                samples = state.parts, state.data, state.chosen, first, last
                add_samples(*samples, flags, origin, self._gram, self._cross)
                yield (last - first) * for_a_sample

    def _blocks(self, state: State, for_a_sample: int) -> Iterator[tuple[FloatArray, NDArray[np.int64]]]:
        """All samples and their arms, as many at once as a unit of work can take at this cost for each."""
        n, block = int(state.size[OBSERVATIONS]), max(self.unit // for_a_sample, 1)
        for first in range(0, n, block):
            last = min(first + block, n)
            yield state.data[first:last], state.chosen[first:last]
