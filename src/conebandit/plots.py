"""Pictures. The only module that imports matplotlib (``pip install 'conebandit[plot]'``)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

try:
    import matplotlib as mpl
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.patches import Polygon
except ModuleNotFoundError:  # pragma: no cover
    raise ModuleNotFoundError("Pictures need matplotlib: pip install 'conebandit[plot]'.") from None

from conebandit._validate import FloatArray, as_vectors
from conebandit.cone import Cone
from conebandit.pareto import pareto_mask

FRONT, DOMINATED, BETTER, WORSE = "#0b6e4f", "#9a9a9a", "#7fc8a9", "#e07a5f"

STYLE: dict[Any, Any] = {
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 11,
    "svg.hashsalt": "conebandit",  # the same picture gives the same file
    "savefig.dpi": 150,
}


def cone_figure(
    points: ArrayLike, cones: Mapping[str, Cone], labels: Sequence[str], *, anchors: Mapping[str, int] | None = None
) -> Figure:
    """One panel for each cone: points, which of them are undominated, and what the cone calls better and worse.

    Parameters
    ----------
    points
        Shape (N, 2).
    cones
        Title of each panel, and its cone.
    labels
        A label for each point.
    anchors
        For a panel's title the point at which the cone is drawn; the first dominated point by default. Green is
        everything better than it, red everything worse.
    """
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(4.6 * len(cones), 4.5), layout="constrained")
        axes = figure.subplots(1, len(cones), squeeze=False, sharex=True, sharey=True)[0]
        for ax, (title, cone) in zip(axes, cones.items(), strict=True):
            draw_cone(ax, points, cone, labels, anchor=(anchors or {}).get(title))
            ax.set_title(title)
        return figure


def draw_cone(ax: Axes, points: ArrayLike, cone: Cone, labels: Sequence[str], *, anchor: int | None = None) -> None:
    """Draw points and a two-dimensional cone into one panel (see :func:`cone_figure`)."""
    if cone.dim != 2:
        raise ValueError(f"cone must have dimension 2 to be drawn; got {cone.dim}.")
    x = as_vectors(points, "points", 2, (2,))
    front = pareto_mask(x, cone)
    at = int(np.argmin(front)) if anchor is None else anchor
    margin = 0.12 * np.ptp(x, axis=0).max()
    low, high = x.min(axis=0) - margin, x.max(axis=0) + margin
    reach = 3 * float(np.max(high - low))
    for sign, colour, name in ((1, BETTER, "better"), (-1, WORSE, "worse")):
        corners = x[at] + sign * reach * _fan(cone)
        ax.add_patch(Polygon(corners, closed=True, color=colour, alpha=0.25, lw=0, label=f"{name} than {labels[at]}"))
    for i, ray in enumerate(cone.rays, start=1):
        tip = x[at] + 0.18 * reach / 3 * ray / np.linalg.norm(ray)
        ax.annotate("", tip, x[at], arrowprops={"arrowstyle": "->", "color": FRONT, "lw": 1.2})
        ax.annotate(f"$w_{i}$", tip, xytext=(2, -11), textcoords="offset points", color=FRONT)
    ax.plot(*x[front].T, "^", color=FRONT, ms=8, label="Pareto front")
    if not front.all():
        ax.plot(*x[~front].T, "x", color=DOMINATED, ms=7, mew=2, label="dominated")
    for label, position in zip(labels, x, strict=True):
        ax.annotate(label, position, xytext=(5, 5), textcoords="offset points", fontsize=9)
    ax.set(xlim=(low[0], high[0]), ylim=(low[1], high[1]), aspect="equal")
    names = cone.names or ("$r_1$", "$r_2$")
    ax.set(xlabel=names[0], ylabel=names[1])
    ax.legend(loc="lower left", frameon=True, framealpha=0.9, fontsize=8)


def _fan(cone: Cone) -> FloatArray:
    """Corners of a polygon that looks like the cone from its apex: the apex and the rays in order of angle."""
    middle = np.arctan2(*(cone.rays / np.linalg.norm(cone.rays, axis=1, keepdims=True)).sum(axis=0)[::-1])
    turn = np.angle(np.exp(1j * (np.arctan2(cone.rays[:, 1], cone.rays[:, 0]) - middle)))
    angles = middle + np.linspace(turn.min(), turn.max(), 33)
    return np.vstack([np.zeros(2), np.column_stack([np.cos(angles), np.sin(angles)])])


def save(figure: Figure, stem: Path) -> list[Path]:
    """Write a figure as PNG and SVG beside each other; the paths written."""
    stem.parent.mkdir(parents=True, exist_ok=True)
    paths = [stem.with_suffix(".png"), stem.with_suffix(".svg")]
    with mpl.rc_context(STYLE):
        figure.savefig(paths[0], metadata={"Software": None})
        figure.savefig(paths[1], metadata={"Date": None})
    return paths
