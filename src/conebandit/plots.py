"""Pictures. The only module that imports matplotlib (``pip install 'conebandit[plot]'``)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from textwrap import wrap
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

try:
    import matplotlib as mpl
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D
    from matplotlib.patches import Polygon, Rectangle
    from matplotlib.ticker import NullLocator, ScalarFormatter
except ModuleNotFoundError:  # pragma: no cover
    raise ModuleNotFoundError("Pictures need matplotlib: pip install 'conebandit[plot]'.") from None

from conebandit.diagnose.rho import FEW_EMPTY, RhoCurve
from conebandit.diagnose.smoothness import PowerLaw
from conebandit.diagnose.tables import Pair
from conebandit.geometry.cone import Cone
from conebandit.geometry.gap import dominance_distance, gap, log_hausdorff
from conebandit.geometry.pareto import pareto_mask
from conebandit.reproduce.theory import Panel
from conebandit.validate.arrays import FloatArray, as_vectors

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
    names = tuple(map(_as_it_is, cone.names)) if cone.names else ("$r_1$", "$r_2$")
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


# ---- figures of the paper -------------------------------------------------------------------------------------------

LINES = {"random arm": ":", "paper": "--", "sound": "-"}
COLOURS = ("#2a6f97", "#e09f3e", "#9e2a2b")


def change_point_figure(
    panels: Mapping[str, Mapping[tuple[int, str], tuple[FloatArray, FloatArray, FloatArray]]], *, label: str
) -> Figure:
    """One panel for each setting; a colour for each change point, a dash for each policy, one deviation shaded.

    Parameters
    ----------
    panels
        Title of the panel to its curves: (change point, policy) to (rounds, mean, deviation).
    label
        What is shown.
    """
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(9.6, 7.2), layout="constrained")
        axes = figure.subplots(2, 2, sharex=True).ravel()
        for ax, (title, curves) in zip(axes, panels.items(), strict=True):
            points = sorted({point for point, _ in curves})
            for (point, policy), (rounds, mean, deviation) in curves.items():
                colour = COLOURS[points.index(point) % len(COLOURS)]
                ax.fill_between(
                    rounds, np.maximum(mean - deviation, 0.0), mean + deviation, color=colour, alpha=0.15, lw=0
                )
                ax.plot(rounds, mean, LINES[policy], color=colour, lw=1.4)
            ax.set_title(title)
        for ax in axes[2:]:
            ax.set_xlabel("rounds after the change point")
        for ax in axes[::2]:
            ax.set_ylabel(label)
        handles = [Line2D([], [], color=COLOURS[i % 3], label=f"$t_p$ = {p:,}") for i, p in enumerate(points)]
        handles += [Line2D([], [], color="black", ls=LINES[name], label=name) for name in LINES]
        figure.legend(handles=handles, ncols=6, loc="outside lower center", frameon=False)
        return figure


def shift_effect_figure(
    panels: Mapping[str, Mapping[str, tuple[FloatArray, FloatArray, FloatArray]]], *, xlabel: str
) -> Figure:
    """One panel for each quantity; for each policy its mean, with one standard error, against source rounds.

    Parameters
    ----------
    panels
        Title of the panel to its curves: name of the policy to (source rounds, mean, standard error).
    xlabel
        What is on the horizontal axis.
    """
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(9.6, 3.6), layout="constrained")
        axes = np.atleast_1d(figure.subplots(1, len(panels)))
        for ax, (title, curves) in zip(axes, panels.items(), strict=True):
            for colour, (name, (rounds, mean, error)) in zip(COLOURS, curves.items(), strict=False):
                places = np.arange(len(rounds))  # the first number of rounds may be 0: no logarithm
                ax.errorbar(places, mean, error, color=colour, marker="o", ms=4, capsize=3, label=name)
            ax.set_xticks(places, [f"{n:,.0f}" for n in rounds])
            ax.set_ylim(bottom=0.0)
            ax.set_title(title)
            ax.set_xlabel(xlabel)
        handles, names = axes[0].get_legend_handles_labels()
        figure.legend(handles, names, ncols=len(names), loc="outside lower center", frameon=False)
        return figure


def gap_figure(points: FloatArray, cone: Cone, arm: int, labels: Sequence[str]) -> Figure:
    """The gap and the distances between fronts, as a schematic with real numbers.

    Left: what the front strongly dominates is grey; the arm may move within the box of factors between 1 and exp(gap),
    and reaches the edge of the grey at its best corner. Right: a reported front that misses a point of the true one.
    """
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(9.6, 4.6), layout="constrained")
        left, right = figure.subplots(1, 2)
        _draw_gap(left, points, cone, arm, labels)
        _draw_distances(right, points, cone, labels)
        return figure


def _draw_gap(ax: Axes, points: FloatArray, cone: Cone, arm: int, labels: Sequence[str]) -> None:
    front = pareto_mask(points, cone)
    distance, x = float(gap(points, front, cone)[arm]), points[arm]
    low, high = points.min(axis=0) - 0.08, points.max(axis=0) + 0.08
    grid = np.stack(np.meshgrid(*(np.linspace(low[m], high[m], 240) for m in (0, 1))), axis=-1)
    dominated = np.asarray(cone.strongly_dominates(points[front][:, None, None], grid[None])).any(axis=0)
    ax.contourf(grid[..., 0], grid[..., 1], dominated, levels=[0.5, 1.5], colors=["#dddddd"])
    ax.plot(*points[front].T, "^", color=FRONT, ms=8)
    ax.plot(*points[~front].T, "x", color=DOMINATED, ms=7, mew=2)
    for label, position in zip(labels, points, strict=True):
        ax.annotate(label, position, xytext=(5, 4), textcoords="offset points", fontsize=9)
    size = x * np.expm1(distance)
    ax.add_patch(Rectangle((float(x[0]), float(x[1])), *size, fill=False, ec=WORSE, lw=1.5))
    inside = x + size * np.stack(np.meshgrid(*[np.linspace(0, 1, 101)] * 2), axis=-1).reshape(-1, 2)
    lead = ((points[front][:, None] - inside[None]) @ cone.facets.T).min(axis=2).max(axis=0)
    ax.annotate("", inside[int(np.argmin(lead))], x, arrowprops={"arrowstyle": "->", "color": WORSE, "lw": 1.6})
    ax.set(title=f"Gap of {labels[arm]}: {distance:.4f}", xlabel="$r_1$", ylabel="$r_2$")
    ax.set(xlim=(low[0], high[0]), ylim=(low[1], high[1]))


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
    ax.xaxis.set_major_formatter(ScalarFormatter())
    ax.yaxis.set_major_formatter(ScalarFormatter())
    ax.xaxis.set_minor_formatter(ScalarFormatter())
    ax.yaxis.set_minor_formatter(ScalarFormatter())
    ax.legend(loc="lower left", frameon=True, fontsize=9)


def hausdorff_figure(rounds: FloatArray, curves: Mapping[str, FloatArray]) -> Figure:
    """Distances between the fronts of the paper's Hausdorff example and their limit, against the round."""
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(6.4, 4.2), layout="constrained")
        ax = figure.subplots()
        for (name, values), colour in zip(curves.items(), COLOURS, strict=False):
            ax.loglog(rounds, values, color=colour, lw=1.8, label=name)
        ax.set(xlabel="round $t$, context $x = 1/t$", ylabel="distance to the limit set")
        ax.legend(frameon=False)
        return figure


