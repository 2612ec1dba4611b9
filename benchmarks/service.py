"""What the service costs: decisions per second and latency beside a bare endpoint that commits one row, and memory.

``python benchmarks/service.py load`` for SQLite and PostgreSQL (if its binaries are installed), ``... disturb`` for
reading beside deciding, ``... correct`` for deciding beside a correction of the oldest outcome and a new arm,
``... memory`` for a million events, ``... crash`` for what is left after fifty kills.
Everything runs on loopback, one load generator beside one server process, and is bounded in time.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import socket
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import uvicorn
from fastapi import FastAPI
from pydantic import BaseModel

import conebandit as cb
from conebandit.experiment.declaration import Experiment
from conebandit.service.engine.turn import Turn
from conebandit.service.engine.writer import Writer
from conebandit.service.stores.base import open_store

sys.path.insert(0, str(Path(__file__).parent.parent))  # what kills and starts servers is shared with the tests
from tests.service.crash import kill_the_database, kill_the_service
from tests.service.databases import Postgres, binaries

from stalls import watched

RESULTS = Path(__file__).parent / "results"
CONNECTIONS = 16
SECONDS = 4.0
DISTURBED, TURNS = 10.0, 8  # seconds
QUIET = 25.0  # ms: turns in which the machine kept a process that does nothing waiting for longer say nothing of us
CORRECTED = 40.0  # seconds
ROUNDS = 3
WANTED = 0.6
BATCH = 500
DECLARATION = {
    "id": "bench",
    "arms": ["a", "b", "c", "d"],
    "metrics": [{"name": "revenue"}, {"name": "latency", "direction": "min", "worst": 10}],
    "context": [{"name": "age", "low": 0, "high": 1}, {"name": "load", "low": 0, "high": 1}],
}
CRASH_CONTEXT = [{"name": "age", "low": 18, "high": 98}, {"name": "device", "levels": ["phone", "desk"]}]
FOUND = {
    "kills": "times",
    "decisions": "decisions acknowledged",
    "outcomes": "values acknowledged",
    "events": "events in the log",
    "lost": "lost",
    "twice": "there twice",
    "recomputed": "decisions that `verify` made again",
    "revisions": "revisions in the log, for corrections",
    "snapshots": "snapshots that `verify` compared",
    "agrees": "`verify` and the state of every process agree",
    "fronts_differ": "processes that answer otherwise than the first",
    "seconds": "seconds",
}
BODY = json.dumps({"context": {"age": 0.25, "load": 0.5}}).encode()


# ---- servers --------------------------------------------------------------------------------------------------------


class Asked(BaseModel):
    """The body of a request."""

    id: str | None = None
    context: dict[str, float]


def bare(address: str, port: int, threaded: bool) -> None:
    """An endpoint that checks a body like ours and commits one row: as little as one can do and keep the promise."""
    local = threading.local()

    def connection() -> Any:
        if not hasattr(local, "connection"):
            if address.startswith("postgresql"):
                import psycopg  # noqa: PLC0415

                local.connection = psycopg.connect(address)
            else:
                local.connection = sqlite3.connect(address, timeout=30, check_same_thread=False)
                local.connection.execute("PRAGMA journal_mode = WAL")
                local.connection.execute("PRAGMA synchronous = FULL")
        return local.connection

    connection().execute("CREATE TABLE IF NOT EXISTS bare (body TEXT)")
    connection().commit()
    insert = "INSERT INTO bare VALUES (%s)" if address.startswith("postgresql") else "INSERT INTO bare VALUES (?)"

    def commit(asked: Asked) -> dict[str, Any]:
        connection().execute(insert, (json.dumps(asked.context),))
        connection().commit()
        return {"id": asked.id, "arm": "a"}

    async def commit_at_once(asked: Asked) -> dict[str, Any]:
        return commit(asked)

    app = FastAPI()
    app.post("/rows")(commit if threaded else commit_at_once)
    app.get("/healthz")(lambda: {"status": "ok"})
    uvicorn.run(app, host="127.0.0.1", port=port, log_level="warning", access_log=False)


@contextmanager
def running(*arguments: str) -> Iterator[tuple[int, int]]:
    """A server process; its port and process id."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = int(free.getsockname()[1])
    process = subprocess.Popen([sys.executable, *arguments, "--port", str(port)], stdout=subprocess.DEVNULL)
    try:
        for _ in range(600):
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz", timeout=5).close()
                break
            except OSError:
                time.sleep(0.05)
        yield port, process.pid
    finally:
        process.terminate()
        process.wait()


