"""What a shift monitor bets on: contexts one by one, or blocks of them."""

from __future__ import annotations

from itertools import combinations

import numpy as np

from conebandit.diagnose.dependence import BLOCKS, Blocks
from conebandit.diagnose.rank_bets import RankAlarm, RankBets, n_finite
from conebandit.diagnose.snapshot import ShiftAlarm
from conebandit.kernels import blocks as kernels
from conebandit.validate.arrays import FloatArray
from conebandit.validate.storage import Arrays

GROWTH = 2  # levels by which trees of contexts grow beyond the reference
PATIENCE = 1024  # contexts over which money comes in, at first
BLOCK_DEPTH = 11  # levels of trees of blocks, as many as trees of contexts have with a reference of 511
PAIR_BLOCK = 32  # contexts over which pairs of coordinates are looked at, when contexts are bet on one by one
MAX_SET_ASIDE = 1024  # contexts that scores are ranks among; of more, some are left out, evenly


class ContextWatch:
    """Bets on the ranks of contexts, one by one."""

    def __init__(self, context_dim: int, reference: int, window: int, seed: np.uint64) -> None:
        depth = reference.bit_length() + GROWTH
        self.bets = RankBets(context_dim, reference, window=window, seed=seed, depth=depth, patience=PATIENCE)
        self.n_reference, self.set_aside = reference, 0
        self.has_reference = False

    @property
    def n_contexts(self) -> int:
        """Contexts seen."""
        return self.bets.seen

    def feed(self, contexts: FloatArray) -> int:
        """See contexts, (n, d); how many were seen: those before the first that is not finite."""
        seen = self.bets.feed(contexts.reshape(-1))
        self.has_reference = self.bets.has_reference
        return seen

    @property
    def alarm(self) -> ShiftAlarm | None:
        """The first alarm."""
        alarm = self.bets.alarm
        if alarm is None:
            return None
        return ShiftAlarm(alarm.at, alarm.stream if alarm.stream < self.bets.dim else None, alarm.change)

    def before(self) -> FloatArray:
        """The reference."""
        return self.bets.state.rows[: self.n_reference].copy()

    def recent(self) -> FloatArray:
        """The last contexts after the reference, oldest first."""
        return self.bets.recent()

    def kept(self) -> Arrays:
        """Arrays to go on from."""
        return self.bets.kept()

    def restore(self, arrays: Arrays) -> None:
        """Go on from arrays that were kept."""
        self.bets.restore(arrays)
        self.has_reference = self.bets.has_reference


