"""The tree policy against its plain twin, its accounting, its state, and its errors."""

import json
import zipfile

import numpy as np
import pytest

import conebandit as cb
from conebandit.kernels import adaptive_tree, cells
from conebandit.kernels import tree as kernels
from conebandit.policies import registry
from conebandit.validate import storage
from conebandit.validate.storage import PolicyFileError

from ..plain_tree import PlainStreamedTree, PlainTree

C3 = cb.Cone.from_rays([[1, 0.6], [0.6, 1]])
THREE = cb.Cone.from_rays(np.eye(3) + 0.3)


def rewards_at(x, k, rng, objectives, sigma):
    """Arms that differ a lot, in all objectives, so that some are eliminated soon under any of the cones."""
    means = np.array([0.2 + 0.9 * (k % 3) + 0.1 * (m - 0.5) * x[0] for m in range(objectives)])
    return means + sigma * rng.standard_normal(objectives)


CASES = {
    "paper, d=1": (3, cb.Cone.orthant(2), 1, {"preset": "paper"}, 900),
    "paper, d=2, C3": (4, C3, 2, {"preset": "paper", "delta": 0.3}, 900),
    "sound, d=1": (3, cb.Cone.orthant(2), 1, {"preset": "sound", "sigma": 0.1, "holder": 0.3}, 900),
    "sound, d=2, C3": (4, C3, 2, {"preset": "sound", "sigma": 0.1, "holder": 0.1}, 900),
    "sound, d=3, M=3": (3, THREE, 3, {"preset": "sound", "sigma": 0.1, "holder": 0.4, "beta": 0.7}, 800),
    "sound, half-plane": (3, cb.Cone.from_weights([[1, 2]]), 1, {"preset": "sound", "sigma": 0.1}, 800),
    "sound, scalar": (3, cb.Cone.orthant(1), 2, {"preset": "sound", "sigma": 0.1, "holder": 0.3}, 800),
}


TWINS = {"exact": PlainTree, "stream": PlainStreamedTree}


@pytest.mark.untraced
@pytest.mark.parametrize("history", TWINS)
@pytest.mark.parametrize("case", CASES)
def test_every_decision_and_every_number_equals_the_plain_twin(case, history):
    n_arms, cone, dim, options, rounds = CASES[case]
    rng = np.random.default_rng(7)
    policy = cb.ConeTree(n_arms, cone, dim, seed=5, history=history, **options)
    plain = TWINS[history](n_arms, cone, dim, seed=5, **options)
    eliminated = 0
    for t in range(rounds):
        x = rng.random(dim) if t % 50 else rng.integers(0, 5, dim) / 4  # corners and boundaries of bins too
        decision = policy.decide(x, t)
        assert (decision.arm, decision.propensity) == plain.decide(x, t)
        reward = rewards_at(x, decision.arm, rng, cone.dim, 0.1)
        if options["preset"] == "paper":  # its radii never go below the side of a bin
            reward *= 10
        if t % 11 == 0:
            reward[t % cone.dim] = np.nan
        policy.observe(x, decision.arm, reward)
        plain.observe(x, decision.arm, reward)
        if t % 100 == 99:
            eliminated = _compare_all_leaves(policy, plain)
    assert len(plain.leaves) > 1
    assert eliminated > 0


def _compare_all_leaves(policy, plain):
    assert policy.n_leaves == len(plain.leaves)
    m, eliminated = policy.n_objectives, 0
    state = policy.state()
    for b in plain.leaves:
        middle = (np.array(b[1]) + 0.5) / 2 ** b[0]
        leaf = kernels.leaf_of(policy._state.links, middle)
        counts, sums, means, radii = plain.statistics(b)
        assert state["links"][leaf, kernels.SEEN] == len(plain.inside(b))
        np.testing.assert_array_equal(state["tallies"][leaf, :, kernels.COUNT :], counts)
        np.testing.assert_array_equal(state["moments"][leaf, :, :m], sums)  # bit for bit: same order of adding
        np.testing.assert_array_equal(state["moments"][leaf, :, m : 2 * m], means)
        np.testing.assert_allclose(state["moments"][leaf, :, 2 * m : 3 * m], radii, rtol=1e-12)
        active = set(np.flatnonzero(state["tallies"][leaf, :, kernels.ACTIVE]).tolist())
        assert active == plain.active[b]
        eliminated += policy.n_arms - len(active)
        if plain.front(b):
            assert list(policy.front(middle).arms) == plain.front(b)
    return eliminated


