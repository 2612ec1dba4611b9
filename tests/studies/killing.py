"""Studies that are stopped by SIGKILL at random moments, and what is left of them; also used by a benchmark."""

import os
import random
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import pytest

import conebandit as cb
from conebandit.studies import runs
from conebandit.studies.parts import Parts

# An environment that notes the beginning of every run, and takes its time.
MODULE = """
import os, time
from pathlib import Path
import conebandit as cb

class Noting:
    n_arms, n_objectives, context_dim, change_points = 3, 2, 1, (20,)

    def __init__(self, seed, seconds=0.05):
        self.seed, self.seconds = seed, seconds
        self.world = cb.environments.paper(n_arms=3, change_point=20)
        self.cone = self.world.cone

    def contexts(self, rng, n, start):
        with Path(__file__).with_name("begun").open("a") as file:
            file.write(f"{self.seed}\\n")
        Path(__file__).with_name("worker").write_text(str(os.getpid()))
        time.sleep(self.seconds)
        return self.world.contexts(rng, n, start)

    def means(self, contexts):
        return self.world.means(contexts)

    def rewards(self, rng, means):
        return self.world.rewards(rng, means)
"""
STUDY = 'policies = ["random"]\nenvironments = ["noting:Noting"]\nhorizon = 100\nseeds = {seeds}\n'
POSIX = pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGKILL on Windows")
VARYING = ["seconds", "versions"]  # columns that are not results
# Seconds after which a scheduler knows that a result was taken. Dask computes one once more if its worker dies before.
TAKEN = 0.2


class Found(NamedTuple):
    """What a study that was killed again and again has come to."""

    kills: int  # that struck while it was running
    runs: int
    lost: int  # runs that were finished at a kill, and were not there later
    again: int  # runs that were finished at a kill, and were made once more
    begun: int  # runs that were begun, so also those that a kill has cut short
    agrees: bool  # with a study that nobody disturbed, bit for bit
    seconds: float


def write_study(folder: Path, seeds: int) -> Path:
    """A study file with its environment beside it, a module of its own."""
    sys.modules.pop("noting", None)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "noting.py").write_text(MODULE)
    (folder / "study.toml").write_text(STUDY.format(seeds=seeds))
    return folder / "study.toml"


def start(file: Path, *options: str) -> "subprocess.Popen[bytes]":
    """Run a study in a process group of its own, with its messages in a file: workers outlive a killed process."""
    command = [sys.executable, "-m", "conebandit", "study", "run", str(file), *options]
    with file.with_name("messages").open("wb") as messages:
        return subprocess.Popen(command, cwd=file.parent, stdout=messages, stderr=messages, start_new_session=True)


def results(folder: Path):
    """Everything that a study has found, without what differs from time to time."""
    frame = Parts(folder / "parts").read()
    return None if frame is None else frame.drop(VARYING)


def finished(folder: Path) -> set[int]:
    frame = results(folder) if (folder / runs.STUDY.about).exists() else None
    return set() if frame is None else set(frame["seed"].to_list())


def noted(file: Path) -> list[int]:
    path = file.with_name("begun")
    return [int(line) for line in path.read_text().split()] if path.exists() else []


def kill_again_and_again(
    folder: Path, *, kills: int, seeds: int, options: tuple[str, ...] = (), seed: int = 0
) -> Found:
    """Kill a study at random moments, start it again, and compare it with one that was left in peace."""
    began, luck = time.monotonic(), random.Random(seed)
    file = write_study(folder / "killed", seeds)
    to, struck, lost, again = file.with_suffix(""), 0, 0, 0
    while struck < kills:
        before, begun = finished(to), len(noted(file))
        process = start(file, *options)
        if luck.random() < 0.25:
            time.sleep(luck.uniform(0.0, 5.0))  # perhaps before the first run begins
        else:
            while process.poll() is None and not finished(to) - before:
                time.sleep(0.02)
            time.sleep(luck.uniform(0.0, 1.0))
        if process.poll() is not None:
            break
        process.send_signal(signal.SIGKILL)
        process.wait()
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        struck += 1
        lost += len(before - finished(to))
        again += len(before & set(noted(file)[begun:]))
    before, begun = finished(to), len(noted(file))
    assert start(file, *options).wait(timeout=300) == 0, file.with_name("messages").read_text()
    again += len(before & set(noted(file)[begun:]))
    lost += len(before - finished(to))
    return compared(file, began, kills=struck, lost=lost, again=again)


def lose_a_worker(folder: Path, backend: str, *, seeds: int) -> Found:
    """Kill one of two workers of a Dask or Ray cluster in the middle of a study, and compare as above."""
    began, file = time.monotonic(), write_study(folder / "killed", seeds)
    to, end = file.with_suffix(""), time.monotonic() + 120
    at_the_kill: list[tuple[set[int], int]] = []

    def watch() -> None:
        while len(finished(to)) < 3 and time.monotonic() < end:
            time.sleep(0.02)
        if not file.with_name("worker").exists():
            return  # the study has failed, and says so
        before = finished(to)
        time.sleep(TAKEN)
        worker = int(file.with_name("worker").read_text())
        assert worker != os.getpid()
        at_the_kill.append((before, len(noted(file))))
        os.kill(worker, signal.SIGKILL)

    watcher = threading.Thread(target=watch)
    watcher.start()
    cb.run_study(file, to, backend=backend, jobs=2)
    watcher.join()
    lost = sum(len(before - finished(to)) for before, _ in at_the_kill)
    again = sum(len(before & set(noted(file)[begun:])) for before, begun in at_the_kill)
    return compared(file, began, kills=len(at_the_kill), lost=lost, again=again)


def compared(file: Path, began: float, *, kills: int, lost: int, again: int) -> Found:
    """What has become of a study, beside one that was left in peace."""
    calm = write_study(file.parent.with_name("calm"), len(results(file.with_suffix(""))))
    cb.run_study(calm, calm.with_suffix(""), backend="sequential")
    sys.modules.pop("noting", None)
    mine, theirs = results(file.with_suffix("")), results(calm.with_suffix(""))
    seconds = round(time.monotonic() - began, 1)
    return Found(kills, mine.height, lost, again, len(noted(file)), mine.equals(theirs, null_equal=True), seconds)
