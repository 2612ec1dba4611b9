"""The folder of a study: ``study.json`` says what the study is, ``parts/`` holds its results, one process appends.

That of simulated trials is the same, with ``trial.json``.
"""

from __future__ import annotations

import json
import os
import platform
import socket
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import lru_cache
from importlib import metadata
from pathlib import Path
from typing import Any

from conebandit._version import __version__
from conebandit.studies.declaration import differences, in_order
from conebandit.studies.parts import Parts, write_whole
from conebandit.studies.plan import Job, Kind, Plan

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

FORMAT = 1
PARTS, LOCK = "parts", "lock"
ENTRIES = {"given": dict, "folder": str, "digest": str, "data": dict, "modules": dict, "versions": dict}


def versions() -> dict[str, str]:
    """Of this library and of what results depend on.

    Examples
    --------
    >>> list(versions())
    ['conebandit', 'numpy', 'numba', 'python']
    """
    others = {name: metadata.version(name) for name in ("numpy", "numba")}
    return {"conebandit": __version__, **others, "python": platform.python_version()}


def in_words(found: Mapping[str, str]) -> str:
    """Versions in one line.

    Examples
    --------
    >>> in_words({"numpy": "2.1.0", "python": "3.13.1"})
    'numpy 2.1.0, python 3.13.1'
    """
    return ", ".join(f"{name} {version}" for name, version in found.items())


def made_with(job: Job) -> str:
    """Versions in words, and which form of the user's own modules a run has used.

    Examples
    --------
    >>> from conebandit.studies.plan import Entry, Scene
    >>> policy, world = Entry("ucb1", "ucb1", {}), Entry("paper", "paper", {})
    >>> made_with(Job(0, policy, Scene(world, 100, "paper"), seed=0)) == in_words(versions())
    True
    """
    return ", ".join([_versions_in_words(), *([in_words(job.modules)] if job.modules else [])])


@lru_cache(maxsize=1)
def _versions_in_words() -> str:
    """To look versions up takes longer than some runs."""
    return in_words(versions())


class Folder:
    """The folder of a study."""

    def __init__(self, path: Path, kind: Kind) -> None:
        self.path, self.kind = path, kind
        self._about = path / kind.about
        self.parts = Parts(path / PARTS)

    @property
    def begun(self) -> bool:
        """Whether a study was begun here."""
        return self._about.exists()

    def about(self) -> dict[str, Any]:
        """What the study is; a ``ValueError`` if there is none, or one that cannot be read."""
        try:
            about: dict[str, Any] = json.loads(self._about.read_text(encoding="utf-8"))
            found = about["format"]
        except FileNotFoundError:
            raise ValueError(f"{self.path} holds no {self.kind.name}: there is no {self.kind.about} in it.") from None
        except (OSError, ValueError, LookupError, TypeError) as error:
            raise ValueError(f"{self._about} cannot be read: {error}.") from None
        if found != FORMAT:
            raise ValueError(f"{self._about} has format {found!r}; this version of conebandit reads {FORMAT}.")
        for name, kind in ENTRIES.items():
            if not isinstance(about.get(name), kind):
                raise ValueError(
                    f"{self._about} is damaged: its entry {name!r} is missing or wrong. Put back what was there, or "
                    f"begin the {self.kind.name} in another folder."
                )
        return about

    def plan(self) -> Plan[Any]:
        """The study that is kept here."""
        about = self.about()
        return self.kind.read(about["given"], Path(about["folder"]))

    def begin(self, plan: Plan[Any], given: Mapping[str, Any], where: Path, digest: str) -> dict[str, Any]:
        """Begin a study here, or go on with it; what :meth:`about` says from then on.

        Parameters
        ----------
        plan
            The study, checked.
        given, where, digest
            What its file says, the folder that the file is in, and its fingerprint.

        Raises
        ------
        ValueError
            If the folder holds another study, in words that say what differs; or if it holds something else.
        """
        if self.begun:
            about = self.about()
            self.refuse_another(about, plan)
            return about
        if any(each.name != LOCK for each in self.path.iterdir()):
            raise ValueError(f"{self.path} is not empty, and holds no {self.kind.name}. Give another folder with --to.")
        about = {
            "format": FORMAT,
            "given": given,
            "folder": str(where),
            "digest": digest,
            "data": plan.data(),
            "modules": plan.modules(),
            "versions": versions(),
        }
        write_whole(self._about, json.dumps(about, indent=1).encode())
        return about

    def refuse_another(self, about: Mapping[str, Any], plan: Plan[Any]) -> None:
        """Raise a ``ValueError`` if this is not the study that ``about`` is about, in words that say what differs."""
        before = self.kind.read(about["given"], Path(about["folder"]))
        was, now = {"data": about["data"]}, {"data": plan.data()}
        changed = differences({**before.declaration, **was}, {**plan.declaration, **now})
        if changed and self._same_but_for_order(before, plan):
            changed = differences(was, now)
        if changed:
            raise ValueError(
                f"{self.path} holds the results of another {self.kind.name} than this one: {'; '.join(changed)}. "
                "Results of both are not mixed: give another folder with --to, or undo the change."
            )

    def _same_but_for_order(self, before: Plan[Any], now: Plan[Any]) -> bool:
        """Whether two files say the same, with entries of tables in another order; labels go by this order."""
        try:
            was, new = (self.kind.read(in_order(plan.given), Path()).declaration for plan in (before, now))
        except ValueError:  # in one of them two entries differ in nothing but the order
            return False
        return not differences(was, new)

    def as_begun(self, plan: Plan[Any]) -> Plan[Any]:
        """The same study with the labels and numbers of runs that it was begun with, by which results are known.

        Its runs are made with the files of data that it was begun with, or not at all.
        """
        return replace(self.plan(), recipe=replace(plan.recipe, data=self.about()["data"]))

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Within, no other process appends here; a ``ValueError`` if one does already. Makes the folder."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(self.path / LOCK, os.O_RDWR | os.O_CREAT, 0o644)
        except OSError as error:
            raise ValueError(f"the folder {self.path} cannot be written: {error.strerror}.") from None
        try:
            if not _taken(descriptor):
                holder = os.read(descriptor, 200).decode(errors="replace").strip() or "another process"
                raise ValueError(
                    f"the {self.kind.name} in {self.path} is being run by {holder}. Wait for it, or stop it: finished "
                    f"runs are kept, and the {self.kind.name} goes on where it was."
                )
            os.truncate(descriptor, 0)
            os.write(descriptor, f"process {os.getpid()} on {socket.gethostname()}\n".encode())
            yield
        finally:
            os.close(descriptor)


if sys.platform == "win32":

    def _taken(descriptor: int) -> bool:
        """Take the lock; whether it was free. It ends with the process, however that ends."""
        try:
            os.lseek(descriptor, 1 << 20, os.SEEK_SET)  # not where the holder is named, so that it can be read
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        finally:
            os.lseek(descriptor, 0, os.SEEK_SET)
        return True

else:

    def _taken(descriptor: int) -> bool:
        """Take the lock; whether it was free. It ends with the process, however that ends."""
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True
