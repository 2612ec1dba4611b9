"""The default policy on the problems it is designed on, and what each of its constants does to it.

    python benchmarks/design.py                         default and rivals; writes results
    python benchmarks/design.py --turn REFIT_GROWTH     constants at half and at double their value; writes results
    python benchmarks/design.py --scores FILE           scores of the default alone, as JSON

The kinds are in ``benchmarks/design_kinds.py``. Nothing that is claimed is measured on them: a policy may be changed
after a look at these. The score is play + 0.1 (shortfall + front), averaged after the shift; a rival is the best one of
the kind in hindsight.

A constant is turned in a copy of the package, so that nothing compiled for another value is used. Its effect is the
geometric mean, over kinds and seeds, of the score divided by the score with the value as it is. Runs have the same
contexts and noise, but such a ratio still varies by chance: ``noise`` is the standard error of its logarithm.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

import conebandit
from conebandit.kernels.cone_kernel.constants import TABLE
from conebandit.simulate import simulate
from conebandit.studies.bench import CONTENDERS, DEFAULT, Contender
from conebandit.studies.standings import score
from conebandit.validate.arrays import FloatArray
from contest import CORES, DEVELOPMENT, RESULTS, in_parallel
from design_kinds import KINDS, Kind
from report import Report, machine, versions

RIVALS = ("tree-adaptive", "fourier", "fourier-short", "linear", "scalarised", "neighbours", "ucb1")
SEEDS = (DEVELOPMENT, DEVELOPMENT + 1)
FACTORS = (0.5, 2.0)


def one(contender: Contender, kind: Kind, seed: int) -> float:
    """Score of a run."""
    world = kind.make(seed)
    run = simulate(contender.make(world, seed), world, kind.rounds, seed=seed)
    after = world.change_points[-1]
    return score({name: run.average(name, after=after) for name in ("play", "shortfall", "front")})


def scores(contender: Contender) -> FloatArray:
    """Scores of a contender, (kinds, seeds)."""
    jobs = [(contender, kind, seed) for kind in KINDS for seed in SEEDS]
    return np.array(in_parallel(one, jobs, contender.name)).reshape(len(KINDS), len(SEEDS))


def compare() -> None:
    """The default policy beside the best rival of each kind."""
    known = {contender.name: contender for contender in CONTENDERS}
    found = {name: scores(known[name]).mean(axis=1) for name in (DEFAULT, *RIVALS)}
    report = new_report("The default policy on the kinds that it is designed on", "")
    ratios = []
    for i, kind in enumerate(KINDS):
        rival = min(RIVALS, key=lambda name: float(found[name][i]))
        ratios.append(float(found[DEFAULT][i] / found[rival][i]))
        report.add(
            kind=kind.name,
            score=float(found[DEFAULT][i]),
            rival=rival,
            rival_score=float(found[rival][i]),
            ratio=ratios[-1],
        )
    report.add(kind="geometric mean", ratio=float(np.exp(np.log(ratios).mean())))
    report.add(kind="worst", ratio=max(ratios))
    report.show()
    report.write(RESULTS / "design")


def turn(names: list[str]) -> None:
    """Effects of constants at half and at double their value."""
    values = {constant.name: constant.value for constant in TABLE}
    as_it_is = scores_with({})
    report = new_report(
        "Constants of the default policy at half and at double their value", f" --turn {' '.join(names)}"
    )
    for name in names:
        row: dict[str, object] = {"constant": name, "value": values[name]}
        for factor, word in zip(FACTORS, ("half", "double"), strict=True):
            logs = np.log(scores_with({name: factor}) / as_it_is)
            row[word] = float(np.exp(logs.mean()))
            row[f"{word} noise"] = float(logs.std(ddof=1) / np.sqrt(logs.size))
        report.add(**row)
    report.show()
    report.write(RESULTS / "constants")


def scores_with(factors: dict[str, float]) -> FloatArray:
    """Scores of the default policy with constants multiplied by factors, from a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        package = Path(folder) / "conebandit"
        shutil.copytree(Path(conebandit.__file__).parent, package, ignore=shutil.ignore_patterns("__pycache__"))
        table = package / "kernels" / "cone_kernel" / "constants.py"
        text = table.read_text()
        for name, factor in factors.items():
            text = multiplied(text, name, factor)
        table.write_text(text)
        out = Path(folder) / "scores.json"
        command = [sys.executable, __file__, "--scores", str(out)]
        subprocess.run(command, env={**os.environ, "PYTHONPATH": folder}, check=True)
        return np.array(json.loads(out.read_text()))


def multiplied(text: str, name: str, factor: float) -> str:
    """The table of constants with one value multiplied; a whole number stays one."""
    place = re.search(rf'_constant\(\s*"{name}",\s*([-+.\de]+),', text)
    if place is None:
        raise SystemExit(f"{name} is no number in the table of constants.")
    value = float(place[1]) * factor
    new = str(max(round(value), 1)) if re.fullmatch(r"\d+", place[1]) else repr(value)
    return text[: place.start(1)] + new + text[place.end(1) :]


def new_report(title: str, arguments: str) -> Report:
    return Report(
        title=f"{title} (development seeds)",
        command=f"python benchmarks/design.py{arguments}",
        versions=versions("conebandit", "numpy", "numba"),
        machine=machine(f"{CORES} cores"),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turn", nargs="+", metavar="NAME", help="constants of kernels/cone_kernel/constants.py")
    parser.add_argument("--scores", type=Path, help="where to write the scores of the default policy alone")
    asked = parser.parse_args()
    if asked.scores:
        default = next(contender for contender in CONTENDERS if contender.name == DEFAULT)
        asked.scores.write_text(json.dumps(scores(default).tolist()))
    elif asked.turn:
        known = {constant.name for constant in TABLE}
        if unknown := [name for name in asked.turn if name not in known]:
            parser.error(f"no constant is called {', '.join(unknown)}; see docs/kernel.md")
        turn(asked.turn)
    else:
        compare()


if __name__ == "__main__":
    main()
