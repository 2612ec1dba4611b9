"""Snapshots: a state in parts of bounded size, and one that is on its way into the store, a part in each turn."""

from __future__ import annotations

import json
import logging
import tempfile
import threading
import weakref
from collections.abc import Callable, Iterator
from functools import partial
from hashlib import blake2b
from pathlib import Path
from typing import BinaryIO

from conebandit._version import __version__
from conebandit.experiment.declaration import Experiment
from conebandit.experiment.policy import Served, load_policy
from conebandit.service.errors import CorruptionError, SealKeyError
from conebandit.service.log.state import State
from conebandit.service.stores.records import canonical
from conebandit.service.stores.seals import START, UNKEYED, Seals
from conebandit.service.stores.session import Session, UnfinishedSnapshot

PART = 1 << 20  # bytes of a snapshot that are handled at once
FORMAT = 4

log = logging.getLogger("conebandit.service")


class OtherVersionError(Exception):
    """A snapshot was made by another version of the library, which may have computed something else."""


def to_parts(state: State, seals: Seals = UNKEYED) -> Iterator[bytes]:
    """A state in parts: a header, the policy, a checksum. :func:`from_parts` reads it back."""
    yield from _parts(_header(state), _saved(state.policy), partial(_checksum, seals, state.experiment.id))


def from_parts(experiment: Experiment, parts: Iterator[bytes], seals: Seals = UNKEYED) -> State:
    """Read a state back; a ``CorruptionError`` if it is not what was written, or an ``OtherVersionError``."""
    header = next(parts, b"")
    sum_, last = blake2b(header, digest_size=16), b""
    with tempfile.TemporaryDirectory() as folder:
        with (Path(folder) / "policy").open("wb") as file:
            for part in parts:
                file.write(last)
                sum_.update(last)
                last = part
        if not _matches(last, seals, experiment.id, sum_.hexdigest()):
            raise CorruptionError(f"a snapshot of {experiment.id} is not what was written.")
        plain = json.loads(header)
        if (plain["library"], plain.get("format")) != (__version__, FORMAT):
            raise OtherVersionError(f"version {plain['library']} made it.")
        state = State.from_plain(experiment, plain, load_policy(Path(folder) / "policy"))
    state.last_snapshot = state.head.seq
    return state


def _checksum(seals: Seals, experiment_id: str, content: str) -> bytes:
    """The last part: a seal if there is a key, and otherwise the checksum of the content as it is."""
    if seals.current is None:
        return bytes.fromhex(content)
    return seals.seal(experiment_id, START, f"snapshot\n{content}").encode()


def _matches(last: bytes, seals: Seals, experiment_id: str, content: str) -> bool:
    if seals.current is None:
        return last == bytes.fromhex(content)
    try:
        return seals.matches(last.decode("ascii", "replace"), experiment_id, START, f"snapshot\n{content}")
    except SealKeyError as error:
        raise OtherVersionError(str(error)) from None


def _header(state: State) -> bytes:
    """Everything but the policy."""
    return canonical({**state.plain(), "library": __version__, "format": FORMAT}).encode()


def _saved(policy: Served) -> BinaryIO:
    """A policy as a file, which is gone when it is closed."""
    with tempfile.TemporaryDirectory() as folder:
        policy.save(Path(folder) / "policy")
        return (Path(folder) / "policy").open("rb")


def _parts(header: bytes, file: BinaryIO, checksum: Callable[[str], bytes]) -> Iterator[bytes]:
    sum_ = blake2b(header, digest_size=16)
    with file:
        yield header
        while part := file.read(PART):
            sum_.update(part)
            yield part
    yield checksum(sum_.hexdigest())


def least_missed(kept: list[int], seq: int) -> int:
    """Which snapshot to drop for one at ``seq``, so that the ages of all that are left grow by about the same factor.

    A correction makes the snapshots after the value untrue, and the log is folded from the last one before it. Some
    values are corrected after minutes, others after weeks; with such ages hardly more is folded than if all snapshots
    were kept. Ages are those at the next snapshot, taken to be as far away as the last two are from each other.
    """
    positions = sorted([0, *kept, seq])
    ages = [2 * positions[-1] - positions[-2] - position for position in positions]
    growth = {positions[i]: ages[i - 1] / ages[i + 1] for i in range(1, len(positions) - 1) if positions[i] != seq}
    return min(growth, key=lambda position: growth[position])


class SnapshotInProgress:
    """A snapshot that is being made: the state is copied now, written to a file by a thread, and then to the store.

    If a correction or a change of arms makes it untrue meanwhile, in this process or in another one, its head is
    dropped from the store, and the rest is not written.

    Parameters
    ----------
    state
        As it is now.
    begun
        Its place in the store.
    seals
        What the store is sealed with.
    """

    def __init__(self, state: State, begun: UnfinishedSnapshot, seals: Seals = UNKEYED) -> None:
        self.experiment_id, self.seq, self._begun = begun.experiment, begun.seq, begun
        self._number, self._checksum = 0, partial(_checksum, seals, begun.experiment)
        self._parts: Iterator[bytes] | None = None
        self._header, self._policy = _header(state), state.policy.copy()
        self._thread = threading.Thread(target=self._write_file, name="conebandit-snapshot", daemon=True)
        self._thread.start()

    def _write_file(self) -> None:
        try:
            file = _saved(self._policy)
        except (OSError, ValueError):
            log.exception("%s: no snapshot at event %d", self.experiment_id, self.seq)
        else:
            weakref.finalize(self, file.close)  # should nobody want it any more
            self._parts = _parts(self._header, file, self._checksum)
        del self._policy

    def write_part(self, session: Session) -> bool:
        """Write a part, if one is ready; True if there is nothing more to do."""
        if self._thread.is_alive():
            return False
        part = None if self._parts is None else next(self._parts, None)
        if part is None and self._number:
            session.complete_snapshot(self._begun)
        elif part is None:
            session.drop_snapshots(self.experiment_id, self.seq, self.seq)
        elif session.add_snapshot_part(self._begun, self._number, part):
            self._number += 1
            return False
        return True
