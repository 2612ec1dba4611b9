"""Brings files of the repository that lie outside ``docs`` onto the site, so that links to them lead somewhere.

On the site the README is the home page. Any other file that a page links to becomes a page below ``repository/``:
Markdown as it is, other text as a listing. In the repository, links stay what they are: paths from one file to another.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[2]
HOME = "README.md"
IN_NAVIGATION = (HOME, "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")
LINK = re.compile(r"\]\((?P<target>[^)#\s]+)(?P<anchor>#[^)\s]*)?\)")
SESSION = re.compile(r"^```python\n(?=>>>)", re.MULTILINE)  # a block with prompts and answers
LANGUAGES = {".py": "python", ".js": "javascript", ".json": "json", ".toml": "toml"}


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the README, all that ``docs`` links to elsewhere in the repository, and what that links to."""
    waiting = [*IN_NAVIGATION]
    for page in (ROOT / "docs").rglob("*.md"):
        waiting += linked_from(page.relative_to(ROOT).as_posix())
    seen = set()
    while waiting:
        path = waiting.pop()
        if path not in seen and not path.startswith("docs/"):
            seen.add(path)
            files.append(File.generated(config, site_path(path), content=as_page(path)))
            waiting += linked_from(path)
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Turn links from file to file into links from page to page, and tell code from what it answers.

    Lines that doctests write as ``<BLANKLINE>`` become blank.
    """
    here = page.file.src_uri

    def turned(link: re.Match[str]) -> str:
        path = resolved(link["target"], repository_path(here))
        if path is None:
            return link[0]
        return f"]({posixpath.relpath(site_path(path), posixpath.dirname(here) or '.')}{link['anchor'] or ''})"

    return LINK.sub(turned, SESSION.sub("```pycon\n", markdown)).replace("\n<BLANKLINE>\n", "\n\n")


def site_path(path: str) -> str:
    """Where a file of the repository is on the site."""
    if path == HOME:
        return "index.md"
    if path.startswith("docs/"):
        return path.removeprefix("docs/")
    return f"repository/{path}" if path.endswith(".md") else f"repository/{path}.md"


def repository_path(place: str) -> str:
    """Where a page of the site is in the repository."""
    if place == "index.md":
        return HOME
    if not place.startswith("repository/"):
        return f"docs/{place}"
    path = place.removeprefix("repository/")
    return path if (ROOT / path).exists() else path.removesuffix(".md")


def resolved(target: str, source: str) -> str | None:
    """The file of the repository that a link in a file means; None if there is no such file."""
    path = posixpath.normpath(posixpath.join(posixpath.dirname(source), target))
    return path if (ROOT / path).is_file() else None


def linked_from(path: str) -> list[str]:
    """The files that a page of the repository links to."""
    if not path.endswith(".md"):
        return []
    targets = (link["target"] for link in LINK.finditer((ROOT / path).read_text(encoding="utf-8")))
    return [found for target in targets if (found := resolved(target, path)) is not None]


def as_page(path: str) -> str:
    """The text of a file as Markdown."""
    text = (ROOT / path).read_text(encoding="utf-8")
    if path.endswith(".md"):
        return text
    return f"# {path}\n\n````{LANGUAGES.get(Path(path).suffix, '')}\n{text}````\n"
