"""Servers for the benchmarks of the service: processes on loopback, and a PostgreSQL in a temporary folder."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

import conebandit as cb

sys.path.insert(0, str(Path(__file__).parent.parent))  # what starts a database is shared with the tests
from tests.service.databases import Postgres, binaries

DECLARATION = {
    "id": "bench",
    "arms": ["a", "b", "c", "d"],
    "metrics": [{"name": "revenue"}, {"name": "latency", "direction": "min", "worst": 10}],
    "context": [{"name": "age", "low": 0, "high": 1}, {"name": "load", "low": 0, "high": 1}],
}


@contextmanager
def running(*arguments: str) -> Iterator[tuple[int, int]]:
    """A server process; its port and process id."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = int(free.getsockname()[1])
    process = subprocess.Popen([sys.executable, *arguments, "--port", str(port)], stdout=subprocess.DEVNULL)
    try:
        for _ in range(6000):
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz", timeout=5).close()
                break
            except OSError:
                time.sleep(0.05)
        yield port, process.pid
    finally:
        process.terminate()
        process.wait()


def serving(address: str) -> tuple[str, ...]:
    """Arguments for :func:`running` that serve decisions."""
    return ("-m", "conebandit", "serve", "--store", address)


@contextmanager
def postgres() -> Iterator[Postgres | None]:
    """A PostgreSQL server in a temporary folder; None if it is not installed."""
    if binaries() is None:
        yield None
        return
    server = Postgres()
    try:
        yield server
    finally:
        server.stop()


def teach(port: int, events: int) -> None:
    """Some decisions with outcomes, so that the policy has something to compute with."""
    rng = np.random.default_rng(0)
    with cb.Client(f"http://127.0.0.1:{port}") as client:
        client.create(DECLARATION)
        for _ in range(events // 1000):
            contexts = [{"age": float(a), "load": float(b)} for a, b in rng.random((500, 2))]
            made = client.decide_many("bench", contexts)
            values = rng.random((500, 2)).tolist()
            rewards = {m.id: {"revenue": v[0], "latency": v[1]} for m, v in zip(made, values, strict=True)}
            client.report_many("bench", rewards)
