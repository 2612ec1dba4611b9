"""Outcomes that could not be delivered, on disk until they are.

A line of the file is an entry, or says which entries are done. Many may add entries; one at a time delivers them, and
it alone takes lines away: all of them when all is done, those that are done when they are most of the file.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from conebandit.service.client import journal
from conebandit.service.client.errors import ClientError
from conebandit.service.stores.records import new_id

MAX_BYTES = 64 * 2**20  # of what waits and what was refused: some 300,000 outcomes
DAMAGED = "the line was torn by a crash before it was acknowledged, or changed on the disk"


@dataclass(frozen=True)
class Entry:
    """An outcome that waits: a table of ``id`` and ``values``, as it is sent, and when it was reported, in ms."""

    key: str
    experiment: str
    outcome: dict[str, Any]
    actor: str | None
    at: int


class Outbox:
    """Outcomes in a file; what the service has refused is in another one beside it, ``PATH.refused``.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     outbox = Outbox(Path(folder) / "outcomes.jsonl")
    ...     outbox.add("checkout", [{"id": "visit-1", "values": {"revenue": 2.5}}])
    ...     [entry] = outbox.entries()
    ...     outbox.finish([entry])
    ...     outbox.tidy()
    ...     print(entry.outcome["values"], outbox.is_waiting)
    {'revenue': 2.5} False
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        if sys.platform == "win32":
            raise ValueError("outbox: there is none on Windows, where files cannot be shared like this; leave it out.")
        self.path = Path(path).absolute()
        if not self.path.parent.is_dir() or self.path.is_dir():
            raise ValueError(f"outbox must be a file, in a folder that exists; got {os.fspath(path)!r}.")
        self.refused = self._beside(".refused")
        self._index = _Index(self.path)
        self.holds("", ())  # reads what is there now, so that no report has to

    @property
    def is_waiting(self) -> bool:
        """Whether anything is in it."""
        return journal.size(self.path) > 0

    def holds(self, experiment: str, ids: Iterable[str]) -> bool:
        """Whether an outcome of one of these decisions waits. Then a later one must be added, or it would overtake."""
        try:
            return self.is_waiting and self._index.holds(experiment, ids)
        except OSError as error:
            raise ClientError(0, f"the outbox cannot be read: {error}") from error

    # ---- for everybody ----------------------------------------------------------------------------------------------

    def add(self, experiment: str, outcomes: Sequence[Mapping[str, Any]], actor: str | None = None) -> None:
        """Keep outcomes; when this returns, they are on disk."""
        taken = journal.size(self.path) + journal.size(self.refused)
        if taken > MAX_BYTES:
            raise ClientError(
                0,
                f"the service does not answer, and the outbox is full: {taken} bytes in {self.path} and "
                f"{self.refused.name}. Deliver it by 'conebandit outbox send', and move away what was refused.",
            )
        at = time.time_ns() // 1_000_000
        tables = [
            {"entry": new_id(), "experiment": experiment, "outcome": dict(one), "actor": actor, "at": at}
            for one in outcomes
        ]
        try:
            self._append(self.path, tables)
        except OSError as error:
            raise ClientError(0, f"the service does not answer, and the outbox cannot be written: {error}") from error

    def refusals(self) -> list[dict[str, Any]]:
        """What was refused, with ``status`` and ``reason``; of damaged lines, the ``line``."""
        return [table for line in journal.lines(self.refused) if (table := journal.unsealed(line)) is not None]

    # ---- for whoever delivers ---------------------------------------------------------------------------------------

    @contextmanager
    def delivering(self) -> Iterator[bool]:
        """Whether the caller is to deliver, until the end of the block; not if somebody else does."""
        with journal.locked(self._beside(".sending"), wait=False) as alone:
            yield alone

    def entries(self) -> Iterator[Entry]:
        """What waits, in the order in which it came."""
        done = self._done(journal.lines(self.path))
        for line in journal.lines(self.path):
            table = journal.unsealed(line)
            if table is not None and "entry" in table and table["entry"] not in done:
                yield Entry(table["entry"], table["experiment"], table["outcome"], table["actor"], table["at"])

    def finish(self, entries: Iterable[Entry]) -> None:
        """Note that these need not be delivered any more."""
        self._append(self.path, [{"done": [entry.key for entry in entries]}])

    def refuse(self, entry: Entry, status: int, reason: str) -> None:
        """Set an outcome aside, with the reason."""
        said = {"experiment": entry.experiment, "outcome": entry.outcome, "actor": entry.actor, "at": entry.at}
        self._append(self.refused, [{**said, "status": status, "reason": reason}])
        self.finish([entry])

    def tidy(self) -> None:
        """Empty the file if all is done, write it anew if most of it is. Damaged lines are set aside."""
        content = b"".join(journal.lines(self.path))
        waiting, damaged = self._sorted(content)
        with journal.locked(self._beside(".lock")):
            added, _, torn = self.path.read_bytes()[len(content) :].rpartition(b"\n")
            damaged += [torn] if torn else []  # nobody is writing now, so it never will be complete
            if damaged:
                tables = [{"line": line.decode("utf-8", "replace"), "reason": DAMAGED} for line in damaged]
                journal.synchronise(journal.append(self.refused, tables))
            left = b"".join(waiting) + (added + b"\n" if added else b"")
            if damaged or 2 * len(left) < len(content):
                journal.replace(self.path, left)

    def _sorted(self, content: bytes) -> tuple[list[bytes], list[bytes]]:
        """The lines that wait, and those that are damaged."""
        lines = content.splitlines(keepends=True)
        done = self._done(lines)
        waiting, damaged = [], []
        for line in lines:
            table = journal.unsealed(line)
            if table is None:
                damaged.append(line.rstrip(b"\n"))
            elif "entry" in table and table["entry"] not in done:
                waiting.append(line)
        return waiting, damaged

    @staticmethod
    def _done(lines: Iterable[bytes]) -> set[str]:
        found = (journal.unsealed(line) or {} for line in lines if line.startswith(b'{"done"'))
        return {key for table in found for key in table.get("done", ())}

    def _append(self, path: Path, tables: Iterable[Mapping[str, Any]]) -> None:
        with journal.locked(self._beside(".lock")):
            descriptor = journal.append(path, tables)
        journal.synchronise(descriptor)  # without the lock, so that many share the wait

    def _beside(self, suffix: str) -> Path:
        return self.path.with_name(self.path.name + suffix)


