"""Kill edges, and the service, again and again while edges decide, and count what became of what was answered."""

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import conebandit as cb
from conebandit.service.log.entries import read
from conebandit.service.log.events import Decided, Published, Reported
from conebandit.service.log.verify import verify
from conebandit.service.stores.base import open_store
from tests.service.load import Process

# Imports once, for which a name has to be touched, and forks an edge for each line that it reads. An edge decides until
# it is killed, asks again now and then for what it has decided before, and writes down what was answered: the
# decisions, and the outcomes it took.
EDGES = """
import os, random, sys
import conebandit as cb

cb.Edge
addresses, name, folder = sys.argv[1].split(","), sys.argv[2], sys.argv[3]
for k, _ in enumerate(sys.stdin):
    worker = os.fork()
    if worker:
        print(worker, flush=True)
        os.waitpid(worker, 0)
        continue
    rng = random.Random(k)
    log = os.open(f"{folder}/{name}.answered", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    edge = cb.Edge(rng.choice(addresses), "checkout", spool=f"{folder}/{name}", name=name, refresh=0.05, timeout=30)
    made = {}
    for i in range(10**9):
        n = rng.choice((1, 1, 1, 30))
        asked = [{"age": rng.uniform(18, 98), "device": rng.choice(["phone", "desk"])} for _ in range(n)]
        ids = [f"{name}-{k}-{i}-{j}" for j in range(n)]
        answers = edge.decide_many(asked, ids=ids)
        os.write(log, "".join(f"D {one.id} {one.arm} {one.propensity!r}\\n" for one in answers).encode())
        if i % 3 == 0:
            made[ids[0]] = asked[0], answers[0]
            edge.report(ids[0], {"revenue": float(i)})
            os.write(log, f"O {ids[0]} {float(i)!r}\\n".encode())
        if i % 7 == 0:
            id_ = rng.choice(list(made))
            assert edge.decide(made[id_][0], id=id_) == made[id_][1]
"""


@dataclass(frozen=True)
class FoundOfEdges:
    """What is in the log, beside what edges have answered."""

    kills: int  # of edges
    services_killed: int
    decisions: int  # answered
    outcomes: int  # taken
    events: int
    states: int  # published
    lost: int  # answered, and not in the log as it was answered
    twice: int  # in the log more than once
    refused: int  # by the service
    recomputed: int  # decisions that verify made again
    agrees: bool  # verify, and all decisions were made again
    seconds: int


class _Edge:
    """An edge in a process of its own, killed and started again on its spool."""

    def __init__(self, name: str, folder: Path, urls: list[str]) -> None:
        self._name, self._folder, self._urls = name, folder, urls
        command = [sys.executable, "-c", EDGES, ",".join(urls), name, str(folder)]
        with (folder / f"{name}.stderr").open("w") as stderr:
            self._forks = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr, text=True
            )
        self.start()

    def start(self) -> None:
        assert self._forks.stdin is not None
        assert self._forks.stdout is not None
        print(file=self._forks.stdin, flush=True)
        self._worker = int(self._forks.stdout.readline())

    def kill(self) -> None:
        try:
            os.kill(self._worker, signal.SIGKILL)
        except ProcessLookupError:
            said = (self._folder / f"{self._name}.stderr").read_text()
            raise RuntimeError(f"an edge has ended by itself: {said[-2000:]}") from None

    def answered(self) -> list[list[str]]:
        path = self._folder / f"{self._name}.answered"
        lines = path.read_text().splitlines(keepends=True) if path.exists() else []
        return [line.split() for line in lines if line.endswith("\n")]

    def end(self) -> None:
        assert self._forks.stdin is not None
        assert self._forks.stdout is not None
        with suppress(ProcessLookupError):
            os.kill(self._worker, signal.SIGKILL)
        self._forks.stdin.close()
        self._forks.wait()
        self._forks.stdout.close()

    def upload(self) -> int:
        """Have what is in the spool uploaded; how much was refused."""
        edge = cb.Edge(self._urls[0], "checkout", spool=self._folder / self._name, timeout=20)
        end = time.monotonic() + 120
        while edge.flush() and time.monotonic() < end:
            time.sleep(0.1)
        edge.close()
        refused = self._folder / self._name / "refused.jsonl"
        return len(refused.read_text().splitlines()) if refused.exists() else 0


def kill_edges(folder: Path, store: str, declaration: dict[str, Any], kills: int, n_edges: int = 1) -> FoundOfEdges:
    """Edges on as many services that share a store; each kill strikes an edge, every other one a service, too."""
    rng, begun, services_killed = random.Random(4), time.monotonic(), 0
    services = [Process(store) for _ in range(n_edges)]
    edges: list[_Edge] = []
    try:
        for service in services:
            service.wait_until_ready()
        with cb.Client(services[0].url) as client:
            client.create(declaration)
        edges = [_Edge(f"edge-{i}", folder, [service.url for service in services]) for i in range(n_edges)]
        for kill in range(kills):
            edge, service = edges[kill % n_edges], services[kill // 2 % n_edges]
            wanted, end = len(edge.answered()) + rng.randrange(1, 400), time.monotonic() + 60
            while len(edge.answered()) < wanted and time.monotonic() < end:
                time.sleep(0.01)
            time.sleep(rng.uniform(0.0, 0.1))
            if kill % 2:
                service.kill()
                services_killed += 1
                time.sleep(rng.uniform(0.0, 0.2))
            edge.kill()
            if kill % 2:
                service.start()
                service.wait_until_ready()
            edge.start()
    finally:
        for edge in edges:
            edge.end()
        try:
            refused = sum(edge.upload() for edge in edges)
            _wait_for_uploads(store)
        finally:
            for service in services:
                service.stop()
    answered = [line for edge in edges for line in edge.answered()]
    return _found(store, answered, (kills, services_killed, refused, round(time.monotonic() - begun)))


def _wait_for_uploads(address: str) -> None:
    """Until nothing that edges have uploaded waits to be put into the log."""
    store, end = open_store(address), time.monotonic() + 120
    while time.monotonic() < end:
        with store.read() as session:
            if not session.experiments_with_uploads():
                break
        time.sleep(0.1)
    store.close()


def _found(address: str, answered: list[list[str]], counts: tuple[int, int, int, int]) -> FoundOfEdges:
    store = open_store(address)
    with store.read() as session:
        report = verify(session, "checkout", every=True)
        events = [entry.event for entry in map(read, session.events("checkout", limit=10**7))]
    store.close()
    decided = {event.id: event.selection for event in events if isinstance(event, Decided)}
    values = {event.id: event.values["revenue"] for event in events if isinstance(event, Reported)}
    times = Counter((event.kind, event.id) for event in events if isinstance(event, Decided | Reported))
    decisions = {id_: (arm, float(chance)) for kind, id_, arm, *rest in answered if kind == "D" for chance in rest}
    outcomes = {line[1]: float(line[2]) for line in answered if line[0] == "O"}
    lost = sum(id_ not in decided or decided[id_][1:3] != told for id_, told in decisions.items())
    lost += sum(values.get(id_) != value for id_, value in outcomes.items())
    kills, services_killed, refused, seconds = counts
    return FoundOfEdges(
        kills=kills,
        services_killed=services_killed,
        decisions=len(decisions),
        outcomes=len(outcomes),
        events=len(events),
        states=sum(isinstance(event, Published) for event in events),
        lost=lost,
        twice=sum(count > 1 for count in times.values()),
        refused=refused,
        recomputed=report.recomputed,
        agrees=report.agrees and report.whole,
        seconds=seconds,
    )
