"""A floor under the probabilities of all arms: exact, the same however a policy is asked, and nothing at zero."""

import numpy as np
import pytest
from scipy import stats

import conebandit as cb
from conebandit.kernels.floor import any_arm, explored
from conebandit.kernels.rng import uniform
from conebandit.policies.registry import OURS
from conebandit.simulate import step_by_step

WORLD = cb.environments.smooth(5, 2)
KINDS = {
    **{f"ConeTree-{preset}": (cb.ConeTree, {"preset": preset}) for preset in ("paper", "sound", "adaptive")},
    **{
        f"ConeTree-{preset}-stream": (cb.ConeTree, {"preset": preset, "history": "stream"})
        for preset in ("paper", "sound", "adaptive")
    },
    **{name: (policy, {}) for name, policy in OURS.items() if name != "ConeTree"},
}
FAST = ("ConeTree-sound", "ConeTree-adaptive", "LinearParetoUCB", "FourierSampling")


def make(kind, **options):
    policy, settings = KINDS[kind]
    return policy(5, WORLD.cone, 2, seed=3, **settings, **options)


def rounds(n, seed=0):
    """Contexts, outcomes of all arms of which some are clearly better and some unknown, and keys."""
    rng = np.random.default_rng(seed)
    x = rng.random((n, 2))
    outcomes = 0.3 * rng.normal(size=(n, 5, 2)) + np.arange(5.0)[:, None] * np.array([1.0, 0.5])
    outcomes[rng.random(outcomes.shape) < 0.05] = np.nan
    return x, outcomes, rng.integers(0, 2**63, n).astype(np.uint64)


def without(policy, kind):
    """The same policy in the same state, without the floor."""
    return make(kind)._with(policy.state())


@pytest.mark.parametrize("kind", KINDS)
def test_probabilities_are_mixed_with_the_uniform_law_in_every_way_of_asking(kind):
    explore = 0.2
    policy = make(kind, explore=explore)
    x, outcomes, keys = rounds(400)
    steps = step_by_step(policy.copy(), x, outcomes, keys)
    for one, other in zip(steps, policy.run_chunk(x, outcomes, keys), strict=True):
        np.testing.assert_array_equal(one, other)
    own, (x, _, keys) = without(policy, kind), rounds(60, seed=1)
    many = policy.decide_many(x, keys)
    for i, key in enumerate(keys.tolist()):
        one, before = policy.decide(x[i], key), own.decide(x[i], key)
        np.testing.assert_array_equal(one.probabilities, (1 - explore) * before.probabilities + explore / 5)
        assert one.probabilities.min() >= explore / 5
        instead = any_arm(explore, policy._seed, key, 5)
        assert one.arm == (before.arm if instead < 0 else instead)
        assert one.propensity == one.probabilities[one.arm]
        assert one.active == tuple(range(5))
        assert (many.arms[i], many.propensities[i], many.masks[i].all()) == (one.arm, one.propensity, True)
        np.testing.assert_array_equal(many.probabilities[i], one.probabilities)
        assert policy.front(x[i]).arms == own.front(x[i]).arms


@pytest.mark.parametrize("kind", KINDS)
def test_it_keeps_the_contract_and_is_kept_in_files(kind, tmp_path):
    policy = make(kind, explore=0.3)
    cb.check_policy(policy)
    x, outcomes, keys = rounds(100)
    policy.run_chunk(x, outcomes, keys)
    policy.save(tmp_path / "policy.npz")
    for other in (cb.load_policy(tmp_path / "policy.npz"), policy.copy(), policy.clone()):
        assert other.explore == 0.3
        assert other.settings == policy.settings
    make(kind).save(tmp_path / "policy.npz")
    assert cb.load_policy(tmp_path / "policy.npz").explore == 0.0


def test_at_zero_nothing_is_written_that_older_files_do_not_have(tmp_path):
    for kind in KINDS:
        assert "explore" not in make(kind)._options()
        assert make(kind, explore=0.5)._options()["explore"] == 0.5


