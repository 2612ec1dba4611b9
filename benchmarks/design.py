"""The default policy on the problems it is designed on, beside its rivals.

    python benchmarks/design.py

The kinds are in ``benchmarks/design_kinds.py``. Nothing that is claimed is measured on them: a policy may be changed
after a look at these. The score is play + 0.1 (shortfall + front), averaged after the shift; a rival is the best one of
the kind in hindsight. What each constant of the policy does is in ``benchmarks/constants.py``.
"""

from __future__ import annotations

import numpy as np

from conebandit.simulate import simulate
from conebandit.studies.bench import CONTENDERS, DEFAULT, Contender
from conebandit.studies.standings import score
from conebandit.validate.arrays import FloatArray
from contest import CORES, DEVELOPMENT, RESULTS, in_parallel
from design_kinds import KINDS, Kind
from report import Report, machine, versions

RIVALS = ("tree-adaptive", "fourier", "fourier-short", "linear", "scalarised", "neighbours", "ucb1")
SEEDS = (DEVELOPMENT, DEVELOPMENT + 1)


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
    report = Report(
        title="The default policy on the kinds that it is designed on (development seeds)",
        command="python benchmarks/design.py",
        versions=versions("conebandit", "numpy", "numba"),
        machine=machine(f"{CORES} cores"),
    )
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


if __name__ == "__main__":
    compare()
