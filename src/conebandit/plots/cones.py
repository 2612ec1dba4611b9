"""Points in the plane, what a cone calls better and worse, and the gap of a dominated point."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Polygon, Rectangle
from matplotlib.ticker import MaxNLocator, NullLocator, ScalarFormatter
from numpy.typing import ArrayLike

from conebandit.geometry.cone import Cone
from conebandit.geometry.gap import dominance_distance, gap, log_hausdorff
from conebandit.geometry.pareto import pareto_mask
from conebandit.plots.style import BETTER, DOMINATED, FRONT, SHADOW, WORSE, new_figure, plain_text
from conebandit.validate.arrays import FloatArray, as_vectors


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
    with new_figure(4.6 * len(cones), 4.5) as figure:
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
        corners = x[at] + sign * reach * fan_of(cone)
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
    less = [" (less is better)" if name in cone.minimise else "" for name in cone.names or ()]
    names = [plain_text(n) + add for n, add in zip(cone.names, less, strict=True)] if cone.names else ["$r_1$", "$r_2$"]
    ax.set(xlabel=names[0], ylabel=names[1])
    ax.legend(loc="lower left", frameon=True, framealpha=0.9, fontsize=8)


def fan_of(cone: Cone) -> FloatArray:
    """Corners of a polygon that looks like the cone from its apex: the apex and the rays in order of angle."""
    middle = np.arctan2(*(cone.rays / np.linalg.norm(cone.rays, axis=1, keepdims=True)).sum(axis=0)[::-1])
    turn = np.angle(np.exp(1j * (np.arctan2(cone.rays[:, 1], cone.rays[:, 0]) - middle)))
    angles = middle + np.linspace(turn.min(), turn.max(), 33)
    return np.vstack([np.zeros(2), np.column_stack([np.cos(angles), np.sin(angles)])])


def gap_figure(points: FloatArray, cone: Cone, arm: int, labels: Sequence[str]) -> Figure:
    """The gap of an arm, as a schematic with real numbers.

    What the front strongly dominates is grey; the arm may move within the box of factors between 1 and exp(gap), and
    reaches the edge of the grey at its best corner.
    """
    front = pareto_mask(points, cone)
    distance, x = float(gap(points, front, cone)[arm]), points[arm]
    low, high = points.min(axis=0) - 0.08, points.max(axis=0) + 0.08
    grid = np.stack(np.meshgrid(*(np.linspace(low[m], high[m], 240) for m in (0, 1))), axis=-1)
    dominated = np.asarray(cone.strongly_dominates(points[front][:, None, None], grid[None])).any(axis=0)
    size = x * np.expm1(distance)
    inside = x + size * np.stack(np.meshgrid(*[np.linspace(0, 1, 101)] * 2), axis=-1).reshape(-1, 2)
    lead = ((points[front][:, None] - inside[None]) @ cone.facets.T).min(axis=2).max(axis=0)
    with new_figure(4.8, 4.6) as figure:
        ax = figure.subplots()
        ax.contourf(grid[..., 0], grid[..., 1], dominated, levels=[0.5, 1.5], colors=[SHADOW])
        ax.plot(*points[front].T, "^", color=FRONT, ms=8)
        ax.plot(*points[~front].T, "x", color=DOMINATED, ms=7, mew=2)
        for label, position in zip(labels, points, strict=True):
            ax.annotate(label, position, xytext=(5, 4), textcoords="offset points", fontsize=9)
        ax.add_patch(Rectangle((float(x[0]), float(x[1])), *size, fill=False, ec=WORSE, lw=1.5))
        ax.annotate("", inside[int(np.argmin(lead))], x, arrowprops={"arrowstyle": "->", "color": WORSE, "lw": 1.6})
        ax.set(title=f"Gap of {labels[arm]}: {distance:.4f}", xlabel="$r_1$", ylabel="$r_2$")
        ax.set(xlim=(low[0], high[0]), ylim=(low[1], high[1]))
        return figure


def distances_figure(points: FloatArray, cone: Cone, labels: Sequence[str]) -> Figure:
    """The distances between the true front and a reported one that misses one of its points, with real numbers."""
    with new_figure(4.8, 4.6) as figure:
        _draw_distances(figure.subplots(), points, cone, labels)
        return figure


def _draw_distances(ax: Axes, points: FloatArray, cone: Cone, labels: Sequence[str]) -> None:
    front = pareto_mask(points, cone)
    reported = front.copy()
    reported[np.flatnonzero(front)[points[front][:, 0].argmax()]] = False
    true, found = points[front], points[reported]
    ax.loglog(*true.T, "^", color=FRONT, ms=9, label="true front")
    ax.loglog(*found.T, "o", mfc="none", mec=WORSE, ms=14, mew=1.6, label="reported front")
    apart = np.abs(np.log(true)[:, None] - np.log(found)[None]).max(axis=2)
    far = int(apart.min(axis=1).argmax())
    near = found[int(apart[far].argmin())]
    ax.annotate("", true[far], near, arrowprops={"arrowstyle": "<->", "color": WORSE, "lw": 1.4})
    for k in np.flatnonzero(front).tolist():
        ax.annotate(labels[k], points[k], xytext=(8, 6), textcoords="offset points", fontsize=9)
    dominance, coverage = dominance_distance(true, found, cone), log_hausdorff(true, found)
    ax.set(title=f"dominance distance {dominance:.4f}, log-Hausdorff {coverage:.4f}", xlabel="$r_1$", ylabel="$r_2$")
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_major_locator(MaxNLocator(6, steps=[1, 2, 5, 10]))
        axis.set_major_formatter(ScalarFormatter())
        axis.set_minor_locator(NullLocator())
    ax.legend(loc="lower left", frameon=True, fontsize=9)
