"""Does another version of the code do the same? Runs, saved policies and a service's log, compared bit for bit.

    python benchmarks/same.py BEFORE/src AFTER/src

Each side runs in a process of its own with its own sources. Then both read what the older one has written: saved
policies are loaded and go on learning, logs are imported, verified and continued. Exit code 1 if anything differs.
"""

from __future__ import annotations

import argparse
import csv
import importlib
import io
import json
import os
import random
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np

HORIZON = 12_000
TASKS = ("paper", "smooth-5", "metrics-3", "narrow")  # for every policy
NEW_KEYS = ("probabilities",)  # of a decision's body or choice; a log without them is the same log
NEW_COLUMNS = ("choice_probabilities",)  # of a table
SERVED: tuple[tuple[dict[str, Any], int], ...] = (  # with how many requests
    ({"name": "LinearParetoUCB"}, 2000),
    ({"name": "ConeTree", "preset": "adaptive"}, 600),
    ({"name": "ConeTree", "preset": "sound"}, 600),
    ({"name": "ConeKernel", "n_features": 32}, 600),
)


def find(name: str, *modules: str) -> Any:
    """Something by its name, from the first of some modules that exists and has it: rooms move."""
    for module in modules:
        try:
            return getattr(importlib.import_module(module), name)
        except (ImportError, AttributeError):
            continue
    raise ImportError(f"{name} is in none of {', '.join(modules)}")


def digest(*parts: Any) -> str:
    """A checksum of arrays (with shape and type), bytes, and anything that JSON can hold."""
    total = blake2b(digest_size=12)
    for part in parts:
        if isinstance(part, np.ndarray):
            total.update(f"{part.shape}{part.dtype}".encode())
            total.update(np.ascontiguousarray(part).tobytes())
        else:
            total.update(part if isinstance(part, bytes) else json.dumps(part, sort_keys=True).encode())
    return total.hexdigest()


# ---- one side -------------------------------------------------------------------------------------------------------


def contest() -> tuple[dict[str, Any], dict[str, Any]]:
    """Policies and tasks by name."""
    contenders = find("CONTENDERS", "conebandit.studies.bench", "conebandit.experiments.bench")
    suite = find("SUITE", "conebandit.studies.suite", "conebandit.experiments.suite")
    return {c.name: c for c in contenders}, {t.name: t for t in suite}


def runs(folder: Path) -> Iterator[tuple[str, str]]:
    """Every policy in some tasks, the default policy in all of them; each run's policy is saved."""
    import conebandit as cb  # noqa: PLC0415  (of the side that is asked)

    contenders, tasks = contest()
    for name, contender in contenders.items():
        for task in tasks if name == "default" else TASKS:
            world = tasks[task].make(1)
            run = cb.simulate(contender.make(world, 1), world, HORIZON, seed=1)
            arrays = [run.contexts, run.arms, run.rewards, run.propensities, run.reported, run.active]
            yield f"run {name} {task}", digest(*arrays, *(run.series[key] for key in sorted(run.series)))
            if hasattr(run.policy, "save") and task in TASKS:
                path = folder / f"{name} {task}.npz"
                run.policy.save(path)
                yield f"file {path.name}", digest(path.read_bytes())


def loaded(folder: Path) -> Iterator[tuple[str, str]]:
    """What policies that were saved in a folder decide, report and learn."""
    import conebandit as cb  # noqa: PLC0415

    for path in sorted(folder.glob("*.npz")):
        policy = cb.load_policy(path)
        rng, answers = np.random.default_rng(3), []
        for key in range(300):
            x = rng.uniform(size=policy.context_dim)
            decision, front = policy.decide(x, key), policy.front(x)
            answers += [np.array([decision.arm, decision.propensity]), decision.mask]
            answers += [np.array(front.arms), front.means, front.radii]
            reward = rng.normal(size=policy.n_objectives)
            reward[rng.uniform(size=reward.size) < 0.2] = np.nan
            policy.observe(x, decision.arm, reward)
        yield f"loaded {path.name}", digest(*answers)


