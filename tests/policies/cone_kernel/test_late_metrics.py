"""Metrics whose values come late: nothing is said of them before, and then all that is known is learned."""

import numpy as np
import pytest

import conebandit as cb
from conebandit.kernels.cone_kernel.constants import FIRST_FIT, LAST_FIT, PATIENCE
from conebandit.kernels.cone_kernel.state import AMPLITUDE, NEVER, NEXT_WORK, NOISE, ROWS, SPREAD
from conebandit.policies.cone_kernel.explanation import who_beats
from conebandit.policies.cone_kernel.prior import INITIAL_AMPLITUDE, INITIAL_NOISE, standardise
from conebandit.policies.cone_kernel.work import in_one_go

ARMS = 2


def rows(n, *, late, scale=1.0):
    """Contexts, arms and rewards: arm k has mean 5 + k in the second metric, which is known from row ``late`` on."""
    rng = np.random.default_rng(0)
    x, arms = rng.random((n, 1)), np.arange(n) % ARMS
    first, second = rng.normal(size=n), arms + 5.0 + rng.normal(size=n)
    return x, arms, np.stack([first, np.where(np.arange(n) < late, np.nan, scale * second)], axis=1)


def some(data, first, last):
    return tuple(part[first:last] for part in data)


def learned(data):
    policy = cb.ConeKernel(ARMS, cb.Cone.orthant(2), 1)
    policy.learn(data)
    return policy


def said(policy):
    """Means and radii of both arms in the second metric."""
    means, radii = np.empty((2, ARMS, 2))
    policy._kernels.estimate(policy._state, np.array([0.5]), means, radii)
    return np.array([means[:, 1], radii[:, 1]])


def test_nothing_is_said_of_a_metric_that_has_no_values_yet():
    policy = learned(rows(200, late=200))
    front, told = policy.front([0.5]), policy.explain([0.5])
    assert np.isfinite(front.means[:, 0]).all()
    assert np.isnan(front.means[:, 1]).all()
    assert np.isinf(front.radii[:, 1]).all()
    assert np.isnan(front.chances).all()
    assert np.isinf(policy.radii([[0.5]])[..., 1]).all()
    assert np.isfinite(told.noise).tolist() == [True, False]
    assert sorted([*front.arms, *(beaten.arm for beaten in told.beaten)]) == [0, 1]
    assert policy.decide([0.5], 1).probabilities.sum() == pytest.approx(1.0)


def test_what_beats_an_arm_is_told_although_a_metric_is_not_known():
    """Leads in a metric that is known are; others are not."""
    policy, rng = cb.ConeKernel(3, cb.Cone.orthant(2), 1), np.random.default_rng(1)
    for t in range(600):
        policy.observe([rng.random()], t % 3, [t % 3 + 0.1 * rng.normal(), np.nan])
    means, deviations = np.array([[0.0, np.nan], [2.0, np.nan]]), np.array([[0.3, np.inf], [0.4, np.inf]])
    told = who_beats(0, means, deviations, policy.cone.facets, 0.5)
    assert (told.by, told.leads[0], told.deviations[0]) == (1, 2.0, 0.5)
    assert np.isnan(told.leads[1])
    assert np.isinf(told.deviations[1])
    assert told.margins.tolist() == [4.0, 0.0]
    for beaten in policy.explain([0.5]).beaten:
        assert np.isfinite(beaten.leads).tolist() == [True, False]
    oblique = who_beats(0, means, deviations, np.array([[1.0, 0.5], [1.0, 0.0]]), 0.5)
    assert np.isfinite(oblique.leads).tolist() == [False, True]


def test_a_fit_begins_for_a_metric_whose_values_come():
    """Once there are as many as the first fit waits for, and again with a quarter more, though no other fit is due."""
    late = 4_300
    data = rows(late + 600, late=late)
    policy = learned(some(data, 0, late))
    scheduled = policy._state.size[NEXT_WORK]
    assert scheduled > late + 600
    policy.learn(some(data, late, late + 200))
    assert policy._state.fitted_to[1] >= FIRST_FIT * ARMS
    assert np.isfinite(said(policy)).all()
    policy.learn(some(data, late + 200, None))
    assert policy._state.fitted_to[1] >= 300
    assert np.isfinite(said(policy)).all()


def test_values_of_a_metric_that_is_not_known_wait_for_a_fit():
    """In units that nobody knows they would spoil what is there."""
    data = rows(103, late=100, scale=1e6)
    data[2][100:, 0] = np.nan
    at_once, one_by_one = learned(some(data, 0, 100)), learned(some(data, 0, 100))
    before = at_once._state.weights.copy()
    at_once.learn(some(data, 100, None))
    for x, arm, reward in zip(*some(data, 100, None), strict=True):
        one_by_one.observe(x, int(arm), reward)
    assert at_once._state.counts[:, 1].sum() == 3
    for policy in (at_once, one_by_one):
        np.testing.assert_array_equal(policy._state.weights, before)


