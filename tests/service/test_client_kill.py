"""A client with an outbox, killed at random while the service comes and goes: what was acknowledged is in the log."""

import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter, defaultdict

import pytest

import conebandit as cb
from conebandit.service.client import journal
from conebandit.service.http.server import serving
from conebandit.service.stores.base import open_store
from tests.service.databases import free_port
from tests.service.driver import PHONE

DECISIONS = 300
KILLS = 12

# Imports once and forks a reporter for each line that it reads. A reporter reports until it is killed, each value once,
# and writes down what was acknowledged.
REPORTERS = """
import os, random, sys
import conebandit as cb

cb.Client  # loads it, here and not in each reporter
address, outbox, acknowledged, decisions = sys.argv[1:4] + [int(sys.argv[4])]
for k, _ in enumerate(sys.stdin):
    worker = os.fork()
    if worker:
        print(worker, flush=True)
        os.waitpid(worker, 0)
        continue
    rng = random.Random(k)
    log = os.open(acknowledged, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    client = cb.Client(address, outbox=outbox, deadline=0.1)
    for i in range(100_000):
        id_ = f"v{rng.randrange(decisions if i % 5 else 20)}"
        value = k * 100_000 + i
        receipt = client.report("checkout", id_, {"revenue": value})
        os.write(log, f"{id_} {value} {int(receipt.queued)}\\n".encode())
"""


class Service:
    """A service that comes and goes."""

    def __init__(self, store):
        self.port = free_port()
        self._store, self._rng, self._ended = store, random.Random(1), threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self):
        while not self._ended.is_set():
            with serving(self._store, port=self.port):
                self._ended.wait(self._rng.uniform(0.2, 1.0))
            self._ended.wait(self._rng.uniform(0.0, 0.5))

    def end(self):
        self._ended.set()
        self._thread.join()


@pytest.fixture
def store(tmp_path, declaration):
    where = str(tmp_path / "log.db")
    with serving(where) as address, cb.Client(address) as client:
        client.create(declaration)
        client.decide_many("checkout", [PHONE] * DECISIONS, ids=[f"v{i}" for i in range(DECISIONS)])
    return where


def test_what_was_acknowledged_is_in_the_log_and_nothing_is_there_twice(store, tmp_path):
    outbox, acknowledged = tmp_path / "outbox.jsonl", tmp_path / "acknowledged"
    service, rng = Service(store), random.Random(2)
    arguments = [f"http://127.0.0.1:{service.port}", str(outbox), str(acknowledged), str(DECISIONS)]
    with subprocess.Popen(
        [sys.executable, "-c", REPORTERS, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as reporters:
        try:
            for _ in range(KILLS):
                reporters.stdin.write("\n")
                reporters.stdin.flush()
                worker = int(reporters.stdout.readline())
                time.sleep(rng.uniform(0.05, 0.6))
                os.kill(worker, signal.SIGKILL)
        finally:
            reporters.stdin.close()
            service.end()
    with serving(store) as address, cb.Client(address, outbox=outbox) as client:
        assert client.flush() == 0
    logged = defaultdict(list)
    opened = open_store(store)
    with opened.read() as session:
        for event in session.events("checkout", limit=10**6):
            if event.kind == "reported":
                logged[event.decision].append(int(event.body["values"]["revenue"]))
    opened.close()
    told, queued = defaultdict(list), Counter()
    for line in acknowledged.read_text().splitlines():
        id_, value, was_queued = line.split()
        told[id_].append(int(value))
        queued[was_queued] += 1
    assert min(queued["0"], queued["1"]) > 0, "both ways must have been taken"
    for id_, values in told.items():
        assert len(set(logged[id_])) == len(logged[id_]), f"{id_}: something had an effect twice"
        kept = [value for value in logged[id_] if value in set(values)]
        assert kept == values, f"{id_}: lost, or overtaken"
    refused = [journal.unsealed(line) for line in journal.lines(outbox.with_name("outbox.jsonl.refused"))]
    assert all("line" in one for one in refused)  # half a line of somebody who was killed, at most
