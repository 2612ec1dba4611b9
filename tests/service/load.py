"""Service processes that are killed, a load that goes on all the while, and what must be true afterwards."""

import os
import random
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request

import conebandit as cb
from conebandit.service.engine import verify
from conebandit.service.store import open_store
from tests.service.databases import free_port


class Process:
    """``conebandit serve`` as a process of its own."""

    def __init__(self, address):
        self.address, self.port = address, free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.start()

    def start(self):
        command = [sys.executable, "-m", "conebandit", "serve", "--store", self.address, "--port", str(self.port)]
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def wait_until_ready(self):
        for _ in range(600):
            try:
                urllib.request.urlopen(self.url + "/healthz", timeout=5).close()
                return
            except (urllib.error.URLError, OSError):
                assert self.process.poll() is None, "the service ended by itself"
                time.sleep(0.05)
        raise TimeoutError(self.url)

    def kill(self):
        os.kill(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def stop(self):
        self.process.terminate()
        assert self.process.wait(timeout=30) in (0, -signal.SIGTERM)


class Load:
    """Threads that decide and report until stopped, and remember what was acknowledged."""

    def __init__(self, urls, threads=4):
        self.acknowledged = {}  # id to (arm, values)
        self._urls = urls
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._run, args=(k,)) for k in range(threads)]
        for thread in self._threads:
            thread.start()

    def stop(self):
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def _run(self, k):
        rng = random.Random(k)
        clients = [cb.Client(url, retries=100, timeout=10) for url in self._urls]
        i = 0
        while not self._stop.is_set():
            context = {"age": rng.uniform(18, 98), "device": rng.choice(["phone", "desk"])}
            id_, i = f"t{k}-{i}", i + 1
            assignment = rng.choice(clients).decide("checkout", context, id=id_)
            self.acknowledged[id_] = (assignment.arm, {})
            values = {"revenue": rng.random(), "latency": rng.random()}
            for name in rng.sample(sorted(values), rng.randint(0, 2)):
                rng.choice(clients).report("checkout", id_, {name: values[name]})
                self.acknowledged[id_][1][name] = values[name]
            if rng.random() < 0.05:
                assert rng.choice(clients).decide("checkout", context, id=id_) == assignment
        for client in clients:
            client.close()


def check(address, acknowledged):
    """Everything that was acknowledged is in the log, nothing twice, and the log leads to the state."""
    store = open_store(address)
    with store.read() as session:
        report = verify(session, "checkout")
        events = session.events("checkout", limit=10**7)
    store.close()
    assert report["agrees"]
    decided = [e for e in events if e.kind == "decided"]
    arms = {e.decision: e.body["arm"] for e in decided}
    assert len(arms) == len(decided), "a decision is there twice"
    values = {}
    for event in events:
        if event.kind == "reported":
            for name, value in event.body["values"].items():
                assert (event.decision, name) not in values, "an outcome is there twice"
                values[event.decision, name] = value
    assert acknowledged
    for id_, (arm, reported) in acknowledged.items():
        assert arms[id_] == arm
        for name, value in reported.items():
            assert values[id_, name] == value
    return report