# ---- load -----------------------------------------------------------------------------------------------------------


async def _connection(port: int, path: str, body: bytes, until: float, latencies: list[float]) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    head = [f"POST {path} HTTP/1.1", "Host: localhost", "Content-Type: application/json"]
    request = "\r\n".join([*head, f"Content-Length: {len(body)}", "", ""]).encode() + body
    while time.perf_counter() < until:
        start = time.perf_counter()
        writer.write(request)
        answer = await reader.readuntil(b"\r\n\r\n")
        length = int(answer.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
        await reader.readexactly(length)
        if not answer.startswith(b"HTTP/1.1 200"):
            raise RuntimeError(answer.decode())
        latencies.append(time.perf_counter() - start)
    writer.close()


def load(port: int, path: str, connections: int = CONNECTIONS, seconds: float = SECONDS) -> dict[str, float]:
    """Requests per second and latencies in milliseconds of a closed loop of some connections."""
    latencies: list[float] = []

    async def all_of_them() -> None:
        until = time.perf_counter() + seconds
        await asyncio.gather(*(_connection(port, path, BODY, until, latencies) for _ in range(connections)))

    asyncio.run(all_of_them())
    p50, p99 = np.quantile(latencies, [0.5, 0.99]) * 1000
    longest = max(latencies) * 1000
    return {"per_second": len(latencies) / seconds, "p50": float(p50), "p99": float(p99), "longest": longest}


def _teach(port: int, events: int) -> None:
    """Some decisions with outcomes, so that the policy has something to compute with."""
    rng = np.random.default_rng(0)
    with cb.Client(f"http://127.0.0.1:{port}") as client:
        client.create(DECLARATION)
        for _ in range(events // 1000):
            contexts = [{"age": float(a), "load": float(b)} for a, b in rng.random((500, 2))]
            made = client.decide_many("bench", contexts)
            values = rng.random((500, 2)).tolist()
            rewards = {m.id: {"revenue": v[0], "latency": v[1]} for m, v in zip(made, values, strict=True)}
            client.report_many("bench", rewards)


def _service(address: str) -> tuple[str, ...]:
    return ("-m", "conebandit", "serve", "--store", address)


def compare(name: str, address: str) -> dict[str, Any]:
    """The service beside the faster of two bare endpoints, in turns."""
    found: dict[str, list[dict[str, float]]] = {"bare": [], "bare, threads": [], "service": []}
    path = "/experiments/bench/decisions"
    with running(*_service(address)) as (port, _):
        _teach(port, 4000)
        load(port, path, seconds=1)
    for _ in range(ROUNDS):
        with running(__file__, "bare", "--store", address) as (port, _):
            found["bare"].append(load(port, "/rows"))
        with running(__file__, "bare", "--threads", "--store", address) as (port, _):
            found["bare, threads"].append(load(port, "/rows"))
        with running(*_service(address)) as (port, _):
            load(port, path, seconds=0.5)
            found["service"].append(load(port, path))
    rows = {who: {k: median(r[k] for r in runs) for k in runs[0]} for who, runs in found.items()}
    best = max(rows["bare"]["per_second"], rows["bare, threads"]["per_second"])
    return {"store": name, "rows": rows, "ratio": rows["service"]["per_second"] / best, "wanted": WANTED}


def disturb(folder: Path, events: int = 40_000) -> dict[str, Any]:
    """Latency of one caller while others read the front and export a long log, and while they do not, in turns."""
    path = "/experiments/bench/decisions"
    turns: list[dict[str, Any]] = []
    with running(*_service(f"{folder}/log.db")) as (port, _):
        _teach(port, events)
        for _ in range(TURNS):
            with watched(folder) as stalls:
                calm = load(port, path, connections=1, seconds=DISTURBED)
            turns.append({"who": "calm", **calm, **stalls})
            # Readers in a process of their own: in this one they would keep the caller waiting, not the service.
            reader = subprocess.Popen([sys.executable, __file__, "read", "--port", str(port)], stdout=subprocess.PIPE)
            time.sleep(2.0)
            with watched(folder) as stalls:
                busy = load(port, path, connections=1, seconds=DISTURBED)
            exports, fronts = map(int, reader.communicate()[0].split())
            turns.append({"who": "while reading", **busy, **stalls, "exports": exports, "fronts": fronts})
    return {"events": events, "turns": turns}


def read(port: int, seconds: float) -> tuple[int, int]:
    """Export the log and read the front, each again and again; how often."""
    until, reads = time.monotonic() + seconds, Counter[str]()

    def again_and_again(what: str) -> None:
        while time.monotonic() < until:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/experiments/bench/{what}", timeout=60) as answer:
                while answer.read(1 << 16):
                    pass
            reads[what.partition("?")[0]] += 1
            time.sleep(0.01)

    context = "%7B%22age%22:0.5,%22load%22:0.5%7D"
    whats = ("export?format=csv", f"front?context={context}")
    readers = [threading.Thread(target=again_and_again, args=(what,)) for what in whats]
    for reader in readers:
        reader.start()
    for reader in readers:
        reader.join()
    return reads["export"], reads["front"]


# ---- corrections ----------------------------------------------------------------------------------------------------


def correct(address: str, events: int) -> dict[str, Any]:
    """Latency of one caller while the oldest outcome of a long log is corrected, and while an arm is added."""
    path, found = "/experiments/bench/decisions", {}
    with running(*_service(address)) as (port, _), cb.Client(f"http://127.0.0.1:{port}", timeout=300) as client:
        _teach(port, events)
        found["calm"] = load(port, path, connections=1, seconds=CORRECTED)
        [oldest] = client.events("bench", after=1, limit=1)["events"]
        works: dict[str, Callable[[], Any]] = {
            "the oldest outcome is corrected": lambda: client.report("bench", oldest["body"]["id"], {"revenue": 5.0}),
            "an arm is added": lambda: client.add_arm("bench", "e"),
        }
        for name, work in works.items():
            spent: list[float] = []
            beside = threading.Timer(1.0, lambda work=work, spent=spent: spent.append(_until_it_counts(client, work)))
            beside.start()
            found[name] = load(port, path, connections=1, seconds=CORRECTED)
            beside.join()
            found[name]["counts_after"] = spent[0]
    return {"events": events, "rows": found}


def _until_it_counts(client: cb.Client, work: Callable[[], Any]) -> float:
    """Seconds from a change to the first decision that takes it into account."""
    start = time.perf_counter()
    work()
    while client.show("bench").get("revising", False):
        time.sleep(0.1)
    client.decide("bench", {"age": 0.5, "load": 0.5})
    return time.perf_counter() - start


# ---- memory ---------------------------------------------------------------------------------------------------------


def _resident() -> float:
    """Megabytes of this process."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def memory(events: int, policy: str, address: str) -> list[dict[str, Any]]:
    """Memory of writer, engine and store while events come in batches; without HTTP, which keeps nothing."""
    rng, rows = np.random.default_rng(0), []
    writer = Writer(open_store(address))
    latency = {"name": "latency", "direction": "min", "worst": 10, "window": "36h", "default": 10}
    metrics = [{"name": "revenue"}, latency]  # with windows that stay open
    declared = Experiment.from_dict({**DECLARATION, "metrics": metrics, "policy": {"name": policy}})
    writer.submit("bench", lambda turn: turn.create(declared)).result()
    start = time.perf_counter()
    for done in range(0, events + 1, 2 * BATCH):
        if done % (events // 10) == 0:
            resident, spent = _resident(), time.perf_counter() - start
            arrays = sum(a.nbytes for a in writer.submit("bench", _policy_arrays).result()) / 2**20
            rows.append({"events": done, "megabytes": resident, "policy": arrays, "seconds": spent})
        if done < events:
            _batch(writer, rng)
    writer.close()
    return rows


def _policy_arrays(turn: Turn) -> list[Any]:
    """What the policy has learned: the arrays of its state, as far as they are in use."""
    return list(turn.policy("bench").state().values())


def _batch(writer: Writer, rng: np.random.Generator) -> None:
    asked = [{"context": {"age": a, "load": b}} for a, b in rng.random((BATCH, 2)).tolist()]
    made = writer.submit("bench", lambda turn: turn.decide("bench", asked)).result()
    values = [{"revenue": a, "latency": b} for a, b in rng.random((BATCH, 2)).tolist()]
    told = [{"id": m["id"], "values": v} for m, v in zip(made, values, strict=True)]
    writer.submit("bench", lambda turn: turn.report("bench", told)).result()


# ---- crashes --------------------------------------------------------------------------------------------------------


def crash(kills: int) -> None:
    """Kill the service on SQLite, and PostgreSQL under four services, while decisions and outcomes come in."""
    declared = {**DECLARATION, "id": "checkout", "policy": {"name": "LinearParetoUCB"}, "context": CRASH_CONTEXT}
    with tempfile.TemporaryDirectory() as folder, postgres() as server:
        found = [("the service (SQLite, one process)", kill_the_service(Path(folder), declared, kills))]
        if server:
            what = "the database (PostgreSQL, four processes; every fifth time one of those, too)"
            found.append((what, kill_the_database(server, declared, kills)))
    lines = [
        "# Killed at random moments",
        "",
        f"Made by `python benchmarks/service.py crash --kills {kills}`.",
        "",
        "Four callers decide, report and correct without a pause. SIGKILL strikes while they are being answered; they",
        "try again with the same ids until they are.",
        "",
        f"| killed | {' | '.join(what for what, _ in found)} |",
        "|---|" + "---|" * len(found),
    ]
    for name, words in FOUND.items():
        lines.append(f"| {words} | {' | '.join(str(getattr(f, name)) for _, f in found)} |")
    page = "\n".join(lines).replace("True", "yes").replace("False", "NO") + "\n"
    (RESULTS / "crash.md").write_text(page)
    print(page)


# ---- everything -----------------------------------------------------------------------------------------------------


@contextmanager
def postgres() -> Iterator[Postgres | None]:
    """A PostgreSQL server in a temporary folder; None if it is not installed."""
    if binaries() is None:
        yield None
        return
    server = Postgres()
    try:
        yield server
    finally:
        server.stop()


def _write(part: str, value: Any) -> None:
    """Put a part into the results, as JSON and as a page."""
    path = RESULTS / "service.json"
    results = json.loads(path.read_text()) if path.exists() else {}
    results[part] = value
    path.write_text(json.dumps(results, indent=1) + "\n")
    (RESULTS / "service.md").write_text(_page(results))


def _earlier(part: str) -> dict[str, Any]:
    """What was measured before, of parts that are measured in several runs."""
    path = RESULTS / "service.json"
    found: dict[str, Any] = json.loads(path.read_text()).get(part, {}) if path.exists() else {}
    return found


def _page(results: dict[str, Any]) -> str:
    lines = ["# What the service costs", "", "Made by `python benchmarks/service.py`, on loopback, one server process."]
    parts: dict[str, Callable[[Any], list[str]]]
    parts = {"load": _load_lines, "disturb": _disturb_lines, "correct": _correct_lines, "memory": _memory_lines}
    for part, describe in parts.items():
        if part in results:
            lines += ["", *describe(results[part])]
    return "\n".join(lines) + "\n"


def _load_lines(runs: list[dict[str, Any]]) -> list[str]:
    lines = [f"Decisions in a closed loop of {CONNECTIONS} connections; medians of {ROUNDS} rounds in turns.", ""]
    lines += ["| store | who | per second | p50 ms | p99 ms | ratio |", "|---|---|---|---|---|---|"]
    for run in runs:
        for who, r in run["rows"].items():
            ratio = f"{run['ratio']:.2f} (wanted: {run['wanted']})" if who == "service" else ""
            numbers = f"{r['per_second']:.0f} | {r['p50']:.1f} | {r['p99']:.1f}"
            lines.append(f"| {run['store']} | {who} | {numbers} | {ratio} |")
    return [*lines, "", "The ratio is to the faster of the bare endpoints, which commit one row for each request."]


def _disturb_lines(d: dict[str, Any]) -> list[str]:
    reading = [turn for turn in d["turns"] if turn["who"] == "while reading"]
    exports, fronts = (sum(turn[what] for turn in reading) for what in ("exports", "fronts"))
    lines = [
        f"One caller on a log that had {d['events']} events at first (SQLite), {DISTURBED:g} seconds alone, and as",
        f"long while others export the log as CSV and read the front, in {len(reading)} turns ({exports} exports,",
        f"{fronts} fronts). Beside them a process that does next to nothing says how long the machine keeps anybody",
        "waiting, for a core and for the disk (`benchmarks/stalls.py`):",
        "",
        "| | p50 ms | p99 ms | longest ms | latest nap beside it, ms | longest write beside it, ms |",
        "|---|---|---|---|---|---|",
    ]
    for turn in d["turns"]:
        numbers = [f"{turn[what]:.1f}" for what in ("p50", "p99", "longest", "nap", "write")]
        lines.append(f"| {turn['who']} | {' | '.join(numbers)} |")
    quiet = [turn["longest"] for turn in reading if max(turn["nap"], turn["write"]) <= QUIET]
    return [
        *lines,
        "",
        f"Where it kept nobody waiting for more than {QUIET:g} ms, in {len(quiet)} of {len(reading)} turns, the",
        f"longest decision while reading took {max(quiet, default=float('nan')):.1f} ms. Wanted: at most 50.",
    ]


def _correct_lines(runs: dict[str, dict[str, Any]]) -> list[str]:
    lines = [
        f"One caller, {CORRECTED:g} seconds each, on a log that is folded anew meanwhile (SQLite). *Counts after*:",
        "from the change to the first decision that takes it into account.",
        "",
        "| version | events in the log | meanwhile | p50 ms | p99 ms | longest ms | counts after |",
        "|---|---|---|---|---|---|---|",
    ]
    for version, run in runs.items():
        for what, r in run["rows"].items():
            numbers = f"{r['p50']:.1f} | {r['p99']:.1f} | {r['longest']:.1f}"
            counts = f"{r['counts_after']:.1f} s" if "counts_after" in r else ""
            lines.append(f"| {version} | {run['events']} | {what} | {numbers} | {counts} |")
    return lines


def _memory_lines(runs: dict[str, list[dict[str, Any]]]) -> list[str]:
    lines = [
        "Memory of writer, engine and store (SQLite). Decisions and outcomes come in batches of 500; one of the",
        "two metrics has a window of 36 hours and a default, so the windows of all decisions stay open:",
        "",
        "| policy | events in the log | MB | of which arrays of the policy | the rest | seconds |",
        "|---|---|---|---|---|---|",
    ]
    for policy, rows in runs.items():
        for r in rows:
            numbers = f"{r['megabytes']:.0f} | {r['policy']:.1f} | {r['megabytes'] - r['policy']:.0f}"
            lines.append(f"| {policy} | {r['events']} | {numbers} | {r['seconds']:.0f} |")
    return [
        *lines,
        "",
        "The arrays are what the policy has learned, in the library as in the service: a tree keeps its samples,",
        "here 48 bytes each, because a leaf that splits deals them out anew. The service itself looks decisions, ids,",
        "outcomes and open windows up in the store: with a policy of constant size it is flat once caches are full.",
        "With the tree the rest moves by a few MB, because its arrays are copied when they grow and for snapshots.",
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["load", "disturb", "correct", "memory", "crash", "bare", "read"])
    parser.add_argument("--store", default="", help="bare: where to commit")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--threads", action="store_true")
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--policy", default="ConeTree")
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--version", default="now", help="correct: what the rows are called")
    given = parser.parse_args()
    if given.what == "bare":
        bare(given.store, given.port, given.threads)
        return
    if given.what == "read":
        print(*read(given.port, DISTURBED + 4.0))
        return
    if given.what == "load":
        with tempfile.TemporaryDirectory() as folder, postgres() as server:
            stores = {"SQLite": f"{folder}/log.db"} | ({"PostgreSQL": server.address} if server else {})
            _write("load", [compare(name, where) for name, where in stores.items()])
    elif given.what == "crash":
        crash(given.kills)
        return
    elif given.what == "disturb":
        with tempfile.TemporaryDirectory() as folder:
            _write("disturb", disturb(Path(folder)))
    elif given.what == "correct":
        with tempfile.TemporaryDirectory() as folder:
            run = correct(f"{folder}/log.db", min(given.events, 100_000))
            _write("correct", _earlier("correct") | {given.version: run})
    else:
        with tempfile.TemporaryDirectory() as folder:
            rows = memory(given.events, given.policy, f"{folder}/log.db")
            _write("memory", _earlier("memory") | {given.policy: rows})
    print((RESULTS / "service.md").read_text())


if __name__ == "__main__":
    main()
