"""A fixed grid over the unit cube: each coordinate is cut into the same number of equal parts."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from conebandit.kernels.compile import in_place


@in_place
def cell_of(parts: int, x: NDArray[np.float64]) -> int:
    """Number of the cell that contains a point; cells are closed below, the last one also above."""
    cell = 0
    for m in range(x.size):
        cell = cell * parts + min(int(x[m] * parts), parts - 1)
    return cell
