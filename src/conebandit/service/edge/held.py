"""The published state that an edge holds, in memory and in its spool, and how old it is."""

from __future__ import annotations

import logging
import math
import os
import time
from contextlib import suppress
from pathlib import Path

from conebandit.experiment.declaration import Experiment
from conebandit.service.client import journal
from conebandit.service.edge.lines import StateMark
from conebandit.service.engine.clock import since_boot
from conebandit.service.errors import CorruptionError
from conebandit.service.log.published import OtherReleaseError, PublishedState

log = logging.getLogger("conebandit.edge")


def steady() -> float:
    """Seconds by a clock that nobody can set."""
    return since_boot() / 1000


class HeldState:
    """The state that an edge decides from.

    Parameters
    ----------
    path
        A file that keeps it for the next start; its time is when the service last said that it is the latest.
    experiment
        Its id; the state of another one is refused.

    Attributes
    ----------
    published, mark
        The state, and what a spool says of it; None if there is none.
    declared
        The experiment as that state has it, or the last one that there was; None if there was none.
    refusal
        Why the service lets nobody decide; None if it does.
    """

    def __init__(self, path: Path, experiment: str) -> None:
        self._path, self._experiment, self._confirmed = path, experiment, -math.inf
        self.published: PublishedState | None = None
        self.mark: StateMark | None = None
        self.declared: Experiment | None = None
        self.refusal: str | None = None
        self._load()

    @property
    def staleness(self) -> float:
        """Seconds since the service last said that this is the latest state; infinity if there is none."""
        return steady() - self._confirmed

    @property
    def tag(self) -> str | None:
        """What the service knows it by."""
        return None if self.published is None else self.published.tag

    def _load(self) -> None:
        try:
            content, confirmed = self._path.read_bytes(), self._path.stat().st_mtime
            published = PublishedState.read(content)
            if (known := published.state.experiment.id) != self._experiment:
                raise ValueError(f"the spool {self._path.parent} is that of experiment {known!r}; give it its own.")
            self._hold(published)
        except FileNotFoundError:
            return
        except (CorruptionError, OtherReleaseError) as error:
            log.warning("the state in %s is not used: %s", self._path, error)
        else:
            age = time.time() - confirmed
            self._confirmed = steady() - (age if age >= 0.0 else math.inf)  # a clock that was set back knows nothing

    def _hold(self, published: PublishedState) -> None:
        self.mark = StateMark(published.seq, published.check, str(published.version))
        self.published, self.declared, self.refusal = published, published.state.experiment, None

    def take(self, published: PublishedState, content: bytes, asked: float) -> None:
        """The service has sent its latest state, when it was asked at a time of the steady clock."""
        self._hold(published)
        self._confirmed = asked
        try:
            journal.replace(self._path, content)
        except OSError as error:  # a full disk, say; what was suspended is suspended all the same
            log.warning("the state cannot be kept in %s for the next start: %s", self._path, error)
            with suppress(OSError):
                self._path.unlink(missing_ok=True)

    def confirm(self, asked: float) -> None:
        """The service says that this is the latest state."""
        self._confirmed, self.refusal = asked, None
        with suppress(FileNotFoundError):
            os.utime(self._path)

    def refuse(self, reason: str) -> None:
        """The service lets nobody decide; also after a restart, until it gives out a state again."""
        self.published, self.mark, self.refusal = None, None, reason
        self._path.unlink(missing_ok=True)
