"""Pictures of judged policies and of segments say what they are made from, and labels do not cover each other."""

from itertools import combinations

import numpy as np
import pytest
from matplotlib.colors import to_hex

import conebandit as cb
from conebandit.plots import evaluation_figure
from conebandit.plots.style import BETTER, FRONT


@pytest.mark.parametrize("seed", range(4))
def test_labels_do_not_cover_each_other(seed):
    rng = np.random.default_rng(seed)
    values = np.repeat(rng.normal(size=(3, 2)), 2, axis=0) + rng.normal(0, 0.01, (6, 2))  # three pairs of neighbours
    names = ["as it was", "always plain", "always video", "as recommended", "by device", "5 $ less"]
    figure = evaluation_figure(
        values,
        np.full((6, 2), 0.05),
        labels=names,
        standings=["on", "off", "open"] * 2,
        metrics=("revenue", "latency"),
        level=0.95,
    )
    figure.draw_without_rendering()
    texts = figure.axes[0].texts
    assert [text.get_text() for text in texts] == [*names[:-1], r"5 \$ less"]
    for one, other in combinations([text.get_window_extent() for text in texts], 2):
        assert not one.overlaps(other)


def test_segments_are_drawn_by_share_with_what_is_on_their_fronts():
    leaves = [
        cb.Segment("age < 40", 70, 0.7, "new", ("new", "old"), {}, 1.0),
        cb.Segment("age >= 40", 30, 0.3, "old", ("old",), {}, 1.0),
    ]
    ax = cb.Segments(tuple(leaves), 1.0, 1.0, {}).figure().axes[0]
    assert [text.get_text() for text in ax.get_xticklabels()] == ["new", "old"]
    assert [text.get_text() for text in ax.get_yticklabels()] == ["age < 40  (70%)", "age >= 40  (30%)"]
    cells = [(patch.get_x(), patch.get_height(), to_hex(patch.get_facecolor())) for patch in ax.patches]
    colours = [FRONT, BETTER, "#ffffff", FRONT]
    assert cells == [(k % 2, h, to_hex(c)) for k, h, c in zip(range(4), [0.7, 0.7, 0.3, 0.3], colours, strict=True)]
