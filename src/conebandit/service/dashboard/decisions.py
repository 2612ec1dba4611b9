"""The decisions of a log in little memory: which row is whose, and some of them to look at."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Mapping, Sequence
from hashlib import blake2b
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from conebandit.service.dashboard.tally import Sample
from conebandit.service.log.entries import whole_body
from conebandit.service.stores.records import Record

MIN_MERGED = 1 << 16  # ids that are put in order at once, at least
_BITS = 0xFFFF_FFFF_FFFF_FFFF


class Index:
    """Which row a decision has, by its id.

    Only 64 bits of a hash are kept of an id, in order: 16 bytes for each, a tenth of what a dictionary takes. Two of
    ten million ids have the same hash with a chance of one in 300,000; then a count is off by one.

    Examples
    --------
    >>> index = Index()
    >>> index.add(["a", "b"], first=0)
    >>> index.find(["b", "c"])
    [1, -1]
    """

    def __init__(self) -> None:
        self._recent: dict[int, int] = {}
        self._hashes = np.empty(0, dtype=np.int64)
        self._rows = np.empty(0, dtype=np.int64)

    def add(self, ids: Sequence[str], first: int) -> None:
        """There are new decisions, in rows from ``first`` on."""
        self._recent.update(zip(map(hash, ids), range(first, first + len(ids)), strict=True))
        if len(self._recent) >= max(MIN_MERGED, len(self._hashes) // 4):
            self._merge()

    def find(self, ids: Sequence[str]) -> list[int]:
        """The row of each; -1 for those that there are not."""
        hashes = list(map(hash, ids))
        rows = [self._recent.get(number, -1) for number in hashes]
        if -1 in rows and len(self._hashes):
            wanted = np.array(hashes, dtype=np.int64)
            place = np.minimum(np.searchsorted(self._hashes, wanted), len(self._hashes) - 1)
            older = np.where(self._hashes[place] == wanted, self._rows[place], -1)
            rows = np.maximum(older, rows).tolist()
        return rows

    def _merge(self) -> None:
        hashes = np.concatenate([self._hashes, np.fromiter(self._recent.keys(), np.int64)])
        rows = np.concatenate([self._rows, np.fromiter(self._recent.values(), np.int64)])
        order = np.argsort(hashes, kind="stable")
        self._hashes, self._rows, self._recent = hashes[order], rows[order], {}


class Drawn(NamedTuple):
    """A decision that is kept: its row, its record, and its rank."""

    row: int
    record: Record
    rank: int = 0


class Sampler:
    """Keeps the decisions with the lowest ranks.

    Parameters
    ----------
    most
        How many.
    rank
        Gives numbers for positions in the log.
    """

    def __init__(self, most: int, rank: Callable[[NDArray[np.uint64]], NDArray[np.uint64]]) -> None:
        self._most, self._rank = most, rank
        self._kept: list[Drawn] = []
        self._bar = np.uint64(_BITS)  # higher ranks are too high

    def offer(self, records: Sequence[Record], first: int) -> None:
        """There are new decisions, in rows from ``first`` on."""
        ranks = self._rank(np.array([record.seq for record in records], dtype=np.uint64))
        low = np.flatnonzero(ranks <= self._bar).tolist()
        self._kept += [Drawn(first + k, records[k], int(ranks[k])) for k in low]
        if len(self._kept) > 2 * self._most:
            self._drop()

    def _drop(self) -> None:
        if len(self._kept) > self._most:
            self._kept = heapq.nsmallest(self._most, self._kept, key=lambda drawn: drawn.rank)
            self._bar = np.uint64(self._kept[-1].rank)

    def kept(self) -> list[Drawn]:
        """Those with the lowest ranks, in the order of the log."""
        self._drop()
        return sorted(self._kept)  # no two have the same row


class Made(NamedTuple):
    """What a view wants to know of a decision."""

    arm: str
    x: Sequence[float]
    propensity: float
    visit: int

    @classmethod
    def read(cls, record: Record) -> Made:
        """From its record."""
        body = whole_body(record)
        return cls(body["arm"], body["x"], body["propensity"], body.get("visit", 1))


class Reader:
    """Reads decisions that were drawn, each once.

    Parameters
    ----------
    width
        Of a context.
    """

    def __init__(self, width: int) -> None:
        self._width = width
        self._known: dict[int, Made] = {}  # by row

    def samples(
        self,
        drawn: Sequence[Sequence[Drawn]],
        made_at: Sequence[int],
        arms: Mapping[str, int],
        corrected: Mapping[int, Sequence[float]],
    ) -> list[Sample]:
        """As views see them.

        Parameters
        ----------
        drawn
            Samples of decisions.
        made_at
            When they were made, by row.
        arms
            Their numbers.
        corrected
            By row: contexts other than those that decisions were made in.
        """
        before = self._known
        self._known = {d.row: before.get(d.row) or Made.read(d.record) for sample in drawn for d in sample}
        return [self._sample(sample, made_at, arms, corrected) for sample in drawn]

    def _sample(
        self,
        drawn: Sequence[Drawn],
        made_at: Sequence[int],
        arms: Mapping[str, int],
        corrected: Mapping[int, Sequence[float]],
    ) -> Sample:
        made = [self._known[d.row] for d in drawn]
        x = [corrected.get(d.row, m.x) for d, m in zip(drawn, made, strict=True)]
        return Sample(
            seq=np.array([d.record.seq for d in drawn], dtype=np.int64),
            at=np.array([made_at[d.row] for d in drawn], dtype=np.int64),
            x=np.array(x, dtype=np.float64).reshape(len(drawn), self._width),
            arm=np.array([arms[m.arm] for m in made], dtype=np.int64),
            propensity=np.array([m.propensity for m in made], dtype=np.float64),
            visit=np.array([m.visit for m in made], dtype=np.int64),
        )


def uniformly(experiment_id: str) -> Callable[[NDArray[np.uint64]], NDArray[np.uint64]]:
    """Ranks that have nothing to do with what stands at a position: those with the lowest are a uniform sample.

    The finaliser of SplitMix64 (Steele, Lea and Flood 2014), keyed with the experiment.
    """
    key = np.frombuffer(blake2b(experiment_id.encode("utf-8", "surrogatepass"), digest_size=8).digest(), np.uint64)[0]

    def rank(positions: NDArray[np.uint64]) -> NDArray[np.uint64]:
        z = (positions + key) * np.uint64(0x9E37_79B9_7F4A_7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58_476D_1CE4_E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D0_49BB_1331_11EB)
        mixed: NDArray[np.uint64] = z ^ (z >> np.uint64(31))
        return mixed

    return rank
