"""Whether chances mean what they say: of arms with a chance of .3 to be on the front, three in ten should be.

    python benchmarks/chances.py                                everything, on the reported seeds
    python benchmarks/chances.py --development --runs 3         a quick look while designing

After 2,000 and 10,000 rounds the default policy is asked for the chance of every arm at 100 fresh contexts of the
population of that time. Told are, over all runs of a kind:

told .05-.2, ...   share of arms on the front among those with such a chance; right if it lies within
log loss           mean logarithm of what was given to what is so, with its sign turned: smaller is better
plain              the same without the odds of the agreement of metrics (``docs/kernel.md``)
odds               geometric mean over runs of these odds

Environments are those of ``benchmarks/calibration.py``, and near ties of six doses with little noise.
"""

from __future__ import annotations

from itertools import pairwise, product
from typing import Any

import numpy as np

from calibration import ENVIRONMENTS
from conebandit.environments.noise import Gaussian
from conebandit.kernels.cone_kernel.agreement import odds_of_facets
from conebandit.kernels.cone_kernel.constants import N_CHANCE_DRAWS
from conebandit.kernels.order import fronts_of_batch
from conebandit.studies.bench import Contender
from conebandit.validate.arrays import FloatArray
from contest import in_parallel, options, play
from worlds import near_ties

STOPS, FRESH, RUNS, CHANGE = (2000, 10_000), 100, 10, 3000
BANDS = (0.0, 0.05, 0.2, 0.5, 0.8, 0.95, 1.0)
ENOUGH = 20  # arms with a chance in a band, to tell a share of them
WORLDS = ENVIRONMENTS | {
    "near ties, sigma 0.05": lambda seed: near_ties(6, Gaussian(0.05), CHANGE, seed),
}


def one(name: str, contender: Contender, seed: int) -> list[tuple[FloatArray, FloatArray, float]]:
    """Of one run, at each stop: the chances of all arms at all contexts, whether they are on the front, the odds."""
    world = WORLDS[name](seed)
    policy, rng, found, start = contender.make(world, seed), np.random.default_rng([seed, 77]), [], 0
    for stop in STOPS:
        contexts = world.contexts(rng, stop - start, start)
        play(policy, contexts, world.rewards(rng, world.means(contexts)), start, seed)
        start, fresh = stop, world.contexts(rng, FRESH, stop)
        chances = np.array([policy.front(x).chances for x in fresh]).ravel()
        on_front = fronts_of_batch(world.means(fresh), world.cone.facets).ravel()
        found.append((chances, on_front.astype(np.float64), odds_of(policy)))
    return found


def odds_of(policy: Any) -> float:
    """What the odds that an arm is beaten are multiplied by."""
    state = policy._state
    return float(odds_of_facets(state.agreement, state.facets, state.scales))


def log_loss(chances: FloatArray, on_front: FloatArray) -> float:
    """Mean over arms; a chance of 0 or 1 counts as half a draw less."""
    kept = np.clip(chances, 0.5 / N_CHANCE_DRAWS, 1.0 - 0.5 / N_CHANCE_DRAWS)
    return float(-np.mean(on_front * np.log(kept) + (1.0 - on_front) * np.log(1.0 - kept)))


def row_of(runs: list[tuple[FloatArray, FloatArray, float]]) -> dict[str, Any]:
    """Figures of all runs of a kind."""
    chances, on_front = (np.concatenate([run[i] for run in runs]) for i in (0, 1))
    plain = np.concatenate([odds * told / (odds * told + 1.0 - told) for told, _, odds in runs])
    row: dict[str, Any] = {"runs": len(runs), "odds": float(np.exp(np.mean(np.log([run[2] for run in runs]))))}
    for low, high in pairwise(BANDS):
        inside = (chances >= low) & ((chances < high) | (high == BANDS[-1]))
        share = float(on_front[inside].mean()) if inside.sum() >= ENOUGH else float("nan")
        row[f"told {low:.2g}-{high:.2g}"] = share
    return row | {"log loss": log_loss(chances, on_front), "plain": log_loss(plain, on_front)}


def main() -> None:
    asked = options("chances", __doc__, ("default",))
    kinds = list(product(WORLDS, asked.contenders))
    jobs = [(name, contender, seed) for name, contender in kinds for seed in asked.seeds(RUNS)]
    found = iter(in_parallel(one, jobs, "runs"))
    report = asked.report("Share of arms on the front, by the chance that was told")
    for name, _ in kinds:
        runs = [next(found) for _ in asked.seeds(RUNS)]
        for place, stop in enumerate(STOPS):
            report.add(environment=name, rounds=stop, **row_of([run[place] for run in runs]))
    asked.finish(report)


if __name__ == "__main__":
    main()
