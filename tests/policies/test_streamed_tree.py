"""Trees that keep no samples: what they count, beside trees that keep them; how large they may become; their errors."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import conebandit as cb
from conebandit.experiment.declaration import Experiment
from conebandit.experiment.policy import make_policy
from conebandit.kernels import adaptive_stream, tree, tree_stream
from conebandit.kernels import adaptive_tree as adaptive
from conebandit.policies import streamed_tree
from conebandit.validate.storage import PolicyFileError

ORTHANT = cb.Cone.orthant(2)
PRESETS = ("paper", "sound", "adaptive")
QUICK = {"sound": {"sigma": 0.1, "holder": 0.4}, "paper": {"delta": 0.3}, "adaptive": {}}


def both(dim=2, preset="sound", n_arms=3, **options):
    """The same tree with samples and without."""
    make = {"n_arms": n_arms, "cone": ORTHANT, "context_dim": dim, "preset": preset, **QUICK[preset], **options}
    return cb.ConeTree(**make, history="exact"), cb.ConeTree(**make, history="stream")


def a_log(seed, rounds, dim, n_arms=3):
    """Contexts that crowd in a corner, some on the edges of bins; arms; rewards that jump, some of them not known."""
    rng = np.random.default_rng(seed)
    xs = rng.random((rounds, dim)) ** rng.choice([1, 3])
    xs[::17] = rng.integers(0, 9, xs[::17].shape) / 8
    arms = rng.integers(n_arms, size=rounds)
    rewards = np.where(xs[:, :1] > 0.5, arms[:, None], -arms[:, None]) + 0.1 * rng.standard_normal((rounds, 2))
    rewards[rng.random(rewards.shape) < 0.1] = np.nan
    return xs, arms, rewards


def learn(policy, log):
    for x, arm, reward in zip(*log, strict=True):
        policy.observe(x, int(arm), reward)


def bins(policy):
    """Contexts that every leaf has seen, and since when, by its level and its place there."""
    links, dim = policy.state()["links"], policy.context_dim
    nodes, found = [0], {}
    for node in nodes:
        level, _, child, _, since, seen = links[node].tolist()
        if child >= 0:
            nodes += range(child, child + 2**dim)
        else:
            found[level, tuple(_corner(links, node, dim))] = seen, since
    return found


def inside(level, corner, xs):
    """Which contexts are in a bin; it is open above, except at the edge of the cube."""
    return (np.minimum(np.floor(xs * 2.0**level), 2.0**level - 1) == corner).all(axis=1)


def _corner(links, node, dim):
    """Which bin of its level a node is, along each coordinate."""
    parent = links[node, tree.PARENT]
    if parent < 0:
        return np.zeros(dim)
    first = max(links[parent, tree.CHILD], links[parent, tree_stream.AHEAD])
    return 2 * _corner(links, parent, dim) + [(node - first) >> m & 1 for m in range(dim)]


# ---- what they count -------------------------------------------------------------------------------------------------


@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 10**6), dim=st.integers(1, 3), rounds=st.integers(200, 2500))
def test_a_bin_has_counted_everything_since_it_began(seed, dim, rounds):
    """Counts and sums of leaves and of parts ahead of them, which this test finds by itself, bit for bit."""
    xs, arms, rewards = log = a_log(seed, rounds, dim)
    _, policy = both(dim)
    learn(policy, log)
    state = policy.state()
    for node, (level, parent, _, _, since, seen) in enumerate(state["links"]):
        corner = _corner(state["links"], node, dim)
        here = np.flatnonzero(inside(level, corner, xs))
        here = here[here >= since]
        if state["links"][node, tree.CHILD] >= 0:  # a bin that was split is not counted in any more
            here = here[:seen]
        assert seen == len(here), (node, parent)
        for k in range(3):
            rows = rewards[here[arms[here] == k]]
            known = ~np.isnan(rows)
            np.testing.assert_array_equal(state["tallies"][node, k, tree.COUNT :], known.sum(axis=0))
            sums = [sum(rows[known[:, m], m].tolist(), 0.0) for m in range(2)]
            np.testing.assert_array_equal(state["moments"][node, k, :2], sums)


@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 10**6), dim=st.integers(1, 3), preset=st.sampled_from(["paper", "sound"]))
def test_little_is_missing_in_the_bins_of_the_same_tree(seed, dim, preset):
    """Where both trees have a bin, the counts are the same but for samples from before it began to count."""
    xs, _, _ = log = a_log(seed, 2500, dim)
    exact, stream = both(dim, preset)
    learn(exact, log)
    learn(stream, log)
    kept, constants = bins(exact), stream._state.constants
    for (level, corner), (seen, since) in bins(stream).items():
        missing = inside(level, corner, xs[:since]).sum()
        if (level, corner) in kept:
            assert kept[level, corner][0] - seen == missing
        # A bin begins to count when the one above has seen so many, and may lack what that one lacks.
        needed = constants[tree.SPLIT_AT] / constants[tree.BIAS : tree.BIAS + level] ** 2
        at_least = max(2**dim // tree_stream.ROWS_PER_CONTEXT, 1)
        assert missing <= np.maximum(np.floor(tree_stream.EARLY * needed), at_least).sum() + level
    assert kept.keys() & bins(stream).keys()
    # A tree splits a bin by what it has counted, so this one is never ahead of the other.
    assert stream.n_leaves <= exact.n_leaves


@pytest.mark.parametrize("dim", [1, 2, 4])
def test_the_adaptive_tree_is_the_same_until_its_second_split(dim):
    """Tests of the root are the same bit for bit, and halves learn from sums what they would from samples."""
    log = a_log(3, 3000, dim)
    exact, stream = both(dim, "adaptive")
    for x, arm, reward in zip(*log, strict=True):
        for policy in (exact, stream):
            policy.observe(x, int(arm), reward)
        assert exact.n_leaves == stream.n_leaves
        if exact.n_leaves > 1:
            break
    a, b = exact._state, stream._state
    assert exact.n_leaves == 2
    for name in ("boxes", "ties", "counts"):
        np.testing.assert_array_equal(getattr(a, name)[:3], getattr(b, name)[:3])
    np.testing.assert_array_equal(a.links[:3, adaptive.SEEN], b.links[:3, adaptive.SEEN])
    np.testing.assert_allclose(a.covariances[:3], b.covariances[:3], rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(a.coefficients[:3], b.coefficients[:3], rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("dim", [1, 2, 3, 5])
def test_parts_have_the_sums_of_the_samples_in_them(dim):
    xs, arms, rewards = log = a_log(5, 60, dim)
    _, policy = both(dim, "adaptive")
    learn(policy, log)  # too few for a test
    state = policy._state
    assert policy.n_leaves == 1
    sides = (xs >= 0.5).astype(int)
    finer = (xs >= 0.25 + 0.5 * sides).astype(int)
    parts = {(adaptive_stream.half(j, s)): sides[:, j] == s for j in range(dim) for s in range(2)}
    if dim <= streamed_tree.MAX_FOR_QUARTERS:
        for j in range(dim):
            for s in range(2):
                for other in range(dim):
                    for t in range(2):
                        there = (finer if other == j else sides)[:, other] == t
                        parts[adaptive_stream.quarter(dim, j, s, other, t)] = (sides[:, j] == s) & there
    assert sorted(parts) == list(range(state.sums.shape[1]))
    p = state.terms.shape[0]
    phi = np.empty((60, p))
    for i in range(60):
        adaptive.features(state, 0, xs, i, phi[i])
    y = rewards - state.anchor
    for part, there in parts.items():
        assert state.contexts[0, part] == there.sum()
        for k in range(3):
            for m in range(2):
                rows = there & (arms == k) & ~np.isnan(y[:, m])
                f, z = phi[rows], y[rows, m]
                triangle = (f.T @ f)[np.tril_indices(p)]
                np.testing.assert_allclose(
                    state.sums[0, part, k, m], [rows.sum(), z @ z, *(f.T @ z), *triangle], atol=1e-12
                )


@pytest.mark.parametrize("preset", PRESETS)
def test_deciding_changes_nothing(preset):
    _, policy = both(2, preset)
    learn(policy, a_log(1, 1500, 2))
    before = policy.state()
    answers = [policy.decide([0.3, 0.7], key)[:2] for key in range(50)]
    policy.front([0.3, 0.7]), policy.explain([0.3, 0.7])
    assert answers == [policy.decide([0.3, 0.7], key)[:2] for key in range(50)]
    for name, array in policy.state().items():
        np.testing.assert_array_equal(array, before[name])


# ---- memory ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("preset", PRESETS)
def test_no_array_grows_with_the_observations(preset):
    exact, stream = both(1, preset)
    sizes = {}
    for policy in (exact, stream):
        for n in (4000, 16_000):
            learn(policy, a_log(2, n, 1))
            sizes[policy.history, n] = sum(array.nbytes for array in policy.state().values())
    assert sizes["exact", 16_000] > 4 * sizes["exact", 4000]
    assert sizes["stream", 16_000] < 3 * sizes["stream", 4000]
    assert not any(20_000 in array.shape for array in stream.state().values())


def test_many_coordinates_do_not_take_all_room_at_once():
    _, policy = both(10)
    learn(policy, a_log(1, 300, 10))
    assert policy.state()["size"][1] <= 1 + tree_stream.ROWS_PER_CONTEXT * 300


@pytest.mark.parametrize("preset", PRESETS)
def test_the_tree_stops_growing_where_its_room_ends(preset, monkeypatch, tmp_path):
    _, free = both(2, preset)
    monkeypatch.setattr(streamed_tree, "MAX_BYTES", 150_000 if preset == "adaptive" else 5000)
    _, policy = both(2, preset)
    most = int(policy._state.most[0] if preset == "adaptive" else policy._state.constants[tree_stream.MOST_NODES])
    log = a_log(4, 6000, 2)
    learn(policy, log)
    learn(free, log)
    nodes, wanted = (int(p.state()["size"][1]) for p in (policy, free))
    assert 1 < nodes <= most < wanted
    assert policy.n_observations == 6000
    assert np.isfinite(policy.front([0.9, 0.5]).means).all()
    policy.save(tmp_path / "full.npz")
    again = cb.load_policy(tmp_path / "full.npz")
    learn(again, a_log(6, 500, 2))
    assert int(again.state()["size"][1]) <= most


# ---- files, declarations and errors ----------------------------------------------------------------------------------


@pytest.mark.parametrize("preset", PRESETS)
def test_a_saved_tree_goes_on_alike(preset, tmp_path):
    _, policy = both(2, preset)
    learn(policy, a_log(1, 1000, 2))
    policy.save(tmp_path / "a.npz")
    again = cb.load_policy(tmp_path / "a.npz")
    assert again.settings == policy.settings
    assert policy.settings["history"] == "stream"
    again.save(tmp_path / "b.npz")
    assert (tmp_path / "a.npz").read_bytes() == (tmp_path / "b.npz").read_bytes()
    for one in (policy, again):
        learn(one, a_log(2, 1000, 2))
    for name, array in policy.state().items():
        np.testing.assert_array_equal(array, again.state()[name])
    assert policy.n_leaves > 1


def test_files_of_trees_with_samples_say_nothing_new(tmp_path):
    exact, stream = both(1)
    assert "history" not in exact.saved()[1]
    assert stream.saved()[1]["history"] == "stream"
    exact.save(tmp_path / "exact.npz")
    arrays = dict(np.load(tmp_path / "exact.npz"))
    stream.save(tmp_path / "stream.npz")
    np.savez(tmp_path / "mixed.npz", **dict(np.load(tmp_path / "stream.npz")) | {"links": arrays["links"][:0]})
    with pytest.raises(PolicyFileError, match="damaged: array"):
        cb.load_policy(tmp_path / "mixed.npz")


@pytest.mark.parametrize("preset", PRESETS)
def test_an_experiment_may_ask_for_it(preset):
    declaration = {
        "id": "e",
        "arms": ["a", "b"],
        "metrics": [{"name": "m"}],
        "context": [{"name": "x", "low": 0, "high": 1}],
        "policy": {"name": "ConeTree", "preset": preset, "history": "stream"},
    }
    experiment = Experiment.from_dict(declaration)
    assert make_policy(experiment, experiment.arms).settings["history"] == "stream"


def test_wrong_arguments_are_refused():
    with pytest.raises(ValueError, match="history must be 'exact' or 'stream'; got 'all'"):
        cb.ConeTree(3, ORTHANT, 1, history="all")
    with pytest.raises(ValueError, match=r"history='stream' takes \d+ MB for each bin .*; use history='exact'"):
        cb.ConeTree(50, ORTHANT, 60, preset="adaptive", history="stream")
    assert cb.ConeTree(50, ORTHANT, 60, preset="adaptive").n_leaves == 1