class Service:
    """Turns on a store with a clock that the script sets."""

    def __init__(self, path: Path) -> None:
        self.turn = find("Turn", "conebandit.service.engine.turn", "conebandit.service.engine")
        try:
            self.ledger = find("Ledger", "conebandit.service.engine.ledger")()
        except ImportError:
            self.ledger = find("Engine", "conebandit.service.engine.turn", "conebandit.service.engine")()
        open_store = find("open_store", "conebandit.service.stores.base", "conebandit.service.store")
        self.store, self.now = open_store(str(path)), 1_000_000

    def __call__(self, method: str, *args: Any) -> Any:
        """What a turn of its own answers."""
        if hasattr(self.ledger, "transaction"):
            with self.ledger.transaction(self.store, self.now) as transaction:
                return getattr(self.turn(transaction), method)(*args)
        with self.store.write() as session:
            turn = self.turn(self.ledger, session, self.now)
            answer = getattr(turn, method)(*args)
            turn.finish()
        return answer

    def write_snapshot(self, id_: str) -> None:
        """Keep the state in the store."""
        if hasattr(self.ledger, "transaction"):
            with self.ledger.transaction(self.store, self.now) as transaction:
                transaction.write_snapshot(id_)
        else:
            with self.store.write() as session:
                self.turn(self.ledger, session, self.now).snapshot(id_)

    def bodies(self, id_: str) -> list[Any]:
        """The log without its seals, which cover keys that are new."""
        with self.store.read() as session:
            rows = session.events(id_, limit=10**6)
        return [[row.seq, row.kind, row.decision, without_news(json.loads(row.text))] for row in rows]


def without_news(body: dict[str, Any]) -> dict[str, Any]:
    """The body as it was written before: without keys that are new, and with a version that is text."""
    old = {key: value for key, value in body.items() if key not in NEW_KEYS}
    if isinstance(old.get("choice"), dict):
        old["choice"] = without_news(old["choice"])
    if isinstance(version := old.get("version"), dict):
        old["version"] = f"{version['policy']}-{version['library']}-{version['position']}"
    return old


def without_new_columns(table: bytes) -> list[list[str]]:
    """The cells of a table in CSV, without columns that are new."""
    rows = list(csv.reader(io.StringIO(table.decode())))
    kept = [i for i, name in enumerate(rows[0]) if name not in NEW_COLUMNS]
    return [[row[i] for i in kept] for row in rows]


def declaration(id_: str, policy: dict[str, Any]) -> dict[str, Any]:
    return {
        "id": id_,
        "arms": ["old", "new", "bold"],
        "metrics": [
            {"name": "revenue"},
            {"name": "latency", "direction": "min", "worst": 10.0, "window": "1h", "default": 10.0},
        ],
        "context": [
            {"name": "age", "low": 18, "high": 98, "out_of_range": "clip", "missing": 40},
            {"name": "device", "levels": ["phone", "desk"]},
        ],
        "policy": policy,
        "seed": 7,
    }


def use(service: Service, id_: str, events: int, seed: int) -> None:
    """Decisions, outcomes in parts, late and corrected, arms that come and go, modes: until the log is so long."""
    rng, ids = random.Random(seed), [f"{seed}-first"]
    service("decide", id_, [{"id": ids[0], "context": {"age": 30, "device": "desk"}}])
    changes = {0.3: ("add_arm", f"extra{seed}"), 0.5: ("set_mode", "shadow"), 0.6: ("set_mode", "live")}
    changes |= {0.7: ("retire_arm", "bold"), 0.8: ("set_mode", "off"), 0.85: ("set_mode", "live")}
    done = 0
    while done < events:
        for part in [part for part in changes if done >= part * events]:
            method, value = changes.pop(part)
            service(method, id_, value)
        service.now += rng.randint(0, 200_000)
        if rng.random() < 0.5:
            ids.append(f"{seed}-{len(ids)}")
            context = {"age": rng.uniform(0, 120), "device": rng.choice(["phone", "desk"])}
            service("decide", id_, [{"id": ids[-1], "context": context}])
        else:  # often a value that is known already: a repetition or a correction
            names = rng.sample(["revenue", "latency"], rng.randint(1, 2))
            about = rng.choice(ids[-12:] if rng.random() < 0.95 else ids)
            service("report", id_, [{"id": about, "values": {n: float(rng.randint(0, 12)) for n in names}}])
        done += 1


def logs(folder: Path) -> Iterator[tuple[str, str]]:
    """A log for each of some policies, exported."""
    experiment = find("Experiment", "conebandit.experiment.declaration", "conebandit.service.experiment")
    export = find("export", "conebandit.service.export", "conebandit.service.tables")
    service = Service(folder / "log.db")
    for number, (policy, requests) in enumerate(SERVED):
        id_ = f"e{number}"
        service("create", experiment.from_dict(declaration(id_, policy)))
        use(service, id_, requests, seed=number)
        content = b"".join(export(service.store, id_, "jsonl"))
        (folder / f"{id_}.jsonl").write_bytes(content)
        yield f"log {id_} without seals", digest(service.bodies(id_))
        yield f"log {id_} as exported", digest(content)
        yield f"table {id_}", digest(without_new_columns(b"".join(export(service.store, id_, "csv"))))
        yield f"state {id_}", digest(state_of(service, id_))
        yield f"snapshot {id_}", digest(*snapshot_of(service, id_))
    service.store.close()


