"""Policies that were judged from a log: where they are, how sure that is, and which are on the front."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle
from matplotlib.transforms import Bbox

from conebandit.plots.style import DOMINATED, FRONT, TARGET, new_figure, plain_text
from conebandit.validate.arrays import FloatArray

# Marker, colour and words for what is known about a policy.
LOOKS = {
    "on": ("^", FRONT, "surely on the front"),
    "open": ("o", TARGET, "open"),
    "off": ("x", DOMINATED, "surely off the front"),
}


def evaluation_figure(
    values: FloatArray,
    radii: FloatArray,
    *,
    labels: Sequence[str],
    standings: Sequence[str],
    metrics: tuple[str, str],
    level: float,
) -> Figure:
    """Two metrics of several policies: estimates, and boxes that hold all at once.

    Parameters
    ----------
    values, radii
        Shape (P, 2): estimates and half widths of their intervals.
    labels
        Names of the policies.
    standings
        For each policy ``"on"``, ``"off"`` or ``"open"``: what is known about its place on the front.
    metrics
        What is on the axes.
    level
        Probability with which all boxes hold.
    """
    with new_figure(6.4, 5.0) as figure:
        ax = figure.subplots()
        for (x, y), (dx, dy), standing in zip(values, radii, standings, strict=True):
            marker, colour, _ = LOOKS[standing]
            ax.add_patch(Rectangle((x - dx, y - dy), 2 * dx, 2 * dy, fc=colour, ec=colour, alpha=0.18, lw=0))
            ax.add_patch(Rectangle((x - dx, y - dy), 2 * dx, 2 * dy, fill=False, ec=colour, lw=1.0))
            ax.plot(x, y, marker, color=colour, ms=8, mew=2)
        ax.autoscale_view()
        ax.margins(0.08)
        ax.set(xlabel=plain_text(metrics[0]), ylabel=plain_text(metrics[1]))
        ax.set_title(f"Boxes hold all at once with probability {level:g}")
        handles = [
            Line2D([], [], ls="", marker=marker, color=colour, ms=8, mew=2, label=words)
            for standing, (marker, colour, words) in LOOKS.items()
            if standing in standings
        ]
        figure.legend(handles=handles, ncols=len(handles), loc="outside lower center", frameon=False)
        figure.draw_without_rendering()  # so that it is known where things are
        taken: list[Bbox] = []
        for value, radius, label in zip(values, radii, labels, strict=True):
            right = value[0] > values[:, 0].mean()
            taken.append(_write(ax, plain_text(label), value, radius, right=right, taken=taken))
        return figure


def _write(ax: Axes, label: str, value: FloatArray, radius: FloatArray, *, right: bool, taken: Sequence[Bbox]) -> Bbox:
    """Write a label at the corner of a box where no other label is, above it if that is free; where it is now.

    Labels of boxes on the right end at the right, the others begin at the left, so that none leaves the picture.
    """
    side = 1 if right else -1
    text = ax.annotate(label, (value[0], value[1]), xytext=(0, 0), textcoords="offset points", fontsize=9)
    for up, rows in ((1, 0), (-1, 0), (1, 1), (-1, 1), (1, 2), (-1, 2)):
        text.xy = value[0] + side * radius[0], value[1] + up * radius[1]
        text.set(position=(0, up * (3 + 11 * rows)), ha="right" if right else "left", va="bottom" if up > 0 else "top")
        place = text.get_window_extent()
        if not any(place.overlaps(other) for other in taken):
            break
    return place
