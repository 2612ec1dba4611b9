"""Margins of arms in many columns, and what they are on average.

All that is needed of a few columns stays in registers while every other arm, and every facet, is looked at. Sums over
columns are made in their order, so those of four arms are made side by side: each addition waits for the one before.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba.extending import intrinsic

from conebandit.kernels.compile import compiled, in_place
from conebandit.kernels.cone_kernel.constants import BLOCK
from conebandit.kernels.types import Floats
from conebandit.kernels.vectors import INDEX, LANES, Rows, Writer, vector_code

_VECTORS = 2  # of columns at once


@compiled
def margins_of(images: Floats, slack: Floats, units: Floats) -> Floats:
    """Margins of n arms in each column, less the resolution: where one is positive, the arm is unacceptable.

    ``images`` are (n, F, C), and C is a multiple of eight. The result has a multiple of four rows, the last of which
    may be 0 and mean nothing.
    """
    arms, facets, columns = images.shape
    margins, rises = np.zeros((-(-arms // BLOCK) * BLOCK, columns)), np.empty(facets)
    for j in range(facets):
        rises[j] = slack[j] / units[j]
    for i in range(arms):
        _write_margins_of_one(images, rises, margins[i], i, arms)  # type: ignore[call-arg]
    return margins


@in_place
def add_up(margins: Floats, first: int, found: Floats) -> None:
    """Write mean and deviation of four rows from ``first`` on into the rows of ``found`` (., 2)."""
    p, q, r, s = margins[first], margins[first + 1], margins[first + 2], margins[first + 3]
    a = b = c = d = 0.0
    for i in range(p.size):
        a, b, c, d = a + p[i], b + q[i], c + r[i], d + s[i]
    a, b, c, d = a / p.size, b / p.size, c / p.size, d / p.size
    found[first, 0], found[first + 1, 0], found[first + 2, 0], found[first + 3, 0] = a, b, c, d
    e = f = g = h = 0.0
    for i in range(p.size):
        e, f, g, h = e + (p[i] - a) ** 2, f + (q[i] - b) ** 2, g + (r[i] - c) ** 2, h + (s[i] - d) ** 2
    found[first, 1], found[first + 1, 1] = math.sqrt(e / p.size), math.sqrt(f / p.size)
    found[first + 2, 1], found[first + 3, 1] = math.sqrt(g / p.size), math.sqrt(h / p.size)


@intrinsic
def _write_margins_of_one(_typing: Any, images: Any, rises: Any, margins: Any, i: Any, arms: Any) -> tuple[Any, Any]:
    """Write the margins of arm ``i`` (C,); ``rises`` (F,) are what others must be ahead at least."""
    return vector_code(_write_margins, (images, rises, margins), 2)


def _write_margins(write: Writer, images: Rows, rises: Rows, margins: Rows, i: Any, arms: Any) -> None:
    """The largest over other arms of the least rise over facets, for eight columns after the other eight."""
    with write.steps(INDEX(0), margins.length, _VECTORS * LANES) as column:
        largest = write.places(_VECTORS, -math.inf)
        for first, end in ((INDEX(0), i), (write.builder.add(i, INDEX(1)), arms)):
            with write.steps(first, end, 1) as a:
                least = write.places(_VECTORS, math.inf)
                with write.steps(INDEX(0), rises.length, 1) as j:
                    needed, there = write.number(rises.start, j), write.builder.mul(j, margins.length)
                    for v in range(_VECTORS):
                        at = write.builder.add(there, write.builder.add(column, INDEX(v * LANES)))
                        lead = write.minus(write.load(images.row(a), at), write.load(images.row(i), at))
                        write.keep("<", write.minus(lead, needed), least[v])
                for v in range(_VECTORS):
                    write.keep(">", write.builder.load(least[v]), largest[v])
        for v in range(_VECTORS):
            at = write.builder.add(column, INDEX(v * LANES))
            write.store(write.builder.load(largest[v]), margins.start, at)
