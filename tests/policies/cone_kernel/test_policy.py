"""ConeKernel: contract, exact chances, state, explanations, bad and extreme input."""

import math

import numpy as np
import pytest

import conebandit as cb
from conebandit.kernels.cone_kernel.constants import ELIMINATION_MARGIN
from conebandit.simulate import step_by_step

from ...plain_cone_kernel import CONES, rounds, trained


@pytest.mark.parametrize(
    ("n_arms", "cone", "dim"),
    [(3, "orthant", 1), (4, "narrow", 2), (2, "half-plane", 3), (1, "scalar", 2), (3, "three", 8), (2, "orthant", 30)],
)
def test_contract(n_arms, cone, dim):
    cb.check_policy(cb.ConeKernel(n_arms, CONES[cone], dim))


@pytest.mark.parametrize(("n_arms", "cone", "dim"), [(3, "orthant", 1), (4, "narrow", 2), (3, "three", 4)])
def test_compiled_loop_decides_as_step_by_step(n_arms, cone, dim):
    data = rounds(n_arms, CONES[cone].dim, dim, 300)
    one, other = (cb.ConeKernel(n_arms, CONES[cone], dim, seed=5) for _ in range(2))
    for a, b in zip(one.run_chunk(*data), step_by_step(other, *data), strict=True):
        np.testing.assert_array_equal(a, b)
    for name, array in one.state().items():
        np.testing.assert_array_equal(array, other.state()[name], err_msg=name)


def test_chances_are_those_of_the_draw():
    policy, x, keys = trained(n=150, n_arms=5, cone="narrow"), [0.3, 0.8], 4000
    decisions = [policy.decide(x, key) for key in range(keys)]
    chances = {d.arm: d.propensity for d in decisions}
    assert len(chances) > 1, "a context at which something is left to be drawn"
    for arm, chance in chances.items():
        share = np.mean([d.arm == arm for d in decisions])
        assert abs(share - chance) < 5 * math.sqrt(chance * (1 - chance) / keys) + 1e-12
    assert sum(chances.values()) == pytest.approx(1.0, abs=0.02)


def test_save_and_load_go_on_alike(tmp_path):
    policy = trained(dim=3)
    policy.save(tmp_path / "kernel.npz")
    again = cb.load_policy(tmp_path / "kernel.npz")
    more = rounds(3, 2, 3, 500, seed=9)
    for a, b in zip(policy.run_chunk(*more), again.run_chunk(*more), strict=True):
        np.testing.assert_array_equal(a, b)
    for name, array in policy.state().items():
        np.testing.assert_array_equal(array, again.state()[name], err_msg=name)


@pytest.mark.parametrize("scale", [2.0**40, 2.0**-40])
def test_scale_of_the_rewards_does_not_matter(scale):
    x, outcomes, keys = rounds(4, 2, 2, 500)
    small, large = (cb.ConeKernel(4, CONES["narrow"], 2) for _ in range(2))
    for a, b in zip(small.run_chunk(x, outcomes, keys), large.run_chunk(x, scale * outcomes, keys), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("scale", [1e-150, 1.0, 1e150])
def test_extreme_and_constant_rewards(scale):
    x, outcomes, keys = rounds(3, 2, 2, 200)
    for values in (scale * outcomes, np.full_like(outcomes, scale), np.full_like(outcomes, np.nan)):
        policy = cb.ConeKernel(3, CONES["orthant"], 2)
        _, chances, _, reported = policy.run_chunk(x, values, keys)
        assert ((chances > 0) & (chances <= 1 + 1e-12)).all()
        assert reported.any(axis=1).all()


def test_explain_says_what_beats_an_arm():
    means = np.array([[0.9, 0.9], [0.1, 0.1]])
    rng = np.random.default_rng(0)
    policy = cb.ConeKernel(2, cb.Cone.orthant(2), 1)
    policy.run_chunk(rng.random((500, 1)), means + 0.05 * rng.standard_normal((500, 2, 2)), np.arange(500, dtype="u8"))
    told = policy.explain([0.5])
    assert told.active == (0,)
    assert (told.eliminated[0].arm, told.eliminated[0].by) == (1, 0)
    assert (told.eliminated[0].margins > ELIMINATION_MARGIN).all()


def test_bad_input_changes_nothing():
    policy = trained()
    before = policy.state()
    for bad in (
        lambda: policy.observe([0.5, 1.5], 0, [1.0, 1.0]),
        lambda: policy.observe([0.5, 0.5], 3, [1.0, 1.0]),
        lambda: policy.observe([0.5, 0.5], 0, [np.inf, 1.0]),
        lambda: policy.decide([0.5, np.nan], 0),
    ):
        with pytest.raises(ValueError, match="must"):
            bad()
    for name, array in policy.state().items():
        np.testing.assert_array_equal(array, before[name])
    with pytest.raises(ValueError, match="n_features must be a positive integer"):
        cb.ConeKernel(3, CONES["orthant"], 2, n_features=0)
    with pytest.raises(ValueError, match="n_features must be at most 1024"):
        cb.ConeKernel(3, CONES["orthant"], 2, n_features=1025)


def test_default_policy_by_size():
    assert isinstance(cb.default_policy(10, CONES["orthant"], 8), cb.ConeKernel)
    large = cb.default_policy(600, CONES["orthant"], 2, seed=3)
    assert isinstance(large, cb.ConeTree)
    assert large.preset == "adaptive"
    with pytest.raises(ValueError, match="n_arms must be"):
        cb.default_policy(0, CONES["orthant"], 2)
