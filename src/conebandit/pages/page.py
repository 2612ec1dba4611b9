"""Self-contained HTML pages, and the parts that they are made of.

Figures inside, no network, no script; they suit a phone, a dark screen and paper. To change how all of them look, edit
``static/page.css``; to change what stands on one of them, see who calls :func:`document`.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from pathlib import Path

from markupsafe import Markup

from conebandit.pages.drawing import inline
from conebandit.pages.template import render, style


def document(title: str, body: str, footer: str) -> str:
    """A whole page around a body that is HTML already.

    Examples
    --------
    >>> document("Fish & chips", paragraph("1 < 2"), "made today").startswith("<!doctype html>")
    True
    """
    return str(render("document.html", title=title, body=Markup(body), footer=footer, style=style()))


def heading(text: str, badge: str = "") -> str:
    """The heading of a section; ``badge`` is HTML, such as a :func:`verdict`."""
    return f"<h2>{escape(text)}{badge and f' {badge}'}</h2>"


def paragraph(text: str) -> str:
    """Text as a paragraph."""
    return f"<p>{escape(text)}</p>"


def figure(path: Path) -> str:
    """A picture, from the SVG at ``path``, inside the page; the name of the file is what is read aloud."""
    return f"<figure>{inline(path.read_text(encoding='utf-8'), path.stem.replace('-', ' '))}</figure>"


def figures(paths: Sequence[Path]) -> str:
    """Pictures beside each other where there is room, otherwise one below the other; nothing if there are none."""
    return f'<div class="figures">{"".join(map(figure, paths))}</div>' if paths else ""


def folded(summary: str, body: str) -> str:
    """A body that is HTML already, shown when somebody asks for it."""
    return f"<details><summary>{escape(summary)}</summary>{body}</details>"


def table(rows: Sequence[Sequence[str]]) -> str:
    """A table whose first row is its head; where it is too wide it scrolls, by keyboard too. Nothing without rows."""
    if not rows:
        return ""
    head = "".join(f'<th scope="col">{escape(c)}</th>' for c in rows[0])
    body = "".join("<tr>" + "".join(f"<td>{escape(c)}</td>" for c in row) + "</tr>" for row in rows[1:])
    return (
        '<div class="scroll" tabindex="0" role="region" aria-label="table">'
        f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def definitions(pairs: Sequence[tuple[str, str]]) -> str:
    """Terms, each with a text beside it."""
    return "<dl>" + "".join(f"<dt>{escape(term)}</dt><dd>{escape(text)}</dd>" for term, text in pairs) + "</dl>"


def verdict(good: bool | None, text: str) -> str:
    """A word on a coloured ground: green if it is good, red if not, grey if that is open."""
    return f'<span class="verdict {"open" if good is None else "yes" if good else "no"}">{escape(text)}</span>'


def contents(entries: Sequence[tuple[str, str, str]]) -> str:
    """A list of links to sections: anchor, title and a badge that is HTML."""
    items = (f'<li><a href="#{anchor}">{escape(title)}</a> {badge}</li>' for anchor, title, badge in entries)
    return f"<nav><ol>{''.join(items)}</ol></nav>"


def section(anchor: str, body: str) -> str:
    """A section that :func:`contents` can link to, around a body that is HTML already."""
    return f'<section id="{anchor}">{body}</section>'
