"""The README says what was measured, word for word."""

import importlib.util
import json
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


def writer():
    """The script that writes measured figures into the pages."""
    spec = importlib.util.spec_from_file_location("readme", ROOT / "benchmarks/readme.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_pages_say_what_was_measured():
    script = writer()
    for page, written in script.PAGES.items():
        assert f"{script.START}\n{written()}\n{script.END}" in (ROOT / page).read_text(), page


@pytest.mark.parametrize("name", ["geometry", "speed"])
def test_what_was_wanted_was_reached(name):
    rows = json.loads((ROOT / f"benchmarks/results/{name}.json").read_text())["rows"]
    assert all(row["reached"] for row in rows if row.get("wanted"))


@pytest.mark.parametrize("page", sorted(p.relative_to(ROOT) for p in [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]))
def test_links_lead_somewhere(page):
    text = (ROOT / page).read_text()
    for target in [part.split(")")[0] for part in text.split("](")[1:]]:
        if not target.startswith(("http", "#")):
            assert (ROOT / page).parent.joinpath(target.split("#")[0]).exists(), f"{page}: {target}"