@pytest.mark.untraced
@pytest.mark.parametrize("dim", [1, 2, 3])
def test_accounting_is_exact_after_thousands_of_random_steps(dim):
    """Counts and sums of every leaf equal those of all past samples in its box, which this test finds by itself."""
    rng = np.random.default_rng(dim)
    policy = cb.ConeTree(4, cb.Cone.orthant(2), dim, preset="sound", sigma=0.05, holder=0.5)
    xs, arms, rewards = rng.random((6000, dim)) ** 2, rng.integers(4, size=6000), rng.random((6000, 2))
    rewards[rng.random((6000, 2)) < 0.1] = np.nan
    for t in range(6000):
        policy.observe(xs[t], int(arms[t]), rewards[t])
        if t % 1500 == 1499:
            _check_boxes(policy, xs[: t + 1], arms[: t + 1], rewards[: t + 1])
    assert policy.n_leaves > 2**dim


def _check_boxes(policy, xs, arms, rewards):
    covered = 0
    boxes = {tuple(b.lower): b for x in xs for b in [policy.explain(x).path[-1]]}
    state = policy.state()
    for box in boxes.values():
        inside = ((xs >= box.lower) & ((xs < box.upper) | (box.upper == 1))).all(axis=1)
        leaf = kernels.leaf_of(policy._state.links, (box.lower + box.upper) / 2)
        assert box.seen == inside.sum()
        covered += box.seen
        for k in range(policy.n_arms):
            r = rewards[inside & (arms == k)]
            np.testing.assert_array_equal(state["tallies"][leaf, k, kernels.COUNT :], (~np.isnan(r)).sum(axis=0))
            total = np.zeros(2)
            for row in np.nan_to_num(r):
                total += row
            np.testing.assert_array_equal(state["moments"][leaf, k, :2], total)
    assert covered == len(xs)


def test_the_printed_rule_drops_a_pareto_arm_that_the_sound_rule_keeps():
    """SETTLED 9: beside (.49, 5) the Pareto arm (.5, .5) goes once a small error puts it below on both facets."""
    for preset, kept in (("paper", False), ("sound", True)):
        policy = cb.ConeTree(2, cb.Cone.orthant(2), 1, preset=preset, delta=0.5)
        for t in range(6000):
            k = t % 2
            policy.observe([0.3], k, [[0.48, 0.5], [0.49, 5.0]][k])  # the true first coordinate of arm 0 is .5
        assert (0 in policy.decide([0.3], 0).active) == kept


def test_decide_is_pure_and_depends_on_the_key_alone(rng):
    policy = _trained(rng)
    before = policy.state()
    answers = [policy.decide([0.3, 0.7], key) for key in (1, "abc", b"abc", 2**70, -1, np.int64(5))]
    again = [policy.decide([0.3, 0.7], key) for key in (1, "abc", b"abc", 2**70, -1, np.int64(5))]
    assert [a[:2] for a in answers] == [a[:2] for a in again]
    _assert_same_state(before, policy.state())
    shares = np.bincount([policy.decide([0.3, 0.7], key).arm for key in range(4000)], minlength=4) / 4000
    active = policy.decide([0.3, 0.7], 0).active
    # Each share is binomial; five standard deviations, so a false alarm has probability below 1e-5.
    for k in range(4):
        expected = (k in active) / len(active)
        assert abs(shares[k] - expected) <= 5 * np.sqrt(expected * (1 - expected) / 4000)


def _trained(rng, n=3000, preset="sound"):
    options = {"sigma": 0.1, "holder": 0.1} if preset == "sound" else {}
    policy = cb.ConeTree(4, C3, 2, preset=preset, **options)
    for t in range(n):
        x = rng.random(2)
        k = policy.decide(x, t).arm
        policy.observe(x, k, rewards_at(x, k, rng, 2, 0.1))
    return policy


