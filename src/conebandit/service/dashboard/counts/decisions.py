"""The decisions of a log in little memory: which row is whose, and some of them to look at."""

from __future__ import annotations

import heapq
from array import array
from collections.abc import Callable, Mapping, Sequence
from hashlib import blake2b
from sys import intern
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from conebandit.service.dashboard.counts.tally import Sample
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
        return cls(intern(body["arm"]), array("d", body["x"]), body["propensity"], body.get("visit", 1))


class Drawn:
    """A decision that is kept: its row, its position and its rank.

    Its record goes when it is read: of many columns it takes ten times as much memory as what is wanted of it.
    """

    __slots__ = ("_made", "_record", "rank", "row", "seq")

    def __init__(self, row: int, record: Record, rank: int = 0) -> None:
        self.row, self.seq, self.rank = row, record.seq, rank
        self._record: Record | None = record
        self._made: Made | None = None

    @property
    def made(self) -> Made:
        """What is wanted of it; read once."""
        if self._record is not None:
            self._made, self._record = Made.read(self._record), None
        assert self._made is not None
        return self._made


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
        return sorted(self._kept, key=lambda drawn: drawn.row)


def as_sample(
    drawn: Sequence[Drawn],
    width: int,
    made_at: Sequence[int],
    arms: Mapping[str, int],
    corrected: Mapping[int, Sequence[float]],
) -> Sample:
    """Decisions as views see them.

    Parameters
    ----------
    drawn
        Which.
    width
        Of a context.
    made_at
        When they were made, by row.
    arms
        Their numbers.
    corrected
        By row: contexts other than those that decisions were made in.
    """
    made = [d.made for d in drawn]
    x = [corrected.get(d.row, m.x) for d, m in zip(drawn, made, strict=True)]
    return Sample(
        seq=np.array([d.seq for d in drawn], dtype=np.int64),
        at=np.array([made_at[d.row] for d in drawn], dtype=np.int64),
        x=np.array(x, dtype=np.float64).reshape(len(drawn), width),
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
