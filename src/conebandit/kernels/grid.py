"""A fixed grid over the unit cube: each coordinate is cut into the same number of equal parts."""

from __future__ import annotations

from conebandit.kernels.compile import in_place
from conebandit.kernels.types import Floats


@in_place
def cell_of(parts: int, x: Floats) -> int:
    """Number of the cell that contains a point; cells are closed below, the last one also above."""
    cell = 0
    for m in range(x.size):
        cell = cell * parts + min(int(x[m] * parts), parts - 1)
    return cell
