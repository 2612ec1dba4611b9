"""Export the log and read the front, each again and again, beside one who decides.

``python benchmarks/service_readers.py PORT SECONDS`` prints how often each was read.
"""

from __future__ import annotations

import sys
import threading
import time
import urllib.request
from collections import Counter


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


if __name__ == "__main__":
    print(*read(int(sys.argv[1]), float(sys.argv[2])))
