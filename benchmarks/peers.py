"""Peers: other bandit libraries, installed from wheels into an environment of their own and run there.

``python benchmarks/peers.py river rounds.npz`` times one peer and prints JSON; it is run in that environment, where
conebandit is not installed, so nothing of it is imported here. All peers do the same job on the same arrays: choose an
arm for a context, then learn from one number, the mean of the objectives (they know no vectors), round by round.
Every peer gets ``BUDGET`` seconds; one that cannot finish all rounds is timed on as many as it can. *Vowpal Wabbit* is
used as in its tutorial, with text examples, and *MABWiser* with ``predict`` and ``partial_fit`` in each round.

With ``--play`` a peer goes through all rounds once, and the arms that it chose are in the answer as well.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from importlib import import_module, metadata
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

HERE = Path(__file__).resolve().parent
PEERS_HOME = HERE.parent / ".venv-bench"
PEERS = {
    "vowpalwabbit": "vowpalwabbit",
    "river": "river",
    "mabwiser LinUCB": "mabwiser",
    "mabwiser TreeBandit": "mabwiser",
}
PLAYERS = {  # those whose play is measured, with the products of coordinates that a careful user would add
    "vowpalwabbit squarecb": "vowpalwabbit",
    "vowpalwabbit epsilon-greedy": "vowpalwabbit",
    "mabwiser LinUCB": "mabwiser",
    "river LinUCB": "river",
}
EXPLORATION = {  # of Vowpal Wabbit; C are the coordinates of the context, A the arm
    "vowpalwabbit": "--squarecb -q CA",
    "vowpalwabbit squarecb": "--squarecb -q CA --cubic CCA",
    "vowpalwabbit epsilon-greedy": "--epsilon 0.05 -q CA --cubic CCA",
}
ARMS = 10
BUDGET = 10.0  # seconds for each peer and dimension
ONE_CORE = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")

Play = Callable[[NDArray[Any], NDArray[Any]], int]  # one round: from a context and the rewards of all arms to an arm


def main() -> None:
    parser = argparse.ArgumentParser(description="Time one peer and print JSON.")
    parser.add_argument("peer", choices=PEERS | PLAYERS)
    parser.add_argument("data", type=Path, help="contexts and outcomes, .npz")
    parser.add_argument("--play", action="store_true", help="all rounds, once, with the arms that were chosen")
    options = parser.parse_args()
    print(json.dumps((play_peer if options.play else time_peer)(options.peer, options.data)))


def on_one_core() -> None:
    """Start this program again unless libraries were told to use one thread: they read it when loaded."""
    if any(os.environ.get(name) != value for name, value in ONE_CORE.items()):
        os.execve(sys.executable, [sys.executable, *sys.argv], os.environ | ONE_CORE)


# ---- their environment ----------------------------------------------------------------------------------------------


def peers_python() -> Path:
    return PEERS_HOME / ("Scripts/python.exe" if os.name == "nt" else "bin/python")


def install_peers() -> dict[str, str | None]:
    """Why each peer is not available; None if it is."""
    if not peers_python().exists():
        subprocess.run([sys.executable, "-m", "venv", str(PEERS_HOME)], check=True)
    why = {package: install(package) for package in ("numpy", *PEERS.values())}
    return {name: why["numpy"] or why[package] for name, package in (PEERS | PLAYERS).items()}


def install(package: str) -> str | None:
    """Install a package from a wheel unless it is there; why that failed, or None."""
    look = subprocess.run([str(peers_python()), "-c", f"import {package}"], capture_output=True, check=False)
    if look.returncode == 0:
        return None
    command = [str(peers_python()), "-m", "pip", "install", "--quiet", "--only-binary", ":all:", package]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return last_line(done.stderr) if done.returncode else None


def run_peer(name: str, data: Path, *options: str) -> dict[str, Any]:
    """Run a peer in its environment; ``why`` not, if that failed."""
    command = [str(peers_python()), str(HERE / "peers.py"), name, str(data), *options]
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
    contexts, rewards = arrays["contexts"], arrays["outcomes"].mean(axis=2)
    finish, best, done = time.perf_counter() + BUDGET, np.inf, 0
    while time.perf_counter() < finish and done in (0, len(contexts)):
        play = start(name, contexts, rewards)
        begin = time.perf_counter()
        done = sum(1 for _ in until(finish, play, contexts, rewards))
        each = (time.perf_counter() - begin) / done
        if done == len(contexts) or best == np.inf:
            best, complete = min(best, each), done
    return {"microseconds": 1e6 * best, "rounds": complete, "version": metadata.version(PEERS[name])}


def play_peer(name: str, data: Path) -> dict[str, Any]:
    """Run in the peers' environment: the arms of all rounds, and the time of one."""
    arrays = np.load(data)
    contexts, rewards = arrays["contexts"], arrays["outcomes"].mean(axis=2)
    if PLAYERS[name] != "vowpalwabbit":  # which has a constant of its own
        contexts = np.column_stack([contexts, np.ones(len(contexts))])
    play = start(name, contexts, rewards)
    begin = time.perf_counter()
    arms = list(until(np.inf, play, contexts, rewards))
    each = (time.perf_counter() - begin) / len(arms)
    return {"arms": arms, "microseconds": 1e6 * each, "version": metadata.version(PLAYERS[name])}


