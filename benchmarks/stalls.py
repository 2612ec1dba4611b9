"""How long this machine keeps a process waiting that asks for next to nothing; to be run beside a benchmark.

``python benchmarks/stalls.py FOLDER`` naps for a millisecond, again and again, and every tenth time writes a byte to
a file in the folder and waits until it is on the disk. At the end of its input it prints how late the latest nap ended
and how long the longest write took, in milliseconds. What a server does cannot make these longer, except that it uses a
core: a longest latency that is not much above them says little about the server.
"""

from __future__ import annotations

import os
import select
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

NAP = 0.001  # seconds
NAPS_FOR_A_WRITE = 10


def watch(folder: Path) -> tuple[float, float]:
    """Until the end of the standard input; the latest nap and the longest write, in milliseconds."""
    latest = longest = 0.0
    naps = 0
    descriptor = os.open(folder / "stalls", os.O_CREAT | os.O_WRONLY | os.O_APPEND)
    while not select.select([sys.stdin], [], [], 0)[0]:
        start = time.perf_counter()
        time.sleep(NAP)
        latest = max(latest, time.perf_counter() - start - NAP)
        naps += 1
        if naps % NAPS_FOR_A_WRITE == 0:
            start = time.perf_counter()
            os.write(descriptor, b".")
            os.fsync(descriptor)
            longest = max(longest, time.perf_counter() - start)
    os.close(descriptor)
    return 1000 * latest, 1000 * longest


@contextmanager
def watched(folder: Path) -> Iterator[dict[str, float]]:
    """Watch while the block runs; what was found is in the table afterwards."""
    found: dict[str, float] = {}
    process = subprocess.Popen(
        [sys.executable, __file__, str(folder)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        yield found
    finally:
        answer, _ = process.communicate()  # closes its input
        found["nap"], found["write"] = map(float, answer.split())


if __name__ == "__main__":
    print(*watch(Path(sys.argv[1])))
