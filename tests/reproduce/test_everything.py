"""The whole reproduction, in its quick version, as `conebandit reproduce --quick` runs it."""

import csv
import html.parser

import numpy as np
import pytest
from typer.testing import CliRunner

import conebandit as cb
from conebandit import plots
from conebandit.cli import app
from conebandit.regret import SERIES
from conebandit.reproduce import study
from conebandit.reproduce.change_points import study_sections
from conebandit.reproduce.everything import reproduce_all
from conebandit.reproduce.study import POINTS, POLICIES, QUICK, Result, Setting, run_study


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    to = tmp_path_factory.mktemp("reproduction")
    result = CliRunner().invoke(app, ["reproduce", "--quick", "--jobs", "1", "--to", str(to)])
    assert result.exit_code == 0, result.output
    assert "20 of 20 entries agree" in result.output
    return to


def test_every_figure_is_there_as_png_and_svg(folder):
    stems = ["cones", "gap-and-metric", "hausdorff-example", *(f"change-point-{s}" for s in SERIES)]
    for stem in stems:
        assert (folder / f"{stem}.png").read_bytes().startswith(b"\x89PNG")
        assert b"<svg" in (folder / f"{stem}.svg").read_bytes()[:2000]


def test_the_page_is_self_contained_and_well_formed(folder):
    text = (folder / "index.html").read_text()

    class Checker(html.parser.HTMLParser):
        def __init__(self):
            super().__init__()
            self.open_tags, self.images = [], 0

        def handle_starttag(self, tag, attrs):
            for name, value in attrs:
                if name in ("src", "href"):
                    assert value.startswith(("data:", "#")), f"{tag} reaches outside: {value[:60]}"
            self.images += tag == "img"
            if tag not in ("meta", "link", "img"):
                self.open_tags.append(tag)

        def handle_endtag(self, tag):
            assert self.open_tags.pop() == tag

    checker = Checker()
    checker.feed(text)
    assert checker.open_tags == []
    assert checker.images == 3 + len(SERIES)
    for words in ("Gap table", "Figure 1", "Figure 2", "Hausdorff example", "Effect of the change point", "random arm"):
        assert words in text


def test_data_are_what_the_runs_give(folder):
    with (folder / "change-point.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert {r["policy"] for r in rows} == set(POLICIES)
    assert {r["series"] for r in rows} == set(SERIES)
    row = next(
        r
        for r in rows
        if (r["K"], r["nu"], r["t_p"], r["policy"], r["series"], r["rounds_after"])
        == ("5", "3", "100", "paper", "play", "3900")
    )
    env = cb.environments.paper(5, 3, 100, sigma=1.0)
    policy = cb.ConeTree(5, env.cone, 1, preset="paper", delta=1 / QUICK.horizon)
    totals = [cb.simulate(policy, env, QUICK.horizon, seed).total("play", after=100) for seed in range(QUICK.runs)]
    assert float(row["mean"]) == pytest.approx(np.mean(totals), rel=1e-5)
    assert float(row["deviation"]) == pytest.approx(np.std(totals), rel=1e-4)


def test_a_second_run_reuses_finished_results(folder, monkeypatch):
    page = (folder / "index.html").read_text()
    ran = []
    real = study._run_cell
    monkeypatch.setattr(study, "_run_cell", lambda setting, cell: ran.append(cell) or real(setting, cell))
    steps = []
    reproduce_all(folder, quick=True, n_jobs=1, progress=steps.append)
    assert ran == [(2, 1.0, 100, "sound")]  # the warm-up alone
    assert len(steps) == 5 + len(list(QUICK.cells()))
    assert (folder / "index.html").read_text() == page


def test_a_result_that_was_cut_short_is_run_again(tmp_path):
    setting = Setting(arms=(3,), nus=(1.0,), change_points=(50,), horizon=400, runs=1)
    first = run_study(setting, tmp_path, n_jobs=1)
    path = sorted(tmp_path.glob("*.npy"))[0]
    path.write_bytes(path.read_bytes()[:100])
    again = run_study(setting, tmp_path, n_jobs=1)
    for cell in setting.cells():
        np.testing.assert_array_equal(first.curves[cell], again.curves[cell])


def test_the_number_of_processes_does_not_matter(tmp_path):
    setting = Setting(arms=(3,), nus=(1.0,), change_points=(50,), horizon=400, runs=2)
    one = run_study(setting, tmp_path / "1", n_jobs=1)
    two = run_study(setting, tmp_path / "2", n_jobs=2)
    for cell in setting.cells():
        np.testing.assert_array_equal(one.curves[cell], two.curves[cell])


def test_verdicts_follow_the_data(tmp_path, monkeypatch):
    """Made-up curves: a policy that does profit from source samples, and one that beats chance."""
    monkeypatch.setattr(plots, "save", lambda figure, stem: None)  # figures are for other tests
    setting = Setting(runs=4)
    rng = np.random.default_rng(0)
    curves = {}
    for cell in setting.cells():
        level = {"random arm": 1.0, "paper": 0.3, "sound": 0.9}[cell.policy] - 1e-4 * cell.change_point
        noise = 1 + 0.001 * rng.standard_normal((4, 1, 1))
        ramp = np.linspace(1 / POINTS, 1, POINTS)
        curves[cell] = level * noise * ramp * (setting.horizon - cell.change_point) * np.ones((4, len(SERIES), 1))
    learns, beats = study_sections(Result(setting, curves), tmp_path)
    assert learns.agrees
    assert beats.agrees
    flat = {c: np.ones_like(v) * (setting.horizon - c.change_point) for c, v in curves.items()}
    learns, beats = study_sections(Result(setting, flat), tmp_path)
    assert not learns.agrees
    assert not beats.agrees
