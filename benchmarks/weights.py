"""Can other policies be judged from a log? Inverse-propensity estimates from logs with and without a floor.

    python benchmarks/weights.py

A policy is simulated for 400 rounds, 500 times, with ``explore`` = 0.1 and 0. From each log the mean reward of three
other policies is estimated, in every metric, as the average of reward * pi(arm | context) / propensity, and so is the
average of these weights. The truth is known, at the contexts of each log: so bias and standard error are those of 500
differences, and z, their ratio, is about standard normal if an estimate is unbiased. One z is beyond 2 in 4.6 % of all
by chance; the largest of the 18 of logs with a floor is beyond 3 in at most 4.9 %.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray

import conebandit as cb
from report import Report, machine, versions

ARMS, HORIZON, LOGS = 5, 400, 500
FLOOR = 0.1
POLICIES: dict[str, Callable[..., Any]] = {"default_policy": cb.default_policy, "LinearParetoUCB": cb.LinearParetoUCB}
# Probabilities (n, K) of the policies to be judged, from contexts (n, d).
TARGETS: dict[str, Callable[[NDArray[np.float64]], NDArray[np.float64]]] = {
    "every arm alike": lambda x: np.full((len(x), ARMS), 1.0 / ARMS),
    "always the second arm": lambda x: np.tile(np.eye(ARMS)[1], (len(x), 1)),
    "arms in the order of the context": lambda x: np.eye(ARMS)[np.minimum((x[:, 0] * ARMS).astype(int), ARMS - 1)],
}
RESULTS = Path(__file__).parent / "results" / "weights"


def one_log(policy: str, explore: float, seed: int) -> NDArray[np.float64]:
    """For each target the error of the mean weight and of the value in every metric, from one log: (targets, 1 + M)."""
    world = cb.environments.smooth(ARMS, 2, 1, seed=seed)
    learner = POLICIES[policy](ARMS, world.cone, world.context_dim, seed=seed, explore=explore)
    run = cb.simulate(learner, world, HORIZON, seed=seed)
    means, rounds, errors = world.means(run.contexts), np.arange(HORIZON), []
    for target in TARGETS.values():
        chances = target(run.contexts)  # (n, K)
        weights = chances[rounds, run.arms] / run.propensities
        value = (weights[:, None] * run.rewards).mean(axis=0) - np.einsum("nk,nkm->m", chances, means) / HORIZON
        errors.append([weights.mean() - 1.0, *value])
    return np.array(errors)


def main() -> None:
    parser = argparse.ArgumentParser(description="Inverse-propensity estimates from logs with and without a floor.")
    parser.add_argument("--logs", type=int, default=LOGS)
    logs = parser.parse_args().logs
    report = Report(
        title=f"Other policies, judged from {logs} logs of {HORIZON} rounds each: means, and z = bias / standard error",
        command="python benchmarks/weights.py" + (f" --logs {logs}" if logs != LOGS else ""),
        versions=versions("conebandit", "numpy"),
        machine=machine(),
    )
    for explore in (FLOOR, 0.0):
        for policy in POLICIES:
            found = Parallel(n_jobs=-1)(delayed(one_log)(policy, explore, seed) for seed in range(logs))
            errors = np.array(found)  # (logs, targets, 1 + M)
            bias, error = errors.mean(axis=0), errors.std(axis=0, ddof=1) / np.sqrt(logs)
            for target, b, e in zip(TARGETS, bias, error, strict=True):
                z = np.divide(b, e, out=np.zeros_like(b), where=e > 0)
                row = {"explore": explore, "log of": policy, "judged": target, "mean weight": 1.0 + float(b[0])}
                row |= {"its error": float(e[0]), "its z": float(z[0])}
                for m in range(1, len(b)):
                    row |= {f"bias {m}": float(b[m]), f"error {m}": float(e[m]), f"z {m}": float(z[m])}
                report.add(**row, largest=float(np.abs(z).max()))
    report.show()
    report.write(RESULTS)


if __name__ == "__main__":
    main()
