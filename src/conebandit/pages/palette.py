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