def _assert_same_state(a, b):
    assert a.keys() == b.keys()
    for name in a:
        np.testing.assert_array_equal(a[name], b[name], err_msg=name)


def test_explain_tells_when_by_whom_and_by_how_much(rng):
    policy = _trained(rng)
    told = policy.explain([0.3, 0.7])
    assert [b.level for b in told.path] == list(range(len(told.path)))
    for outer, inner in zip(told.path, told.path[1:], strict=False):
        assert (outer.lower <= inner.lower).all()
        assert (inner.upper <= outer.upper).all()
    assert (told.path[-1].lower <= [0.3, 0.7]).all()
    assert (told.path[-1].upper > [0.3, 0.7]).all()
    assert told.eliminated
    gone = {e.arm for e in told.eliminated}
    assert gone | set(told.active) == {0, 1, 2, 3}
    assert not gone & set(told.active)
    for e in told.eliminated:
        assert 0 < e.observation <= policy.n_observations
        assert e.by != e.arm
        assert e.margins.shape == (2,)
        assert (e.margins > 0).all()


def test_bounds_scale_contexts(rng):
    unit = cb.ConeTree(3, C3, 2, preset="sound", sigma=0.1)
    scaled = cb.ConeTree(3, C3, 2, preset="sound", sigma=0.1, bounds=[[-10, 10], [0, 200]])
    for t in range(2000):
        u = rng.integers(0, 2**20, 2) / 2**20
        x = [-10 + 20 * u[0], 200 * u[1]]
        k = unit.decide(u, t).arm
        assert scaled.decide(x, t).arm == k
        r = rewards_at(u, k, rng, 2, 0.1)
        unit.observe(u, k, r)
        scaled.observe(x, k, r)
    assert scaled.explain([0, 100]).path[0].lower.tolist() == [-10, 0]
    assert scaled.explain([10, 200]).path[-1].upper.tolist() == [10, 200]


# ---- saving ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("preset", ["paper", "sound"])
def test_saving_and_loading_is_bit_for_bit(preset, rng, tmp_path):
    policy = _trained(rng, preset=preset)
    policy.save(tmp_path / "a.npz")
    again = cb.load_policy(tmp_path / "a.npz")
    _assert_same_state(policy.state(), again.state())
    assert again.cone == policy.cone
    assert repr(again) == repr(policy)
    again.save(tmp_path / "b.npz")
    assert (tmp_path / "a.npz").read_bytes() == (tmp_path / "b.npz").read_bytes()
    for t in range(500):  # and it goes on alike
        x = rng.random(2)
        assert policy.decide(x, t)[:2] == again.decide(x, t)[:2]
        r = rewards_at(x, 1, rng, 2, 0.1)
        policy.observe(x, 1, r)
        again.observe(x, 1, r)
    _assert_same_state(policy.state(), again.state())


@pytest.mark.parametrize("preset", ["paper", "sound", "adaptive"])
def test_a_subclass_is_saved_under_its_own_name(tmp_path, monkeypatch, preset):
    class OtherTree(cb.ConeTree):
        pass

    OtherTree(3, cb.Cone.orthant(2), 1, preset=preset).save(tmp_path / "tree.npz")
    with pytest.raises(PolicyFileError, match="holds a policy of kind 'OtherTree'"):
        cb.load_policy(tmp_path / "tree.npz")
    monkeypatch.setitem(registry.OURS, "OtherTree", OtherTree)
    again = cb.load_policy(tmp_path / "tree.npz")
    assert type(again) is OtherTree
    assert again.preset == preset


def test_names_and_bounds_survive_saving(tmp_path):
    cone = cb.Cone.orthant(2, names=["efficacy", "safety"])
    policy = cb.ConeTree(2, cone, 1, bounds=[[18, 90]], beta=0.5)
    policy.save(tmp_path / "p.npz")
    again = cb.load_policy(tmp_path / "p.npz")
    assert again.cone.names == ("efficacy", "safety")
    assert again.box.bounds.tolist() == [[18, 90]]
    assert again.beta == 0.5


