"""Two files compared: the command as a user calls it, the numbers behind it, and what can be wrong with files."""

import csv
import re
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import conebandit as cb
from conebandit.cli import app
from conebandit.diagnose.report import shift_report
from conebandit.diagnose.tables import Pair, TableError, read_pair
from tests.pages.elements import Elements

DATA = Path(__file__).parents[2] / "docs" / "data"


def write(path, header, rows):
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([header, *rows])
    return path


@pytest.fixture
def run():
    return lambda *args: CliRunner().invoke(app, ["shift", *(str(a) for a in args)])


def test_two_real_samples(run, tmp_path):
    page = tmp_path / "page.html"
    result = run(
        DATA / "randhie-site-2.csv", DATA / "randhie-site-6.csv", "--columns", "age, income,education", "--to", page
    )
    assert result.exit_code == 0, result.output
    words = " ".join(result.output.split())
    assert "income and education moved, income most (mean 8743 in the source, 6874 in the target)." in words
    assert re.search(r"One target row is worth 1\.\d+ source rows \(95 % interval", words)
    html = page.read_text()
    found = Elements(html)
    assert [attributes["aria-label"] for attributes, _ in found.all("svg")] == ["overlap map", "rho over h"]
    assert [path[-1][1]["class"] for _, path in found.all("table")] == ["scroll"] * 2
    assert not re.search(r": #[0-9a-f]{6}[;\"]", html.split("</style>")[1])  # every colour has a shade for dark ground
    assert not re.search(r"(src|href)=.?https?:", html)
    for text in ("income and education moved", "Overlap map", "Which columns moved", "1/64"):
        assert text in html


def test_one_column_and_no_shift(run, tmp_path, rng):
    files = [write(tmp_path / f"{name}.csv", ["x"], rng.random((400, 1))) for name in "ab"]
    result = run(*files, "--to", tmp_path / "page.html")
    assert result.exit_code == 0, result.output
    assert "No column moved more than chance allows." in result.output


def test_names_that_look_like_markup_are_printed_as_they_are(run, tmp_path, rng):
    folder = tmp_path / "[b]"
    folder.mkdir()
    names = ["[a]", "[/b]", "[bold]", ":star:"]
    files = [write(folder / f"{name}.csv", names, rng.random((30, 4))) for name in ("[x]", "[y")]
    result = run(*files, "--to", folder / "[red].html")
    assert result.exit_code == 0, result.output
    assert all(f" {name} " in result.output for name in names)
    assert f"Look at {folder / '[red].html'}" in result.output


def test_the_numbers_are_those_of_rho(rng):
    source, target = 10 + 5 * rng.random((300, 2)), 10 + 5 * rng.random((200, 2)) ** [1, 2]
    report = shift_report(Pair(("a", "b"), source, target, ()))
    assert [m.column for m in report.moved] == ["b", "a"]
    both = np.vstack([source, target])
    box = np.column_stack([both.min(axis=0), both.max(axis=0)])
    across, within = (cb.rho(s, target, report.h, bounds=box) for s in (source, target))
    assert report.exchange.value == pytest.approx(across.value / within.value)
    assert max(across.empty, within.empty) <= 0.05
    finer = [cb.rho(s, target, report.h / 2, bounds=box).empty for s in (source, target)]
    assert max(finer) > 0.05
    near = (np.abs(source[None] - target[:, None]) <= report.h * np.ptp(box, axis=1)).all(axis=2).sum(axis=1)
    assert report.little_support == pytest.approx((near < 5).mean())
    grid = np.sort(both[:, 1])
    shares = [(t[:, 1] <= grid[:, None]).mean(axis=1) for t in (source, target)]
    assert report.moved[0].distance == pytest.approx(np.abs(shares[0] - shares[1]).max())


@pytest.mark.parametrize("most", [4000, 50])
def test_the_same_table_twice_is_worth_itself(rng, monkeypatch, most):
    monkeypatch.setattr("conebandit.diagnose.report.MAX_ROWS", most)
    table = rng.random((60, 2))
    report = shift_report(Pair(("a", "b"), table, table.copy(), ()))
    assert report.exchange.value == 1.0
    assert [moved.cost for moved in report.moved] == [1.0, 1.0]


def test_a_far_target_is_a_lower_bound(rng):
    report = shift_report(Pair(("a",), rng.random((100, 1)) * 0.1, 5 + rng.random((100, 1)), ()))
    assert not report.overlaps
    assert "worth at least" in report.sentences()[1]
    assert all("at least" in row[1] for row in report.curve_rows()[1:])


def test_many_columns_get_advice(rng):
    report = shift_report(Pair(tuple("abcdef"), rng.random((100, 6)), rng.random((100, 6)), ()))
    assert any("--columns" in sentence for sentence in report.sentences())


def test_long_tables_are_thinned(rng, monkeypatch):
    monkeypatch.setattr("conebandit.diagnose.report.MAX_ROWS", 50)
    pair = Pair(("a",), rng.random((200, 1)), rng.random((70, 1)), ())
    assert shift_report(pair).curve.value[-1] <= 51