def test_one_value_is_not_enough_to_know_a_metric():
    data = rows(200, late=0)
    data[2][1:, 1] = np.nan
    assert np.isnan(said(learned(data))[0]).all()
    data = rows(200, late=0)
    data[2][ARMS:, 1] = np.nan
    assert np.isfinite(said(learned(data))).all()


def test_what_was_learned_of_a_metric_in_unknown_units_is_forgotten():
    state = learned(rows(200, late=0))._state
    scales = state.scales.copy()
    scales[NOISE:] = 7.0
    again = in_one_go(standardise(state._replace(scales=scales, fitted_to=np.array([200, 0]))))
    in_new_units = 7.0 * (state.scales[SPREAD, 0] / again.scales[SPREAD, 0]) ** 2
    np.testing.assert_allclose(again.scales[NOISE:, 0], in_new_units)
    assert again.scales[NOISE, 1] == INITIAL_NOISE
    assert (again.scales[AMPLITUDE:, 1] == INITIAL_AMPLITUDE).all()
    assert (again.noise[:, 1] == INITIAL_NOISE).all()


def test_what_matters_to_a_metric_without_values_is_not_told():
    """Nor does it have a part in what matters at all: this metric hardly depends on the context."""
    policy, rng = cb.ConeKernel(ARMS, cb.Cone.orthant(2), 3), np.random.default_rng(2)
    x, arms = rng.random((3_000, 3)), np.arange(3_000) % ARMS
    rewards = np.stack([x[:, 0] * (arms + 1) + 0.1 * rng.normal(size=3_000), np.full(3_000, np.nan)], axis=1)
    policy.learn((x, arms, rewards))
    told = policy.explain([0.5] * 3)
    assert np.isnan(told.relevance_by_metric[1]).all()
    np.testing.assert_array_equal(told.relevance, told.relevance_by_metric[0])
    np.testing.assert_array_equal(told.agreement, [[0.0, np.nan], [np.nan, 0.0]])


@pytest.mark.parametrize("late", [100, 5_000])
def test_a_metric_counts_soon_after_its_first_values_whatever_its_unit(late):
    """A fit begins once there are as many values as the first one waits for, not with a quarter more observations."""
    found = []
    for scale in (1.0, 1e6, 1e-6):
        data = rows(late + 400, late=late, scale=scale)
        policy = learned(some(data, 0, late + FIRST_FIT * ARMS - 1))
        assert np.isnan(said(policy)[0]).all()
        policy.learn(some(data, late + FIRST_FIT * ARMS - 1, None))
        found.append(said(policy) / scale)
    np.testing.assert_array_less(np.abs(found[0][0] - [5.0, 6.0]), 0.5)
    np.testing.assert_array_less(found[0][1], 0.6)
    np.testing.assert_allclose(found, [found[0]] * 3, rtol=1e-5)


def test_a_metric_may_come_after_the_last_fit_would_have_been():
    found = []
    for scale in (1.0, 1e6, 1e-6):
        late = LAST_FIT + LAST_FIT // 2
        policy = learned(rows(late + 2_000, late=late, scale=scale))
        assert policy._state.size[ROWS] == late + 2_000
        found.append(said(policy) / scale)
        assert policy.decide([0.5], 1).probabilities[1] > 0.9
    np.testing.assert_array_less(np.abs(found[0][0] - [5.0, 6.0]), 0.3)
    np.testing.assert_allclose(found, [found[0]] * 3, rtol=1e-5)


def test_rows_are_not_kept_for_ever_for_a_metric_that_never_comes():
    n = PATIENCE * LAST_FIT + 1_000
    policy = learned(rows(n, late=n))
    assert policy._state.size[NEXT_WORK] == NEVER
    assert policy._state.size[ROWS] == 0
    assert np.isnan(said(policy)[0]).all()


def test_where_all_metrics_come_the_last_fit_is_where_it_was():
    policy = learned(rows(LAST_FIT + 10, late=0))
    assert policy._state.size[NEXT_WORK] == NEVER
    half = rows(LAST_FIT + 10, late=0)
    half[2][::2, 0] = np.nan
    half[2][1::2, 1] = np.nan
    half = half[0], np.arange(LAST_FIT + 10) // 2 % ARMS, half[2]
    assert learned(half)._state.size[NEXT_WORK] == NEVER


@pytest.mark.parametrize("late", [3, 60, 260])
def test_rows_learned_at_once_are_those_learned_one_by_one(late):
    data = rows(600, late=late)
    data[2][::7, 0] = np.nan
    one, parts, whole = (cb.ConeKernel(ARMS, cb.Cone.orthant(2), 1) for _ in range(3))
    for x, arm, reward in zip(*data, strict=True):
        one.observe(x, int(arm), reward)
    parts.learn(some(data, 0, late + 1))
    parts.learn(some(data, late + 1, None))
    whole.learn(data)
    for name, array in one.state().items():
        np.testing.assert_array_equal(array, whole.state()[name], err_msg=name)
        np.testing.assert_array_equal(array, parts.state()[name], err_msg=name)
