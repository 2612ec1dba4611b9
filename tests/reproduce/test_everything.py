"""The whole reproduction, in its quick version, as `conebandit reproduce --quick` runs it."""

import csv
import re
from pathlib import Path

import numpy as np
import pytest
from scipy import stats
from typer.testing import CliRunner

import conebandit as cb
from conebandit import plots
from conebandit.cli import app
from conebandit.regret import SERIES
from conebandit.reproduce import study
from conebandit.reproduce.change_points import Change, _half_width, _overall, study_sections
from conebandit.reproduce.everything import reproduce_all
from conebandit.reproduce.study import POINTS, POLICIES, QUICK, Result, Setting, run_study
from tests.pages.elements import Elements


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    to = tmp_path_factory.mktemp("reproduction")
    result = CliRunner().invoke(app, ["reproduce", "--quick", "--jobs", "1", "--to", str(to)])
    assert result.exit_code == 0, result.output
    assert "20 of 20 entries agree" in result.output
    return to


def test_every_figure_is_there_as_png_and_svg(folder):
    panels = [f"K{k}-nu{nu:g}" for k, nu in QUICK.panels]
    stems = ["cone-C1", "cone-C3", "gap", "metric", "hausdorff-example"]
    stems += [f"change-point-{series}-{panel}" for series in SERIES for panel in panels]
    stems += [f"source-samples-{series}-{panel}" for series in ("play", "front") for panel in panels]
    for stem in stems:
        assert (folder / f"{stem}.png").read_bytes().startswith(b"\x89PNG")
        assert b"<svg" in (folder / f"{stem}.svg").read_bytes()[:2000]
    assert {path.stem for path in folder.glob("*.svg")} == set(stems)


def test_the_page_is_self_contained_and_shows_every_figure_once(folder):
    text = (folder / "index.html").read_text(encoding="utf-8")
    found = Elements(text)
    for tag, attributes, _ in found.seen:
        for name in ("src", "href", "xlink:href"):
            assert attributes.get(name, "#").startswith(("data:", "#")), f"{tag} reaches outside"
    shown = sorted(attributes["aria-label"] for attributes, _ in found.all("svg"))
    assert shown == sorted(path.stem.replace("-", " ") for path in folder.glob("*.svg"))
    names = [attributes["id"] for _, attributes, _ in found.seen if "id" in attributes]
    assert len(names) == len(set(names))
    for words in ("Gap table", "Figure 1", "Figure 2", "Hausdorff example", "Effect of the change point", "random arm"):
        assert words in text


def test_every_table_scrolls_and_every_colour_has_a_shade_for_dark_ground(folder):
    text = (folder / "index.html").read_text(encoding="utf-8")
    tables = Elements(text).all("table")
    assert len(tables) == 4
    assert all(path[-1][1].get("class") == "scroll" for _, path in tables)
    assert not re.search(r": #[0-9a-f]{3,6}[;\"]", text.split("</style>")[1])


def test_the_page_says_how_many_runs_there_are(folder):
    text = (folder / "index.html").read_text(encoding="utf-8")
    assert f"{QUICK.pairs} pairs of runs in place of {Setting().pairs}" in text
    assert f"{QUICK.default_runs} runs for each K and nu, {QUICK.runs} of the other policies" in text
    assert f"<td>default</td><td>{QUICK.default_runs}</td>" in text


