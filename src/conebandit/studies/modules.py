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
from collections.abc import Iterable, Mapping, Sequence
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType

from conebandit.studies.siblings import OURS, with_siblings

_read: dict[str, tuple[Path, str]] = {}  # modules that were imported here: their file, and its digest at that moment
_needed: dict[str, tuple[str, ...]] = {}  # those that a study has named, each with what it imports of them
_reading = threading.RLock()  # runs in threads import as well


def digest(file: Path) -> str:
    """A fingerprint of a file."""
    return hashlib.sha256(file.read_bytes()).hexdigest()


def read_module(name: str, folders: Sequence[str] = ()) -> ModuleType:
    """A module as it is in its file now; modules are also looked for in these folders, and those come first.

    What is found in one of the folders is imported again if its file, or that of a module there that it imports, has
    changed since, or if the one in memory came from elsewhere. Modules that are installed are left as they are.

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
        found = _in_folders(name, folders)
        if found is None:
            return importlib.import_module(name)
        _forget_what_changed(name, found)
        if name in _needed and name in sys.modules:
            return sys.modules[name]
        files = with_siblings(name, folders)
        _forget_what_nobody_knows(name, files, folders)
        before = set(sys.modules)
        module = importlib.import_module(name)
        _remember({*sys.modules} - before, files, folders)
        _needed[name] = tuple(each for each in files if each in _read)
        return module


def _in_folders(name: str, folders: Sequence[str]) -> ModuleSpec | None:
    """Where the package or module that a name begins with is found in the folders, if it is, and is not this one."""
    first = name.partition(".")[0]
    return None if first == OURS else PathFinder.find_spec(first, list(folders))


def _forget_what_changed(name: str, found: ModuleSpec) -> None:
    """Drop modules that are to be imported again, if one has changed or is that of another study."""
    first = name.partition(".")[0]
    known = sys.modules.get(first)
    if any(not file.is_file() or digest(file) != seen for file, seen in _read.values()) or (
        first in _read and known is not None and known.__spec__ is not None and known.__spec__.origin != found.origin
    ):
        _forget_all()


def _forget_what_nobody_knows(name: str, files: Mapping[str, Path], folders: Sequence[str]) -> None:
    """Drop what somebody else has imported: nobody knows what its file was like. Of what is beside it, too."""
    if any(each in _read and _read[each][0] != Path(os.path.abspath(file)) for each, file in files.items()):
        _forget_all()  # one beside it has the name of one of another study
    beside = [each for each in files if each not in _read and _within(_place(each), folders)]
    for first in [*beside, *([] if name in _read else [name])]:
        _drop([each for each in sys.modules if f"{each}.".startswith(f"{first}.")])


def _forget_all() -> None:
    """Drop all that were read here, since one may have imported another."""
    _drop(_read)
    _read.clear()
    _needed.clear()


def _drop(names: Iterable[str]) -> None:
    for name in names:
        sys.modules.pop(name, None)


def _remember(names: Iterable[str], files: Mapping[str, Path], folders: Sequence[str]) -> None:
    """Note what the files of modules are like: those imported from the folders just now, and those yet to come."""
    later = {name: Path(os.path.abspath(file)) for name, file in files.items() if name not in sys.modules}
    for name, path in [*((name, _place(name)) for name in (*names, *files)), *later.items()]:
        if name not in _read and name.partition(".")[0] != OURS and path.is_file() and _within(path, folders):
            _read[name] = path, digest(path)


def _place(name: str) -> Path:
    """The file of a module in memory."""
    return Path(os.path.abspath(getattr(sys.modules.get(name), "__file__", None) or ""))


def _within(path: Path, folders: Sequence[str]) -> bool:
    """Whether a file is in one of the folders, and is not installed there."""
    roots = [os.path.abspath(folder) for folder in folders]  # links are not followed: what they lead to may be anywhere
    within = [path.relative_to(root).parts for root in roots if path.is_relative_to(root)]
    return any("site-packages" not in parts for parts in within)


def files_of(name: str) -> dict[str, str]:
    """Digests of the file of a module of the user's own and of those beside it that it imports, as they were read."""
    return {each: _read[each][1] for each in _needed.get(name, ())}


def marks(paths: Iterable[str]) -> dict[str, str]:
    """Short digests of the user's own modules that import paths name, each with what it imports; as they were read.

    Examples
    --------
    >>> marks(["ConeTree", "conebandit.environments:paper"])
    {}
    """
    names = dict.fromkeys(path.partition(":")[0] for path in paths if ":" in path)
    return {name: _together(files_of(name))[:12] for name in names if _needed.get(name)}


def _together(digests: Mapping[str, str]) -> str:
    """One digest of several files; of one, its own."""
    if len(digests) == 1:
        return next(iter(digests.values()))
    lines = "\n".join(f"{name} {seen}" for name, seen in sorted(digests.items()))
    return hashlib.sha256(lines.encode()).hexdigest()
