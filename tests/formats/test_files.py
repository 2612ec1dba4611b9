"""Tables in files are read in one place: texts of CSV as they are written, and refusals in words."""

import numpy as np
import pytest

import conebandit as cb
from conebandit.experiment.errors import InvalidError
from conebandit.experiment.frames import Frame
from conebandit.formats.files import find_parquet, read_columns


def write(folder, text, name="table.csv"):
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize("pattern", ["*.parquet", "a[12].parquet", "**/*.parquet"])
def test_a_pattern_may_be_for_a_folder_whose_name_has_brackets(tmp_path, monkeypatch, pattern):
    folder = tmp_path / "log [2026]"
    folder.mkdir()
    for name in ("a1.parquet", "a2.parquet"):
        (folder / name).touch()
    assert [file.name for file in find_parquet(folder / pattern)] == ["a1.parquet", "a2.parquet"]
    monkeypatch.chdir(tmp_path)
    assert [file.name for file in find_parquet(f"log [2026]/{pattern}")] == ["a1.parquet", "a2.parquet"]
    assert [file.name for file in find_parquet(f"lo*/{pattern}")] == ["a1.parquet", "a2.parquet"]


def test_texts_are_as_they_are_written(tmp_path):
    path = write(tmp_path, '\ufeffarm , zip,note\n\n old,01,"a, ""b"""\nnew,2,\n')
    assert read_columns(path) == {"arm": ["old", "new"], "zip": ["01", "2"], "note": ['a, "b"', ""]}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "is empty: a header and at least one row are needed"),
        ("a,b\n", "is empty"),
        ("a;b\n1,5;2\n", "table.csv has semicolons between its entries: save it with commas"),
        ("a\tb\n1\t2\n", "has tabs between its entries"),
        ("a,a\n1,2\n", "has a column name twice in its header: a, a"),
        ("1,2\n3,4\n", "seems to have no header: its first row is 1, 2"),
        ("a,b\n1,2\n3\n", "row 3: 1 entries, but the header has 2"),
        ("a\n" + "1" * 200_000, "is not a CSV file in UTF-8: field larger"),
    ],
)
def test_what_is_no_table_is_refused(tmp_path, text, says):
    with pytest.raises(ValueError, match=says):
        read_columns(write(tmp_path, text))
    with pytest.raises(InvalidError, match=says):
        Frame(write(tmp_path, text))


def test_files_that_hold_something_else(tmp_path):
    with pytest.raises(ValueError, match="is not a file"):
        read_columns(tmp_path)
    with pytest.raises(ValueError, match="holds the events of a log; export its decisions"):
        read_columns(write(tmp_path, "{}", "log.jsonl"))


def test_columns_get_types(tmp_path):
    path = write(tmp_path, "age,member,country,won\n31,true,AT,TRUE\nNA,False,?,\n1e3,,CH,false\n")
    frame = Frame(path)
    assert frame.column("age") == [31.0, None, 1000.0]
    assert frame.column("member") == [True, False, None]
    assert frame.column("country") == ["AT", None, "CH"]
    assert frame.numbers("won") == [True, None, False]
    assert Frame(str(path)).names == ("age", "member", "country", "won")


def test_known_names_mean_themselves(tmp_path):
    """Of a code, zeros count; ``none`` may be a treatment; a number may be written as another program writes it."""
    frame = Frame(write(tmp_path, "zip,arm,dose,smokes\n01,none,1.0,TRUE\n02,drug,2.0,false\n,drug,2,FALSE\n"))
    assert frame.levels("zip", ("01", "02")) == ["01", "02", None]
    assert frame.levels("arm", ("none", "drug")) == ["none", "drug", "drug"]
    assert frame.levels("arm", ()) == ["none", "drug", "drug"]
    assert frame.levels("zip", ()) == ["1", "2", None]
    assert frame.levels("dose", ("1", "2")) == ["1", "2", "2"]
    assert frame.levels("smokes", ("true", "false")) == ["true", "false", "false"]


def test_a_word_among_numbers_is_found_where_it_is(tmp_path):
    frame = Frame(write(tmp_path, "revenue\n3.5\nmany\n-\n"))
    assert frame.numbers("revenue") == [3.5, "many", None]
    assert frame.column("revenue") == ["3.5", "many", None]


def test_parquet_has_types_of_its_own(tmp_path):
    polars = pytest.importorskip("polars", reason="pip install polars")
    path = tmp_path / "table.parquet"
    polars.DataFrame({"zip": ["01", None], "age": [31, None], "x": [np.nan, 0.5]}).write_parquet(path)
    frame = Frame(path)
    assert [frame.column(name) for name in frame.names] == [["01", None], [31, None], [None, 0.5]]
    assert frame.levels("zip", ("01",)) == ["01", None]


def test_one_word_among_many_numbers_is_named(tmp_path):
    rows = [f"{arm},{age},1" for arm, age in zip("ab" * 25, [*range(20, 69), "unknown"], strict=True)]
    path = write(tmp_path, "\n".join(["arm,age,sales", *rows]))
    with pytest.raises(InvalidError, match=r"column 'age' holds numbers, but also 'unknown'. Leave those empty"):
        cb.Experiment.from_frame(path, arm="arm", metrics=["sales"], context=["age"])
