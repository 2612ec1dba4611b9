"""The runs of a study: each is a row of numbers, made by any worker and written when it is finished."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from types import TracebackType
from typing import Any

import numpy as np

from conebandit.progress import Step
from conebandit.regret import SERIES
from conebandit.simulate import simulate
from conebandit.studies.bench import last_change
from conebandit.studies.declaration import plan_from
from conebandit.studies.failures import Failure, Failures, tried
from conebandit.studies.folder import made_with
from conebandit.studies.parts import CURVE, Parts, Row
from conebandit.studies.plan import Job, Kind, Plan, Recipe
from conebandit.studies.pool import Workers, as_finished

PAUSE = 0.5  # seconds between parts, so that short runs share one
COLUMNS = ("policy", "environment", "horizon", "seed", "after", *SERIES, "seconds", "versions")  # besides curves


def one_run(recipe: Recipe, job: Job) -> Row:
    """One run as a row: averages of series after the last change point, and curves of some from the first round on."""
    start = time.perf_counter()
    world = recipe.environment(job.scene, job.seed)
    policy = recipe.policy(job.policy, world, job.seed)
    run = simulate(policy, world, job.scene.horizon, job.seed, resolution=recipe.resolution)
    after = last_change(world)
    averages = {name: run.average(name, after=after) for name in SERIES}
    kept = recipe.rounds(job.scene.horizon).astype(np.int64) - 1
    return {
        **job.columns,
        "after": after,
        **averages,
        **{f"{name}{CURVE}": run.cumulative(name)[kept].tolist() for name in recipe.curves},
        "seconds": time.perf_counter() - start,
        "versions": made_with(job),
    }


STUDY = Kind("study", plan_from, one_run, SERIES)


def make_runs(
    kind: Kind,
    plan: Plan[Any],
    parts: Parts,
    missing: list[int],
    workers: Workers,
    *,
    step: Step,
    caution: Callable[[str], None],
) -> Failures:
    """Make the runs that are missing and write them as they finish; those that have failed.

    ``step`` is called when a run is on the disk, ``caution`` when workers have other versions than this process.
    """
    told: set[str] = set()
    jobs = [plan.job(run) for run in missing]
    failures = Failures(jobs)
    run = partial(tried, kind.run, plan.recipe, here=workers.in_this_process)
    finished = as_finished(run, jobs, workers, given_up=_killed, left_out=failures.given_up)
    with Writer(parts, step) as writer, closing(finished) as results:
        for number, result in results:
            if isinstance(result, Failure):
                failures.failed(result)
                continue
            failures.finished(jobs[number])
            if result["versions"] not in (*told, made_with(jobs[number])):
                told.add(result["versions"])
                caution(f"a worker has other versions than this process, and results may differ: {result['versions']}.")
            writer.add(result)
    return failures


def _killed(job: Job) -> Failure:
    return Failure(job, "it has killed its process again and again, or there is too little memory for it")


@dataclass
class Writer:
    """Writes rows in a thread of its own, at most ``PAUSE`` after they were added, however long the next one takes."""

    parts: Parts
    step: Step

    def __enter__(self) -> Writer:
        self._rows: queue.SimpleQueue[Row | None] = queue.SimpleQueue()
        self._ending = threading.Event()
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._write, name="study-writer", daemon=True)
        self._thread.start()
        return self

    def add(self, row: Row) -> None:
        """Have a row written; raises what has kept earlier ones from being written."""
        if self._error is not None:
            raise self._error
        self._rows.put(row)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        """Write what is left, also after an interruption."""
        self._ending.set()
        self._rows.put(None)
        self._thread.join()
        if self._error is not None and error is None:
            raise self._error

    def _write(self) -> None:
        try:
            last = False
            while not last:
                rows = [self._rows.get()]
                while not self._rows.empty():
                    rows.append(self._rows.get())
                last = rows[-1] is None
                self._append([row for row in rows if row is not None])
                self._ending.wait(PAUSE)
        except Exception as error:  # a full disk, say; the thread that adds rows raises it
            self._error = error

    def _append(self, rows: list[Row]) -> None:
        if rows:
            self.parts.append(rows)
            for row in rows:
                self.step(f"{row['policy']} in {row['environment']}")
