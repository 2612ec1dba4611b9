"""The page at ``/docs``: every request with its parameters, body, replies and a form to try it. Nothing is loaded."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator, Mapping
from hashlib import sha256
from html import escape
from typing import Any

from fastapi import FastAPI
from fastapi.responses import HTMLResponse, Response

from conebandit.pages.page import contents, document, folded, heading, paragraph, section, table
from conebandit.service.http.schemas import Schemas

PAGE = "/docs"
JSON = "application/json"
SUBJECTS = ("Decisions and outcomes", "Changing experiments", "Looking at experiments", "Operations")
INTRODUCTION = (
    "Bodies and replies are JSON. As soon as there are API keys, a request needs one, as header X-API-Key or as "
    'Authorization: Bearer. Every refusal is {"error": "..."}. Requests may be sent again with the same ids: nothing '
    "is done twice."
)

STYLE = """
h3 { margin-top: 2.5rem; } code, pre, textarea, input { font: .9rem/1.4 ui-monospace, monospace; }
pre { overflow-x: auto; padding: .6rem; border: 1px solid var(--faint); }
td { white-space: normal; vertical-align: top; }
form { border: 1px solid var(--rule); padding: .8rem; margin: 1rem 0; } [hidden] { display: none; }
label { display: block; margin: .4rem 0; } input, textarea { box-sizing: border-box; width: 100%; padding: .3rem; }
"""

# Forms are shown by the script, so that nobody sees one that does nothing. Answers are shown as text, never as HTML.
SCRIPT = """
const key = document.getElementById("key");
document.getElementById("with-key").hidden = false;
for (const form of document.querySelectorAll("form[data-path]")) {
  form.hidden = false;
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const shown = form.querySelector("pre"), query = new URLSearchParams();
    const asked = { method: form.dataset.method, headers: {} }, body = form.querySelector("textarea");
    let path = form.dataset.path;
    for (const field of form.querySelectorAll("input")) {
      if (field.dataset.in === "path") path = path.replace("{" + field.name + "}", encodeURIComponent(field.value));
      else if (field.value !== "" && field.dataset.in === "header") asked.headers[field.name] = field.value;
      else if (field.value !== "") query.set(field.name, field.value);
    }
    if (key.value) asked.headers["X-API-Key"] = key.value;
    if (body) { asked.headers["Content-Type"] = "application/json"; asked.body = body.value; }
    shown.hidden = false;
    shown.textContent = "...";
    try {
      const reply = await fetch(path + (query.size ? "?" + query : ""), asked);
      const text = await reply.text();
      let pretty = text;
      try { pretty = JSON.stringify(JSON.parse(text), null, 2); } catch { /* not JSON: as it is */ }
      shown.textContent = reply.status + " " + reply.statusText + "\\n" + pretty;
    } catch (error) { shown.textContent = String(error); }
  });
}
"""
_HASH = base64.b64encode(sha256(SCRIPT.encode()).digest()).decode()
# The page can load nothing, run nothing but this script, and be put into no frame.
POLICY = (
    f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{_HASH}'; connect-src 'self'; img-src data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)


def add_reference(app: FastAPI) -> None:
    """Let the application show its requests; the page is made once."""
    page: list[str] = []

    @app.get(PAGE, include_in_schema=False)
    async def show_reference() -> Response:
        if not page:
            page.append(reference_page(app.openapi()))
        return HTMLResponse(page[0], headers={"content-security-policy": POLICY})


def reference_page(schema: Mapping[str, Any]) -> str:
    """The page of an OpenAPI schema.

    Examples
    --------
    >>> ask = {"description": "Is it there?", "responses": {"200": {"description": "It is."}}}
    >>> page = reference_page({"info": {"title": "demo", "version": "1"}, "paths": {"/healthz": {"get": ask}}})
    >>> "<h3>GET /healthz</h3>" in page, "Is it there?" in page
    (True, True)
    """
    schemas = Schemas(schema.get("components", {}).get("schemas", {}))
    by_subject: dict[str, list[tuple[str, str, Any]]] = {subject: [] for subject in SUBJECTS}
    for path, operations in schema["paths"].items():
        for method, operation in operations.items():
            by_subject[_subject(method, path)].append((method, path, operation))
    listed = [(_anchor(m, p), f"{m.upper()} {p}", "") for rows in by_subject.values() for m, p, _ in rows]
    key = '<label id="with-key" hidden>API key <input id="key" type="password" autocomplete="off"></label>'
    parts = [f"<style>{STYLE}</style>", paragraph(INTRODUCTION), key, contents(listed)]
    for subject, rows in by_subject.items():
        if rows:
            parts += [heading(subject), *(_operation(schemas, *row) for row in rows)]
    parts += ['<p>The same for programs: <a href="openapi.json">openapi.json</a></p>', f"<script>{SCRIPT}</script>"]
    info = schema["info"]
    return document(f"{info['title']}: the API", "".join(parts), f"{info['title']} {info['version']}")


def _subject(method: str, path: str) -> str:
    if path.endswith(("/decisions", "/outcomes")):
        return SUBJECTS[0]
    if path.startswith("/experiments"):
        return SUBJECTS[2 if method == "get" else 1]
    return SUBJECTS[3]


def _anchor(method: str, path: str) -> str:
    return re.sub("[^a-z]+", "-", f"{method} {path}".lower()).strip("-")


def _operation(schemas: Schemas, method: str, path: str, operation: Mapping[str, Any]) -> str:
    """A section: what it does, what it takes, what it answers, and a form."""
    parts = [f"<h3>{escape(f'{method.upper()} {path}')}</h3>"]
    parts += [paragraph(text) for text in operation.get("description", "").replace("``", "").split("\n\n") if text]
    if not operation.get("security"):
        parts.append(paragraph("Needs no key."))
    parameters = operation.get("parameters", [])
    rows = [
        (p["name"], p["in"], schemas.type_of(p["schema"]), _yes(p.get("required", False)), schemas.words(p["schema"]))
        for p in parameters
    ]
    parts.append(table([("parameter", "in", "type", "needed", ""), *rows]) if rows else "")
    body = operation.get("requestBody", {}).get("content", {}).get(JSON, {}).get("schema")
    if body is not None:
        parts += ["<p>Body:</p>", *_forms(schemas, body)]
    parts.append(folded("Replies", "".join(_replies(schemas, operation["responses"]))))
    example = None if body is None else _pretty(schemas.example(body))
    parts.append(_form(schemas, method, path, parameters, example))
    return section(_anchor(method, path), "".join(parts))


def _forms(schemas: Schemas, schema: Mapping[str, Any]) -> Iterator[str]:
    """Each form that a value may have: its entries, and an example."""
    for form in schemas.forms(schema):
        if "description" in form:
            yield paragraph(form["description"].replace("``", ""))
        rows = [(e.name, e.type, _yes(e.needed), e.words) for e in schemas.entries(form)]
        if rows:
            yield table([("entry", "type", "needed", ""), *rows])
        yield f"<pre>{escape(_pretty(schemas.example(form)))}</pre>"


def _replies(schemas: Schemas, responses: Mapping[str, Any]) -> Iterator[str]:
    """What a good reply holds, and what the others mean."""
    refusals = []
    for status, response in responses.items():
        schema = response.get("content", {}).get(JSON, {}).get("schema")
        if not status.startswith("2"):
            refusals.append((status, response["description"]))
        elif schema:
            yield paragraph(f"{status}: {schemas.type_of(schema)}")
            yield from _forms(schemas, schema)
    if refusals:
        yield table([("status", "why"), *refusals])


def _form(schemas: Schemas, method: str, path: str, parameters: list[Any], example: str | None) -> str:
    """To try a request; hidden unless the script can send it."""
    fields = []
    for p in parameters:
        given = schemas.example(p["schema"]) if p.get("required") else ""
        name, value = escape(p["name"]), escape(str(given))
        fields.append(f'<label>{name} <input name="{name}" data-in="{escape(p["in"])}" value="{value}"></label>')
    if example is not None:
        fields.append(f'<label>body <textarea rows="{example.count(chr(10)) + 1}">{escape(example)}</textarea></label>')
    return (
        f'<form hidden data-method="{escape(method.upper())}" data-path="{escape(path)}">{"".join(fields)}'
        "<button>Send</button><pre hidden></pre></form>"
    )


def _yes(needed: bool) -> str:
    return "yes" if needed else ""


def _pretty(value: Any) -> str:
    return json.dumps(value, indent=2)
