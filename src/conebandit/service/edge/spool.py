"""The spool of an edge: a folder with all that it has decided and heard, in order, until the service has it.

Lines are appended to numbered files, segments. A file ``uploaded`` says up to where the service has them. Segments
that it has are kept for a while: whoever asks for a decision again is told what is there.
"""

from __future__ import annotations

import json
import logging
import os
import re
from bisect import bisect_left
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from operator import itemgetter
from pathlib import Path
from typing import Literal, NamedTuple

from conebandit.service.client import journal
from conebandit.service.edge.lines import DECISION, HEAD, OUTCOME, STATE, StateMark, is_whole, remains

SEGMENT = 8 << 20  # bytes after which a new file is begun
MAX_LINES, MAX_BYTES = 1000, 700_000  # of a batch: the service takes 1000 decisions, and a megabyte
SUFFIX = ".spool"
_NUMBER = re.compile(r"[0-9]{8,}")  # the name of a segment, as it is written
log = logging.getLogger("conebandit.edge")
Sync = Literal["os", "disk"]


class Place(NamedTuple):
    """A place in a spool: a segment, a position in it, and the last state before it."""

    segment: int = 1
    offset: int = 0
    mark: StateMark | None = None


class SpoolBatch(NamedTuple):
    """Lines of one kind, as JSON, and the place after them, with the state that decisions were made from."""

    kind: bytes
    texts: list[bytes]
    place: Place


class _Gathered:
    """Lines of a batch, as far as they go together."""

    def __init__(self) -> None:
        self.kind, self.texts, self._size, self._ids = b"", list[bytes](), 0, set[str]()

    def add(self, text: bytes) -> bool:
        """One more line; False if it belongs to the next batch."""
        kind, size = text[:1], self._size + len(text)
        if self.texts and (kind != self.kind or len(self.texts) == MAX_LINES or size > MAX_BYTES):
            return False
        if kind == OUTCOME:
            id_ = json.loads(text[HEAD:])["id"]
            if id_ in self._ids:
                return False
            self._ids.add(id_)
        self.kind, self._size = kind, size
        self.texts.append(text[HEAD:-1])
        return True


