"""An experiment as it was a moment ago, with a policy of its own: views compute on it, and no decision waits."""

from __future__ import annotations

import asyncio
import threading
import time
import weakref
from dataclasses import dataclass, field, replace
from typing import Any

from conebandit.experiment.declaration import Experiment
from conebandit.experiment.policy import Served
from conebandit.service.engine.turn import Turn
from conebandit.service.http.backend import Backend

MAX_AGE = 1.0  # seconds for which one is good, whatever has been logged since
MAX_KEPT = 8  # experiments of which one is kept; a policy may have megabytes


@dataclass(frozen=True)
class Look:
    """An experiment at one moment.

    Attributes
    ----------
    experiment
        What is declared; its ``arms`` are those that the policy has, in the order of its indices.
    policy
        A copy, shared by views alone. Hold ``lock`` while you ask it something: they have several threads.
    served
        For each arm by name, retired ones too, whether it can be served.
    events, version, at
        The last event of the log, the last one that the policy has learned from, and the time of the last one in
        milliseconds since 1970.
    observations
        Of how many decisions and past rows something was learned.
    stage, mode
        As of then.
    revising
        Whether corrections or changes do not count yet.
    learned
        For each metric by name, of how many decisions and past rows a value was learned.
    barred
        Arms that safety rules leave out.
    copied
        The policy of which this is a copy, as long as it is there.
    log
        Whatever was computed from a look holds for a later one only if this is the same object: another log may have
        come under the same name.
    """

    experiment: Experiment
    policy: Served
    served: dict[str, bool]
    events: int
    version: int
    at: int
    observations: int
    stage: str
    mode: str
    revising: bool
    learned: dict[str, int]
    barred: frozenset[str]
    copied: weakref.ref[Served] | None = field(default=None, compare=False)
    log: object = field(default_factory=object, compare=False)
    lock: threading.Lock = field(default_factory=threading.Lock, compare=False)
    taken: float = field(default_factory=time.monotonic, compare=False)


class Looks:
    """Looks at experiments, each shared by all who ask within a second."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._kept: dict[str, Look] = {}
        self._locks: dict[str, asyncio.Lock] = {}

    async def get(self, experiment_id: str) -> Look:
        """How an experiment is now, or was at most a second ago; a ``NotFoundError`` if there is none."""
        kept = self._kept.get(experiment_id)
        if kept is not None and time.monotonic() - kept.taken < MAX_AGE:
            return kept
        async with self._locks.setdefault(experiment_id, asyncio.Lock()):
            kept = self._kept.pop(experiment_id, None)
            if kept is None or time.monotonic() - kept.taken >= MAX_AGE:
                kept = await self._backend.in_turn(experiment_id, lambda turn: _look(turn, experiment_id, kept))
            self._kept[experiment_id] = kept  # the last one that was asked for comes last
            while len(self._kept) > MAX_KEPT:
                gone = next(iter(self._kept))
                del self._kept[gone]
            return kept


def _look(turn: Turn, experiment_id: str, before: Look | None) -> Look:
    """In the writer's thread, so only what is quick: arrays are copied, and only if they have changed."""
    state = turn.transaction.state(experiment_id)
    now: dict[str, Any] = {
        "served": dict(state.arms),
        "events": state.head.seq,
        "version": state.version,
        "at": state.at,
        "observations": state.observations,
        "stage": state.stage,
        "mode": state.mode,
        "revising": state.corrected_from is not None,
        "learned": dict(zip(state.experiment.metric_index, state.learned, strict=True)),
        "barred": frozenset(state.rules.barred(turn.transaction.time(state))),  # now: a cap of a day ends with it
    }
    policy = state.policy  # another one if the log is another one, of the same name
    if before is None or before.copied is None or before.copied() is not policy:
        log = object()
    elif before.version == state.version and before.experiment.arms == state.known:
        return replace(before, **now, taken=time.monotonic())
    else:
        log = before.log
    experiment = replace(state.experiment, arms=state.known)
    return Look(experiment=experiment, policy=policy.copy(), copied=weakref.ref(policy), log=log, **now)
