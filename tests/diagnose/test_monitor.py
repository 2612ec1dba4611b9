"""The monitor against a plain twin, its ranks against uniformity, and what it says about shifts."""

import copy
import itertools
import json
import pickle
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

import conebandit as cb
from conebandit.diagnose import watches
from conebandit.diagnose.monitor import _kept
from conebandit.diagnose.snapshot import filled_radius
from conebandit.kernels import monitor as kernels
from conebandit.validate import storage
from conebandit.validate.storage import PolicyFileError

BEFORE = Path(__file__).parents[1] / "data" / "before"

# ---- a plain twin ---------------------------------------------------------------------------------------------------


class PlainTree:
    """A stream's tree as the list of the ways that contexts took through it: "LRR" is left, right, right."""

    def __init__(self, keys, depth):
        self.depth, self.cuts, self.ways = depth, {}, []
        self.plant(keys, "")

    def plant(self, keys, way):
        """Balanced, from all keys: the middle one cuts."""
        if not keys:
            return
        axis = len(way) % len(keys[0])
        keys = sorted(keys, key=lambda k: k[axis])
        half = len(keys) // 2
        self.cuts[way] = keys[half]
        self.ways.append(way)
        self.plant(keys[:half], way + "L")
        self.plant(keys[half + 1 :], way + "R")

    def units(self, way):
        return 1 + sum(other.startswith(way) for other in self.ways)

    def rank(self, key):
        """The share of the leaf into which a context falls; adds the context."""
        way = ""
        while way in self.cuts:
            axis = len(way) % len(key)
            way += "L" if key[axis] < self.cuts[way][axis] else "R"
        if len(way) < self.depth:
            self.cuts[way] = key
        below = sum(self.units(way[:i] + "L") for i in range(len(way)) if way[i] == "R")
        low, high = below / self.units(""), (below + self.units(way)) / self.units("")
        self.ways.append(way)
        return low, high


def below(side, k, u):
    """What a fixed bet has below u."""
    if side == kernels.LOW:
        return u**k
    if side == kernels.HIGH:
        return 1 - (1 - u) ** k
    if side == kernels.OUT:
        return 0.5 * (2 * u) ** k if u < 0.5 else 1 - 0.5 * (2 - 2 * u) ** k
    return 0.5 + 0.5 * np.sign(2 * u - 1) * abs(2 * u - 1) ** k


def cut_off(side, k, low, high, most):
    """The mean of a fixed bet that pays at most so much: piece by piece, steep or not."""
    edge = (k / most) ** (1 / (1 - k))  # the distance from the side at which it would pay more
    steep = {
        kernels.LOW: [(0, edge)],
        kernels.HIGH: [(1 - edge, 1)],
        kernels.OUT: [(0, edge / 2), (1 - edge / 2, 1)],
        kernels.IN: [(0.5 - edge / 2, 0.5 + edge / 2)],
    }[side]
    mass, saved = below(side, k, high) - below(side, k, low), 0.0
    for a, b in steep:
        saved += below(side, k, b) - below(side, k, a) - most * (b - a)
        first, last = max(a, low), min(b, high)
        if first < last:
            mass -= below(side, k, last) - below(side, k, first) - most * (last - first)
    return mass / (high - low) + saved


