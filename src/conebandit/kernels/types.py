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

    ``contexts`` (n, d) in the unit cube, ``outcomes`` (n, K, M) of all arms, ``keys`` (n,), and ``explore``, the
    probability of any arm in place of the policy's; then for each round the arm played, its probability, the arms in
    the running, and those reported (both (n, K)), as they were before the observation. It is handed to kernels array by
    array: from a tuple, rows take longer to cut out.
    """

    contexts: Floats
    outcomes: Floats
    keys: Ints
    explore: float
    arms: Ints
    propensities: Floats
    active: Bools
    reported: Bools


class Batch(NamedTuple):
    """Many questions to a policy that learns nothing from them: what is given, and what a compiled loop fills in.

    ``contexts`` (n, d) in the unit cube, ``keys`` (n,) and ``explore`` as for a :class:`Chunk`; then for each context
    the arm decided on, the arms in the running, those reported, and the probabilities of all (each (n, K)); and
    estimates with their radii, both (n, K, M) or, if nobody wants to know them, (0, K, M).
    """

    contexts: Floats
    keys: Ints
    explore: float
    arms: Ints
    active: Bools
    reported: Bools
    chances: Floats
    means: Floats
    radii: Floats