# ---- files ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def good(tmp_path, rng):
    rows = [[i, x, "red", 7] for i, x in enumerate(rng.random(40).tolist())]
    return write(tmp_path / "good.csv", ["id", "x", "colour", "seven"], rows)


def test_what_is_left_out_is_said(good, tmp_path, rng):
    rows = [[x, "blue", 7, 1] for x in rng.random(30).tolist()] + [
        ["", "blue", 7, 1],
        *([missing, "red", 7, 1] for missing in (" NA", "n/a", "N/A", "#N/A", "-")),
        ["inf", "red", 7, 1],
    ]
    other = write(tmp_path / "other.csv", ["x", "colour", "seven", "extra"], rows)
    pair = read_pair(good, other)
    assert pair.columns == ("x", "colour=red")
    assert (pair.source.shape, pair.target.shape) == ((40, 2), (30, 2))
    assert set(pair.notes) == {
        "Column 'id' is not in both files.",
        "Column 'extra' is not in both files.",
        "Column 'seven' has the same value everywhere and is left out.",
        "6 of 37 rows of other.csv have a value that is missing and are left out.",
        "1 of 37 rows of other.csv have a value that is not finite and are left out.",
        "Compared: x, colour. Left out: seven.",
        "Outcomes, and the arm, move with the policy and not only with the population: if any of these columns is "
        "one, name it with --outcomes, or give the declaration with --experiment.",
    }


def test_text_that_moved_is_found(tmp_path, rng, run):
    """Ages are the same, but most phones are gone; ids and outcomes are not compared."""
    files = []
    for name, phones in (("a.csv", 0.7), ("b.csv", 0.2)):
        rows = [
            [f"u{i}", x, "phone" if luck < phones else "" if luck > 0.95 else "desk" if luck > 0.8 else "tv", i % 9]
            for i, (x, luck) in enumerate(rng.random((300, 2)).tolist())
        ]
        files.append(write(tmp_path / name, ["user", "age", "device", "revenue"], rows))
    source, target = files
    pair = read_pair(source, target, ["age", "device"])
    assert pair.columns == ("age", "device=desk", "device=phone", "device=tv", "device=(missing)")
    assert (pair.only(pair.columns[1:])[0].sum(axis=1) == 1).all()
    assert any("values of 'device' in a.csv are missing, which counts as a level" in note for note in pair.notes)
    report = shift_report(pair)
    assert report.moved[0].column in ("device=phone", "device=tv")
    assert "device=phone" in report.sentences()[0]
    assert (
        "Column 'user' has 300 different texts; at most 30 are compared, so it is left out."
        in read_pair(source, target).notes
    )
    with pytest.raises(TableError, match="Column 'user' has 300 different texts"):
        read_pair(source, target, ["user"])
    declaration = tmp_path / "trial.toml"
    declaration.write_text(
        'id = "e"\narms = ["x"]\nmetrics = [{ name = "revenue" }]\ncontext = [{ name = "age", low = 0, high = 1 }]\n'
    )
    result = run(source, target, "--experiment", declaration, "--to", tmp_path / "page.html")
    assert result.exit_code == 0, result.output
    assert "Compared: age. Left out: user, device, revenue." in result.output
    assert "No column moved" in result.output
    result = run(source, target, "--outcomes", "revenue, user", "--to", tmp_path / "page.html")
    assert "Compared: age, device. Left out: user, revenue." in result.output
    assert "--outcomes" not in result.output
    result = run(source, target, "--to", tmp_path / "page.html")
    said = " ".join(result.output.split())
    assert "Compared: age, device, revenue. Left out: user." in said
    assert "name it with --outcomes, or give the declaration with --experiment" in said
    with pytest.raises(TableError, match="Give --columns or --outcomes, not both"):
        read_pair(source, target, ["age"], outcomes=["revenue"])
    with pytest.raises(TableError, match="--outcomes: neither file has a column 'sales'; they have user, age, device"):
        read_pair(source, target, outcomes=["sales"])
    with pytest.raises(TableError, match="No column is left to compare: user, age, device, revenue are outcomes"):
        read_pair(source, target, outcomes=["user", "age", "device", "revenue"])


def test_only_the_context_of_a_log_of_the_service_is_compared(tmp_path, rng):
    rows = [["a", x, i % 3, "reported"] for i, x in enumerate(rng.random(50).tolist())]
    log = write(tmp_path / "log.csv", ["arm", "context.age", "metric.revenue", "status.revenue"], rows)
    pair = read_pair(log, log)
    assert pair.columns == ("context.age",)
    assert any("only the context is compared" in note for note in pair.notes)
    experiment = cb.Experiment.from_dict(
        {
            "id": "e",
            "arms": ["a"],
            "metrics": [{"name": "revenue"}],
            "context": [{"name": "age", "low": 0, "high": 1}],
        }
    )
    assert read_pair(log, log, experiment=experiment).columns == ("context.age",)
    assert read_pair(log, log, ["metric.revenue"]).columns == ("metric.revenue",)


