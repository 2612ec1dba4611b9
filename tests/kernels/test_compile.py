"""Kernels compile with or without a place to keep the machine code."""

import shutil
import sys
import time
from concurrent.futures import ThreadPoolExecutor

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


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no lock for a folder")
def test_machine_code_written_at_the_same_time_is_not_mixed_up(monkeypatch, tmp_path):
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path))

    @compiled
    def same(x):
        return x

    file = same._cache._cache_file
    read = file._load_index

    def slowly():
        index = read()
        time.sleep(0.05)  # long enough for others to read the same index, if they may
        return index

    monkeypatch.setattr(file, "_load_index", slowly)
    with ThreadPoolExecutor() as pool:
        list(pool.map(file.save, range(5), "abcde"))
    assert [file.load(key) for key in range(5)] == list("abcde")


def test_a_folder_that_was_removed_meanwhile_does_no_harm(monkeypatch, tmp_path):
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path / "kept"))

    @compiled
    def negative(x):
        return -x

    shutil.rmtree(tmp_path / "kept")
    assert negative(4) == -4
    assert negative.stats.cache_misses


def test_bad_kernels_are_still_reported():
    @compiled
    def broken(x):
        return x.no_such_attribute

    with pytest.raises(numba.TypingError):
        broken(1)
