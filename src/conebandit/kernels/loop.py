"""The loop over the rounds of a chunk, which all policies share.

It is compiled into each caller (``inlined``). A loop that a factory makes, or that takes kernels as arguments from
Python, would not be kept on disk by Numba; a thin function that calls this one is, since its callees are globals.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from conebandit.kernels.compile import in_place, inlined
from conebandit.kernels.types import Chunk, Floats


@inlined
def play(
    choose: Callable[..., Any],
    learn: Callable[..., Any],
    can_go_on: Callable[..., bool],
    state: Any,
    seed: np.uint64,
    chunk: Chunk,
    start: int,
) -> int:
    """``choose`` and ``learn`` for rounds ``start``, ... of a chunk; the first round before which it had to stop.

    ``can_go_on(state, x)`` tells whether the state can take an observation as it is, or needs more room first.
    """
    n: int = chunk.contexts.shape[0]
    for i in range(start, n):
        x = chunk.contexts[i]
        if not can_go_on(state, x):
            return i
        arm, chance = choose(state, seed, x, chunk.keys[i], chunk.active[i], chunk.reported[i])
        chunk.arms[i], chunk.chances[i] = arm, chance
        learn(state, x, arm, chunk.outcomes[i, arm])
    return n


@in_place
def always(state: Any, x: Floats) -> bool:
    """For policies whose arrays do not grow."""
    return True
