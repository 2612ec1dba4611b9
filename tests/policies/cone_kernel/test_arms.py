"""Arms that are described by features: the basis, which effects there are, and what a policy makes of them."""

import itertools

import numpy as np
import pytest

import conebandit as cb
from conebandit.kernels.cone_kernel.constants import MAX_COLUMNS, MAX_EFFECTS
from conebandit.kernels.cone_kernel.state import DESCRIBED, LEVEL_OF_ARMS, SHARED
from conebandit.policies.cone_kernel.arms import Effects, as_arm_features, basis_of_arms

from ...plain_cone_kernel import rounds, trained

CONE = cb.Cone.orthant(2)


def plain_kernel(features):
    """Covariance of arms under random linear functions of features in [0, 1], less its mean, of mean variance 1."""
    n = len(features)
    kernel = np.array([[np.dot(a, b) for a in features] for b in features])
    for axis in (0, 1):
        kernel = kernel - kernel.mean(axis=axis, keepdims=True)
    return kernel * n / np.trace(kernel)


@pytest.mark.parametrize("shape", [(2, 1), (5, 1), (5, 3), (40, 2)])
def test_basis_is_that_of_linear_functions_of_features(shape):
    features = np.random.default_rng(3).normal(size=shape)
    basis = basis_of_arms(features, len(features))
    assert basis.shape[1] <= 1 + MAX_COLUMNS
    np.testing.assert_array_equal(basis[:, 0], 1.0)
    np.testing.assert_allclose(basis[:, 1:].sum(axis=0), 0.0, atol=1e-9)
    low, high = features.min(axis=0), features.max(axis=0)
    kernel, found = plain_kernel((features - low) / (high - low)), basis[:, 1:] @ basis[:, 1:].T
    left = np.trace(kernel - found) / len(features)
    assert left <= (0.01 if basis.shape[1] <= MAX_COLUMNS else 0.3)
    np.testing.assert_allclose(found, kernel, atol=1e-9 + len(features) * max(left, 0.0))


@pytest.mark.parametrize("features", [[3, 3, 3], [[1, 2], [1, 2], [1, 2]]])
def test_features_that_do_not_tell_arms_apart_are_ignored(features):
    np.testing.assert_array_equal(basis_of_arms(as_arm_features(features, 3), 3), np.ones((3, 1)))


def test_units_of_features_and_constant_ones_do_not_matter():
    doses = np.array([[1.0], [2.0], [5.0], [9.0]])
    expected = basis_of_arms(doses, 4)
    for other in (1e-3 * doses + 7, np.hstack([np.full((4, 1), 5.0), doses]), 1e300 * doses):
        found = basis_of_arms(other, 4)
        np.testing.assert_allclose(found @ found.T, expected @ expected.T, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("features", [[-1e308, 0, 1e308], [0, 5e-324, 1], [1, 1 + 2**-52, 2], [0, 0, 1]])
def test_nasty_features_give_a_finite_basis(features):
    assert np.isfinite(basis_of_arms(as_arm_features(features, 3), 3)).all()


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ([1, 2], ValueError),
        ([[1], [2, 3], [4]], TypeError),
        (["low", "middle", "high"], TypeError),
        ([1, np.nan, 2], ValueError),
        ([1, np.inf, 2], ValueError),
        ([[], [], []], ValueError),
        (5, ValueError),
        (np.ones((3, 1, 1)), ValueError),
    ],
)
@pytest.mark.parametrize("make", [cb.ConeKernel, cb.default_policy])
def test_errors_name_the_argument(make, given, error):
    with pytest.raises(error, match="arm_features must"):
        make(3, CONE, 1, arm_features=given)


@pytest.mark.parametrize(("n_features", "columns"), [(1, 2), (30, 4), (60, 4), (128, 4), (300, 1)])
def test_effects_beyond_the_shared_ones_are_few_and_on_the_features_that_vary_most(n_features, columns):
    rng = np.random.default_rng(5)
    basis, prior = np.hstack([np.ones((6, 1)), rng.normal(size=(6, columns))]), rng.random((2, n_features))
    effects = Effects.of(basis, prior)
    assert len(effects.features) <= max(MAX_EFFECTS, 1.5 * n_features)
    first, rest = slice(None, n_features), slice(n_features, None)
    np.testing.assert_array_equal(effects.features[first], range(n_features))
    assert (effects.scales[first] == SHARED).all()
    few = set(effects.features[rest].tolist())
    assert 0 in few
    left_out = set(range(n_features)) - few
    assert not left_out or prior[:, list(left_out)].max() <= min(prior[:, j].max() for j in few - {0})
    expected = {(f, j) for f, j in itertools.product(range(1, columns + 1), few)}
    places = {(np.flatnonzero((basis == at[:, None]).all(axis=0))[0], j) for at, j in zip(effects.at_arms.T[rest],
              effects.features[rest].tolist(), strict=True)}  # fmt: skip
    assert places == expected
    np.testing.assert_array_equal(effects.scales[rest], np.where(effects.features[rest], DESCRIBED, LEVEL_OF_ARMS))
    np.testing.assert_array_equal(
        effects.units[:, rest], np.where(effects.features[rest], prior[:, effects.features[rest]], 1)
    )


def test_features_are_saved_copied_and_cloned(tmp_path):
    policy = trained(n=150, arm_features=[10, 20, 40])
    policy.save(tmp_path / "doses.npz")
    x, outcomes, keys = rounds(3, 2, 2, 100, seed=4)
    for other in (cb.load_policy(tmp_path / "doses.npz"), policy.copy()):
        np.testing.assert_array_equal(other.arm_features, [[10.0], [20.0], [40.0]])
        before = policy.copy()
        for one, two in zip(other.run_chunk(x, outcomes, keys), before.run_chunk(x, outcomes, keys), strict=True):
            np.testing.assert_array_equal(one, two)
    np.testing.assert_array_equal(policy.clone().arm_features, policy.arm_features)
    assert policy.clone().n_observations == 0


def test_the_array_that_was_given_may_be_changed_later():
    doses = np.array([[1.0], [2.0], [3.0]])
    policy = cb.ConeKernel(3, CONE, 1, arm_features=doses)
    doses[:] = 7.0
    np.testing.assert_array_equal(policy.clone().arm_features.ravel(), [1, 2, 3])


def test_too_many_arms_for_the_kernel_is_said():
    with pytest.warns(UserWarning, match="arm_features are not used"):
        policy = cb.default_policy(600, CONE, 1, arm_features=np.arange(600))
    assert isinstance(policy, cb.ConeTree)


def test_an_arm_that_was_never_seen_is_known_from_its_neighbours():
    """Means rise by .5 with each dose. The third one was never given; its estimate is near the truth in all 20 runs."""
    for seed in range(20):
        rng = np.random.default_rng(seed)
        policy = cb.ConeKernel(5, cb.Cone.orthant(1), 1, arm_features=range(5), seed=seed)
        for t in range(120):
            arm = (0, 1, 3, 4)[t % 4]
            policy.observe([rng.random()], arm, [0.5 * arm + 0.1 * rng.standard_normal()])
        means, radii = np.empty((2, 5, 1))
        policy._kernels.estimate(policy._state, np.array([0.5]), means, radii)
        assert abs(means[2, 0] - 1.0) < 0.25, means.ravel()