# ---- shift ----------------------------------------------------------------------------------------------------------

SOURCE, TARGET = "#2a6f97", "#e09f3e"


def rho_curves_figure(curves: Mapping[str, tuple[RhoCurve, RhoCurve]]) -> Figure:
    """Exact dissimilarities over the radius as lines, and estimates of them from samples as points with intervals."""
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(6.4, 4.2), layout="constrained")
        ax = figure.subplots()
        for (name, (exact, found)), colour in zip(curves.items(), COLOURS, strict=False):
            ax.plot(exact.h, exact.value, color=colour, lw=1.6, label=name)
            ax.errorbar(
                found.h, found.value, [found.value - found.low, found.high - found.value], fmt="none", color=colour
            )
            bound = found.empty > FEW_EMPTY
            ax.plot(found.h[~bound], found.value[~bound], "o", color=colour, ms=5)
            ax.plot(found.h[bound], found.value[bound], "o", mfc="white", mec=colour, ms=5)
        ax.set_xscale("log", base=2)
        ax.set(yscale="log", xlabel="radius h", ylabel=r"dissimilarity $\rho_h(P, Q)$")
        ax.legend(frameon=False)
        return figure


def rho_figure(curve: RhoCurve, within: RhoCurve | None = None, h: float | None = None) -> Figure:
    """Dissimilarity over the radius, with intervals; hollow points where it is only a lower bound.

    Parameters
    ----------
    curve
        Of source and target.
    within
        Of the target to itself.
    h
        A radius to mark.
    """
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(6.4, 4.2), layout="constrained")
        ax = figure.subplots()
        for c, colour, name in ((curve, SOURCE, "source to target"), (within, TARGET, "target to itself")):
            if c is None:
                continue
            ax.fill_between(c.h, c.low, c.high, color=colour, alpha=0.2, lw=0)
            ax.loglog(c.h, c.value, "-o", color=colour, lw=1.8, label=name, base=2)
            bound = c.empty > FEW_EMPTY
            ax.plot(c.h[bound], c.value[bound], "o", mfc="white", mec=colour, ms=6)
        if h is not None:
            ax.axvline(h, color="black", lw=0.8, ls=":", label=f"h = {h:g}")
        ax.set(xlabel="radius h, as a share of each column's range", ylabel=r"dissimilarity $\rho_h$")
        ax.set_yscale("log", base=10)
        ax.legend(frameon=False)
        return figure


