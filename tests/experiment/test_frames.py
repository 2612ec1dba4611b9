"""Tables: whatever the library, the same values; what cannot be read is refused in words."""

import datetime
import math
from decimal import Decimal

import numpy as np
import pandas
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conebandit.experiment.errors import InvalidError
from conebandit.experiment.frames import Frame, kind_of

VALUES = {
    "whole": st.none() | st.integers(-(2**40), 2**40),
    "number": st.none() | st.floats(allow_nan=True, allow_infinity=False),
    "text": st.none() | st.text(st.characters(codec="utf-8", exclude_characters="\x00"), max_size=5),
    "yes": st.none() | st.booleans(),
}
TABLES = st.integers(1, 6).flatmap(
    lambda n: st.fixed_dictionaries({name: st.lists(one, min_size=n, max_size=n) for name, one in VALUES.items()})
)


def libraries():
    found = {}
    for name, make in {
        "pandas": lambda module: module.DataFrame,
        "polars": lambda module: lambda columns: module.DataFrame(columns, strict=False),
        "pyarrow": lambda module: module.table,
    }.items():
        try:
            found[name] = make(__import__(name))
        except ModuleNotFoundError:
            continue
    return found


LIBRARIES = libraries()


def plain(values):
    return [None if isinstance(v, float) and math.isnan(v) else v for v in values]


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
@settings(max_examples=40, deadline=None)
@given(columns=TABLES)
def test_every_library_has_the_same_values(library, columns):
    if library not in LIBRARIES:
        pytest.skip(f"pip install {library}")
    frame = Frame(LIBRARIES[library](columns))
    assert len(frame) == len(columns["text"])
    for name, values in columns.items():
        assert frame.column(name) == Frame(columns).column(name) == plain(values)


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
def test_new_columns_come_back_in_the_same_library(library):
    if library not in LIBRARIES:
        pytest.skip(f"pip install {library}")
    table = LIBRARIES[library]({"x": [1, 2]})
    made = Frame(table).like({"arm": ["a", "b"], "chance": [0.5, None]}, texts=["arm"])
    assert type(made) is type(table)
    assert Frame(made).column("arm") == ["a", "b"]
    assert Frame(made).column("chance") == [0.5, None]


def test_the_index_of_pandas_is_kept():
    pandas = pytest.importorskip("pandas", reason="pip install pandas")
    table = pandas.DataFrame({"x": [1, 2]}, index=["p", "q"])
    assert list(Frame(table).like({"y": [1.0, 2.0]}).index) == ["p", "q"]


def test_categories_and_whole_numbers_with_gaps_of_pandas():
    pandas = pytest.importorskip("pandas", reason="pip install pandas")
    table = pandas.DataFrame({"c": pandas.Categorical([1, 2, None]), "n": pandas.array([1, None, 3], dtype="Int64")})
    frame = Frame(table)
    assert frame.column("c") == ["1", "2", None]
    assert frame.column("n") == [1, None, 3]


def test_dicts_arrays_and_rows():
    array = np.array([(1.5, "a"), (math.nan, "b")], dtype=[("x", float), ("y", "U1")])
    rows = [{"x": 1.5, "y": "a"}, {"y": "b"}]
    for given_ in (array, rows, {"x": np.array([1.5, np.nan]), "y": np.array(["a", "b"])}):
        frame = Frame(given_)
        assert frame.column("x") == [1.5, None]
        assert frame.column("y") == ["a", "b"]
    assert Frame({"d": [Decimal("1.5"), np.float32(2.0), np.int8(3), np.True_]}).column("d") == [1.5, 2.0, 3, True]
    assert len(Frame([{}, {}])) == 2


def test_kinds():
    assert kind_of([1, 2.0, None]) == "number"
    assert kind_of([True, None]) == "boolean"
    assert kind_of([True, 1]) == "mixed"
    assert kind_of([datetime.datetime(2026, 1, 1), datetime.date(2026, 1, 1)]) == "date"
    assert kind_of([[1]]) == "mixed"
    assert kind_of([]) == "nothing"


@pytest.mark.parametrize(
    ("table", "says"),
    [
        (np.zeros((2, 2)), r"an array has no names for its columns; got shape \(2, 2\). Give a dict"),
        (3, "a table must be a data frame .*, a dict of columns or the path of a file; got int"),
        ({"a": [1], "b": [1, 2]}, "must have the same length; got {'a': 1, 'b': 2}"),
        ({"a": "xyz"}, "column 'a' must be a list or an array; got 'xyz'"),
        ({"a": object()}, "column 'a' must be a list or an array"),
        ({"a": np.zeros((2, 2))}, "column 'a' must have one dimension"),
        ({3: [1]}, r"must have texts as names; got \(3,\)"),
    ],
)
def test_what_is_no_table_is_refused(table, says):
    with pytest.raises(InvalidError, match=says):
        Frame(table)


def test_a_lazy_frame_is_to_be_collected():
    polars = pytest.importorskip("polars", reason="pip install polars")
    with pytest.raises(InvalidError, match=r"got LazyFrame. Call its method 'collect' first"):
        Frame(polars.LazyFrame({"a": [1]}))


def test_names_that_are_there_twice_are_refused():
    pandas = pytest.importorskip("pandas", reason="pip install pandas")
    with pytest.raises(InvalidError, match="the table cannot be read"):
        Frame(pandas.DataFrame([[1, 2]], columns=["a", "a"]))


def test_a_column_that_is_not_there():
    with pytest.raises(InvalidError, match="the table has no column 'agee'; it has age, device"):
        Frame({"age": [1], "device": ["a"]}).column("agee")


@pytest.mark.parametrize("unit", ["D", "s", "ms", "us", "ns"])
@pytest.mark.parametrize("kind", ["datetime64", "timedelta64"])
def test_times_in_arrays_are_times_in_any_unit(kind, unit):
    """NumPy makes plain integers of what it has in nanoseconds: a duration would be taken for a number."""
    column = np.array([1, 2, "NaT"], dtype=f"{kind}[{unit}]")
    values = Frame({"t": column}).column("t")
    assert kind_of(values) == "date"
    assert values[2] is None
    assert Frame([{"t": each} for each in column]).column("t") == values


def test_what_pandas_calls_missing_is_missing_in_lists():
    """Such lists are what ``to_dict`` of a pandas frame gives."""
    assert Frame({"a": [pandas.NA, 1], "b": [pandas.NaT, "x"]}).column("a") == [None, 1]
    assert Frame([{"a": pandas.NaT}, {"a": "x"}]).column("a") == [None, "x"]
