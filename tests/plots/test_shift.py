"""Pictures of shift: not how they look, but that they show what was computed."""

import numpy as np
import pytest

import conebandit as cb
from conebandit import plots
from conebandit.diagnose.page import estimates
from conebandit.environments import shift
from conebandit.pages.palette import GROUND


def drawn(figure):
    return [line.get_xydata() for ax in figure.axes for line in ax.lines]


def test_dissimilarity_with_lower_bounds_hollow(rng):
    x, y = rng.random((60, 1)) * 0.6, rng.random((60, 1))
    curve = cb.rho_curve(x, y, [0.25, 0.02])
    assert curve.empty[1] > 0.05
    curves = {"source to target": curve, "target to itself": cb.rho_curve(y, y, [0.25, 0.02])}
    figure = plots.rho_figure({name: estimates(c) for name, c in curves.items()}, h=0.25)
    lines = drawn(figure)
    np.testing.assert_array_equal(lines[0], np.column_stack([curve.h, curve.value]))
    hollow = figure.axes[0].lines[1]
    np.testing.assert_array_equal(hollow.get_xydata(), np.column_stack([curve.h, curve.value])[curve.empty > 0.05])
    assert hollow.get_markerfacecolor() == GROUND


def test_exact_curves_and_estimates(rng):
    P, Q = shift.power_law(1), shift.uniform()
    exact, found = cb.rho_curve(P, Q), cb.rho_curve(P.sample(rng, 100), Q.sample(rng, 100), [0.25, 0.125])
    lines = drawn(plots.rho_curves_figure({"pair": (estimates(exact), estimates(found))}))
    np.testing.assert_array_equal(lines[0], np.column_stack([exact.h, exact.value]))


def test_overlap_in_two_columns_marks_scarce_cells(rng):
    source, target = rng.random((400, 2)), rng.random((400, 2))
    source = source[source[:, 0] < 0.5]
    figure = plots.overlap_figure(source, target, ["a", "b"], cells=4)
    crosses = figure.axes[1].lines[0].get_xydata()
    assert len(crosses) == 8
    assert (crosses[:, 0] > 0.5).all()


def test_overlap_in_one_column_shows_shares(rng):
    source, target = rng.random((100, 1)), rng.random((50, 1)) + 0.5
    figure = plots.overlap_figure(source, target, ["a"])
    steps = [patch.get_data() for patch in figure.axes[0].patches]
    for table, step in zip((source, target), steps, strict=True):
        np.testing.assert_allclose(step.values, np.histogram(table, step.edges)[0] / len(table))
    assert (figure.axes[0].lines[0].get_xdata() > 1).all()


def test_names_are_no_formulas(rng, tmp_path):
    name = r"$\foo$"
    for names in ((name,), (name, "b")):
        table = rng.random((50, len(names)))
        figure = plots.overlap_figure(table, table, names)
        figure.savefig(tmp_path / "a.png")
    cone = cb.Cone.orthant(2, names=(name, "b"))
    plots.cone_figure([[0.0, 1.0], [1.0, 0.0]], {"cone": cone}, ["a", "b"]).savefig(tmp_path / "b.png")


def test_evidence(rng):
    figure = plots.evidence_figure({"x": np.arange(1.0, 21.0)}, alpha=0.1, change=10, first=5)
    np.testing.assert_array_equal(drawn(figure)[0], np.column_stack([np.arange(5, 20), np.arange(6.0, 21.0)]))
    assert figure.axes[0].lines[1].get_ydata()[0] == pytest.approx(10)
