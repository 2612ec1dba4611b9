"""How kernels are compiled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba
from numba.core.cpu import CPUTargetOptions

Kernel = TypeVar("Kernel", bound=Callable[..., Any])

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


def _compiled(function: Kernel, **options: Any) -> Kernel:
    try:
        kernel = numba.njit(cache=True, nogil=True, error_model="numpy", **options)(function)
    except RuntimeError:
        kernel = numba.njit(nogil=True, error_model="numpy", **options)(function)
    return cast(Kernel, kernel)
