"""Decisions a second at an edge, events a second into the store, and how stale states are.

``python benchmarks/scale_edge.py`` writes ``results/scale_edge.md``; ``--decisions 20000 --look`` is a quick look.
"""

from __future__ import annotations

import argparse
import gc
import multiprocessing
import os
import random
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import conebandit as cb
from report import Report, machine, versions
from servers import DECLARATION, postgres, running, serving

RESULTS = Path(__file__).parent / "results" / "scale_edge"
POLICIES = ("ConeTree", "LinearParetoUCB", "ConeKernel")
TAUGHT = 2000  # outcomes that the policy knows
AT_ONCE = 1000
Contexts = list[dict[str, float]]


def contexts(n: int) -> Contexts:
    rng = random.Random(0)
    return [{"age": rng.random(), "load": rng.random()} for _ in range(n)]


@contextmanager
def taught(store: str, policy: str) -> Iterator[str]:
    """A service with an experiment that has learned something; its address."""
    with running(*serving(store)) as (port, _), cb.Client(f"http://127.0.0.1:{port}", timeout=300) as client:
        client.create({**DECLARATION, "policy": {"name": policy}})
        rng = random.Random(1)
        for _ in range(0, TAUGHT, AT_ONCE):
            made = client.decide_many("bench", contexts(AT_ONCE))
            client.report_many("bench", {one.id: {"revenue": rng.random(), "latency": rng.random()} for one in made})
        yield client.address


def per_second(work: Callable[[], object], n: int) -> tuple[float, float]:
    """How often, by the clock and by the time of one core."""
    wall, core = time.perf_counter(), time.process_time()
    work()
    return n / (time.perf_counter() - wall), n / (time.process_time() - core)


