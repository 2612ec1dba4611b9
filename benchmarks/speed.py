"""Time and memory of the tree policy, beside real peers, in one run and on one core.

    make bench            (or: python benchmarks/speed.py)

Prints one table and writes it, with the machine it was measured on, to ``benchmarks/results/speed.*``. K = 10 arms,
M = 2 objectives, 20,000 rounds. Contenders take turns, and the fastest of all turns counts, so that a busy machine
hurts all alike. Kernels are compiled before anything is timed.

The peers are in ``benchmarks/peers.py``.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np

import conebandit as cb
from peers import ARMS, PEERS, install_peers, on_one_core, run_peer
from report import Report, machine, versions

Preset = Literal["paper", "sound"]

ROUNDS, CHUNK = 20_000, 4000
DIMS = (1, 2, 5)
PRESETS: tuple[Preset, ...] = ("paper", "sound")
TURNS = 8

WANTED = {"step by step": 12.0, "compiled loop": 1.5, "simulate in full": 3.0}  # microseconds a round
TO_FASTEST_PEER = 0.5
LONG, FLAT, FLAT_RUNS = 1_000_000, 1.3, 5
MEGABYTES = 200.0

HERE = Path(__file__).resolve().parent


def main() -> None:
    parser = argparse.ArgumentParser(description="Time and memory of the tree policy, beside peers.")
    parser.add_argument("--memory", choices=("paper", "sound"), help="memory of one long run, as JSON")
    options = parser.parse_args()
    if options.memory:
        print(json.dumps(memory_of_long_run(options.memory)))
    else:
        on_one_core()
        measure_all()


def measure_all() -> None:
    available = install_peers()
    report = Report(
        title="Speed: microseconds a round of conebandit and of peers in the same run",
        command="python benchmarks/speed.py",
        versions=versions("conebandit", "numpy", "numba"),
        machine=machine("one core"),
    )
    for dim in DIMS:
        measure_rounds(report, dim, available)
    measure_flatness(report)
    measure_memory(report)
    report.show()
    report.write(HERE / "results" / "speed")


# ---- rounds: conebandit and peers -----------------------------------------------------------------------------------


class Rounds:
    """Pre-drawn rounds of one world, and the ways to run the policy through them."""

    def __init__(self, dim: int) -> None:
        self.world = cb.environments.smooth(n_arms=ARMS, context_dim=dim, change_point=2000)
        rng = np.random.default_rng(0)
        self.contexts = np.ascontiguousarray(self.world.contexts(rng, ROUNDS, 0))
        self.outcomes = np.ascontiguousarray(self.world.rewards(rng, self.world.means(self.contexts)))
        self.keys = np.arange(ROUNDS, dtype=np.uint64)

    def policy(self, preset: Preset) -> cb.ConeTree:
        """A fresh policy."""
        return cb.ConeTree(n_arms=ARMS, cone=self.world.cone, context_dim=self.world.context_dim, preset=preset)

    def step_by_step(self, preset: Preset) -> None:
        """Through Python, one call to decide and one to observe in each round."""
        policy = self.policy(preset)
        for i in range(ROUNDS):
            context = self.contexts[i]
            arm = policy.decide(context, i).arm
            policy.observe(context, arm, self.outcomes[i, arm])

    def compiled_loop(self, preset: Preset) -> None:
        """Chunk by chunk, with the reported fronts."""
        policy = self.policy(preset)
        for start in range(0, ROUNDS, CHUNK):
            part = slice(start, start + CHUNK)
            policy.run_chunk(self.contexts[part], self.outcomes[part], self.keys[part])

    def simulate_in_full(self, preset: Preset) -> None:
        """With environment and regret."""
        cb.simulate(self.policy(preset), self.world, ROUNDS)

    def contenders(self) -> dict[tuple[str, Preset], Callable[[], None]]:
        """All of these, for both presets."""
        runs = {
            "step by step": self.step_by_step,
            "compiled loop": self.compiled_loop,
            "simulate in full": self.simulate_in_full,
        }
        return {(task, preset): partial(run, preset) for task, run in runs.items() for preset in PRESETS}


def measure_rounds(report: Report, dim: int, available: dict[str, str | None]) -> None:
    """Ours and the peers, in turns: between any two peers everything of ours is timed again."""
    rounds = Rounds(dim)
    contenders = rounds.contenders()
    best = dict.fromkeys(contenders, np.inf)
    peers: dict[str, dict[str, Any]] = {}
    for run in contenders.values():
        run()  # compile, warm up
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "rounds.npz"
        np.savez(data, contexts=rounds.contexts, outcomes=rounds.outcomes)
        for name in PEERS:
            for _ in range(TURNS // len(PEERS)):
                take_turns(contenders, best)
            peers[name] = {"why": available[name]} if available[name] else run_peer(name, data)
    take_turns(contenders, best)
    times = {name: peer["microseconds"] for name, peer in peers.items() if "microseconds" in peer}
    for (task, preset), seconds in best.items():
        add_ours(report, dim, task, preset, each=1e6 * seconds / ROUNDS, peers=times)
    for name, peer in peers.items():
        add_peer(report, dim, name, peer)


def take_turns(contenders: dict[tuple[str, Preset], Callable[[], None]], best: dict[tuple[str, Preset], float]) -> None:
    for name, run in contenders.items():
        for _ in range(1 if name[0] == "step by step" else 3):  # short ones more often
            start = time.perf_counter()
            run()
            best[name] = min(best[name], time.perf_counter() - start)


def add_ours(report: Report, dim: int, task: str, preset: str, *, each: float, peers: dict[str, float]) -> None:
    report.add(
        task=task,
        contender=f"conebandit, {preset}",
        d=dim,
        rounds=ROUNDS,
        microseconds=each,
        wanted=f"< {WANTED[task]:g} us",
        reached=each < WANTED[task],
    )
    if task == "step by step" and peers:
        fastest = min(peers, key=peers.__getitem__)
        ratio = each / peers[fastest]
        report.add(
            task="step by step, to the fastest peer",
            contender=f"conebandit, {preset}",
            d=dim,
            ratio=ratio,
            wanted=f"<= {TO_FASTEST_PEER:g} x {fastest}",
            reached=ratio <= TO_FASTEST_PEER,
        )


def add_peer(report: Report, dim: int, name: str, peer: dict[str, Any]) -> None:
    if "microseconds" not in peer:
        report.add(task="step by step", contender=name, d=dim, wanted=f"not available: {peer['why']}")
        return
    report.about["versions"] |= {PEERS[name]: peer["version"]}  # type: ignore[operator]
    report.add(
        task="step by step", contender=name, d=dim, rounds=int(peer["rounds"]), microseconds=float(peer["microseconds"])
    )


# ---- long runs ------------------------------------------------------------------------------------------------------


def long_run(preset: Preset) -> Iterator[tuple[cb.ConeTree, int, float]]:
    """A million rounds at d = 2; yields the policy, rounds done and seconds taken by each chunk (drawing not timed)."""
    world = cb.environments.smooth(n_arms=ARMS, context_dim=2, change_point=2000)
    policy = cb.ConeTree(n_arms=ARMS, cone=world.cone, context_dim=2, preset=preset)
    rng = np.random.default_rng(1)
    for start in range(0, LONG, CHUNK):
        contexts = np.ascontiguousarray(world.contexts(rng, CHUNK, start))
        outcomes = np.ascontiguousarray(world.rewards(rng, world.means(contexts)))
        keys = np.arange(start, start + CHUNK, dtype=np.uint64)
        begin = time.perf_counter()
        policy.run_chunk(contexts, outcomes, keys)
        yield policy, start + CHUNK, time.perf_counter() - begin


def measure_flatness(report: Report) -> None:
    """Late rounds against early ones; each chunk counts with the fastest of several runs, which take turns."""
    runs = {preset: [np.array([t for _, _, t in long_run(preset)])] for preset in PRESETS}
    for _ in range(FLAT_RUNS - 1):
        for preset in PRESETS:
            runs[preset].append(np.array([t for _, _, t in long_run(preset)]))
    done = CHUNK * np.arange(1, len(runs["paper"][0]) + 1)
    for preset in PRESETS:
        each = np.min(runs[preset], axis=0) / CHUNK
        early, late = (
            1e6 * each[(done > first) & (done <= first + 100_000)].mean() for first in (100_000, LONG - 100_000)
        )
        report.add(
            task="compiled loop, rounds 900,000 to 1,000,000 to rounds 100,000 to 200,000",
            contender=f"conebandit, {preset}",
            d=2,
            rounds=LONG,
            microseconds=float(late),
            ratio=float(late / early),
            wanted=f"<= {FLAT:g}",
            reached=bool(late <= FLAT * early),
        )


def memory_of_long_run(preset: Preset) -> dict[str, float]:
    """Megabytes held by the arrays of a policy after a million rounds, and by how much the peak of the process grew."""
    rounds = long_run(preset)
    policy, _, _ = next(rounds)  # compile
    before = peak_megabytes()
    for policy, _, _ in rounds:  # noqa: B007  (the last one is wanted)
        pass
    held = sum(array.nbytes for array in policy._state)
    return {"arrays": held / 1e6, "peak": peak_megabytes() - before}


def peak_megabytes() -> float:
    """Most memory this process has held so far.

    Not ``ru_maxrss`` where it can be avoided: on Linux a child starts with its parent's, so growth would not show.
    """
    status = Path("/proc/self/status")
    if status.exists():
        line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
        return int(line.split()[1]) * 1024 / 1e6
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e6


def measure_memory(report: Report) -> None:
    for preset in PRESETS:
        command = [sys.executable, str(HERE / "speed.py"), "--memory", preset]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        for what, megabytes in json.loads(done.stdout).items():
            report.add(
                task={"arrays": "memory, arrays of the state", "peak": "memory, growth of the process's peak"}[what],
                contender=f"conebandit, {preset}",
                d=2,
                rounds=LONG,
                megabytes=megabytes,
                wanted=f"< {MEGABYTES:g} MB",
                reached=megabytes < MEGABYTES,
            )


if __name__ == "__main__":
    main()
