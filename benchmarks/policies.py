"""Time of the policies that learn: the adaptive tree and the kernel, in ``simulate`` and step by step.

    python benchmarks/policies.py

K = 10 arms, M = 2 objectives, d = 2, 20,000 rounds, one core; the fastest of twelve turns counts. The kernel is timed
where few features are needed (a smooth environment) and where it uses all 128 (one with a short length scale). The
longest pause is the longest single step (decide and observe) of 20,000: with an installment of a fit, or where a leaf
is split; of a few turns, the one with the shortest.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import conebandit as cb
from conebandit.environments.base import World
from conebandit.environments.noise import Gaussian
from report import Report, machine, versions

ROUNDS, TURNS = 20_000, 12  # shared machines have slow spells of several seconds
WANTED = {"tree, adaptive": (10.0, 25.0), "kernel": (25.0, 40.0)}  # microseconds: simulate, step by step
HERE = Path(__file__).resolve().parent


def contenders(env: World) -> dict[str, Any]:
    size = (env.n_arms, env.cone, env.context_dim)
    return {"tree, adaptive": cb.ConeTree(*size, preset="adaptive"), "kernel": cb.ConeKernel(*size)}


def fastest(action: Callable[[], int]) -> float:
    """Microseconds a round."""
    action()
    times = []
    for _ in range(TURNS):
        start = time.perf_counter()
        rounds = action()
        times.append((time.perf_counter() - start) / rounds)
    return 1e6 * min(times)


def step_by_step(policy: Any, env: World) -> int:
    """Decide and observe, from the first round on, as a caller would."""
    learner, rng = policy.copy(), np.random.default_rng(0)
    contexts = env.contexts(rng, ROUNDS, 0)
    outcomes = env.rewards(rng, env.means(contexts))
    for i in range(ROUNDS):
        arm = learner.decide(contexts[i], i).arm
        learner.observe(contexts[i], arm, outcomes[i, arm])
    return ROUNDS


def longest_pause(policy: Any, env: World) -> float:
    """Microseconds of the longest step of a turn, in the turn where it is shortest."""
    longest = []
    for _ in range(TURNS):
        learner, rng, worst = policy.copy(), np.random.default_rng(0), 0.0
        contexts = env.contexts(rng, ROUNDS, 0)
        outcomes = env.rewards(rng, env.means(contexts))
        for i in range(ROUNDS):
            start = time.perf_counter()
            arm = learner.decide(contexts[i], i).arm
            learner.observe(contexts[i], arm, outcomes[i, arm])
            worst = max(worst, time.perf_counter() - start)
        longest.append(worst)
    return 1e6 * min(longest)


def simulate(policy: Any, env: World) -> int:
    cb.simulate(policy, env, ROUNDS)
    return ROUNDS


def main() -> None:
    report = Report(
        title="Policies that learn: microseconds a round (K = 10, M = 2, d = 2)",
        command="python benchmarks/policies.py",
        versions=versions("conebandit", "numpy", "numba"),
        machine=machine("one core"),
    )
    worlds = {
        "smooth": cb.environments.smooth(n_arms=10),
        "rough": cb.environments.smooth(n_arms=10, length_scale=0.06, noise=Gaussian(0.1)),
    }
    for world, env in worlds.items():
        for name, policy in contenders(env).items():
            features = cb.simulate(policy, env, ROUNDS).policy
            for task, action, wanted in zip(
                ("simulate", "step by step"), (simulate, step_by_step), WANTED[name], strict=True
            ):
                microseconds = fastest(lambda action=action, policy=policy, env=env: action(policy, env))  # type: ignore[misc]
                report.add(
                    environment=world,
                    policy=name,
                    features=getattr(features, "n_features", None),
                    task=task,
                    microseconds=microseconds,
                    wanted=f"< {wanted:g} us",
                    reached=microseconds < wanted,
                )
            report.add(
                environment=world,
                policy=name,
                features=getattr(features, "n_features", None),
                task="longest pause",
                microseconds=longest_pause(policy, env),
                wanted=None,
                reached=None,
            )
    report.show()
    report.write(HERE / "results" / "policies")


if __name__ == "__main__":
    main()