def deciding(report: Report, folder: Path, n: int) -> None:
    """Alone: the service has gone after the state was there, so nothing is uploaded meanwhile."""
    asked = contexts(AT_ONCE)
    for policy in POLICIES:
        with taught(str(folder / f"{policy}.db"), policy) as address:
            edges = {
                sync: cb.Edge(address, "bench", spool=folder / policy / sync, sync=sync) for sync in ("os", "disk")
            }
        gc.collect()
        gc.freeze()  # as a server does that has started
        ways: dict[str, tuple[str, Callable[[cb.Edge], object], int]] = {
            "decide": ("os", lambda edge: [edge.decide(asked[i % AT_ONCE]) for i in range(n // 5)], n // 5),
            "decide_many (1000)": ("os", lambda edge: [edge.decide_many(asked) for _ in range(n // AT_ONCE)], n),
            "decide_many (1000), on disk": (
                "disk",
                lambda edge: [edge.decide_many(asked) for _ in range(n // AT_ONCE)],
                n,
            ),
        }
        for name, (sync, way, many) in ways.items():
            rates = [per_second(partial(way, edges[sync]), many) for _ in range(3)]
            wall, core = max(rates)
            report.add(what=f"decisions at an edge, {name}", of=policy, a_second=round(wall), of_one_core=round(core))
        for edge in edges.values():
            edge.close()


def uploading(report: Report, folder: Path, n: int) -> None:
    """Spools that are full are uploaded to a service that has just started; until all is in the log."""
    with postgres() as server:
        cases = [("SQLite", 1, str(folder / "uploads.db"))]
        if server:
            cases += [("PostgreSQL", n_edges, server.fresh_database(f"uploads{n_edges}")) for n_edges in (1, 2)]
        for name, n_edges, store in cases:
            spools = [folder / f"{name}-{n_edges}-{i}" for i in range(n_edges)]
            with taught(store, "ConeTree") as address:
                edges = [cb.Edge(address, "bench", spool=spool) for spool in spools]
            for edge in edges:
                for _ in range(n // AT_ONCE // n_edges):
                    edge.decide_many(contexts(AT_ONCE))
                edge.close()
            spooled, before = sum(size_of_spool(spool) for spool in spools), size_of_store(store)
            seconds, acknowledged = upload(store, spools, TAUGHT + n)
            what = f"decisions of {n_edges} edge{'s' if n_edges > 1 else ''} into the store"
            report.add(what=f"{what}, acknowledged", of=name, a_second=round(n / acknowledged))
            report.add(what=f"{what}, in the log", of=name, a_second=round(n / seconds))
            if n_edges == 1:
                report.add(what="bytes of a decision in the spool", of=name, bytes=round(spooled / n))
                kept = size_of_store(store) - before
                report.add(what="bytes of a decision in the store, indexes included", of=name, bytes=round(kept / n))


def size_of_spool(folder: Path) -> int:
    """Bytes of the lines in a spool."""
    return sum(file.stat().st_size for file in folder.glob("*.spool"))


def size_of_store(store: str) -> int:
    """How large a database is, what is written ahead included."""
    if not store.startswith("postgresql"):
        return sum(Path(store + end).stat().st_size for end in ("", "-wal") if Path(store + end).exists())
    import psycopg  # noqa: PLC0415

    with psycopg.connect(store) as connection:
        found = connection.execute("SELECT pg_database_size(current_database())").fetchone()
    assert found is not None
    return int(found[0])


def upload(store: str, spools: list[Path], decisions: int) -> tuple[float, float]:
    """Seconds until all that is in some spools is in the log, and until it was acknowledged."""
    with running(*serving(store)) as (port, _), cb.Client(f"http://127.0.0.1:{port}", timeout=300) as client:
        ready = multiprocessing.Barrier(len(spools) + 1)
        workers = [multiprocessing.Process(target=_upload, args=(client.address, spool, ready)) for spool in spools]
        for worker in workers:
            worker.start()
        ready.wait()
        begun = time.perf_counter()
        for worker in workers:
            worker.join()
        acknowledged = time.perf_counter() - begun
        while client.show("bench")["events"] < decisions + TAUGHT:  # outcomes, and more than the declaration
            time.sleep(0.1)
        return time.perf_counter() - begun, acknowledged


def _upload(address: str, spool: Path, ready: Any) -> None:
    edge = cb.Edge(address, "bench", spool=spool, timeout=300)
    ready.wait()
    edge.flush()
    edge.close()


def staleness(report: Report, folder: Path, seconds: float) -> None:
    """Time from an outcome at the service to the first decision at an edge that knows of it."""
    with taught(str(folder / "stale.db"), "ConeTree") as address, cb.Client(address) as client:
        for refresh in (0.1, 1.0):
            spool = folder / f"stale-{refresh}"
            with cb.Edge(address, "bench", spool=spool, refresh=refresh) as edge:
                waits, oldest, end = [], 0.0, time.monotonic() + seconds
                while time.monotonic() < end:
                    made = client.decide("bench", contexts(1)[0])
                    known, asked = edge.decide(contexts(1)[0]).policy_version, time.monotonic()
                    client.report("bench", made.id, {"revenue": 1.0})
                    while edge.decide(contexts(1)[0]).policy_version == known:
                        oldest = max(oldest, edge.staleness)
                        time.sleep(0.005)
                    waits.append(time.monotonic() - asked)
                report.add(
                    what="seconds until an edge knows of an outcome",
                    of=f"refresh={refresh:g}",
                    mean=sum(waits) / len(waits),
                    longest=max(waits),
                    largest_staleness=oldest,
                )


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--decisions", type=int, default=200_000)
    options.add_argument("--seconds", type=float, default=30.0, help="for staleness")
    options.add_argument("--look", action="store_true", help="print it only")
    given = options.parse_args()
    report = Report(
        title="Decisions at the edge",
        command=f"python benchmarks/scale_edge.py --decisions {given.decisions} --seconds {given.seconds:g}",
        versions=versions("conebandit", "numpy", "numba"),
        machine=machine(f"{os.cpu_count()} cores"),
    )
    with tempfile.TemporaryDirectory() as folder:
        deciding(report, Path(folder), given.decisions)
        uploading(report, Path(folder), given.decisions)
        staleness(report, Path(folder), given.seconds)
    report.show()
    if not given.look:
        report.write(RESULTS)


if __name__ == "__main__":
    main()
