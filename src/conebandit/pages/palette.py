"""The colours of every page and every picture."""

from __future__ import annotations

TEXT, MUTED, RULE, FAINT = "#222", "#666", "#ddd", "#eee"

GREEN, RED, BLUE, AMBER = "#0b6e4f", "#9e2a2b", "#2a6f97", "#e09f3e"
LIGHT_GREEN, LIGHT_RED, GREY, LIGHT_GREY = "#7fc8a9", "#e07a5f", "#9a9a9a", "#dddddd"