def overlap_figure(pair: Pair, first: str, second: str | None = None, *, cells: int = 8, few: int = 5) -> Figure:
    """Where source and target are: histograms of one column, or maps of two; crosses where the source is scarce."""
    columns = [pair.columns.index(name) for name in (first, second) if name is not None]
    tables = [table[:, columns] for table in (pair.source, pair.target)]
    both = np.vstack(tables)
    edges = [np.linspace(low, high, cells + 1) for low, high in zip(both.min(axis=0), both.max(axis=0), strict=True)]
    with mpl.rc_context(STYLE):
        if second is None:
            return _overlap_in_one(tables, edges[0], _as_it_is(first), few)
        return _overlap_in_two(tables, edges, (_as_it_is(first), _as_it_is(second)), few)


def _as_it_is(name: str) -> str:
    """A name that the user has given, for a label: between dollars, matplotlib would look for formulas."""
    return name.replace("$", r"\$")


def _overlap_in_one(tables: Sequence[FloatArray], edges: FloatArray, name: str, few: int) -> Figure:
    figure = Figure(figsize=(6.4, 4.2), layout="constrained")
    ax = figure.subplots()
    counts = [np.histogram(table[:, 0], edges)[0] for table in tables]
    for count, colour, label in zip(counts, (SOURCE, TARGET), ("source", "target"), strict=True):
        ax.stairs(count / count.sum(), edges, fill=True, color=colour, alpha=0.45, label=label)
    scarce = (counts[0] < few) & (counts[1] > 0)
    middle = (edges[:-1] + edges[1:]) / 2
    if scarce.any():
        ax.plot(
            middle[scarce], np.zeros(int(scarce.sum())), "x", color=COLOURS[2], clip_on=False, label="scarce source"
        )
    ax.set(xlabel=name, ylabel="share of rows")
    ax.legend(frameon=False)
    return figure


def _overlap_in_two(
    tables: Sequence[FloatArray], edges: Sequence[FloatArray], names: tuple[str, str], few: int
) -> Figure:
    figure = Figure(figsize=(9.6, 4.4), layout="constrained")
    axes = figure.subplots(1, 2, sharex=True, sharey=True)
    counts = [np.histogram2d(table[:, 0], table[:, 1], bins=list(edges))[0] for table in tables]
    highest = max(float((c / c.sum()).max()) for c in counts)
    for ax, count, title in zip(axes, counts, ("source", "target"), strict=True):
        mesh = ax.pcolormesh(*edges, (count / count.sum()).T, cmap="Blues", vmin=0.0, vmax=highest)
        ax.set(title=title, xlabel=names[0])
        ax.locator_params(axis="x", nbins=5)
    axes[0].set_ylabel(names[1])
    scarce = np.argwhere((counts[0] < few) & (counts[1] > 0))
    middle = [(e[:-1] + e[1:]) / 2 for e in edges]
    axes[1].plot(middle[0][scarce[:, 0]], middle[1][scarce[:, 1]], "x", color=COLOURS[2], mew=1.6)
    figure.colorbar(mesh, ax=axes, label="share of rows in the cell")
    return figure


