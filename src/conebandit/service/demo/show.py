"""The demonstration: service, patients, words on the terminal, and the dashboard in a browser."""

from __future__ import annotations

import signal
import threading
import time
import webbrowser
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from conebandit.service.dashboard.sessions import PATH
from conebandit.service.demo.narrator import Narrator
from conebandit.service.demo.trial import DAYS, Trial, running
from conebandit.service.demo.world import EXPERIMENT, SHIFT_AT

QUIET = 1.0  # seconds before a line says what is going on
EVERY = 1.0  # seconds between two looks at the service
# What a process is sent whose terminal was closed, or that somebody wants to end; Windows has not all of them.
ENDINGS = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]


def show(seconds: float, stay: float, port: int = 0, *, browser: bool = True, seed: int = 0) -> None:
    """Let a trial run for some seconds while people look on, and the service for some more."""
    console = Console()
    with _leaving_nothing_behind(), running(port) as (address, client, clock):
        trial = Trial(client, clock, seed)
        notice = threading.Timer(QUIET, console.print, ["Compiling kernels (once on this machine, up to a minute) ..."])
        notice.start()
        try:
            trial.begin()
        finally:
            notice.cancel()
        page = f"{address}{PATH}/experiments/{EXPERIMENT}"
        console.print(f"The dashboard: {page}", soft_wrap=True)
        if not (browser and webbrowser.open(page)):
            console.print("Open it in a browser.")
        console.print(f"{trial.patients:,} patients come in {seconds:g} s; from {SHIFT_AT:,} on they are older.")
        try:
            _run(console, trial, Narrator(client), seconds)
            _wait(console, stay)
        except KeyboardInterrupt:
            console.print("Stopped.")
    console.print("The service has ended, and its database is gone.")


@contextmanager
def _leaving_nothing_behind() -> Iterator[None]:
    """Let whatever ends the process end the demonstration as Ctrl-C does, so that its database goes."""

    def stop(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    ours = threading.current_thread() is threading.main_thread()  # others cannot be sent signals
    before = {number: signal.signal(number, stop) for number in ENDINGS} if ours else {}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _run(console: Console, trial: Trial, narrator: Narrator, seconds: float) -> None:
    """The trial in the foreground; what happens is told while it runs."""
    columns = (TextColumn("day {task.fields[day]:3.0f} of " + str(DAYS)), BarColumn(), TimeRemainingColumn())
    asked = time.monotonic()
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("", total=trial.patients, day=0.0)

        def heard(arrived: int) -> None:
            nonlocal asked
            day = DAYS * arrived / trial.patients
            progress.update(task, completed=arrived, day=day)
            if time.monotonic() >= asked + EVERY or arrived == trial.patients:
                for words in narrator.news():
                    console.print(f"day {day:3.0f}: {words}", soft_wrap=True)
                asked = time.monotonic()

        trial.run(seconds, heard)
    for words in narrator.news():
        console.print(f"in the end: {words}", soft_wrap=True)


def _wait(console: Console, stay: float) -> None:
    if stay > 0:
        console.print(f"The trial is over; look around for {stay:g} s more, or stop with Ctrl-C.")
        time.sleep(stay)
