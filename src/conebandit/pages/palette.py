"""The colours of every page and every picture, on light ground and on dark."""

from __future__ import annotations

# Name of a colour: on light ground, which is also what pictures are drawn with and what is printed, and on dark. Light
# ones differ from each other, so that a page can tell the colours of a picture apart and exchange them.
SHADES = {
    "ground": ("#ffffff", "#15181c"),
    "text": ("#222222", "#e6e4e0"),
    "muted": ("#666666", "#a3a8ad"),
    "rule": ("#dddddd", "#3d434a"),
    "faint": ("#eeeeee", "#2a2f35"),
    "green": ("#0b6e4f", "#4cc29a"),
    "red": ("#9e2a2b", "#f0807f"),
    "blue": ("#2a6f97", "#6cb4dc"),
    "amber": ("#e09f3e", "#efb95f"),
    "light-green": ("#7fc8a9", "#7fc8a9"),
    "light-red": ("#e07a5f", "#e8937c"),
    "grey": ("#9a9a9a", "#8b9096"),
}

GROUND, TEXT, MUTED, RULE, FAINT, GREEN, RED, BLUE, AMBER, LIGHT_GREEN, LIGHT_RED, GREY = (
    light for light, _ in SHADES.values()
)

# Colours for arms, segments and curves, on light ground and on dark: those of Okabe and Ito (2008, "Color Universal
# Design"), which colour-blind people can tell apart, made darker or lighter until they can be read on the ground.
SERIES = (
    ("#0072b2", "#56b4e9"),
    ("#b35900", "#e69f00"),
    ("#00805c", "#2fc79a"),
    ("#a8437f", "#e08fc0"),
    ("#6b5b00", "#d9cc3c"),
    ("#9b3d12", "#f08050"),
    ("#4b4fa8", "#9ea2f5"),
    ("#55606b", "#b4bec8"),
)


def series(number: int) -> str:
    """Class of the colour of the arm (curve, segment) with this number; after the last colour comes the first."""
    return f"series-{number % len(SERIES)}"
