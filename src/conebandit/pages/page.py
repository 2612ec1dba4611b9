"""Self-contained HTML pages: figures inside, no network, no script."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from html import escape
from pathlib import Path

STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; color: #222; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
h1 { line-height: 1.2; } h2 { margin-top: 3rem; border-top: 1px solid #ddd; padding-top: 1.5rem; }
img { max-width: 100%; max-height: 44rem; display: block; margin: 1rem 0; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; margin: 1rem 0; }
th, td { padding: .2rem .8rem; text-align: left; border-bottom: 1px solid #eee; }
.verdict { display: inline-block; padding: .1rem .6rem; border-radius: .3rem; font-size: .85rem; color: white; }
.yes { background: #0b6e4f; } .no { background: #9e2a2b; }
dl { display: grid; grid-template-columns: 9rem 1fr; gap: .3rem 1rem; } dt { color: #666; } dd { margin: 0; }
nav li { margin: .2rem 0; } footer { margin: 4rem 0 2rem; color: #666; font-size: .9rem; }
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
