"""Curves in one panel or several: against rounds, on log scales, with fitted slopes.

Curves take colours and line styles in the order in which they are given.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from textwrap import wrap
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator, StrMethodFormatter

from conebandit.pages.palette import TEXT
from conebandit.plots.style import COLOURS, DASHES, new_figure
from conebandit.validate.arrays import FloatArray

Curve = tuple[FloatArray, FloatArray, FloatArray]  # x, mean, deviation or standard error; each of shape (n,)


def rounds_figure(curves: Mapping[str, Curve], *, title: str, ylabel: str, ylim: tuple[float, float]) -> Figure:
    """One small panel: curves against rounds after the shift, in colours and line styles of their own, with bands.

    Several of them stand beside each other on a wide page and below each other on a phone.

    Parameters
    ----------
    curves
        Name of the curve to (rounds, middle, half width of the band); at most four.
    title, ylabel
        What is shown.
    ylim
        Of the vertical axis, the same for panels that are to be compared.
    """
    with new_figure(4.6, 3.4) as figure:
        ax = figure.subplots()
        looks = zip(COLOURS, DASHES, strict=True)
        for (name, (rounds, middle, half)), (colour, dash) in zip(curves.items(), looks, strict=False):
            ax.fill_between(rounds, middle - half, middle + half, color=colour, alpha=0.15, lw=0)
            ax.plot(rounds, middle, dash, color=colour, lw=1.6, label=name)
        ax.axhline(0.0, color=TEXT, lw=0.8)
        ax.set(title=title, xlabel="rounds after the shift", ylabel=ylabel, ylim=ylim)
        ax.xaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
        if max(map(abs, ylim)) >= 1000:
            ax.yaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
        ax.margins(x=0.0)
        figure.legend(ncols=4, loc="outside lower center", frameon=False, fontsize=9)
        return figure


def shift_effect_figure(panels: Mapping[str, Mapping[str, Curve]], *, xlabel: str) -> Figure:
    """One panel for each quantity; for each policy its mean, with one standard error, against source rounds.

    Parameters
    ----------
    panels
        Title of the panel to its curves: name of the policy to (source rounds, mean, standard error).
    xlabel
        What is on the horizontal axis.
    """
    with new_figure(9.6, 3.6) as figure:
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


def hausdorff_figure(rounds: FloatArray, curves: Mapping[str, FloatArray]) -> Figure:
    """Distances between the fronts of the paper's Hausdorff example and their limit, against the round."""
    with new_figure(4.8, 3.6) as figure:
        ax = figure.subplots()
        for (name, values), colour in zip(curves.items(), COLOURS, strict=False):
            ax.loglog(rounds, values, color=colour, lw=1.8, label=name)
        ax.set(xlabel="round $t$, context $x = 1/t$", ylabel="distance to the limit set")
        ax.legend(frameon=False)
        return figure


class SlopeCurve(NamedTuple):
    """A curve on log scales: its name, values (n,), fitted slope with its error, and errors (n,) of the values."""

    name: str
    y: FloatArray
    slope: tuple[float, float]
    error: FloatArray | None = None


class SlopePanel(NamedTuple):
    """A panel with up to three curves over the same x (n,), and what x is."""

    xlabel: str
    x: FloatArray
    curves: Sequence[SlopeCurve]


def slopes_figure(panels: Sequence[SlopePanel], *, ylabel: str, caption: str) -> Figure:
    """Four panels of curves on log scales, each with its fitted slope in the legend, and a caption below."""
    with new_figure(9.6, 8.6) as figure:
        for ax, panel in zip(figure.subplots(2, 2).ravel(), panels, strict=True):
            _draw_slopes(ax, panel)
            ax.set(xscale="log", yscale="log", xlabel=panel.xlabel, ylabel=ylabel)
            _label_some(ax, panel.x)
            ax.legend(frameon=False, fontsize=8)
        figure.supxlabel("\n".join(wrap(caption, 130)), fontsize=8, x=0.02, ha="left")
        return figure


def _draw_slopes(ax: Axes, panel: SlopePanel) -> None:
    styles = ("o-", "--", ":")
    for curve, colour, style in zip(panel.curves, COLOURS, styles, strict=False):
        slope, spread = curve.slope
        label = f"{curve.name}: slope {round(slope, 2) + 0.0:.2f} ± {spread:.2f}"
        ax.plot(panel.x, curve.y, style, color=colour, lw=1.6, label=label)
    for curve, colour in zip(panel.curves, COLOURS, strict=False):
        if curve.error is not None:
            ax.errorbar(panel.x, curve.y, curve.error, fmt="none", ecolor=colour, capsize=3)


def _label_some(ax: Axes, x: FloatArray) -> None:
    """A tick at every x, and a label where it does not touch the one before it."""
    apart = np.diff(np.log(x), prepend=-np.inf) > 0.1 * np.log(x[-1] / x[0])
    labels = [f"{v:,.3g}" if v < 1000 else f"{v:,.0f}" for v in x]
    ax.set_xticks(x, labels=[text if far else "" for text, far in zip(labels, apart, strict=True)])
    ax.xaxis.set_minor_locator(NullLocator())


class PowerCurve(NamedTuple):
    """Points, arrays of shape (n,), and the law ``constant * scale ** exponent`` fitted to them."""

    scale: FloatArray
    value: FloatArray
    constant: float
    exponent: float


def power_law_figure(laws: Mapping[str, PowerCurve], *, xlabel: str, ylabel: str) -> Figure:
    """Points of one or more fitted power laws on log scales, each with its line."""
    with new_figure(6.4, 4.2) as figure:
        ax = figure.subplots()
        for (name, law), colour in zip(laws.items(), COLOURS, strict=False):
            seen = law.value > 0.0
            ax.loglog(law.scale[seen], law.value[seen], "o", color=colour, ms=5)
            label = f"{name}: {law.constant:.2g} x^{law.exponent:.2f}"
            ax.loglog(law.scale, law.constant * law.scale**law.exponent, "-", color=colour, lw=1.4, label=label)
        ax.set(xlabel=xlabel, ylabel=ylabel)
        ax.legend(frameon=False)
        return figure
