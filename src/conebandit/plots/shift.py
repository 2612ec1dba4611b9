"""Two populations of contexts: dissimilarity over radii, overlap, and the evidence of a monitor."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from matplotlib.colors import LinearSegmentedColormap, to_rgba
from matplotlib.figure import Figure
from numpy.typing import NDArray

from conebandit.pages.palette import GROUND, TEXT
from conebandit.plots.style import COLOURS, SOURCE, TARGET, new_figure, plain_text
from conebandit.validate.arrays import FloatArray

# From nothing to a full colour, on any ground. Few steps: matplotlib would make a PNG of the colour bar's many.
_SHARES = LinearSegmentedColormap.from_list("shares", [to_rgba(SOURCE, alpha) for alpha in (0.0, 1.0)], N=32)


class Estimates(NamedTuple):
    """Estimates over radii with intervals, and where they are only lower bounds; arrays of shape (H,)."""

    h: FloatArray
    value: FloatArray
    low: FloatArray
    high: FloatArray
    is_lower_bound: NDArray[np.bool_]


def rho_curves_figure(curves: Mapping[str, tuple[Estimates, Estimates]]) -> Figure:
    """Exact dissimilarities over the radius as lines, and estimates of them from samples as points with intervals."""
    with new_figure(6.4, 4.2) as figure:
        ax = figure.subplots()
        for (name, (exact, found)), colour in zip(curves.items(), COLOURS, strict=False):
            ax.plot(exact.h, exact.value, color=colour, lw=1.6, label=name)
            interval = [found.value - found.low, found.high - found.value]
            ax.errorbar(found.h, found.value, interval, fmt="none", color=colour)
            bound = found.is_lower_bound
            ax.plot(found.h[~bound], found.value[~bound], "o", color=colour, ms=5)
            ax.plot(found.h[bound], found.value[bound], "o", mfc=GROUND, mec=colour, ms=5)
        ax.set_xscale("log", base=2)
        ax.set(yscale="log", xlabel="radius h", ylabel=r"dissimilarity $\rho_h(P, Q)$")
        ax.legend(frameon=False)
        return figure


def rho_figure(curves: Mapping[str, Estimates], *, h: float | None = None) -> Figure:
    """Dissimilarity over the radius, with intervals; hollow points where it is only a lower bound.

    Parameters
    ----------
    curves
        Label to estimates.
    h
        A radius to mark.
    """
    with new_figure(6.4, 4.2) as figure:
        ax = figure.subplots()
        for (label, curve), colour in zip(curves.items(), COLOURS, strict=False):
            ax.fill_between(curve.h, curve.low, curve.high, color=colour, alpha=0.2, lw=0)
            ax.loglog(curve.h, curve.value, "-o", color=colour, lw=1.8, label=label, base=2)
            bound = curve.is_lower_bound
            ax.plot(curve.h[bound], curve.value[bound], "o", mfc=GROUND, mec=colour, ms=6)
        if h is not None:
            ax.axvline(h, color=TEXT, lw=0.8, ls=":", label=f"h = {h:g}")
        ax.set(xlabel="radius h, as a share of each column's range", ylabel=r"dissimilarity $\rho_h$")
        ax.set_yscale("log", base=10)
        ax.legend(frameon=False)
        return figure


def overlap_figure(
    source: FloatArray, target: FloatArray, names: Sequence[str], *, cells: int = 8, few: int = 5
) -> Figure:
    """Where source and target are: histograms of one column, or maps of two; crosses where the source is scarce.

    Parameters
    ----------
    source, target
        Shapes (n, 1) and (m, 1), or (n, 2) and (m, 2).
    names
        Of the columns.
    cells
        Number of cells along each column.
    few
        The source is scarce in a cell with fewer rows than this, if the target reaches it.
    """
    both = np.vstack([source, target])
    edges = [np.linspace(low, high, cells + 1) for low, high in zip(both.min(axis=0), both.max(axis=0), strict=True)]
    labels = [plain_text(name) for name in names]
    if len(names) == 1:
        return _overlap_in_one((source, target), edges[0], labels[0], few)
    return _overlap_in_two((source, target), edges, labels, few)


def _overlap_in_one(tables: Sequence[FloatArray], edges: FloatArray, name: str, few: int) -> Figure:
    counts = [np.histogram(table[:, 0], edges)[0] for table in tables]
    scarce = (counts[0] < few) & (counts[1] > 0)
    middle = (edges[:-1] + edges[1:]) / 2
    with new_figure(6.4, 4.2) as figure:
        ax = figure.subplots()
        for count, colour, label in zip(counts, (SOURCE, TARGET), ("source", "target"), strict=True):
            ax.stairs(count / count.sum(), edges, fill=True, color=colour, alpha=0.45, label=label)
        if scarce.any():
            zeros = np.zeros(int(scarce.sum()))
            ax.plot(middle[scarce], zeros, "x", color=COLOURS[2], clip_on=False, label="scarce source")
        ax.set(xlabel=name, ylabel="share of rows")
        ax.legend(frameon=False)
        return figure


def _overlap_in_two(
    tables: Sequence[FloatArray], edges: Sequence[FloatArray], names: Sequence[str], few: int
) -> Figure:
    counts = [np.histogram2d(table[:, 0], table[:, 1], bins=list(edges))[0] for table in tables]
    highest = max(float((c / c.sum()).max()) for c in counts)
    scarce = np.argwhere((counts[0] < few) & (counts[1] > 0))
    middle = [(e[:-1] + e[1:]) / 2 for e in edges]
    with new_figure(9.6, 4.4) as figure:
        axes = figure.subplots(1, 2, sharex=True, sharey=True)
        for ax, count, title in zip(axes, counts, ("source", "target"), strict=True):
            mesh = ax.pcolormesh(*edges, (count / count.sum()).T, cmap=_SHARES, vmin=0.0, vmax=highest)
            ax.set(title=title, xlabel=names[0])
            ax.locator_params(axis="x", nbins=5)
        axes[0].set_ylabel(names[1])
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
    with new_figure(8.0, 4.2) as figure:
        ax = figure.subplots()
        for (name, values), colour in zip(curves.items(), COLOURS, strict=False):
            ax.semilogy(np.arange(first, len(values)), values[first:], color=colour, lw=1.4, label=name)
        ax.axhline(1.0 / alpha, color=TEXT, lw=0.8, ls="--", label=f"alarm at 1 / alpha = {1 / alpha:g}")
        ax.axvline(change, color=TEXT, lw=0.8, ls=":", label="the change")
        ax.set(xlabel="contexts seen", ylabel="evidence", ylim=(0.05, 1e8))
        ax.legend(frameon=False, loc="upper left")
        return figure
