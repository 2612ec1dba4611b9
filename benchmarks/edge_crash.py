"""What is left after edges and services were killed at random moments: ``python benchmarks/edge_crash.py``."""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))  # what kills and starts processes is shared with the tests
from tests.service.edge_crash import FoundOfEdges, kill_edges

from report import side_by_side
from servers import DECLARATION, postgres

RESULTS = Path(__file__).parent / "results" / "edge_crash.md"
CONTEXT = [{"name": "age", "low": 18, "high": 98}, {"name": "device", "levels": ["phone", "desk"]}]
WORDS = {
    "kills": "edges killed",
    "services_killed": "services killed",
    "decisions": "decisions answered",
    "outcomes": "outcomes taken",
    "events": "events in the log",
    "states": "states published",
    "lost": "lost",
    "twice": "there twice",
    "refused": "refused by the service",
    "recomputed": "decisions that `verify` made again",
    "agrees": "`verify` agrees, and has made all of them again",
    "seconds": "seconds",
}


def measured(kills: int) -> dict[str, FoundOfEdges]:
    declared = {**DECLARATION, "id": "checkout", "policy": {"name": "LinearParetoUCB"}, "context": CONTEXT}
    found = {}
    with tempfile.TemporaryDirectory() as folder, postgres() as server:
        for name in ("one", "two"):
            Path(folder, name).mkdir()
        store = str(Path(folder) / "log.db")
        found["one edge, one service on SQLite"] = kill_edges(Path(folder, "one"), store, declared, kills)
        if server:
            store = server.fresh_database("edges")
            words = "two edges, two services on PostgreSQL"
            found[words] = kill_edges(Path(folder, "two"), store, declared, kills, n_edges=2)
    return found


def page(found: dict[str, FoundOfEdges], kills: int) -> str:
    lines = [
        "# Edges that were killed",
        "",
        f"Made by `python benchmarks/edge_crash.py --kills {kills}`.",
        "",
        "Edges decide, alone and in batches, ask again for what they have decided, and report, without a pause.",
        "SIGKILL strikes one of them at a random moment, and every other time a service; both are started again.",
        "",
        "",
    ]
    return "\n".join(lines) + side_by_side("", WORDS, found)


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--kills", type=int, default=20)
    options.add_argument("--look", action="store_true", help="print it only")
    given = options.parse_args()
    text = page(measured(given.kills), given.kills)
    print(text)
    if not given.look:
        RESULTS.write_text(text)


if __name__ == "__main__":
    main()
