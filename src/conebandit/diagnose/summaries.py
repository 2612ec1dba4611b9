"""Blocks of contexts, each summed up in a row of numbers."""

from __future__ import annotations

from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from conebandit.diagnose.dependence import Blocks
from conebandit.diagnose.rank_bets import n_finite
from conebandit.kernels import blocks as kernels
from conebandit.validate.arrays import FloatArray
from conebandit.validate.storage import Arrays

MAX_SET_ASIDE = 1024  # contexts that are kept of those set aside; of more, every second is left out, as often as needed
NEVER = np.iinfo(np.int64).max
_SEEN, _ASIDE, _ENDED = range(3)  # contexts seen; those set aside, and blocks that ended among them

Rows = tuple[FloatArray, NDArray[np.int64]]  # (n, columns), and for each row which pair of coordinates is furthest off


class BlockSummaries:
    """Sums up blocks of contexts, by scores that are ranks among contexts set aside before (``kernels/blocks.py``).

    Parameters
    ----------
    context_dim
        Number of coordinates.
    blocks
        Contexts in a block and its gap; with length 0 a block ends when :meth:`end_block` is called.
    set_aside
        How many contexts at the beginning are set aside; with length 0, how many blocks.
    marginals, pairs
        Whether a row has the level and spread of each coordinate, and how much the pairs go together.

    Examples
    --------
    >>> summaries = BlockSummaries(1, Blocks(4), 3, marginals=True, pairs=False)
    >>> n, (rows, _) = summaries.feed(np.array([[1.0], [2.0], [3.0], [2.0], [2.0], [9.0], [9.0], [9.0]]))
    >>> n, rows.tolist()
    (8, [[0.375, 0.375]])
    """

    def __init__(self, context_dim: int, blocks: Blocks, set_aside: int, *, marginals: bool, pairs: bool) -> None:
        self._set_aside, self._blocks = set_aside, blocks
        self.pairs = list(combinations(range(context_dim), 2)) if pairs else []
        self.n_columns = 2 * context_dim * marginals + bool(self.pairs)
        self.arrays: Arrays = {
            "seen": np.zeros(3, dtype=np.int64),
            "filled": np.array([0, blocks.length or NEVER, blocks.gap, marginals], dtype=np.int64),
            "aside": np.zeros((MAX_SET_ASIDE, context_dim)),
            "sums": np.zeros(3 * context_dim + len(self.pairs)),
        }
        self._ordered, self._usual = np.zeros((context_dim, 0)), np.zeros((2, len(self.pairs)))
        self.has_scores = False
        self._nothing = self._room(0)

    @property
    def n_contexts(self) -> int:
        """Contexts seen."""
        return int(self.arrays["seen"][_SEEN])

    @property
    def n_aside(self) -> int:
        """Contexts set aside so far."""
        return int(self.arrays["seen"][_ASIDE])

    def sample(self) -> FloatArray:
        """The contexts that are kept of those set aside."""
        return self.arrays["aside"][: -(-self.n_aside // _every(self.n_aside))].copy()

    def feed(self, contexts: FloatArray) -> tuple[int, Rows]:
        """How many contexts (n, d) were seen, those before the first that is not finite; rows of blocks that ended."""
        filled, length = self.arrays["filled"], self._blocks.length or NEVER
        if self.has_scores and len(contexts) == 1 and filled[kernels.FILLED] + 1 < length:  # the most common case
            fed = kernels.summarise(filled, self._ordered, self._usual, self.arrays["sums"], contexts, *self._nothing)
            self.arrays["seen"][_SEEN] += fed
            return fed, self._nothing
        aside = 0
        if not self.has_scores:
            head = contexts[: self._set_aside - self.n_aside] if self._blocks.length else contexts
            aside = self._put_aside(head)
            contexts = contexts[len(head) if aside == len(head) else len(contexts) :]
        n_before = int(filled[kernels.FILLED])
        rows, furthest = self._room((n_before + len(contexts)) // length)
        fed = 0
        if len(contexts):
            fed = kernels.summarise(filled, self._ordered, self._usual, self.arrays["sums"], contexts, rows, furthest)
        self.arrays["seen"][_SEEN] += fed
        done = (n_before + fed) // length
        return aside + fed, (rows[:done], furthest[:done])

    def end_block(self) -> Rows:
        """End a block here; its row, unless it had nothing but a gap or is set aside."""
        seen, filled = self.arrays["seen"], self.arrays["filled"]
        if not self.has_scores:
            seen[_ENDED] += 1
            self._learn_scores()
            return self._room(0)
        rows, furthest = self._room(int(filled[kernels.FILLED] > filled[kernels.GAP]))
        if len(rows):
            furthest[0] = kernels.end(filled, self._usual, self.arrays["sums"], rows[0])
        filled[kernels.FILLED] = 0
        return rows, furthest

    def _room(self, n: int) -> Rows:
        return np.empty((n, self.n_columns)), np.zeros(n, dtype=np.int64)

    def _put_aside(self, contexts: FloatArray) -> int:
        good, seen, aside = n_finite(contexts), self.arrays["seen"], self.arrays["aside"]
        kept, every = self.sample(), _every(self.n_aside + good)
        thinned = kept[:: every // _every(self.n_aside)]
        aside[: len(thinned)] = thinned
        places = np.arange(self.n_aside, self.n_aside + good)
        chosen = places % every == 0
        aside[places[chosen] // every] = contexts[:good][chosen]
        seen[[_SEEN, _ASIDE]] += good
        self._learn_scores()
        return good

    def _learn_scores(self) -> None:
        """What scores are ranks among, and what products of two are usually; once all is set aside."""
        seen = self.arrays["seen"]
        if not self.n_aside or seen[_ASIDE if self._blocks.length else _ENDED] < self._set_aside:
            return
        rows = self.sample()
        self._ordered, self.has_scores = np.ascontiguousarray(np.sort(rows, axis=0).T), True
        products = np.zeros((len(rows), len(self.pairs)))
        for row, product in zip(rows, products, strict=True):
            scores = np.array([kernels.score(o, x) for o, x in zip(self._ordered, row, strict=True)])
            kernels.add_products(scores, product)
        self._usual = np.array([products.mean(axis=0), products.std(axis=0)])

    def restore(self, arrays: Arrays) -> None:
        """Go on from arrays that were kept, of the same shapes and types."""
        for name, array in self.arrays.items():
            array[:] = arrays[name]
        self._learn_scores()


def _every(n: int) -> int:
    """Of n contexts every how many-th is kept: the least power of two by which at most ``MAX_SET_ASIDE`` are."""
    return 1 << max(-(-n // MAX_SET_ASIDE) - 1, 0).bit_length()
