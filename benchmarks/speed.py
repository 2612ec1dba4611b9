"""Time and memory of the tree policy, beside real peers, in one run and on one core.

    make bench            (or: python benchmarks/speed.py)

Prints one table and writes it, with the machine it was measured on, to ``benchmarks/results/speed.*``. K = 10 arms,
M = 2 objectives, 20,000 rounds. Contenders take turns, and the fastest of all turns counts, so that a busy machine
hurts all alike. Kernels are compiled before anything is timed.

Peers are installed from wheels into an environment of their own, ``.venv-bench``, and run there in a process of their
own (``python benchmarks/speed.py --peer river --data rounds.npz``). All do the same job on the same arrays: choose an
arm for a context, then learn from one number, the sum of the two objectives (they know no vectors), round by round.
Every peer gets ``BUDGET`` seconds; one that cannot finish 20,000 rounds is timed on as many as it can. *Vowpal Wabbit*
is used as in its tutorial, with text examples, and *MABWiser* with ``predict`` and ``partial_fit`` in each round.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from importlib import import_module, metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

IN_PEERS_ENVIRONMENT = "--peer" in sys.argv  # where conebandit is not installed
if TYPE_CHECKING or not IN_PEERS_ENVIRONMENT:
    from numpy.typing import NDArray

    import conebandit as cb
    from report import Report

Preset = Literal["paper", "sound"]

ARMS, ROUNDS, CHUNK = 10, 20_000, 4000
DIMS = (1, 2, 5)
PRESETS: tuple[Preset, ...] = ("paper", "sound")
TURNS = 8
BUDGET = 10.0  # seconds for each peer and dimension

WANTED = {"step by step": 12.0, "compiled loop": 1.5, "simulate in full": 3.0}  # microseconds a round
TO_FASTEST_PEER = 0.5
LONG, FLAT, FLAT_RUNS = 1_000_000, 1.3, 5
MEGABYTES = 200.0

HERE = Path(__file__).resolve().parent
PEERS_HOME = HERE.parent / ".venv-bench"
PEERS = {
    "vowpalwabbit": "vowpalwabbit",
    "river": "river",
    "mabwiser LinUCB": "mabwiser",
    "mabwiser TreeBandit": "mabwiser",
}
ONE_CORE = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")


def main() -> None:
    parser = argparse.ArgumentParser(description="Time and memory of the tree policy, beside peers.")
    parser.add_argument("--peer", choices=PEERS, help="time one peer and print JSON; needs --data")
    parser.add_argument("--data", type=Path, help="contexts and outcomes, .npz")
    parser.add_argument("--memory", choices=("paper", "sound"), help="memory of one long run, as JSON")
    options = parser.parse_args()
    if options.peer:
        print(json.dumps(time_peer(options.peer, options.data)))
    elif options.memory:
        print(json.dumps(memory_of_long_run(options.memory)))
    elif any(os.environ.get(name) != value for name, value in ONE_CORE.items()):
        os.execve(sys.executable, [sys.executable, *sys.argv], os.environ | ONE_CORE)  # libraries read it when loaded
    else:
        measure_all()


def measure_all() -> None:
    available = install_peers()
    report = Report(
        title="Speed: microseconds a round of conebandit and of peers in the same run",
        command="python benchmarks/speed.py",
        versions={"conebandit": cb.__version__, "numpy": np.__version__, "numba": metadata.version("numba")},
        machine=f"{platform.machine()}, Python {platform.python_version()}, one core",
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
        self.world = cb.environments.smooth(n_arms=ARMS, dim=dim, change_point=2000)
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


# ---- the environment of the peers -----------------------------------------------------------------------------------


def peers_python() -> Path:
    return PEERS_HOME / ("Scripts/python.exe" if os.name == "nt" else "bin/python")


def install_peers() -> dict[str, str | None]:
    """Why each peer is not available; None if it is."""
    if not peers_python().exists():
        subprocess.run([sys.executable, "-m", "venv", str(PEERS_HOME)], check=True)
    why = {package: install(package) for package in ("numpy", *PEERS.values())}
    return {name: why["numpy"] or why[package] for name, package in PEERS.items()}


def install(package: str) -> str | None:
    """Install a package from a wheel unless it is there; why that failed, or None."""
    look = subprocess.run([str(peers_python()), "-c", f"import {package}"], capture_output=True, check=False)
    if look.returncode == 0:
        return None
    command = [str(peers_python()), "-m", "pip", "install", "--quiet", "--only-binary", ":all:", package]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return last_line(done.stderr) if done.returncode else None


def run_peer(name: str, data: Path) -> dict[str, Any]:
    command = [str(peers_python()), str(HERE / "speed.py"), "--peer", name, "--data", str(data)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        return {"why": last_line(done.stderr)}
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answer


def last_line(text: str) -> str:
    return (text.strip().splitlines() or ["no message"])[-1]


# ---- the peers, each a function that plays one round ----------------------------------------------------------------


def time_peer(name: str, data: Path) -> dict[str, Any]:
    """Run in the peers' environment: the fastest run through the rounds, or the one that the budget cut short."""
    arrays = np.load(data)
    contexts, rewards = arrays["contexts"], arrays["outcomes"].sum(axis=2)
    start = {"vowpalwabbit": vowpalwabbit, "river": river}.get(name, mabwiser)
    finish, best, done = time.perf_counter() + BUDGET, np.inf, 0
    while time.perf_counter() < finish and done in (0, len(contexts)):
        play = start(name, contexts, rewards)
        begin = time.perf_counter()
        done = sum(1 for _ in until(finish, play, contexts, rewards))
        each = (time.perf_counter() - begin) / done
        if done == len(contexts) or best == np.inf:
            best, complete = min(best, each), done
    return {"microseconds": 1e6 * best, "rounds": complete, "version": metadata.version(PEERS[name])}


