"""The adaptive tree against its plain twin, its accounting, what it learns, its state, and its errors."""

import numpy as np
import pytest

import conebandit as cb
from conebandit.kernels import adaptive_tree as kernels
from conebandit.kernels.quadratics import halving, prior_variance
from conebandit.simulate import step_by_step
from conebandit.validate.storage import PolicyFileError

from ..plain_adaptive_tree import PlainAdaptiveTree, PlainStreamedAdaptiveTree

C3 = cb.Cone.from_rays([[1, 0.6], [0.6, 1]])
THREE = cb.Cone.from_rays(np.eye(3) + 0.3)


def tree(n_arms, cone, dim, **options):
    return cb.ConeTree(n_arms, cone, dim, preset="adaptive", **options)


def jumpy(x, k, objectives):
    """Means with a jump along the last coordinate that one quadratic cannot follow, and arms that differ."""
    step = float(x[-1] >= 0.5) * (1.0 if k % 2 else -1.0) + 0.5 * np.sin(9 * x[0] + k)
    return np.array([0.3 * (k % 3) + step + 0.4 * m * np.cos(k + m) for m in range(objectives)])


def trained(n=1500, cone=C3, dim=2, seed=0, n_arms=4, **options):
    rng = np.random.default_rng(seed)
    policy = tree(n_arms, cone, dim, **options)
    for t in range(n):
        x = rng.random(dim)
        k = policy.decide(x, t).arm
        policy.observe(x, k, jumpy(x, k, cone.dim) + 0.1 * rng.standard_normal(cone.dim))
    return policy


def assert_same_state(a, b):
    assert a.keys() == b.keys()
    for name in a:
        np.testing.assert_array_equal(a[name], b[name], err_msg=name)


# ---- the contract, and the two twins --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("n_arms", "cone", "dim"),
    [
        (3, cb.Cone.orthant(2), 1),
        (4, C3, 2),
        (3, THREE, 8),
        (5, cb.Cone.orthant(1), 12),
        (1, cb.Cone.orthant(2), 2),
        (3, cb.Cone.from_weights([[1, 2]]), 1),
        (4, cb.Cone.wedge(120), 2),
    ],
)
def test_contract(n_arms, cone, dim):
    policy = tree(n_arms, cone, dim)
    assert isinstance(policy, cb.ConeTree)
    assert policy.preset == "adaptive"
    cb.check_policy(policy)


@pytest.mark.untraced
@pytest.mark.parametrize(
    ("n_arms", "cone", "dim", "rounds"),
    [(2, cb.Cone.orthant(2), 1, 420), (3, C3, 2, 420), (2, cb.Cone.orthant(1), 4, 300), (2, THREE, 2, 260)],
)
@pytest.mark.parametrize("history", ["exact", "stream"])
def test_decisions_fronts_and_splits_equal_the_plain_twin(n_arms, cone, dim, rounds, history):
    rng = np.random.default_rng(11)
    twin = PlainAdaptiveTree if history == "exact" else PlainStreamedAdaptiveTree
    policy, plain = tree(n_arms, cone, dim, seed=5, history=history), twin(n_arms, cone, dim, seed=5)
    for t in range(rounds):
        x = rng.random(dim) if t % 20 else rng.integers(0, 5, dim) / 4  # boundaries of boxes too
        decision = policy.decide(x, t)
        if t < 40 or t % 6 == 0:
            arm, chance, active, reported = plain.decide(x, t)
            assert (decision.arm, decision.propensity, decision.active) == (arm, chance, active)
            assert policy.front(x).arms == reported
        reward = jumpy(x, decision.arm, cone.dim) + 0.1 * rng.standard_normal(cone.dim)
        if t % 11 == 0:
            reward[t % cone.dim] = np.nan
        policy.observe(x, decision.arm, reward)
        plain.observe(x, decision.arm, reward)
    assert policy.n_leaves == len(plain.leaves()) > 1
    for m in range(cone.dim):
        squares, number = plain.pooled(m)
        assert policy.noise[m] == pytest.approx(np.sqrt(squares / number), rel=1e-7)


