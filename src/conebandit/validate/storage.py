"""Saving a policy: its arrays and a header in one file, without pickle."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

FORMAT = 1
LEARNER = "Learner"  # the kind of a file that holds a Learner, which is more than a policy

Arrays = dict[str, NDArray[Any]]


class PolicyFileError(ValueError):
    """A file that is not a saved policy, is damaged, or was written by a newer version.

    Examples
    --------
    >>> import tempfile, pathlib, conebandit as cb
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder) / "policy.npz"
    ...     _ = path.write_bytes(b"no policy")
    ...     try:
    ...         cb.load_policy(path)
    ...     except cb.PolicyFileError as error:
    ...         print("is not a saved conebandit policy" in str(error))
    True
    """


def write(path: str | os.PathLike[str], kind: str, options: dict[str, Any], arrays: Arrays) -> None:
    """Write a policy; the file appears complete or not at all."""
    target = Path(path)
    if target.is_dir():
        raise IsADirectoryError(f"{os.fspath(path)!r} is a folder; path must be that of a file.")
    header = {"format": FORMAT, "kind": kind, "options": options}
    text = np.frombuffer(json.dumps(header, sort_keys=True).encode(), dtype=np.uint8)
    part = target.with_name(target.name + ".part")
    if not target.parent.is_dir():
        raise FileNotFoundError(f"there is no folder {os.fspath(target.parent)!r}; path must be that of a file in one.")
    with part.open("wb") as file:
        np.savez(file, allow_pickle=False, header=text, **arrays)
        file.flush()
        os.fsync(file.fileno())
    part.replace(target)


def require_range(name: str, indices: NDArray[Any], least: int, end: int) -> None:
    """Raise a ``ValueError`` if an index is not from ``least`` to ``end - 1``: compiled code would read elsewhere."""
    if indices.size and not (indices.min() >= least and indices.max() < end):
        raise ValueError(f"array {name!r} holds numbers that are not from {least} to {end - 1}")


def require_rows(name: str, array: NDArray[Any], rows: int, least: int) -> None:
    """Raise a ``ValueError`` if the number of rows is not ``rows``, or is below ``least``."""
    if len(array) != rows or rows < least:
        raise ValueError(f"array {name!r} has {len(array)} rows where {max(rows, least)} are needed")


def read(path: str | os.PathLike[str]) -> tuple[str, dict[str, Any], Arrays]:
    """Kind, options and arrays of a saved policy; every byte is checked against the checksums in the file."""
    try:
        with Path(path).open("rb") as opened, np.load(opened, allow_pickle=False) as file:
            header = json.loads(bytes(file["header"]))
            arrays = {name: file[name] for name in file.files if name != "header"}
        strange = [name for name, array in arrays.items() if not isinstance(array, np.ndarray)]
        if strange:
            raise ValueError(f"{strange[0]!r} is not an array")
        kind, options, version = header["kind"], header["options"], header["format"]
    except FileNotFoundError:
        raise
    except Exception as error:  # whatever wrong bytes make zipfile, zlib, NumPy, tokenize and json raise
        raise PolicyFileError(
            f"{os.fspath(path)!r} is not a saved conebandit policy, or it is damaged ({error})."
        ) from None
    if not isinstance(kind, str) or not isinstance(options, dict):
        raise PolicyFileError(
            f"{os.fspath(path)!r} is not a saved conebandit policy, or it is damaged (its header is not valid)."
        )
    if version != FORMAT:
        raise PolicyFileError(
            f"{os.fspath(path)!r} has format {version!r}; this version of conebandit reads format {FORMAT}."
        )
    return kind, options, arrays