def test_the_readme_says_how_many_runs_the_demo_has():
    setting = Setting()
    runs = sum(setting.runs_of(cell) for cell in setting.cells())
    words = " ".join((Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8").split())
    assert f"{runs} runs of {setting.horizon:,} rounds" in words


def rows_of(path):
    with path.open() as file:
        return list(csv.DictReader(file))


def totals(policy, point, series="front", *, n_arms=5, nu=3.0):
    """Sums over the rounds after the shift, of as many rounds at every change point."""
    env = cb.environments.paper(n_arms, nu, point, sigma=1.0)
    runs = [cb.simulate(policy, env, QUICK.horizon, seed) for seed in range(QUICK.pairs)]
    return np.array([run.series[series][point : point + 3700].sum() for run in runs])


def test_data_are_what_the_runs_give(folder):
    rows = rows_of(folder / "change-point.csv")
    assert {r["policy"] for r in rows} == set(POLICIES)
    assert {r["series"] for r in rows} == set(SERIES)
    key = {"K": "5", "nu": "3", "t_p": "100", "policy": "paper", "series": "play", "rounds_after": "3700"}
    (row,) = [r for r in rows if key.items() <= r.items()]
    policy = cb.ConeTree(5, cb.Cone.orthant(2), 1, preset="paper", delta=1 / QUICK.horizon)
    found = totals(policy, 100, "play")
    assert int(row["runs"]) == QUICK.pairs
    assert float(row["mean"]) == pytest.approx(np.mean(found), rel=1e-5)
    assert float(row["deviation"]) == pytest.approx(np.std(found), rel=1e-4)


def test_the_default_policy_is_run_at_one_change_point(folder):
    rows = [r for r in rows_of(folder / "change-point.csv") if r["policy"] == "default"]
    assert {(r["t_p"], r["runs"]) for r in rows} == {("200", str(QUICK.default_runs))}
    (row,) = [r for r in rows if (r["K"], r["nu"], r["series"], r["rounds_after"]) == ("10", "1", "recall", "3700")]
    env = cb.environments.paper(10, 1.0, 200, sigma=1.0)
    policy = cb.default_policy(10, env.cone, 1)
    runs = [cb.simulate(policy, env, QUICK.horizon, seed) for seed in range(QUICK.default_runs)]
    assert float(row["mean"]) == pytest.approx(np.mean([r.series["recall"][200:3900].sum() for r in runs]), rel=1e-5)


def test_differences_are_those_of_pairs(folder):
    """Against SciPy's test for pairs, whose interval must be the one on file."""
    rows = rows_of(folder / "source-samples.csv")
    assert {r["policy"] for r in rows} == {"random arm", "paper", "sound"}
    key = {"K": "5", "nu": "3", "policy": "paper", "series": "front"}
    (row,) = [r for r in rows if key.items() <= r.items()]
    policy = cb.ConeTree(5, cb.Cone.orthant(2), 1, preset="paper", delta=1 / QUICK.horizon)
    few, many = (totals(policy, point) / 3700 for point in (100, 300))
    low, high = stats.ttest_rel(many, few).confidence_interval(1 - 0.05 / 4)
    assert float(row["t_p=100"]) == pytest.approx(few.mean(), rel=1e-5)
    assert float(row["t_p=300"]) == pytest.approx(many.mean(), rel=1e-5)
    assert float(row["difference"]) == pytest.approx((low + high) / 2, rel=1e-4)
    assert float(row["half_width"]) == pytest.approx((high - low) / 2, rel=1e-4)


def test_a_second_run_reuses_finished_results(folder, monkeypatch):
    page = (folder / "index.html").read_text(encoding="utf-8")
    ran = []
    real = study._run_cell
    monkeypatch.setattr(study, "_run_cell", lambda setting, cell: ran.append(cell) or real(setting, cell))
    monkeypatch.setattr(plots, "save", lambda figure, stem: [stem.with_suffix(kind) for kind in (".png", ".svg")])
    steps = []
    reproduce_all(folder, quick=True, n_jobs=1, progress=steps.append)
    assert ran == []
    assert len(steps) == 5 + len(QUICK.cells())
    assert (folder / "index.html").read_text(encoding="utf-8") == page


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


LEVELS = {"random arm": 1.0, "paper": 0.3, "sound": 0.9, "default": 0.02}


def made_up(tmp_path, monkeypatch, effect, noise):
    """Sections from curves that rise evenly: ``effect`` of each source round on ``paper``; noise, the same in pairs."""
    monkeypatch.setattr(plots, "save", lambda figure, stem: None)  # figures are for other tests
    setting = Setting(runs=4, pairs=12)
    curves = {}
    for cell in setting.cells():
        rng = np.random.default_rng([cell.n_arms, int(cell.nu)])
        runs = setting.runs_of(cell)
        shift = effect * cell.change_point * (cell.policy == "paper")
        own = np.random.default_rng([cell.n_arms, int(cell.nu), cell.change_point])
        level = LEVELS[cell.policy] + shift + 0.2 * rng.random((runs, 1, 1)) + noise * own.random((runs, 1, 1))
        ramp = np.linspace(1 / POINTS, 1, POINTS)
        curves[cell] = level * ramp * setting.rounds_after * np.ones((runs, len(SERIES), 1))
    return study_sections(Result(setting, curves), tmp_path)


@pytest.mark.parametrize(
    ("effect", "noise", "decided"),
    [(-1e-5, 0.001, "lower"), (1e-5, 0.001, "higher"), (-1e-5, 1.0, "open"), (0.0, 0.0, "open")],
)
def test_the_claim_on_source_samples_follows_from_the_pairs(tmp_path, monkeypatch, effect, noise, decided):
    """A difference of 0.02 is decided by pairs although levels of runs spread over 0.2."""
    section, *_ = made_up(tmp_path, monkeypatch, effect, noise)
    assert section.agrees is {"lower": True, "higher": False, "open": None}[decided]
    words = {"lower": "samples help", "higher": "samples do not always help", "open": "too few to decide"}[decided]
    assert words in section.found.split(":")[0]
    assert [row[-1] for row in section.table[1:]] == [decided] * 4
    counts = re.search(r"lower in (\d) of 4 panels, higher in (\d) and open in (\d);", section.found)
    assert [int(n) for n in counts.groups()] == [4 * (decided == word) for word in ("lower", "higher", "open")]
    for row in section.table[1:]:
        few, many, difference = (float(cell) for cell in row[2:5])
        assert many - few == pytest.approx(difference, abs=2e-4)
        low, high = (float(end) for end in row[5].split(" to "))
        assert low <= difference <= high
        assert decided == ("lower" if high < 0 else "higher" if low > 0 else "open")
    assert "12 pairs" in section.found


def test_one_panel_that_gets_worse_refutes_the_claim():
    assert _overall(["lower", "lower", "lower", "lower"]) == "lower"
    assert _overall(["lower", "open", "lower", "lower"]) == "open"
    assert _overall(["lower", "open", "higher", "lower"]) == "higher"


def test_with_one_pair_nothing_is_decided():
    assert Change(0.1, -0.05, float("nan")).verdict == "open"


def test_intervals_of_several_panels_hold_at_once(rng):
    """Of four panels without a difference one is found to have one in 5 % of cases; chance of failure below 1e-3."""
    misses = [any(abs(d.mean()) > _half_width(d, at_once=4) for d in rng.standard_normal((4, 12))) for _ in range(2000)]
    assert np.mean(misses) <= 0.065


def test_shares_of_chance_follow_the_data(tmp_path, monkeypatch):
    _, beats, beside = made_up(tmp_path, monkeypatch, 0.0, 0.0)
    assert beats.agrees
    levels = {name: float(row[2]) for name, *row in beside.table[1:]}
    ratio = levels["default"] / levels["random arm"]
    told = re.search(r"default ([\d.]+) for K = 5, ([\d.]+) for K = 10; paper", beside.found)
    assert np.mean([float(share) for share in told.groups()]) == pytest.approx(ratio, abs=2e-3)
    assert beside.claim == ""  # the paper says nothing about it, so there is nothing to agree with
    monkeypatch.setitem(LEVELS, "paper", 0.9)
    _, beats, _ = made_up(tmp_path, monkeypatch, 0.0, 0.0)
    assert beats.agrees is False


def test_runs_of_one_cell_that_compiles_come_first():
    """The default policy's kernels take longest to compile: one process begins with them, the others do not."""
    order = study._in_turn(Setting())
    assert sorted(order) == sorted(Setting().cells())
    assert [cell.policy for cell in order[:3]] == ["default", "paper", "paper"]


def test_the_experiment_takes_other_settings(tmp_path):
    command = ["reproduce", "--quick", "--to", str(tmp_path), "--arms", "3", "--nu", "2", "--jobs", "1"]
    done = CliRunner().invoke(app, [*command, "--change-point", "50", "--change-point", "80", "--horizon", "300"])
    assert done.exit_code == 0, done.output
    text = (tmp_path / "index.html").read_text(encoding="utf-8")
    assert "K = 3 in place of 5, 10; nu = 2 in place of 1, 3; t_p = 50, 80 in place of 100, 200, 300." in text
    assert text.count("T = 300 in place of 50,000") == 1
    assert text.count("T = 300") == 1
    assert "4,000" not in text.partition("Runs are made with")[0]
    assert "--arms 3 --nu 2 --change-point 50 --change-point 80 --horizon 300." in text
    assert "the 220 rounds after the shift" in text


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"change_points": [500]}, "change points must be two or more, since the first and the last are compared"),
        ({"change_points": [300, 100]}, "change points must be increasing integers, at least 1"),
        ({"horizon": 300}, "the horizon must be beyond the last change point, 300; got 300"),
        ({"arms": [1]}, "n_arms must be an integer, at least 2; got 1"),
        ({"arms": [3, 3]}, "arms must be different from each other"),
        ({"nus": [-3.0]}, "got -3"),
    ],
)
def test_settings_that_cannot_be_run_are_refused(given, says):
    with pytest.raises(ValueError, match=says):
        study.changed(QUICK, **given)
