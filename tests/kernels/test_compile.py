"""Kernels compile with or without a place to keep the machine code."""

import numba
import pytest

from conebandit.kernels.compile import compiled


def test_a_kernel_is_cached_where_possible():
    @compiled
    def double(x):
        return 2 * x

    assert double(4) == 8


def test_without_a_writable_folder_the_kernel_still_works(monkeypatch):
    real = numba.njit

    def njit(**options):
        if options.get("cache"):
            raise RuntimeError("cannot cache function: no locator available")
        return real(**options)

    monkeypatch.setattr(numba, "njit", njit)

    @compiled
    def triple(x):
        return 3 * x

    assert triple(4) == 12


def test_bad_kernels_are_still_reported():
    @compiled
    def broken(x):
        return x.no_such_attribute

    with pytest.raises(numba.TypingError):
        broken(1)