class Spool:
    """What an edge has decided and heard.

    One process at a time uses it. Its threads hold a lock of their own, but for :meth:`next_batch`, which one of them
    may ask while others write.

    Parameters
    ----------
    folder
        Where it is, made if it is missing.
    sync
        Whether lines must be on the disk (``"disk"``) or only with the operating system (``"os"``) when they count as
        written: the first outlives a loss of power, both the end of the process.
    remember
        How many decisions are kept, at least, that the service has.
    most
        Bytes that may wait for the service.

    Raises
    ------
    BlockingIOError
        If another process uses it.
    """

    def __init__(self, folder: Path, sync: Sync, remember: int, most: int) -> None:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._folder, self._sync, self._remember, self._most = folder, sync, remember, most
        self._held = ExitStack()
        if not self._held.enter_context(journal.locked(folder / "lock", wait=False)):
            raise BlockingIOError(f"another process uses the spool {folder}: give each a folder of its own.")
        self._index: dict[str, tuple[int, int, int]] = {}  # segment, offset and size of each decision
        self._ids: dict[int, list[str]] = {}  # of the decisions in each segment
        self._marks: dict[int, list[tuple[int, StateMark | None]]] = {}  # states in it and their offsets; None: damaged
        self._sizes: dict[int, int] = {}
        self.waiting = self.pending = 0  # bytes, and lines other than those of states
        found = (path.stem for path in folder.glob(f"*{SUFFIX}"))  # files of others may be there as well
        self._segments = deque(sorted(int(stem) for stem in found if _NUMBER.fullmatch(stem)) or [1])
        self.uploaded = self._read_place()
        for number in self._segments:
            self._read(number)
        self.waiting = self._between(self.uploaded, Place(self._segments[-1], self._sizes[self._segments[-1]]))
        self._descriptor = self._open(self._segments[-1])

    # ---- writing ------------------------------------------------------------------------------------------------

    def append(self, mark: StateMark | None, lines: Sequence[bytes], ids: Sequence[str] = ()) -> None:
        """Write lines, all or none: decisions from a state, with their ``ids``, or outcomes, which need none."""
        if self.waiting > self._most:
            raise OSError(f"more than {self._most} bytes wait in the spool {self._folder} for the service.")
        if self._sizes[self._segments[-1]] >= SEGMENT:
            self._begin_segment()
        number = self._segments[-1]
        begin, marks, known = self._sizes[number], self._marks[number], self._ids[number]
        opening = b"" if mark is None or mark == marks[-1][1] else mark.line()
        text, place, n_known, n_marks = b"".join([opening, *lines]), begin + len(opening), len(known), len(marks)
        end, waiting, pending = begin + len(text), self.waiting + len(text), self.pending + len(lines)
        try:
            self._write(text)
            if opening:
                marks.append((begin, mark))
            for id_, one in zip(ids, lines, strict=False):
                self._index[id_] = (number, place, len(one))
                place += len(one)
            known += ids
        except BaseException:  # a full disk; or a signal, by which a time limit ends whatever is being done
            os.ftruncate(self._descriptor, begin)
            del known[n_known:], marks[n_marks:]
            for id_ in ids:
                self._index.pop(id_, None)
            raise
        # Nothing is called from here on, so no signal comes in between.
        self._sizes[number], self.waiting, self.pending = end, waiting, pending

    def _write(self, text: bytes) -> None:
        written = 0
        while written < len(text):
            written += os.write(self._descriptor, text[written:] if written else text)
        if self._sync == "disk":
            os.fsync(self._descriptor)

    def _begin_segment(self) -> None:
        number, old = self._segments[-1] + 1, self._descriptor
        self._descriptor = self._open(number)  # first: if it fails, what is there stays in use
        os.close(old)
        self._segments.append(number)
        self._enter(number)

    def _enter(self, number: int) -> list[tuple[int, StateMark | None]]:
        """Have a segment that has nothing in it; its states to come."""
        self._ids[number], self._marks[number], self._sizes[number] = [], [(-1, None)], 0
        return self._marks[number]

    def _open(self, number: int) -> int:
        descriptor = os.open(self._path(number), os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            journal.sync_folder(self._path(number))
        except BaseException:
            os.close(descriptor)
            raise
        return descriptor

    def _path(self, number: int) -> Path:
        return self._folder / f"{number:08d}{SUFFIX}"

    # ---- reading ------------------------------------------------------------------------------------------------

    def _read(self, number: int) -> None:
        """Know what is in a segment; half a line at its end, which nobody was answered, is taken away."""
        marks = self._enter(number)
        for offset, text in self._lines(number, 0):
            self._sizes[number] = offset + len(text)
            self.pending += text[:1] in (DECISION, OUTCOME) and (number, offset) >= self.uploaded[:2]
            if text[:1] == STATE:
                marks.append((offset, StateMark.read(text)))
            elif text[:1] == DECISION and marks[-1][1] is not None:
                id_ = str(json.loads(text[HEAD:])["id"])
                self._index[id_] = (number, offset, len(text))
                self._ids[number].append(id_)
        if journal.size(self._path(number)) > self._sizes[number]:
            os.truncate(self._path(number), self._sizes[number])

    def _lines(self, number: int, start: int, end: int | None = None) -> Iterator[tuple[int, bytes]]:
        """Lines of a segment, and where they begin; of those that are damaged, what :func:`remains`."""
        offset = start
        with suppress(FileNotFoundError), self._path(number).open("rb") as file:
            file.seek(start)
            for text in file:
                if not text.endswith(b"\n") or (end is not None and offset >= end):
                    return
                if is_whole(text):
                    yield offset, text
                else:
                    log.error("%s: the line at byte %d is damaged, and left out.", self._path(number), offset)
                    yield offset, remains(text)
                offset += len(text)

    def holds(self, id_: str) -> bool:
        """Whether a decision was made here, as far as that is remembered."""
        return id_ in self._index

    def find(self, id_: str) -> tuple[bytes, StateMark] | None:
        """A decision that was made before, as JSON, and the state that it was made from."""
        kept = self._index.get(id_)
        if kept is None:
            return None
        number, offset, size = kept
        marks = self._marks[number]
        _, mark = marks[bisect_left(marks, offset, key=itemgetter(0)) - 1]  # the last one before it
        assert mark is not None  # or it would not be in the index
        with self._path(number).open("rb") as file:
            file.seek(offset)
            return file.read(size)[HEAD:-1], mark

    # ---- uploading ----------------------------------------------------------------------------------------------

    def next_batch(self) -> SpoolBatch | None:
        """Some of what the service has not got, all of one kind and state; None if it has all.

        No decision has two outcomes in a batch: sent again, an earlier one would look like a correction of the later.
        """
        place, gathered = self.uploaded, _Gathered()
        while True:
            end, mark = place.offset, place.mark
            for offset, text in self._lines(place.segment, place.offset, self._sizes.get(place.segment, 0)):
                if text[:1] == STATE:
                    if gathered.texts:
                        break
                    mark = StateMark.read(text)
                elif text[:1] in (DECISION, OUTCOME) and not gathered.add(text):
                    break
                end = offset + len(text)
            place = Place(place.segment, end, mark)
            later = [number for number in list(self._segments) if number > place.segment]
            if gathered.texts or not later:
                return SpoolBatch(gathered.kind, gathered.texts, place) if gathered.texts else None
            place = Place(later[0])

    def acknowledge(self, batch: SpoolBatch) -> None:
        """The service has a batch; what nobody asks for any more is removed."""
        place = batch.place
        self.waiting -= self._between(self.uploaded, place)
        self.pending -= len(batch.texts)
        last = self._segments[-1]
        if place[:2] == (last, self._sizes[last]) and len(self._ids[last]) >= max(self._remember, 1):
            with suppress(OSError):  # so that what nobody asks for any more goes, and does not wait for more traffic
                self._begin_segment()
                place = Place(self._segments[-1])
        self.uploaded = place
        self._write_place()
        while self._segments[0] < place.segment and self._n_decisions(after=self._segments[0]) >= self._remember:
            number = self._segments.popleft()
            self._path(number).unlink(missing_ok=True)
            for id_ in self._ids.pop(number):
                if self._index[id_][0] == number:
                    del self._index[id_]
            del self._sizes[number], self._marks[number]

    def _n_decisions(self, after: int) -> int:
        return sum(len(ids) for number, ids in self._ids.items() if number > after)

    def _between(self, first: Place, last: Place) -> int:
        """Bytes between two places."""
        sizes = sum(size for number, size in self._sizes.items() if first.segment <= number < last.segment)
        return sizes - first.offset + last.offset

    def _write_place(self) -> None:
        """A place that is lost only has lines sent again."""
        path, text = self._folder / "uploaded", json.dumps(self.uploaded)
        if self._sync == "disk":
            journal.replace(path, text.encode())
        else:
            new = path.with_suffix(".new")
            new.write_text(text)
            new.replace(path)

    def _read_place(self) -> Place:
        try:
            segment, offset, mark = json.loads((self._folder / "uploaded").read_text())
            place = Place(int(segment), int(offset), None if mark is None else StateMark(*mark))
        except (OSError, ValueError, TypeError):
            place = Place()
        if place.segment in self._segments and place.offset <= journal.size(self._path(place.segment)):
            return place
        return Place(self._segments[0])  # what is here is sent again, which changes nothing

    def close(self) -> None:
        """Let others use it."""
        os.close(self._descriptor)
        self._held.close()