class PlainBets:
    """The bets of a stream, one step at a time."""

    def __init__(self, limit):
        self.limit, self.rounds = limit, 0
        self.wealth = np.zeros(len(kernels.SHARES))
        self.lately = [np.full(kernels.BINS, 1 / kernels.BINS) for _ in kernels.MEMORY]
        self.cut_offs = 0

    def odds(self, low, high, stake, bound):
        for side, k, money in zip(kernels.SIDES, kernels.POWERS, stake, strict=False):
            if bound and k < 1 and self.limit / money < kernels.MAX_ODDS:
                self.cut_offs += 1
                yield cut_off(side, k, low, high, self.limit / money)
            else:
                yield (below(side, k, high) - below(side, k, low)) / (high - low)
        edges = np.arange(kernels.BINS + 1) / kernels.BINS
        inside = np.maximum(np.minimum(edges[1:], high) - np.maximum(edges[:-1], low), 0) / (high - low)
        for i, memory in enumerate(kernels.MEMORY):
            yield 1 - kernels.TRUST + kernels.TRUST * kernels.BINS * (self.lately[i] @ inside)
            self.lately[i] = (1 - 1 / memory) * self.lately[i] + inside / memory

    def settle(self, low, high, bound):
        cash = (1 + np.array([self.rounds, self.rounds + 1]) / watches.PATIENCE) ** -0.75
        stake = self.wealth + (cash[0] - cash[1]) * np.array(kernels.SHARES)
        self.wealth = stake * list(self.odds(low, high, stake, bound))
        self.rounds += 1
        return cash[1] + self.wealth.sum()


def plain_columns(x, half):
    """Coordinates and, with several of them, level and spread."""
    if x.shape[1] == 1:
        return x
    first = x[:half, :, None]
    twice = np.sum(first < x.T, axis=0) + np.sum(first <= x.T, axis=0) + 1  # of the rank, (d, n)
    low, high = np.log(twice / (2 * half + 2)), np.log((2 * half + 2 - twice) / (2 * half + 2))
    level, spread = np.zeros(len(x)), np.zeros(len(x))
    for a, b in zip(low, high, strict=True):  # one after the other: another order of adding would be another rounding
        level, spread = level + (a - b), spread - np.minimum(a, b)
    return np.column_stack([x, level, spread])


@pytest.mark.untraced
@pytest.mark.parametrize("dim", [1, 2, 3, 6])
@pytest.mark.parametrize("ties", [False, True])
def test_against_a_plain_twin(dim, ties, rng):
    n, reference, half = 400, 31, 16
    x = rng.random((n, dim))
    x[300:] **= 4
    if ties:
        x = np.round(8 * x) / 8
    monitor = cb.ShiftMonitor(dim, reference=reference, seed=5, window=20, pairs=False)
    values = plain_columns(x, half)
    n_columns = values.shape[1]
    keys = [
        [(v, kernels.tie_breaker(np.uint64(5), t, c, n_columns)) for c, v in enumerate(r)] for t, r in enumerate(values)
    ]
    columns = [[c] for c in range(n_columns)] + ([list(range(dim))] if dim > 1 else [])
    trees = [
        PlainTree(
            [[keys[t][c] for c in look] for t in range(half if dim <= look[0] else 0, reference)], 5 + watches.GROWTH
        )
        for look in columns
    ]
    bets = [PlainBets(len(trees) / 0.01) for _ in trees]
    monitor.update_many(x[:reference])
    alarm = None
    for t in range(reference, n):
        monitor.update(x[t])
        wealth = []
        for look, tree, bet in zip(columns, trees, bets, strict=True):
            wealth.append(bet.settle(*tree.rank([keys[t][c] for c in look]), bound=alarm is None))
        if alarm is None and max(wealth) >= 100 * len(wealth):
            alarm = t + 1, int(np.argmax(wealth))
    assert monitor.evidence == pytest.approx(max(wealth) / len(wealth))
    for s, bet in enumerate(bets):
        np.testing.assert_allclose(monitor._watches[0].bets.state.bets[s, kernels.WEALTH], bet.wealth, rtol=1e-8)
    assert alarm is not None
    assert sum(bet.cut_offs for bet in bets) > 0
    assert (monitor.alarm.at, monitor.alarm.coordinate) == (alarm[0], alarm[1] if alarm[1] < dim else None)
    np.testing.assert_array_equal(monitor.recent(), x[-20:])


