"""Whether it is found that a log was changed by somebody who can write to the store, but has not the key.

    python benchmarks/service_tampering.py          # a minute; writes results/tampering.json and .md

Random small trials, sealed with a key, with an anchor at their end. Each is changed in one way, as in
tests/service/tampering.py, and then verified by ``conebandit verify --seal-keys ... --expect ...``, which must find
something. As many are left as they are, and nothing may be found in those.
"""

from __future__ import annotations

import argparse
import itertools
import random
import sys
import tempfile
from collections import Counter
from pathlib import Path

from report import Report, machine, versions

sys.path.insert(0, str(Path(__file__).parent.parent))  # what can be done to a log is shared with the tests
from tests.service.tampering import TAMPERINGS, Target, findings

TRIALS = 100


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=TRIALS)
    parser.add_argument("--to", type=Path, default=Path(__file__).parent / "results" / "tampering")
    asked = parser.parse_args()
    report = Report(
        title=f"{asked.trials} logs that were changed without the key, and {asked.trials} that were not",
        command=f"python benchmarks/service_tampering.py --trials {asked.trials}",
        versions=versions("conebandit"),
        machine=machine(),
    )
    changed, found = Counter[str](), Counter[str]()
    for seed, name in enumerate(itertools.islice(itertools.cycle(TAMPERINGS), asked.trials)):
        changed[name] += 1
        found[name] += is_found(seed, name)
    for name in changed:
        report.add(what=name, logs=changed[name], found=found[name])
    report.add(what="all", logs=changed.total(), found=found.total())
    untouched = sum(is_found(seed, None) for seed in range(asked.trials))
    report.add(what="left as they are", logs=asked.trials, found=untouched)
    report.show()
    report.write(asked.to)


def is_found(seed: int, name: str | None) -> bool:
    """Whether verify finds something in a log that was changed in some way, or in none."""
    with tempfile.TemporaryDirectory() as folder:
        target = Target(Path(folder), random.Random(seed))
        if name is not None:
            TAMPERINGS[name](target)
        code, words = findings(target)
    if code not in (0, 1):
        raise RuntimeError(f"verify ended with exit code {code}: {words}")
    return code == 1


if __name__ == "__main__":
    main()
