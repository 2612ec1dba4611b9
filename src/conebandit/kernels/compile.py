"""How kernels are compiled, and kept on disk. Rules for kernels that compile fast are in CONTRIBUTING.md."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from hashlib import blake2b
from pathlib import Path
from typing import Any, TypeVar, cast

import numba
from numba.core import event
from numba.core.cpu import CPUTargetOptions

from conebandit.kernels.parts import call_as_part, for_python
from conebandit.progress import tell_once

if sys.platform != "win32":
    import fcntl

Kernel = TypeVar("Kernel", bound=Callable[..., Any])

NOTICE = "compiling kernels (first use on this machine; `conebandit warm` does all of it at once) ..."

_folders: set[str] = set()  # where the machine code of kernels is kept

# The option is private to Numba, so a version without it must do as well: kernels are then slower, never different.
_UNCOUNTED = {"_nrt": False} if hasattr(CPUTargetOptions, "_nrt") else {}


def compiled(function: Kernel) -> Kernel:
    """Compile a kernel, keeping the machine code on disk where a writable folder is found.

    Numba refuses to decorate a function with ``cache=True`` when neither the package folder nor the user's cache
    folder can be written (a read-only container, say); then the kernel is compiled anew in each process.
    """
    return _compiled(function)


def in_place(function: Kernel) -> Kernel:
    """Compile a kernel that works on the arrays it is given and makes none; one that allocates does not compile.

    Without Numba's counting of references to arrays, which is atomic and which every call of a kernel pays for, calls
    from Python are faster, and calls from other kernels cost next to nothing.
    """
    return _compiled(function, **_UNCOUNTED)


def inlined(function: Kernel) -> Kernel:
    """Compile a function into each of its callers; it may then take other kernels as arguments."""
    return cast(Kernel, numba.njit(nogil=True, error_model="numpy", inline="always")(function))


def _compiled(function: Kernel, **options: Any) -> Kernel:
    options = {"nogil": True, "error_model": "numpy", **options}
    try:
        kernel = numba.njit(cache=True, **for_python(), **options)(function)
    except RuntimeError:
        kernel = numba.njit(**for_python(), **options)(function)
    call_as_part(kernel, function, options)
    file = getattr(getattr(kernel, "_cache", None), "_cache_file", None)
    if file is not None:  # private to Numba as well
        _folders.add(str(file._cache_path))
        _stamp(file)
        _take_turns(file)
    return cast(Kernel, kernel)


def kept_in() -> Path | None:
    """The folder in which machine code is kept, if there is one; it may be spread over folders in it."""
    return Path(os.path.commonpath(_folders)) if _folders else None


class Compiling(event.Listener):
    """What happens around compiling, of which Numba tells: a line on the terminal, and less work on the side.

    Attributes
    ----------
    kernels
        Names of the kernels that were compiled for Python to call, in this process; none of those found on disk.
    """

    def __init__(self) -> None:
        self.kernels: list[str] = []
        self._open = 0  # kernels that are being compiled: one for Python, and parts of it
        self._collects = False

    def on_start(self, event: event.Event) -> None:
        """Numba holds its lock."""
        function = event.data["dispatcher"].py_func
        if not self._open:
            if not function.__module__.startswith(__package__):
                return  # somebody else's
            self.kernels.append(f"{function.__module__}.{function.__name__}")
            tell_once(NOTICE)
            # Compiling makes many objects and drops few: to look for garbage again and again is of no use.
            self._collects = gc.isenabled()
            gc.disable()
        self._open += 1

    def on_end(self, event: event.Event) -> None:
        """Also after an error."""
        if self._open:
            self._open -= 1
            if not self._open and self._collects:
                gc.enable()


def _stamp(file: Any) -> None:
    """Let machine code on disk count as stale when any kernel has changed, not only the file that it is from.

    What a kernel calls in other files is compiled into it, and so are constants that it imports.
    """
    if hasattr(file, "_source_stamp"):
        file._source_stamp = (file._source_stamp, _sources())


@cache
def _sources() -> str:
    """A digest of everything that may be compiled into a kernel."""
    package, digest = Path(__file__).parents[1], blake2b(digest_size=16)
    for room in ("kernels", "validate"):
        for path in sorted((package / room).rglob("*.py")):
            digest.update(path.relative_to(package).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()


def _take_turns(file: Any) -> None:
    """Let processes read and write the machine code of a kernel one after the other.

    Numba reads an index, writes it with the name of a new file, and then that file, without a lock. Of two processes
    that start together (workers of a server, of a study, of the tests) one may therefore get what the other compiled
    for other types, or what is left of an older version.
    """
    save, load, folder = file.save, file.load, Path(file._cache_path)

    def save_alone(key: Any, data: Any) -> None:
        with _lock(folder):
            save(key, data)

    def load_alone(key: Any) -> Any:
        with _lock(folder):
            return load(key)

    file.save, file.load = save_alone, load_alone


def _lock(folder: Path) -> AbstractContextManager[Any]:
    """A lock that all processes share, held until closed, by the end of the process at the latest."""
    if sys.platform == "win32":
        return nullcontext()
    try:
        file = (folder / "conebandit.lock").open("w")
        fcntl.flock(file, fcntl.LOCK_EX)
    except OSError:  # the folder is gone, or cannot be written or locked: as safe as Numba leaves it
        return nullcontext()
    return file


compiling = Compiling()
event.register("numba:compile", compiling)