def test_one_by_one_and_in_any_pieces(rng):
    x = rng.random((1300, 2))
    x[700:] **= 3
    whole, single, pieces = (cb.ShiftMonitor(2, reference=127, seed=3) for _ in range(3))
    whole.update_many(x)
    for row in x:
        single.update(row)
    for part in np.array_split(x, [0, 1, 100, 127, 128, 500]):
        pieces.update_many(part)
    assert whole.alarm is not None
    for other in (single, pieces):
        assert other.alarm == whole.alarm
        for a, b in zip(_kept(other).values(), _kept(whole).values(), strict=True):
            np.testing.assert_array_equal(a, b)


def test_copies_go_their_own_ways(rng):
    x = rng.random((400, 2))
    monitor = cb.ShiftMonitor(2, reference=127)
    monitor.update_many(x[:200])
    copies = [copy.deepcopy(monitor), pickle.loads(pickle.dumps(monitor))]
    before = [a.copy() for a in _kept(copies[0]).values()]
    monitor.update_many(x[200:])
    for other in copies:
        for a, b in zip(_kept(other).values(), before, strict=True):
            np.testing.assert_array_equal(a, b)
        other.update_many(x[200:])
        for a, b in zip(_kept(other).values(), _kept(monitor).values(), strict=True):
            np.testing.assert_array_equal(a, b)


def test_bets_are_fair(rng):
    """Over any division of [0, 1], the odds of every bet average to one."""
    ends = np.sort(np.concatenate([[0.0, 0.5, 1.0], rng.random(40), rng.random(10) * 1e-3]))
    group, odds = np.zeros((kernels.ROWS, kernels.LANE)), []
    for low, high in itertools.pairwise(ends):
        group[kernels.LOWS], group[kernels.HIGHS] = low, high
        kernels.fixed_odds(group.ravel(), kernels.LANE)
        odds.append(group[kernels.ODDS * kernels.BETS :][: kernels.FIXED, 2].copy())
    odds = np.array(odds)
    assert (odds > 0).all()
    np.testing.assert_allclose(np.diff(ends) @ odds, 1.0, rtol=1e-12)
    assert sum(kernels.SHARES) == pytest.approx(1.0)
    for b, (side, power) in enumerate(zip(kernels.SIDES, kernels.POWERS, strict=True)):
        for most in (1.5, 30.0, 1e15) if power < 1 else ():
            cut = np.array([kernels.cut_off_odds(side, power, *pair, most) for pair in itertools.pairwise(ends)])
            assert np.diff(ends) @ cut == pytest.approx(1.0, rel=1e-12)
            assert cut.max() < most + 1
            if most == 1e15:
                np.testing.assert_allclose(cut, odds[:, b], rtol=1e-2)


# ---- ranks are uniform, whatever the law ----------------------------------------------------------------------------

LAWS = {
    "uniform": lambda rng, n: rng.random((n, 2)),
    "heavy": lambda rng, n: rng.standard_cauchy((n, 2)),
    "few values": lambda rng, n: rng.choice([0.0, 1.0, 5.0], (n, 2), p=[0.7, 0.2, 0.1]),
    "constant": lambda rng, n: np.ones((n, 2)),
    "dependent": lambda rng, n: np.repeat(rng.standard_normal((n, 1)), 2, axis=1) + rng.normal(0, 0.01, (n, 2)),
    "half and half": lambda rng, n: np.column_stack([rng.random(n), rng.random(n) * (rng.random(n) < 0.5)]),
}


def ranks(x, seed, reference=15):
    """A place at random within each rank, of all streams, (n - reference, S)."""
    monitor = cb.ShiftMonitor(x.shape[1], reference=reference, seed=seed, pairs=False)
    monitor.update_many(x[:reference])
    bets = monitor._watches[0].bets
    places = np.random.default_rng(seed).random((len(x), monitor.n_streams))
    found = np.empty((len(x) - reference, monitor.n_streams))
    for t in range(reference, len(x)):
        monitor.update(x[t])
        low, high = np.array(kernels._streams(bets.room, bets.at))[:, [kernels.LOWS, kernels.HIGHS]].T
        found[t - reference] = low + (high - low) * places[t]
    return found