def evidence_figure(curves: Mapping[str, FloatArray], *, alpha: float, change: int, first: int = 0) -> Figure:
    """Evidence of a shift monitor over time on a log scale, with the line at which it gives an alarm.

    Parameters
    ----------
    curves
        Name to evidence after each context.
    alpha
        Of the monitors.
    change
        When the law changed.
    first
        First context to show.
    """
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(8.0, 4.2), layout="constrained")
        ax = figure.subplots()
        for (name, values), colour in zip(curves.items(), COLOURS, strict=False):
            ax.semilogy(np.arange(first, len(values)), values[first:], color=colour, lw=1.4, label=name)
        ax.axhline(1.0 / alpha, color="black", lw=0.8, ls="--", label=f"alarm at 1 / alpha = {1 / alpha:g}")
        ax.axvline(change, color="black", lw=0.8, ls=":", label="the change")
        ax.set(xlabel="contexts seen", ylabel="evidence", ylim=(0.05, 1e8))
        ax.legend(frameon=False, loc="upper left")
        return figure


def theory_figure(panels: Sequence[Panel], caption: str) -> Figure:
    """Measured regret with fitted slopes, the printed bound and the rate from first principles, on log scales."""
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(9.6, 8.6), layout="constrained")
        for ax, panel in zip(figure.subplots(2, 2).ravel(), panels, strict=True):
            mean = panel.regret.mean(axis=1)
            error = panel.regret.std(axis=1, ddof=1) / np.sqrt(panel.regret.shape[1])
            curves = (("measured", mean), ("Theorem 1 as printed", panel.printed), ("first principles", panel.rate))
            for (name, y), colour, style, (slope, spread) in zip(
                curves, COLOURS, ("o-", "--", ":"), panel.slopes, strict=True
            ):
                ax.plot(
                    panel.x,
                    y,
                    style,
                    color=colour,
                    lw=1.6,
                    label=f"{name}: slope {round(slope, 2) + 0.0:.2f} ± {spread:.2f}",
                )
            ax.errorbar(panel.x, mean, error, fmt="none", ecolor=COLOURS[0], capsize=3)
            ax.set(xscale="log", yscale="log", xlabel=panel.name, ylabel="regret after the shift")
            apart = np.diff(np.log(panel.x), prepend=-np.inf) > 0.1 * np.log(panel.x[-1] / panel.x[0])
            labels = [f"{v:,.3g}" if v < 1000 else f"{v:,.0f}" for v in panel.x]
            ax.set_xticks(panel.x, labels=[text if far else "" for text, far in zip(labels, apart, strict=True)])
            ax.xaxis.set_minor_locator(NullLocator())
            ax.legend(frameon=False, fontsize=8)
        figure.supxlabel("\n".join(wrap(caption, 130)), fontsize=8, x=0.02, ha="left")
        return figure


def power_law_figure(laws: Mapping[str, PowerLaw], *, xlabel: str, ylabel: str) -> Figure:
    """Points of one or more fitted power laws on log scales, each with its line."""
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(6.4, 4.2), layout="constrained")
        ax = figure.subplots()
        for (name, law), colour in zip(laws.items(), COLOURS, strict=False):
            seen = law.value > 0.0
            ax.loglog(law.scale[seen], law.value[seen], "o", color=colour, ms=5)
            label = f"{name}: {law.constant:.2g} x^{law.exponent:.2f}"
            ax.loglog(law.scale, law.constant * law.scale**law.exponent, "-", color=colour, lw=1.4, label=label)
        ax.set(xlabel=xlabel, ylabel=ylabel)
        ax.legend(frameon=False)
        return figure