def test_without_it_arms_and_chances_are_left_as_they_are():
    active, chances = np.array([True, False, True]), np.array([0.1, 0.0, 0.9])
    assert all(explored(0.0, np.uint64(1), key, 2, active, chances) == 2 for key in range(100))
    assert active.tolist() == [True, False, True]
    assert chances.tolist() == [0.1, 0.0, 0.9]


@pytest.mark.parametrize("seed", [0, 1, 2**64 - 1])
@pytest.mark.parametrize(("explore", "arms"), [(0.1, 3), (0.5, 7), (1.0, 4)])
def test_whether_and_what_it_plays_instead_does_not_depend_on_the_policys_own_number(seed, explore, arms):
    """Arm against the own uniform number in ten classes: independent, with the stated law (false alarm: 1e-5 each)."""
    seed, n = np.uint64(seed), 40_000
    instead = np.array([any_arm(explore, seed, key, arms) for key in range(n)])
    law = np.append(1 - explore, np.full(arms, explore / arms))
    counts = np.bincount(instead + 1, minlength=arms + 1)
    assert counts[law == 0].sum() == 0
    assert stats.chisquare(counts[law > 0], n * law[law > 0]).pvalue > 1e-5
    own = np.array([int(10 * uniform(seed, key)) for key in range(n)])
    table = np.histogram2d(own, instead, bins=(10, np.arange(-1.5, arms + 0.5)))[0]
    assert stats.chi2_contingency(table[:, table.any(axis=0)]).pvalue > 1e-5


@pytest.mark.parametrize("kind", FAST)
def test_arms_are_played_as_often_as_the_probabilities_say(kind):
    """Over 20,000 keys in one state and context (false alarm: 1e-5 a test)."""
    policy = make(kind, explore=0.25)
    policy.run_chunk(*rounds(500))
    keys = np.arange(20_000, dtype=np.uint64)
    made = policy.decide_many(np.full((len(keys), 2), 0.4), keys)
    counts = np.bincount(made.arms, minlength=5)
    assert stats.chisquare(counts, len(keys) * made.probabilities[0]).pvalue > 1e-5


def test_a_simulation_plays_every_arm_and_logs_its_probability():
    world = cb.environments.smooth(4, 2, change_point=500)
    policy = cb.default_policy(4, world.cone, 2, explore=0.2)
    run = cb.simulate(policy, world, 2000)
    assert run.propensities.min() >= 0.2 / 4
    assert run.active.all()
    assert np.bincount(run.arms[-1000:], minlength=4).min() > 20


def test_the_default_passes_it_on():
    cone = cb.Cone.orthant(2)
    assert cb.default_policy(3, cone, 1, explore=0.1).explore == 0.1
    assert cb.default_policy(600, cone, 1, explore=0.1).explore == 0.1
    assert cb.default_policy(3, cone, 1).explore == 0.0


def test_explanations_speak_of_the_policys_own_choice():
    for kind in ("ConeTree-adaptive", "ConeKernel"):
        policy = make(kind, explore=0.1)
        policy.run_chunk(*rounds(600))
        x = np.array([0.5, 0.5])
        told = policy.explain(x)
        assert told.active == without(policy, kind).explain(x).active
        assert told.eliminated


@pytest.mark.parametrize("wrong", [-0.1, 1.1, np.nan, "0.1", True, None])
@pytest.mark.parametrize("kind", ["ConeKernel", "ConeTree-paper", "ParetoUCB1"])
def test_nonsense_is_refused(kind, wrong):
    with pytest.raises(ValueError, match=r"explore must be a number, at least 0 and at most 1; got"):
        make(kind, explore=wrong)


def test_policies_that_do_not_learn_have_no_floor():
    with pytest.raises(TypeError, match="explore"):
        cb.RandomArm(3, cb.Cone.orthant(2), 1, **{"explore": 0.1})