@pytest.mark.parametrize("history", ["exact", "stream"])
@pytest.mark.parametrize("dim", [1, 2, 5])
def test_the_compiled_loop_equals_step_by_step(dim, history):
    env = cb.environments.smooth(n_arms=4, context_dim=dim, length_scale=0.15, change_point=300, seed=1000)
    rng = np.random.default_rng(3)
    x = env.contexts(rng, 2500, 0)
    outcomes = env.rewards(rng, env.means(x)).copy()
    outcomes[rng.random(outcomes.shape) < 0.05] = np.nan
    keys = np.arange(2500, dtype=np.uint64)
    fast, slow = (tree(4, env.cone, dim, seed=2, history=history) for _ in range(2))
    for a, b in zip(fast.run_chunk(x, outcomes, keys), step_by_step(slow, x, outcomes, keys), strict=True):
        np.testing.assert_array_equal(a, b)
    assert_same_state(fast.state(), slow.state())
    assert fast.n_leaves > 1 or dim == 5


@pytest.mark.parametrize("dim", [1, 2, 3])
def test_accounting_is_exact_after_thousands_of_random_steps(dim):
    """Every leaf has the fit of all past samples in its box, which this test finds and fits by itself."""
    rng = np.random.default_rng(dim)
    policy = tree(3, cb.Cone.orthant(2), dim)
    xs, arms = rng.random((4000, dim)) ** 2, rng.integers(3, size=4000)
    rewards = np.array([jumpy(x, k, 2) for x, k in zip(xs, arms, strict=True)]) + 0.1 * rng.standard_normal((4000, 2))
    rewards[rng.random((4000, 2)) < 0.1] = np.nan
    for x, k, r in zip(xs, arms, rewards, strict=True):
        policy.observe(x, int(k), r)
    assert policy.n_leaves > 2
    state, covered = policy._state, 0
    for leaf in np.flatnonzero(state.links[: state.size[1], kernels.CHILD] < 0):
        middle, half = state.boxes[leaf].T
        inside = ((xs >= middle - half) & ((xs < middle + half) | (middle + half == 1))).all(axis=1)
        covered += inside.sum()
        assert state.links[leaf, kernels.SEEN] == inside.sum()
        for k, m in np.ndindex(3, 2):
            chosen = inside & (arms == k) & ~np.isnan(rewards[:, m])
            assert state.counts[leaf, k, m] == chosen.sum()
            _check_fit(state, leaf, xs[chosen], rewards[chosen, m], k=k, m=m)
    assert covered == 4000


