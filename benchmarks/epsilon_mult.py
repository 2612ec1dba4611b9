"""Write values of moocore's ``epsilon_mult``, with which tests compare ours; moocore comes with the extra ``bench``.

python benchmarks/epsilon_mult.py
"""

from __future__ import annotations

import json
from importlib.metadata import version
from pathlib import Path

import moocore
import numpy as np

TO = Path(__file__).resolve().parent.parent / "tests" / "data" / "peers" / "epsilon_mult.json"


def main() -> None:
    rng = np.random.default_rng(0)
    cases = []
    for case in range(60):
        dim, reported, front = 2 + case % 4, 1 + case % 7, 1 + case % 11
        # On a coarse grid, so that ties are common.
        sets = [rng.integers(1, 40, (size, dim)) / 8.0 for size in (reported, front)]
        # The factor by which the first set must grow to weakly dominate the second.
        factor = moocore.epsilon_mult(sets[0], ref=sets[1], maximise=True)
        cases.append({"reported": sets[0].tolist(), "front": sets[1].tolist(), "factor": float(factor)})
    data = {"command": "python benchmarks/epsilon_mult.py", "moocore": version("moocore"), "cases": cases}
    TO.write_text(json.dumps(data) + "\n")


if __name__ == "__main__":
    main()
