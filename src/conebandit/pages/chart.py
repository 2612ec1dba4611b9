"""Charts as SVG, drawn here and not in the browser: the same picture in the dashboard, in a report and on paper.

Nothing in them is a script or an inline style, so that they live under a strict content-security policy; colours are
classes of ``static/page.css``. All text is escaped. A :class:`Panel` has two axes and marks in between; a view adds
what it needs by :meth:`Panel.add` with the positions :meth:`Panel.at`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import count
from typing import Any

from markupsafe import Markup, escape

from conebandit.pages import wording

MAX_TICKS = 6
MARGIN = 0.06  # of the range that is left free on either side
LEFT, RIGHT, TOP, BOTTOM = 64, 14, 14, 46  # pixels around the field between the axes
_STEPS = (1.0, 2.0, 2.5, 5.0, 10.0)
DAY = 86_400_000  # milliseconds
_PERIODS = [n * DAY for n in (1, 2, 7, 14, 30, 90, 365)]  # between ticks of a time axis
_SHORT = [n * 1000 for n in (1, 5, 15, 60, 300, 900, 3600, 6 * 3600)]
_numbers = count()  # for identifiers within a page


@dataclass(frozen=True)
class Axis:
    """One direction of a chart: what it shows, from where to where, and what is written along it.

    Examples
    --------
    >>> axis = Axis.around([0.0, 10.0], "dose, mg")
    >>> [text for _, text in axis.ticks]
    ['0', '2', '4', '6', '8', '10']
    >>> [text for _, text in Axis.around([0.0, 1.2], "share").ticks]
    ['0', '0.25', '0.5', '0.75', '1', '1.25']
    """

    label: str
    low: float
    high: float
    ticks: tuple[tuple[float, str], ...]

    @classmethod
    def around(cls, values: Iterable[float | None], label: str, within: tuple[float, float] | None = None) -> Axis:
        """One that has room for these values, those that are known; ``within`` bounds it."""
        known = [v for v in values if v is not None and math.isfinite(v)]
        low, high = (min(known), max(known)) if known else (0.0, 1.0)
        if high - low <= 1e-9 * max(abs(low), abs(high)):  # one value, or none that can be told apart
            room = max(abs(low), abs(high)) or 1.0
            low, high = low - 0.5 * room, high + 0.5 * room
        room = MARGIN * (high - low)
        low, high = low - room, high + room
        if within is not None:
            low, high = max(low, within[0]), min(high, within[1])
            low, high = (low, high) if low < high else within
        return cls(label, low, high, tuple((t, _tick(t, high - low)) for t in nice_ticks(low, high)))

    @classmethod
    def of_times(cls, times: Iterable[int], label: str = "time (UTC)") -> Axis:
        """One for times in milliseconds since 1970."""
        known = list(times)
        low, high = (min(known), max(known)) if known else (0, DAY)
        high = max(high, low + 1000)
        steps = [step for step in (*_SHORT, *_PERIODS) if (high - low) / step <= MAX_TICKS]
        step = steps[0] if steps else (high - low) // MAX_TICKS + 1
        form = "%Y-%m-%d" if step >= DAY else "%H:%M" if step >= 60_000 else "%H:%M:%S"
        first = -(-low // step) * step
        ticks = ((t, f"{datetime.fromtimestamp(t / 1000, UTC):{form}}") for t in range(first, high + 1, step))
        return cls(label, low, high, tuple(ticks))

    def sparser(self, most: int = 4) -> Axis:
        """The same with fewer ticks, evenly spaced, and none at the very ends: dates take room.

        Examples
        --------
        >>> [text for _, text in Axis.around([0.0, 10.0], "").sparser(3).ticks]
        ['0', '4', '8']
        """
        room = 0.04 * (self.high - self.low)
        inside = [tick for tick in self.ticks if self.low + room <= tick[0] <= self.high - room]
        return replace(self, ticks=tuple(inside[:: -(-len(inside) // most) or 1]))

    @classmethod
    def of_names(cls, names: Sequence[str], label: str = "") -> Axis:
        """One with a place for each name: 0, 1, ..."""
        ticks = tuple((float(k), wording.shown(name, 14)) for k, name in enumerate(names))
        return cls(label, -0.5, len(names) - 0.5, ticks)


@dataclass
class Panel:
    """A field between two axes, and what is drawn in it.

    Parameters
    ----------
    x, y
        The axes.
    width, height
        Of the whole picture, in units of its own; the browser scales it.

    Examples
    --------
    >>> panel = Panel(Axis.around([0, 1], "x"), Axis.around([0, 2], "y"))
    >>> panel.line([(0, 0), (1, 2)], "series-0")
    >>> svg = panel.svg("a rising line")
    >>> svg.startswith("<svg") and "a rising line" in svg and "polyline" in svg
    True
    """

    x: Axis
    y: Axis
    width: int = 560
    height: int = 340
    _drawn: list[Markup] = field(default_factory=list)
    _id: str = field(default_factory=lambda: f"field-{next(_numbers)}")

    def at(self, x: float, y: float) -> tuple[float, float]:
        """Where a point is, in units of the picture."""
        across = (x - self.x.low) / (self.x.high - self.x.low)
        up = (y - self.y.low) / (self.y.high - self.y.low)
        return (
            round(LEFT + across * (self.width - LEFT - RIGHT), 2),
            round(self.height - BOTTOM - up * (self.height - TOP - BOTTOM), 2),
        )

    def add(self, mark: Markup) -> None:
        """Draw something that is SVG already; what lies outside of the field is cut off."""
        self._drawn.append(mark)

    def line(self, points: Sequence[tuple[float, float]], kind: str = "") -> None:
        """A line through points."""
        path = " ".join("{},{}".format(*self.at(x, y)) for x, y in points)
        self.add(Markup('<polyline class="line {}" points="{}"/>').format(kind, path))

    def band(self, points: Sequence[tuple[float, float, float]], kind: str = "") -> None:
        """The area between two curves: x, low, high."""
        path = [self.at(x, low) for x, low, _ in points] + [self.at(x, high) for x, _, high in reversed(points)]
        text = " ".join(f"{x},{y}" for x, y in path)
        self.add(Markup('<polygon class="band {}" points="{}"/>').format(kind, text))

    def mark(self, x: float, y: float, kind: str = "", title: str = "", radius: float = 5.0) -> None:
        """A dot; ``title`` is what the browser shows when the pointer rests on it."""
        self.add(dot(*self.at(x, y), kind, title, radius))

    def span(self, start: tuple[float, float], end: tuple[float, float], kind: str = "", css: str = "span") -> None:
        """A straight line from one point to another, such as an interval."""
        (x1, y1), (x2, y2) = self.at(*start), self.at(*end)
        self.add(Markup('<line class="{} {}" x1="{}" y1="{}" x2="{}" y2="{}"/>').format(css, kind, x1, y1, x2, y2))

    def box(
        self, low: tuple[float, float], high: tuple[float, float], kind: str = "", title: str = "", css: str = "bar"
    ) -> None:
        """A rectangle between two corners."""
        (x1, y1), (x2, y2) = self.at(*low), self.at(*high)
        left, top = min(x1, x2), min(y1, y2)
        width, height = round(abs(x2 - x1), 2), round(abs(y2 - y1), 2)
        form = Markup('<rect class="{} {}" x="{}" y="{}" width="{}" height="{}">{}</rect>')
        self.add(form.format(css, kind, left, top, width, height, _title(title)))

    def text(self, x: float, y: float, words: str, kind: str = "", anchor: str = "start") -> None:
        """Words at a point."""
        px, py = self.at(x, y)
        self.add(
            Markup('<text class="{}" x="{}" y="{}" text-anchor="{}">{}</text>').format(kind, px, py, anchor, words)
        )

    def svg(self, name: str) -> Markup:
        """The picture; ``name`` is what is read aloud."""
        right, base = self.width - RIGHT, self.height - BOTTOM
        frame = Markup('<path class="axis" d="M{},{}V{}H{}"/>').format(LEFT, TOP, base, right)
        return Markup(
            '<svg class="chart" viewBox="0 0 {w} {h}" role="group" aria-label="{name}">'
            '<clipPath id="{id}"><rect x="{l}" y="{t}" width="{fw}" height="{fh}"/></clipPath>'
            '{axes}<g clip-path="url(#{id})">{drawn}</g>{frame}</svg>'
        ).format(
            w=self.width,
            h=self.height,
            name=name,
            id=self._id,
            l=LEFT,
            t=TOP - 8,
            fw=right - LEFT + 8,
            fh=base - TOP + 8,
            axes=self._axes(),
            drawn=Markup("").join(self._drawn),
            frame=frame,
        )

    def _axes(self) -> Markup:
        base, right = self.height - BOTTOM, self.width - RIGHT
        parts: list[Markup] = []
        for value, words in self.x.ticks:
            px, _ = self.at(value, self.y.low)
            parts.append(Markup('<line class="grid" x1="{}" y1="{}" x2="{}" y2="{}"/>').format(px, TOP, px, base))
            parts.append(
                Markup('<text class="quiet" x="{}" y="{}" text-anchor="middle">{}</text>').format(px, base + 16, words)
            )
        for value, words in self.y.ticks:
            _, py = self.at(self.x.low, value)
            parts.append(Markup('<line class="grid" x1="{}" y1="{}" x2="{}" y2="{}"/>').format(LEFT, py, right, py))
            parts.append(
                Markup('<text class="quiet" x="{}" y="{}" text-anchor="end">{}</text>').format(LEFT - 6, py + 4, words)
            )
        middle, centre = (LEFT + right) / 2, (TOP + base) / 2
        parts.append(
            Markup('<text x="{}" y="{}" text-anchor="middle">{}</text>').format(
                middle, self.height - 8, wording.shown(self.x.label)
            )
        )
        parts.append(
            Markup('<text transform="translate(14 {}) rotate(-90)" text-anchor="middle">{}</text>').format(
                centre, wording.shown(self.y.label)
            )
        )
        return Markup("").join(parts)


def dot(x: float, y: float, kind: str = "", title: str = "", radius: float = 5.0) -> Markup:
    """A dot at a place of a picture."""
    return Markup('<circle class="mark {}" cx="{}" cy="{}" r="{}">{}</circle>').format(
        kind, x, y, radius, _title(title)
    )


def swatch(kind: str) -> Markup:
    """A small square in the colour of a class, for legends and tables."""
    return Markup('<span class="swatch {}"></span>').format(kind)


def figure(picture: Markup, caption: Any = "") -> Markup:
    """A picture with words below it."""
    words = Markup("<figcaption>{}</figcaption>").format(caption) if caption else ""
    return Markup("<figure>{}{}</figure>").format(picture, words)


def nice_ticks(low: float, high: float, most: int = MAX_TICKS) -> list[float]:
    """Round numbers between two bounds, evenly spaced.

    Examples
    --------
    >>> nice_ticks(0.03, 0.97)
    [0.2, 0.4, 0.6, 0.8]
    """
    width = high - low
    if not (math.isfinite(width) and width > 0):
        return []
    power = 10.0 ** math.floor(math.log10(width / most))
    step = next((s * power for s in _STEPS if width / (s * power) <= most), 10 * power)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [round(k * step, 12) + 0.0 if abs(k * step) < 1e9 else k * step for k in range(first, last + 1)][: most + 2]


def _tick(value: float, width: float) -> str:
    if abs(value) >= 1e6 or (value and width < 1e-4):
        return f"{value:.3g}"
    return f"{value:,.10g}"  # a round number, so these are few digits, and none of them may be lost


def _title(words: str) -> Markup:
    return Markup("<title>{}</title>").format(words) if words else escape("")
