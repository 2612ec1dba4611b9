"""What a user would pick instead: play regret and time of other libraries on the streams of ``benchmarks/unseen.py``.

    python benchmarks/peers_play.py
    python benchmarks/peers_play.py --policy linear      another contender in the place of the default policy

Everybody meets the same contexts and the same outcomes, round by round from Python, on one core. The peers
(``benchmarks/peers.py``, in an environment of their own) know no vectors: they learn from the mean of the metrics.
*Vowpal Wabbit* gets products of coordinates and arm of degree two and three, and explores by SquareCB or
epsilon-greedily; *MABWiser* and *river* run LinUCB with a constant among the coordinates. (MABWiser's TreeBandit takes
3 ms a round, more as time goes on, and is left out.)

``play`` is the gap of the played arm to the true front, averaged over the rounds after the last change point and over
seeds. That is no measure of the peers' own aim: an arm of the largest mean is on the front, so a peer that reaches its
aim has no play regret either. ``ratio`` is ours to theirs. Horizons are cut to ``MAX_ROUNDS``, for all alike.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from conebandit.environments.base import World
from conebandit.policies.base import Policy
from conebandit.regret import regret_series
from conebandit.simulate import simulate
from conebandit.studies.bench import CONTENDERS, DEFAULT, Contender
from conebandit.validate.arrays import FloatArray
from peers import PLAYERS, install_peers, on_one_core, run_peer
from report import Report, machine, versions
from unseen import count_look, geometric_mean
from unseen_kinds import Kind, kinds

MAX_ROUNDS = 10_000
SEEDS = range(2)
KINDS = (
    "drugs",
    "members",
    "moving",
    "rectifiers",
    "combination",
    "arms-60",
    "dim-15",
    "oblique-steps",
    "corner-wave",
    "bumps-30",
    "purchases",
)
BoolArray = NDArray[np.bool_]
Arms = NDArray[np.int64]
HERE = Path(__file__).resolve().parent


def main() -> None:
    parser = argparse.ArgumentParser(description="Play regret and time of other libraries in unseen environments.")
    parser.add_argument(
        "--policy", default=DEFAULT, choices=[c.name for c in CONTENDERS], help="instead of the default"
    )
    options = parser.parse_args()
    on_one_core()
    ours = next(c for c in CONTENDERS if c.name == options.policy)
    report = Report(
        title="What a user would pick instead: play regret and microseconds a round on the same streams",
        command="python benchmarks/peers_play.py",
        versions=versions("conebandit", "numpy", "numba"),
        machine=machine("one core", f"{len(SEEDS)} seeds"),
    )
    available = install_peers()
    for name in PLAYERS:
        if available[name]:
            report.add(task="not available", contender=f"{name}: {available[name]}")
    wanted = [kind for kind in kinds() if kind.name in KINDS]
    results = [measure(report, kind, ours, [name for name in PLAYERS if not available[name]]) for kind in wanted]
    ratios = summarise(report, ours.name, results)
    report.show()
    if ours.name == DEFAULT:
        count_look(f"{len(wanted)} of {len(kinds())}, play beside peers", ratios)
        report.write(HERE / "results" / "peers_play")


# ---- one kind -------------------------------------------------------------------------------------------------------


@dataclass
class Recorder:
    """A policy that plays arm 0 and keeps what it meets, so that streams are those of ``simulate``."""

    n_arms: int
    n_objectives: int
    context_dim: int
    outcomes: list[FloatArray] = field(default_factory=list)

    def run_chunk(
        self, contexts: FloatArray, outcomes: FloatArray, keys: NDArray[np.uint64]
    ) -> tuple[Arms, FloatArray, BoolArray, BoolArray]:
        """Arms, propensities, active and reported arms."""
        self.outcomes.append(outcomes)
        everyone = np.ones(outcomes.shape[:2], dtype=np.bool_)
        return np.zeros(len(contexts), dtype=np.int64), np.ones(len(contexts)), everyone, everyone


def stream(world: World, rounds: int, seed: int) -> tuple[FloatArray, FloatArray]:
    """Contexts (n, d) and outcomes of all arms (n, K, M)."""
    recorder: Any = Recorder(world.n_arms, world.n_objectives, world.context_dim)
    run = simulate(recorder, world, rounds, seed)
    kept: Any = run.policy
    return run.contexts, np.concatenate(kept.outcomes)


def measure(report: Report, kind: Kind, ours: Contender, peers: Sequence[str]) -> dict[str, tuple[float, float]]:
    """Play regret and microseconds of everybody, averaged over seeds."""
    rounds = min(kind.horizon, MAX_ROUNDS)
    found: dict[str, list[tuple[float, float]]] = {}
    for seed in SEEDS:
        world = kind.make(seed)
        contexts, outcomes = stream(world, rounds, seed)
        arms, each = step_by_step(ours.make(world, seed), contexts, outcomes)
        found.setdefault(ours.name, []).append((play_regret(world, contexts, arms), each))
        with tempfile.TemporaryDirectory() as folder:
            data = Path(folder) / "rounds.npz"
            np.savez(data, contexts=contexts, outcomes=outcomes)
            for name in peers:
                answer = run_peer(name, data, "--play")
                if "why" in answer:
                    raise RuntimeError(f"{name} failed in {kind.name}: {answer['why']}")
                report.about["versions"] |= {PLAYERS[name]: answer["version"]}  # type: ignore[operator]
                result = play_regret(world, contexts, np.array(answer["arms"])), answer["microseconds"]
                found.setdefault(name, []).append(result)
    means = {name: tuple(np.mean(values, axis=0).tolist()) for name, values in found.items()}
    for name, (play, each) in means.items():
        ratio = None if name == ours.name else means[ours.name][0] / play
        report.add(task=kind.name, contender=name, rounds=rounds, play=play, ratio=ratio, microseconds=each)
    return means


def step_by_step(policy: Policy, contexts: FloatArray, outcomes: FloatArray) -> tuple[Arms, float]:
    """Arms that a policy plays, and microseconds of one round."""
    arms = np.empty(len(contexts), dtype=np.int64)
    policy.decide(contexts[0], 0)  # so that nothing is compiled below
    start = time.perf_counter()
    for i, context in enumerate(contexts):
        arm = policy.decide(context, i).arm
        policy.observe(context, arm, outcomes[i, arm])
        arms[i] = arm
    return arms, 1e6 * (time.perf_counter() - start) / len(contexts)


def play_regret(world: World, contexts: FloatArray, arms: Arms) -> float:
    """Average gap of the played arms after the last change point."""
    after = slice(world.change_points[-1], None)
    means = world.means(contexts[after])
    played = np.arange(world.n_arms) == arms[after, None]
    return float(regret_series(means, world.cone, arms[after], played, played)["play"].mean())


# ---- all kinds ------------------------------------------------------------------------------------------------------


def summarise(report: Report, ours: str, results: Sequence[dict[str, tuple[float, float]]]) -> list[float]:
    """Geometric means over kinds; the result is our play regret to that of the best peer, kind by kind."""
    for name in results[0]:
        each = geometric_mean([result[name][1] for result in results])
        ratio = None if name == ours else geometric_mean([result[ours][0] / result[name][0] for result in results])
        report.add(task="geometric mean", contender=name, ratio=ratio, microseconds=each)
    ratios = [result[ours][0] / min(play for name, (play, _) in result.items() if name != ours) for result in results]
    report.add(task="geometric mean", contender="the best peer of each kind", ratio=geometric_mean(ratios))
    report.add(task="worst", contender="the best peer of each kind", ratio=max(ratios))
    return ratios


if __name__ == "__main__":
    main()
