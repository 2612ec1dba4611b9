"""Units in a long log are erased: what that takes, what is left of them, and what a restored backup needs.

Usage: ``python benchmarks/service_erasure.py [--decisions N] [--units N] [--erased N] [--to results/erasure]``
"""

from __future__ import annotations

import argparse
import io
import sqlite3
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from conebandit.experiment.declaration import Experiment
from conebandit.service import erasure
from conebandit.service.engine.turn import Turn
from conebandit.service.engine.writer import Writer
from conebandit.service.export import export
from conebandit.service.log.restore import restore
from conebandit.service.log.verify import Verification, verify
from conebandit.service.stores.base import open_store
from conebandit.service.stores.records import from_lines
from report import Report, machine, versions
from servers import DECLARATION

DECISIONS, UNITS, ERASED = 20_000, 2000, 50
AT_ONCE = 200  # decisions in a request
POLICY = "ConeTree"  # its state, and so its snapshots, hold contexts
MEGABYTE = 2**20


class Bench:
    """A store in a folder, and what was measured on it."""

    def __init__(self, folder: Path, report: Report, erased: int) -> None:
        self.folder, self.report, self.erased = folder, report, erased
        self.path = folder / "log.db"

    def step(self, words: str, work: Callable[[], Any], path: Path | None = None, **notes: Any) -> Any:
        """Do something, and note how long it took, how large the file is then, and how many erased names it holds."""
        begun = time.perf_counter()
        found = work()
        seconds = time.perf_counter() - begun
        where = path or self.path
        files = [file for file in where.parent.glob(f"{where.name}*") if file.name.removeprefix(where.name) != "-shm"]
        bytes_ = b"".join(file.read_bytes() for file in files)
        left = sum(f"patient-{u}-secret".encode() in bytes_ for u in range(self.erased))
        row = {"step": words, "seconds": seconds, "megabytes": len(bytes_) / MEGABYTE, "erased_names_in_file": left}
        self.report.add(**row, **notes, **(_covered(found) if isinstance(found, Verification) else {}))
        return found

    def fill(self, decisions: int, units: int) -> None:
        """Decisions of units, who come in any order, and their outcomes. The first ones will be erased."""
        rng = np.random.default_rng(0)
        writer, declared = Writer(open_store(str(self.path))), {**DECLARATION, "policy": {"name": POLICY}}
        experiment = Experiment.from_dict({**declared, "unit": {"sticky": False}})
        writer.submit("bench", lambda turn: turn.create(experiment)).result()
        for start in range(0, decisions, AT_ONCE):
            ids = [f"visit-{i}" for i in range(start, min(start + AT_ONCE, decisions))]
            asked = [
                {"id": id_, "context": {"age": a, "load": b}, "unit": f"patient-{u}-secret"}
                for id_, u, (a, b) in zip(
                    ids, rng.integers(units, size=len(ids)), rng.random((len(ids), 2)), strict=True
                )
            ]
            told = [
                {"id": id_, "values": {"revenue": a, "latency": b}}
                for id_, (a, b) in zip(ids, rng.random((len(ids), 2)).tolist(), strict=True)
            ]
            writer.submit("bench", partial(Turn.decide, experiment_id="bench", requests=asked)).result()
            writer.submit("bench", partial(Turn.report, experiment_id="bench", requests=told)).result()
        writer.close()

    def backup(self, copy: Path) -> None:
        """As the manual says."""
        with closing(sqlite3.connect(self.path)) as source:
            source.execute("VACUUM INTO ?", (str(copy),))

    def erase(self, first: int, last: int) -> None:
        """Some of them by their names, as from the command line."""
        erasure.erase_units(str(self.path), "bench", [f"patient-{u}-secret" for u in range(first, last)], "asked")

    def verify(self, path: Path | None = None) -> Verification:
        """Of the log in a file."""
        with closing(open_store(str(path or self.path))) as store, store.read() as session:
            return verify(session, "bench")

    def vacuum(self) -> None:
        """Write the tables anew."""
        with closing(open_store(str(self.path))) as store:
            store.vacuum()

    def export(self, format_: str) -> bytes:
        """As a file."""
        with closing(open_store(str(self.path))) as store:
            return b"".join(export(store, "bench", format_))

    def list(self) -> Path:
        """All erasures, in a file."""
        with closing(open_store(str(self.path))) as store:
            lines = list(erasure.listed(store))
        (self.folder / "erasures.jsonl").write_text("\n".join(lines))
        return self.folder / "erasures.jsonl"


def _covered(found: Verification) -> dict[str, Any]:
    return {
        "agrees": found.agrees,
        "made_again": found.recomputed,
        "resting_on_erased": found.erased,
        "left_out": found.decisions - found.recomputed - found.erased,
    }


def _import(lines: bytes, path: Path) -> None:
    with closing(open_store(str(path))) as store:
        restore(store, from_lines(io.StringIO(lines.decode(), newline="\n")))


def run(bench: Bench, asked: argparse.Namespace) -> None:
    """All steps."""
    copy, imported = bench.folder / "copy.db", bench.folder / "imported.db"
    bench.step("decide and report", lambda: bench.fill(asked.decisions, asked.units))
    bench.step("verify", bench.verify)
    bench.step("back up", lambda: bench.backup(copy), copy)
    bench.step("erase one unit", lambda: bench.erase(0, 1))
    bench.step(f"erase {asked.erased - 1} more", lambda: bench.erase(1, asked.erased))
    bench.step("verify", bench.verify)
    bench.step("vacuum", bench.vacuum)
    lines = bench.step("export as JSON lines", lambda: bench.export("jsonl"))
    bench.step("export as CSV", lambda: bench.export("csv"))
    bench.step("import these lines elsewhere", lambda: _import(lines, imported), imported)
    bench.step("verify there", lambda: bench.verify(imported), imported)
    again = bench.step(
        "erase again in the backup, by the list", lambda: erasure.erase_again(str(copy), bench.list()), copy
    )
    bench.report.rows[-1]["units_erased"] = len(again)
    bench.step("verify there", lambda: bench.verify(copy), copy)


def main() -> None:
    """Read what is asked for, measure, and keep it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--decisions", type=int, default=DECISIONS)
    parser.add_argument("--units", type=int, default=UNITS)
    parser.add_argument("--erased", type=int, default=ERASED)
    parser.add_argument("--to", type=Path, default=Path(__file__).parent / "results" / "erasure")
    asked = parser.parse_args()
    sizes = f"--decisions {asked.decisions} --units {asked.units} --erased {asked.erased}"
    report = Report(
        title=f"{asked.erased} of {asked.units} units erased from {asked.decisions} decisions ({POLICY}, SQLite)",
        command=f"python benchmarks/service_erasure.py {sizes}",
        versions=versions("conebandit", "numpy"),
        machine=machine(),
    )
    with tempfile.TemporaryDirectory() as folder:
        run(Bench(Path(folder), report, asked.erased), asked)
    report.show()
    report.write(asked.to)


if __name__ == "__main__":
    main()
