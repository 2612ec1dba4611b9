"""Arms that a policy starves although they matter: counts of runs with such an arm, and of such arms.

    python benchmarks/starved.py                                    everything, on the reported seeds
    python benchmarks/starved.py --development --runs 4             a quick look while designing

An arm is starved in a run if it belongs to the true front at a tenth or more of the contexts of the second half, yet
gets less than one play in a thousand there. ``rarest`` is the smallest share of plays, over runs, of an arm that
matters.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

import conebandit as cb
from conebandit.environments import smooth
from conebandit.environments.base import World
from conebandit.kernels.order import fronts_of_batch
from conebandit.studies.bench import Contender
from conebandit.validate.arrays import FloatArray
from contest import in_parallel, options
from worlds import bumps

MATTERS, STARVED = 0.1, 0.001  # shares of contexts and of plays
POLICIES = ("default", "tree-adaptive")


@dataclass(frozen=True)
class Kind:
    """A kind of environment, how many rounds, and how many runs."""

    name: str
    make: Callable[[int], World]
    horizon: int
    runs: int


def arms_30(seed: int) -> World:
    return smooth(n_arms=30, seed=seed)


def dimensions_20(seed: int) -> World:
    return smooth(context_dim=20, relevant=3, seed=seed)


def both(seed: int) -> World:
    return smooth(n_arms=30, context_dim=20, relevant=3, seed=seed)


def arms_100(seed: int) -> World:
    return smooth(n_arms=100, seed=seed)


def bumps_30(seed: int) -> World:
    return bumps(30, 5000, seed)


KINDS = (
    Kind("K = 30, d = 2", arms_30, 20_000, 20),
    Kind("d = 20 of which 3 matter, K = 8", dimensions_20, 20_000, 20),
    Kind("d = 20 of which 3 matter, K = 30", both, 20_000, 20),
    Kind("K = 100, d = 2", arms_100, 20_000, 5),
    Kind("bumps, K = 30, d = 2", bumps_30, 20_000, 8),
    Kind("K = 30, d = 2", arms_30, 50_000, 20),
    Kind("bumps, K = 30, d = 2", bumps_30, 50_000, 8),
)


def shares_of_plays(world: World, run: cb.Run) -> FloatArray:
    """Shares of plays in the second half of a run, of the arms that matter there."""
    late = slice(len(run.arms) // 2, None)
    on_front = fronts_of_batch(world.means(run.contexts[late]), world.cone.facets).mean(axis=0)
    plays = np.bincount(run.arms[late], minlength=world.n_arms) / len(run.arms[late])
    return np.asarray(plays[on_front >= MATTERS])


def one(kind: Kind, contender: Contender, seed: int) -> dict[str, Any]:
    """Of one run: how many arms matter, how many of them starve, and the smallest share of plays that one gets."""
    world = kind.make(seed)
    run = cb.simulate(contender.make(world, seed), world, kind.horizon, seed=seed)
    shares = shares_of_plays(world, run)
    return {
        "matter": len(shares),
        "starved": int((shares < STARVED).sum()),
        "rarest": float(shares.min(initial=1.0)),
        "play": run.average("play", after=kind.horizon // 2),
    }


def main() -> None:
    asked = options("starved", __doc__, POLICIES)
    kinds = list(product(KINDS, asked.contenders))
    jobs = [(kind, contender, seed) for kind, contender in kinds for seed in asked.seeds(kind.runs)]
    found = iter(in_parallel(one, jobs, "runs"))
    report = asked.report("Arms that matter at a tenth of the contexts and get less than a thousandth of the plays")
    for kind, contender in kinds:
        runs = [next(found) for _ in asked.seeds(kind.runs)]
        report.add(
            environment=kind.name,
            rounds=kind.horizon,
            policy=contender.name,
            runs=len(runs),
            runs_with_starved=sum(run["starved"] > 0 for run in runs),
            arms_that_matter=sum(run["matter"] for run in runs),
            starved=sum(run["starved"] for run in runs),
            rarest=min(run["rarest"] for run in runs),
            play=float(np.mean([run["play"] for run in runs])),
        )
    asked.finish(report)


if __name__ == "__main__":
    main()
