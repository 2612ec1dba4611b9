"""Many observations at once: bit for bit what :func:`~conebandit.kernels.cone_kernel.steps.learn` does one by one.

Between two fits an observation changes nothing but the posterior of its own arm. So those of an arm are taken together,
as many as there are among some hundred rows, one metric after the other: what is updated then stays in a cache near the
processor.
"""

from __future__ import annotations

import numpy as np

from conebandit.kernels.compile import compiled, in_place
from conebandit.kernels.cone_kernel.constants import ROWS_AT_ONCE
from conebandit.kernels.cone_kernel.features import highest_order, write_features
from conebandit.kernels.cone_kernel.state import FITTED, NEVER, NEXT_WORK, OBSERVATIONS, ROWS, State
from conebandit.kernels.cone_kernel.steps import call_for_fit, is_known, update_metric
from conebandit.kernels.types import Floats, Ints


@compiled
def learn_rows(state: State, start: int, contexts: Floats, arms: Ints, rewards: Floats) -> int:
    """Learn from rows ``start``, ... up to the one before which a fit has work to do, or there is no room."""
    size, dim, first = state.size, contexts.shape[1], state.size[OBSERVATIONS]
    stop, stored = contexts.shape[0], size[NEXT_WORK] != NEVER
    if stored:
        stop = min(stop, start + state.data.shape[0] - size[ROWS])
    stop = _count_rows(state, start, stop, arms, rewards)
    if stored:
        for i in range(start, stop):
            row = size[ROWS] + i - start
            for j in range(dim):
                state.data[row, j] = contexts[i, j]
            for m in range(rewards.shape[1]):
                state.data[row, dim + m] = rewards[i, m]
            state.chosen[row] = arms[i]
        size[ROWS] += stop - start
    if size[FITTED] == 1:
        update_rows(state, first, contexts[start:stop], arms[start:stop], rewards[start:stop])
    return int(stop)


@compiled
def _count_rows(state: State, start: int, stop: int, arms: Ints, rewards: Floats) -> int:
    """Count rows, and the values of each metric, up to the one after which a fit has work to do; which that is."""
    size, values = state.size, np.empty(rewards.shape[1], dtype=np.int64)
    for m in range(values.size):
        values[m] = 0
        for k in range(state.counts.shape[0]):
            values[m] += state.counts[k, m]
    for i in range(start, stop):
        if size[OBSERVATIONS] >= size[NEXT_WORK]:
            return i
        size[OBSERVATIONS] += 1
        for m in range(values.size):
            if not np.isnan(rewards[i, m]):
                state.counts[arms[i], m] += 1
                values[m] += 1
                call_for_fit(state, m, values[m])
    return stop


@compiled
def update_rows(state: State, first: int, contexts: Floats, arms: Ints, rewards: Floats) -> None:
    """Update the posteriors by observations number ``first``, ..., as ``update`` does one by one."""
    n_arms, objectives, features, columns = state.weights.shape
    dim, together = contexts.shape[1], min(ROWS_AT_ONCE, contexts.shape[0])
    cosines, phi = np.empty(1 + dim * highest_order(dim)), np.empty((together, features))
    gain, error = np.empty(features), np.empty(columns)
    following, oldest = np.empty(together, dtype=np.int64), np.empty(n_arms, dtype=np.int64)
    for begin in range(0, contexts.shape[0], ROWS_AT_ONCE):
        end = min(begin + ROWS_AT_ONCE, contexts.shape[0])
        _chain_by_arm(arms, begin, end, following, oldest)
        for i in range(begin, end):
            write_features(state.parts, contexts[i], cosines, phi[i - begin])
        for k in range(n_arms):
            for m in range(objectives):
                place = oldest[k]
                while place >= 0:
                    i = begin + place
                    if is_known(state, m) and not np.isnan(rewards[i, m]):
                        update_metric(state, first + i, phi[place], k, m, rewards[i, m], gain, error)
                    place = following[place]


@in_place
def _chain_by_arm(arms: Ints, begin: int, end: int, following: Ints, oldest: Ints) -> None:
    """Of rows ``begin``, ..., ``end`` - 1, counted from 0: the first of each arm, and after it the next one."""
    for k in range(oldest.size):
        oldest[k] = -1
    for i in range(end - 1, begin - 1, -1):
        following[i - begin] = oldest[arms[i]]
        oldest[arms[i]] = i - begin
