"""Peers: other bandit libraries, installed from wheels into an environment of their own and run there.

``python benchmarks/peers.py river rounds.npz`` times one peer and prints JSON; it is run in that environment, where
conebandit is not installed, so nothing of it is imported here. All peers do the same job on the same arrays: choose an
arm for a context, then learn from one number, the sum of the two objectives (they know no vectors), round by round.
Every peer gets ``BUDGET`` seconds; one that cannot finish all rounds is timed on as many as it can. *Vowpal Wabbit* is
used as in its tutorial, with text examples, and *MABWiser* with ``predict`` and ``partial_fit`` in each round.
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
ARMS = 10
BUDGET = 10.0  # seconds for each peer and dimension


def main() -> None:
    parser = argparse.ArgumentParser(description="Time one peer and print JSON.")
    parser.add_argument("peer", choices=PEERS)
    parser.add_argument("data", type=Path, help="contexts and outcomes, .npz")
    options = parser.parse_args()
    print(json.dumps(time_peer(options.peer, options.data)))


# ---- their environment ----------------------------------------------------------------------------------------------


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
    """Time a peer in its environment; ``why`` not, if that failed."""
    command = [str(peers_python()), str(HERE / "peers.py"), name, str(data)]
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
        workspace.learn("\n".join([shared, *labelled]))  # text, so that the library frees the examples when done

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


if __name__ == "__main__":
    main()
