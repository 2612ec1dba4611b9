"""Curves with bands, any number of them up to sixteen: for studies, and for anybody's own runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import StrMethodFormatter
from numpy.typing import ArrayLike

from conebandit.pages.palette import GREY
from conebandit.plots.style import COLOURS, DASHES, new_figure, plain_text

LOOKS = [(colour, dash) for dash, colour in product(reversed(DASHES), COLOURS)]
MAX_CURVES = len(LOOKS)


def bands(
    curves: Mapping[str, tuple[ArrayLike, ArrayLike, ArrayLike]],
    *,
    title: str = "",
    xlabel: str = "round",
    ylabel: str = "",
    change_points: Sequence[float] = (),
) -> Figure:
    """One panel: curves with bands, each in a colour and a line style of its own.

    Parameters
    ----------
    curves
        Name of the curve to (x, middle, half width of the band), each of shape (n,): what ``Study.bands`` gives. Where
        the half width is nan there is no band. At most sixteen.
    title, xlabel, ylabel
        What is shown.
    change_points
        Where to draw a dotted line.

    Examples
    --------
    >>> import numpy as np
    >>> from conebandit.plots import bands
    >>> x, runs = np.arange(1, 51), np.random.default_rng(0).random((10, 50)).cumsum(axis=1)
    >>> figure = bands({"mine": (x, runs.mean(axis=0), 2 * runs.std(axis=0) / 10**0.5)}, ylabel="regret")
    >>> figure.axes[0].get_ylabel()
    'regret'
    """
    arrays = {name: tuple(np.asarray(part, dtype=np.float64) for part in curve) for name, curve in curves.items()}
    if not 1 <= len(arrays) <= MAX_CURVES:
        raise ValueError(f"curves must be 1 to {MAX_CURVES}, so that they can be told apart; got {len(arrays)}.")
    for name, parts in arrays.items():
        if len({part.shape for part in parts}) != 1 or parts[0].ndim != 1 or len(parts) != 3:
            raise ValueError(
                f"curves[{name!r}] must be x, middle and half width of one shape (n,); got shapes "
                f"{[part.shape for part in parts]}."
            )
    rows = -(-len(arrays) // 2)
    with new_figure(4.6, 3.2 + 0.2 * rows) as figure:
        ax = figure.subplots()
        for (name, (x, middle, half)), (colour, dash) in zip(arrays.items(), LOOKS, strict=False):
            ax.fill_between(x, middle - half, middle + half, color=colour, alpha=0.15, lw=0)
            ax.plot(x, middle, dash, color=colour, lw=1.6, label=plain_text(name))
        for point in change_points:
            ax.axvline(point, color=GREY, lw=0.8, ls=":")
        ax.set(title=plain_text(title), xlabel=xlabel, ylabel=ylabel)
        ax.xaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
        ax.margins(x=0.0)
        figure.legend(ncols=min(len(arrays), 2), loc="outside lower center", frameon=False, fontsize=8)
        return figure
