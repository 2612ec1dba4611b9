"""An OpenAPI schema in words: what an entry may be, and an example of it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

MAX_DEPTH = 3  # of entries within entries
# Limits of a value, and how they are said.
LIMITS = {
    "minimum": "at least",
    "maximum": "at most",
    "exclusiveMinimum": "more than",
    "exclusiveMaximum": "less than",
    "minItems": "entries, at least",
    "maxItems": "entries, at most",
    "pattern": "like",
    "default": "default",
}

Schema = Mapping[str, Any]


class Entry(NamedTuple):
    """An entry of a body or of a reply; ``decisions[].id`` is one of each decision in a list."""

    name: str
    type: str
    needed: bool
    words: str


class Schemas:
    """The schemas that others refer to.

    Parameters
    ----------
    components
        By name.

    Examples
    --------
    >>> schemas = Schemas({"Pair": {"title": "Pair", "type": "object", "properties": {"id": {"type": "string"}}}})
    >>> pairs = {"type": "array", "items": {"$ref": "#/components/schemas/Pair"}}
    >>> schemas.type_of(pairs), schemas.example(pairs)
    ('list of Pair', [{'id': 'text'}])
    >>> [entry.name for entry in schemas.entries({"properties": {"pairs": pairs}})]
    ['pairs', 'pairs[].id']
    """

    def __init__(self, components: Mapping[str, Schema]) -> None:
        self._components = components

    def resolve(self, schema: Schema) -> Schema:
        """What a schema refers to; itself, if it does not refer to another one."""
        reference = schema.get("$ref")
        return schema if reference is None else self._components[reference.rpartition("/")[2]]

    def forms(self, schema: Schema) -> list[Schema]:
        """The forms of which a value has one; null is none."""
        schema = self.resolve(schema)
        parts = schema.get("anyOf") or schema.get("oneOf")
        if parts is None:
            return [schema]
        return [form for part in parts for form in self.forms(part) if form.get("type") != "null"]

    def type_of(self, schema: Schema) -> str:
        """In words."""
        return " or ".join(dict.fromkeys(map(self._type_of_form, self.forms(schema)))) or "anything"

    def _type_of_form(self, form: Schema) -> str:
        if "enum" in form or "const" in form:
            return " or ".join(json.dumps(value) for value in form.get("enum", [form.get("const")]))
        if form.get("type") == "array":
            return f"list of {self.type_of(form.get('items', {}))}"
        if "properties" in form:
            return str(form.get("title", "object"))
        return str(form.get("type", "anything"))

    def entries(self, schema: Schema, before: str = "", depth: int = 0) -> Iterator[Entry]:
        """The entries of an object, each followed by those within it."""
        for form in self.forms(schema):
            for name, entry in form.get("properties", {}).items():
                where = f"{before}{name}"
                yield Entry(where, self.type_of(entry), name in form.get("required", ()), self.words(entry))
                if depth < MAX_DEPTH:
                    yield from self._within(entry, where, depth + 1)

    def _within(self, schema: Schema, where: str, depth: int) -> Iterator[Entry]:
        for form in self.forms(schema):
            if form.get("type") == "array":
                yield from self._within(form.get("items", {}), f"{where}[]", depth)
            elif "properties" in form:
                yield from self.entries(form, f"{where}.", depth)

    def words(self, schema: Schema) -> str:
        """What is said about a value, and its limits."""
        own = [schema, *self.forms(schema)]
        said = next((part["description"] for part in own if "description" in part), "")
        limits = {f"{words} {part[key]}" for part in own for key, words in LIMITS.items() if key in part}
        return "; ".join([*([said.rstrip(".")] if said else []), *sorted(limits)])

    def example(self, schema: Schema, depth: int = 0) -> Any:
        """A value that fits: the first example that is given, or one made from the types."""
        form = next(iter(self.forms(schema)), {})
        given = schema.get("examples") or form.get("examples") or form.get("enum")
        if given:
            return given[0]
        if depth > MAX_DEPTH:
            return None
        if form.get("type") == "array":
            return [self.example(form.get("items", {}), depth + 1)]
        if "properties" in form:
            return {name: self.example(entry, depth + 1) for name, entry in form["properties"].items()}
        return {"string": "text", "integer": 1, "number": 1.0, "boolean": True, "object": {}}.get(form.get("type", ""))
