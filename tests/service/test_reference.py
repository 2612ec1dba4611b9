"""The page at /docs shows every request, loads nothing, and can be read without its script."""

import json
import re
import shutil
import subprocess
from html.parser import HTMLParser

import httpx
import pytest

from conebandit.service.http import reference
from conebandit.service.http.schemas import Schemas
from conebandit.service.http.server import serving


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    where = str(tmp_path_factory.mktemp("docs") / "log.db")
    with serving(where) as address, httpx.Client(base_url=address) as client:
        yield client


@pytest.fixture(scope="module")
def page(client):
    reply = client.get("/docs")
    assert reply.status_code == 200
    return reply.text


class Tags(HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.found, self.open, self.text, self.ignored = [], [], "", 0
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))
        if tag not in ("meta", "link", "input"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] not in ("script", "style"):
            self.text += data


def test_nothing_comes_from_elsewhere(client, page):
    for _, attributes in Tags(page).found:
        for name in ("src", "href", "action", "data"):
            assert not re.match(r"(?i)\s*(https?:)?//", attributes.get(name) or ""), attributes
    assert not re.search(r"(?i)@import|url\(", page)
    policy = client.get("/docs").headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "http" not in policy


def test_only_its_own_script_runs(client, page):
    [script] = re.findall(r"<script>(.*?)</script>", page, re.DOTALL)
    assert script == reference.SCRIPT
    assert not re.search(r"<[^>]* on\w+=", page)


def test_every_request_is_there_with_what_it_takes(client, page):
    text, schema = Tags(page).text, client.get("/openapi.json").json()
    for path, operations in schema["paths"].items():
        for method, operation in operations.items():
            assert f"{method.upper()} {path}" in text
            assert operation["description"].split("\n")[0].replace("``", "")[:40] in text
            for parameter in operation.get("parameters", []):
                assert parameter["name"] in text
            for status, reply in operation["responses"].items():
                if not status.startswith("2"):
                    assert reply["description"] in text
    assert "one unit of revenue is worth at most 50 of latency" in text
    assert "decisions[].context" in text
    anchors = {attributes["href"] for tag, attributes in Tags(page).found if tag == "a"} - {"openapi.json"}
    assert anchors == {f"#{attributes['id']}" for tag, attributes in Tags(page).found if tag == "section"}


def test_forms_are_hidden_without_a_script(page):
    forms = [attributes for tag, attributes in Tags(page).found if tag == "form"]
    assert len(forms) > 10
    assert all("hidden" in form for form in forms)


# As much of a browser as the script needs: one form with a field of each kind, which is sent.
BROWSER = """
const field = (name, where, value) => ({ name, value, dataset: { in: where } });
const inputs = [field("experiment", "path", "a b"), field("limit", "query", "5"), field("X-Actor", "header", "dr.lee")];
const shown = {}, form = { dataset: { path: "/experiments/{experiment}/audit", method: "GET" },
  querySelectorAll: () => inputs, querySelector: (tag) => tag === "pre" ? shown : null,
  addEventListener: (_, send) => { form.send = send; } };
globalThis.document = { getElementById: () => ({ value: "cb_key" }), querySelectorAll: () => [form] };
globalThis.fetch = async (path, asked) => {
  console.log(JSON.stringify([path, asked]));
  return { status: 200, statusText: "OK", text: async () => "{}" };
};
"""


@pytest.mark.skipif(shutil.which("node") is None, reason="needs node")
def test_a_form_sends_each_parameter_where_it_belongs():
    script = f"{BROWSER}{reference.SCRIPT}form.send({{ preventDefault() {{}} }});"
    sent = subprocess.run(["node", "-e", script], capture_output=True, text=True, check=True).stdout
    path, asked = json.loads(sent)
    assert path == "/experiments/a%20b/audit?limit=5"
    assert asked["headers"] == {"X-Actor": "dr.lee", "X-API-Key": "cb_key"}


def test_the_pages_of_a_content_delivery_network_are_gone(client):
    assert client.get("/redoc").status_code == 404
    assert client.get("/docs/oauth2-redirect").status_code == 404


def test_what_a_schema_says_is_escaped():
    evil = {
        "description": "<img src=x>",
        "responses": {},
        "parameters": [{"name": '"><b>', "in": "query", "schema": {}}],
    }
    page = reference.reference_page({"info": {"title": "<t>", "version": "1"}, "paths": {"/<p>": {"get": evil}}})
    assert not re.search("<img|<b>|<p>/|<t>", page)


def test_schemas_in_words():
    schemas = Schemas({"Node": {"title": "Node", "properties": {"next": {"$ref": "#/components/schemas/Node"}}}})
    endless = {"$ref": "#/components/schemas/Node"}
    assert [entry.name for entry in schemas.entries(endless)][:2] == ["next", "next.next"]
    nullable = {
        "anyOf": [{"type": "integer", "minimum": 1}, {"type": "null"}],
        "description": "How many.",
        "default": 3,
    }
    assert schemas.type_of(nullable) == "integer"
    assert schemas.words(nullable) == "How many; at least 1; default 3"
    assert schemas.type_of({"enum": ["a", "b"]}) == '"a" or "b"'
    assert schemas.example({"enum": ["a", "b"]}) == "a"
    assert schemas.type_of({}) == "anything"
