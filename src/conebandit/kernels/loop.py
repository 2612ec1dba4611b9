"""The loops over the rounds of a chunk, the contexts of a batch and the rows of a log, which policies share.

They are compiled into each of their callers. Numba would keep no machine code on disk for a loop that a factory makes,
or that is handed kernels; but it does for a thin function into which such a loop was inlined, since its kernels are
globals.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from conebandit.kernels.compile import in_place, inlined
from conebandit.kernels.floor import explored
from conebandit.kernels.types import Floats


@inlined
def play(
    choose: Callable[..., Any],
    learn: Callable[..., Any],
    can_go_on: Callable[..., bool],
    state: Any,
    seed: np.uint64,
    start: int,
    chunk: tuple[Any, ...],
) -> int:
    """``choose`` and ``learn`` for rounds ``start``, ... of a ``Chunk``; the first round before which it had to stop.

    ``can_go_on(state, x)`` tells whether the state can take an observation as it is, or needs more room first.
    """
    contexts, outcomes, keys, explore, arms, propensities, active, reported = chunk
    n: int = contexts.shape[0]
    chances = np.empty(active.shape[1])
    for i in range(start, n):
        x = contexts[i]
        if not can_go_on(state, x):
            return i
        own = choose(state, seed, x, keys[i], active[i], reported[i], chances)
        arms[i] = explored(explore, seed, keys[i], own, active[i], chances)
        propensities[i] = chances[arms[i]]
        learn(state, x, arms[i], outcomes[i, arms[i]])
    return n


@inlined
def ask(
    choose: Callable[..., Any], estimate: Callable[..., Any], state: Any, seed: np.uint64, batch: tuple[Any, ...]
) -> None:
    """``choose`` at every context of a ``Batch``, and ``estimate`` at as many as there is room for."""
    contexts, keys, explore, arms, active, reported, chances, means, radii = batch
    for i in range(contexts.shape[0]):
        own = choose(state, seed, contexts[i], keys[i], active[i], reported[i], chances[i])
        arms[i] = explored(explore, seed, keys[i], own, active[i], chances[i])
    for i in range(means.shape[0]):
        estimate(state, contexts[i], means[i], radii[i])


@inlined
def observe(
    learn: Callable[..., Any],
    can_go_on: Callable[..., bool],
    state: Any,
    start: int,
    rows: tuple[Any, ...],
) -> int:
    """``learn`` from rows ``start``, ... of a log; the first row before which it had to stop."""
    contexts, arms, rewards = rows
    n: int = contexts.shape[0]
    for i in range(start, n):
        x = contexts[i]
        if not can_go_on(state, x):
            return i
        learn(state, x, arms[i], rewards[i])
    return n


@in_place
def always(state: Any, x: Floats) -> bool:
    """For policies whose arrays do not grow."""
    return True
