"""Reports: intervals as SciPy has them, pairs by seed, tables that other programs read, a page that says how."""

import csv
import io

import numpy as np
import polars as pl
import pytest
from scipy import stats
from typer.testing import CliRunner

import conebandit as cb
from conebandit.cli import app
from conebandit.studies.comparison import compare
from conebandit.studies.paired import averages, half_width, paired
from conebandit.studies.report import write_report
from conebandit.studies.results import Results
from conebandit.studies.tables import to_csv, to_latex, to_markdown
from tests.pages.elements import Elements

STUDY = {
    "policies": ["random", {"name": "ParetoUCB1", "label": "ucb <1> $", "width": 0.1}, "oracle"],
    "environments": [{"name": "paper", "n_arms": 3, "change_point": 40, "grid": {"nu": [1.0, 3.0]}}],
    "horizon": 150,
    "seeds": 5,
    "curves": ["play", "recall"],
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return cb.run_study(STUDY, tmp_path_factory.mktemp("report") / "a & b", backend="sequential").path


def test_intervals_are_those_of_scipy(rng):
    a, b = rng.normal(size=(2, 12))
    cells = {("w", "a"): dict(enumerate(a)), ("w", "b"): dict(enumerate(b))}
    mean = averages(cells, "play")[0]
    interval = stats.ttest_1samp(a, 0.0).confidence_interval(0.95)
    assert (mean.low, mean.high) == pytest.approx((interval.low, interval.high))
    found = paired(cells, cells, [(("w", "a"), ("w", "b"))], "play", at_once=10)[0]
    alone, together = (stats.ttest_rel(a, b).confidence_interval(level) for level in (0.95, 0.995))
    assert found.difference == pytest.approx((a - b).mean())
    assert (found.low, found.high) == pytest.approx((alone.low, alone.high))
    assert (found.low_all, found.high_all) == pytest.approx((together.low, together.high))


def test_pairs_are_made_by_seed_and_only_of_seeds_that_both_have():
    a, b = {3: 1.0, 1: 5.0, 2: 9.0}, {1: 4.0, 3: 0.0, 7: 100.0}
    found = paired(
        {("w", "a"): a}, {("w", "b"): b}, [(("w", "a"), ("w", "b")), (("w", "z"), ("w", "b"))], "play", at_once=1
    )
    assert [(each.seeds, each.difference, each.low, each.decided) for each in found] == [(2, 1.0, 1.0, "higher")]


@pytest.mark.parametrize(
    ("values", "decided"),
    [([0.0, 0.0], "same"), ([1.0], "open"), ([1.0, -1.0, 0.5], "open"), ([-5.0, -5.1, -5.05], "lower"),
     ([np.inf, 1.0], "open"), ([np.nan, 1.0], "open")],
)  # fmt: skip
def test_a_difference_is_decided_by_its_interval_alone(values, decided):
    cells = {("w", "a"): dict(enumerate(values)), ("w", "b"): dict.fromkeys(range(len(values)), 0.0)}
    assert paired(cells, cells, [(("w", "a"), ("w", "b"))], "play", at_once=1)[0].decided == decided


def test_intervals_hold_as_often_as_they_say(rng):
    """Of 2,000 intervals for the mean of 8 normal values 5 % miss it, as far as chance allows (error 1e-3)."""
    values = rng.normal(size=(8, 2000))
    missed = (np.abs(values.mean(axis=0)) > half_width(values)).sum()
    low, high = stats.binom.ppf([0.0005, 0.9995], 2000, 0.05)
    assert low <= missed <= high


@pytest.mark.parametrize("level", [0.0, 1.0, 2.0, float("nan")])
def test_levels_are_chances(folder, level):
    study = cb.load_study(folder)
    for found in (study.averages, study.differences):
        with pytest.raises(ValueError, match="level must be between 0 and 1; got"):
            found("play", level=level)


def test_one_seed_has_no_interval():
    assert np.isnan(half_width(np.ones((1, 4)))).all()


def test_tables_survive_every_label():
    rows = [["policy", "mean"], ["a|b & c_d <1> $5 50% {x} ~^\\", "-1.5"], ['say "hi", now', "2e-05"]]
    assert list(csv.reader(io.StringIO(to_csv(rows)))) == rows
    assert to_markdown(rows).splitlines()[2].startswith(r"| a\|b & c_d")
    latex = to_latex(rows)
    assert r"a\textbar{}b \& c\_d \textless{}1\textgreater{} \$5 50\% \{x\} \textasciitilde{}" in latex
    assert r"\begin{tabular}{lr}" in latex
    assert "$-$1.5" in latex


def test_the_report_says_what_was_paired_and_how(folder, tmp_path):
    found = write_report(Results(folder), tmp_path / "report", reference="oracle")
    text = found.page.read_text(encoding="utf-8")
    Elements(text)
    for words in (
        "Student&#x27;s t over seeds", "common random numbers", "oracle is subtracted seed by seed",
        "all 8 differences on this page together (Bonferroni)", "some averages are over 5 seeds only", "30 of 30",
        "minus oracle", "a &amp; b", "ucb &lt;1&gt; $", "SHA-256",
    ):  # fmt: skip
        assert words.replace("&#x27;", "'") in text.replace("&#x27;", "'").replace("&#39;", "'"), words
    assert text.count("<svg") == 2 * 2 * 2
    assert {path.name for path in found.tables} == {
        f"{t}.{k}" for t in ("averages", "differences") for k in ("md", "csv", "tex")
    }
    with (tmp_path / "report/differences.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    frame = cb.load_study(folder).differences("play", "recall", reference="oracle")
    assert [float(row["difference"]) for row in rows] == frame["difference"].to_list(), "every digit"
    assert [float(row["low_all"]) for row in rows] == frame["low_all"].to_list()


def test_differences_are_those_of_the_frame(folder):
    study = cb.load_study(folder)
    frame, found = study.to_frame(), study.differences("play", reference="random")
    for row in found.to_dicts():
        mine, base = (
            {
                r["seed"]: r["play"]
                for r in frame.to_dicts()
                if (r["policy"], r["environment"]) == (p, row["environment"])
            }
            for p in (row["policy"], "random")
        )
        assert row["difference"] == pytest.approx(np.mean([mine[seed] - base[seed] for seed in base]))
        assert row["seeds"] == 5
    means = study.averages("play", "recall")
    assert means.height == 2 * 3 * 2
    assert study.differences(reference="random").height == 0


def test_a_study_that_is_not_finished_is_reported_as_such(folder, tmp_path):
    study = tmp_path / "part"
    (study / "parts").mkdir(parents=True)
    (study / "study.json").write_bytes((folder / "study.json").read_bytes())
    done = CliRunner().invoke(app, ["study", "report", str(study)])
    assert done.exit_code == 2
    assert "no run of the study" in done.output
    missing = CliRunner().invoke(app, ["study", "report", str(tmp_path / "nothing")])
    assert "holds no study" in missing.output
    assert not (tmp_path / "nothing").exists()
    Results(folder).rows().filter(__import__("polars").col("run") < 7).write_parquet(study / "parts/x.parquet")
    done = CliRunner().invoke(app, ["study", "report", str(study), "--series", "play"])
    assert done.exit_code == 0, done.output
    assert "7 of 30: the study is not finished, 23 runs are missing" in (study / "report/index.html").read_text()
    assert "some averages are over 1 seed only" in (study / "report/index.html").read_text()


def test_two_studies_are_compared_where_they_are_the_same(folder, tmp_path):
    other = cb.run_study(
        STUDY | {
            "policies": ["random", {"name": "ParetoUCB1", "label": "ucb <1> $", "width": 0.3}, "ConeTree"],
            "environments": [{"name": "paper", "n_arms": 3, "change_point": 40, "grid": {"nu": [1.0, 2.0]}}],
            "seeds": [1, 2, 9],
        },
        tmp_path / "other",
        backend="sequential",
    )  # fmt: skip
    found = compare(Results(folder), Results(other.path), ["play"])
    first, second = found.differences
    assert (first.policy, first.seeds, first.decided, second.seeds) == ("random", 2, "same", 2)
    assert "2 of 4 pairs of values are the same bit for bit" in found.words[0]
    assert "oracle, ConeTree, paper(n_arms=3, change_point=40, nu=3.0)" in found.words[1]
    command = ["study", "compare", str(folder), str(other.path), "--to", str(tmp_path / "tables")]
    done = CliRunner().invoke(app, command)
    assert done.exit_code == 0, done.output
    assert "second minus first" in (tmp_path / "tables/comparison.md").read_text()
    longer = cb.run_study(STUDY | {"horizon": 160, "seeds": 1}, tmp_path / "longer", backend="sequential")
    with pytest.raises(ValueError, match="there is nothing to compare"):
        compare(Results(folder), Results(longer.path), ["play"])


def test_two_studies_without_a_run_in_common_are_refused_in_words(folder, tmp_path):
    others = cb.run_study(STUDY | {"seeds": [7, 8]}, tmp_path / "others", backend="sequential").path
    done = CliRunner().invoke(app, ["study", "compare", str(folder), str(others), "--to", str(tmp_path / "tables")])
    assert done.exit_code == 2, done.output
    assert "Invalid value for SECOND: there is nothing to compare" in " ".join(done.output.replace("│", " ").split())
    with pytest.raises(ValueError, match=r"the first has seeds \[0, 1, 2, 3, 4\], the second \[7, 8\]. Run one"):
        compare(Results(folder), Results(others), ["play"])
    begun = cb.run_study(STUDY | {"seeds": [7, 1]}, tmp_path / "begun", backend="sequential").path
    for part in (begun / "parts").glob("*.parquet"):
        frame = pl.read_parquet(part)
        frame.filter(pl.col("seed") == 7).write_parquet(part)
    with pytest.raises(ValueError, match="no run in common that is finished"):
        compare(Results(folder), Results(begun), ["play"])


def test_another_resolution_is_said_where_series_depend_on_it(folder, tmp_path):
    coarse = cb.run_study(STUDY | {"resolution": 0.05, "seeds": 2}, tmp_path / "coarse", backend="sequential").path
    found = compare(Results(folder), Results(coarse), ["play", "front", "bad"]).words
    assert "The first has resolution 0.0, the second 0.05. These series are then not measured alike" in found[-1]
    assert found[-1].endswith(": play, bad.")
    done = CliRunner().invoke(app, ["study", "compare", str(folder), str(coarse)])
    assert found[-1].replace("play, bad", "play") in done.output
    for other, series in ((coarse, ["front", "recall"]), (folder, ["play"])):
        assert "measured" not in " ".join(compare(Results(folder), Results(other), series).words)
