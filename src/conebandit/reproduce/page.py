"""The page of a reproduction: one section for each table or figure, with what the paper claims and what was found."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import Path

from conebandit.pages.page import document, image, paragraph, table


@dataclass(frozen=True)
class Section:
    """A figure or a table with what the paper claims and what was found."""

    title: str
    claim: str
    found: str
    agrees: bool | None  # None where there is nothing to agree with
    figures: Sequence[Path] = ()
    table: Sequence[Sequence[str]] = field(default=())


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
    return document(title, f"{paragraph(introduction)}<nav><ol>{contents}</ol></nav>{body}", footer)


def _section(i: int, s: Section) -> str:
    figures = "".join(image(path) for path in s.figures)
    return (
        f'<section id="s{i}"><h2>{escape(s.title)} {_verdict(s)}</h2>'
        f"<dl><dt>The paper</dt><dd>{escape(s.claim)}</dd><dt>We found</dt><dd>{escape(s.found)}</dd></dl>"
        f"{table(s.table)}{figures}</section>"
    )


def _verdict(s: Section) -> str:
    if s.agrees is None:
        return ""
    return f'<span class="verdict {"yes" if s.agrees else "no"}">{"agrees" if s.agrees else "disagrees"}</span>'
