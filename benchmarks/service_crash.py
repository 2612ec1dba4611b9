"""What is left after the service, or its database, was killed at random moments."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))  # what kills and starts servers is shared with the tests
from tests.service.crash import kill_the_database, kill_the_service, with_everything

from report import side_by_side
from servers import DECLARATION, postgres

CRASH_CONTEXT = [{"name": "age", "low": 18, "high": 98}, {"name": "device", "levels": ["phone", "desk"]}]
FOUND = {
    "kills": "times",
    "decisions": "decisions acknowledged",
    "outcomes": "values acknowledged",
    "events": "events in the log",
    "lost": "lost",
    "twice": "there twice",
    "erased": "decisions of units that were erased",
    "left": "of those in the log with their data",
    "stops": "stops by safety rules in the log",
    "recomputed": "decisions that `verify` made again",
    "revisions": "revisions in the log, for corrections",
    "snapshots": "snapshots that `verify` compared",
    "agrees": "`verify` and the state of every process agree",
    "fronts_differ": "processes that answer otherwise than the first",
    "seconds": "seconds",
}


def crash(kills: int) -> str:
    """Kill the service on SQLite, and PostgreSQL under four services, while decisions and outcomes come in; a page."""
    declared = {**DECLARATION, "id": "checkout", "policy": {"name": "LinearParetoUCB"}, "context": CRASH_CONTEXT}
    declared = with_everything(declared)
    with tempfile.TemporaryDirectory() as folder, postgres() as server:
        found = {"the service (SQLite, one process)": kill_the_service(Path(folder), declared, kills)}
        if server:
            what = "the database (PostgreSQL, four processes; every fifth time one of those, too)"
            found[what] = kill_the_database(server, declared, kills)
    lines = [
        "# Killed at random moments",
        "",
        f"Made by `python benchmarks/service.py crash --kills {kills}`.",
        "",
        "Four callers decide for units that keep their arms, report, correct, retract, void, erase a unit now and",
        "then, and lift what safety rules have stopped, without a pause. SIGKILL strikes while they are being",
        "answered; they try again with the same ids until they are.",
        "",
        "",
    ]
    return "\n".join(lines) + side_by_side("killed", FOUND, found)