def test_a_copy_is_independent(rng):
    policy = _trained(rng, n=800)
    twin = policy.copy()
    before = policy.state()
    for _ in range(600):
        twin.observe([0.1, 0.1], 0, [0.5, 0.5])
    _assert_same_state(before, policy.state())
    assert twin.n_observations == policy.n_observations + 600


def test_damaged_and_foreign_files_are_refused(rng, tmp_path):
    path = tmp_path / "p.npz"
    _trained(rng, n=500).save(path)
    whole = path.read_bytes()
    good = cb.load_policy(path).state()
    messages = []
    for position in rng.integers(0, len(whole), 150):
        bad = bytearray(whole)
        bad[position] ^= 0xFF
        path.write_bytes(bytes(bad))
        try:
            _assert_same_state(cb.load_policy(path).state(), good)  # a byte that does not matter, such as a date
        except PolicyFileError as error:
            messages.append(str(error))
    assert len(messages) > 100
    assert all("p.npz" in m for m in messages)
    for length in (0, 10, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:length])
        with pytest.raises(PolicyFileError, match="is not a saved conebandit policy"):
            cb.load_policy(path)
    path.write_text("hello")
    with pytest.raises(PolicyFileError, match="not a saved"):
        cb.load_policy(path)
    np.savez(path, x=np.ones(3))
    with pytest.raises(PolicyFileError, match="not a saved"):
        cb.load_policy(path)
    with pytest.raises(FileNotFoundError):
        cb.load_policy(tmp_path / "nowhere.npz")


@pytest.mark.parametrize(
    ("change", "says"),
    [({"format": 99}, "format 99"), ({"kind": "Oracle"}, "kind 'Oracle'"), ({"options": {}}, "damaged")],
)
def test_files_of_other_versions_are_refused(change, says, tmp_path):
    path = tmp_path / "p.npz"
    cb.ConeTree(2, cb.Cone.orthant(2), 1).save(path)
    with zipfile.ZipFile(path) as file:
        parts = {name: file.read(name) for name in file.namelist()}
    header = json.loads(np.load(path)["header"].tobytes()) | change
    np.savez(tmp_path / "h.npz", header=np.frombuffer(json.dumps(header).encode(), dtype=np.uint8))
    with zipfile.ZipFile(tmp_path / "h.npz") as file:
        parts["header.npy"] = file.read("header.npy")
    with zipfile.ZipFile(path, "w") as file:
        for name, data in parts.items():
            file.writestr(name, data)
    with pytest.raises(PolicyFileError, match=says):
        cb.load_policy(path)


# ---- errors ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "error", "says"),
    [
        (lambda p: p.decide([0.5], 0), ValueError, r"context must have shape \(2,\)"),
        (lambda p: p.decide([0.5, np.nan], 0), ValueError, r"context\[1\] must lie in \[0, 1\]; got nan"),
        (lambda p: p.decide([1.5, 0.5], 0), ValueError, r"context\[0\] must lie in"),
        (lambda p: p.decide("ab", 0), TypeError, "context must be an array"),
        (lambda p: p.decide([0.5, 0.5], 1.5), TypeError, "key must be"),
        (lambda p: p.decide([0.5, 0.5], None), TypeError, "key must be"),
        (lambda p: p.observe([-0.1, 0.5], 0, [1, 1]), ValueError, r"context\[0\] must lie in"),
        (lambda p: p.observe([0.5, np.inf], 0, [1, 1]), ValueError, r"context\[1\] must lie in"),
        (lambda p: p.observe([0.5, 0.5], 4, [1, 1]), ValueError, "arm must be an integer from 0 to 3"),
        (lambda p: p.observe([0.5, 0.5], -1, [1, 1]), ValueError, "arm must be"),
        (lambda p: p.observe([0.5, 0.5], 1.0, [1, 1]), ValueError, "arm must be"),
        (lambda p: p.observe([0.5, 0.5], True, [1, 1]), ValueError, "arm must be"),
        (lambda p: p.observe([0.5, 0.5], 0, [1, 1, 1]), ValueError, "reward must have 2 entries"),
        (lambda p: p.observe([0.5, 0.5], 0, [1, np.inf]), ValueError, "reward must not be infinite"),
        (lambda p: p.observe([0.5, 0.5], 0, "xy"), TypeError, "reward must be an array"),
        (lambda p: p.front([2, 2]), ValueError, r"context\[0\]"),
        (lambda p: p.explain([2, 2]), ValueError, r"context\[0\]"),
        (lambda p: p.run_chunk(np.full((3, 2), 2.0), np.ones((3, 4, 2)), np.arange(3)), ValueError, r"context\[0\]"),
    ],
)
def test_bad_arguments_are_refused_and_change_nothing(call, error, says, rng, tmp_path):
    policy = _trained(rng, n=700)
    policy.save(tmp_path / "before.npz")
    with pytest.raises(error, match=says):
        call(policy)
    policy.save(tmp_path / "after.npz")
    assert (tmp_path / "before.npz").read_bytes() == (tmp_path / "after.npz").read_bytes()


