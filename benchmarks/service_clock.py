"""What becomes of a log when the clock jumps 400 days, forward and back, or was wrong when the service started.

    python benchmarks/service_clock.py        # a minute; writes results/clock.json and .md

Decisions come every ten minutes. Two of three outcomes come half an hour later; of every third decision nothing is
heard, and after an hour a default counts. Time is simulated: the system's clock is what is said to be wrong.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

from conebandit.experiment.declaration import Experiment
from conebandit.service.engine.clock import SteadyClock
from conebandit.service.engine.repair import repair_clock
from conebandit.service.engine.turn import Turn
from conebandit.service.engine.writer import Writer
from conebandit.service.log.verify import verify
from conebandit.service.stores.base import open_store
from report import Report, machine, versions

MINUTE = 60_000  # milliseconds
DAY = 24 * 60 * MINUTE
STEPS = 1000
DECLARATION = {
    "id": "clock",
    "arms": ["a", "b"],
    "metrics": [{"name": "gain"}, {"name": "loss", "direction": "min", "worst": 1, "window": "1h", "default": 1}],
    "policy": {"name": "ParetoUCB1"},
}
Wrong = Callable[[int], int]  # by how many milliseconds the system's clock is ahead at a step
CASES: dict[str, Wrong] = {
    "the clock is right": lambda step: 0,
    "400 days forward and back": lambda step: 400 * DAY if 300 <= step < 600 else 0,
    "400 days back and forward": lambda step: -400 * DAY if 300 <= step < 600 else 0,
    "400 days forward, for good": lambda step: 400 * DAY if step >= 300 else 0,
}


class Service:
    """A writer on a store whose system's clock may be wrong."""

    def __init__(self, path: str) -> None:
        self.path, self.now, self.wrong = path, 1_700_000_000_000, 0
        self.late = 0
        self.start()

    def start(self) -> None:
        """Begin, with whatever the clock says."""
        self._writer = Writer(open_store(self.path), SteadyClock(lambda: self.now + self.wrong, lambda: self.now))
        self._ask(lambda turn: turn.create(Experiment.from_dict(DECLARATION)))

    def stop(self) -> None:
        """End in good order."""
        self._writer.close()

    def _ask(self, work: Callable[[Any], Any]) -> Any:
        return self._writer.submit("clock", work).result()

    def go_on(self, steps: range, wrong: Wrong) -> None:
        """Decide and report."""
        for step in steps:
            self.now += 10 * MINUTE
            self.wrong = wrong(step)
            self._ask(partial(Turn.decide, experiment_id="clock", requests=[{"id": f"d{step}", "context": {}}]))
            if step >= 3 and step % 3:
                told = [{"id": f"d{step - 3}", "values": {"gain": 1.0, "loss": 0.5}}]
                [receipt] = self._ask(partial(Turn.report, experiment_id="clock", requests=told))
                self.late += len(receipt.late)

    def found(self) -> dict[str, Any]:
        """What the log has come to."""
        while self._ask(lambda turn: turn.describe("clock")).revising:
            pass
        learned = self._ask(lambda turn: turn.explain("clock", {})).learned["loss"]
        self.stop()
        with closing(open_store(self.path)) as store, store.read() as session:
            report = verify(session, "clock")
            checks = [record.check for record in session.events("clock", limit=10**6)]
        return {"late": self.late, "learned": learned, "verify": report.agrees and report.whole, "checks": checks}


def jumps(path: str, wrong: Wrong) -> dict[str, Any]:
    """One process, whose clock jumps."""
    service = Service(path)
    service.go_on(range(STEPS), wrong)
    return service.found()


def wrong_at_the_start(path: str) -> dict[str, Any]:
    """A process that starts with a clock 400 days ahead; then one with the right time, a repair, and a day more."""
    service = Service(path)
    service.go_on(range(300), lambda _: 0)
    service.stop()
    service.wrong = 400 * DAY
    service.start()
    service.go_on(range(300, 600), lambda _: 400 * DAY)
    service.stop()
    service.wrong = 0
    with closing(open_store(path)) as store:
        repair_clock(store, "clock", "the clock was a year ahead", "operator", now=service.now)
    service.start()
    service.go_on(range(600, STEPS), lambda _: 0)
    return service.found()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--to", type=Path, default=Path(__file__).parent / "results" / "clock")
    asked = parser.parse_args()
    report = Report(
        title=f"{STEPS} decisions while the clock is wrong",
        command="python benchmarks/service_clock.py",
        versions=versions("conebandit"),
        machine=machine(),
    )
    with tempfile.TemporaryDirectory() as folder:
        right: list[str] = []
        for number, (name, wrong) in enumerate(CASES.items()):
            found = jumps(f"{folder}/{number}.db", wrong)
            right = right or found["checks"]
            report.add(clock=name, **_row(found), same_log="yes" if found["checks"] == right else "no")
        found = wrong_at_the_start(f"{folder}/repaired.db")
        report.add(clock="wrong from a start to the next, then repaired", **_row(found), same_log="")
    report.show()
    report.write(asked.to)


def _row(found: dict[str, Any]) -> dict[str, Any]:
    return {
        "called_late": found["late"],
        "losses_learned": found["learned"],
        "of_decisions": STEPS,
        "verify_agrees": "yes" if found["verify"] else "NO",
    }


if __name__ == "__main__":
    main()
