"""Service processes, and a load of decisions and outcomes that remembers what was acknowledged."""

import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Sequence

import conebandit as cb
from tests.service.databases import free_port

LAST_WORDS = 2000  # characters of what a service has said that an error tells

# Snapshots after 100 events instead of 10,000, and in small parts, so that kills strike while they are being written.
# A revision that a kill has ended begins again soon.
COMMAND = """
import sys
import types
version = sys.modules["conebandit._version"] = types.ModuleType("conebandit._version")
version.__version__ = sys.argv.pop(1)
from conebandit.service.engine import snapshots as engine
from conebandit.service.engine import revisions as revision
from conebandit.service.log import snapshots
engine.SNAPSHOT_EVERY, snapshots.PART, revision.RETRY = 100, 200, 0.5
from conebandit.cli import main
main()
"""


def command(*arguments: str, version: str = cb.__version__) -> list[str]:
    """The command line of ``conebandit``, in a version of the library that calls itself so."""
    return [sys.executable, "-c", COMMAND, version, *arguments]


def wait_for_revisions(*clients: cb.Client) -> None:
    """Until all corrections and changes of arms count, whichever process is asked."""
    end = time.monotonic() + 60
    while any(client.show("checkout")["revising"] for client in clients):
        if time.monotonic() > end:
            raise TimeoutError("a revision does not end.")
        time.sleep(0.02)


class Process:
    """``conebandit serve`` as a process of its own."""

    def __init__(self, address: str, version: str = cb.__version__) -> None:
        self.address, self.port, self.version = address, free_port(), version
        self.url = f"http://127.0.0.1:{self.port}"
        self.start()

    def start(self) -> None:
        serve = command("serve", "--store", self.address, "--port", str(self.port), version=self.version)
        self._said = tempfile.TemporaryFile()  # noqa: SIM115  (closed by kill and stop)
        self.process = subprocess.Popen(serve, stdout=subprocess.DEVNULL, stderr=self._said)

    def wait_until_ready(self) -> None:
        end = time.monotonic() + 240
        while time.monotonic() < end:
            try:
                urllib.request.urlopen(self.url + "/healthz", timeout=5).close()
                return
            except (urllib.error.URLError, OSError):
                assert self.process.poll() is None, f"the service ended by itself; its last words: {self._last_words()}"
                time.sleep(0.05)
        raise TimeoutError(self.url)

    def kill(self) -> None:
        os.kill(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self._said.close()

    def _last_words(self) -> str:
        self._said.seek(0)
        return self._said.read()[-LAST_WORDS:].decode(errors="replace")

    def stop(self) -> None:
        self.process.terminate()
        code, last_words = self.process.wait(timeout=240), self._last_words()  # it may fold what others have appended
        self._said.close()
        assert code in (0, -signal.SIGTERM), f"the service ended with {code}; its last words: {last_words}"


class Load:
    """Threads that decide, report and take back until stopped, and remember what was acknowledged.

    With ``units``, decisions are about units, of which one is erased now and then; nothing of it may be left. What a
    safety ``rule`` has stopped is lifted now and then.
    """

    def __init__(self, urls: Sequence[str], threads: int = 4, *, units: bool = False, rule: str | None = None) -> None:
        self.acknowledged: dict[str, tuple[str, dict[str, float]]] = {}  # id to arm and values
        self.retracted: set[tuple[str, str]] = set()  # id and metric
        self.void: set[str] = set()
        self.erased: set[str] = set()  # ids
        self._units, self._rule = units, rule
        self.failures: list[BaseException] = []
        self.started = time.monotonic()
        self._urls = urls
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._run, args=(k,)) for k in range(threads)]
        for thread in self._threads:
            thread.start()

    def go_on_for(self, more: int) -> None:
        """Wait until some more decisions have been acknowledged: whoever is killed next is at work."""
        wanted, end = self._made() + more, time.monotonic() + 60
        while self._made() < wanted and not self.failures and time.monotonic() < end:
            time.sleep(0.001)

    def _made(self) -> int:
        return len(self.acknowledged) + len(self.erased)

    def stop(self) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def _run(self, k: int) -> None:
        clients = [cb.Client(url, retries=100, timeout=120) for url in self._urls]
        try:
            self._go_on(k, clients)
        except BaseException as error:
            self.failures.append(error)
        for client in clients:
            client.close()

    def _go_on(self, k: int, clients: list[cb.Client]) -> None:
        rng = random.Random(k)
        of_unit: dict[str, list[str]] = {}  # ids
        i = 0
        while not self._stop.is_set():
            context: dict[str, float | str | None] = {
                "age": rng.uniform(18, 98),
                "device": rng.choice(["phone", "desk"]),
            }
            id_, i = f"t{k}-{i}", i + 1
            unit = f"t{k}-u{rng.randrange(8)}" if self._units else None
            assignment = rng.choice(clients).decide("checkout", context, id=id_, unit=unit)
            self.acknowledged[id_] = (assignment.arm, {})
            values = {"revenue": rng.random(), "latency": rng.random()}
            for name in rng.sample(sorted(values), rng.randint(0, 2)):
                rng.choice(clients).report("checkout", id_, {name: values[name]})
                self.acknowledged[id_][1][name] = values[name]
            if rng.random() < 0.1 and self.acknowledged[id_][1]:
                name, value = next(iter(self.acknowledged[id_][1])), rng.random()
                rng.choice(clients).report("checkout", id_, {name: value})
                self.acknowledged[id_][1][name] = value
            if rng.random() < 0.05 and self.acknowledged[id_][1]:
                name = next(iter(self.acknowledged[id_][1]))
                rng.choice(clients).retract("checkout", id_, [name], reason="of another visitor")
                del self.acknowledged[id_][1][name]
                self.retracted.add((id_, name))
            if rng.random() < 0.03:
                rng.choice(clients).void("checkout", id_, reason="a robot")
                self.void.add(id_)
            if rng.random() < 0.05:
                again = rng.choice(clients).decide("checkout", context, id=id_, unit=unit)
                assert again == assignment, f"{again} is not {assignment}"
            if self._rule is not None and rng.random() < 0.01:
                rng.choice(clients).lift("checkout", self._rule, reason="looked at")
            if unit is not None:
                of_unit.setdefault(unit, []).append(id_)
                if rng.random() < 0.02:
                    self._erase(rng.choice(clients), unit, of_unit.pop(unit))

    def _erase(self, client: cb.Client, unit: str, ids: list[str]) -> None:
        client.erase("checkout", unit, "asked")
        self.erased.update(ids)
        self.void.difference_update(ids)
        self.retracted.difference_update([(id_, name) for id_, name in list(self.retracted) if id_ in ids])
        for id_ in ids:
            del self.acknowledged[id_]
