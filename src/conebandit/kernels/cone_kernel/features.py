"""Products of cosines, of which the model predicts sums.

A feature is a product of sqrt(2) cos(pi j u_i) over a few coordinates, u_i the i-th context coordinate within a box a
little larger than the unit cube; this is the Hilbert-space form of a Gaussian process (Solin & Sarkka 2020).
"""

from __future__ import annotations

import math

import numpy as np

from conebandit.kernels.compile import compiled, in_place
from conebandit.kernels.cone_kernel.constants import BOX_MARGIN, MAX_ORDER, MAX_ORDER_OF_ONE
from conebandit.kernels.types import Floats, Ints


@in_place
def highest_order(context_dim: int) -> int:
    """Highest order of a cosine in one coordinate."""
    return MAX_ORDER_OF_ONE if context_dim == 1 else MAX_ORDER


@in_place
def write_features(parts: Ints, x: Floats, cosines: Floats, phi: Floats) -> None:
    """Write the features at ``x`` into ``phi``; ``cosines`` is scratch of length 1 + d times the highest order."""
    cosines[0] = 1.0
    highest = (cosines.size - 1) // x.size
    for i in range(x.size):
        first = math.cos(math.pi * (x[i] + BOX_MARGIN) / (1.0 + 2.0 * BOX_MARGIN))
        before, now = 1.0, first  # cos((j - 1) v) and cos(j v); cos((j + 1) v) = 2 cos(v) cos(j v) - cos((j - 1) v)
        for j in range(highest):
            cosines[1 + i * highest + j] = math.sqrt(2.0) * now
            before, now = now, 2.0 * first * now - before
    for f in range(parts.shape[0]):
        value = 1.0
        for q in range(parts.shape[1]):
            value *= cosines[parts[f, q]]
        phi[f] = value


@compiled
def features_at(parts: Ints, x: Floats) -> Floats:
    """The features at one context."""
    phi = np.empty(parts.shape[0])
    write_features(parts, x, np.empty(1 + x.size * highest_order(x.size)), phi)
    return phi
