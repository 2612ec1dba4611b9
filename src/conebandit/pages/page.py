"""The one template of every HTML page: what a page looks like, and the parts that it is made of.

Pages are self-contained: figures inside, no network, no script; they suit a phone, a dark screen and paper. To
change how all of them look, edit ``STYLE``; to change what stands on one of them, see who calls :func:`document`.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from pathlib import Path

from conebandit.pages.drawing import inline
from conebandit.pages.palette import SHADES


def _shades(which: int) -> str:
    """Colours of the palette as variables: 0 for light ground, 1 for dark."""
    return " ".join(f"--{name}: {shades[which]};" for name, shades in SHADES.items())


STYLE = f"""
:root {{ color-scheme: light dark; {_shades(0)} }}
@media screen and (prefers-color-scheme: dark) {{ :root {{ {_shades(1)} }} }}
body {{ font: 16px/1.5 system-ui, sans-serif; color: var(--text); background: var(--ground);
  max-width: 60rem; margin: 2rem auto; padding: 0 1rem; overflow-wrap: break-word; }}
a {{ color: var(--blue); }}
h1 {{ line-height: 1.2; }} h2 {{ margin-top: 3rem; border-top: 1px solid var(--rule); padding-top: 1.5rem; }}
.scroll {{ overflow-x: auto; margin: 1rem 0; }}
.figures {{ display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 24rem), 1fr)); gap: 0 1rem; }}
figure {{ overflow-x: auto; margin: 1rem 0; min-width: 0; }}
figure svg {{ display: block; width: 100%; fill: var(--text); }}
figure svg * {{ stroke-linejoin: round; stroke-linecap: butt; }}
summary {{ cursor: pointer; color: var(--blue); margin: 1rem 0; }}
table {{ border-collapse: collapse; font-variant-numeric: tabular-nums; }}
th, td {{ padding: .2rem .8rem; text-align: left; border-bottom: 1px solid var(--faint); white-space: nowrap; }}
.verdict {{ display: inline-block; padding: .1rem .6rem; border-radius: .3rem; font-size: .85rem; color: var(--ground);
  print-color-adjust: exact; -webkit-print-color-adjust: exact; }}
.yes {{ background: var(--green); }} .no {{ background: var(--red); }}
.open {{ background: var(--muted); }}
dl {{ display: grid; grid-template-columns: 9rem 1fr; gap: .3rem 1rem; }}
dt {{ color: var(--muted); }} dd {{ margin: 0; }}
nav li {{ margin: .2rem 0; }} footer {{ margin: 4rem 0 2rem; color: var(--muted); font-size: .9rem; }}
@media (max-width: 40rem) {{
  body {{ margin: 1rem auto; }} dl {{ grid-template-columns: 1fr; }} dd {{ margin: 0 0 .6rem; }}
}}
@media print {{
  body {{ font-size: 10pt; max-width: none; margin: 0; padding: 0; }}
  nav {{ display: none; }} .scroll, figure {{ overflow: visible; }}
  h2 {{ break-after: avoid; }} figure, tr, dl {{ break-inside: avoid; }} thead {{ display: table-header-group; }}
  .figures {{ grid-template-columns: 1fr 1fr; }} figure svg {{ min-width: 0 !important; }}
  th, td {{ padding: .1rem .4rem; white-space: normal; }}
}}
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
        f'<meta name="viewport" content="width=device-width, initial-scale=1"><link rel="icon" href="data:,">'
        f"<style>{STYLE}</style></head><body><h1>{escape(title)}</h1>{body}<footer>{escape(footer)}</footer>"
        f"</body></html>\n"
    )


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
