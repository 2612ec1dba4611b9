"""Latency of decisions: beside a bare endpoint, while others read, and while the log is folded again."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

import conebandit as cb
from servers import running, serving, teach
from stalls import watched

HERE = Path(__file__).parent
CONNECTIONS = 16
SECONDS = 4.0
ROUNDS = 3
MIN_RATIO = 0.6
DISTURBED, TURNS = 10.0, 8  # seconds
CORRECTED = 40.0  # seconds
PATH = "/experiments/bench/decisions"
BODY = json.dumps({"context": {"age": 0.25, "load": 0.5}}).encode()


async def _one_connection(port: int, path: str, body: bytes, until: float, latencies: list[float]) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    head = [f"POST {path} HTTP/1.1", "Host: localhost", "Content-Type: application/json"]
    request = "\r\n".join([*head, f"Content-Length: {len(body)}", "", ""]).encode() + body
    while time.perf_counter() < until:
        start = time.perf_counter()
        writer.write(request)
        answer = await reader.readuntil(b"\r\n\r\n")
        length = int(answer.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
        await reader.readexactly(length)
        if not answer.startswith(b"HTTP/1.1 200"):
            raise RuntimeError(answer.decode())
        latencies.append(time.perf_counter() - start)
    writer.close()


def load(port: int, path: str, connections: int = CONNECTIONS, seconds: float = SECONDS) -> dict[str, float]:
    """Requests per second and latencies in milliseconds of a closed loop of some connections."""
    latencies: list[float] = []

    async def all_connections() -> None:
        until = time.perf_counter() + seconds
        await asyncio.gather(*(_one_connection(port, path, BODY, until, latencies) for _ in range(connections)))

    asyncio.run(all_connections())
    p50, p99 = np.quantile(latencies, [0.5, 0.99]) * 1000
    longest = max(latencies) * 1000
    return {"per_second": len(latencies) / seconds, "p50": float(p50), "p99": float(p99), "longest": longest}


def compare(name: str, address: str) -> dict[str, Any]:
    """The service beside the faster of two bare endpoints, in turns."""
    bare = str(HERE / "bare_endpoint.py")
    found: dict[str, list[dict[str, float]]] = {"bare": [], "bare, threads": [], "service": []}
    with running(*serving(address)) as (port, _):
        teach(port, 4000)
        load(port, PATH, seconds=1)
    for _ in range(ROUNDS):
        with running(bare, "--store", address) as (port, _):
            found["bare"].append(load(port, "/rows"))
        with running(bare, "--threads", "--store", address) as (port, _):
            found["bare, threads"].append(load(port, "/rows"))
        with running(*serving(address)) as (port, _):
            load(port, PATH, seconds=0.5)
            found["service"].append(load(port, PATH))
    rows = {who: {k: median(r[k] for r in runs) for k in runs[0]} for who, runs in found.items()}
    best = max(rows["bare"]["per_second"], rows["bare, threads"]["per_second"])
    return {"store": name, "rows": rows, "ratio": rows["service"]["per_second"] / best, "wanted": MIN_RATIO}


def disturb(folder: Path, events: int = 40_000) -> dict[str, Any]:
    """Latency of one caller while others read the front and export a long log, and while they do not, in turns."""
    turns: list[dict[str, Any]] = []
    with running(*serving(f"{folder}/log.db")) as (port, _):
        teach(port, events)
        for _ in range(TURNS):
            with watched(folder) as stalls:
                calm = load(port, PATH, connections=1, seconds=DISTURBED)
            turns.append({"who": "calm", **calm, **stalls})
            # Readers in a process of their own: in this one they would keep the caller waiting, not the service.
            reader = subprocess.Popen(
                [sys.executable, str(HERE / "service_readers.py"), str(port), str(DISTURBED + 4.0)],
                stdout=subprocess.PIPE,
            )
            time.sleep(2.0)
            with watched(folder) as stalls:
                busy = load(port, PATH, connections=1, seconds=DISTURBED)
            exports, fronts = map(int, reader.communicate()[0].split())
            turns.append({"who": "while reading", **busy, **stalls, "exports": exports, "fronts": fronts})
    return {"events": events, "turns": turns}


def correct(address: str, events: int) -> dict[str, Any]:
    """Latency of one caller while the oldest outcome of a long log is corrected, and while an arm is added."""
    found = {}
    with running(*serving(address)) as (port, _), cb.Client(f"http://127.0.0.1:{port}", timeout=300) as client:
        teach(port, events)
        found["calm"] = load(port, PATH, connections=1, seconds=CORRECTED)
        [oldest] = client.events("bench", after=1, limit=1)["events"]
        works: dict[str, Callable[[], Any]] = {
            "the oldest outcome is corrected": lambda: client.report("bench", oldest["body"]["id"], {"revenue": 5.0}),
            "an arm is added": lambda: client.add_arm("bench", "e"),
        }
        for name, work in works.items():
            spent: list[float] = []
            beside = threading.Timer(
                1.0, lambda work=work, spent=spent: spent.append(_seconds_until_it_counts(client, work))
            )
            beside.start()
            found[name] = load(port, PATH, connections=1, seconds=CORRECTED)
            beside.join()
            found[name]["counts_after"] = spent[0]
    return {"events": events, "rows": found}


def _seconds_until_it_counts(client: cb.Client, work: Callable[[], Any]) -> float:
    """Seconds from a change to the first decision that takes it into account."""
    start = time.perf_counter()
    work()
    while client.show("bench").get("revising", False):
        time.sleep(0.1)
    client.decide("bench", {"age": 0.5, "load": 0.5})
    return time.perf_counter() - start
