"""Memory of writer, engine and store while events come in batches; without HTTP, which keeps nothing."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import numpy as np

from conebandit.experiment.declaration import Experiment
from conebandit.service.engine.turn import Turn
from conebandit.service.engine.writer import Writer
from conebandit.service.stores.base import open_store
from servers import DECLARATION

BATCH = 500


def _resident() -> float:
    """Megabytes of this process."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def memory(events: int, policy: str, address: str) -> list[dict[str, Any]]:
    """Megabytes and seconds after every tenth of the events."""
    rng, rows = np.random.default_rng(0), []
    writer = Writer(open_store(address))
    latency = {"name": "latency", "direction": "min", "worst": 10, "window": "36h", "default": 10}
    metrics = [{"name": "revenue"}, latency]  # with windows that stay open
    declared = Experiment.from_dict({**DECLARATION, "metrics": metrics, "policy": {"name": policy}})
    writer.submit("bench", lambda turn: turn.create(declared)).result()
    start = time.perf_counter()
    for done in range(0, events + 1, 2 * BATCH):
        if done % (events // 10) == 0:
            resident, spent = _resident(), time.perf_counter() - start
            arrays = sum(a.nbytes for a in writer.submit("bench", _policy_arrays).result()) / 2**20
            rows.append({"events": done, "megabytes": resident, "policy": arrays, "seconds": spent})
        if done < events:
            _batch(writer, rng)
    writer.close()
    return rows


def _policy_arrays(turn: Turn) -> list[Any]:
    """What the policy has learned: the arrays of its state, as far as they are in use."""
    return list(turn.policy("bench").state().values())


def _batch(writer: Writer, rng: np.random.Generator) -> None:
    asked = [{"context": {"age": a, "load": b}} for a, b in rng.random((BATCH, 2)).tolist()]
    made = writer.submit("bench", lambda turn: turn.decide("bench", asked)).result()
    values = [{"revenue": a, "latency": b} for a, b in rng.random((BATCH, 2)).tolist()]
    reports = [{"id": m.id, "values": v} for m, v in zip(made, values, strict=True)]
    writer.submit("bench", lambda turn: turn.report("bench", reports)).result()
