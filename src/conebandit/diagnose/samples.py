"""Dissimilarity from two tables of contexts: counts of neighbours, a rule for empty balls, and the bootstrap.

The mass of a ball that holds c of n source rows is taken as (c + 1) / (n + 1). So an empty ball counts as if it held
one more row, and contributes n + 1, the most that n rows can tell. For a ball of true mass p the reciprocal of this has
the mean (1 - (1 - p)^(n + 1)) / p: nearly without bias where balls are filled, and too small, never too large, where
they are empty. The share of empty balls is reported beside every estimate; if it is not small, read "at least".
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from conebandit.diagnose.cells import dyadic_cells
from conebandit.kernels.balls import ball_counts
from conebandit.validate.arrays import FloatArray

CHUNK = 2048  # target rows at a time, so that memory stays small


@dataclass(frozen=True)
class Neighbours:
    """Two tables, scaled to the unit cube, and weights of their rows: in the first column 1, then resampled ones.

    Attributes
    ----------
    source, target
        Shapes (n, d) and (m, d); the source is sorted by its first coordinate.
    source_weights, target_weights
        Shapes (n, 1 + B) and (m, 1 + B).
    same
        Whether the two are one table; then a row is not its own neighbour.
    """

    source: FloatArray
    target: FloatArray
    source_weights: NDArray[np.int32]
    target_weights: NDArray[np.int32]
    same: bool

    @classmethod
    def of(
        cls, source: FloatArray, target: FloatArray, *, same: bool, resamples: int, rng: np.random.Generator
    ) -> Neighbours:
        """Sort and draw the resamples."""
        order = np.argsort(source[:, 0], kind="stable")
        rows = np.ascontiguousarray(source[order])
        weights = _resampled(len(rows), resamples, rng)[order]  # of the rows as given, whichever column sorts them
        if same:
            return cls(rows, rows, weights, weights, same)
        return cls(rows, target, weights, _resampled(len(target), resamples, rng), same)

    def estimates(self, h: float) -> tuple[FloatArray, float]:
        """The estimate of rho_h under each weighting, shape (1 + B,), and the share of empty balls."""
        total = np.zeros(self.source_weights.shape[1])
        empty = 0
        for part, counts in self._counts(h):
            held = counts.astype(np.float64)
            others = np.full(held.shape, float(len(self.source)))
            if self.same:
                held -= self.source_weights[part]
                others -= self.source_weights[part]
            total += (self.target_weights[part] * (others + 1.0) / (held + 1.0)).sum(axis=0)
            empty += int((held[:, 0] == 0).sum())
        return total / len(self.target), empty / len(self.target)

    def _counts(self, h: float) -> Iterator[tuple[slice, NDArray[np.int32]]]:
        """Weights of the source rows in the ball around each target row, chunk by chunk."""
        key = self.source[:, 0]
        sums = None
        if self.source.shape[1] == 1:  # differences of running sums do: no need to look at the rows
            sums = np.zeros((len(key) + 1, self.source_weights.shape[1]), dtype=np.int32)
            np.cumsum(self.source_weights, axis=0, out=sums[1:])
        for start in range(0, len(self.target), CHUNK):
            part = slice(start, min(start + CHUNK, len(self.target)))
            centres = self.target[part]
            first = np.searchsorted(key, centres[:, 0] - h, side="left")
            last = np.searchsorted(key, centres[:, 0] + h, side="right")
            if sums is not None:
                yield part, sums[last] - sums[first]
            else:
                counts = np.empty((len(centres), self.source_weights.shape[1]), dtype=np.int32)
                ball_counts(self.source, first, last, centres, h, self.source_weights, counts)
                yield part, counts


def _resampled(n: int, resamples: int, rng: np.random.Generator) -> NDArray[np.int32]:
    """How often each row is drawn in each bootstrap sample; before them the sample itself."""
    weights = np.ones((n, 1 + resamples), dtype=np.int32)
    for b in range(1, 1 + resamples):
        weights[:, b] = np.bincount(rng.integers(n, size=n), minlength=n)
    return weights


def cell_ratio_estimate(source: FloatArray, target: FloatArray, level: int) -> float:
    """Tree plug-in from tables in the unit cube: sum over dyadic cells of Q(B) / P(B), with the rule above."""
    cells, where = dyadic_cells(np.vstack([source, target]), level)
    held = np.bincount(where[: len(source)], minlength=len(cells))
    return float(((len(source) + 1.0) / (held[where[len(source) :]] + 1.0)).mean())
