"""Modules of the user's own: what runs is what is in the file now, also where an older form was imported before.

Python imports a module once in a process. But notebooks, workers that joblib keeps, and those of a cluster live on
while a file is edited, and two studies may each have a ``mine.py`` beside them.
"""

from __future__ import annotations

import hashlib
import importlib
import os
import sys
import threading
from collections.abc import Iterable, Sequence
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType

OURS = __name__.partition(".")[0]
_read: dict[str, tuple[Path, str]] = {}  # modules that were imported here: their file, and its digest at that moment
_reading = threading.RLock()  # runs in threads import as well


def digest(file: Path) -> str:
    """A fingerprint of a file."""
    return hashlib.sha256(file.read_bytes()).hexdigest()


def read_module(name: str, folders: Sequence[str] = ()) -> ModuleType:
    """A module as it is in its file now; modules are also looked for in these folders, and those come first.

    What is found in one of the folders is imported again if its file, or that of a module there that was imported with
    it, has changed since, or if the one in memory came from elsewhere. Modules that are installed are left as they are.

    Examples
    --------
    >>> import tempfile
    >>> folder = tempfile.mkdtemp()
    >>> for text in ("number = 1", "number = 22"):
    ...     _ = Path(folder, "of_my_own.py").write_text(text)
    ...     print(read_module("of_my_own", [folder]).number)
    1
    22
    """
    with _reading:
        sys.path[:] = [*folders, *(entry for entry in sys.path if entry not in folders)]
        importlib.invalidate_caches()
        if found := _in_folders(name, folders):
            _forget_what_changed(name, found)
        before = set(sys.modules)
        module = importlib.import_module(name)
        if found:
            _remember({*sys.modules} - before, folders)
        return module


def _in_folders(name: str, folders: Sequence[str]) -> ModuleSpec | None:
    """Where the package or module that a name begins with is found in the folders, if it is, and is not this one."""
    first = name.partition(".")[0]
    return None if first == OURS else PathFinder.find_spec(first, list(folders))


def _forget_what_changed(name: str, found: ModuleSpec) -> None:
    """Drop modules that are to be imported again; all that were read here, since one may have imported another."""
    first = name.partition(".")[0]
    known = sys.modules.get(first)
    if any(not file.is_file() or digest(file) != seen for file, seen in _read.values()) or (
        first in _read and known is not None and known.__spec__ is not None and known.__spec__.origin != found.origin
    ):
        _drop(_read)
        _read.clear()
    if name not in _read:  # somebody else has imported it: nobody knows what its file was like
        _drop([each for each in sys.modules if f"{each}.".startswith(f"{name}.")])


def _drop(names: Iterable[str]) -> None:
    for name in names:
        sys.modules.pop(name, None)


def _remember(names: Iterable[str], folders: Sequence[str]) -> None:
    """Note what the files of modules are like that were imported from the folders just now."""
    roots = [os.path.abspath(folder) for folder in folders]  # links are not followed: what they lead to may be anywhere
    for name in names:
        path = Path(os.path.abspath(getattr(sys.modules.get(name), "__file__", None) or ""))
        within = [path.relative_to(root).parts for root in roots if path.is_relative_to(root)]
        if name.partition(".")[0] != OURS and path.is_file() and any("site-packages" not in parts for parts in within):
            _read[name] = path, digest(path)


def marks(paths: Iterable[str]) -> dict[str, str]:
    """Beginnings of the digests of the user's own modules that import paths name, as they were when they were read.

    Examples
    --------
    >>> marks(["ConeTree", "conebandit.environments:paper"])
    {}
    """
    names = dict.fromkeys(path.partition(":")[0] for path in paths if ":" in path)
    return {name: _read[name][1][:12] for name in names if name in _read}
