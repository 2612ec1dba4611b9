"""Patients arrive, are given doses, and report what became of them: months in a minute."""

from __future__ import annotations

import heapq
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path

from conebandit.service.client import Client
from conebandit.service.demo.world import DECLARATION, DOSES, EXPERIMENT, PATIENTS, World
from conebandit.service.engine.clock import SteadyClock, system_clock
from conebandit.service.http.server import serving

DAYS = 120  # that the trial takes, in the time of its patients
DAY = 86_400_000  # milliseconds
DELAYS = {"toxicity": 2, "response": 12}  # days until it is known
AT_ONCE, MAX_TOLD = 12, 500  # patients and outcomes of one request

PATIENCE = 600.0  # seconds; on a new machine there is something to compile first

Heard = Callable[[int], None]


@contextmanager
def running(seconds: float, port: int = 0) -> Iterator[tuple[str, Client, Callable[[], int]]]:
    """A service on a database that is gone afterwards, with a clock for which the trial's days pass in some seconds.

    Gives its address, a client, and its clock.
    """
    begun, start = time.monotonic(), system_clock() - DAYS * DAY  # so that it ends about now
    last = start

    def hurried() -> int:
        nonlocal last
        last = start + round((time.monotonic() - begun) / seconds * DAYS * DAY)
        return last

    with tempfile.TemporaryDirectory(prefix="conebandit-demo-", ignore_cleanup_errors=True) as folder:
        clock = SteadyClock(hurried, lambda: last)  # a moment later it would be minutes later
        with (
            serving(str(Path(folder) / "log.db"), port=port, clock=clock) as address,
            Client(address, timeout=PATIENCE) as client,
        ):
            yield address, client, hurried


class Trial:
    """The trial itself, patient by patient.

    Parameters
    ----------
    client
        Of the service.
    now
        Its clock, in milliseconds.
    seed
        Of the patients.
    patients
        How many come.
    """

    def __init__(self, client: Client, now: Callable[[], int], seed: int = 0, patients: int = PATIENTS) -> None:
        self._client, self._now, self._world, self.patients = client, now, World(seed), patients
        self._due: list[tuple[int, int, str, dict[str, float]]] = []  # when, a number, of which decision, what
        self.arrived = 0

    def begin(self) -> None:
        """Declare it; whatever must be compiled is compiled now."""
        self._client.create(DECLARATION)

    def run(self, seconds: float, heard: Heard = lambda _: None, ended: threading.Event | None = None) -> None:
        """Let patients come, evenly over some seconds; ``heard`` is called with how many have come."""
        begun = time.monotonic()
        while self.arrived < self.patients and not (ended is not None and ended.is_set()):
            due = min(int((time.monotonic() - begun) / seconds * self.patients), self.patients)
            while self.arrived < due:
                self._arrive(min(AT_ONCE, due - self.arrived))
            self._report(self._now())
            heard(self.arrived)
            time.sleep(min(0.1, seconds / self.patients))
        self._report(None)

    def _arrive(self, count: int) -> None:
        numbers = range(self.arrived, self.arrived + count)
        patients = [self._world.patient(number) for number in numbers]
        names = [f"patient-{number + 1}" for number in numbers]
        given = self._client.decide_many(EXPERIMENT, patients, ids=names)
        at = self._now()
        for number, patient, assigned in zip(numbers, patients, given, strict=True):
            seen = self._world.outcome(patient, _dose(assigned.arm))
            for place, (metric, days) in enumerate(DELAYS.items()):
                entry = (at + days * DAY, 2 * number + place, assigned.id, {metric: seen[metric]})
                heapq.heappush(self._due, entry)
        self.arrived += count

    def _report(self, until: int | None) -> None:
        """Tell what is known by now; all that is still to come if ``until`` is None."""
        told: dict[str, dict[str, float]] = {}
        while self._due and (until is None or self._due[0][0] <= until):
            *_, id_, values = heapq.heappop(self._due)
            told[id_] = told.get(id_, {}) | values
        for start in range(0, len(told), MAX_TOLD):
            self._client.report_many(EXPERIMENT, dict(islice(told.items(), start, start + MAX_TOLD)))


def _dose(arm: str) -> float:
    return DOSES[[each["name"] for each in DECLARATION["arms"]].index(arm)]