def until(finish: float, play: Play, contexts: NDArray[Any], rewards: NDArray[Any]) -> Iterator[int]:
    for i in range(len(contexts)):
        yield play(contexts[i], rewards[i])
        if i % 64 == 0 and time.perf_counter() > finish:
            return


def start(name: str, contexts: NDArray[Any], rewards: NDArray[Any]) -> Play:
    """A peer that has seen nothing yet."""
    n_arms = rewards.shape[1]
    if name.startswith("vowpalwabbit"):
        return vowpalwabbit(EXPLORATION[name], n_arms)
    if name.startswith("river"):
        return river(n_arms)
    return mabwiser(name, contexts, rewards)


def vowpalwabbit(exploration: str, n_arms: int) -> Play:
    vw = import_module("vowpalwabbit")
    workspace = vw.Workspace(f"--cb_explore_adf --quiet {exploration}")
    actions = [f"|A arm_{k}" for k in range(n_arms)]
    draw = random.Random(0)

    def play(context: NDArray[Any], rewards: NDArray[Any]) -> int:
        shared = "shared |C " + " ".join(f"x{m}:{value}" for m, value in enumerate(context.tolist()))
        chances = workspace.predict("\n".join([shared, *actions]))
        arm = draw.choices(range(n_arms), weights=chances)[0]
        labelled = actions.copy()
        labelled[arm] = f"0:{-rewards[arm]}:{chances[arm]} {actions[arm]}"
        workspace.learn("\n".join([shared, *labelled]))  # text, so that the library frees the examples when done
        return arm

    return play


def river(n_arms: int) -> Play:
    policy = import_module("river.bandit").LinUCBDisjoint(seed=0)
    arms = list(range(n_arms))

    def play(context: NDArray[Any], rewards: NDArray[Any]) -> int:
        features = dict(enumerate(context.tolist()))
        arm: int = policy.pull(arms, context=features)
        policy.update(arm, features, float(rewards[arm]))
        return arm

    return play


def mabwiser(name: str, contexts: NDArray[Any], rewards: NDArray[Any]) -> Play:
    mab = import_module("mabwiser.mab")
    arms = list(range(rewards.shape[1]))
    if name.endswith("TreeBandit"):
        model = mab.MAB(arms, mab.LearningPolicy.UCB1(alpha=1.0), mab.NeighborhoodPolicy.TreeBandit())
    else:
        model = mab.MAB(arms, mab.LearningPolicy.LinUCB(alpha=1.0))
    model.fit(arms, rewards[arms, arms], contexts[: len(arms)])  # it wants some history: each arm once

    def play(context: NDArray[Any], rewards: NDArray[Any]) -> int:
        row = context[None, :]
        arm: int = model.predict(row)
        model.partial_fit([arm], [rewards[arm]], row)
        return arm

    return play


if __name__ == "__main__":
    main()
