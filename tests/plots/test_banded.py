"""Curves with bands."""

import numpy as np
import pytest

from conebandit import plots


def curve(n=5):
    return np.arange(n), np.arange(n) ** 2.0, np.ones(n)


def test_every_curve_has_a_look_of_its_own_and_a_band():
    figure = plots.bands({f"policy {i} of $5": curve() for i in range(16)}, title="$", change_points=[2])
    lines = [line for line in figure.axes[0].get_lines() if len(line.get_xdata()) == 5]
    assert len({(line.get_color(), line.get_linestyle()) for line in lines}) == 16
    assert len(figure.axes[0].collections) == 16
    low, high = (figure.axes[0].collections[0].get_paths()[0].vertices[:, 1].take([0, -1]) for _ in range(2))
    assert {*low, *high} <= {-1.0, 1.0}


def test_without_an_interval_there_is_a_line_alone():
    x, middle, _ = curve()
    figure = plots.bands({"one seed": (x, middle, np.full(5, np.nan))})
    assert np.array_equal(figure.axes[0].get_lines()[0].get_ydata(), middle)


@pytest.mark.parametrize(
    ("curves", "says"),
    [
        ({}, "curves must be 1 to 16"),
        ({str(i): curve() for i in range(17)}, "so that they can be told apart; got 17"),
        ({"a": (np.arange(3), np.arange(4), np.arange(3))}, r"curves\['a'\] must be x, middle and half width"),
        ({"a": (np.arange(3), np.arange(3))}, r"curves\['a'\] must be x, middle and half width"),
    ],
)
def test_what_cannot_be_drawn_is_refused(curves, says):
    with pytest.raises(ValueError, match=says):
        plots.bands(curves)
