"""Whether contexts depend on those before them, and how long blocks must be so that these do not."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy  # its parts are loaded when they are used: some take longer than this whole package

from conebandit.validate.arrays import FloatArray

MAX_CONTEXTS = 65_535  # from which blocks are chosen, at most
LEVEL = 0.01  # probability that independent contexts are taken for dependent ones
BLOCKS = 8  # whole blocks that must be seen before their length is chosen; also the blocks to a gap
SLOW = 8  # blocks in a period, at least, for a rhythm to do harm
WHOLE = 0.01  # of a period: how far from a whole number of blocks it may be
IN_STEP = 0.85  # how much of a rhythm must be in step from one eighth of the contexts to the next
FINER = 8  # times as fine, twice, when the length of a period is found


class Blocks(NamedTuple):
    """Contexts in a block, and how many at its beginning are left out.

    Examples
    --------
    >>> Blocks(length=64, gap=8)
    Blocks(length=64, gap=8)
    """

    length: int
    gap: int = 0


def choose_blocks(contexts: FloatArray) -> Blocks | None:
    """Blocks for a stream that begins with these contexts, (n, d); None if more of it must be seen to tell.

    Every coordinate is replaced by its rank, once as it is and once by its distance from the middle. Begin with blocks
    of one context. As long as the means of successive blocks are positively correlated, or have a rhythm of eight
    blocks or more, by a test at level ``LEVEL``: if the strongest rhythm has a period that was seen eight times, and is
    in step all the time, blocks become one period long (or as many as make a whole number of blocks); else twice as
    long as they were. If they were ever doubled, what was found is the gap, and blocks are eight times as long. Eight
    blocks must have been seen in any case. Faster rhythms and negative correlations do no harm: ranks are then more
    even than by chance.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> choose_blocks(rng.random((511, 2)))
    Blocks(length=1, gap=0)
    >>> weekend = np.arange(1022) // 10 % 7 >= 5
    >>> choose_blocks(rng.normal(2 * weekend)[:, None])
    Blocks(length=70, gap=0)
    """
    scores = _scores(contexts)
    length, doubled = 1, False
    while (len(contexts) + 1) // length >= BLOCKS * (BLOCKS if doubled else 1):
        means = _means(scores, length)
        if not _depend(means):
            return Blocks(BLOCKS * length, length) if doubled else Blocks(length)
        period = _rhythm(means)
        length, doubled = length * (period or 2), doubled or period is None
    return None


def choose_from_first(contexts: FloatArray, reference: int, before: int) -> tuple[int, Blocks | None]:
    """Choose blocks from the first R contexts of those seen, or 2 R + 1, 4 R + 3, ...; and from how many it was.

    The first ``before`` contexts have been tried already.

    Examples
    --------
    >>> choose_from_first(np.random.default_rng(0).random((600, 1)), reference=511, before=0)
    (511, Blocks(length=1, gap=0))
    """
    enough = reference
    while enough <= len(contexts):
        if enough > before:
            blocks = choose_blocks(contexts[:enough])
            if blocks is None and enough > MAX_CONTEXTS // 2:
                blocks = longest_blocks(contexts[:enough])
            if blocks is not None:
                return enough, blocks
        enough = 2 * enough + 1
    return enough, None


def longest_blocks(contexts: FloatArray) -> Blocks:
    """The longest blocks of which eight were seen, with a gap of an eighth.

    Examples
    --------
    >>> longest_blocks(np.zeros((1000, 1)))
    Blocks(length=125, gap=15)
    """
    length = len(contexts) // BLOCKS
    return Blocks(length, length // BLOCKS)


def _scores(contexts: FloatArray) -> FloatArray:
    """Ranks of each coordinate and their distances from the middle, (n, k), centred; without constant columns."""
    ranks = scipy.stats.rankdata(contexts, axis=0) / (len(contexts) + 1.0) - 0.5
    scores = np.hstack([ranks, abs(ranks)])
    scores -= scores.mean(axis=0)
    return np.asarray(scores[:, scores.std(axis=0) > 0.0])


def _means(scores: FloatArray, length: int) -> FloatArray:
    """Means of successive blocks, centred."""
    n = len(scores) // length
    means = scores[: n * length].reshape(n, length, -1).mean(axis=1)
    return np.asarray(np.round(means - means.mean(axis=0), 12))  # nothing but rounding errors is no rhythm


def _depend(means: FloatArray) -> bool:
    """Whether successive rows are positively correlated in a column, or it has a slow rhythm: two tests for each."""
    n, tests = len(means), max(2 * means.shape[1], 1)
    variance = np.maximum(np.mean(means**2, axis=0), np.finfo(float).tiny)
    correlation = np.mean(means[1:] * means[:-1], axis=0) / variance
    power = np.abs(np.fft.rfft(means, axis=0)[1 : n // SLOW + 1]) ** 2 / (n * variance)  # about exponential, mean 1
    correlated = np.sqrt(n) * correlation > -scipy.special.ndtri(LEVEL / tests)
    return bool(np.any(correlated) or np.any(power > np.log(len(power) * tests / LEVEL)))


def _rhythm(means: FloatArray) -> int | None:
    """The period of the strongest rhythm, if it was seen eight times and goes on in step."""
    n, time = len(means), np.arange(len(means))
    variance = np.maximum(np.mean(means**2, axis=0), np.finfo(float).tiny)
    power = np.abs(np.fft.rfft(means, 2 * n, axis=0)) ** 2 / variance
    peak, column = np.unravel_index(np.argmax(power), power.shape)
    frequency, step = float(peak) / (2 * n), 1.0 / (2 * n)
    for _ in range(2):
        finer = frequency + step * np.linspace(-1.0, 1.0, 2 * FINER + 1)
        waves = np.exp(-2j * np.pi * np.outer(finer, time))
        frequency, step = float(finer[np.argmax(np.abs(waves @ means[:, column]))]), step / FINER
    if frequency * n < BLOCKS - 0.5:
        return None
    wave = means[:, column] * np.exp(-2j * np.pi * frequency * time)
    parts = np.array([part.mean() for part in np.array_split(wave, BLOCKS)])
    in_step = abs(parts.mean()) ** 2 / np.mean(np.abs(parts) ** 2)
    if in_step <= IN_STEP:
        return None
    lengths = np.arange(1, max(int(frequency * n / BLOCKS), 1) + 1) / frequency  # of one period, two, three, ...
    whole = abs(lengths - np.round(lengths)) <= WHOLE / frequency
    return round(float(lengths[np.argmax(whole)]))  # one, if no number of them is whole
