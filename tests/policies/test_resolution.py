"""A resolution changes what a policy reports to the essential arms of its estimates, and nothing else."""

import numpy as np
import pytest

import conebandit as cb
from conebandit.policies.registry import OURS
from conebandit.simulate import step_by_step

CONES = {"orthant": cb.Cone.orthant(2), "narrow": cb.Cone.from_rays([[1, 0.6], [0.6, 1]])}
KINDS = {
    **{f"ConeTree-{preset}": (cb.ConeTree, {"preset": preset}) for preset in ("paper", "sound", "adaptive")},
    **{
        f"ConeTree-{preset}-stream": (cb.ConeTree, {"preset": preset, "history": "stream"})
        for preset in ("paper", "sound", "adaptive")
    },
    **{name: (policy, {}) for name, policy in OURS.items() if name not in ("ConeTree", "ConeKernel")},
}
FEW = ("ConeTree-adaptive", "ConeTree-sound", "LinearParetoUCB")  # the two trees make reports of their own


def make(kind, cone="orthant", **options):
    policy, settings = KINDS[kind]
    return policy(6, CONES[cone], 1, seed=3, **settings, **options)


def rounds(n, seed=0):
    """Contexts and outcomes of six arms, some close to each other, some unknown; keys."""
    rng = np.random.default_rng(seed)
    x, angle = rng.random((n, 1)), np.linspace(0, np.pi / 2, 6)
    outcomes = np.stack([np.cos(angle), np.sin(angle)], axis=1) + 0.3 * x[:, :, None] + 0.2 * rng.normal(size=(n, 6, 2))
    outcomes[rng.random(outcomes.shape) < 0.05] = np.nan
    return x, outcomes, rng.integers(0, 2**63, n).astype(np.uint64)


def essential(values, slack):
    """Arms (by index) that no other one makes inessential, or the undominated ones if there are none."""
    left = [b for b in values if not any(inessential(values[a], values[b], slack) for a in values if a != b)]
    return left or [
        b for b in values if not any(inessential(values[a], values[b], 0 * slack) for a in values if a != b)
    ]


def inessential(a, b, slack):
    return (a >= b - slack).all() and (a > b + slack).any()


def assert_essential(policy, plain, x, resolution):
    """What is reported at ``x`` is what the estimates of the same policy without a resolution say."""
    active, before = plain._flags(plain.box.point(x))
    means, radii = np.empty((2, policy.n_arms, 2))
    plain._kernels.estimate(plain._state, plain.box.point(x), means, radii)
    facets = policy.cone.facets
    known = [k for k in np.flatnonzero(active).tolist() if np.isfinite([means[k], radii[k]]).all()]
    wanted = essential({k: facets @ means[k] for k in known}, np.abs(facets) @ np.broadcast_to(resolution, 2))
    front = policy.front(x)
    assert list(front.arms) == (wanted if known else np.flatnonzero(before).tolist())
    np.testing.assert_array_equal(front.means, means[list(front.arms)])


@pytest.mark.parametrize("explore", [0.0, 0.3])
@pytest.mark.parametrize(("cone", "resolution"), [("orthant", 0.1), ("orthant", [0.0, 0.3]), ("narrow", 0.05)])
@pytest.mark.parametrize("kind", FEW)
def test_reported_are_the_essential_arms_of_the_estimates(kind, cone, resolution, explore):
    policy = make(kind, cone, resolution=resolution, explore=explore)
    plain = make(kind, cone, explore=explore)
    fewer = 0
    for n, (x, outcome, key) in enumerate(zip(*rounds(250), strict=True)):
        if n % 10 == 0:
            assert_essential(policy, plain, x, resolution)
            fewer += policy.front(x).arms != plain.front(x).arms
        one, other = policy.decide(x, int(key)), plain.decide(x, int(key))
        assert one[:2] == other[:2]
        for each in (policy, plain):
            each.observe(x, one.arm, outcome[one.arm])
    assert fewer > 0
    for name, array in policy.state().items():
        np.testing.assert_array_equal(array, plain.state()[name])


@pytest.mark.parametrize("kind", KINDS)
def test_every_way_of_asking_agrees_and_files_keep_it(kind, tmp_path):
    policy = make(kind, resolution=0.2, explore=0.1)
    x, outcomes, keys = rounds(120)
    steps = step_by_step(policy.copy(), x, outcomes, keys)
    for one, other in zip(steps, policy.run_chunk(x, outcomes, keys), strict=True):
        np.testing.assert_array_equal(one, other)
    for point, front in zip(x[:30], policy.fronts(x[:30]), strict=True):
        assert front.arms == policy.front(point).arms
    policy.save(tmp_path / "policy.npz")
    again = cb.load_policy(tmp_path / "policy.npz")
    assert np.asarray(again.resolution).tolist() == [0.2, 0.2]
    assert again.front(x[0]).arms == policy.front(x[0]).arms
    assert again.clone().resolution.tolist() == [0.2, 0.2]


def test_at_zero_files_do_not_speak_of_it():
    for kind in KINDS:
        assert "resolution" not in make(kind)._options()
        assert make(kind, resolution=[0.1, 0.0])._options()["resolution"] == [0.1, 0.0]


def test_where_nothing_is_known_all_are_reported():
    assert make("LinearParetoUCB", resolution=0.5).front([0.5]).arms == (0, 1, 2, 3, 4, 5)


def test_it_keeps_the_contract():
    cb.check_policy(make("LinearParetoUCB", resolution=0.1))


@pytest.mark.parametrize(
    ("wrong", "words"), [(-0.1, "at least 0"), (np.nan, "at least 0"), ([0.1], "one number or 2"), ("a", "a number")]
)
def test_nonsense_is_refused(wrong, words):
    with pytest.raises(ValueError, match=f"resolution.* must be.*{words}"):
        make("ParetoUCB1", resolution=wrong)


@pytest.mark.parametrize("kind", ["ConeKernel", "ConeTree-adaptive", "LinearParetoUCB"])
def test_a_policy_decides_the_same_after_it_was_saved_whatever_its_cone(kind, tmp_path):
    """Facets that were rounded, read as input, may come in another order: then each would get another one's slack."""
    make_policy, settings = {**KINDS, "ConeKernel": (cb.ConeKernel, {})}[kind]
    rng, reordered = np.random.default_rng(5), 0
    ray = [0.5661434755980816, 0.7750096701594513, -0.7190191026924134]
    for more in (ray, *rng.uniform(-1.0, 1.0, (30, 3))):
        try:
            cone = cb.Cone.from_rays([*np.eye(3).tolist(), list(more)])
        except ValueError:  # the whole space
            continue
        again = cb.Cone.from_facets(cone.facets)
        reordered += again.facets.shape != cone.facets.shape or not np.array_equal(again.facets, cone.facets)
        policy = make_policy(4, cone, 1, resolution=[0.3, 0.01, 0.01], **settings)
        policy.learn((rng.random((60, 1)), rng.integers(0, 4, 60), rng.random((60, 3))))
        policy.save(tmp_path / "policy.npz")
        loaded = cb.load_policy(tmp_path / "policy.npz")
        x = np.linspace(0, 1, 30)[:, None]
        assert loaded.cone == cone
        np.testing.assert_array_equal(loaded.cone.facets, cone.facets)
        for a, b in zip(policy.fronts(x), loaded.fronts(x), strict=True):
            assert a.arms == b.arms
        chances = [each.decide_many(x, range(30)).probabilities for each in (policy, loaded)]
        np.testing.assert_array_equal(*chances)
    assert reordered, "none of the cones shows it"
