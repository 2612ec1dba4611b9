"""Blocks of contexts: their rows against a plain twin, how they are chosen, and what the monitor makes of them."""

from itertools import combinations

import numpy as np
import pytest
from scipy import stats

import conebandit as cb
from conebandit.diagnose.dependence import Blocks, choose_blocks
from conebandit.diagnose.summaries import MAX_SET_ASIDE, BlockSummaries


def plain_rows(x, aside, length, gap):
    """Rows of blocks, and the pairs that are furthest off, from the definitions."""
    kept = x[:aside]
    while len(kept) > MAX_SET_ASIDE:
        kept = kept[::2]

    def score(rows):
        below = (kept[:, None] < rows).sum(axis=0) + (kept[:, None] <= rows).sum(axis=0)
        return (below + 1) / (len(kept) + 1) - 1

    usual = score(kept)
    rows, furthest = [], []
    for start in range(aside, len(x) - length + 1, length):
        u = score(x[start + gap : start + length])
        off = []
        for i, j in combinations(range(x.shape[1]), 2):
            product, before = u[:, i] * u[:, j], usual[:, i] * usual[:, j]
            off.append(abs(product.mean() - before.mean()) / before.std() if before.std() > 0 else 0.0)
        rows.append([*u.mean(axis=0), *abs(u).mean(axis=0), *([max(off)] if off else [])])
        furthest.append(int(np.argmax(off)) if off else 0)
    return np.array(rows), furthest


@pytest.mark.parametrize("dim", [1, 2, 4])
@pytest.mark.parametrize("kind", ["smooth", "ties", "huge", "tiny"])
def test_rows_against_a_plain_twin(dim, kind, rng):
    x = rng.standard_normal((2700, dim))
    x = {"smooth": x, "ties": np.round(x), "huge": 1e300 * x, "tiny": 1e-300 * x}[kind]
    for aside, length, gap in ((64, 10, 0), (2500, 16, 5)):
        rows, furthest = plain_rows(x, aside, length, gap)
        summaries = BlockSummaries(dim, Blocks(length, gap), aside, marginals=True, pairs=True)
        parts = [summaries.feed(part) for part in np.array_split(x, [1, 50, 64, 71, 1100, 2501])]
        np.testing.assert_allclose(np.vstack([found for _, (found, _) in parts]), rows, atol=1e-12)
        assert np.concatenate([pairs for _, (_, pairs) in parts]).tolist() == furthest


def test_blocks_that_end_by_hand_are_as_those_of_a_fixed_length(rng):
    x = rng.standard_normal((3000, 2))
    x[2000:] += 1
    by_number, by_hand = cb.ShiftMonitor(2, block=50), cb.ShiftMonitor(2, block="manual")
    by_number.update_many(x)
    for part in np.split(x, 60):
        by_hand.update_many(part)
        by_hand.end_block()
    assert by_hand.alarm == by_number.alarm is not None
    assert by_hand.evidence == by_number.evidence
    by_hand.end_block()  # a block without contexts says nothing
    assert by_hand.evidence == by_number.evidence
    with pytest.raises(ValueError, match="only with block='manual'"):
        by_number.end_block()


def autoregressive(rng, n, correlation, dim=1):
    x = rng.standard_normal((n, dim))
    for t in range(1, n):
        x[t] = correlation * x[t - 1] + np.sqrt(1 - correlation**2) * x[t]
    return x


def test_independent_contexts_need_no_blocks():
    """At most 1 % are taken for dependent; more than 6 of 150 with probability 1e-3."""
    chosen = [choose_blocks(np.random.default_rng(seed).random((511, 3))) for seed in range(150)]
    assert sum(blocks != Blocks(1) for blocks in chosen) <= stats.binom.ppf(1 - 1e-3, 150, 0.01)


def test_blocks_span_dependence_and_periods(rng):
    assert choose_blocks(autoregressive(rng, 511, 0.5)).length >= 16
    assert choose_blocks(rng.normal(np.sin(2 * np.pi * np.arange(2047) / 100))[:, None]).length == 100
    assert choose_blocks(np.arange(1023.0)[:, None]) is None  # nothing but a trend
    assert choose_blocks(np.zeros((511, 2))) == Blocks(1)
    assert choose_blocks((np.arange(511.0) * 7 % 40)[:, None]) == Blocks(40)  # seven periods of 40 / 7


def test_false_alarms_with_blocks_are_at_most_alpha():
    """At alpha = 0.2, so that a broken promise shows in 60 streams; fails by chance with probability below 1e-4."""
    for options in ({"block": 16, "gap": 2}, {"block": "auto"}):
        alarms = 0
        for seed in range(60):
            x = autoregressive(np.random.default_rng(seed), 4000, 0.3, 2)
            alarms += cb.ShiftMonitor(2, alpha=0.2, seed=seed, **options).update_many(x)
        assert alarms <= stats.binom.ppf(1 - 1e-4, 60, 0.2)


def test_one_pair_of_ten_is_found_and_named():
    """In all of ten streams: of 100 others, `benchmarks/shift_streams.py` missed none."""
    named = 0
    for seed in range(10):
        rng = np.random.default_rng([5, seed])
        x = rng.standard_normal((6000, 10))
        x[2000:, 7] = 0.9 * x[2000:, 3] + np.sqrt(0.19) * x[2000:, 7]
        monitor = cb.ShiftMonitor(10, seed=seed)
        monitor.update_many(x)
        assert monitor.alarm is not None
        named += monitor.alarm.pair == (3, 7)
    assert named >= 5


def test_a_change_is_seen_with_blocks_and_its_coordinate_named(rng):
    x = autoregressive(rng, 12_000, 0.3, 3)
    x[8000:, 1] += 1
    monitor = cb.ShiftMonitor(3, block=64)
    monitor.update_many(x)
    assert monitor.alarm.coordinate == 1
    assert 8000 < monitor.alarm.at < 9000
    assert abs(monitor.alarm.change_point - 8000) <= 128
    assert monitor.snapshot().alarm == monitor.alarm
    np.testing.assert_array_equal(monitor.recent(), x[-512:])


@pytest.mark.parametrize("options", [{"block": "auto"}, {"block": 16}])
@pytest.mark.parametrize("bad", [3, 400, 700])
def test_a_context_that_is_not_finite_is_refused_and_those_before_it_are_seen(options, bad, rng):
    x = rng.random((800, 2))
    x[bad, 1] = np.inf
    monitor = cb.ShiftMonitor(2, **options)
    with pytest.raises(ValueError, match=f"context {bad} is .*inf"):
        monitor.update_many(x)
    assert monitor.n_contexts == bad
