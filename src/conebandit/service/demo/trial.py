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


class HurriedClock:
    """Milliseconds since 1970 by a clock that can be made to run fast; before and after, it runs as clocks do.

    Parameters
    ----------
    start
        The time that it shows first.
    """

    def __init__(self, start: int) -> None:
        self._shown, self._since, self._speed = float(start), time.monotonic(), 1.0
        self.last = start  # what it has shown last

    def __call__(self) -> int:
        """The time."""
        self.last = round(self._shown + 1000 * (time.monotonic() - self._since) * self._speed)
        return self.last

    def run(self, speed: float) -> None:
        """Run at this speed from now on."""
        self._shown, self._since, self._speed = float(self()), time.monotonic(), speed


@contextmanager
def running(port: int = 0) -> Iterator[tuple[str, Client, HurriedClock]]:
    """A service on a database that is gone afterwards: its address, a client, and its clock, which may be hurried."""
    clock = HurriedClock(system_clock() - DAYS * DAY)  # so that the trial ends about now
    steady = SteadyClock(clock, lambda: clock.last)  # both at the same moment: another one may be minutes later
    with tempfile.TemporaryDirectory(prefix="conebandit-demo-", ignore_cleanup_errors=True) as folder:
        where = str(Path(folder) / "log.db")
        with serving(where, port=port, clock=steady) as address, Client(address, timeout=PATIENCE) as client:
            yield address, client, clock


class Trial:
    """The trial itself, patient by patient.

    Parameters
    ----------
    client
        Of the service.
    clock
        Its clock.
    seed
        Of the patients.
    patients
        How many come.
    """

    def __init__(self, client: Client, clock: HurriedClock, seed: int = 0, patients: int = PATIENTS) -> None:
        self._client, self._clock, self._world, self.patients = client, clock, World(seed), patients
        self._due: list[tuple[int, int, str, dict[str, float]]] = []  # when, a number, of which decision, what
        self.arrived = 0

    def begin(self) -> None:
        """Declare it; whatever must be compiled is compiled now."""
        self._client.create(DECLARATION)

    def run(self, seconds: float, heard: Heard = lambda _: None, ended: threading.Event | None = None) -> None:
        """Let patients come, evenly over some seconds; ``heard`` is called with how many have come."""
        begun = time.monotonic()
        self._clock.run(DAYS * DAY / (1000 * seconds))
        while self.arrived < self.patients and not (ended is not None and ended.is_set()):
            due = min(int((time.monotonic() - begun) / seconds * self.patients), self.patients)
            while self.arrived < due:
                self._arrive(min(AT_ONCE, due - self.arrived))
            self._report(self._clock())
            heard(self.arrived)
            time.sleep(min(0.1, seconds / self.patients))
        self._clock.run(1.0)
        self._report(None)

    def _arrive(self, count: int) -> None:
        numbers = range(self.arrived, self.arrived + count)
        patients = [self._world.patient(number) for number in numbers]
        names = [f"patient-{number + 1}" for number in numbers]
        given = self._client.decide_many(EXPERIMENT, patients, ids=names)
        at = self._clock()
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
