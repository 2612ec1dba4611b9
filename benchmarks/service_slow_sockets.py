"""How long decisions take while thousands of sockets are open on which no request arrives, and what is logged.

    python benchmarks/service_slow_sockets.py        # half a minute; writes results/slow_sockets.json and .md

The service may have 1024 files at first, as on most systems, and raises that itself.
"""

from __future__ import annotations

import argparse
import contextlib
import resource
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import conebandit as cb
from report import Report, machine, versions
from servers import DECLARATION

SOCKETS, DECISIONS, FILES = 2000, 100, 1024
HALF = b"GET /healthz HTTP/1.1\r\nhost: localhost\r\nx-half:"


def decide(client: cb.Client) -> dict[str, float]:
    """Milliseconds for decisions, one after the other, each with a connection of its own."""
    spent = []
    for _ in range(DECISIONS):
        begun = time.perf_counter()
        client.decide("bench", {"age": 0.5, "load": 0.5})
        spent.append(1000 * (time.perf_counter() - begun))
        client.close()
    return {"median_ms": sorted(spent)[DECISIONS // 2], "longest_ms": max(spent)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sockets", type=int, default=SOCKETS)
    parser.add_argument("--to", type=Path, default=Path(__file__).parent / "results" / "slow_sockets")
    asked = parser.parse_args()
    report = Report(
        title=f"Decisions beside {asked.sockets} sockets with half a header",
        command=f"python benchmarks/service_slow_sockets.py --sockets {asked.sockets}",
        versions=versions("conebandit", "uvicorn"),
        machine=machine(),
    )
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = int(free.getsockname()[1])
        logged = stack.enter_context((Path(folder) / "stderr").open("wb"))
        command = [sys.executable, "-m", "conebandit", "serve", "--store", f"{folder}/log.db", "--port", str(port)]
        resource.setrlimit(resource.RLIMIT_NOFILE, (FILES, most))  # the service inherits it
        service = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=logged)
        stack.callback(service.wait)
        stack.callback(service.terminate)
        resource.setrlimit(resource.RLIMIT_NOFILE, (asked.sockets + FILES, most))
        client = cb.Client(f"http://127.0.0.1:{port}", retries=50)
        client.create({**DECLARATION, "policy": {"name": "ParetoUCB1"}})
        decide(client)  # so that all is compiled
        report.add(sockets=0, when="before", **decide(client), log_bytes=Path(logged.name).stat().st_size)
        for _ in range(asked.sockets):
            slow = stack.enter_context(socket.create_connection(("127.0.0.1", port)))
            with contextlib.suppress(ConnectionError):
                slow.sendall(HALF)
        for when in ("while the last of them are let in", "then"):
            spent = decide(client)
            report.add(sockets=asked.sockets, when=when, **spent, log_bytes=Path(logged.name).stat().st_size)
    report.show()
    report.write(asked.to)


if __name__ == "__main__":
    main()
