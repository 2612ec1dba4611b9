"""Turns the cross-references of docstrings into links of the reference, and those to other names into code."""

from __future__ import annotations

import re
from typing import Any

import griffe

import conebandit
import conebandit.environments
import conebandit.formats

ROLE = re.compile(r":(?:class|func|meth|mod|data|attr|obj|exc):`~?(?P<name>[\w.]+)`")
PUBLIC = {
    name: f"{module.__name__}.{name}"
    for module in (conebandit.formats, conebandit.environments, conebandit)
    for name in module.__all__
    if name != "environments"
}


def linked(role: re.Match[str]) -> str:
    """A role as Markdown; a member of a class leads to the class."""
    name = role["name"]
    first = name.removeprefix("conebandit.").split(".")[0]
    return f"[`{name.removeprefix('conebandit.')}`][{PUBLIC[first]}]" if first in PUBLIC else f"`{name}`"


class Roles(griffe.Extension):
    """Rewrites the docstring of everything that is read."""

    def on_object(self, *, obj: griffe.Object, **kwargs: Any) -> None:
        """Rewrite one docstring."""
        if obj.docstring:
            obj.docstring.value = ROLE.sub(linked, obj.docstring.value)
