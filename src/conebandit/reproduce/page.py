"""One self-contained HTML page: figures inside, no network, no script."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import Path


@dataclass(frozen=True)
class Section:
    """A figure or a table with what the paper claims and what was found."""

    title: str
    claim: str
    found: str
    agrees: bool | None  # None where there is nothing to agree with
    figures: Sequence[Path] = ()
    table: Sequence[Sequence[str]] = field(default=())


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


def render(title: str, introduction: str, sections: Sequence[Section], footer: str) -> str:
    """The page as text.

    Examples
    --------
    >>> page = render("Title", "Hello.", [Section("One", "a claim", "a finding", True)], "made today")
    >>> page.startswith("<!doctype html>") and "a finding" in page
    True
    """
    contents = "".join(f'<li><a href="#s{i}">{escape(s.title)}</a> {_verdict(s)}</li>' for i, s in enumerate(sections))
    body = "".join(_section(i, s) for i, s in enumerate(sections))
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        f'<meta name="viewport" content="width=device-width"><link rel="icon" href="data:,">'
        f"<style>{STYLE}</style></head><body><h1>{escape(title)}</h1><p>{escape(introduction)}</p>"
        f"<nav><ol>{contents}</ol></nav>{body}<footer>{escape(footer)}</footer></body></html>\n"
    )


def _section(i: int, s: Section) -> str:
    figures = "".join(_image(path) for path in s.figures)
    return (
        f'<section id="s{i}"><h2>{escape(s.title)} {_verdict(s)}</h2>'
        f"<dl><dt>The paper</dt><dd>{escape(s.claim)}</dd><dt>We found</dt><dd>{escape(s.found)}</dd></dl>"
        f"{_table(s.table)}{figures}</section>"
    )


def _verdict(s: Section) -> str:
    if s.agrees is None:
        return ""
    return f'<span class="verdict {"yes" if s.agrees else "no"}">{"agrees" if s.agrees else "disagrees"}</span>'


def _image(path: Path) -> str:
    data = base64.b64encode(path.read_bytes()).decode()
    return f'<img alt="{escape(path.stem.replace("-", " "))}" src="data:image/png;base64,{data}">'


def _table(rows: Sequence[Sequence[str]]) -> str:
    if not rows:
        return ""
    head = "".join(f"<th>{escape(c)}</th>" for c in rows[0])
    body = "".join("<tr>" + "".join(f"<td>{escape(c)}</td>" for c in row) + "</tr>" for row in rows[1:])
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
