"""The dashboard on a long log: when something is painted, and whether decisions wait while people look.

The log is written first (some minutes for a million events; ``--log FILE`` keeps it for the next time). Then a service
is started, and every view is opened in Chromium, in a fresh profile, while a caller asks for decisions, one after the
other. The same caller, with nobody looking, is the comparison. The browser, which would be on another machine, has the
lowest priority.

    python benchmarks/service_dashboard.py            # 1,000,000 events
    python benchmarks/service_dashboard.py --events 20000

Needs Chromium and playwright.
"""

from __future__ import annotations

import argparse
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
from playwright.sync_api import Browser, sync_playwright

import conebandit as cb
from conebandit.service.dashboard.pages import VIEWS
from conebandit.service.report.pdf import FLAGS, check_chromium
from report import Report, machine, versions
from servers import running, serving, teach

EVENTS = 1_000_000
QUIET = 20.0  # seconds of decisions without anybody looking
PAINT = "performance.getEntriesByName('first-contentful-paint').map(entry => entry.startTime)"


class Caller:
    """Asks for decisions, one after the other, and notes how long each took."""

    def __init__(self, port: int) -> None:
        self._client = cb.Client(f"http://127.0.0.1:{port}")
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._ask, daemon=True)
        self.times: list[tuple[float, float]] = []  # when it was asked, and seconds until the answer

    def __enter__(self) -> Caller:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()
        self._client.close()

    def _ask(self) -> None:
        rng = np.random.default_rng(1)
        while not self._ended.is_set():
            begun = time.monotonic()
            self._client.decide("bench", {"age": float(rng.random()), "load": float(rng.random())})
            self.times.append((begun, time.monotonic() - begun))
            time.sleep(0.005)

    def between(self, start: float, end: float) -> np.ndarray:
        """Milliseconds of the decisions that were asked for in this time."""
        return 1000 * np.array([took for begun, took in self.times if start <= begun <= end])


def look(browser: Browser, address: str) -> tuple[float, float]:
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
    """A program that starts Chromium such that everybody else goes first."""
    program = folder / "browser"
    program.write_text(f'#!/bin/sh\nexec nice -n 19 {check_chromium()} "$@"\n')
    program.chmod(0o700)
    return program


def measure(report: Report, where: str, events: int, folder: Path) -> None:
    """Every view once at the start of a service, when nothing is counted yet, and once more."""
    with running(*serving(where)) as (port, _), sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=patient_browser(folder), args=list(FLAGS))
        with Caller(port) as caller:
            time.sleep(2)
            start = time.monotonic()
            time.sleep(QUIET)
            report.add(view="nobody looks", events=events, **decisions(caller.between(start, time.monotonic())))
            for time_ in ("first", "again"):
                for path, label, _ in VIEWS:
                    start = time.monotonic()
                    address = f"http://127.0.0.1:{port}/dashboard/experiments/bench{path}"
                    painted, whole = look(browser, address)
                    time.sleep(1)
                    seen = {"painted_ms": round(painted), "whole_ms": round(whole)}
                    took = decisions(caller.between(start, time.monotonic()))
                    report.add(view=f"{label}, {time_}", events=events, **seen, **took)
        browser.close()


def decisions(took: np.ndarray) -> dict[str, float]:
    """How long decisions took, in milliseconds."""
    return {
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
        measure(report, where, asked.events, Path(folder))
    report.show()
    report.write(asked.to)


if __name__ == "__main__":
    main()
