"""Checks of single arguments: what passes, what is refused, and that the message names argument and value."""

import math
from fractions import Fraction

import numpy as np
import pytest

from conebandit.validate.arguments import as_count, as_integer, as_number, as_positive, as_seed

NO_NUMBERS = [True, False, np.True_, None, "3", [3], 3 + 0j, math.nan]


@pytest.mark.parametrize("check", [as_integer, as_count, as_number, as_positive])
@pytest.mark.parametrize("value", NO_NUMBERS)
def test_what_is_no_number_is_refused(check, value):
    with pytest.raises(ValueError, match=r"^size must be"):
        check(value, "size")


@pytest.mark.parametrize("value", [3, np.int32(3), np.uint8(3)])
def test_integers_of_any_kind_pass(value):
    for check in (as_integer, as_count):
        found = check(value, "size")
        assert found == 3
        assert type(found) is int


@pytest.mark.parametrize("value", [3.0, np.float64(3.0), Fraction(7, 2)])
def test_whole_floats_are_no_integers(value):
    with pytest.raises(ValueError, match="integer"):
        as_integer(value, "size")


@pytest.mark.parametrize(("value", "good"), [(0, False), (1, True), (4, True), (5, False)])
def test_bounds_of_integers_are_allowed(value, good):
    if good:
        assert as_integer(value, "size", least=1, most=4) == value
    else:
        with pytest.raises(ValueError, match="size must be an integer, at least 1 and at most 4; got"):
            as_integer(value, "size", least=1, most=4)


@pytest.mark.parametrize(("value", "good"), [(0, False), (1e-9, True), (1, True), (1.0000001, False), (10**400, False)])
def test_an_interval_open_below_and_closed_above(value, good):
    if good:
        assert as_number(value, "beta", above=0, most=1) == value
    else:
        with pytest.raises(ValueError, match="beta must be a number, above 0 and at most 1; got"):
            as_number(value, "beta", above=0, most=1)


@pytest.mark.parametrize("value", [math.inf, -math.inf, 10**400])
def test_without_bounds_a_number_must_still_be_finite(value):
    with pytest.raises(ValueError, match="size must be a finite number"):
        as_number(value, "size")


def test_a_hint_says_what_the_integer_is():
    with pytest.raises(ValueError, match="horizon must be an integer, at least 1, the number of rounds; got 0"):
        as_integer(0, "horizon", least=1, hint="the number of rounds")


def test_a_seed_must_be_an_integer():
    with pytest.raises(TypeError, match="seed must be an integer"):
        as_seed(True)
