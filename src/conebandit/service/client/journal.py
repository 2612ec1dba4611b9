"""Files of JSON lines that several processes append to, and that a crash may leave with half a line."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from hashlib import blake2b
from pathlib import Path
from typing import Any

if sys.platform != "win32":
    import fcntl

_CHECK = b',"check":"'


def sealed(table: Mapping[str, Any]) -> bytes:
    r"""A table as a line, which ends with a checksum of what is before it.

    Examples
    --------
    >>> sealed({"a": 1})
    b'{"a":1,"check":"47aeea40da335f29"}\n'
    """
    text = json.dumps(table, separators=(",", ":"), allow_nan=False).encode()[:-1]
    return text + _CHECK + _check(text) + b'"}\n'


def unsealed(line: bytes) -> dict[str, Any] | None:
    """The table of a line; None if it is not as it was written.

    Examples
    --------
    >>> unsealed(sealed({"a": 1}))
    {'a': 1}
    >>> unsealed(sealed({"a": 1}).replace(b"1", b"2", 1)) is None
    True
    """
    text, _, rest = line.rpartition(_CHECK)
    if rest.rstrip(b"\n") != _check(text) + b'"}':
        return None
    table: dict[str, Any] = json.loads(text + b"}")
    return table


def _check(text: bytes) -> bytes:
    return blake2b(text, digest_size=8).hexdigest().encode()


def size(path: Path) -> int:
    """Of a file in bytes; 0 if there is none."""
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def lines(path: Path) -> Iterator[bytes]:
    """The lines of a file, if there is one, up to the last that is complete."""
    with suppress(FileNotFoundError), path.open("rb") as file:
        yield from (line for line in file if line.endswith(b"\n"))


def append(path: Path, tables: Iterable[Mapping[str, Any]]) -> int:
    """Write lines at the end of a file; the file as a descriptor, to be synchronised and closed.

    Whoever calls holds the lock of the file. A line that its writer did not get to the end of is ended first. If the
    disk is full, half a line is taken back; not whole lines, which somebody may have read.
    """
    text = b"".join(map(sealed, tables))
    descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o600)
    end, written = os.fstat(descriptor).st_size, 0
    try:
        if end and os.pread(descriptor, 1, end - 1) != b"\n":
            text = b"\n" + text
        while written < len(text):
            written += os.write(descriptor, text[written:])
    except BaseException:
        os.ftruncate(descriptor, end + text.rfind(b"\n", 0, written) + 1)
        os.close(descriptor)
        raise
    if not end:
        sync_folder(path)  # it may be new
    return descriptor


def replace(path: Path, content: bytes) -> None:
    """Let a file have another content; a crash leaves the one or the other."""
    new = path.with_name(path.name + ".new")
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with open(descriptor, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(descriptor)
    new.replace(path)
    sync_folder(path)


def sync_folder(path: Path) -> None:
    """Have the name of a file outlive a loss of power."""
    synchronise(os.open(path.parent, os.O_RDONLY))


def synchronise(descriptor: int) -> None:
    """Wait until a file is on the disk, and close it."""
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def locked(path: Path, *, wait: bool = True) -> Iterator[bool]:
    """Hold a lock that processes and threads share; if it is not to be waited for, whether it was free."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            yield False
            return
        try:
            yield True
        finally:
            fcntl.flock(descriptor, fcntl.LOCK_UN)  # closing is not enough: a fork may have a copy
    finally:
        os.close(descriptor)
