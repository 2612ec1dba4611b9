"""Templates and assets of every page: Jinja2 with escaping always on, and files that are ours or vendored."""

from __future__ import annotations

from functools import cache
from hashlib import sha256
from importlib.resources import files
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from conebandit.pages import wording
from conebandit.pages.palette import SERIES, SHADES

ASSETS = {  # files that a page may load, and what they are
    "htmx.min.js": "text/javascript; charset=utf-8",
    "page.js": "text/javascript; charset=utf-8",
    "page.css": "text/css; charset=utf-8",
}


@cache
def _environment() -> Environment:
    """Every value is escaped unless it is Markup, and a name that is not given is an error."""
    environment = Environment(
        loader=PackageLoader("conebandit.pages"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"number": wording.number, "count": wording.count, "share": wording.share}
    environment.filters |= {"moment": wording.moment, "duration": wording.duration, "shown": wording.shown}
    return environment


def render(template: str, **values: Any) -> Markup:
    """A page or a part of one, from a file in ``templates``.

    Examples
    --------
    >>> "1 &lt; 2" in render("document.html", title="1 < 2", body=Markup("<p>yes</p>"), footer="", style=style())
    True
    """
    return Markup(_environment().get_template(template).render(**values))


@cache
def style() -> Markup:
    """How every page looks: the colours of the palette as variables, and the style sheet."""
    light, dark = (
        " ".join(
            [f"--{name}: {shades[which]};" for name, shades in SHADES.items()]
            + [f"--series-{number}: {shades[which]};" for number, shades in enumerate(SERIES)]
        )
        for which in (0, 1)
    )
    variables = (
        f":root {{ color-scheme: light dark; {light} }}\n"
        f"@media screen and (prefers-color-scheme: dark) {{ :root {{ {dark} }} }}\n"
    )
    series = "".join(f".series-{number} {{ --own: var(--series-{number}); }}\n" for number in range(len(SERIES)))
    return Markup(variables + series + _text("page.css"))


@cache
def asset(name: str) -> bytes:
    """A file that pages load; a ``KeyError`` if there is none of this name."""
    if name not in ASSETS:
        raise KeyError(name)
    return (str(style()) if name == "page.css" else _text(name)).encode()


@cache
def version(name: str) -> str:
    """Changes when the file does, so that browsers may keep it for good."""
    return sha256(asset(name)).hexdigest()[:12]


def _text(name: str) -> str:
    return files("conebandit.pages").joinpath("static", name).read_text(encoding="utf-8")
