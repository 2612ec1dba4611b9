"""Bets that rows of numbers, each ranked among all before it, are not independent draws from one law."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from conebandit.kernels import monitor as kernels
from conebandit.validate.arrays import FloatArray
from conebandit.validate.storage import Arrays

_NOT_KEPT = ("logs", "columns", "limit")  # arrays that follow from the options, or are only room to work


class RankAlarm(NamedTuple):
    """How many rows had been seen at the alarm, which stream raised it, and how many rows came before the change."""

    at: int
    stream: int
    change: int


class RankBets:
    """Streams of bets on rows (``dim``,): one for each column, and three for all of them if there are several.

    ``kernels/monitor.py`` says how they work. If rows are independent draws from one law, the probability that one of
    the ``n_streams`` streams *ever* has more than ``limit`` is at most ``n_streams / limit``.

    Parameters
    ----------
    dim
        Number of columns.
    reference
        Rows that are ranked against, but not bet on; one less than a power of two.
    window
        How many recent rows are kept.
    seed
        Of the random order of equal values.
    depth
        Levels to which trees grow.
    patience
        Over how many rows money comes in, at first.

    Examples
    --------
    >>> bets = RankBets(1, 15, window=1, seed=np.uint64(0), depth=6, patience=32)
    >>> bets.limit = 100.0
    >>> rng = np.random.default_rng(0)
    >>> bets.feed(rng.random(100)), bets.alarm
    (100, None)
    >>> bets.feed(rng.random(100) - 0.8), bets.alarm is None
    (100, False)
    """

    def __init__(self, dim: int, reference: int, *, window: int, seed: np.uint64, depth: int, patience: int) -> None:
        self.dim, self.reference, self.window = dim, reference, window
        self._seed, self._patience = seed, float(patience)
        several = dim > 1
        self._n_columns = dim + 2 * several  # columns, level and spread: what streams look at
        self.n_streams = self._n_columns + several
        self.has_reference = False
        self.at = kernels.places(dim, reference, window, depth)
        fixed = (dim, reference, window, depth, patience, seed.astype(np.int64), kernels.LANE)
        self._size = np.array([0, -1, -1, -1, *fixed, *[0] * self.n_streams], dtype=np.int64)
        self.room = np.zeros(self.at.end)
        kernels.groups(self.room, self.at)[:, kernels.HIGHS] = 1.0  # in empty lanes all ranks are [0, 1]
        state = self.state
        state.lately[:] = np.linspace(0.0, 1.0, kernels.BINS + 1)
        kernels.put_bets(self.room, self.at, state.bets, state.lately)
        state.logs[:] = np.log(np.maximum(np.arange(reference + 3), 1) / (reference + 3))

    @property
    def state(self) -> kernels.State:
        """The arrays; those of bets are copies."""
        return kernels.arrays(self._size, self.room)

    @property
    def limit(self) -> float:
        """Wealth of a stream that raises an alarm."""
        return float(self.room[0])

    @limit.setter
    def limit(self, limit: float) -> None:
        self.room[0] = limit

    @property
    def seen(self) -> int:
        """Rows seen."""
        return int(self._size[kernels.SEEN])

    @property
    def has_alarm(self) -> bool:
        """Whether there is, or was, an alarm."""
        return bool(self._size[kernels.ALARM] >= 0)

    @property
    def alarm(self) -> RankAlarm | None:
        """The first alarm."""
        if not self.has_alarm:
            return None
        return RankAlarm(*(int(self._size[i]) for i in (kernels.ALARM, kernels.STREAM, kernels.CHANGE)))

    @property
    def by_stream(self) -> FloatArray:
        """What the bets of each stream have."""
        return np.asarray(kernels.wealth(self.room, self.at).sum(axis=1))

    @property
    def wealth(self) -> float:
        """What the richest stream has."""
        cash = kernels.cash_after(float(max(self.seen - self.reference, 0)), self._patience)
        return cash + float(self.by_stream.max())

    def feed(self, x: FloatArray) -> int:
        """See rows that follow each other in a flat array; how many were seen: those before the first not finite."""
        filled = 0
        if not self.has_reference:
            missing = (self.reference - self.seen) * self.dim
            head = x[:missing].reshape(-1, self.dim)
            filled = self._fill_reference(head)
            x = x[missing:]
            if not len(x) or filled < len(head):
                return filled
        code = kernels.watch(self._size, self.room, x)
        return filled + (-1 - code if code < 0 else len(x) // self.dim)

    def _fill_reference(self, x: FloatArray) -> int:
        good = n_finite(x)
        start = self.at.rows + self.seen * self.dim
        self.room[start : start + good * self.dim] = x[:good].ravel()
        self._size[kernels.SEEN] += good
        if self.seen == self.reference:
            self._plant_trees()
            self.has_reference = True
        return good

    def _plant_trees(self) -> None:
        """Balanced trees of the reference; those of level and spread only of what comes after its first half."""
        state, half, d = self.state, (self.reference + 1) // 2, self.dim
        rows = state.rows[: self.reference]
        state.ordered[:] = np.sort(rows[:half], axis=0).T
        values = np.empty((self.reference, self._n_columns))
        for i in range(self.reference):
            kernels.fill_columns(self.room, self.at, rows[i])
            values[i] = state.columns
        ties = np.array(
            [
                [kernels.tie_breaker(self._seed, i, c, self._n_columns) for c in range(self._n_columns)]
                for i in range(self.reference)
            ]
        )
        for s in range(self.n_streams):
            first = half if d <= s < self._n_columns else 0
            axes = [s] if s < self._n_columns else list(range(d))
            _plant(state.nodes[s], values[first:, axes], ties[first:, axes])

    def recent(self) -> FloatArray:
        """The last rows after the reference, oldest first; at most ``window``."""
        late = min(max(self.seen - self.reference, 0), self.window)
        places = np.arange(self.seen - late, self.seen) % self.window
        return self.state.rows[self.reference + places]

    # ---- keeping ------------------------------------------------------------------------------------------------

    def kept(self) -> Arrays:
        """The arrays that :meth:`restore` needs."""
        return {name: np.ascontiguousarray(a) for name, a in self.state._asdict().items() if name not in _NOT_KEPT}

    def restore(self, arrays: Arrays) -> None:
        """Go on from arrays that were kept, of the same names, shapes and types."""
        state = self.state._asdict()
        for name, array in arrays.items():
            state[name][:] = array
        kernels.put_bets(self.room, self.at, state["bets"], state["lately"])
        self.has_reference = self.seen >= self.reference


def n_finite(rows: FloatArray) -> int:
    """How many rows come before the first that is not finite.

    Examples
    --------
    >>> n_finite(np.array([[1.0], [2.0], [np.nan], [4.0]]))
    2
    """
    bad = ~np.isfinite(rows).all(axis=1)
    return int(np.argmax(bad)) if bad.any() else len(rows)


def _plant(nodes: FloatArray, values: FloatArray, ties: FloatArray) -> None:
    """A balanced tree of n = 2^k - 1 rows: in each node the middle one of its rows, by the columns in turn."""
    members = np.arange(len(values))[None]  # (nodes of the level, rows in each)
    for depth in range(len(values).bit_length()):
        axis = depth % values.shape[1]
        order = np.lexsort((ties[members, axis], values[members, axis]), axis=-1)
        members = np.take_along_axis(members, order, axis=-1)
        half = members.shape[1] // 2
        middle = members[:, half]
        level = nodes[2**depth - 1 : 2 ** (depth + 1) - 1]
        level[:, kernels.VALUE], level[:, kernels.TIE] = values[middle, axis], ties[middle, axis]
        level[:, kernels.LEFT] = half + 1
        members = np.stack([members[:, :half], members[:, half + 1 :]], axis=1).reshape(2 * len(middle), half)
