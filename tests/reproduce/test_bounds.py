"""The printed bounds against the formulas typed out once more, by hand, with numbers."""

import math

import numpy as np
import pytest

from conebandit.reproduce.bounds import (
    Problem,
    effective_samples,
    multiple_shifts_as_printed,
    rate_from_first_principles,
    single_shift_as_printed,
    special_family_as_printed,
)

# K log(K M / delta) = 4 ln(4 * 3 / 0.06) = 4 ln 200
PROBLEM = Problem(
    n_arms=4, n_objectives=3, horizon=1000, change_point=200, context_dim=2, alpha=0.5, beta=0.8, delta=0.06
)
COST = 4 * math.log(200)


def test_single_shift():
    # Exponents (a + 1) / b = 1.875, (a + 1) / a * (b + 1) / b = 3 * 2.25 = 6.75; rho by rounds .15 and .0125.
    expected = (COST / 800) ** 1.875 + (COST * 0.0125) ** 6.75
    assert single_shift_as_printed(PROBLEM, 30, 10) == pytest.approx(expected)
    assert single_shift_as_printed(PROBLEM, 1, 10) == pytest.approx((COST / 800) ** 1.875 + (COST / 200) ** 6.75)


def test_without_a_shift_it_is_the_remark():
    problem = Problem(4, 3, 1000, 0, alpha=0.5, beta=0.8, delta=0.06)
    expected = (COST / 1000) ** 1.875 + (COST * 10 / 1000) ** 6.75
    assert single_shift_as_printed(problem, np.inf, 10) == pytest.approx(expected)


def test_special_family():
    # (a + 1) / a * gamma (b + 1) / b = 6.75 gamma; 1 / a = 2.
    least = COST / 800
    assert special_family_as_printed(PROBLEM, 1.2) == pytest.approx(least ** (6.75 * 1.2) * least**2 + least**1.875)


def test_multiple_shifts():
    expected = (COST / 800) ** 2 * (COST / 800) ** 1.875 + (COST * 0.0125) ** 6.75
    assert multiple_shifts_as_printed(PROBLEM, 30, 10) == pytest.approx(expected)


def test_first_principles():
    # beta (1 + alpha) / (2 beta + d) = .8 * 1.5 / 3.6 = 1/3; 200 source rows at 10 / 30 each.
    samples = effective_samples(PROBLEM, 30, 10)
    assert samples == pytest.approx(800 + 200 / 3)
    assert rate_from_first_principles(PROBLEM, samples) == pytest.approx(800 * (COST / samples) ** (1 / 3))


def test_delta_is_one_over_the_horizon_by_default():
    assert Problem(4, 3, 1000, 0).cost == pytest.approx(4 * math.log(12_000))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_arms": 0}, "n_arms must be a positive integer"),
        ({"horizon": 2.5}, "horizon must be a positive integer"),
        ({"change_point": 1000}, "change_point must be an integer, at least 0 and at most 999"),
        ({"n_arms": True}, "n_arms must be a positive integer"),
        ({"change_point": False}, "change_point must be an integer"),
        ({"alpha": 0}, "alpha must be a positive number"),
        ({"beta": np.inf}, "beta must be a positive number"),
        ({"delta": 1.0}, "delta must be a number, above 0 and below 1"),
    ],
)
def test_wrong_problems(options, message):
    usual = {"n_arms": 4, "n_objectives": 3, "horizon": 1000, "change_point": 200}
    with pytest.raises(ValueError, match=message):
        Problem(**{**usual, **options})


def test_wrong_samples():
    with pytest.raises(ValueError, match="samples must be a positive number"):
        rate_from_first_principles(PROBLEM, 0)