def _check_fit(state, leaf, xs, rewards, *, k, m):
    """Coefficients and covariance from the normal equations, with the parent's fit as the prior."""
    parent, dim = state.links[leaf, kernels.PARENT], xs.shape[1]
    change = halving(state.terms, state.links[parent, kernels.AXIS], leaf > state.links[parent, kernels.CHILD])
    expected = np.diag([prior_variance(state.terms, a) for a in range(len(change))])
    prior = change @ state.covariances[parent, k, m] @ change.T + expected / state.ties[leaf]
    mean = change @ state.coefficients[parent, k, m]
    u = (xs - state.boxes[leaf, :, 0]) / state.boxes[leaf, :, 1]
    pairs = [u[:, i] * u[:, j] for i in range(dim) for j in range(i)]
    phi = np.column_stack([np.ones(len(u)), u, (3 * u**2 - 1) / 2, *pairs])
    precision = np.linalg.inv(prior) + phi.T @ phi
    pull = np.linalg.solve(prior, mean) + phi.T @ (rewards - state.anchor[m])
    np.testing.assert_allclose(state.coefficients[leaf, k, m], np.linalg.solve(precision, pull), rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(state.covariances[leaf, k, m], np.linalg.inv(precision), rtol=1e-6, atol=1e-9)


# ---- what it learns -------------------------------------------------------------------------------------------------


def simulated(mean, dim, seed, *, n=3000, n_arms=3, sigma=0.3, factor=1.0, shift=0.0):
    """A policy after n rounds with means ``mean(x) (n, K, 2)``, and what it decided."""
    rng = np.random.default_rng(seed)
    x = rng.random((n, dim))
    outcomes = (mean(x) + sigma * rng.standard_normal((n, n_arms, 2))) * factor + shift
    policy = tree(n_arms, cb.Cone.orthant(2), dim)
    return policy, policy.run_chunk(x, outcomes, np.arange(n, dtype=np.uint64))


def flat(x):
    return np.broadcast_to([[0.2, 0.8], [0.8, 0.2], [0.5, 0.6]], (len(x), 3, 2))


def quadratic(x):
    return flat(x) + (x[:, :1, None] - 0.3) ** 2 * np.array([1, -2, 3])[:, None]


def test_no_split_on_rare_events():
    """As below, with noise that is far from normal: outcomes 1 with chance 0.1, else 0."""
    splits = 0
    for seed in range(60):
        rng = np.random.default_rng(seed)
        policy = tree(3, cb.Cone.orthant(2), 5)
        outcomes = (rng.random((2000, 3, 2)) < 0.1).astype(float)
        policy.run_chunk(rng.random((2000, 5)), outcomes, np.arange(2000, dtype=np.uint64))
        splits += policy.n_leaves > 1
    assert splits <= 4


@pytest.mark.parametrize("mean", [flat, quadratic])
def test_no_split_where_quadratics_fit(mean):
    """DOUBT = 1 % a run. With 100 runs, 6 or more splits have a chance below 1e-3 even if it is used up entirely."""
    assert sum(simulated(mean, 5, seed, n=1500)[0].n_leaves > 1 for seed in range(100)) <= 5


def test_splits_are_along_the_coordinate_that_matters():
    """A step along coordinate 2 of 5, three deviations high, over 40 seeds; any other first split is one of chance."""

    def step(x):
        return flat(x) + 0.9 * (x[:, 2, None, None] >= 0.5) * np.array([1, -1, 1])[:, None]

    axes = []
    for seed in range(40):
        policy, _ = simulated(step, 5, seed)
        axes.append(int(policy._state.links[0, kernels.AXIS]))
    assert axes == [2] * 40


def test_scale_and_origin_of_the_rewards_do_not_matter():
    env = cb.environments.smooth(n_arms=3, context_dim=2, length_scale=0.2, seed=1001)
    plain, wanted = simulated(env.means, 2, 0, sigma=0.2)
    assert plain.n_leaves > 1
    for factor, shift in ((1000.0, 0.0), (0.001, 0.0), (1000.0, -5000.0), (1.0, 300.0)):
        other, got = simulated(env.means, 2, 0, sigma=0.2, factor=factor, shift=shift)
        for a, b in zip(wanted, got, strict=True):
            np.testing.assert_array_equal(a, b)
        np.testing.assert_allclose(other.noise, plain.noise * factor, rtol=1e-6)
        np.testing.assert_allclose(
            other.front([0.3, 0.3]).means, plain.front([0.3, 0.3]).means * factor + shift, rtol=1e-6
        )


@pytest.mark.parametrize("sigma", [0.05, 1.0])
def test_the_noise_is_learned(sigma):
    """6000 squares of normal noise estimate its deviation to 1 %; the arms' shapes may add a little."""
    policy, _ = simulated(quadratic, 2, 5, n=6000, sigma=sigma)
    np.testing.assert_allclose(policy.noise, sigma, rtol=0.06)


def test_an_arm_that_was_dropped_comes_back_when_the_data_say_so():
    policy = tree(2, cb.Cone.orthant(2), 1)
    rng = np.random.default_rng(0)
    for t in range(400):  # arm 0 is worse everywhere in the upper half
        x = [0.5 + 0.5 * rng.random()]
        policy.observe(x, t % 2, [t % 2, t % 2] + 0.1 * rng.standard_normal(2))
    assert policy.decide([0.9], 0).active == (1,)
    assert policy.explain([0.9]).eliminated[0].by == 1
    for t in range(400):  # and better in the lower half
        x = [0.5 * rng.random()]
        policy.observe(x, t % 2, [1 - t % 2, 1 - t % 2] + 0.1 * rng.standard_normal(2))
    assert policy.n_leaves > 1
    assert policy.decide([0.1], 0).active == (0,)
    assert policy.decide([0.9], 0).active == (1,)
    for _ in range(300):  # and, against all that was seen, now also here
        policy.observe([0.9], 0, 3 + 0.1 * rng.standard_normal(2))
    assert 0 in policy.decide([0.9], 0).active


def test_it_beats_playing_at_random_by_far():
    env = cb.environments.smooth(change_point=1000, seed=1000)
    learned = cb.simulate(tree(env.n_arms, env.cone, 2), env, 6000, seed=1000)
    random = cb.simulate(cb.RandomArm(env.n_arms, env.cone, 2), env, 6000, seed=1000)
    for name in ("play", "front"):
        assert learned.average(name, after=1000) < 0.15 * random.average(name, after=1000)
    assert learned.average("coverage", after=1000) < 0.5 * random.average("coverage", after=1000)


def test_propensities_are_the_shares_of_the_draws():
    policy = trained(n=30)
    decisions = [policy.decide([0.3, 0.7], key) for key in range(4000)]
    active, chance = decisions[0].active, decisions[0].propensity
    assert len(active) > 1
    assert chance == 1 / len(active)
    shares = np.bincount([d.arm for d in decisions], minlength=4) / 4000
    for k in range(4):  # binomial; five standard deviations
        expected = chance if k in active else 0.0
        assert abs(shares[k] - expected) <= 5 * np.sqrt(expected * (1 - expected) / 4000)


# ---- state and errors -----------------------------------------------------------------------------------------------


def test_saving_loading_and_copying_are_bit_for_bit(tmp_path):
    policy = trained(bounds=[[0, 1], [-2, 2]], cone=cb.Cone.orthant(2, names=("a", "b")))
    assert policy.n_leaves > 1
    policy.save(tmp_path / "a.npz")
    again = cb.load_policy(tmp_path / "a.npz")
    assert isinstance(again, cb.ConeTree)
    assert repr(again) == repr(policy)
    assert again.cone.names == ("a", "b")
    again.save(tmp_path / "b.npz")
    assert (tmp_path / "a.npz").read_bytes() == (tmp_path / "b.npz").read_bytes()
    copied, rng = policy.copy(), np.random.default_rng(1)
    for t in range(300):
        x, r = rng.random(2), rng.random(2)
        assert policy.decide(x, t)[:2] == again.decide(x, t)[:2] == copied.decide(x, t)[:2]
        for p in (policy, again, copied):
            p.observe(x, t % 4, r)
    assert_same_state(policy.state(), again.state())
    assert_same_state(policy.state(), copied.state())
    (tmp_path / "a.npz").write_bytes((tmp_path / "b.npz").read_bytes()[:-9])
    with pytest.raises(PolicyFileError):
        cb.load_policy(tmp_path / "a.npz")


def test_explain_shows_nested_boxes_and_who_keeps_whom_out():
    policy = trained(bounds=[[-1, 1], [0, 1]])
    told = policy.explain([0.3, 0.7])
    assert [b.level for b in told.path] == list(range(len(told.path)))
    assert len(told.path) > 1
    assert told.path[0].lower.tolist() == [-1, 0]
    for outer, inner in zip(told.path, told.path[1:], strict=False):
        assert (outer.lower <= inner.lower).all()
        assert (inner.upper <= outer.upper).all()
        assert np.isclose((outer.upper - outer.lower).prod(), 2 * (inner.upper - inner.lower).prod())
    assert (told.path[-1].lower <= [0.3, 0.7]).all()
    assert (told.path[-1].upper > [0.3, 0.7]).all()
    assert set(told.active) | {e.arm for e in told.eliminated} == {0, 1, 2, 3}
    assert told.eliminated
    for e in told.eliminated:
        assert e.by in told.active
        assert (e.margins >= 0).all()


@pytest.mark.parametrize(
    ("call", "error", "says"),
    [
        (lambda p: p.decide([0.5], 0), ValueError, r"context must have shape \(2,\)"),
        (lambda p: p.decide([0.5, np.nan], 0), ValueError, r"context\[1\] must lie in \[0, 1\]; got nan"),
        (lambda p: p.decide([0.5, 0.5], 1.5), TypeError, "key must be"),
        (lambda p: p.observe([-0.1, 0.5], 0, [1, 1]), ValueError, r"context\[0\] must lie in"),
        (lambda p: p.observe([0.5, 0.5], 4, [1, 1]), ValueError, "arm must be an integer from 0 to 3"),
        (lambda p: p.observe([0.5, 0.5], 0, [1, 1, 1]), ValueError, "reward must have 2 entries"),
        (lambda p: p.observe([0.5, 0.5], 0, [1, np.inf]), ValueError, "reward must not be infinite"),
        (lambda p: p.explain([2, 2]), ValueError, r"context\[0\]"),
        (lambda p: p.run_chunk(np.full((3, 2), 2.0), np.ones((3, 4, 2)), np.arange(3)), ValueError, r"context\[0\]"),
    ],
)
def test_bad_arguments_are_refused_and_change_nothing(call, error, says):
    policy = trained(n=200)
    before = policy.state()
    with pytest.raises(error, match=says):
        call(policy)
    assert_same_state(before, policy.state())


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"sigma": 1.0}, "sigma cannot be given to preset 'adaptive'"),
        ({"delta": 0.05, "beta": 1}, "delta, beta cannot be given to preset 'adaptive'"),  # also with their defaults
        ({"delta": 0.1, "beta": 0.5}, "delta, beta cannot be given"),
        ({"n_arms": 0}, "n_arms must be a positive integer"),
        ({"bounds": [[0, 1]]}, "bounds must have shape"),
    ],
)
def test_bad_options_are_refused(options, says):
    with pytest.raises(ValueError, match=says):
        cb.ConeTree(**{"n_arms": 3, "cone": C3, "context_dim": 2, "preset": "adaptive", **options})


