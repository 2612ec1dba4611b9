"""The site builds without a warning or a network, loads nothing from elsewhere, and explains all that is public."""

import importlib
import inspect
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import conebandit

pytest.importorskip("mkdocs", reason="pip install 'conebandit[docs]'")

ROOT = Path(__file__).parents[1]
LISTED = (
    "conebandit",
    "conebandit.environments",
    "conebandit.environments.shift",
    "conebandit.formats",
    "conebandit.plots",
)
UNLISTED = ("conebandit.environments.noise", "conebandit.gym")  # what they define and do not hide
NOT_EXPLAINED = {"conebandit.__version__", "conebandit.environments"}  # a text, and a module whose names are explained


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The site, built as by ``make docs``, where nothing beyond this machine can be reached."""
    folder = tmp_path_factory.mktemp("site")
    nowhere = {"http_proxy": "http://127.0.0.1:9", "https_proxy": "http://127.0.0.1:9", "NO_MKDOCS_2_WARNING": "1"}
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    done = subprocess.run(
        command, cwd=ROOT, env=os.environ | nowhere, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "WARNING" not in done.stderr
    return folder


def anchors(folder):
    return {
        anchor for page in folder.rglob("*.html") for anchor in re.findall(r'id="([^"]+)"', page.read_text("utf-8"))
    }


def public_names():
    for module in LISTED:
        yield from (f"{module}.{name}" for name in importlib.import_module(module).__all__)
    for module in UNLISTED:
        for name, thing in vars(importlib.import_module(module)).items():
            if getattr(thing, "__module__", None) == module and not name.startswith("_"):
                yield f"{module}.{name}"


def test_every_public_name_is_in_the_reference(site):
    found = anchors(site)
    missing = {
        name for name in public_names() if not {name, f"{name}.{name.rpartition('.')[2]}"} & found
    } - NOT_EXPLAINED
    assert not missing, f"add to a page in docs/reference: {', '.join(sorted(missing))}"


def test_every_public_method_is_in_the_reference(site):
    """Those that a class defines itself; what it inherits may be explained where it comes from."""
    found = anchors(site)
    for name in conebandit.__all__:
        thing = getattr(conebandit, name)
        for member, value in vars(thing).items() if inspect.isclass(thing) else ():
            method = isinstance(value, classmethod | staticmethod | property) or inspect.isfunction(value)
            if method and not member.startswith("_"):
                assert f"conebandit.{name}.{member}" in found


def test_parameters_have_their_own_types(site):
    """Where several share a description, too, as ``n_arms, cone, context_dim`` of the default policy do."""
    page = (site / "reference/policies.html").read_text("utf-8")
    assert re.search(r"<b><code>cone</code></b>\s*\(<code><a[^>]*>Cone</a>", page)
    assert not re.search(r"<b><code>cone</code></b>\s*\(<code><span[^>]*>int", page)


def test_no_cross_reference_is_left_as_it_was_written(site):
    for page in (site / "reference").glob("*.html"):
        assert not re.search(r":(class|func|meth|mod|data|attr|obj|exc):", page.read_text("utf-8")), page.name


def test_nothing_comes_from_elsewhere(site):
    """Links may lead to other sites; what a page loads (scripts, styles, fonts, pictures) is its own."""
    for page in site.rglob("*.html"):
        text = page.read_text("utf-8")
        loaded = re.findall(r"<(?:script|img|iframe|source)[^>]* src=[\"']?([^\"' >]+)", text)
        loaded += re.findall(r"<link[^>]* href=[\"']?([^\"' >]+)", text)
        assert loaded
        assert not [url for url in loaded if url.startswith(("http:", "https:", "//"))], page
        assert 'class="mermaid"' not in text, f"{page}: the theme would load a script for diagrams from elsewhere"
    for style in site.rglob("*.css"):
        assert not re.search(r"(@import|url\()\s*[\"']?(https?:)?//", style.read_text("utf-8")), style


def test_the_home_page_is_the_readme(site):
    """With links that lead to pages of the site, wherever the file is in the repository."""
    home = (site / "index.html").read_text("utf-8")
    article = home[home.index("<article") :]
    for target in ("figures/choosing-a-cone.png", "tutorials/trial.html", "repository/benchmarks/results/cold.html"):
        assert f'="{target}"' in article
        assert (site / target).is_file()


def test_code_can_be_copied_without_its_answers(site):
    page = (site / "tables.html").read_text("utf-8")
    assert 'class="language-pycon highlight"' in page
    assert "BLANKLINE" not in page
