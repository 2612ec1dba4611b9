"""Pages say what was measured, word for word; links lead somewhere; the plan of the house is the house."""

import importlib.util
import json
import re
from pathlib import Path

import pytest
import typer

from conebandit.cli import app

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


PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_every_block_of_python_runs(page):
    """Blocks without prompts would not be run with the tests."""
    for block in re.findall(r"^```py(?:thon)?\n(.*?)^```", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL):
        assert block.startswith(">>> "), block


def parameters(command, name="conebandit"):
    """Every argument and option of a command and of those below it."""
    yield from ((name, parameter) for parameter in command.params)
    for below, each in getattr(command, "commands", {}).items():
        yield from parameters(each, f"{name} {below}")


def test_every_command_line_option_is_explained():
    page = (ROOT / "docs/reference/command-line.md").read_text()
    found = list(parameters(typer.main.get_command(app)))
    assert len(found) > 40
    for name, parameter in found:
        assert parameter.help, f"{name}: {parameter.opts[0]} has no help"
        assert f"\n## {name}\n" in page


PACKAGE = ROOT / "src" / "conebandit"
PLAN = (ROOT / "docs" / "architecture.md").read_text()


def test_every_room_is_in_the_plan():
    rooms = {path.parent.relative_to(PACKAGE).as_posix() + "/" for path in PACKAGE.rglob("__init__.py")} - {"./"}
    files = {path.name for path in PACKAGE.glob("*.py") if not path.name.startswith("_")}
    for room in rooms | files:
        assert f"`{room}`" in PLAN or f"`{room.removeprefix('service/http/')}`" in PLAN, f"{room} is not in the plan"


def test_every_file_that_the_plan_names_is_there():
    known = {path.relative_to(PACKAGE).as_posix() for path in PACKAGE.rglob("*.py")}
    names = {path.rpartition("/")[2] for path in known}
    for named in re.findall(r"`([a-z_/]+\.py)`", PLAN):
        named_here = named.removeprefix("conebandit/")
        found = any(path.endswith(named_here) for path in known) if "/" in named_here else named_here in names
        assert found or (ROOT / named).exists(), f"the plan names {named}, which is not there"
