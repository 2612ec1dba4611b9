"""The page of a reproduction: one section for each table or figure, with what the paper claims and what was found."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from conebandit.pages import page


@dataclass(frozen=True)
class Section:
    """A figure or a table with what the paper claims and what was found."""

    title: str
    claim: str
    found: str
    agrees: bool
    figures: Sequence[Path] = ()
    table: Sequence[Sequence[str]] = field(default=())


def render(title: str, introduction: str, sections: Sequence[Section], footer: str) -> str:
    """The page as text.

    Examples
    --------
    >>> text = render("Title", "Hello.", [Section("One", "a claim", "a finding", True)], "made today")
    >>> text.startswith("<!doctype html>") and "a finding" in text
    True
    """
    contents = page.contents([(f"s{i}", s.title, _verdict(s)) for i, s in enumerate(sections)])
    body = "".join(page.section(f"s{i}", _body(s)) for i, s in enumerate(sections))
    return page.document(title, page.paragraph(introduction) + contents + body, footer)


def _body(s: Section) -> str:
    figures = "".join(page.image(path) for path in s.figures)
    found = page.definitions([("The paper", s.claim), ("We found", s.found)])
    return page.heading(s.title, _verdict(s)) + found + page.table(s.table) + figures


def _verdict(s: Section) -> str:
    return page.verdict(s.agrees, "agrees" if s.agrees else "disagrees")
