"""Schedules of contexts against round numbers."""

import numpy as np
import pytest

from conebandit.environments import shift

# Laws that do not overlap, so that a context tells where it came from.
APART = [shift.uniform(bounds=[[10 * i, 10 * i + 1]]) for i in range(4)]


def origin(contexts: np.ndarray) -> list[int]:
    return (contexts[:, 0] // 10).astype(int).tolist()


def test_stationary():
    schedule = shift.stationary(APART[1])
    assert schedule.change_points == ()
    assert origin(schedule.sample(np.random.default_rng(0), 5, start=1000)) == [1] * 5
    np.testing.assert_array_equal(schedule.weights(np.arange(3)), np.ones((3, 1)))
    np.testing.assert_array_equal(schedule.mixture(until=9).weights, [1])


@pytest.mark.parametrize("at", [1, 7, 19])
def test_the_first_rounds_come_from_the_source(at):
    schedule = shift.change_point(APART[0], APART[1], at=at)
    assert schedule.change_points == (at,)
    expected = [0] * at + [1] * (30 - at)
    assert origin(schedule.sample(np.random.default_rng(0), 30)) == expected
    for start in range(30):
        assert origin(schedule.sample(np.random.default_rng(0), 30 - start, start)) == expected[start:]


def test_a_change_point_at_zero_leaves_only_the_target():
    schedule = shift.change_point(APART[0], APART[1], at=0)
    assert schedule.change_points == ()
    assert origin(schedule.sample(np.random.default_rng(0), 5)) == [1] * 5


def test_several_shifts():
    schedule = shift.shifts(APART, at=[2, 3, 6])
    assert schedule.change_points == (2, 3, 6)
    assert origin(schedule.sample(np.random.default_rng(0), 9)) == [0, 0, 1, 2, 2, 2, 3, 3, 3]
    assert origin(schedule.sample(np.random.default_rng(0), 4, start=5)) == [2, 3, 3, 3]
    assert shift.shifts(APART[:1], at=[]).change_points == ()


def test_a_gradual_shift():
    schedule = shift.gradual(APART[0], APART[1], start=100, stop=300)
    assert schedule.change_points == (300,)
    np.testing.assert_allclose(schedule.weights(np.array([0, 100, 150, 200, 300, 999]))[:, 1], [0, 0, 0.25, 0.5, 1, 1])
    rng = np.random.default_rng(0)
    assert origin(schedule.sample(rng, 101)) == [0] * 101
    assert origin(schedule.sample(rng, 200, start=300)) == [1] * 200
    share = np.mean([origin(schedule.sample(rng, 200, start=100)) for _ in range(500)], axis=0)
    expected = np.arange(200) / 200
    assert (np.abs(share - expected) <= 5 * np.sqrt(expected * (1 - expected) / 500) + 5 / 500).all()


def test_recurring_laws():
    schedule = shift.recurring(APART[:3], period=2)
    assert schedule.change_points == ()
    assert origin(schedule.sample(np.random.default_rng(0), 14)) == [0, 0, 1, 1, 2, 2, 0, 0, 1, 1, 2, 2, 0, 0]
    assert origin(schedule.sample(np.random.default_rng(0), 3, start=9)) == [1, 2, 2]


@pytest.mark.parametrize(
    ("schedule", "until", "weights"),
    [
        (shift.change_point(APART[0], APART[1], at=30), 10, [1, 0]),
        (shift.change_point(APART[0], APART[1], at=30), 30, [1, 0]),
        (shift.change_point(APART[0], APART[1], at=30), 100, [0.3, 0.7]),
        (shift.shifts(APART[:3], at=[2, 5]), 10, [0.2, 0.3, 0.5]),
        (shift.gradual(APART[0], APART[1], start=10, stop=20), 21, [1 - 5.5 / 21, 5.5 / 21]),
        (shift.recurring(APART[:2], period=3), 7, [4 / 7, 3 / 7]),
    ],
)
def test_the_effective_source_weighs_laws_by_rounds(schedule, until, weights):
    law = schedule.mixture(until)
    np.testing.assert_allclose(law.weights, weights, atol=1e-15)
    masses = [float(law.mass(*part.bounds.T)) for part in schedule.parts]
    np.testing.assert_allclose(masses, weights, atol=1e-15)
    x = schedule.sample(np.random.default_rng(3), until)
    if set(schedule.weights(np.arange(until)).ravel()) <= {0.0, 1.0}:  # no luck in which law is in force
        np.testing.assert_allclose(np.bincount(origin(x), minlength=len(weights)) / until, weights)


def test_schedules_know_their_box_and_repeat_for_a_seed():
    schedule = shift.gradual(shift.uniform(2), shift.power_law(2, 2, bounds=[[-1, 0.5], [0, 4]]), start=0, stop=50)
    assert schedule.context_dim == 2
    np.testing.assert_array_equal(schedule.bounds, [[-1, 1], [0, 4]])
    x = schedule.sample(np.random.default_rng(5), 200, start=10)
    assert x.shape == (200, 2)
    np.testing.assert_array_equal(x, schedule.sample(np.random.default_rng(5), 200, start=10))
    assert not np.array_equal(x, schedule.sample(np.random.default_rng(5), 200, start=40))


# ---- refusals -------------------------------------------------------------------------------------------------------

ONE, TWO = shift.uniform(1), shift.uniform(2)


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: shift.change_point(ONE, ONE, at=-1), r"at must be increasing integers, at least 0; got \[-1\]"),
        (lambda: shift.change_point(ONE, ONE, at=np.nan), "at must"),
        (lambda: shift.change_point(ONE, ONE, at=2.5), "at must"),
        (lambda: shift.change_point(ONE, ONE, at=True), r"at must be increasing integers, at least 0; got \[True\]"),
        (lambda: shift.gradual(ONE, ONE, 0.5, 5), "start must be an integer; got 0.5"),
        (lambda: shift.gradual(ONE, ONE, 0, np.inf), "stop must be an integer; got inf"),
        (lambda: shift.recurring([ONE], 2.5), "period must be a positive integer; got 2.5"),
        (lambda: shift.change_point(ONE, TWO, at=1), r"laws must have the same dimension; got \[1, 2\]"),
        (lambda: shift.shifts([ONE, ONE], at=[1, 2]), "at must have one entry less than laws, of which there are 2"),
        (lambda: shift.shifts([ONE, ONE, ONE], at=[2, 2]), "at must be increasing integers, at least 0"),
        (lambda: shift.shifts([ONE, ONE, ONE], at=[3, 2]), "at must be increasing integers, at least 0"),
        (lambda: shift.shifts([ONE, TWO], at=[1]), "laws must have the same dimension"),
        (lambda: shift.gradual(ONE, ONE, 5, 5), "start and stop must satisfy 0 <= start < stop; got 5 and 5"),
        (lambda: shift.gradual(ONE, ONE, -1, 5), "start and stop must satisfy"),
        (lambda: shift.gradual(ONE, TWO, 1, 5), "laws must have the same dimension"),
        (lambda: shift.recurring([ONE], 0), "period must be a positive integer; got 0"),
        (lambda: shift.recurring([ONE, TWO], 3), "laws must have the same dimension"),
        (lambda: shift.recurring([], 3), "laws must have the same dimension"),
        (lambda: shift.stationary(ONE).mixture(0), "until must be a positive integer; got 0"),
    ],
)
def test_bad_arguments_are_named(call, says):
    with pytest.raises(ValueError, match=says):
        call()
