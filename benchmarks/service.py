"""What the service costs: decisions per second and latency beside a bare endpoint that commits one row, and memory.

``python benchmarks/service.py load`` for SQLite and PostgreSQL (if its binaries are installed), ``... disturb`` for
reading beside deciding, ``... correct`` for deciding beside a correction of the oldest outcome and a new arm,
``... memory`` for a million events, ``... crash`` for what is left after fifty kills.
Everything runs on loopback, one load generator beside one server process, and is bounded in time.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path
from typing import Any

from servers import postgres
from service_crash import crash
from service_load import compare, correct, disturb
from service_memory import memory
from service_page import service_page

RESULTS = Path(__file__).parent / "results"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["load", "disturb", "correct", "memory", "crash"])
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--policy", default="ConeTree")
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--version", default="now", help="correct: what the rows are called")
    given = parser.parse_args()
    if given.what == "crash":
        page = crash(given.kills)
        (RESULTS / "crash.md").write_text(page)
    else:
        with tempfile.TemporaryDirectory() as folder:
            page = write(given.what, measure(given, Path(folder)))
    print(page)


def measure(given: argparse.Namespace, folder: Path) -> Any:
    """The results of a part, together with earlier ones where it is measured in several runs."""
    address = f"{folder}/log.db"
    if given.what == "load":
        with postgres() as server:
            stores = {"SQLite": address} | ({"PostgreSQL": server.address} if server else {})
            return [compare(name, where) for name, where in stores.items()]
    if given.what == "disturb":
        return disturb(folder)
    if given.what == "correct":
        return earlier("correct") | {given.version: correct(address, min(given.events, 100_000))}
    return earlier("memory") | {given.policy: memory(given.events, given.policy, address)}


def read_results() -> dict[str, Any]:
    path = RESULTS / "service.json"
    found: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    return found


def earlier(part: str) -> dict[str, Any]:
    """What was measured before."""
    found: dict[str, Any] = read_results().get(part, {})
    return found


def write(part: str, value: Any) -> str:
    """Put a part into the results, as JSON and as a page; the page."""
    results = read_results() | {part: value}
    (RESULTS / "service.json").write_text(json.dumps(results, indent=1) + "\n")
    page = service_page(results)
    (RESULTS / "service.md").write_text(page)
    return page


if __name__ == "__main__":
    main()
