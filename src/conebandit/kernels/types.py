"""Types of the arrays that kernels work on."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


class Chunk(NamedTuple):
    """Many rounds at once: what is given, and what a compiled loop fills in.

    ``contexts`` (n, d) in the unit cube, ``outcomes`` (n, K, M) of all arms, and ``keys`` (n,); then for each round the
    arm played, its probability, the arms in the running, and those reported (both (n, K)), as they were before the
    observation. It is handed to kernels array by array: from a tuple, rows take longer to cut out.
    """

    contexts: Floats
    outcomes: Floats
    keys: Ints
    arms: Ints
    propensities: Floats
    active: Bools
    reported: Bools
