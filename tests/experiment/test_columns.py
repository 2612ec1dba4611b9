"""Context columns of a declaration: what a value becomes, and what the rules do with others."""

import numpy as np
import pytest

from conebandit.experiment.columns import Categorical, Numeric, read_columns
from conebandit.experiment.errors import InvalidError


def encoded(column, value):
    found = column.coordinates(value)
    assert len(found) == column.width
    return found


@pytest.mark.parametrize(("value", "expected"), [(18, 0.0), (38, 0.25), (98.0, 1.0)])
def test_a_number_is_scaled_by_its_bounds(value, expected):
    assert encoded(Numeric("age", 18, 98), value) == [expected]


def test_numbers_outside_are_refused_or_clipped():
    with pytest.raises(InvalidError, match=r"'age' must lie in \[18, 98\]; got 99.0, and its rule"):
        encoded(Numeric("age", 18, 98), 99)
    clipping = Numeric("age", 18, 98, out_of_range="clip")
    assert encoded(clipping, 99) == [1.0]
    assert encoded(clipping, -1) == [0.0]


@pytest.mark.parametrize("value", [True, "38", [38], float("nan"), float("inf"), 1e16, 10**400])
def test_what_is_no_number_is_refused(value):
    with pytest.raises(InvalidError, match="context: 'age' must be a number"):
        encoded(Numeric("age", 18, 98, out_of_range="clip"), value)


def test_a_level_is_one_of_several_coordinates():
    device = Categorical("device", ("phone", "desk"))
    assert encoded(device, "desk") == [0.0, 1.0]
    with pytest.raises(InvalidError, match="'device' must be one of phone, desk; got 'tv', and its rule"):
        encoded(device, "tv")
    with pytest.raises(InvalidError, match="'device' must be a string; got 3"):
        encoded(device, 3)
    assert encoded(Categorical("device", ("phone", "desk"), unknown="zeros"), "tv") == [0.0, 0.0]


@pytest.mark.parametrize(
    ("refusing", "filling", "expected"),
    [
        (Numeric("x", 0, 4), Numeric("x", 0, 4, missing=1.0), [0.25]),
        (Categorical("x", ("a", "b")), Categorical("x", ("a", "b"), missing="b"), [0.0, 1.0]),
    ],
)
def test_missing_values_are_refused_or_filled(refusing, filling, expected):
    with pytest.raises(InvalidError, match="context: 'x' is missing, and its rule for that is to refuse"):
        encoded(refusing, None)
    assert encoded(filling, None) == expected


def test_columns_are_read_from_tables():
    given = [{"name": "x", "low": 0, "high": 4, "missing": 1}, {"name": "y", "levels": ["a", "b"], "missing": "b"}]
    assert read_columns(given) == (Numeric("x", 0.0, 4.0, missing=1.0), Categorical("y", ("a", "b"), missing="b"))
    assert read_columns([]) == ()


@pytest.mark.parametrize(
    ("column", "says"),
    [
        ({"name": "x", "low": 1, "high": 1}, r"context\[0\]: low must be below high; got 1 and 1"),
        ({"name": "x", "low": 0}, r"context\[0\].high must be a number"),
        ({"name": "x", "low": True, "high": 2}, r"context\[0\].low must be a number"),
        ({"name": "x", "low": 0, "high": 1, "missing": 2}, "missing must be 'refuse' or a number in"),
        ({"name": "x", "low": 0, "high": 1, "levels": ["a"]}, "'low' that is not known"),
        ({"name": "x", "levels": ["a", "a"]}, "'a' is there twice"),
    ],
)
def test_bad_columns_are_refused(column, says):
    with pytest.raises(InvalidError, match=says):
        read_columns([column])


def test_booleans_are_levels():
    member = Categorical("member", ("false", "true"))
    assert encoded(member, True) == encoded(member, "true") == [0.0, 1.0]
    with pytest.raises(InvalidError, match="'device' must be one of phone, desk; got 'true'"):
        encoded(Categorical("device", ("phone", "desk")), True)


def test_numbers_are_decoded():
    assert Numeric("age", 18, 98).decode(np.array([[0.25], [1.0]])).tolist() == [38.0, 98.0]
