"""How long decisions in one experiment take while another one is first used, with nothing compiled at the start.

    python benchmarks/service_cold_start.py                       # two minutes; writes results/cold_start.json and .md
    python benchmarks/service_cold_start.py --before OTHER/src    # beside another checkout

The folder for machine code is empty, or there is none. Decisions in ``b`` go on steadily, from the moment that
``/healthz`` says ok, while ``a`` gets its first outcomes, ``c`` is created with another policy, and somebody asks for
the shift of ``a``.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import Any

import conebandit as cb
from conebandit.experiment.declaration import Experiment
from conebandit.service.past import begin
from conebandit.service.stores.base import open_store
from report import Report, machine, versions
from servers import DECLARATION

HERE = Path(__file__).resolve().parent
MAX_MS = 1000.0  # for the longest decision
PAUSE = 0.01  # seconds between decisions
QUIET = 3.0  # seconds in which nothing else happens
AFTER = 0.2  # seconds after something has happened that still count for it
PATIENCE = 300.0  # seconds: longer than anybody compiles
CONTEXT = {"age": 0.5, "load": 0.5}
# In a folder that nobody can make, not even root, and nowhere else.
NOWHERE = {"NUMBA_CACHE_DIR": "/proc/nowhere", "NUMBA_CACHE_LOCATOR_CLASSES": "UserProvidedCacheLocator"}


class Steady(threading.Thread):
    """Decisions in ``b``, one after the other; how long each took, and when it was asked for."""

    def __init__(self, address: str) -> None:
        super().__init__()
        self.spent: list[tuple[float, float]] = []
        self._client, self._done = cb.Client(address, timeout=PATIENCE), threading.Event()

    def run(self) -> None:
        """Decide until told to end."""
        while not self._done.wait(PAUSE):
            begun = time.perf_counter()
            self._client.decide("b", CONTEXT)
            self.spent.append((begun, time.perf_counter() - begun))

    def end(self) -> None:
        """Wait for the last one."""
        self._done.set()
        self.join()
        self._client.close()

    def during(self, begun: float, ended: float) -> dict[str, float]:
        """Those that were asked for, or being answered, in a span of time."""
        spent = [1000 * took for asked, took in self.spent if asked <= ended and asked + took >= begun]
        return {"decisions": len(spent), "median_ms": median(spent), "longest_ms": max(spent)}


@contextlib.contextmanager
def serving(source: Path, store: Path, environment: dict[str, str]) -> Iterator[tuple[str, float]]:
    """A service of some checkout; its address, and how long it took until it said ok."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = int(free.getsockname()[1])
    command = [sys.executable, "-m", "conebandit", "serve", "--store", str(store), "--port", str(port)]
    begun = time.perf_counter()
    service = subprocess.Popen(
        command, env={**os.environ, "PYTHONPATH": str(source.resolve()), **environment}, stdout=subprocess.DEVNULL
    )
    try:
        while True:
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz", timeout=5).close()
                break
            except OSError:
                if service.poll() is not None or time.perf_counter() > begun + PATIENCE:
                    raise
                time.sleep(0.05)
        yield f"http://127.0.0.1:{port}", time.perf_counter() - begun
    finally:
        service.terminate()
        service.wait()


def first_outcomes(client: cb.Client) -> None:
    """What ``a`` is asked and told first."""
    for i in range(20):
        made = client.decide("a", CONTEXT)
        client.report("a", made.id, {"revenue": float(i), "latency": 1.0})
    client.front("a", CONTEXT)
    client.explain("a", CONTEXT)


def create_another(client: cb.Client) -> None:
    """An experiment with another policy, which is used at once."""
    client.create({**DECLARATION, "id": "c", "policy": "ConeTree"})
    made = client.decide("c", CONTEXT)
    client.report("c", made.id, {"revenue": 1.0, "latency": 1.0})


def measure(report: Report, code: str, source: Path, folder: str, environment: dict[str, str]) -> None:
    """The rows of one service."""
    phases: dict[str, Callable[[cb.Client], Any]] = {
        "nothing else": lambda _: time.sleep(QUIET),
        "first outcomes of a": first_outcomes,
        "c is created, with a ConeTree": create_another,
        "the shift of a": lambda client: client.shift("a"),
    }
    with tempfile.TemporaryDirectory() as place:
        store = open_store(f"{place}/log.db")
        for id_ in "ab":
            begin(store, Experiment.from_dict({**DECLARATION, "id": id_}), None)
        store.close()
        with serving(source, Path(place) / "log.db", environment) as (address, seconds):
            report.add(code=code, folder=folder, phase="start", seconds=seconds)
            steady, spans = Steady(address), {}
            steady.start()
            with cb.Client(address, timeout=PATIENCE) as client:
                for phase, work in phases.items():
                    begun = time.perf_counter()
                    work(client)
                    time.sleep(AFTER)
                    spans[phase] = begun, time.perf_counter()
            steady.end()
    for phase, (begun, ended) in spans.items():
        found = steady.during(begun, ended)
        reached = found["longest_ms"] <= MAX_MS
        report.add(
            code=code, folder=folder, phase=phase, seconds=ended - begun, **found, wanted=MAX_MS, reached=reached
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--before", type=Path, metavar="SOURCE", help="the src folder of another checkout")
    parser.add_argument("--to", type=Path, default=HERE / "results" / "cold_start")
    asked = parser.parse_args()
    report = Report(
        title="A start with nothing compiled: decisions in one experiment while others are first used",
        command="python benchmarks/service_cold_start.py" + (" --before BEFORE/src" if asked.before else ""),
        versions=versions("conebandit", "numba"),
        machine=machine(f"{os.cpu_count()} cores"),
    )
    sides = {"before": asked.before} if asked.before else {}
    for code, source in {**sides, "now": HERE.parent / "src"}.items():
        with tempfile.TemporaryDirectory() as empty:
            measure(report, code, source, "empty", {"NUMBA_CACHE_DIR": empty})
            measure(report, code, source, "filled by it", {"NUMBA_CACHE_DIR": empty})
        measure(report, code, source, "none", NOWHERE)
    report.show()
    report.write(asked.to)


if __name__ == "__main__":
    main()
