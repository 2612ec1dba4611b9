"""Prepares docstrings for the site.

Cross-references become links of the reference, or code if a name is not in it. Parameters that share a description get
one each: Griffe would give all of them the type of the first.
"""

from __future__ import annotations

import inspect
import re
from typing import Any

import griffe

import conebandit
import conebandit.environments
import conebandit.formats
from conebandit.service.client import requests

ROLE = re.compile(r":(?:class|func|meth|mod|data|attr|obj|exc):`~?(?P<name>[\w.]+)`")
SHARED = re.compile(r"^(?P<names>\w+(?:, \w+)+)\n(?P<text>(?:(?: {4}.*)?\n)*(?: {4}.*))", re.MULTILINE)
CLIENT_METHOD = re.compile(r"_(?:waiting|awaited)\(requests\.\w+\)")
PARAMETERS = re.compile(r"^Parameters\n-+\n(?:.*\n)*?(?=^\w[\w ]*\n-+$|\Z)", re.MULTILINE)
PUBLIC = {
    name: f"{module.__name__}.{name}"
    for module in (conebandit.formats, conebandit.environments, conebandit)
    for name in module.__all__
    if name != "environments"
}
PUBLIC["simulate"] = "conebandit.simulate.simulate"  # by its short name, Griffe takes the module


def linked(role: re.Match[str]) -> str:
    """A role as Markdown; a member of a class leads to the class."""
    name = role["name"]
    first = name.removeprefix("conebandit.").split(".")[0]
    return f"[`{name.removeprefix('conebandit.')}`][{PUBLIC[first]}]" if first in PUBLIC else f"`{name}`"


def apart(parameters: re.Match[str]) -> str:
    """A section of parameters in which each of them stands alone."""
    return SHARED.sub(
        lambda found: "\n".join(f"{name}\n{found['text']}" for name in found["names"].split(", ")), parameters[0]
    )


def as_method(name: str, line: int | None) -> griffe.Function:
    """A method of a client, as the function describes it that builds its request."""
    build = getattr(requests, name)
    this, *others = inspect.signature(getattr(conebandit.Client, name)).parameters.values()
    parameters = [griffe.Parameter(this.name, kind=griffe.ParameterKind.positional_or_keyword)]
    for given in others:
        default = None if given.default is given.empty else repr(given.default)
        kind = griffe.ParameterKind.positional_or_keyword
        parameters.append(griffe.Parameter(given.name, annotation=given.annotation, kind=kind, default=default))
    method = griffe.Function(name, lineno=line, parameters=griffe.Parameters(*parameters))
    method.docstring = griffe.Docstring(build.__doc__, parent=method)
    return method


class Prepared(griffe.Extension):
    """Rewrites the docstring of everything that is read."""

    def on_class_members(self, *, cls: griffe.Class, **kwargs: Any) -> None:
        """Show methods of clients, which are written in one line, as methods."""
        for name, member in list(cls.members.items()):
            if isinstance(member, griffe.Attribute) and CLIENT_METHOD.fullmatch(str(member.value)):
                cls.set_member(name, as_method(name, member.lineno))

    def on_object(self, *, obj: griffe.Object, **kwargs: Any) -> None:
        """Rewrite one docstring."""
        if obj.docstring:
            obj.docstring.value = PARAMETERS.sub(apart, ROLE.sub(linked, obj.docstring.value) + "\n")
