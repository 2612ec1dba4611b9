"""What a ``ConeKernel`` calls in every round: kernels, of which one is compiled only once there is a model.

Until the first fit a decision needs nothing of what weighs predictions, and that takes most of the time to compile. So
the first decision on a machine does not wait for it.
"""

from __future__ import annotations

import numpy as np

from conebandit.kernels import cone_kernel
from conebandit.kernels.cone_kernel import estimate, learn, run
from conebandit.kernels.cone_kernel.state import FITTED, State
from conebandit.kernels.cone_kernel.steps import choose_least_seen
from conebandit.kernels.types import Bools, Floats

__all__ = ["choose", "estimate", "learn", "run"]


def choose(  # noqa: PLR0917  (as kernels are called)
    state: State, seed: np.uint64, x: Floats, key: int, active: Bools, reported: Bools, chances: Floats
) -> int:
    """As the kernel of this name."""
    if state.size[FITTED]:
        return cone_kernel.choose(state, seed, x, key, active, reported, chances)
    return choose_least_seen(state.counts, seed, key, active, reported, chances)
