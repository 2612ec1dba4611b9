"""Declarations as TOML; Python can read it, but not write it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

_BARE = re.compile(r"[A-Za-z0-9_-]+")


def to_toml(declaration: Mapping[str, Any]) -> str:
    """A declaration as TOML: lists of tables as sections at the end, all else in a line each. Without null, as TOML is.

    Examples
    --------
    >>> print(to_toml({"id": "e", "metrics": [{"name": "m", "range": [0, 1]}], "cone": {"wedge": 0.5}}))
    id = "e"
    cone = { wedge = 0.5 }
    <BLANKLINE>
    [[metrics]]
    name = "m"
    range = [0, 1]
    <BLANKLINE>
    """
    sections = {name: value for name, value in declaration.items() if _is_tables(value)}
    lines = [_line(name, value) for name, value in _known(declaration) if name not in sections]
    for name, tables in sections.items():
        for table in tables:
            lines += ["", f"[[{_key(name)}]]", *(_line(entry, value) for entry, value in _known(table))]
    return "\n".join([*lines, ""])


def _known(table: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """Entries that have a value; for one that has none, its default counts."""
    return [(name, value) for name, value in table.items() if value is not None]


def _is_tables(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(entry, dict) for entry in value)


def _line(name: str, value: Any) -> str:
    return f"{_key(name)} = {_value(value)}"


def _key(name: str) -> str:
    return name if _BARE.fullmatch(name) else _value(name)


def _value(value: Any) -> str:
    """A value in one line. Texts, numbers and booleans are written as in JSON, but for one character."""
    if isinstance(value, dict):
        return f"{{ {', '.join(_line(name, entry) for name, entry in _known(value))} }}" if value else "{}"
    if isinstance(value, list):
        return f"[{', '.join(_value(entry) for entry in value)}]"
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
