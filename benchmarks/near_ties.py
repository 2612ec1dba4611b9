"""Reports where doses are nearly tied in safety (.999 against .998) while their efficacies differ clearly.

    python benchmarks/near_ties.py                                  everything, on the reported seeds
    python benchmarks/near_ties.py --development --runs 3           a quick look while designing

Six and eight doses, yes-or-no outcomes or little noise; the patients change after 2,000 rounds. ``error`` is
``shortfall + front`` averaged over the rounds from then on until round 5,000 or 20,000. ``behind`` is its mean
difference within runs to the best other policy, positive if that one is better; ``holds``: at most two standard errors
of that difference. ``rarest`` is the smallest share of plays that an arm gets which belongs to the front at a tenth of
the contexts.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np

import conebandit as cb
from conebandit.environments.base import World
from conebandit.environments.noise import Bernoulli, Gaussian
from conebandit.kernels.order import fronts_of_batch
from conebandit.studies.bench import CONTENDERS, Contender
from conebandit.validate.arrays import FloatArray
from contest import behind, in_parallel, mean_and_error, options
from worlds import near_ties

CHANGE, HORIZONS, RUNS = 2000, (5000, 20_000), 10
MATTERS = 0.1  # share of contexts
LEFT_OUT = ("oracle", "random", "tree-sound", "tree-paper")
POLICIES = tuple(c.name for c in CONTENDERS if c.name not in LEFT_OUT)
FIGURES = ("error", "shortfall", "front", "coverage", "play", "reported", "true", "rarest")

KINDS: dict[str, Callable[[int], World]] = {
    "6 doses, yes or no": lambda seed: near_ties(6, Bernoulli(), CHANGE, seed),
    "8 doses, yes or no": lambda seed: near_ties(8, Bernoulli(), CHANGE, seed),
    "6 doses, sigma 0.05": lambda seed: near_ties(6, Gaussian(0.05), CHANGE, seed),
    "8 doses, sigma 0.05": lambda seed: near_ties(8, Gaussian(0.05), CHANGE, seed),
}


def one(kind: str, contender: Contender, seed: int) -> FloatArray:
    """A run, (horizons, figures)."""
    world = KINDS[kind](seed)
    run = cb.simulate(contender.make(world, seed), world, HORIZONS[-1], seed=seed)
    on_front = fronts_of_batch(world.means(run.contexts), world.cone.facets)
    found = []
    for horizon in HORIZONS:
        late = slice(CHANGE, horizon)
        means = {name: float(series[late].mean()) for name, series in run.series.items()}
        plays = np.bincount(run.arms[late], minlength=world.n_arms) / (horizon - CHANGE)
        figures = {
            **means,
            "error": means["shortfall"] + means["front"],
            "reported": run.reported[late].sum(axis=1).mean(),
            "true": on_front[late].sum(axis=1).mean(),
            "rarest": plays[on_front[late].mean(axis=0) >= MATTERS].min(),
        }
        found.append([figures[name] for name in FIGURES])
    return np.array(found)


def row_of(policy: str, results: dict[str, FloatArray]) -> dict[str, Any]:
    """Figures of a policy; ``results`` of all policies, each (runs, figures)."""
    mine = results[policy]
    error, spread = mean_and_error(mine[:, 0])
    late, late_error = behind(policy, {name: result[:, 0] for name, result in results.items()})
    others = dict(zip(FIGURES[1:], mine.mean(axis=0)[1:].tolist(), strict=True))
    row = {"runs": len(mine), "error": error, "error se": spread, "behind": late, "behind se": late_error}
    return {**row, **others, "holds": late <= 2.0 * late_error}


def main() -> None:
    asked = options("near_ties", __doc__, POLICIES)
    seeds = asked.seeds(RUNS)
    kinds = list(product(KINDS, asked.contenders))
    found = iter(in_parallel(one, [(kind, c, seed) for kind, c in kinds for seed in seeds], "runs"))
    results = {(kind, c.name): np.stack([next(found) for _ in seeds]) for kind, c in kinds}
    report = asked.report("Reports on doses that are nearly tied in safety")
    for kind, (position, horizon), c in product(KINDS, enumerate(HORIZONS), asked.contenders):
        runs = {c.name: results[kind, c.name][:, position] for c in asked.contenders}
        report.add(environment=kind, rounds=horizon, policy=c.name, **row_of(c.name, runs))
    asked.finish(report)


if __name__ == "__main__":
    main()
