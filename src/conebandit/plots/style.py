"""How pictures look: palette, fonts, and how they are written to files."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure

from conebandit.pages import palette

FRONT, DOMINATED, SHADOW = palette.GREEN, palette.GREY, palette.RULE
BETTER, WORSE = palette.LIGHT_GREEN, palette.LIGHT_RED
SOURCE, TARGET = palette.BLUE, palette.AMBER

COLOURS = (palette.BLUE, palette.AMBER, palette.RED, palette.GREEN)  # of the first curve, the second, ...
DASHES = (":", "--", "-.", "-")

# Everything is drawn in colours of the palette, black and white too: pages exchange them for those of dark ground.
_LINES = ("axes.edgecolor", "axes.labelcolor", "text.color", "xtick.color", "ytick.color", "patch.edgecolor")
_GROUNDS = ("axes.facecolor", "figure.facecolor", "savefig.facecolor", "legend.facecolor")

STYLE: dict[Any, Any] = {
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 11,
    "svg.hashsalt": "conebandit",  # the same picture gives the same file
    "savefig.dpi": 150,
    "legend.edgecolor": palette.RULE,
    **dict.fromkeys(_LINES, palette.TEXT),
    **dict.fromkeys(_GROUNDS, palette.GROUND),
}


@contextmanager
def new_figure(width: float, height: float) -> Iterator[Figure]:
    """A figure of this size in inches; what is drawn within has our style."""
    with mpl.rc_context(STYLE):
        yield Figure(figsize=(width, height), layout="constrained")


def plain_text(name: str) -> str:
    """A name that the user has given, for a label: between dollars, matplotlib would look for formulas."""
    return name.replace("$", r"\$")


def save(figure: Figure, stem: Path) -> list[Path]:
    """Write a figure as PNG and SVG beside each other; the paths written. A stem may have dots: they stay."""
    stem.parent.mkdir(parents=True, exist_ok=True)
    paths = [stem.with_name(stem.name + suffix) for suffix in (".png", ".svg")]
    with mpl.rc_context(STYLE):
        figure.savefig(paths[0], metadata={"Software": None})
        figure.savefig(paths[1], metadata={"Date": None})
    return paths
