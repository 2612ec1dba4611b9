"""How kernels are compiled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba

Kernel = TypeVar("Kernel", bound=Callable[..., Any])


def compiled(function: Kernel) -> Kernel:
    """Compile a kernel, keeping the machine code on disk where a writable folder is found.

    Numba refuses to decorate a function with ``cache=True`` when neither the package folder nor the user's cache
    folder can be written (a read-only container, say); then the kernel is compiled anew in each process.
    """
    try:
        kernel = numba.njit(cache=True, nogil=True, error_model="numpy")(function)
    except RuntimeError:
        kernel = numba.njit(nogil=True, error_model="numpy")(function)
    return cast(Kernel, kernel)
