"""Everything on scale, one after the other, each in a process of its own and with a result file of its own.

    python benchmarks/scale.py                 # two hours or so; writes results/scale_*.json and .md
    python benchmarks/scale.py --quick         # ten minutes; writes nothing
    python benchmarks/scale.py growth edge     # some of them

growth      exponents of time and memory over rounds, arms, dimension and leaves
seeds       many seeds in two threads of one process, beside one
stream      trees without samples: regret beside the exact form, memory up to 20,000,000 rounds
logs        rows a second from Parquet files, memory, and how both grow
edge        decisions a second at an edge, events a second into the store, staleness, bytes
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
PARTS: dict[str, tuple[str, ...]] = {  # and what makes each of them short
    "growth": ("--small",),
    "seeds": ("--quick",),
    "stream": ("--quick",),
    "logs": ("--quick",),
    "edge": ("--decisions", "20000", "--seconds", "5", "--look"),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", help=f"some of {', '.join(PARTS)}; all if there is none")
    parser.add_argument("--quick", action="store_true", help="small sizes; writes nothing")
    asked = parser.parse_args()
    if unknown := [part for part in asked.parts if part not in PARTS]:
        parser.error(f"there is no part {', '.join(unknown)}; there are {', '.join(PARTS)}")
    for part in asked.parts or PARTS:
        print(f"--- {part}", flush=True)
        short = PARTS[part] if asked.quick else ()
        subprocess.run([sys.executable, str(HERE / f"scale_{part}.py"), *short], check=True)


if __name__ == "__main__":
    main()