@pytest.mark.untraced
@pytest.mark.parametrize("name", LAWS)
def test_ranks_are_uniform_and_independent(name):
    rng = np.random.default_rng(11)
    u = np.array([ranks(LAWS[name](rng, 19), seed) for seed in range(1000)])  # (runs, 4 contexts, 5 streams)
    for s in range(5):
        for t in (0, 3):
            assert stats.kstest(u[:, t, s], "uniform").pvalue > 1e-4
        # Pairs of successive ranks fill the square evenly: right after the reference dependence would be strongest.
        for first, second in ((0, 1), (1, 2), (0, 3)):
            table, *_ = np.histogram2d(u[:, first, s], u[:, second, s], bins=4, range=[[0, 1]] * 2)
            assert stats.chisquare(table.ravel()).pvalue > 1e-4


@pytest.mark.untraced
@pytest.mark.parametrize("name", ["dependent", "few values"])
def test_ranks_stay_uniform_in_a_grown_tree(name):
    rng = np.random.default_rng(12)
    u = np.array([ranks(LAWS[name](rng, 75), seed) for seed in range(600)])
    for s in range(5):
        for t in (20, 40, 59):
            assert stats.kstest(u[:, t, s], "uniform").pvalue > 1e-4
            table, *_ = np.histogram2d(u[:, t - 1, s], u[:, t, s], bins=3, range=[[0, 1]] * 2)
            assert stats.chisquare(table.ravel()).pvalue > 1e-4


# ---- alarms ---------------------------------------------------------------------------------------------------------


def first_alarm(before, after, seed, *, at=1500, n=3000, **options):
    rng = np.random.default_rng(seed)
    x = np.vstack([before(rng, at), after(rng, n - at)])
    monitor = cb.ShiftMonitor(x.shape[1], seed=seed, **options)
    monitor.update_many(x)
    return monitor.alarm


def normal(mean=0.0, deviation=1.0):
    return lambda rng, n: rng.normal(mean, deviation, (n, 1))


def two_peaks(rng, n):
    return rng.normal(0, 0.3, (n, 1)) + rng.choice([-1, 1], (n, 1))


def ones(share):
    return lambda rng, n: (rng.random((n, 1)) < share).astype(float)


CHANGES = {
    "level": (normal(), normal(0.7)),
    "level, down": (normal(), normal(-0.7)),
    "spread": (normal(), normal(0, 2)),
    "less spread": (normal(), normal(0, 0.5)),
    "two peaks": (normal(), two_peaks),
    "a rare value": (ones(0.05), ones(0.3)),
    "one of three": (lambda r, n: r.random((n, 3)), lambda r, n: r.random((n, 3)) ** [1, 1, 2]),
}


@pytest.mark.parametrize("name", CHANGES)
def test_changes_are_seen_and_dated(name):
    alarms = [first_alarm(*CHANGES[name], seed) for seed in range(20)]
    assert all(a is not None and 1500 < a.at < 1800 for a in alarms)
    assert abs(np.median([a.change_point for a in alarms]) - 1500) <= 30
    if name == "one of three":
        assert all(a.coordinate == 2 for a in alarms)


def test_a_change_in_dependence_alone_is_seen_by_the_joint_stream():
    def apart(rng, n):
        return rng.random((n, 2))

    def together(rng, n):
        x = rng.random((n, 1))
        return np.hstack([x, (x + rng.normal(0, 0.1, (n, 1))) % 1.0])  # each coordinate alone is as before

    # From 1: the stream of seed 0 raises a false alarm, as one in a hundred may.
    alarms = [first_alarm(apart, together, seed) for seed in range(1, 11)]
    assert all(a is not None and a.at > 1500 and a.coordinate is None for a in alarms)


