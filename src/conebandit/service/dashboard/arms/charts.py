"""Pictures of arms at one context: a strip for one metric, planes for pairs of them, parallel axes for three or more.

Every arm is a group that can be reached by pointer and keyboard; what would be better than it shows while it is (by
``static/page.css``, without a script). What pictures tell stands in words in the titles of the groups, and in tables.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations
from typing import NamedTuple

from markupsafe import Markup

from conebandit.experiment.facets import Facet
from conebandit.experiment.metrics import Metric
from conebandit.experiment.outlook import Interval
from conebandit.experiment.standing import Standing
from conebandit.pages.chart import BOTTOM, LEFT, RIGHT, TOP, Axis, Panel, dot
from conebandit.pages.palette import series
from conebandit.pages.wording import share, shown
from conebandit.service.dashboard.arms.regions import Point, better_region, needed_facets

MAX_DRAWN = 60  # arms; more cannot be told apart, and all are in the table
MAX_CROSSES = 16  # arms whose intervals are all shown; of more, that of the arm that is pointed at
MAX_PANELS = 6  # pairs of metrics that are shown at once; of more, one is chosen
MAX_NARROW = 5  # metrics for which parallel axes fit on a phone; with more the picture scrolls
WIDTH, HEIGHT = 440, 340  # of a plane
ROW = 40  # height of an arm in a strip
MAX_MARGINS = 6  # facets on which margins are told, the smallest ones; some cones have hundreds
LETTER, LINE = 7.4, 15  # width and height of a letter of a label, about


class Picture(NamedTuple):
    """A drawing with words below; ``size`` is a class of those that may have to scroll."""

    svg: Markup
    caption: str
    size: str = ""


class View(NamedTuple):
    """What is drawn: arms with what is said of each, the metrics, and the facets of the cone."""

    arms: Sequence[Standing]
    titles: Sequence[str]
    metrics: Sequence[Metric]
    facets: Sequence[Facet]


def pictures(view: View, pair: tuple[int, int] | None = None) -> list[Picture]:
    """All pictures of the arms of which something is known; of many metrics the one plane for ``pair``."""
    chosen = _drawn(view)
    if not chosen.arms:
        return []
    n = len(view.metrics)
    if n == 1:
        return [_strip(chosen)]
    pairs = list(combinations(range(n), 2))
    if len(pairs) > MAX_PANELS:
        pairs = [pair or (0, 1)]
    return [_plane(chosen, *each) for each in pairs] + ([_parallel(chosen)] if n > 2 else [])


def overview(view: View) -> list[Picture]:
    """One picture of all metrics."""
    chosen = _drawn(view)
    if not chosen.arms:
        return []
    n = len(view.metrics)
    return [_strip(chosen) if n == 1 else _plane(chosen, 0, 1) if n == 2 else _parallel(chosen)]


def axis_label(metric: Metric) -> str:
    """Name, units and direction of a metric."""
    units = f", {metric.units}" if metric.units else ""
    return f"{shown(metric.name, 30)}{units} ({'more' if metric.direction == 'max' else 'less'} is better)"


# ---- two metrics ----------------------------------------------------------------------------------------------------


def _plane(view: View, across: int, up: int) -> Picture:
    """Arms as dots, intervals as crosses; how likely an arm is on the front is the arc around its dot."""
    x_metric, y_metric = view.metrics[across], view.metrics[up]
    xs, ys = ([arm.outlook.estimates[metric.name] for arm in view.arms] for metric in (x_metric, y_metric))
    few = len(view.arms) <= MAX_CROSSES
    panel = Panel(_axis(xs, x_metric, with_ends=few), _axis(ys, y_metric, with_ends=few), WIDTH, HEIGHT)
    rows = needed_facets([(facet.coefficients[across], facet.coefficients[up]) for facet in view.facets])
    labels = _Labels(panel, [panel.at(x.estimate, y.estimate) for x, y in zip(xs, ys, strict=True)])
    for i, (arm, x, y) in enumerate(zip(view.arms, xs, ys, strict=True)):
        lines = _span(panel, (x.low, y.estimate), (x.high, y.estimate), always=few)
        lines += _span(panel, (x.estimate, y.low), (x.estimate, y.high), always=few)
        better = _area(panel, (x.estimate, y.estimate), rows)
        place = panel.at(x.estimate, y.estimate)
        panel.add(_group(arm, view.titles[i], better + lines + _dot(arm, *place) + labels.place(i, arm)))
    names = f"{shown(x_metric.name)} and {shown(y_metric.name)}"
    others = " if the other metrics stay the same" if len(view.metrics) > 2 else ""
    caption = f"{names}. Point at an arm, or reach it with the tab key, to see what would be better than it{others}."
    return Picture(panel.svg(f"arms by {names}"), caption)


class _Labels:
    """Names beside dots where there is room for them; others show while their arm is pointed at."""

    def __init__(self, panel: Panel, dots: Sequence[Point]) -> None:
        self._panel, self._dots, self._taken = panel, dots, [(x - 7, y - 7, x + 7, y + 7) for x, y in dots]

    def place(self, i: int, arm: Standing) -> Markup:
        """The name of the arm with dot number ``i``."""
        x, y = self._dots[i]
        name = shown(arm.outlook.arm, 24)
        wide = LETTER * len(name)
        # Beside the lines of the cross: above or below it, to the right or to the left.
        places = [(x + dx, y + dy, "start" if dx > 0 else "end") for dy in (-9, 19) for dx in (9, -9)]
        boxes = []
        for left, base, anchor in places:
            start = left if anchor == "start" else left - wide
            boxes.append((start, base - LINE + 3, start + wide, base + 3))
        own = self._taken[i]
        free = [k for k, box in enumerate(boxes) if self._inside(box) and not self._meets(box, own)]
        k = free[0] if free else int(x > self._panel.width / 2)  # to the right, or to the left of the dot
        if free:
            self._taken.append(boxes[k])
        left, base, anchor = places[k]
        form = Markup('<text class="{}" x="{:.1f}" y="{:.1f}" text-anchor="{}">{}</text>')
        return form.format("name" if free else "name later", left, base, anchor, name)

    def _inside(self, box: tuple[float, float, float, float]) -> bool:
        right, bottom = self._panel.width - RIGHT, self._panel.height - BOTTOM
        return box[0] >= LEFT and box[1] >= TOP - 6 and box[2] <= right and box[3] <= bottom

    def _meets(self, box: tuple[float, float, float, float], own: tuple[float, float, float, float]) -> bool:
        return any(
            box[0] < other[2] and other[0] < box[2] and box[1] < other[3] and other[1] < box[3]
            for other in self._taken
            if other is not own
        )


# ---- one metric -----------------------------------------------------------------------------------------------------


def _strip(view: View) -> Picture:
    """A row for each arm, with its name above its interval."""
    [metric] = view.metrics
    best = sorted(
        range(len(view.arms)),
        key=lambda i: view.metrics[0].reward(view.arms[i].outlook.estimates[metric.name].estimate),
    )[::-1]
    view = view._replace(arms=[view.arms[i] for i in best], titles=[view.titles[i] for i in best])
    values = [arm.outlook.estimates[metric.name] for arm in view.arms]
    rows = Axis("", -0.5, len(values) - 0.5, ())
    panel = Panel(_axis(values, metric), rows, WIDTH, TOP + BOTTOM + ROW * len(values))
    signs = [(facet.coefficients[0], 0.0) for facet in view.facets]
    for i, (arm, value) in enumerate(zip(view.arms, values, strict=True)):
        height = len(values) - 1.0 - i
        px, py = panel.at(value.estimate, height - 0.15)
        name = Markup('<text class="name" x="{}" y="{:.1f}">{}</text>').format(
            LEFT + 4, py - 13, shown(arm.outlook.arm, 40)
        )
        line = _span(panel, (value.low, height - 0.15), (value.high, height - 0.15))
        better = _area(panel, (value.estimate, height), signs)
        panel.add(_group(arm, view.titles[i], better + line + _dot(arm, px, py) + name))
    caption = (
        f"{shown(metric.name)}. Point at an arm, or reach it with the tab key, to see what would be better than it."
    )
    return Picture(panel.svg(f"arms by {shown(metric.name)}"), caption)


# ---- three metrics and more -----------------------------------------------------------------------------------------


def _parallel(view: View) -> Picture:
    """An axis for each metric, turned so that better is up, and a line for each arm."""
    n, base, top = len(view.metrics), HEIGHT - 34, 62
    width = max(WIDTH, 104 * n)
    gap = (width - 2 * LEFT) / (n - 1)
    axes = [
        Axis.around((arm.outlook.estimates[metric.name].estimate for arm in view.arms), "") for metric in view.metrics
    ]
    parts = [_vertical(LEFT + m * gap, metric, axes[m], top, base) for m, metric in enumerate(view.metrics)]
    for arm, title in zip(view.arms, view.titles, strict=True):
        points, lines = [], Markup("")
        for m, metric in enumerate(view.metrics):
            value = arm.outlook.estimates[metric.name]
            at, low, high = (base - _better(x, axes[m], metric) * (base - top) for x in value)
            points.append((round(LEFT + m * gap, 1), round(at, 1)))
            if math.isfinite(high - low):
                ends = (LEFT + m * gap, min(max(low, top), base), LEFT + m * gap, min(max(high, top), base))
                form = Markup('<line class="span between" x1="{:.1f}" y1="{:.1f}" x2="{:.1f}" y2="{:.1f}"/>')
                lines += form.format(*ends)
        path = " ".join(f"{x},{y}" for x, y in points)
        line = Markup('<polyline class="line" points="{}"/>').format(path)
        dots = Markup("").join(dot(x, y, radius=4) for x, y in points)
        x, y = points[-1]
        name = Markup('<text class="name later" x="{}" y="{}" text-anchor="end">{}</text>').format(
            x - 8, y - 8, shown(arm.outlook.arm, 24)
        )
        parts.append(_group(arm, title, lines + line + dots + name))
    svg = Markup('<svg class="chart" viewBox="0 0 {} {}" role="group" aria-label="{}">{}</svg>').format(
        width, HEIGHT, "all metrics of all arms", Markup("").join(parts)
    )
    size = "" if n <= MAX_NARROW else "wide" if n <= 2 * MAX_NARROW else "wide wider"
    return Picture(svg, "All metrics. On every axis better is up; pale arms are off the front.", size)


def _vertical(x: float, metric: Metric, axis: Axis, top: float, base: float) -> Markup:
    """An axis with the name of its metric, its best value and its worst."""
    ends = (axis.high, axis.low) if metric.direction == "max" else (axis.low, axis.high)
    units = f" {metric.units}" if metric.units else ""
    words = f"{'more' if metric.direction == 'max' else 'less'} is better"
    lines = (
        ("", 14, shown(metric.name, 15)),
        ("quiet", 29, words),
        ("quiet", top - 8, shown(f"{ends[0]:.3g}{units}", 15)),
        ("quiet", base + 16, shown(f"{ends[1]:.3g}{units}", 15)),
    )
    text = Markup('<text class="{}" x="{:.1f}" y="{}" text-anchor="middle">{}</text>')
    line = Markup('<line class="axis" x1="{0:.1f}" y1="{1}" x2="{0:.1f}" y2="{2}"/>').format(x, top, base)
    return line + Markup("").join(text.format(kind, x, y, said) for kind, y, said in lines)


def _better(value: float, axis: Axis, metric: Metric) -> float:
    """Where a value is on an axis that goes from the worst, 0, to the best, 1."""
    place = (value - axis.low) / (axis.high - axis.low)
    return place if metric.direction == "max" else 1.0 - place


# ---- small parts ----------------------------------------------------------------------------------------------------


def _drawn(view: View) -> View:
    """The arms of which everything is known: those on the front, then the others, likely ones first; not too many."""
    order = [i for i, arm in enumerate(view.arms) if arm.known]
    order.sort(key=lambda i: (not view.arms[i].outlook.on_front, -_number(view.arms[i].outlook.chance), i))
    order = order[:MAX_DRAWN]
    return view._replace(arms=[view.arms[i] for i in order], titles=[view.titles[i] for i in order])


def _number(chance: float) -> float:
    return chance if math.isfinite(chance) else 0.0


def _axis(values: Sequence[Interval], metric: Metric, *, with_ends: bool = True) -> Axis:
    """Room for all estimates and for intervals, but not for some that are much longer than all others."""
    middles = [value.estimate for value in values]
    if not with_ends:
        return Axis.around(middles, axis_label(metric))
    room = max(max(middles) - min(middles), 3.0 * sorted(value.high - value.low for value in values)[len(values) // 2])
    room = room if math.isfinite(room) else 0.0
    ends = (end for value in values for end in (value.low, value.high) if math.isfinite(end))
    near = [min(max(end, min(middles) - room), max(middles) + room) for end in ends]
    return Axis.around([*middles, *near], axis_label(metric))


def _group(arm: Standing, title: str, drawn: Markup) -> Markup:
    kind = f"arm {series(arm.number)}" + ("" if arm.outlook.on_front else " off")
    form = Markup('<g class="{}" tabindex="0" role="img" aria-label="{title}"><title>{title}</title>{}</g>')
    return form.format(kind, drawn, title=title)


def _dot(arm: Standing, x: float, y: float) -> Markup:
    """A dot, and around it an arc as long as the chance to be on the front."""
    chance = arm.outlook.chance
    if not math.isfinite(chance):
        return dot(x, y)
    ring = Markup('<circle class="ring" cx="{0}" cy="{1}" r="9" pathLength="100" stroke-dasharray="{2:.0f} 100"/>')
    return ring.format(x, y, 100 * chance) + dot(x, y)


def _span(panel: Panel, start: Point, end: Point, *, always: bool = True) -> Markup:
    """A line between two points, if both are known: for good, or while the arm is pointed at."""
    if not all(map(math.isfinite, (*start, *end))):
        return Markup("")
    form = Markup('<line class="{}" x1="{}" y1="{}" x2="{}" y2="{}"/>')
    return form.format("span" if always else "span between", *panel.at(*start), *panel.at(*end))


def _area(panel: Panel, tip: Point, rows: Sequence[Sequence[float]]) -> Markup:
    """What would be better than an arm."""
    corners = better_region(tip, rows, (panel.x.low, panel.y.low), (panel.x.high, panel.y.high))
    if not corners:
        return Markup("")
    return Markup('<polygon class="better" points="{}"/>').format(
        " ".join("{},{}".format(*panel.at(*corner)) for corner in corners)
    )


def in_words(arm: Standing, facets: Sequence[Facet], status: str = "") -> str:
    """All that a picture tells about an arm."""
    outlook = arm.outlook
    chance = f", chance {share(outlook.chance)}" if math.isfinite(outlook.chance) else ""
    lines = [f"{shown(outlook.arm)}: {'on' if outlook.on_front else 'off'} the front{chance}{status and f'; {status}'}"]
    lines += [f"{shown(name)} {interval}" for name, interval in outlook.estimates.items()]
    if outlook.beaten_by is not None:
        lines.append(f"most likely beaten by {shown(outlook.beaten_by)}: {'; '.join(margins(arm, facets))}")
    return "\n".join(lines)


def margins(arm: Standing, facets: Sequence[Facet]) -> list[str]:
    """By how much the arm that beats one is ahead, facet by facet; last, with a "but", those where it is behind."""
    leads = list(zip(facets, arm.leads, strict=True)) if arm.leads else []
    told = sorted(range(len(leads)), key=lambda j: leads[j][1].estimate / leads[j][0].scale)[:MAX_MARGINS]
    words: dict[bool, list[str]] = {False: [], True: []}
    for facet, lead in (leads[j] for j in sorted(told)):
        words[lead.estimate < 0.0].append(shown(facet.compared(lead), 200))
    more = [f"and more in {len(leads) - MAX_MARGINS} other sums"] if len(leads) > MAX_MARGINS else []
    return [*words[False], *(f"but {behind}" for behind in words[True]), *more]