@pytest.mark.parametrize(
    ("options", "error", "says"),
    [
        ({"n_arms": 0}, ValueError, "n_arms must be a positive integer"),
        ({"context_dim": 0}, ValueError, "context_dim must be a positive integer"),
        ({"context_dim": 11}, ValueError, "context_dim must be at most 10"),
        ({"cone": "orthant"}, TypeError, "cone must be a conebandit.Cone"),
        ({"preset": "best"}, ValueError, "preset must be 'paper', 'sound' or 'adaptive'"),
        ({"preset": "paper", "sigma": 1.0}, ValueError, "preset 'paper' has all constants 1"),
        ({"sigma": 0}, ValueError, "sigma must be a positive number"),
        ({"holder": np.nan}, ValueError, "holder must be a positive number"),
        ({"delta": 0}, ValueError, "delta must be a number, at least 1e-300 and below 1"),
        ({"delta": 1}, ValueError, "delta must be a number, at least 1e-300 and below 1"),
        ({"beta": 1.5}, ValueError, "beta must be a number, above 0 and at most 1"),
        ({"seed": 1.5}, TypeError, "seed must be an integer"),
        ({"bounds": [[0, 1], [0, 1]]}, ValueError, r"bounds must have shape \(1, 2\)"),
        ({"bounds": [[1, 0]]}, ValueError, "lowest below highest"),
        ({"bounds": [[0, np.inf]]}, ValueError, "bounds must have shape"),
    ],
)
def test_bad_options_are_refused(options, error, says):
    with pytest.raises(error, match=says):
        cb.ConeTree(**{"n_arms": 2, "cone": cb.Cone.orthant(2), "context_dim": 1, **options})


@pytest.mark.parametrize(
    ("make", "name", "place"),
    [
        (lambda cone: cb.ConeTree(3, cone, 1, preset="sound", sigma=0.1), "links", kernels.CHILD),
        (lambda cone: cb.ConeTree(3, cone, 1, preset="sound", sigma=0.1), "links", kernels.PARENT),
        (lambda cone: cb.ConeTree(3, cone, 1, preset="sound", sigma=0.1), "chain", kernels.FOLLOWING),
        (lambda cone: cb.ConeTree(3, cone, 1, preset="adaptive"), "links", adaptive_tree.CHILD),
        (lambda cone: cb.ConeTree(3, cone, 1, preset="adaptive"), "chain", adaptive_tree.FOLLOWING),
        (lambda cone: cb.SelfTuning(3, cone, 1), "links", cells.CHILD),
    ],
)
def test_files_that_lead_in_circles_are_refused(make, name, place, tmp_path):
    """Whoever walks along such links would never come back."""
    env = cb.environments.paper(n_arms=3, change_point=0, sigma=0.1)
    cb.simulate(make(env.cone), env, 4000).policy.save(tmp_path / "policy.npz")
    kind, options, arrays = storage.read(tmp_path / "policy.npz")
    assert cb.load_policy(tmp_path / "policy.npz").n_observations == 4000
    rows = np.flatnonzero(arrays[name][:, place] >= 0)
    assert rows.size, "there is something to be changed"
    arrays[name][rows[0], place] = rows[0]
    storage.write(tmp_path / "policy.npz", kind, options, arrays)
    with pytest.raises(PolicyFileError, match=f"array '{name}' leads in circles"):
        cb.load_policy(tmp_path / "policy.npz")
