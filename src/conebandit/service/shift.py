"""Has the population changed? A :class:`ShiftMonitor` over the contexts in the log."""

from __future__ import annotations

import itertools
import math
import threading
from typing import Any

import numpy as np

from conebandit.diagnose.monitor import ShiftMonitor
from conebandit.service.errors import NotFoundError
from conebandit.service.experiment import Categorical, Experiment
from conebandit.service.store import Head, Store
from conebandit.service.tables import BEGINNING, pages

CHUNK = 1000


class ShiftWatch:
    """A monitor for each experiment, fed with what is new in the log when somebody asks."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._monitors: dict[str, tuple[ShiftMonitor, list[str], Head]] = {}

    def report(self, experiment_id: str) -> dict[str, Any]:
        """What the monitor says now."""
        with self._store.read() as session:
            head = session.head(experiment_id)
            if head is None:
                raise NotFoundError(f"there is no experiment {experiment_id!a}.")
            first = session.events(experiment_id, limit=1)[0]
        with self._lock:
            if experiment_id not in self._monitors:
                experiment = Experiment.from_dict(first.body["declaration"])
                monitor = ShiftMonitor(experiment.dim, seed=experiment.seed)
                self._monitors[experiment_id] = (monitor, _coordinates(experiment), BEGINNING)
            monitor, names, seen = self._monitors[experiment_id]
            if head.seq < seen.seq:  # another log of the same name
                monitor.reset()
                seen = BEGINNING
            self._feed(monitor, experiment_id, seen, head)
            self._monitors[experiment_id] = (monitor, names, head)
            return _describe(monitor, names)

    def _feed(self, monitor: ShiftMonitor, experiment_id: str, after: Head, upto: Head) -> None:
        chunk: list[list[float]] = []
        for event in itertools.chain.from_iterable(pages(self._store, experiment_id, upto, after)):
            if event.kind == "decided":
                chunk.append(event.body["x"])
            if len(chunk) == CHUNK:
                monitor.update_many(np.array(chunk))
                chunk.clear()
        if chunk:
            monitor.update_many(np.array(chunk))


def _coordinates(experiment: Experiment) -> list[str]:
    names = []
    for column in experiment.columns:
        if isinstance(column, Categorical):
            names += [f"{column.name} = {level}" for level in column.levels]
        else:
            names.append(column.name)
    return names or ["constant"]


def _describe(monitor: ShiftMonitor, names: list[str]) -> dict[str, Any]:
    alarm = monitor.alarm
    recent = None
    if len(monitor.recent()):
        now = monitor.snapshot()
        value = float(now.rho.value)
        recent = {"rho": value if math.isfinite(value) else None, "h": now.h, "little_support": now.little_support}
    return {
        "contexts": monitor.n_contexts,
        "reference": monitor.reference,
        "alpha": monitor.alpha,
        "evidence": monitor.evidence if math.isfinite(monitor.evidence) else None,
        "alarm": None
        if alarm is None
        else {
            "at": alarm.at,
            "coordinate": None if alarm.coordinate is None else names[alarm.coordinate],
            "change_point": alarm.change_point,
        },
        "recent": recent,
    }
