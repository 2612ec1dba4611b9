"""What is left of a study that was killed at random moments, or whose cluster has lost a worker.

python benchmarks/study_crash.py                 # about five minutes; writes benchmarks/results/study_crash.md
python benchmarks/study_crash.py --kills 2 --runs 100 --look     # a look, which writes nothing
"""

from __future__ import annotations

import argparse
import importlib.util
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))  # what kills studies is shared with the tests
from tests.studies.killing import Found, kill_again_and_again, lose_a_worker

from report import side_by_side

RESULTS = Path(__file__).parent / "results" / "study_crash.md"

WORDS = {
    "kills": "times",
    "runs": "runs of the study",
    "begun": "runs that were begun, also those that were cut short",
    "lost": "finished runs that were lost",
    "again": "finished runs that were made again",
    "agrees": "the same as an undisturbed study, bit for bit",
    "seconds": "seconds, with the undisturbed study",
}


def measured(kills: int, runs: int) -> dict[str, Found]:
    with tempfile.TemporaryDirectory() as folder:
        found = {
            "the process (loky, two workers)": kill_again_and_again(
                Path(folder, "loky"), kills=kills, seeds=runs, options=("--jobs", "2"), seed=0
            )
        }
        for backend, package in (("dask", "distributed"), ("ray", "ray")):
            if importlib.util.find_spec(package):
                name = f"one of two workers ({backend.capitalize()})"
                found[name] = lose_a_worker(Path(folder, backend), backend, seeds=min(runs, 100))
    return found


def page(found: dict[str, Found], kills: int, runs: int) -> str:
    lines = [
        "# Studies that were killed",
        "",
        f"Made by `python benchmarks/study_crash.py --kills {kills} --runs {runs}`.",
        "SIGKILL strikes at random moments, also while the study is starting; then it is started again.",
        "",
        "",
    ]
    return "\n".join(lines) + side_by_side("killed", WORDS, found)


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--kills", type=int, default=20)
    options.add_argument("--runs", type=int, default=2000)
    options.add_argument("--look", action="store_true", help="print it only")
    given = options.parse_args()
    text = page(measured(given.kills, given.runs), given.kills, given.runs)
    print(text)
    if not given.look:
        RESULTS.write_text(text)


if __name__ == "__main__":
    main()
