"""The picture of judged policies: labels are there, and none covers another."""

from itertools import combinations

import numpy as np
import pytest

from conebandit.plots import evaluation_figure


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
