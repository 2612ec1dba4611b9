"""Pictures of a report. Their identifiers are counted from the first of them, so that a report is always the same."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

from conebandit.experiment.metrics import Metric
from conebandit.experiment.outlook import Outlook
from conebandit.pages.chart import DAY, Axis, Panel
from conebandit.pages.wording import shown
from conebandit.service.dashboard.counts.tally import Periods

WIDTH, HEIGHT = 460, 240
ROW = 34  # of an arm
MAX_BARS = 60
MAX_ROWS = 12  # arms in a picture


class Pictures:
    """Draws the pictures of one report."""

    def __init__(self, colours: Mapping[str, str]) -> None:
        self._colours = colours
        self._drawn = 0

    def _panel(self, x: Axis, y: Axis, height: int = HEIGHT) -> Panel:
        self._drawn += 1
        return Panel(x, y, WIDTH, height, _id=f"picture-{self._drawn}")

    def decisions(self, periods: Periods) -> Markup:
        """How many decisions there were over time."""
        starts, (numbers,) = _gathered(periods, [periods.decisions])
        length = _length(starts, periods)
        panel = self._panel(_times(starts, length), Axis.around([0, *numbers], "decisions", (0.0, math.inf)))
        for start, number in zip(starts, numbers, strict=True):
            gap = 0.1 * length
            panel.box((start + gap, 0.0), (start + length - gap, number), "series-0")
        return panel.svg("Decisions over time")

    def outcomes(self, periods: Periods, metrics: Sequence[str]) -> Markup:
        """How many values had come in, in all, over time; a line for each metric."""
        starts, numbers = _gathered(periods, [periods.outcomes[name] for name in metrics])
        length = _length(starts, periods)
        sums = [np.cumsum(each).tolist() for each in numbers]
        most = max((each[-1] for each in sums if each), default=1)
        panel = self._panel(_times(starts, length), Axis.around([0, most], "values, in all", (0.0, math.inf)))
        for number, each in enumerate(sums):
            points = [(starts[0], 0.0), *((start + length, n) for start, n in zip(starts, each, strict=True))]
            panel.line(points, f"series-{number % 8}")
        return panel.svg("Values that had come in over time")

    def estimates(self, metric: Metric, arms: Sequence[Outlook]) -> Markup:
        """Estimates of a metric for each arm, with intervals."""
        rows = arms[:MAX_ROWS]
        ends = [end for each in rows for end in each.estimates[metric.name] if math.isfinite(end)]
        better = "less" if metric.direction == "min" else "more"
        units = f", {metric.units}" if metric.units else ""
        across = Axis.around(ends, f"{shown(metric.name, 40)}{units} ({better} is better)", metric.range)
        panel = self._panel(across, Axis("", 0.0, float(len(rows)), ()), 60 + ROW * len(rows))
        for place, each in enumerate(rows):
            interval, y = each.estimates[metric.name], len(rows) - place - 0.72
            kind = self._colours[each.arm] + ("" if each.on_front else " pale")
            if math.isfinite(interval.high - interval.low):
                panel.span((interval.low, y), (interval.high, y), kind)
            if math.isfinite(interval.estimate):
                panel.mark(interval.estimate, y, kind, f"{shown(each.arm)}: {interval}")
            words = shown(each.arm, 40) + (", on the front" if each.on_front else "")
            panel.text(across.low, len(rows) - place - 0.42, words, "quiet")
        return panel.svg(f"Estimates of {shown(metric.name)} for {len(rows)} arms")


def _gathered(periods: Periods, series: Sequence[NDArray[Any]]) -> tuple[list[int], list[list[int]]]:
    """Numbers by period, of which some are taken together if there are many; periods without anything as well."""
    if not len(periods.starts):
        return [0], [[0] for _ in series]
    first, last = int(periods.starts[0]), int(periods.starts[-1])
    step = -(-((last - first) // periods.length + 1) // MAX_BARS)
    places = (periods.starts - first) // (periods.length * step)
    n = int(places[-1]) + 1
    sums = [np.bincount(places, weights=each, minlength=n).astype(np.int64).tolist() for each in series]
    return [first + k * step * periods.length for k in range(n)], sums


def _length(starts: Sequence[int], periods: Periods) -> int:
    return starts[1] - starts[0] if len(starts) > 1 else periods.length


def _times(starts: Sequence[int], length: int) -> Axis:
    axis = Axis.of_times([starts[0], starts[-1] + length])
    day = f"{datetime.fromtimestamp(axis.low / 1000, UTC):%Y-%m-%d}, UTC"
    return replace(axis, label=day if axis.high - axis.low <= DAY else axis.label).sparser()