def test_metrics_that_are_never_known_and_noise_that_is_none():
    policy = tree(2, cb.Cone.orthant(2), 1)
    for t in range(200):
        policy.observe([t / 200], t % 2, [t % 2, np.nan])  # without noise, and half of it unknown
    assert policy.decide([0.5], 0).active == (0, 1)
    assert policy.front([0.5]).arms == (0, 1)
    assert np.isnan(policy.front([0.5]).means[:, 1]).all()
    for t in range(200):
        policy.observe([t / 200], t % 2, [t % 2, t % 2])
    assert policy.decide([0.5], 0).active == policy.front([0.5]).arms == (1,)
    np.testing.assert_allclose(policy.front([0.5]).means, [[1, 1]], atol=0.02)


@pytest.mark.parametrize("places", [[[0.25, 1.0]], [[0, 0], [0, 1], [1, 0], [1, 1]]])
def test_contexts_at_few_places_are_learned_as_such(places):
    """Features are then linearly dependent; the standard error is still that of an average of the samples there."""
    rng, n = np.random.default_rng(2), 20_000
    which = rng.integers(len(places), size=n)
    means = np.array([[0.0, 1.0], [1.0, 0.0]]) * np.array([1.0, 2.0, 3.0, -1.0])[which, None, None]
    policy = tree(2, cb.Cone.orthant(2), 2)
    outcomes = means + 0.5 * rng.standard_normal((n, 2, 2))
    arms = policy.run_chunk(np.array(places, float)[which], outcomes, np.arange(n, dtype=np.uint64))[0]
    assert policy.n_leaves <= len(places)
    for i, place in enumerate(places):
        front = policy.front(place)
        assert front.arms == (0, 1)
        here = [np.sum((which == i) & (arms == k)) for k in (0, 1)]
        np.testing.assert_allclose(front.means, means[np.argmax(which == i)], atol=0.1)
        np.testing.assert_allclose(front.radii, 2 * 0.5 / np.sqrt(here)[:, None] * np.ones(2), rtol=0.25)
