"""Pictures inside a page: SVG as matplotlib writes it, in the colours of the page, light or dark."""

from __future__ import annotations

import re
from html import escape

from conebandit.pages.palette import SHADES

SMALLEST = 0.7  # below this share of its size a picture scrolls instead of shrinking: letters of 10 points become 7
LARGEST = 1.5

_VARIABLES = {light: f"var(--{name})" for name, (light, _) in SHADES.items()}


def inline(svg: str, name: str) -> str:
    """A picture as an element of a page; ``name`` is what is read aloud, and no other picture of the page has it.

    Examples
    --------
    >>> dot = '<path id="a" d="M 0.123456 1" style="fill: #222222"/>'
    >>> element = inline(f'<svg width="72pt" height="9pt" viewBox="0 0 72 9">{dot}</svg>', "one dot")
    >>> '<path id="one-dot-a" d="M 0.12 1" style="fill: var(--text)"/>' in element
    True
    """
    found = re.search(r'<svg[^>]*? width="([\d.]+)pt"[^>]*?viewBox="([^"]*)"[^>]*>(.*)</svg>', svg, re.DOTALL)
    if found is None:
        raise ValueError(
            f"svg must be a picture with width in pt and viewBox, as matplotlib writes it; got {svg[:80]!r}."
        )
    width, box, body = float(found[1]), found[2], found[3]
    body = re.sub(r"<metadata>.*?</metadata>|<style.*?</style>|<!--.*?-->", "", body, flags=re.DOTALL)
    body = re.sub(r" d=\"[^\"]*\"", lambda path: re.sub(r"(\.\d\d)\d+", r"\1", path[0]), body)  # a hundredth of a point
    body = re.sub(r"(?<=: )#[0-9a-f]{6}\b", lambda colour: _VARIABLES.get(colour[0], colour[0]), body)
    own = re.sub(r"\W+", "-", name)  # identifiers are those of the page now, so they begin with the name of the picture
    body = re.sub(r'(\bid="|href="#|url\(#)', rf"\1{own}-", body)
    size = f"min-width: {SMALLEST * width:.0f}pt; max-width: {LARGEST * width:.0f}pt"
    return f'<svg viewBox="{box}" role="img" aria-label="{escape(name)}" style="{size}">{body}</svg>'
