"""Context columns of a declaration: what a value becomes, and what the rules do with others."""

from collections import UserDict, defaultdict

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conebandit.experiment.columns import Categorical, Numeric, plain_coordinates, read_columns
from conebandit.experiment.declaration import MIN_FOR_ARRAYS, Experiment, coordinates_of_many
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


MANY = Experiment.from_dict(
    {
        "id": "e",
        "arms": ["a", "b"],
        "metrics": [{"name": "m"}],
        "context": [
            {"name": "age", "low": -1.5, "high": 98.1, "missing": 3},
            {"name": "height", "low": 1e-300, "high": 1e15, "out_of_range": "clip"},
            {"name": "ma\u00df", "levels": ["\u00e9t\u00e9", "true", "tea"], "unknown": "zeros", "missing": "tea"},
        ],
    }
)
NUMBERS = st.one_of(
    st.floats(-2, 99),
    st.integers(-2, 99),
    st.sampled_from([-0.0, 0.0, 98.1, np.nextafter(98.1, 99), 5e-324, 1e15, 1e16]),
)
ODD = st.sampled_from([None, True, np.float64(0.5), "7", float("nan"), float("inf"), 10**400, -(10**17)])
WORDS = st.sampled_from(["\u00e9t\u00e9", "tea", "true", "e\u0301te\u0301", "coffee", True, False, None, 3, ["tea"]])


def contexts_of(numbers, words):
    plain = st.fixed_dictionaries({"age": numbers, "height": numbers, "ma\u00df": words})
    return st.one_of(plain, plain, plain, plain.map(lambda c: dict(reversed(c.items()))))


def outcome(work):
    """What comes out, to the bit, or why nothing does."""
    try:
        return [[number.hex() for number in row] for row in work()]
    except InvalidError as error:
        return str(error)


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_many_contexts_are_encoded_as_one_after_the_other(data):
    n = data.draw(st.sampled_from([1, 2, MIN_FOR_ARRAYS - 1, MIN_FOR_ARRAYS, 3 * MIN_FOR_ARRAYS]))
    plain = contexts_of(
        st.one_of(st.floats(0, 98), st.integers(1, 90)), st.sampled_from(["\u00e9t\u00e9", "tea", True])
    )
    odd = st.one_of(
        contexts_of(NUMBERS | ODD, WORDS),
        st.just({}),
        st.just({"age": 1, "height": 2, "other": "tea"}),
        st.just(UserDict(age=1, height=2)),
    )
    contexts = data.draw(st.lists(plain, min_size=n, max_size=n))
    for place in data.draw(st.lists(st.integers(0, n - 1), max_size=2)):
        contexts[place] = data.draw(odd)
    together = outcome(lambda: coordinates_of_many(MANY, contexts).tolist())
    assert together == outcome(lambda: [MANY.coordinates(context) for context in contexts])


def test_contexts_that_leave_nothing_to_a_rule_are_encoded_by_columns():
    good = {"age": 1, "height": 2.0, "ma\u00df": "tea"}
    assert plain_coordinates(MANY.columns, [good] * 3).shape == (3, 5)
    sparse = defaultdict(float, age=1, height=2, other=3)
    for other in (
        {**good, "age": None},
        {**good, "height": 10**400},
        {**good, "ma\u00df": "coffee"},
        sparse,
        {"age": 1},
    ):
        assert plain_coordinates(MANY.columns, [good, other]) is None
    assert len(sparse) == 3, "nobody's context is changed"
    assert plain_coordinates((), [{}, {}]) is None
