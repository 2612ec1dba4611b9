"""The dashboard on a long log: when something is painted, and whether decisions wait while people look.

The log is written first (some minutes for a million events; ``--log FILE`` keeps it for the next time). Then a service
is started, and every view is opened while a caller, a process of its own, asks for decisions, one after the other:
first by HTTP alone, as a browser asks that runs on another machine, and then, with another service, by Chromium on this
one, in a fresh profile each time and with time that nobody else wants (``chrt --idle``). The same caller, with nobody
looking for as long, is the comparison; ``more_ms`` is by how much the longest decision beside somebody who looks took
longer.

    python benchmarks/service_dashboard.py            # 1,000,000 events
    python benchmarks/service_dashboard.py --events 20000

Needs Chromium and playwright.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import re
import struct
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from html import unescape
from pathlib import Path

import httpx
import numpy as np
from playwright.sync_api import Browser, sync_playwright

import conebandit as cb
from conebandit.service.dashboard.pages import VIEWS
from conebandit.service.report.pdf import FLAGS, check_chromium
from report import Report, machine, versions
from servers import running, serving, teach

EVENTS = 1_000_000
QUIET = 90.0  # seconds of decisions without anybody looking: as long as all looks together take, or longer
SPAWN = multiprocessing.get_context("spawn")
PAINT = "performance.getEntriesByName('first-contentful-paint').map(entry => entry.startTime)"


class Caller:
    """A process that asks for decisions, one after the other, and notes how long each took."""

    def __init__(self, port: int) -> None:
        self._notes = tempfile.NamedTemporaryFile()  # noqa: SIM115  (closed with this)
        self._process = SPAWN.Process(target=_ask, args=(port, self._notes.name), daemon=True)

    def __enter__(self) -> Caller:
        self._process.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.join()
        self._notes.close()

    def between(self, start: float, end: float) -> np.ndarray:
        """Milliseconds of the decisions that were asked for in this time."""
        notes = Path(self._notes.name).read_bytes()
        begun, took = np.frombuffer(notes[: len(notes) // 16 * 16]).reshape(-1, 2).T
        return 1000 * took[(start <= begun) & (begun <= end)]


def _ask(port: int, notes: str) -> None:
    """Until the process is stopped; times are those of a clock that all processes share."""
    rng = np.random.default_rng(1)
    with cb.Client(f"http://127.0.0.1:{port}") as client, open(notes, "ab", buffering=0) as file:
        while True:
            begun = time.monotonic()
            client.decide("bench", {"age": float(rng.random()), "load": float(rng.random())})
            file.write(struct.pack("dd", begun, time.monotonic() - begun))
            time.sleep(0.005)


Look = Callable[[str], dict[str, int]]  # what an address is opened with: milliseconds until something happened


@contextmanager
def by_http(_: Path) -> Iterator[Look]:
    """A client that asks for a page and then, as htmx does, at once for all parts of it that are to be loaded."""

    def parts(text: str) -> list[str]:
        tags = [tag for tag in re.findall(r"<[^>]*hx-get=[^>]*>", text) if 'hx-trigger="load' in tag]
        return [unescape(re.findall(r'hx-get="([^"]*)"', tag)[0]) for tag in tags]

    def get(client: httpx.Client, address: httpx.URL, **headers: str) -> list[httpx.URL]:
        reply = client.get(address, headers=headers).raise_for_status()
        return [address.join(part) for part in parts(reply.text)]

    def get_all(client: httpx.Client, address: httpx.URL) -> None:
        for part in get(client, address, **{"hx-request": "true"}):
            get_all(client, part)

    def look(address: str) -> dict[str, int]:
        begun = time.monotonic()
        with httpx.Client(timeout=120) as client, ThreadPoolExecutor(6) as threads:
            found = get(client, httpx.URL(address))
            there = time.monotonic()
            list(threads.map(lambda part: get_all(client, part), found))
        return {"painted_ms": round(1000 * (there - begun)), "whole_ms": round(1000 * (time.monotonic() - begun))}

    yield look


@contextmanager
def by_browser(folder: Path) -> Iterator[Look]:
    """Chromium on this machine."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=patient_browser(folder), args=list(FLAGS))
        yield lambda address: dict(zip(("painted_ms", "whole_ms"), map(round, paint(browser, address)), strict=True))
        browser.close()


def paint(browser: Browser, address: str) -> tuple[float, float]:
    """Open a page in a fresh profile: milliseconds until something is painted, and until all of it is there."""
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    page = context.new_page()
    begun = time.monotonic()
    page.goto(address, wait_until="load")
    while not (painted := page.evaluate(PAINT)):
        page.wait_for_timeout(20)
    while page.evaluate("document.querySelector('.htmx-request') !== null"):
        page.wait_for_timeout(20)
    whole = 1000 * (time.monotonic() - begun)
    context.close()
    return float(painted[0]), whole


def patient_browser(folder: Path) -> Path:
    """A program that starts Chromium such that everybody else goes first, as if it ran on another machine.

    The lowest ``nice`` is not enough: whoever wakes up still has to wait for the end of its slice.
    """
    program = folder / "browser"
    program.write_text(f'#!/bin/sh\nexec chrt --idle 0 {check_chromium()} "$@"\n')
    program.chmod(0o700)
    return program


def measure(report: Report, where: str, events: int, how: str, look: Look) -> None:
    """Every view once at the start of a service, when nothing is counted yet, and once more."""
    with running(*serving(where)) as (port, _), Caller(port) as caller:
        time.sleep(2)
        start = time.monotonic()
        time.sleep(QUIET)
        alone = decisions(caller, start)
        report.add(view="nobody looks", by=how, events=events, **alone)
        for time_ in ("first", "again"):
            for path, label, _ in VIEWS:
                start = time.monotonic()
                seen = look(f"http://127.0.0.1:{port}/dashboard/experiments/bench{path}")
                time.sleep(1)
                took = decisions(caller, start)
                more = {"more_ms": round(took["longest_ms"] - alone["longest_ms"], 1)}
                report.add(view=f"{label}, {time_}", by=how, events=events, **took, **more, **seen)


def decisions(caller: Caller, start: float) -> dict[str, float]:
    """How long decisions took since then, in milliseconds."""
    end = time.monotonic()
    took = caller.between(start, end)
    return {
        "seconds": round(end - start),
        "decisions": len(took),
        "median_ms": round(float(np.median(took)), 1),
        "p99_ms": round(float(np.quantile(took, 0.99)), 1),
        "longest_ms": round(float(took.max()), 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=EVENTS)
    parser.add_argument("--log", type=Path, help="keep the log here, or take the one that is here")
    parser.add_argument("--to", type=Path, default=Path(__file__).parent / "results" / "dashboard")
    asked = parser.parse_args()
    report = Report(
        title=f"Looking at a log of {asked.events:,} events while decisions are asked for",
        command="python benchmarks/service_dashboard.py"
        + (f" --events {asked.events}" if asked.events != EVENTS else ""),
        versions=versions("conebandit", "fastapi", "uvicorn", "playwright"),
        machine=machine("2 cores, shared by service, browser and caller", "SQLite"),
    )
    with tempfile.TemporaryDirectory() as folder:
        where = str(asked.log or Path(folder) / "log.db")
        if not Path(where).exists():
            with running(*serving(where)) as (port, _):
                teach(port, asked.events)
        os.sync()  # else the first decision that is written to disk waits for the log to be
        for how, way in (("HTTP", by_http), ("browser", by_browser)):
            with way(Path(folder)) as look:
                measure(report, where, asked.events, how, look)
    report.show()
    report.write(asked.to)


if __name__ == "__main__":
    main()
