"""Do 95 % regions hold? Values of policies, estimated from logs whose truth is known.

    python benchmarks/evaluation.py                     500 logs of each kind, all estimators; writes the result files
    python benchmarks/evaluation.py --runs 20           a quick look; writes nothing
    python benchmarks/evaluation.py --only tree         one kind of log

Logs of five arms and two metrics in one world are made by

uniform     every arm with the same probability, 1,000 rows
uneven      probabilities that depend on the context, from 0.05 to 0.8, 1,000 rows; nothing is learned
tree        the adaptive tree with ``explore`` = 0.1, 2,000 rows
default     the default policy with ``explore`` = 0.1, 2,000 rows

and three policies are judged: every arm alike, always the second arm, and an arm that follows the context. Counted are

pointwise   share of single intervals (three policies, two metrics) that hold, and the smallest of these six shares
joint       share of logs in which all six simultaneous intervals hold
wrong       share of logs in which a statement about the front that is called sure is wrong
off         root mean squared error of the estimates, mean of the six

Two rows show what goes wrong: ``dr, not in time`` fits models of outcomes for an adaptive log on later rows, too, and
``as if uniform`` averages rewards of an adaptive log as if every arm had had the same probability. ``holds``: pointwise
and joint within 92 to 98 %. ``recommended`` is what ``estimator="auto"`` takes.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

import conebandit as cb
from conebandit.environments import shift, smooth
from conebandit.validate.arrays import FloatArray
from contest import CORES, RESULTS, in_parallel
from report import Report, machine, versions

ARMS, LOGS, FIXED_ROWS, ADAPTIVE_ROWS, FLOOR = 5, 500, 1000, 2000, 0.1
LEVEL, LEAST, MOST = 0.95, 0.92, 0.98
KINDS = ("uniform", "uneven", "tree", "default")
ADAPTIVE = {"tree": cb.ConeTree, "default": cb.ConeKernel}
SETTINGS: dict[str, dict[str, Any]] = {"tree": {"preset": "adaptive"}, "default": {}}
TRUTH_ROWS = 1_000_000
WORLD = smooth(ARMS, 2, 2, schedule=shift.stationary(shift.uniform(2)), seed=0)


def judged(contexts: FloatArray) -> dict[str, FloatArray]:
    """Probabilities (n, K) of the policies to be judged."""
    n = len(contexts)
    by_context = np.minimum((contexts[:, 0] * ARMS).astype(int), ARMS - 1)
    return {
        "every arm alike": np.full((n, ARMS), 1.0 / ARMS),
        "always the second arm": np.tile(np.eye(ARMS)[1], (n, 1)),
        "an arm by the context": np.eye(ARMS)[by_context],
    }


def true_values() -> FloatArray:
    """True values, (P, M)."""
    contexts = WORLD.contexts(np.random.default_rng(1), TRUTH_ROWS, 0)
    parts = np.array_split(contexts, 10)
    values = [
        [np.einsum("nk,nkm->m", p, WORLD.means(part)) / len(part) for p in judged(part).values()] for part in parts
    ]
    return np.asarray(np.mean(values, axis=0))


def made(kind: str, seed: int) -> cb.Log:
    """A log."""
    if kind in ADAPTIVE:
        policy = ADAPTIVE[kind](ARMS, WORLD.cone, 2, seed=seed, explore=FLOOR, **SETTINGS[kind])
        return cb.Log.from_run(cb.simulate(policy, WORLD, ADAPTIVE_ROWS, seed=seed), policy=policy)
    rng = np.random.default_rng([seed, 2])
    contexts = WORLD.contexts(rng, FIXED_ROWS, 0)
    rewards = WORLD.rewards(rng, WORLD.means(contexts))
    chances = np.full((FIXED_ROWS, ARMS), 1.0 / ARMS)
    if kind == "uneven":
        liked = np.eye(ARMS)[np.minimum((contexts[:, 1] * ARMS).astype(int), ARMS - 1)]
        chances = 0.05 + 0.75 * liked
    arms = (rng.random((FIXED_ROWS, 1)) > np.cumsum(chances, axis=1)[:, :-1]).sum(axis=1)
    rows = np.arange(FIXED_ROWS)
    return cb.Log(
        contexts, arms, rewards[rows, arms], chances[rows, arms], WORLD.cone, probabilities=chances, adaptive=False
    )


def estimates(kind: str, log: cb.Log) -> dict[str, cb.Evaluation]:
    """By every estimator that can be used, and by some that should not."""
    policies = judged(log.contexts)
    names = ["ips", "snips", "dr", "stabilised"] + ["replay"] * (kind == "uniform")
    found = {name: cb.evaluate(log, policies, estimator=name, level=LEVEL) for name in names}  # type: ignore[arg-type]
    if kind in ADAPTIVE:
        found["dr, not in time"] = cb.evaluate(log, policies, estimator="dr", adaptive=False, level=LEVEL)
        uniform = np.full((len(log), ARMS), 1.0 / ARMS)
        pretended = replace(log, probabilities=uniform, propensities=uniform[:, 0], adaptive=False)
        found["as if uniform"] = cb.evaluate(pretended, policies, estimator="snips", level=LEVEL)
    return found


def one(kind: str, seed: int, truth: FloatArray) -> dict[str, NDArray[np.float64]]:
    """For each estimator: errors (6), whether intervals hold (6), whether all do, whether a sure statement is wrong."""
    on = dict(zip(judged(np.zeros((1, 2))), cb.pareto_mask(truth, WORLD.cone), strict=True))
    results = {}
    for name, found in estimates(kind, made(kind, seed)).items():
        error = found.values - truth
        single = np.abs(error) <= found.radii(simultaneous=False)
        wrong = any(said != "open" and (said == "on") != on[policy] for policy, said in found.standings.items())
        together = (np.abs(error) <= found.radii()).all()
        results[name] = np.concatenate([error.ravel(), single.ravel(), [together, wrong]])
    return results


def main() -> None:
    parser = argparse.ArgumentParser(description="Coverage of regions of policies that are judged from a log.")
    parser.add_argument("--runs", type=int, default=LOGS)
    parser.add_argument("--only", choices=KINDS)
    asked = parser.parse_args()
    report = Report(
        title=f"95 % regions of policies, judged from {asked.runs} logs of each kind",
        command="python benchmarks/evaluation.py",
        versions=versions("conebandit", "numpy", "scipy"),
        machine=machine(f"{CORES} cores"),
    )
    truth = true_values()
    for kind in [asked.only] if asked.only else KINDS:
        logs = in_parallel(one, [(kind, seed, truth) for seed in range(asked.runs)], kind)
        for name in logs[0]:
            rows = np.array([log[name] for log in logs])  # (logs, 14)
            single, joint = rows[:, 6:12].mean(axis=0), float(rows[:, 12].mean())
            report.add(
                log=kind,
                estimator=name,
                recommended="recommended" if name == ("stabilised" if kind in ADAPTIVE else "dr") else "",
                pointwise=float(single.mean()),
                smallest=float(single.min()),
                joint=joint,
                wrong=float(rows[:, 13].mean()),
                off=float(np.sqrt((rows[:, :6] ** 2).mean(axis=0)).mean()),
                holds=bool(LEAST <= single.mean() <= MOST and LEAST <= joint <= MOST),
            )
    report.show()
    if asked.runs == LOGS and asked.only is None:
        report.write(RESULTS / "evaluation")


if __name__ == "__main__":
    main()
