"""How large a store becomes when recent values are corrected again and again, and how many snapshots it ever holds.

    python benchmarks/service_corrections.py        # some minutes; writes results/corrections.json and .md

Without HTTP: a writer on an SQLite file. Between two corrections there is a batch of decisions and their outcomes; each
correction concerns one of the last outcomes and counts before the next batch; the log is folded beside the turns.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from conebandit.experiment.declaration import Experiment
from conebandit.service.engine.writer import Writer
from conebandit.service.stores.base import open_store
from conebandit.service.stores.session import Session, UnfinishedSnapshot
from report import Report, machine, versions
from servers import DECLARATION

EVENTS, CORRECTIONS, ROWS = 100_000, 500, 10
POLICY = "ConeTree"  # its state grows with the log, and so do its snapshots
MEGABYTE = 2**20


class CountingStore:
    """A store that notes how many snapshots there are after each time that one was begun."""

    def __init__(self, address: str) -> None:
        self._store = open_store(address)
        self.write, self.read, self.close = self._store.write, self._store.read, self._store.close
        self.seals, self.now = self._store.seals, self._store.now
        self.vacuum, self.shared = self._store.vacuum, self._store.shared
        self.most = 0
        begin = Session.begin_snapshot

        def begin_and_count(session: Session, experiment: str, seq: int) -> UnfinishedSnapshot | None:
            begun = begin(session, experiment, seq)
            self.most = max(self.most, len(session.snapshot_heads(experiment)))
            return begun

        setattr(Session, "begin_snapshot", begin_and_count)  # noqa: B010  (mypy would not have it otherwise)


def ask(writer: Writer, what: str, *args: Any) -> Any:
    """Have the writer do something with the experiment."""
    return writer.submit("bench", lambda turn: getattr(turn, what)("bench", *args)).result()


def batch(writer: Writer, rng: np.random.Generator, decisions: int) -> str:
    """Some decisions and their outcomes; the id of one of them."""
    asked = [{"context": {"age": a, "load": b}} for a, b in rng.random((decisions, 2)).tolist()]
    made = ask(writer, "decide", asked)
    values = [{"revenue": a, "latency": b} for a, b in rng.random((decisions, 2)).tolist()]
    ask(writer, "report", [{"id": m.id, "values": v} for m, v in zip(made, values, strict=True)])
    return str(made[rng.integers(decisions)].id)


def settle(writer: Writer) -> None:
    """Wait until the correction counts."""
    while ask(writer, "describe").revising:
        time.sleep(0.002)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=EVENTS)
    parser.add_argument("--corrections", type=int, default=CORRECTIONS)
    parser.add_argument("--to", type=Path, default=Path(__file__).parent / "results" / "corrections")
    asked = parser.parse_args()
    report = Report(
        title=f"A store with {asked.events} events and {asked.corrections} corrections of recent values ({POLICY})",
        command=f"python benchmarks/service_corrections.py --events {asked.events} --corrections {asked.corrections}",
        versions=versions("conebandit", "numpy"),
        machine=machine(),
    )
    rng, declared = np.random.default_rng(0), Experiment.from_dict({**DECLARATION, "policy": {"name": POLICY}})
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "log.db"
        store = CountingStore(str(path))
        writer = Writer(store)
        writer.submit("bench", lambda turn: turn.create(declared)).result()
        for done in range(1, asked.corrections + 1):
            id_ = batch(writer, rng, asked.events // asked.corrections // 2)
            ask(writer, "report", [{"id": id_, "values": {"revenue": float(rng.random())}}])
            settle(writer)
            if done % max(1, asked.corrections // ROWS) == 0:
                report.add(**_row(store, path, ask(writer, "describe").events, done))
        writer.close()
    report.show()
    report.write(asked.to)


def _row(store: CountingStore, path: Path, events: int, corrections: int) -> dict[str, Any]:
    with store.read() as session:
        kept = session.snapshots("bench")
        parts = [len(part) for seq in kept for part in session.snapshot("bench", seq)]
        [(free,)] = session._run("PRAGMA freelist_count")
        [(log,)] = session._run("SELECT sum(length(body)) FROM events")
    return {
        "events": events,
        "corrections": corrections,
        "file_megabytes": sum(file.stat().st_size for file in path.parent.glob(f"{path.name}*")) / MEGABYTE,
        "log_megabytes": log / MEGABYTE,
        "snapshots_megabytes": sum(parts) / MEGABYTE,
        "free_megabytes": free * 4096 / MEGABYTE,
        "snapshots": len(kept),
        "most_snapshots_so_far": store.most,
    }


if __name__ == "__main__":
    main()