class _Index:
    """Which decisions have outcomes in a file. Others write it, so what is new in it is read before each answer.

    Lines are never taken out of a file: it is replaced by another one. That is seen by its number, which is not given
    again as long as the old one is open.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._descriptor = -1
        self._forget()

    def holds(self, experiment: str, ids: Iterable[str]) -> bool:
        with self._lock:
            self._catch_up()
            return any((experiment, id_) in self._waiting for id_ in ids)

    def __del__(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)

    def _forget(self) -> None:
        self._read = 0  # bytes
        self._decisions: dict[str, tuple[str, str]] = {}  # by entry: experiment and id
        self._waiting: Counter[tuple[str, str]] = Counter()

    def _catch_up(self) -> None:
        descriptor = os.open(self._path, os.O_RDONLY)
        if self._descriptor >= 0 and os.path.samestat(os.fstat(descriptor), os.fstat(self._descriptor)):
            os.close(descriptor)
        else:
            if self._descriptor >= 0:
                os.close(self._descriptor)
            self._descriptor = descriptor
            self._forget()
        new = os.pread(self._descriptor, os.fstat(self._descriptor).st_size - self._read, self._read)
        new = new[: new.rfind(b"\n") + 1]
        self._read += len(new)
        for line in new.splitlines():
            self._note(journal.unsealed(line) or {})

    def _note(self, table: Mapping[str, Any]) -> None:
        if "entry" in table:
            decision = self._decisions[table["entry"]] = (table["experiment"], table["outcome"]["id"])
            self._waiting[decision] += 1
        for key in table.get("done", ()):
            finished = self._decisions.pop(key, None)
            if finished is not None:
                self._waiting[finished] -= 1
                if not self._waiting[finished]:
                    del self._waiting[finished]
