"""The page of a reproduction: one section for each table or figure, with what the paper claims and what was found."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from conebandit.pages import page


@dataclass(frozen=True)
class Section:
    """A figure or a table with what the paper claims and what was found.

    Attributes
    ----------
    title
        Of the section.
    claim
        Of the paper; empty if it says nothing about this.
    found
        What we found.
    agrees
        Whether that is what the paper claims; None if it is not decided.
    figures
        Pictures, as SVG.
    table
        Rows, the first of which is the head.
    more
        Pictures that are shown on request.
    """

    title: str
    claim: str
    found: str
    agrees: bool | None
    figures: Sequence[Path] = ()
    table: Sequence[Sequence[str]] = ()
    more: Sequence[Path] = ()


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
    told = [("The paper", s.claim)] if s.claim else []
    found = page.definitions([*told, ("We found", s.found)])
    more = page.folded(f"{len(s.more)} more figures", page.figures(s.more)) if s.more else ""
    return page.heading(s.title, _verdict(s)) + found + page.table(s.table) + page.figures(s.figures) + more


def _verdict(s: Section) -> str:
    if not s.claim:
        return ""
    return page.verdict(s.agrees, {True: "agrees", False: "disagrees", None: "open"}[s.agrees])