def test_text_here_and_numbers_there(tmp_path, rng):
    one = write(tmp_path / "one.csv", ["x", "y"], [[x, i] for i, x in enumerate(rng.random(40).tolist())])
    other = write(tmp_path / "other.csv", ["x", "y"], [[x, f"n{i}"] for i, x in enumerate(rng.random(40).tolist())])
    assert (
        "Column 'y' holds text in one file and numbers in the other, so it is left out." in read_pair(one, other).notes
    )
    with pytest.raises(TableError, match="'y' holds text in one file"):
        read_pair(one, other, ["y"])


def bad_files(folder):
    def file(name, text):
        (folder / name).write_text(text)
        return folder / name

    numbers = "\n".join(str(i) for i in range(30))
    yield file("nothing.csv", ""), "nothing.csv is empty"
    yield file("header.csv", "x\n"), "header.csv is empty"
    yield file("twice.csv", f"x,x\n{numbers}"), "has a column name twice in its header: x, x"
    yield file("headless.csv", numbers), "seems to have no header: its first row is 0"
    yield file("ragged.csv", "x,y\n1,2\n1\n"), "ragged.csv, row 3: 1 entries, but the header has 2"
    yield file("short.csv", "x\n1\n2\n"), "has 2 complete rows in x; at least 20 are needed. The file has too few rows."
    yield file("holes.csv", "x,id\n" + "1,\n" * 30), "30 of 30 values are missing or not finite in 'id': leave it"
    yield file("strangers.csv", "y\n1\n2\n"), "share no column"
    yield folder / "missing.csv", "missing.csv is not a file"
    yield file("vast.csv", "x\n1e308\n-1e308\n" + numbers), "Column 'x' holds 1e+308, too large to compute with"
    (folder / "latin.csv").write_bytes(b"x\n\xe9\n")
    yield folder / "latin.csv", "not a CSV file in UTF-8"


def test_bad_files_are_explained(good, tmp_path, run):
    for path, message in bad_files(tmp_path):
        result = run(good, path, "--to", tmp_path / "page.html")
        assert result.exit_code == 2
        assert message in result.output, result.output
        assert "Traceback" not in result.output


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (["nope"], "good.csv has no column 'nope'; it has id, x, colour, seven."),
        (["colour"], r"All columns \(colour=red\) are constant and equal in both files"),
        (["x", "x"], "must name each column once"),
        ([], "must name each column once; got nothing"),
        (["seven"], r"All columns \(seven\) are constant and equal in both files"),
    ],
)
def test_wrong_columns(good, columns, message):
    with pytest.raises(TableError, match=message):
        read_pair(good, good, columns)


def test_parquet_without_polars_says_what_to_install(good, tmp_path, monkeypatch):
    path = tmp_path / "table.parquet"
    path.write_bytes(b"PAR1")
    monkeypatch.setitem(__import__("sys").modules, "polars", None)
    with pytest.raises(TableError, match=r"conebandit\[data\]"):
        read_pair(good, path)


@pytest.mark.parametrize("content", [b"", b"x\n1\n2\n", b"PAR1", b"PAR1" + 40 * b"\x7f" + b"PAR1"])
def test_damaged_parquet_is_explained(good, tmp_path, content):
    pytest.importorskip("polars")
    path = tmp_path / "table.parquet"
    path.write_bytes(content)
    with pytest.raises(TableError, match=r"table\.parquet cannot be read as a Parquet file"):
        read_pair(good, path)


def test_the_folder_of_the_page_is_made(good, run, tmp_path):
    page = tmp_path / "new" / "folder" / "page.html"
    result = run(good, good, "--columns", "x", "--to", page)
    assert result.exit_code == 0, result.output
    assert page.is_file()


def test_a_page_that_cannot_be_written_is_refused_before_the_work(good, run, tmp_path, monkeypatch):
    monkeypatch.setattr("conebandit.diagnose.report.shift_report", None)
    for page, message in ((tmp_path, "is a folder, not a file"), (good / "page.html", "cannot be made")):
        result = run(good, good, "--to", page)
        assert result.exit_code == 2, result.output
        assert "Invalid value for --to" in result.output
        assert message in " ".join(result.output.split())


def test_a_page_that_cannot_be_written_after_all_ends_with_the_reason(good, run, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("conebandit.diagnose.page.write_page", full)
    for page, message in ((good.with_name("page.html"), "No space left"), (good.with_name("x" * 300), "name too long")):
        result = run(good, good, "--columns", "x", "--to", page)
        assert result.exit_code == 2, result.output
        assert f"cannot be written: {message}" in " ".join(result.output.split()).replace("File ", "")


def test_parquet(tmp_path, rng):
    polars = pytest.importorskip("polars")
    x = rng.random(30)
    polars.DataFrame({"x": x, "flag": x > 0.5, "word": ["a"] * 30}).write_parquet(tmp_path / "a.parquet")
    pair = read_pair(tmp_path / "a.parquet", tmp_path / "a.parquet")
    assert pair.columns == ("x", "flag=true")  # as in a CSV file
    np.testing.assert_array_equal(pair.source[:, 0], x)
