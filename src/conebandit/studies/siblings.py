"""Which files beside a module of the user's own belong to it, since it imports them."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

OURS = __name__.partition(".")[0]


def with_siblings(name: str, folders: Sequence[str]) -> dict[str, Path]:
    """A module and all that it imports, and what those import, as far as their files are in the folders; by name.

    Read from what the files say, also of imports within functions: what is in memory depends on what else a process
    has done. This package, and modules of Python's own library, are left out.

    Examples
    --------
    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> for name, text in {"mine": "import json, near", "near": "from far import *", "far": "", "other": ""}.items():
    ...     _ = folder.joinpath(f"{name}.py").write_text(text)
    >>> list(with_siblings("mine", [str(folder)]))
    ['mine', 'near', 'far']
    """
    found: dict[str, Path] = {}
    waiting = [name]
    while waiting:
        parts = waiting.pop().split(".")
        for each in (".".join(parts[: i + 1]) for i in range(len(parts))):  # a package is imported before its modules
            file = None if each in found else _file(each, folders)
            if file is not None:
                found[each] = file
                waiting += _imports(each, file)
    return found


def _file(name: str, folders: Sequence[str]) -> Path | None:
    """Where a module is, if it is in one of the folders."""
    parts = name.split(".")
    if not all(parts) or parts[0] in (OURS, *sys.stdlib_module_names):
        return None
    bases = [Path(folder, *parts) for folder in folders]
    files = (file for base in bases for file in (base / "__init__.py", base.with_name(f"{parts[-1]}.py")))
    return next((file for file in files if file.is_file()), None)


def _imports(name: str, file: Path) -> Iterator[str]:
    """Names of what may be modules that a file imports."""
    try:
        tree = ast.parse(file.read_bytes())
    except (OSError, SyntaxError, ValueError):  # whoever imports it hears of that
        return
    package = name.split(".") if file.name == "__init__.py" else name.split(".")[:-1]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            yield from (f"{base}.{alias.name}" for alias in node.names)
