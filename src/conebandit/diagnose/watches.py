"""What a shift monitor bets on: contexts one by one, or blocks of them."""

from __future__ import annotations

import numpy as np

from conebandit.diagnose.dependence import BLOCKS, Blocks
from conebandit.diagnose.rank_bets import RankBets
from conebandit.diagnose.snapshot import ShiftAlarm
from conebandit.diagnose.summaries import BlockSummaries, Rows
from conebandit.validate.arrays import FloatArray
from conebandit.validate.storage import Arrays

GROWTH = 2  # levels by which trees of contexts grow beyond the reference
PATIENCE = 1024  # contexts over which money comes in, at first
BLOCK_DEPTH = 11  # levels of trees of blocks, as many as trees of contexts have with a reference of 511
PAIR_BLOCK = 32  # contexts over which pairs of coordinates are looked at, when contexts are bet on one by one


class ContextWatch:
    """Bets on the ranks of contexts, one by one."""

    def __init__(self, context_dim: int, reference: int, window: int, seed: np.uint64) -> None:
        depth = reference.bit_length() + GROWTH
        self.bets = RankBets(context_dim, reference, window=window, seed=seed, depth=depth, patience=PATIENCE)

    @property
    def n_contexts(self) -> int:
        """Contexts seen."""
        return self.bets.seen

    @property
    def n_aside(self) -> int:
        """Contexts that were set aside: none."""
        return 0

    def feed(self, contexts: FloatArray) -> int:
        """See contexts, (n, d); how many were seen: those before the first that is not finite."""
        return self.bets.feed(contexts.reshape(-1))

    @property
    def alarm(self) -> ShiftAlarm | None:
        """The first alarm."""
        alarm = self.bets.alarm
        if alarm is None:
            return None
        return ShiftAlarm(alarm.at, alarm.stream if alarm.stream < self.bets.dim else None, alarm.change)

    def before(self) -> FloatArray:
        """The reference."""
        return self.bets.state.rows[: self.bets.reference].copy()

    def recent(self) -> FloatArray:
        """The last contexts after the reference, oldest first."""
        return self.bets.recent()

    def kept(self) -> Arrays:
        """Arrays to go on from."""
        return self.bets.kept()

    def restore(self, arrays: Arrays) -> None:
        """Go on from arrays that were kept."""
        self.bets.restore(arrays)


