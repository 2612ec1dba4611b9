"""The theory figure: measured numbers are those of runs, curves have the slopes of the formulas."""

import numpy as np
import pytest
from typer.testing import CliRunner

import conebandit as cb
from conebandit import plots
from conebandit.cli import app
from conebandit.reproduce import theory


@pytest.fixture(scope="module")
def panels():
    steps = []
    found = theory.panels(longest=1600, runs=2, progress=steps.append)
    assert len(steps) == 20
    return found


def test_measured_regret_is_that_of_runs(panels):
    horizon = panels[0]
    assert horizon.x.tolist() == [100, 200, 400, 800, 1600]
    env = cb.environments.paper(5, 1.0, 800, sigma=0.1)
    policy = cb.ConeTree(5, env.cone, 1, preset="sound", delta=1 / 1600, sigma=0.1, holder=4.0)
    assert horizon.regret[-1, 1] == cb.simulate(policy, env, 1600, seed=1).total("front", after=800)
    np.testing.assert_array_equal(panels[2].regret, panels[3].regret)  # the same runs against nu and against rho


def test_curves_are_scaled_and_keep_their_slopes(panels):
    for panel in panels:
        middle = np.log(panel.regret.mean(axis=1)).mean()
        assert np.log(panel.printed).mean() == pytest.approx(middle)
        assert np.log(panel.rate).mean() == pytest.approx(middle)
        for y, (slope, _) in zip((panel.regret.mean(axis=1), panel.printed, panel.rate), panel.slopes, strict=True):
            assert slope == pytest.approx(np.polyfit(np.log(panel.x), np.log(y), 1)[0])
    against_horizon, *_ = panels
    assert against_horizon.slopes[1][0] < 0 < against_horizon.slopes[2][0]  # as printed it falls with T


def test_the_axis_of_dissimilarity(panels):
    assert panels[3].x == pytest.approx([8.386, 10.52, 19.2, 132.1, 1371], rel=1e-3)


def test_the_picture_shows_the_panels(monkeypatch, tmp_path):
    x = np.array([1.0, 2.0, 4.0])
    panel = theory.Panel(
        "T", x, np.array([[1.0, 3.0], [2.0, 6.0], [4.0, 12.0]]), x, x**2, ((1.0, 0.0), (-1e-9, 0.0), (2.0, 0.0))
    )
    drawn = []
    monkeypatch.setattr(plots, "save", lambda figure, stem: drawn.append(figure))
    theory.draw([panel] * 4, "Shown: this. Not shown: that.", tmp_path / "theory")
    (figure,) = drawn
    np.testing.assert_array_equal(figure.axes[0].lines[0].get_xydata(), np.column_stack([x, 2 * x]))
    labels = [text.get_text() for text in figure.axes[0].get_legend().get_texts()]
    assert labels == [
        "measured: slope 1.00 ± 0.00",
        "Theorem 1 as printed: slope 0.00 ± 0.00",
        "first principles: slope 2.00 ± 0.00",
    ]
    assert "Not shown" in figure.get_supxlabel()


def test_the_command(tmp_path):
    result = CliRunner().invoke(app, ["theory", "--to", str(tmp_path), "--longest", "1600", "--runs", "2", "--paper"])
    assert result.exit_code == 0, result.output
    assert "Not shown: that any bound holds" in " ".join(result.output.split())
    assert (tmp_path / "theory.png").read_bytes().startswith(b"\x89PNG")
    assert "preset='paper'" in " ".join(result.output.split())