def state_of(service: Service, id_: str) -> Any:
    answer = service("digest", id_)
    return (answer if isinstance(answer, dict) else answer.to_dict())["state"]


def snapshot_of(service: Service, id_: str) -> list[bytes]:
    """The parts of a snapshot, without the seal of the last event, which covers keys that are new."""
    service.write_snapshot(id_)
    with service.store.read() as session:
        header, *parts = list(session.snapshot(id_, session.snapshots(id_)[0]))
    known = {key: value for key, value in json.loads(header).items() if key != "head"}
    return [json.dumps(known).encode(), *parts[:-1]]


def imported(folder: Path) -> Iterator[tuple[str, str]]:
    """What logs that were exported into a folder lead to, and how they go on."""
    restore = find("restore", "conebandit.service.log.restore", "conebandit.service.imports")
    from_lines = find("from_lines", "conebandit.service.stores.records", "conebandit.service.events")
    verify = find("verify", "conebandit.service.log.verify", "conebandit.service.verify")
    with tempfile.TemporaryDirectory() as scratch:
        service = Service(Path(scratch) / "log.db")
        for path in sorted(folder.glob("*.jsonl")):
            with path.open(encoding="utf-8", newline="\n") as file:
                id_ = restore(service.store, from_lines(file))
            with service.store.read() as session:
                found = verify(session, id_, every=True)
            counts = [found.events, found.decisions, found.recomputed]
            yield f"imported {id_}", digest([found.state, *counts, list(found.problems)])
            if found.problems:
                print(f"{path.name}: {found.problems}", file=sys.stderr)
            service.now = 10**12
            use(service, id_, 200, seed=99)
            yield f"continued {id_} without seals", digest(service.bodies(id_))
            yield f"continued {id_}, its state", digest(state_of(service, id_))
        service.store.close()


# ---- both sides -----------------------------------------------------------------------------------------------------


def one_side(folder: Path, other: Path | None) -> None:
    steps = [runs(folder), logs(folder)] if other is None else [loaded(other), imported(other)]
    found = {name: value for step in steps for name, value in step}
    (folder / ("own.json" if other is None else "other.json")).write_text(json.dumps(found, indent=1))


def ask(source: Path, *arguments: Path) -> subprocess.Popen[bytes]:
    environment = {**os.environ, "PYTHONPATH": str(source.resolve())}
    return subprocess.Popen([sys.executable, __file__, "--side", *map(str, arguments)], env=environment)


def compare(before: Path, after: Path) -> bool:
    """Whether both sides do the same; prints what differs."""
    with tempfile.TemporaryDirectory() as scratch:
        folders = [Path(scratch) / "before", Path(scratch) / "after"]
        for folder in folders:
            folder.mkdir()
        same = True
        for stage in ("own", "other"):
            others = [] if stage == "own" else [folders[0]]  # what the older one has written
            sides = [ask(source, folder, *others) for source, folder in zip((before, after), folders, strict=True)]
            codes = [side.wait() for side in sides]
            if any(codes):
                raise SystemExit("one of the sides has failed")
            a, b = (json.loads((folder / f"{stage}.json").read_text()) for folder in folders)
            different = [name for name in a | b if a.get(name) != b.get(name)]
            print(f"{len(a) - len(different)} of {len(a)} the same: {_kinds(a)}")
            for name in different:
                print(f"  different: {name}")
            same &= not different
    return same


def _kinds(found: dict[str, str]) -> str:
    kinds = [name.split()[0] for name in found]
    return ", ".join(f"{kinds.count(kind)} x {kind}" for kind in dict.fromkeys(kinds))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--side", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("paths", type=Path, nargs="+", metavar="SOURCE")
    options = parser.parse_args()
    if options.side:
        one_side(options.paths[0], options.paths[1] if len(options.paths) > 1 else None)
    elif len(options.paths) != 2:
        parser.error("give two source folders: before and after")
    else:
        sys.exit(not compare(*options.paths))


if __name__ == "__main__":
    main()
