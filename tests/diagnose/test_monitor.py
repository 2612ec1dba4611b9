"""The monitor against a plain twin, its ranks against uniformity, and what it says about shifts."""

import numpy as np
import pytest
from scipy import stats

import conebandit as cb
from conebandit.diagnose import monitor as module
from conebandit.kernels import monitor as kernels
from conebandit.policies import storage
from conebandit.policies.storage import PolicyFileError

# ---- a plain twin ---------------------------------------------------------------------------------------------------


class PlainStream:
    """One stream, written with lists: leaves by bisection of the reference, ranks by counting, wealth by products."""

    def __init__(self, reference, axis_of, tie):
        self.tie, self.axis_of = tie, axis_of
        self.leaves = []
        self.tree = self.grow(list(range(len(reference))), reference, 0)
        self.counts = [1] * len(self.leaves)
        self.ranks = []

    def key(self, x, t, axis):
        return (x[axis], self.tie(t, axis))

    def grow(self, members, reference, depth):
        if not members:
            self.leaves.append(None)
            return len(self.leaves) - 1
        axis = self.axis_of(depth)
        members = sorted(members, key=lambda i: self.key(reference[i], i, axis))
        half = len(members) // 2
        cut = self.key(reference[members[half]], members[half], axis)
        left = self.grow(members[:half], reference, depth + 1)
        return (axis, cut, left, self.grow(members[half + 1 :], reference, depth + 1))

    def rank(self, x, t, placing):
        node = self.tree
        while isinstance(node, tuple):
            axis, cut, left, right = node
            node = left if self.key(x, t, axis) < cut else right
        u = (sum(self.counts[:node]) + placing * self.counts[node]) / sum(self.counts)
        self.counts[node] += 1
        self.ranks.append(u)
        return u

    def wealth(self):
        """Of every bet: over all moments at which fresh wealth came, what has become of it."""
        n = len(self.ranks)
        cash = np.log(kernels.PATIENCE) / np.log(kernels.PATIENCE + np.arange(n + 1))
        gains = [
            np.array([module._TABLE[int(u * kernels.GRID), b] for u in self.ranks])
            for b in range(module._TABLE.shape[1])
        ]
        for memory in kernels.MEMORY:
            share, gain = np.full(kernels.BINS, 1 / kernels.BINS), []
            for u in self.ranks:
                j = int(u * kernels.BINS)
                gain.append(1 - kernels.TRUST + kernels.TRUST * kernels.BINS * share[j])
                share = share * (1 - 1 / memory)
                share[j] += 1 / memory
            gains.append(np.array(gain))
        return [sum(-np.diff(cash)[s] * np.prod(g[s:]) for s in range(n)) for g in gains], cash[-1]


@pytest.mark.parametrize("dim", [1, 2, 3])
@pytest.mark.parametrize("ties", [False, True])
def test_against_a_plain_twin(dim, ties, rng):
    x = rng.random((140, dim))
    if ties:
        x = np.round(4 * x) / 4
    monitor = cb.ShiftMonitor(dim, reference=31, seed=5, window=20)
    monitor.update_many(x)
    seed = np.uint64(5)
    richest = 0.0
    for s in range(monitor.n_streams):
        twin = PlainStream(
            x[:31],
            lambda depth, s=s: s if s < dim else depth % dim,
            lambda t, axis: kernels.tie_breaker(seed, t, axis, dim),
        )
        for t in range(31, 140):
            twin.rank(x[t], t, kernels.tie_breaker(seed, t, dim + s, dim))
        wealth, cash = twin.wealth()
        np.testing.assert_allclose(monitor._state.bets[s, :, kernels.WEALTH], wealth, rtol=1e-9)
        richest = max(richest, np.mean(wealth) + cash)
    assert monitor.evidence == pytest.approx(richest / monitor.n_streams)
    np.testing.assert_array_equal(monitor.recent(), x[120:])


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
        for a, b in zip(other._state, whole._state, strict=True):
            np.testing.assert_array_equal(a, b)


