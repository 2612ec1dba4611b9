"""Who gets what: segments, as tall as their share, and the arms on their fronts."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Patch, Rectangle

from conebandit.plots.style import BETTER, FRONT, SHADOW, new_figure, plain_text


def segments_figure(
    shares: Sequence[float],
    *,
    rules: Sequence[str],
    arms: Sequence[str],
    recommended: Sequence[str],
    fronts: Sequence[Sequence[str]],
) -> Figure:
    """A row for each segment and a column for each arm.

    Parameters
    ----------
    shares
        Of all contexts; rows are as tall.
    rules
        Which contexts, in words.
    arms
        Names of the columns.
    recommended, fronts
        For each segment the arm that is recommended, and all on its front.
    """
    with new_figure(4.2 + 0.9 * len(arms), 1.5 + 0.45 * len(rules)) as figure:
        ax = figure.subplots()
        heights = np.maximum(shares, 0.4 / len(rules))  # rare segments can still be read
        tops = np.cumsum([0.0, *heights])
        for top, height, own, front in zip(tops, heights, recommended, fronts, strict=False):
            for k, arm in enumerate(arms):
                colour = FRONT if arm == own else BETTER if arm in front else "white"
                ax.add_patch(Rectangle((k, top), 1, height, fc=colour, ec=SHADOW, lw=1.0))
        labels = [f"{plain_text(rule)}  ({share:.0%})" for rule, share in zip(rules, shares, strict=True)]
        ax.set_yticks((tops[:-1] + tops[1:]) / 2, labels)
        ax.set_xticks(np.arange(len(arms)) + 0.5, [plain_text(arm) for arm in arms])
        ax.set(xlim=(0, len(arms)), ylim=(tops[-1], 0))
        ax.tick_params(length=0, top=False, labeltop=True, bottom=False, labelbottom=False)
        ax.spines[:].set_visible(False)
        handles = [Patch(fc=FRONT, label="recommended"), Patch(fc=BETTER, label="also on the front")]
        figure.legend(handles=handles, ncols=2, loc="outside lower center", frameon=False)
        return figure
