"""How quickly a log is counted for the dashboard, and how long decisions wait meanwhile.

``python benchmarks/dashboard_tallies.py --events 1000000`` makes a log of that many events (half a minute for a
million), counts it at once, counts it by the thread of the dashboard with its pauses, and at last the same while one
client asks for a decision at a time.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import tempfile
import time
from pathlib import Path

import httpx
import numpy as np

from conebandit.experiment.declaration import Experiment
from conebandit.service.dashboard.counts.tallies import Tallies, read_tally
from conebandit.service.http.server import serving
from conebandit.service.log.entries import seal_event
from conebandit.service.log.events import Created, Decided, Event, Reported
from conebandit.service.log.selection import Choice, Selection, Version
from conebandit.service.stores.base import Store, open_store
from conebandit.service.stores.records import BEGINNING, Record, new_id

ARMS = ("placebo", "low", "middle", "high")
DECLARATION = {
    "id": "trial",
    "arms": list(ARMS),
    "metrics": [{"name": "response"}, {"name": "toxicity", "window": "1h", "default": 0}],
    "context": [{"name": "age", "low": 18, "high": 98}, {"name": "weight", "low": 40, "high": 140}],
    "policy": {"name": "ParetoUCB1"},
    "seed": 1,
}
PAGE = 5000


def make_log(store: Store, n: int) -> None:
    """Decisions and reports in turn, the latter a thousand decisions later."""
    rng, at, waiting = np.random.default_rng(0), 1_700_000_000_000, list[str]()
    with store.write() as session:
        session.create("trial")
    page: list[Record] = []
    head = BEGINNING

    def append(event: Event) -> None:
        nonlocal head, page
        page.append(seal_event(head, event))
        head = page[-1].head
        if len(page) >= PAGE or head.seq == n:
            with store.write() as session:
                session.append("trial", page)
            page = []

    append(Created(at, Experiment.from_dict(DECLARATION).declaration, "0"))
    while head.seq < n:
        at += int(rng.integers(1, 4000))
        if len(waiting) > 1000 and head.seq % 2:
            append(Reported(at, waiting.pop(0), {"response": float(rng.normal())}))
            continue
        arm, (age, weight) = ARMS[int(rng.integers(4))], rng.random(2)
        choice = Choice(arm, 0.25, dict.fromkeys(ARMS, 0.25))
        selection = Selection("live", arm, 0.25, ARMS, choice, Version("ParetoUCB1", "0", head.seq))
        waiting.append(new_id())
        context = {"age": 18 + 80 * age, "weight": 40 + 100 * weight}
        append(Decided(at, waiting[-1], context, (float(age), float(weight)), selection))


async def by_thread(store: Store) -> float:
    """Seconds that the thread takes, pauses included."""
    tallies, start = Tallies(store), time.perf_counter()
    assert (await tallies.get("trial", patience=3600)).complete
    seconds = time.perf_counter() - start
    tallies.close()
    return seconds


def waits(url: str, seconds: float, *, looking: bool) -> list[float]:
    """How long single decisions took, in milliseconds, with or without somebody who looks at the log."""
    found = []
    with httpx.Client(base_url=url, timeout=60) as client:
        client.post("/experiments/trial/decisions", json={"decisions": [{"context": {"age": 40, "weight": 70}}]})
        end = time.perf_counter() + seconds
        if looking:
            client.get("/dashboard/experiments/trial")
        while time.perf_counter() < end:
            start = time.perf_counter()
            client.post("/experiments/trial/decisions", json={"decisions": [{"context": {"age": 40, "weight": 70}}]})
            found.append(1000 * (time.perf_counter() - start))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=100_000)
    parser.add_argument("--seconds", type=float, default=10.0, help="for which decisions are timed")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        where = str(Path(folder) / "log.db")
        store = open_store(where)
        make_log(store, options.events)
        start = time.perf_counter()
        tally = read_tally(store, "trial")
        at_once = time.perf_counter() - start
        politely = asyncio.run(by_thread(store))
        store.close()
        with serving(where) as url:
            alone, beside = (waits(url, options.seconds, looking=looking) for looking in (False, True))
    print(
        json.dumps(
            {
                "events": tally.seen,
                "events_per_second_at_once": round(tally.seen / at_once),
                "events_per_second_with_pauses": round(tally.seen / politely),
                "decision_ms_alone": [round(float(q), 2) for q in np.quantile(alone, [0.5, 0.99, 1.0])],
                "decision_ms_beside": [round(float(q), 2) for q in np.quantile(beside, [0.5, 0.99, 1.0])],
            },
            indent=2,
        )
    )


if __name__ == "__main__":
    main()
