"""Kill the service, or its database, again and again under load, and count what became of what was acknowledged."""

import random
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import conebandit as cb
from conebandit.service.log.entries import read
from conebandit.service.log.events import Amendment, Decided, Reported, Retracted, Voided
from conebandit.service.log.verify import verify
from conebandit.service.stores.base import open_store
from tests.service.databases import Postgres
from tests.service.load import Load, Process, wait_for_revisions

RULE = "slow"


def with_everything(declaration: dict[str, Any]) -> dict[str, Any]:
    """With units that keep their arms, and with safety rules that fire again and again under the load."""
    metrics = [{**metric, "range": [0, 10]} for metric in declaration["metrics"]]
    rules = [
        {"name": RULE, "metric": "latency", "above": 0.1, "error": 0.05, "then": "suspend"},  # it is 0.5 on average
        {"arm": declaration["arms"][-1], "at_most": 40, "per": "1d"},
        {"burn_in": 30},
    ]
    return {**declaration, "metrics": metrics, "rules": rules, "unit": {"sticky": True}}


@dataclass(frozen=True)
class Found:
    """What is in the log after the load, beside what was acknowledged."""

    kills: int
    decisions: int  # acknowledged
    outcomes: int  # acknowledged values
    events: int
    lost: int  # acknowledged, and not in the log as it was acknowledged
    twice: int  # decisions or values that are in the log more than once
    recomputed: int  # decisions that verify made again
    revisions: int  # in the log, for corrections
    snapshots: int  # that verify compared
    agrees: bool  # verify, and every process has the state that it rebuilt
    fronts_differ: int  # processes whose front or retried decision is not that of the first
    erased: int  # decisions of units that were erased, with acknowledgement
    left: int  # of those that are in the log with their data
    stops: int  # by safety rules, in the log
    seconds: int


def kill_the_service(folder: Path, declaration: dict[str, Any], kills: int) -> Found:
    """One process on SQLite, killed and started again."""
    rng = random.Random(5)
    address = str(folder / "log.db")
    server = Process(address)
    server.wait_until_ready()
    with cb.Client(server.url) as client:
        client.create(declaration)
    load = Load([server.url], **_options(declaration))
    try:
        for _ in range(kills):
            load.go_on_for(rng.randrange(1, 60))
            time.sleep(rng.uniform(0.0, 0.02))
            server.kill()
            server.start()
            server.wait_until_ready()
        load.go_on_for(20)
    finally:
        load.stop()
        try:
            states, differ = _ask_all([server])
        finally:
            server.stop()
    return _found(address, load, kills, states, differ)


def kill_the_database(postgres: Postgres, declaration: dict[str, Any], kills: int) -> Found:
    """Four processes on PostgreSQL, which is killed and started again; every fifth time one of the four as well."""
    rng = random.Random(6)
    address = postgres.fresh_database("crash_with_units" if "unit" in declaration else "crash")
    servers = [Process(address) for _ in range(4)]
    for server in servers:
        server.wait_until_ready()
    with cb.Client(servers[0].url) as client:
        client.create(declaration)
    load = Load([server.url for server in servers], **_options(declaration))
    try:
        for i in range(kills):
            load.go_on_for(rng.randrange(1, 60))
            time.sleep(rng.uniform(0.0, 0.02))
            postgres.kill()
            if i % 5 == 4:
                servers[i % 4].kill()
            postgres.restart()
            if i % 5 == 4:
                servers[i % 4].start()
        for server in servers:
            server.wait_until_ready()
        load.go_on_for(20)
    finally:
        load.stop()
        try:
            states, differ = _ask_all(servers)
        finally:
            for server in servers:
                server.stop()
    return _found(address, load, kills, states, differ)


def _options(declaration: dict[str, Any]) -> dict[str, Any]:
    """What the load does beside deciding and reporting."""
    return {"units": "unit" in declaration, "rule": RULE if "rules" in declaration else None}


def _ask_all(servers: list[Process]) -> tuple[list[dict[str, Any]], int]:
    """The states of all processes, and how many answer something else than the first."""
    context: dict[str, float | str | None] = {"age": 30, "device": "phone"}
    clients = [cb.Client(server.url, retries=100, timeout=120.0) for server in servers]
    wait_for_revisions(*clients)
    unit = "one" if "unit" in clients[0].show("checkout")["declaration"] else None
    retried = [client.decide("checkout", context, id="once", unit=unit) for client in clients]
    fronts = [client.front("checkout", context) for client in clients]
    states = [client.state("checkout") for client in clients]
    for client in clients:
        client.close()
    differ = sum((r, f) != (retried[0], fronts[0]) for r, f in zip(retried, fronts, strict=True))
    return states, differ


def _found(address: str, load: Load, kills: int, states: list[dict[str, Any]], differ: int) -> Found:
    seconds = round(time.monotonic() - load.started)
    if load.failures:
        raise load.failures[0]
    store = open_store(address)
    with store.read() as session:
        report = verify(session, "checkout", every=True)
        events = session.events("checkout", limit=10**7)
    store.close()
    arms: dict[str, str] = {}
    values: dict[tuple[str | None, str], float] = {}
    times = Counter[tuple[str | None, str, float]]()
    names: dict[str, str] = {}  # of decisions that are not erased
    for entry in map(read, events):
        event = entry.event
        if isinstance(event, Decided) and not event.erased:
            names[event.id] = event.called
            arms[event.called] = event.selection.arm
            times[event.called, "decided", 0.0] += 1
        elif isinstance(event, Amendment) and event.id in names:
            id_ = names[event.id]
            match event:
                case Reported():
                    for name, value in event.values.items():
                        values[id_, name] = value
                        times[id_, name, value] += 1
                case Retracted():
                    for name in event.metrics:
                        del values[id_, name]
                        times[id_, f"retracted {name}", 0.0] += 1
                case Voided():
                    times[id_, "voided", 0.0] += 1
    acknowledged = load.acknowledged.items()
    lost = sum(arms.get(id_) != arm for id_, (arm, _) in acknowledged)
    lost += sum(values.get((id_, name)) != v for id_, (_, reported) in acknowledged for name, v in reported.items())
    lost += sum(taken in values for taken in load.retracted)
    lost += sum((id_, "voided", 0.0) not in times for id_ in load.void)
    served = {"events": len(events), "check": events[-1].check, "state": report.state}
    return Found(
        kills=kills,
        decisions=len(acknowledged),
        outcomes=sum(len(reported) for _, (_, reported) in acknowledged),
        events=len(events),
        lost=lost,
        twice=sum(count > 1 for count in times.values()),
        recomputed=report.recomputed,
        revisions=sum(event.kind == "revised" for event in events),
        snapshots=report.snapshots,
        agrees=report.agrees and all(state == served for state in states),
        fronts_differ=differ,
        erased=len(load.erased),
        left=len(load.erased & arms.keys()),
        stops=sum(event.kind == "stopped" for event in events),
        seconds=seconds,
    )