class BlockWatch:
    """Bets on the ranks of blocks of contexts, by what ``kernels/blocks.py`` says of each.

    Parameters
    ----------
    context_dim
        Number of coordinates.
    blocks
        Contexts in a block and its gap.
    set_aside
        How many contexts at the beginning are set aside: scores are ranks among them.
    reference
        Blocks after these that are ranked against, but not bet on; one less than a power of two.
    window
        How many recent contexts to keep.
    marginals, pairs
        Whether to look at single coordinates, and at pairs of them.
    seed
        Of the random order of equal values.
    """

    def __init__(
        self,
        context_dim: int,
        blocks: Blocks,
        *,
        set_aside: int,
        reference: int,
        window: int,
        marginals: bool,
        pairs: bool,
        seed: np.uint64,
    ) -> None:
        self.dim, self.blocks, self.set_aside, self._window = context_dim, blocks, set_aside, window
        self._marginals = marginals
        self._pairs = list(combinations(range(context_dim), 2)) if pairs else []
        self._n_columns = 2 * context_dim * marginals + bool(self._pairs)
        depth = max(BLOCK_DEPTH, reference.bit_length() + GROWTH)
        self.bets = RankBets(
            self._n_columns, reference, window=1, seed=seed, depth=depth, patience=2 * (reference + 1)
        )
        self.n_reference = set_aside + reference * blocks.length
        self.has_reference = False
        self._every = -(-set_aside // MAX_SET_ASIDE)
        self._arrays: Arrays = {
            "seen": np.array([0, -1]),  # contexts; the pair that raised the alarm
            "filled": np.array([0, blocks.length, blocks.gap, marginals], dtype=np.int64),
            "aside": np.zeros((-(-set_aside // self._every), context_dim)),
            "sums": np.zeros(3 * context_dim + len(self._pairs)),
            "recent": np.zeros((window, context_dim)),
        }
        self._ordered, self._usual = np.zeros((context_dim, 0)), np.zeros((2, 0))

    @property
    def n_contexts(self) -> int:
        """Contexts seen."""
        return int(self._arrays["seen"][0])

    def feed(self, contexts: FloatArray) -> int:
        """See contexts, (n, d); how many were seen: those before the first that is not finite."""
        aside = 0
        if self.n_contexts < self.set_aside:
            head = contexts[: self.set_aside - self.n_contexts]
            aside = self._put_aside(head)
            contexts = contexts[len(head) :]
            if aside < len(head) or not len(contexts):
                return aside
        arrays, length = self._arrays, self.blocks.length
        done = (int(arrays["filled"][kernels.FILLED]) + len(contexts)) // length
        rows, furthest = np.empty((done, self._n_columns)), np.zeros(done, dtype=np.int64)
        fed = kernels.summarise(
            arrays["filled"], self._ordered, self._usual, arrays["sums"], contexts, rows, furthest
        )
        self._remember(contexts[:fed])
        arrays["seen"][0] += fed
        done = (self.n_contexts - self.set_aside) // length - self.bets.seen
        if done:
            self._bet(rows[:done], furthest)
        return aside + fed

    def _put_aside(self, contexts: FloatArray) -> int:
        good = n_finite(contexts)
        places = np.arange(self.n_contexts, self.n_contexts + good)
        chosen = places % self._every == 0
        self._arrays["aside"][places[chosen] // self._every] = contexts[:good][chosen]
        self._arrays["seen"][0] += good
        self._learn_scores()
        return good

    def _learn_scores(self) -> None:
        """What scores are ranks among, and what products of two are usually; once all is set aside."""
        if self.n_contexts < self.set_aside:
            return
        rows = self._arrays["aside"]
        self._ordered = np.ascontiguousarray(np.sort(rows, axis=0).T)
        products = np.zeros((len(rows), len(self._pairs)))
        for row, product in zip(rows, products, strict=True):
            scores = np.array([kernels.score(o, x) for o, x in zip(self._ordered, row, strict=True)])
            kernels.add_products(scores, product)
        self._usual = np.array([products.mean(axis=0), products.std(axis=0)])

    def _bet(self, rows: FloatArray, furthest: FloatArray) -> None:
        """Bet on the rows of blocks; of the pairs that are furthest off in them, keep the one that raised the alarm."""
        before, calm = self.bets.seen, self.bets.alarm is None
        self.bets.feed(rows.reshape(-1))
        self.has_reference = self.bets.has_reference
        alarm = self.bets.alarm
        if calm and alarm is not None:
            self._arrays["seen"][1] = furthest[alarm.at - before - 1]

    def _remember(self, contexts: FloatArray) -> None:
        """Keep the last contexts in a ring."""
        if self._window:
            late = contexts[-self._window :]
            end = self.n_contexts - self.set_aside + len(contexts)
            self._arrays["recent"][np.arange(end - len(late), end) % self._window] = late

    @property
    def alarm(self) -> ShiftAlarm | None:
        """The first alarm."""
        alarm = self.bets.alarm
        if alarm is None:
            return None
        at, change = (self.set_aside + blocks * self.blocks.length for blocks in (alarm.at, alarm.change))
        return ShiftAlarm(at, self._coordinate(alarm), change, self._pair(alarm))

    def _coordinate(self, alarm: RankAlarm) -> int | None:
        """Which coordinate raised the alarm by its level or spread."""
        return alarm.stream % self.dim if alarm.stream < 2 * self.dim * self._marginals else None

    def _pair(self, alarm: RankAlarm) -> tuple[int, int] | None:
        """Which pair raised the alarm."""
        if not self._pairs or alarm.stream != self._n_columns - 1:
            return None
        return self._pairs[int(self._arrays["seen"][1])]

    def before(self) -> FloatArray:
        """Contexts that were set aside."""
        return self._arrays["aside"].copy()

    def recent(self) -> FloatArray:
        """The last contexts after those that were set aside, oldest first."""
        end = max(self.n_contexts - self.set_aside, 0)
        return np.asarray(self._arrays["recent"][np.arange(max(end - self._window, 0), end) % max(self._window, 1)])

    def kept(self) -> Arrays:
        """Arrays to go on from."""
        return self._arrays | {f"bets_{name}": array for name, array in self.bets.kept().items()}

    def restore(self, arrays: Arrays) -> None:
        """Go on from arrays that were kept."""
        for name, array in self._arrays.items():
            array[:] = arrays[name]
        self.bets.restore({name[5:]: array for name, array in arrays.items() if name.startswith("bets_")})
        self.has_reference = self.bets.has_reference
        self._learn_scores()


def make_watches(
    context_dim: int,
    blocks: Blocks,
    reference: int,
    window: int,
    pairs: bool,
    seed: np.uint64,
    set_aside: int | None,
) -> list[ContextWatch | BlockWatch]:
    """What bets on blocks of this length, with a reference of so many blocks, or with so many contexts set aside."""
    half, pairs = (reference + 1) // 2, pairs and context_dim > 1
    if blocks.length > 1:
        aside, rest = (half * blocks.length, half - 1) if set_aside is None else (set_aside, BLOCKS - 1)
        return [
            BlockWatch(
                context_dim,
                blocks,
                set_aside=aside,
                reference=rest,
                window=window,
                marginals=True,
                pairs=pairs,
                seed=seed,
            )
        ]
    watches: list[ContextWatch | BlockWatch] = [ContextWatch(context_dim, reference, window, seed)]
    if pairs:
        rest = max(half // PAIR_BLOCK, BLOCKS) - 1  # so that bets on pairs begin when those on contexts do
        watches.append(
            BlockWatch(
                context_dim,
                Blocks(PAIR_BLOCK),
                set_aside=half,
                reference=rest,
                window=0,
                marginals=False,
                pairs=True,
                seed=seed,
            )
        )
    return watches