def test_alarms_stay_until_reset(rng):
    monitor = cb.ShiftMonitor(1, reference=127)
    assert not monitor.update_many(rng.random((600, 1)))
    assert monitor.update_many(rng.random((200, 1)) ** 4)
    first = monitor.alarm
    assert monitor.update_many(rng.random((3000, 1)))
    assert monitor.alarm == first
    assert 600 < first.at < 700
    monitor.reset()
    assert monitor.alarm is None
    assert not monitor.update_many(rng.random((2000, 1)))


def test_wealth_does_not_overflow(rng):
    monitor = cb.ShiftMonitor(1, reference=127)
    monitor.update_many(np.vstack([rng.random((20_000, 1)), rng.random((5000, 1)) - 5]))
    assert np.isfinite(monitor._watches[0].bets.state.bets).all()
    assert monitor.evidence > 1e100


# ---- snapshots ------------------------------------------------------------------------------------------------------


def test_a_snapshot_says_where_recent_contexts_are(rng):
    monitor = cb.ShiftMonitor(2, reference=511, window=400)
    before, after = rng.random((511, 2)) * [0.5, 1.0], rng.random((1000, 2))
    monitor.update_many(before)
    monitor.update_many(after)
    shot = monitor.snapshot(h=0.1, level=1)
    late = after[-400:]
    assert shot.contexts == 1511
    assert shot.alarm == monitor.alarm
    assert shot.alarm is not None
    assert shot.rho == cb.rho(before, late, 0.1)
    low, high = np.vstack([before, late]).min(axis=0), np.vstack([before, late]).max(axis=0)
    for cell, was, now in zip(shot.cells, shot.before, shot.after, strict=True):
        for rows, share in ((before, was), (late, now)):
            index = np.minimum((rows - low) / (high - low) * 2, 1.999).astype(int)
            assert share == pytest.approx((index == cell).all(axis=1).mean())
    assert shot.before.sum() == pytest.approx(1)
    assert shot.little_support == pytest.approx(shot.after[shot.before * 511 < 5].sum())
    assert 0.4 < shot.little_support < 0.6
    assert monitor.snapshot().level == 2


def test_the_default_radius_has_few_empty_balls(rng):
    for rows in (rng.random((500, 1)), rng.random((500, 4))):
        h = filled_radius(rows)
        assert cb.rho(rows, rows, h).empty <= 0.05
        assert cb.rho(rows, rows, h / 2).empty > 0.05 or h == 2**-10


def test_a_snapshot_needs_recent_contexts():
    with pytest.raises(ValueError, match="a snapshot needs contexts after the reference of 15; got 0"):
        cb.ShiftMonitor(1, reference=15).snapshot()


# ---- keeping, and what users get wrong ------------------------------------------------------------------------------


@pytest.mark.parametrize("seen", [50, 700])
@pytest.mark.parametrize(
    "options", [{"reference": 127}, {"reference": 127, "block": "auto"}, {"block": 16, "gap": 2}, {"block": "manual"}]
)
def test_saved_and_loaded_it_goes_on_as_before(seen, options, rng, tmp_path):
    x = rng.random((1500, 2))
    monitor = cb.ShiftMonitor(2, alpha=0.05, window=100, seed=9, **options)
    monitor.update_many(x[:seen])
    monitor.save(tmp_path / "monitor.npz")
    again = cb.ShiftMonitor.load(tmp_path / "monitor.npz")
    for m in (monitor, again):
        m.update_many(x[seen:])
    for a, b in zip(_kept(again).values(), _kept(monitor).values(), strict=True):
        np.testing.assert_array_equal(a, b)


def test_a_file_from_before_blocks_goes_on_bit_for_bit():
    """Written at context 700 by a monitor without blocks and pairs; what it then said of 800 more was noted."""
    monitor = cb.ShiftMonitor.load(BEFORE / "monitor.npz")
    assert (monitor.block, monitor.pairs, monitor.n_contexts, monitor.alarm) == (1, False, 700, None)
    x = np.random.default_rng(3).random((1500, 2))
    x[1300:] **= 3
    monitor.update_many(x[700:])
    noted = json.loads((BEFORE / "monitor.json").read_text())
    assert monitor.evidence.hex() == noted["evidence"]
    assert [monitor.alarm.at, monitor.alarm.coordinate, monitor.alarm.change_point] == noted["alarm"]


