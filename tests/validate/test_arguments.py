"""Checks of single arguments: what passes, what is refused, and that the message names argument and value."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from conebandit.validate.arguments import (
    as_arm,
    as_count,
    as_fraction,
    as_increasing,
    as_integer,
    as_key,
    as_keys,
    as_number,
    as_positive,
    as_resolution,
    as_seed,
    is_integer,
)

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


@pytest.mark.parametrize("value", [*NO_NUMBERS, 0, 1, -0.5, 1.5, math.inf, 10**400, np.array(0.5), "0.5"])
def test_a_fraction_lies_strictly_between_zero_and_one(value):
    with pytest.raises(ValueError, match="share must lie between 0 and 1; got"):
        as_fraction(value, "share")


@pytest.mark.parametrize("value", [0.5, np.float32(0.5), Fraction(1, 2)])
def test_fractions_of_any_kind_become_floats(value):
    found = as_fraction(value, "share")
    assert found == 0.5
    assert type(found) is float


@pytest.mark.parametrize(
    "values",
    [
        [2, 1],
        [1, 1],
        [True],
        [False, True],
        [np.True_],
        [1.0],
        [math.nan],
        ["1"],
        [None],
        [[1]],
        3,
        None,
        [np.array(1)],
    ],
)
def test_what_does_not_increase_is_refused(values):
    with pytest.raises(ValueError, match="rounds must be increasing integers; got"):
        as_increasing(values, "rounds")


@pytest.mark.parametrize("values", [[], [0], (1, np.int64(5)), np.array([1, 5]), [-3, 10**400]])
def test_increasing_integers_become_a_tuple(values):
    found = as_increasing(values, "rounds")
    assert found == tuple(values)
    assert all(type(v) is int for v in found)


def test_increasing_integers_may_have_a_lower_bound():
    assert as_increasing([0, 3], "rounds", least=0) == (0, 3)
    with pytest.raises(ValueError, match=r"rounds must be increasing integers, at least 0; got \[-1, 3\]"):
        as_increasing([-1, 3], "rounds", least=0)


@pytest.mark.parametrize("value", [3, np.uint64(2**63), -(10**400)])
def test_integers(value):
    assert is_integer(value)


@pytest.mark.parametrize("value", [*NO_NUMBERS, 3.0, math.inf, np.float64(3), np.array(3), Fraction(3)])
def test_no_integers(value):
    assert not is_integer(value)


@pytest.mark.parametrize("value", [np.array(3), np.array([3]), math.inf, -math.inf])
@pytest.mark.parametrize("check", [as_integer, as_count, as_number, as_positive])
def test_arrays_and_infinite_numbers_are_refused(check, value):
    with pytest.raises(ValueError, match=r"^size must be"):
        check(value, "size")


@pytest.mark.parametrize("arm", [True, np.True_, -1, 3, 1.0, "1", None, np.array(1), 10**400, math.nan])
def test_what_is_no_arm_is_refused(arm):
    with pytest.raises(ValueError, match="arm must be an integer from 0 to 2; got"):
        as_arm(arm, 3)


@pytest.mark.parametrize("key", [True, np.True_, 1.0, None, [1], np.array(1)])
def test_what_is_no_key_is_refused(key):
    with pytest.raises(TypeError, match="key must be an integer, a string or bytes"):
        as_key(key)


def test_keys_are_the_lowest_64_bits():
    assert as_key(2**64 + 5) == as_key(5) == as_key(np.int8(5)) == 5
    assert as_key(-1) == 2**64 - 1
    assert as_key("a") == as_key(b"a") != as_key("b")


@given(st.lists(st.text() | st.integers() | st.binary()) | st.lists(st.text()))
@example(["\ud800"])
@example(["d1", True])
def test_many_keys_are_the_bits_of_each(keys):
    def found(make):
        try:
            return make().tolist()
        except (TypeError, UnicodeEncodeError) as error:
            return type(error), str(error)

    many = found(lambda: as_keys(keys, len(keys)))
    assert many == found(lambda: np.array([as_key(key) for key in keys], dtype=np.uint64))
    if isinstance(many, list):  # every kind of array is compiled for anew
        bits = as_keys(keys, len(keys))
        assert (bits.dtype, bits.flags.writeable, bits.flags.c_contiguous) == (np.uint64, True, True)


@pytest.mark.parametrize("value", [0.5, [0.5, 0.5], (0.5, Fraction(1, 2)), np.array([0.5, 0.5]), np.float32(0.5)])
def test_a_resolution_is_one_number_or_one_for_each_objective(value):
    found = as_resolution(value, 2)
    assert found.dtype == np.float64
    assert found.tolist() == [0.5, 0.5]


@pytest.mark.parametrize(
    ("value", "says"),
    [
        (-0.1, r"^resolution must be a number, at least 0; got -0.1\.$"),
        ([0.1, math.inf], r"^resolution\[1\] must be a number, at least 0; got inf\.$"),
        ([True, 0.1], r"^resolution\[0\] must be a number, at least 0; got True\.$"),
        ([0.1], r"^resolution must be one number or 2 of them, one for each objective; got \[0.1\]\.$"),
        ([], r"^resolution must be one number or 2 of them"),
        (np.zeros((2, 2)), r"^resolution\[0\] must be a number"),
        (np.array(0.1), r"^resolution must be a number"),
        ({"efficacy": 0.1}, r"^resolution must be a number"),
    ],
)
def test_what_is_no_resolution_is_refused_by_name(value, says):
    with pytest.raises(ValueError, match=says):
        as_resolution(value, 2)
