"""How many rows of a table lie near others, for many weightings of the rows at once."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from conebandit.kernels.compile import in_place

Floats = NDArray[np.float64]


@in_place
def ball_counts(
    rows: Floats,
    first: NDArray[np.int64],
    last: NDArray[np.int64],
    centres: Floats,
    radius: float,
    weights: NDArray[np.int32],
    counts: NDArray[np.int32],
) -> None:
    """Fill ``counts`` (m, B) with the weight of the rows within ``radius`` (sup norm) of each centre.

    There are B weightings of the rows, (n, B). Rows are sorted by their first coordinate, and by that those within
    reach of centre i are first[i], ..., last[i] - 1.
    """
    dim, replicates = rows.shape[1], weights.shape[1]
    for i in range(centres.shape[0]):
        for b in range(replicates):
            counts[i, b] = 0
        for j in range(first[i], last[i]):
            near = True
            for m in range(1, dim):
                if abs(rows[j, m] - centres[i, m]) > radius:
                    near = False
                    break
            if near:
                for b in range(replicates):
                    counts[i, b] += weights[j, b]
