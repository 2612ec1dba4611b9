"""The one template of every HTML page: what a page looks like, and the parts that it is made of.

Pages are self-contained: figures inside, no network, no script. To change how all of them look, edit ``STYLE``; to
change what stands on one of them, see who calls :func:`document`.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from html import escape
from pathlib import Path

from conebandit.pages.palette import FAINT, GREEN, MUTED, RED, RULE, TEXT

STYLE = f"""
body {{ font: 16px/1.5 system-ui, sans-serif; color: {TEXT}; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }}
h1 {{ line-height: 1.2; }} h2 {{ margin-top: 3rem; border-top: 1px solid {RULE}; padding-top: 1.5rem; }}
img {{ max-width: 100%; max-height: 44rem; display: block; margin: 1rem 0; }}
table {{ border-collapse: collapse; font-variant-numeric: tabular-nums; margin: 1rem 0; }}
th, td {{ padding: .2rem .8rem; text-align: left; border-bottom: 1px solid {FAINT}; }}
.verdict {{ display: inline-block; padding: .1rem .6rem; border-radius: .3rem; font-size: .85rem; color: white; }}
.yes {{ background: {GREEN}; }} .no {{ background: {RED}; }}
dl {{ display: grid; grid-template-columns: 9rem 1fr; gap: .3rem 1rem; }} dt {{ color: {MUTED}; }} dd {{ margin: 0; }}
nav li {{ margin: .2rem 0; }} footer {{ margin: 4rem 0 2rem; color: {MUTED}; font-size: .9rem; }}
"""


def document(title: str, body: str, footer: str) -> str:
    """A whole page around a body that is HTML already.

    Examples
    --------
    >>> document("Fish & chips", paragraph("1 < 2"), "made today").startswith("<!doctype html>")
    True
    """
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        f'<meta name="viewport" content="width=device-width"><link rel="icon" href="data:,">'
        f"<style>{STYLE}</style></head><body><h1>{escape(title)}</h1>{body}<footer>{escape(footer)}</footer>"
        f"</body></html>\n"
    )


def heading(text: str, badge: str = "") -> str:
    """The heading of a section; ``badge`` is HTML, such as a :func:`verdict`."""
    return f"<h2>{escape(text)}{badge and f' {badge}'}</h2>"


def paragraph(text: str) -> str:
    """Text as a paragraph."""
    return f"<p>{escape(text)}</p>"


def image(path: Path) -> str:
    """A PNG, inside the page; its name is what is read aloud."""
    data = base64.b64encode(path.read_bytes()).decode()
    return f'<img alt="{escape(path.stem.replace("-", " "))}" src="data:image/png;base64,{data}">'


def table(rows: Sequence[Sequence[str]]) -> str:
    """A table whose first row is its head; nothing if there is none."""
    if not rows:
        return ""
    head = "".join(f"<th>{escape(c)}</th>" for c in rows[0])
    body = "".join("<tr>" + "".join(f"<td>{escape(c)}</td>" for c in row) + "</tr>" for row in rows[1:])
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def definitions(pairs: Sequence[tuple[str, str]]) -> str:
    """Terms, each with a text beside it."""
    return "<dl>" + "".join(f"<dt>{escape(term)}</dt><dd>{escape(text)}</dd>" for term, text in pairs) + "</dl>"


def verdict(good: bool, text: str) -> str:
    """A word on a coloured ground: green if it is good, red if not."""
    return f'<span class="verdict {"yes" if good else "no"}">{escape(text)}</span>'


def contents(entries: Sequence[tuple[str, str, str]]) -> str:
    """A list of links to sections: anchor, title and a badge that is HTML."""
    items = (f'<li><a href="#{anchor}">{escape(title)}</a> {badge}</li>' for anchor, title, badge in entries)
    return f"<nav><ol>{''.join(items)}</ol></nav>"


def section(anchor: str, body: str) -> str:
    """A section that :func:`contents` can link to, around a body that is HTML already."""
    return f'<section id="{anchor}">{body}</section>'
