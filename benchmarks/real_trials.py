"""Policies on two real trials and a simulated one, before and after the population changes.

    python benchmarks/real_trials.py                                 the RAND experiment and the warfarin simulator
    ACTG175=ACTG175.csv python benchmarks/real_trials.py             and ACTG 175, whose data no package contains
    python benchmarks/real_trials.py --development --runs 2 --policies default linear

Nothing was tuned on these. Baselines have the settings of the contest. ``trial`` is what the trial itself did: arms by
lot, in its shares, and in the end one front, that of the arms' averages.

*Simulation* (``real_trials.md``): 20,000 rounds in ``environments.rand_hie``, ``actg175`` and ``warfarin``, whose
contexts and residuals are those of the trials and whose effects are fitted to them. ``before`` and ``after`` are
averages of the score, play + 0.1 (shortfall + front), until the last change of the population and from then on; play
and report (shortfall + front) likewise. ``behind`` is the mean difference within runs to the best other policy but the
oracle, after the change.

*Replay* (``real_trials_replay.md``): the raw rows of the trials, in random order. A row counts where the policy names
the arm that was given. The average outcome of rows that counted, in the units of the trial, and the mean over metrics
once each is scaled to between 0 (worst) and 1 (best). No model is involved; few rows count, so errors are large.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

import numpy as np

import conebandit as cb
from conebandit.environments import trials
from conebandit.environments.base import World
from conebandit.studies.bench import CONTENDERS, Contender
from conebandit.studies.standings import REPORT_WEIGHT
from conebandit.validate.arrays import FloatArray
from contest import RESULTS, behind, in_parallel, mean_and_error, options

HORIZON, RUNS = 20_000, 10
PARTS = ("before", "after")
POLICIES = ("trial", *(c.name for c in CONTENDERS))


@dataclass(frozen=True)
class Study:
    """A world and, if it is made from a trial, the trial."""

    name: str
    world: World
    trial: trials.Trial | None = None

    @property
    def shares(self) -> FloatArray:
        """With what probabilities the trial gave its arms; equal ones if there was none."""
        return np.full(self.world.n_arms, 1.0 / self.world.n_arms) if self.trial is None else self.trial.shares


def studies() -> list[Study]:
    found = [
        Study("RAND", cb.environments.rand_hie(), trials.read_rand_hie()),
        Study("warfarin (simulated)", cb.environments.warfarin()),
    ]
    if path := os.environ.get("ACTG175"):
        found.insert(1, Study("ACTG 175", cb.environments.actg175(path), trials.read_actg175(path)))
    return found


class Lots:
    """Arms by lot, as the trial gave them; reports the front of the averages so far, the same for everybody."""

    def __init__(self, world: World, shares: FloatArray, seed: int) -> None:
        self.n_arms, self.n_objectives, self.context_dim = world.n_arms, world.n_objectives, world.context_dim
        self.cone, self.shares, self.seed = world.cone, shares, seed
        self.counts, self.sums = np.zeros((self.n_arms, 1)), np.zeros((self.n_arms, self.n_objectives))

    def decide(self, context: Any, key: Any) -> cb.Decision:
        """An arm by lot."""
        arm = int(np.random.default_rng([self.seed, key]).choice(self.n_arms, p=self.shares))
        return cb.Decision(arm, float(self.shares[arm]), np.ones(self.n_arms, dtype=bool), self.shares)

    def observe(self, context: Any, arm: int, reward: Any) -> None:
        """Count."""
        self.counts[arm] += 1
        self.sums[arm] += reward

    def front(self, context: Any) -> cb.Front:
        """The front of the averages."""
        means = self.sums / np.maximum(self.counts, 1)
        arms = np.flatnonzero(cb.pareto_mask(means, self.cone))
        return cb.Front(tuple(arms.tolist()), means[arms], np.full((len(arms), self.n_objectives), np.inf))


def simulated(study: Study, contender: Contender, seed: int) -> FloatArray:
    """A run: (before or after, play or report)."""
    run = cb.simulate(contender.make(study.world, seed), study.world, HORIZON, seed=seed)
    change = study.world.change_points[-1]
    report = run.series["shortfall"] + run.series["front"]
    return np.array([[each[part].mean() for each in (run.series["play"], report)] for part in _parts(change)])


def _parts(change: int) -> tuple[slice, slice]:
    return slice(None, change), slice(change, None)


def replayed(study: Study, contender: Contender, seed: int) -> FloatArray:
    """A replay: the number of rows that counted, their mean outcomes, and the mean of these once scaled."""
    trial = study.trial
    assert trial is not None
    worst, best = np.array(trial.ranges).T
    scaled = (trial.outcomes - worst) / (best - worst)
    data = trial.contexts, trial.arms, 0.2 + 0.8 * scaled
    played = cb.replay(contender.make(study.world, seed), *data, propensities=trial.propensities, seed=seed)
    return np.array([len(played.rows), *trial.outcomes[played.rows].mean(axis=0), scaled[played.rows].mean()])


def main() -> None:
    made = studies()
    shares = {study.world.name: study.shares for study in made}
    lots = Contender("trial", "the trial's own lots", lambda world, seed: Lots(world, shares[world.name], seed))
    asked = options("real_trials", __doc__, POLICIES, [lots])
    seeds = asked.seeds(RUNS)
    jobs = [(study, c, seed) for study in made for c in asked.contenders for seed in seeds]
    runs = iter(in_parallel(simulated, jobs, "simulations"))
    report = asked.report("Policies on trials, before and after the population changes")
    for study in made:
        found = {c.name: np.array([next(runs) for _ in seeds]) for c in asked.contenders}  # (runs, parts, figures)
        scores = {name: values @ [1.0, REPORT_WEIGHT] for name, values in found.items()}
        last = {name: values[:, 1] for name, values in scores.items()}
        for name, values in found.items():
            row: dict[str, Any] = {"trial": study.name, "policy": name, "runs": len(values)}
            for position, part in enumerate(PARTS):
                row[part], row[f"se {part}"] = mean_and_error(scores[name][:, position])
                row[f"play {part}"], row[f"report {part}"] = values[:, position].mean(axis=0).tolist()
            rivals = {other: value for other, value in last.items() if other != "oracle" or name == "oracle"}
            row["behind"], row["se behind"] = behind(name, rivals)
            report.add(**row)
    asked.finish(report)

    real = [study for study in made if study.trial]
    contenders = [c for c in asked.contenders if c.name != "oracle"]  # it knows the model, not the rows
    jobs = [(study, c, seed) for study in real for c in contenders for seed in seeds]
    runs = iter(in_parallel(replayed, jobs, "replays"))
    report = asked.report("Policies on the raw rows of trials, by replay")
    for study in real:
        for contender in contenders:
            values = np.array([next(runs) for _ in seeds])
            row = {"trial": study.name, "policy": contender.name, "runs": len(values), "rows": values[:, 0].mean()}
            row["mean"], row["se"] = mean_and_error(values[:, -1])
            names = study.trial.outcome_names if study.trial else ()
            row["outcomes"] = ", ".join(f"{n} {v:.3f}" for n, v in zip(names, values[:, 1:].mean(axis=0), strict=False))
            report.add(**row)
    report.show()
    if asked.full:
        report.write(RESULTS / "real_trials_replay")


if __name__ == "__main__":
    main()