def test_fixed_bets_are_densities():
    assert module._TABLE.shape == (kernels.GRID, 8)
    np.testing.assert_allclose(module._TABLE.mean(axis=0), 1.0, rtol=1e-12)
    assert (module._TABLE > 0).all()
    low, high = module._TABLE[:, 1], module._TABLE[:, 4]  # 0.5 / sqrt(u), and mirrored
    assert low[256] == pytest.approx(0.5 / np.sqrt(256.5 / 1024), rel=1e-5)
    np.testing.assert_allclose(low, high[::-1], rtol=1e-9)
    out, inside = module._TABLE[:, 6], module._TABLE[:, 7]
    assert min(out[0], inside[512]) > 10
    assert max(out[512], inside[0]) < 0.8


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
    """The ranks of all streams, (n - reference, S)."""
    monitor = cb.ShiftMonitor(x.shape[1], reference=reference, seed=seed)
    monitor.update_many(x[:reference])
    found = np.empty((len(x) - reference, monitor.n_streams))
    for t in range(reference, len(x)):
        for s in range(monitor.n_streams):
            found[t - reference, s] = kernels._rank(
                monitor._state.cuts, monitor._state.lefts, np.uint64(seed), t, x[t : t + 1], 0, s
            )
    return found


@pytest.mark.parametrize("name", LAWS)
def test_ranks_are_uniform_and_independent(name):
    rng = np.random.default_rng(11)
    u = np.array([ranks(LAWS[name](rng, 19), seed) for seed in range(1000)])  # (runs, 4 contexts, 3 streams)
    for s in range(3):
        for t in (0, 3):
            assert stats.kstest(u[:, t, s], "uniform").pvalue > 1e-4
        # Pairs of successive ranks fill the square evenly: right after the reference dependence would be strongest.
        for first, second in ((0, 1), (1, 2), (0, 3)):
            table, *_ = np.histogram2d(u[:, first, s], u[:, second, s], bins=4, range=[[0, 1]] * 2)
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
    assert np.isfinite(monitor._state.bets).all()
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
        h = module.filled_radius(rows)
        assert cb.rho(rows, rows, h).empty <= 0.05
        assert cb.rho(rows, rows, h / 2).empty > 0.05 or h == 2**-10


def test_a_snapshot_needs_recent_contexts():
    with pytest.raises(ValueError, match="a snapshot needs contexts after the reference of 15; got 0"):
        cb.ShiftMonitor(1, reference=15).snapshot()


# ---- keeping, and what users get wrong ------------------------------------------------------------------------------


@pytest.mark.parametrize("seen", [50, 700])
def test_saved_and_loaded_it_goes_on_as_before(seen, rng, tmp_path):
    x = rng.random((1500, 2))
    monitor = cb.ShiftMonitor(2, alpha=0.05, reference=127, window=100, seed=9)
    monitor.update_many(x[:seen])
    monitor.save(tmp_path / "monitor.npz")
    again = cb.ShiftMonitor.load(tmp_path / "monitor.npz")
    for m in (monitor, again):
        m.update_many(x[seen:])
    for a, b in zip(again._state, monitor._state, strict=True):
        np.testing.assert_array_equal(a, b)


def test_a_damaged_file_is_refused(tmp_path):
    cb.ShiftMonitor(1, reference=31).save(tmp_path / "monitor.npz")
    kind, options, arrays = storage.read(tmp_path / "monitor.npz")
    storage.write(tmp_path / "monitor.npz", kind, options, arrays | {"cuts": arrays["cuts"][:, :-1]})
    with pytest.raises(PolicyFileError, match="is damaged: cuts has shape"):
        cb.ShiftMonitor.load(tmp_path / "monitor.npz")


def test_another_kind_of_file_is_refused(tmp_path):
    cb.ConeTree(2, cb.Cone.orthant(2), 1).save(tmp_path / "policy.npz")
    with pytest.raises(PolicyFileError, match="holds a ConeTree, not a ShiftMonitor"):
        cb.ShiftMonitor.load(tmp_path / "policy.npz")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"context_dim": 0}, "context_dim"),
        ({"context_dim": 1, "alpha": 0}, "alpha must lie between 0 and 1"),
        ({"context_dim": 1, "reference": 500}, "one less than a power of two"),
        ({"context_dim": 1, "reference": 7}, "at least 15"),
        ({"context_dim": 1, "window": 0}, "window"),
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
