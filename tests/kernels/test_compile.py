"""Kernels compile with or without a place to keep the machine code, and never run code that is out of date."""

import os
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numba
import pytest

import conebandit
from conebandit.kernels.compile import compiled

SOURCE = Path(conebandit.__file__).parent


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


def run_python(code, path, cache):
    """What a new process prints that finds the package at ``path`` and machine code in ``cache``."""
    environment = os.environ | {"PYTHONPATH": str(path), "NUMBA_CACHE_DIR": str(cache), "NUMBA_DEBUG_CACHE": "1"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("policy", ["ParetoUCB1", "BinnedParetoUCB"])
def test_the_shared_loop_is_found_on_disk_by_later_processes(policy, tmp_path):
    code = f"""
import numpy as np, conebandit as cb
policy = cb.{policy}(2, cb.Cone.orthant(2), 1)
print(policy.run_chunk(np.full((9, 1), 0.5), np.ones((9, 2, 2)), np.arange(9))[0])
"""
    first, second = (run_python(code, SOURCE.parent, tmp_path) for _ in range(2))
    assert "run-" in first
    assert "data saved" in first
    assert "data loaded" in second
    assert "data saved" not in second
    assert first.splitlines()[-1] == second.splitlines()[-1]


def test_a_change_of_a_kernel_reaches_its_callers_in_other_files(tmp_path):
    package = tmp_path / "conebandit"
    for room in ("kernels", "validate"):
        shutil.copytree(SOURCE / room, package / room, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(SOURCE / "progress.py", package)
    (package / "__init__.py").touch()
    code = """
import numpy as np
from conebandit.kernels.oracle import draw_many
print(draw_many(np.uint64(1), np.arange(6, dtype=np.uint64), np.ones((6, 4), dtype=bool))[0])
"""
    before = run_python(code, tmp_path, tmp_path / "cache").splitlines()[-1]
    assert run_python(code, tmp_path, tmp_path / "cache").splitlines()[-1] == before != "[3 3 3 3 3 3]"
    callee = package / "kernels" / "rng.py"
    callee.write_text(callee.read_text().replace("return float(bits >> np.uint64(11)) * 2.0**-53", "return 0.99"))
    assert run_python(code, tmp_path, tmp_path / "cache").splitlines()[-1] == "[3 3 3 3 3 3]"


def test_a_version_of_numba_without_stamps_will_do(monkeypatch, tmp_path):
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path))
    init = numba.core.caching.IndexDataCacheFile.__init__

    def without_stamp(self, *args, **options):
        init(self, *args, **options)
        del self._source_stamp

    monkeypatch.setattr(numba.core.caching.IndexDataCacheFile, "__init__", without_stamp)

    @compiled
    def square(x):
        return x * x

    assert not hasattr(square._cache._cache_file, "_source_stamp")
