"""Pictures: not how they look, but that they show what was computed."""

import numpy as np
import pytest

from conebandit import Cone, pareto_mask, plots
from conebandit.plots.cones import fan_of

POINTS = np.array([[0.2, 0.3], [0.5, 0.9], [0.9, 0.4]])


def test_front_and_dominated_points_are_drawn_apart():
    cones = {"orthant": Cone.orthant(2), "half-plane": Cone.wedge(180), "narrow": Cone.wedge(30)}
    figure = plots.cone_figure(POINTS, cones, ["a", "b", "c"], anchors={"narrow": 1})
    for ax, cone in zip(figure.axes, cones.values(), strict=True):
        lines = {line.get_label(): line.get_xydata() for line in ax.lines}
        mask = pareto_mask(POINTS, cone)
        np.testing.assert_array_equal(lines["Pareto front"], POINTS[mask])
        if not mask.all():
            np.testing.assert_array_equal(lines["dominated"], POINTS[~mask])
    assert "better than b" in [t.get_text() for t in figure.axes[2].get_legend().get_texts()]


@pytest.mark.parametrize("degrees", [10, 90, 150, 180])
def test_the_shaded_fan_is_the_cone(degrees):
    cone = Cone.wedge(degrees)
    fan = fan_of(cone)
    assert cone.contains(fan).all()
    turned = np.arctan2(fan[1:, 1], fan[1:, 0])
    assert np.degrees(np.ptp(turned)) == pytest.approx(degrees)


def test_only_two_dimensions_can_be_drawn():
    with pytest.raises(ValueError, match="dimension 2"):
        plots.cone_figure(np.ones((2, 3)), {"x": Cone.orthant(3)}, ["a", "b"])


def test_a_cost_is_drawn_in_its_own_units_and_says_so():
    cone = Cone.orthant(2, names=["efficacy", "toxicity"], minimise=["toxicity"])
    (ax,) = plots.cone_figure(POINTS, {"": cone}, ["a", "b", "c"]).axes
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("efficacy", "toxicity (less is better)")
    lines = {line.get_label(): line.get_xydata() for line in ax.lines}
    np.testing.assert_array_equal(lines["Pareto front"], POINTS[[0, 2]])
    assert cone.contains(fan_of(cone)).all()
