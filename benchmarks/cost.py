"""What the default policy costs: time by the number of arms, the longest call, and what does not grow with the log.

    python benchmarks/cost.py

Three parts, each with all 128 features in use:

- microseconds a round for K = 10, 30, 100 arms, M = 2, d = 2, in ``simulate`` and step by step, over 20,000 rounds (the
  fits among them); the fastest turn counts;
- milliseconds of single calls of ``decide`` and ``observe`` at K = 30, M = 3, d = 20, while the policy learns from
  200,000 observations of random arms: the longest, and the quantile that one call in 10,000 exceeds. Beside the time by
  the clock stands the processor time of the call, which has nothing of what else the machine does; and how long the
  machine kept a process waiting that only naps (``stalls.py``);
- microseconds a round and megabytes after 100,000, 300,000 and 1,000,000 observations, K = 10, M = 2, d = 2.
"""

from __future__ import annotations

import resource
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import conebandit as cb
from conebandit.environments.base import World
from conebandit.environments.noise import Gaussian
from policies import ROUNDS, simulate, step_by_step
from report import Report, machine, versions
from stalls import watched

ARMS = (10, 30, 100)
TURNS = 3
CALLS, WANTED_LONGEST = 200_000, 5.0  # observations; milliseconds
WANTED_ROUND = {"simulate": 25.0, "step by step": 40.0}  # microseconds at the fewest arms
WANTED_GROWTH = 12.0  # times as long at the most arms
MARKS, CHUNK = (100_000, 300_000, 1_000_000), 20_000
FLAT = 1.1  # times as long at the last mark as at the first
RARE = 1e-4  # share of calls that exceed the quantile
HERE = Path(__file__).resolve().parent


def rough(n_arms: int) -> World:
    """An environment in which all features are needed."""
    return cb.environments.smooth(n_arms=n_arms, length_scale=0.06, noise=Gaussian(0.1))


def fastest(action: Callable[[Any, World], int], policy: Any, env: World) -> float:
    """Microseconds a round."""
    times = []
    for _ in range(TURNS):
        start = time.perf_counter()
        rounds = action(policy, env)
        times.append((time.perf_counter() - start) / rounds)
    return 1e6 * min(times)


def by_arms(report: Report) -> None:
    for task, action in (("simulate", simulate), ("step by step", step_by_step)):
        least = None
        for n_arms in ARMS:
            env = rough(n_arms)
            policy = cb.ConeKernel(n_arms, env.cone, env.context_dim)
            learned: Any = cb.simulate(policy, env, ROUNDS).policy
            value = fastest(action, policy, env)
            wanted = WANTED_ROUND[task] if least is None else None
            if least is not None and n_arms == ARMS[-1]:
                wanted = WANTED_GROWTH * least
            least = least or value
            add(
                report,
                f"us a round, {task}",
                Case(f"K = {n_arms}, M = 2, d = 2", learned.n_features, ROUNDS),
                value,
                wanted,
            )


class Case(NamedTuple):
    """What was measured."""

    size: str
    features: int
    observations: int


def add(report: Report, measure: str, case: Case, value: float, wanted: float | None = None) -> None:
    """One row; ``wanted`` is the most that the value may be."""
    report.add(
        measure=measure,
        **case._asdict(),
        value=value,
        wanted=None if wanted is None else f"<= {wanted:.3g}",
        reached=None if wanted is None else value <= wanted,
    )


class Clock:
    """Times of single calls, by the clock and of the processor, in milliseconds."""

    def __init__(self, calls: int) -> None:
        self.times: NDArray[np.float64] = np.empty((calls, 2))
        self._done = 0

    def call(self, action: Callable[..., Any], *arguments: Any) -> None:
        """Call and keep the time."""
        clock, processor = time.perf_counter(), time.thread_time()
        action(*arguments)
        spent = time.perf_counter() - clock, time.thread_time() - processor
        self.times[self._done] = 1e3 * np.array(spent)
        self._done += 1


def single_calls(report: Report) -> None:
    n_arms, metrics, dim = 30, 3, 20
    rng = np.random.default_rng(0)
    shifts = rng.normal(size=(n_arms, metrics, 8))

    def reward(x: NDArray[np.float64], arm: int) -> NDArray[np.float64]:
        waves = np.sin(9 * x[:8] + shifts[arm]).sum(axis=1)
        return np.asarray(waves + np.cos(5 * x[:4] @ x[4:8] + shifts[arm, :, 0]) + 0.05 * rng.standard_normal(metrics))

    def learn(policy: Any, calls: int, deciding: Clock, observing: Clock) -> None:
        for key in range(calls):
            x, arm = rng.random(dim), int(rng.integers(n_arms))
            y = reward(x, arm)
            deciding.call(policy.decide, x, key)
            observing.call(policy.observe, x, arm, y)

    def fresh() -> Any:
        return cb.ConeKernel(n_arms, cb.Cone.orthant(metrics), dim)

    learn(fresh(), ROUNDS, Clock(ROUNDS), Clock(ROUNDS))  # so that all machine code is loaded
    policy, clocks = fresh(), {"decide": Clock(CALLS), "observe": Clock(CALLS)}
    with tempfile.TemporaryDirectory() as folder, watched(Path(folder)) as stalls:
        learn(policy, CALLS, *clocks.values())
    case = Case(f"K = {n_arms}, M = {metrics}, d = {dim}", policy.n_features, CALLS)
    for name, clock in clocks.items():
        for place, kind in enumerate(("clock", "processor")):
            times = clock.times[:, place]
            typical, rare, longest = np.median(times), np.quantile(times, 1 - RARE), times.max()
            add(report, f"ms of {name}, {kind}, median", case, float(typical))
            add(report, f"ms of {name}, {kind}, 99.99 %", case, float(rare), WANTED_LONGEST)
            add(report, f"ms of {name}, {kind}, longest", case, float(longest), WANTED_LONGEST)
    add(report, "ms that the machine kept a nap waiting, longest", case, stalls["nap"])


def over_time(report: Report) -> None:
    env, rng = rough(ARMS[0]), np.random.default_rng(0)
    policy, first = cb.ConeKernel(env.n_arms, env.cone, env.context_dim), None
    size = f"K = {env.n_arms}, M = 2, d = 2"
    for start in range(0, MARKS[-1] + 2 * CHUNK, CHUNK):
        contexts = env.contexts(rng, CHUNK, start)
        outcomes = env.rewards(rng, env.means(contexts))
        keys = np.arange(start, start + CHUNK, dtype=np.uint64)
        before = time.perf_counter()
        policy.run_chunk(contexts, outcomes, keys)
        microseconds = 1e6 * (time.perf_counter() - before) / CHUNK
        if start - CHUNK in MARKS:  # the last fit ends a little after the first mark
            case, wanted = Case(size, policy.n_features, start - CHUNK), None if first is None else FLAT * first
            first = first or microseconds
            add(report, "us a round after", case, microseconds, wanted)
            held = sum(array.nbytes for array in policy.state().values()) / 1e6
            most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
            add(report, "MB of the state", case, held)
            add(report, "MB of the process, most so far", case, most)


def main() -> None:
    report = Report(
        title="What the default policy costs",
        command="python benchmarks/cost.py",
        versions=versions("conebandit", "numpy", "numba"),
        machine=machine("one core"),
    )
    over_time(report)  # first, since the most memory so far is that of the process
    by_arms(report)
    single_calls(report)
    report.show()
    report.write(HERE / "results" / "cost")


if __name__ == "__main__":
    main()