class BlockWatch:
    """Bets on the ranks of blocks of contexts, by their :class:`BlockSummaries`, whose options it takes, and these.

    Parameters
    ----------
    reference
        Blocks after those set aside that are ranked against, but not bet on; one less than a power of two.
    window
        How many recent contexts to keep.
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
        marginals: bool,
        pairs: bool,
        window: int,
        seed: np.uint64,
    ) -> None:
        self._length, self._window = blocks.length, window
        self._by_coordinate = 2 * context_dim * marginals  # streams that look at one coordinate
        self._summaries = BlockSummaries(context_dim, blocks, set_aside, marginals=marginals, pairs=pairs)
        depth, patience = max(BLOCK_DEPTH, reference.bit_length() + GROWTH), 2 * (reference + 1)
        columns = self._summaries.n_columns
        self.bets = RankBets(columns, reference, window=1, seed=seed, depth=depth, patience=patience)
        self._alarm = np.full(3, -1)  # contexts seen at the alarm; coordinate; the pair that was furthest off
        self._ring = np.zeros((window, context_dim))

    @property
    def n_contexts(self) -> int:
        """Contexts seen."""
        return self._summaries.n_contexts

    @property
    def n_aside(self) -> int:
        """Contexts that were set aside."""
        return self._summaries.n_aside

    def feed(self, contexts: FloatArray) -> int:
        """See contexts, (n, d); how many were seen: those before the first that is not finite."""
        before = self.n_aside if self._window else 0
        seen, rows = self._summaries.feed(contexts)
        if self._window:
            self._remember(contexts[self.n_aside - before : seen])
        if len(rows[0]):
            self._bet(rows)
        return seen

    def end_block(self) -> None:
        """End a block here."""
        self._bet(self._summaries.end_block())

    def _bet(self, rows: Rows) -> None:
        """Bet on the rows of blocks, one by one until there is an alarm, to see what raised it."""
        for row, pair in zip(*rows, strict=True):
            calm = not self.bets.has_alarm
            self.bets.feed(row)
            alarm = self.bets.alarm
            if calm and alarm is not None:
                at = self.n_aside + alarm.at * self._length if self._length else self.n_contexts
                self._alarm[:] = at, self._coordinate(alarm.stream), pair

    def _coordinate(self, stream: int) -> int:
        """The coordinate that raised an alarm: by a stream of its own, or since no other has moved; else -1."""
        if not self._by_coordinate:
            return -1
        of_each = self.bets.by_stream[: self._by_coordinate].reshape(2, -1).max(axis=0)
        richest = int(np.argmax(of_each))
        if stream < self._by_coordinate:
            return stream % len(of_each)
        others = of_each.sum() - of_each[richest]
        return richest if of_each[richest] > self.bets.n_streams * others else -1

    def _remember(self, contexts: FloatArray) -> None:
        """Keep the last contexts in a ring."""
        late, end = contexts[-self._window :], self.n_contexts - self.n_aside
        self._ring[np.arange(end - len(late), end) % self._window] = late

    @property
    def alarm(self) -> ShiftAlarm | None:
        """The first alarm."""
        alarm = self.bets.alarm
        if alarm is None:
            return None
        at, coordinate, pair = (int(number) for number in self._alarm)
        length = (at - self.n_aside) / alarm.at  # of a block, on average
        change = at - round((alarm.at - alarm.change) * length)
        if self._summaries.pairs and alarm.stream == self._by_coordinate:
            return ShiftAlarm(at, None, change, self._summaries.pairs[pair])
        return ShiftAlarm(at, coordinate if coordinate >= 0 else None, change)

    def before(self) -> FloatArray:
        """Contexts that were set aside."""
        return self._summaries.sample()

    def recent(self) -> FloatArray:
        """The last contexts after those that were set aside, oldest first."""
        end = self.n_contexts - self.n_aside
        return np.asarray(self._ring[np.arange(max(end - self._window, 0), end) % max(self._window, 1)])

    def kept(self) -> Arrays:
        """Arrays to go on from."""
        bets = {f"bets_{name}": array for name, array in self.bets.kept().items()}
        return {**self._summaries.arrays, "alarm": self._alarm, "ring": self._ring, **bets}

    def restore(self, arrays: Arrays) -> None:
        """Go on from arrays that were kept."""
        self._summaries.restore(arrays)
        self._alarm[:], self._ring[:] = arrays["alarm"], arrays["ring"]
        self.bets.restore({name[5:]: array for name, array in arrays.items() if name.startswith("bets_")})


def make_watches(
    context_dim: int,
    blocks: Blocks,
    *,
    reference: int,
    set_aside: int | None,
    alpha: float,
    window: int,
    pairs: bool,
    seed: np.uint64,
) -> list[ContextWatch | BlockWatch]:
    """What bets on blocks of this length, with a reference of so many blocks, or with so many contexts set aside.

    All streams together share ``alpha`` evenly.
    """
    half, pairs = (reference + 1) // 2, pairs and context_dim > 1
    if blocks.length != 1:
        aside, rest = (half * (blocks.length or 1), half - 1) if set_aside is None else (set_aside, BLOCKS - 1)
        watches: list[ContextWatch | BlockWatch] = [
            BlockWatch(
                context_dim,
                blocks,
                set_aside=aside,
                reference=rest,
                marginals=True,
                pairs=pairs,
                window=window,
                seed=seed,
            )
        ]
    else:
        watches = [ContextWatch(context_dim, reference, window, seed)]
    if blocks.length == 1 and pairs:
        watches.append(
            BlockWatch(
                context_dim,
                Blocks(PAIR_BLOCK),
                set_aside=half,
                reference=max(half // PAIR_BLOCK, BLOCKS) - 1,  # so that these bets begin when the others do
                marginals=False,
                pairs=True,
                window=0,
                seed=seed,
            )
        )
    for watch in watches:
        watch.bets.limit = sum(other.bets.n_streams for other in watches) / alpha
    return watches