def test_a_damaged_file_is_refused(tmp_path):
    cb.ShiftMonitor(1, reference=31).save(tmp_path / "monitor.npz")
    kind, options, arrays = storage.read(tmp_path / "monitor.npz")
    storage.write(tmp_path / "monitor.npz", kind, options, arrays | {"nodes": arrays["nodes"][:, :-1]})
    with pytest.raises(PolicyFileError, match="is damaged: nodes has shape"):
        cb.ShiftMonitor.load(tmp_path / "monitor.npz")


def test_a_file_of_an_earlier_monitor_is_refused(tmp_path):
    arrays = {"size": np.array([0, -1, -1, -1]), "cuts": np.zeros((1, 31, 2)), "lefts": np.zeros((1, 31), dtype=int)}
    options = {"context_dim": 1, "alpha": 0.01, "reference": 31, "window": 512, "seed": 0}
    storage.write(tmp_path / "monitor.npz", "ShiftMonitor", options, arrays)
    with pytest.raises(PolicyFileError, match="a version of conebandit whose monitor worked differently"):
        cb.ShiftMonitor.load(tmp_path / "monitor.npz")


def test_another_kind_of_file_is_refused(tmp_path):
    cb.ConeTree(2, cb.Cone.orthant(2), 1).save(tmp_path / "policy.npz")
    with pytest.raises(PolicyFileError, match="holds a ConeTree, not a ShiftMonitor"):
        cb.ShiftMonitor.load(tmp_path / "policy.npz")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"context_dim": 0}, "context_dim"),
        ({"context_dim": 1, "alpha": 0}, "alpha must be a number, above 0 and below 1"),
        ({"context_dim": 1, "reference": 500}, "one less than a power of two"),
        ({"context_dim": 1, "reference": 7}, "at least 15"),
        ({"context_dim": 1, "window": 0}, "window"),
        ({"context_dim": 1, "block": 0}, "block must be a positive integer; got 0"),
        ({"context_dim": 1, "block": "week"}, "block must be a number of contexts, 'auto' or 'manual'; got 'week'"),
        ({"context_dim": 1, "block": 8, "gap": 8}, "gap must be an integer, at least 0 and at most 7, less than block"),
        ({"context_dim": 1, "block": "auto", "gap": 1}, "gap must be left out"),
        ({"context_dim": 1, "block": 8, "reference": 3}, "at least 7"),
    ],
)
def test_wrong_options(options, message):
    with pytest.raises(ValueError, match=message):
        cb.ShiftMonitor(**options)


@pytest.mark.parametrize("seen", [3, 40])
def test_wrong_contexts(seen, rng):
    monitor = cb.ShiftMonitor(2, reference=31)
    with pytest.raises(ValueError, match=r"context must have shape \(2,\); got \(3,\)"):
        monitor.update([1, 2, 3])
    with pytest.raises(ValueError, match=r"contexts must have shape \(n, 2\)"):
        monitor.update_many([1.0, 2.0])
    x = rng.random((60, 2))
    x[seen, 1] = np.nan
    with pytest.raises(ValueError, match=f"context {seen} is .*nan.* Those before it were seen"):
        monitor.update_many(x)
    assert monitor.n_contexts == seen


@pytest.mark.parametrize("level", [-1, 51, 2.5, True])
def test_a_level_of_a_snapshot_is_checked(level, rng):
    monitor = cb.ShiftMonitor(context_dim=1)
    monitor.update_many(rng.random((1000, 1)))
    with pytest.raises(ValueError, match="level must be"):
        monitor.snapshot(level=level)
    assert len(monitor.snapshot(level=0).cells) == 1
    assert monitor.snapshot(level=50).level == 50
