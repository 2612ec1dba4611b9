"""The state of policies that refine a dyadic tree of cells."""

from __future__ import annotations

import numpy as np

from conebandit.geometry.cone import Cone
from conebandit.kernels.cells import CELLS, CHILD, LOWER, MAX_COORDINATES, UPPER, Cells
from conebandit.validate import storage

GROWS = dict.fromkeys(("links", "active", "pulls", "counts", "totals"), (CELLS, 1))


def fresh_cells(n_arms: int, cone: Cone, context_dim: int, *, width: float, smoothness: float) -> Cells:
    """A tree that is one cell, the whole cube, in which nothing is known and all arms are active."""
    if context_dim > MAX_COORDINATES:
        raise ValueError(
            f"context_dim must be at most {MAX_COORDINATES}; got {context_dim}. Choose the coordinates that matter."
        )
    links = np.full((1, 5), -1)
    links[0, 3:] = 0
    shape = (1, n_arms, cone.dim)
    return Cells(
        size=np.array([0, 1]),
        links=links,
        active=np.ones((1, n_arms), dtype=np.bool_),
        pulls=np.zeros((1, n_arms), dtype=np.int64),
        counts=np.zeros(shape, dtype=np.int64),
        totals=np.zeros(shape),
        facets=cone.facets.copy(),
        constants=np.array([width, smoothness]),
    )


def check_links(cells: Cells) -> None:
    """A ``ValueError`` if a cell has a child or sibling that there is not."""
    storage.require_range("links", cells.links[:, [CHILD, LOWER, UPPER]], -1, len(cells.links))
