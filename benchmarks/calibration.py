"""How often 95 % radii cover the true means, for every arm and for a whole front at once.

    python benchmarks/calibration.py                                everything, on the reported seeds
    python benchmarks/calibration.py --development --runs 3         a quick look while designing

After 1,000, 5,000 and 20,000 rounds a policy is asked for estimates at 500 fresh contexts of the population of that
time. Counted are, as means over runs:

pointwise       share of (context, arm, metric) whose mean is within the radius; arms without an estimate are left out
often, seldom   the same for arms with more, or at most, one play in a hundred until then
simultaneous    share of contexts at which the means of all reported arms are within the simultaneous radii
radius          median of the pointwise radii
factor          mean squared error over mean squared deviation, as the radii tell it: 1 if they are right; times
                ConeKernel's VARIANCE_FACTOR, which is in its deviations, what this should have been

A policy that has no method ``radii`` is taken to give two deviations in its fronts: these are scaled by the normal
quantile, for a whole front by that of its size (Bonferroni). ``holds``: pointwise 92 to 98 %, where means jump at least
90 %; simultaneous at least 93 %.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm

from conebandit.environments import dose_finding, piecewise, smooth
from conebandit.environments.base import World
from conebandit.environments.noise import Bernoulli, Heteroscedastic
from conebandit.studies.bench import Contender
from conebandit.validate.arrays import FloatArray
from contest import in_parallel, mean_and_error, options, play
from worlds import HeavyTails, logistic, near_ties

LEVEL, DEVIATIONS = 0.95, 2.0  # of the radii wanted, and of those in a front
STOPS = (1000, 5000, 20_000)
CHANGE, FRESH, RUNS = 3000, 500, 20
OFTEN = 0.01  # share of plays
POLICIES = ("default",)
POINTWISE, JUMPING, SIMULTANEOUS = (0.92, 0.98), (0.90, 1.0), 0.93


def doses_yes_or_no(seed: int) -> World:
    return dose_finding(start=1000, stop=4000, noise=Bernoulli())


def doses(seed: int) -> World:
    return dose_finding(start=1000, stop=4000)


def uneven(mean: FloatArray) -> FloatArray:
    """Deviation of the noise: little where means are small."""
    return np.asarray(0.05 + 0.6 * mean)


ENVIRONMENTS: dict[str, Callable[[int], World]] = {
    "smooth": lambda seed: smooth(change_point=CHANGE, seed=seed),
    "bernoulli": lambda seed: smooth(change_point=CHANGE, noise=Bernoulli(), seed=seed),
    "doses": doses,
    "doses, yes or no": doses_yes_or_no,
    "near ties": lambda seed: near_ties(8, Bernoulli(), CHANGE, seed),
    "logistic": lambda seed: logistic(CHANGE, seed),
    "heavy tails": lambda seed: smooth(change_point=CHANGE, noise=HeavyTails(0.4), seed=seed),
    "uneven": lambda seed: smooth(change_point=CHANGE, noise=Heteroscedastic(uneven), seed=seed),
    "jumps": lambda seed: piecewise(change_point=CHANGE, seed=seed),
}


@dataclass(frozen=True)
class Estimates:
    """What a policy says at n contexts."""

    means: FloatArray  # (n, K, M)
    reported: NDArray[np.bool_]  # (n, K)
    pointwise: FloatArray  # (n, K, M), radii
    simultaneous: FloatArray  # (n, K, M), radii, for reported arms

    @classmethod
    def of(cls, policy: Any, contexts: FloatArray) -> Estimates:
        """Ask a policy of this library."""
        batch = policy._ask(contexts, np.zeros(len(contexts), dtype=np.uint64), explore=0.0, estimates=len(contexts))
        if hasattr(policy, "radii"):
            radii = [policy.radii(contexts, level=LEVEL, simultaneous=together) for together in (False, True)]
            return cls(batch.means, batch.reported, radii[0], radii[1])
        deviations = batch.radii / DEVIATIONS
        size = batch.reported.sum(axis=1) * batch.means.shape[2]
        together = norm.ppf(1.0 - (1.0 - LEVEL) / (2.0 * size))[:, None, None]
        pointwise = norm.ppf(0.5 + LEVEL / 2.0)
        return cls(batch.means, batch.reported, pointwise * deviations, together * deviations)


def covered(estimates: Estimates, truth: FloatArray, often: NDArray[np.bool_]) -> list[float]:
    """pointwise, often, seldom, simultaneous, radius, factor; nan where there is nothing to count."""
    known = np.isfinite(estimates.pointwise)
    errors = np.abs(estimates.means - truth)
    inside = errors <= estimates.pointwise
    whole = (errors <= estimates.simultaneous) | ~estimates.reported[:, :, None] | ~known
    parts = [known, known & often[:, None], known & ~often[:, None]]
    shares = [float(inside[part].mean()) if part.any() else float("nan") for part in parts]
    deviations = estimates.pointwise / norm.ppf(0.5 + LEVEL / 2.0)
    factor = float((errors[known] ** 2).mean() / (deviations[known] ** 2).mean())
    return [*shares, float(whole.all(axis=(1, 2)).mean()), float(np.median(estimates.pointwise[known])), factor]


def one(environment: str, contender: Contender, seed: int) -> FloatArray:
    """A run, (stops, 6)."""
    world = ENVIRONMENTS[environment](seed)
    streams = [np.random.default_rng(s) for s in np.random.SeedSequence(seed).spawn(3)]
    policy = contender.make(world, seed)
    plays = np.zeros(world.n_arms)
    found, first = [], 0
    for stop in STOPS:
        contexts = world.contexts(streams[0], stop - first, first)
        outcomes = world.rewards(streams[1], world.means(contexts))
        plays += np.bincount(play(policy, contexts, outcomes, first, seed)[0], minlength=world.n_arms)
        fresh = world.contexts(streams[2], FRESH, stop - FRESH)
        found.append(covered(Estimates.of(policy, fresh), world.means(fresh), plays > OFTEN * stop))
        first = stop
    return np.array(found)


def row_of(environment: str, runs: FloatArray) -> dict[str, Any]:
    """Figures over runs, (runs, 6)."""
    pointwise, error = mean_and_error(runs[:, 0])
    often, seldom = (
        float(np.mean(part[~np.isnan(part)])) if not np.isnan(part).all() else None for part in runs.T[1:3]
    )
    low, high = JUMPING if environment == "jumps" else POINTWISE
    simultaneous, simultaneous_error = mean_and_error(runs[:, 3])
    return {
        "pointwise": pointwise,
        "pointwise se": error,
        "often": often,
        "seldom": seldom,
        "simultaneous": simultaneous,
        "simultaneous se": simultaneous_error,
        "radius": float(np.median(runs[:, 4])),
        "factor": float(np.median(runs[:, 5])),
        "holds": low <= pointwise <= high and simultaneous >= SIMULTANEOUS,
    }


def main() -> None:
    asked = options("calibration", __doc__, POLICIES)
    seeds = asked.seeds(RUNS)
    kinds = list(product(ENVIRONMENTS, asked.contenders))
    jobs = [(environment, contender, seed) for environment, contender in kinds for seed in seeds]
    found = iter(in_parallel(one, jobs, "runs"))
    report = asked.report("Share of true means that 95 % radii cover")
    for environment, contender in kinds:
        runs = np.stack([next(found) for _ in seeds])
        for position, rounds in enumerate(STOPS):
            row = {"environment": environment, "rounds": rounds, "policy": contender.name, "runs": len(runs)}
            report.add(**row, **row_of(environment, runs[:, position]))
    asked.finish(report)


if __name__ == "__main__":
    main()