def until(
    finish: float, play: Callable[[NDArray[Any], NDArray[Any]], None], contexts: NDArray[Any], rewards: NDArray[Any]
) -> Iterator[None]:
    for i in range(len(contexts)):
        play(contexts[i], rewards[i])
        yield
        if i % 64 == 0 and time.perf_counter() > finish:
            return


def vowpalwabbit(_name: str, _contexts: NDArray[Any], _rewards: NDArray[Any]) -> Callable[..., None]:
    vw = import_module("vowpalwabbit")
    workspace = vw.Workspace("--cb_explore_adf --squarecb --quiet -q CA")
    actions = [f"|A arm_{k}" for k in range(ARMS)]
    draw = random.Random(0)

    def play(context: NDArray[Any], rewards: NDArray[Any]) -> None:
        shared = "shared |C " + " ".join(f"x{m}:{value}" for m, value in enumerate(context.tolist()))
        chances = workspace.predict("\n".join([shared, *actions]))
        arm = draw.choices(range(ARMS), weights=chances)[0]
        labelled = actions.copy()
        labelled[arm] = f"0:{-rewards[arm]}:{chances[arm]} {actions[arm]}"
        workspace.learn("\n".join([shared, *labelled]))  # text, so that the examples are given back when done

    return play


def river(_name: str, _contexts: NDArray[Any], _rewards: NDArray[Any]) -> Callable[..., None]:
    policy = import_module("river.bandit").LinUCBDisjoint(seed=0)
    arms = list(range(ARMS))

    def play(context: NDArray[Any], rewards: NDArray[Any]) -> None:
        features = dict(enumerate(context.tolist()))
        arm = policy.pull(arms, context=features)
        policy.update(arm, features, float(rewards[arm]))

    return play


def mabwiser(name: str, contexts: NDArray[Any], rewards: NDArray[Any]) -> Callable[..., None]:
    mab = import_module("mabwiser.mab")
    arms = list(range(ARMS))
    if name.endswith("TreeBandit"):
        model = mab.MAB(arms, mab.LearningPolicy.UCB1(alpha=1.0), mab.NeighborhoodPolicy.TreeBandit())
    else:
        model = mab.MAB(arms, mab.LearningPolicy.LinUCB(alpha=1.0))
    model.fit(arms, rewards[arms, arms], contexts[:ARMS])  # it wants some history: each arm once

    def play(context: NDArray[Any], rewards: NDArray[Any]) -> None:
        row = context[None, :]
        arm = model.predict(row)
        model.partial_fit([arm], [rewards[arm]], row)

    return play


# ---- long runs ------------------------------------------------------------------------------------------------------


def long_run(preset: Preset) -> Iterator[tuple[cb.ConeTree, int, float]]:
    """A million rounds at d = 2; yields the policy, rounds done and seconds taken by each chunk (drawing not timed)."""
    world = cb.environments.smooth(n_arms=ARMS, dim=2, change_point=2000)
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
