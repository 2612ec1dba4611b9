"""The default policy on the problems it is designed on, beside its rivals or beside another version of itself.

    python benchmarks/design.py                             beside its rivals; writes results
    python benchmarks/design.py --before OTHER/src          beside another checkout: ratios of scores; writes nothing
    python benchmarks/design.py --kind doses --seeds 20     a closer look at some; writes nothing

The kinds are in ``benchmarks/design_kinds.py``. Nothing that is claimed is measured on them: a policy may be changed
after a look at these. The score is play + 0.1 (shortfall + front), averaged after the shift; a rival is the best one of
the kind in hindsight. ``starved`` are runs with an arm that matters and is hardly played, as in ``starved.py``. Seeds
are not those with which constants were compared (``constants.py``): what was chosen by a comparison may have been lucky
there, and then any other value looks worse than it is.

Runs vary much, since each goes its own way once a decision differs. So ``ratio se`` is the standard error of the
logarithm of the mean ratio within runs, and differences below two of them say nothing.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np

from conebandit.simulate import simulate
from conebandit.studies.bench import CONTENDERS, DEFAULT
from conebandit.studies.standings import score
from conebandit.validate.arrays import FloatArray
from contest import CORES, DEVELOPMENT, RESULTS, in_parallel
from design_kinds import KINDS, WIDER
from report import Report, machine, versions
from starved import STARVED, shares_of_plays

BY_NAME = {kind.name: kind for kind in (*KINDS, *WIDER)}
RIVALS = ("tree-adaptive", "fourier", "fourier-short", "linear", "scalarised", "neighbours", "ucb1")
FIRST, SEEDS = DEVELOPMENT + 100, 4
SERIES = ("play", "shortfall", "front")
FIGURES = ("score", *SERIES, "starved")  # of one run


def one(contender: str, kind: str, seed: int) -> list[float]:
    """Figures of a run."""
    chosen, make = BY_NAME[kind], {known.name: known.make for known in CONTENDERS}[contender]
    world = chosen.make(seed)
    run = simulate(make(world, seed), world, chosen.rounds, seed=seed)
    found = {name: run.average(name, after=world.change_points[-1]) for name in SERIES}
    return [score(found), *found.values(), float((shares_of_plays(world, run) < STARVED).any())]


def runs_of(contender: str, kinds: list[str], seeds: int) -> FloatArray:
    """(kinds, seeds, figures)."""
    jobs = [(contender, kind, seed) for kind in kinds for seed in range(FIRST, FIRST + seeds)]
    return np.array(in_parallel(one, jobs, contender)).reshape(len(kinds), seeds, len(FIGURES))


def runs_before(source: Path, kinds: list[str], seeds: int) -> FloatArray:
    """The same of the default policy, from a process that has the package from ``source``."""
    command = [sys.executable, __file__, "--child", "--seeds", str(seeds), *(f"--kind={name}" for name in kinds)]
    path = {"PYTHONPATH": str(source)}
    found = subprocess.run(command, env={**os.environ, **path}, check=True, stdout=subprocess.PIPE, text=True)
    return np.array(json.loads(found.stdout))


def row_of(name: str, runs: FloatArray) -> dict[str, Any]:
    """Means over the runs of a kind, (seeds, figures)."""
    means = dict(zip(FIGURES, runs.mean(axis=0).tolist(), strict=True))
    return {"kind": name, **means, "starved": f"{int(runs[:, -1].sum())} of {len(runs)}"}


def beside_rivals(report: Report, kinds: list[str], now: FloatArray) -> None:
    """A row for each kind, with its best rival."""
    found = {name: runs_of(name, kinds, now.shape[1])[..., 0].mean(axis=1) for name in RIVALS}
    ratios = []
    for i, kind in enumerate(kinds):
        rival = min(RIVALS, key=lambda name: float(found[name][i]))
        ratios.append(float(now[i, :, 0].mean() / found[rival][i]))
        report.add(**row_of(kind, now[i]), rival=rival, rival_score=float(found[rival][i]), ratio=ratios[-1])
    report.add(kind="geometric mean", ratio=float(np.exp(np.log(ratios).mean())))
    report.add(kind="worst", ratio=max(ratios))


def beside_another(report: Report, kinds: list[str], now: FloatArray, before: FloatArray) -> None:
    """A row for each kind, and one of all: ratios of scores within runs."""
    logs = np.log(now[..., 0] / before[..., 0])
    errors = logs.std(axis=1, ddof=1) / np.sqrt(logs.shape[1])
    for i, kind in enumerate(kinds):
        starved = f"{int(before[i, :, -1].sum())} of {before.shape[1]}"
        ratio = {"ratio": float(np.exp(logs[i].mean())), "ratio se": float(errors[i])}
        report.add(**row_of(kind, now[i]), before=float(before[i, :, 0].mean()), starved_before=starved, **ratio)
    together = float(np.sqrt((errors**2).sum()) / len(kinds))
    report.add(kind="geometric mean", **{"ratio": float(np.exp(logs.mean())), "ratio se": together})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--before", type=Path, help="folder src of another checkout")
    parser.add_argument("--kind", action="append", choices=list(BY_NAME), help="may be given several times")
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.seeds < 2:
        parser.error(f"--seeds must be at least 2; got {asked.seeds}")
    kinds = asked.kind or list(BY_NAME)
    now = runs_of(DEFAULT, kinds, asked.seeds)
    if asked.child:
        print(json.dumps(now.tolist()))
        return
    report = Report(
        title="The default policy on the kinds that it is designed on (development seeds)",
        command="python benchmarks/design.py" + (" --before OTHER/src" if asked.before else ""),
        versions=versions("conebandit", "numpy", "numba"),
        machine=machine(f"{CORES} cores"),
    )
    if asked.before:
        beside_another(report, kinds, now, runs_before(asked.before.resolve(), kinds, asked.seeds))
    else:
        beside_rivals(report, kinds, now)
    report.show()
    if not (asked.before or asked.kind) and asked.seeds == SEEDS:
        report.write(RESULTS / "design")


if __name__ == "__main__":
    main()
