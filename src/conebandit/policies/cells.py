"""What policies share that eliminate arms in a dyadic tree of cells."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from conebandit.kernels.cells import CHILD, LOWER, MAX_COORDINATES, UPPER, Cells
from conebandit.policies.compiled import CompiledPolicy
from conebandit.policies.layout import Array, Counter, Index, Layout

_CELL = Index("cells", none=True, towards="later")


@dataclass(eq=False, repr=False, kw_only=True)
class CellsPolicy(CompiledPolicy):
    """A policy on cells with a width of its radii and a smoothness of the means; at first one cell, the whole cube."""

    width: float
    smoothness: float

    _why_not_merged: ClassVar[str] = (
        "its cells count from when they were made, each at another time, and keep no samples to make up for that"
    )

    _layout: ClassVar[Layout] = Layout(
        Cells,
        {"observations": Counter(), "cells": Counter(1, step=1)},
        {
            "links": Array(
                ("cells", 5), np.int64, fill=(-1, -1, -1, 0, 0), indices={CHILD: _CELL, LOWER: _CELL, UPPER: _CELL}
            ),
            "active": Array(("cells", "arms"), np.bool_, fill=True),
            "pulls": Array(("cells", "arms"), np.int64),
            "counts": Array(("cells", "arms", "objectives"), np.int64),
            "totals": Array(("cells", "arms", "objectives")),
            "facets": Array(("facets", "objectives")),
            "constants": Array((2,)),
        },
    )

    def _given(self) -> dict[str, NDArray[Any]]:
        if self.context_dim > MAX_COORDINATES:
            raise ValueError(
                f"context_dim must be at most {MAX_COORDINATES}; got {self.context_dim}. "
                "Choose the coordinates that matter."
            )
        return {**super()._given(), "constants": np.array([self.width, self.smoothness])}
