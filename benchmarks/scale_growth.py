"""How time and memory grow: with rounds, arms, dimension of the contexts and leaves of the tree, as fitted exponents.

    python benchmarks/scale_growth.py            # some ten minutes of one core; writes results/scale_growth.*
    python benchmarks/scale_growth.py --small    # to see that it works; writes nothing

A policy learns from pre-drawn rounds of a smooth environment in the loop that ``simulate`` uses; the environment's own
work is not timed. Seconds are processor time of this process, the least of several turns, so that what else the machine
does counts little. An exponent is the slope of log time over log size, by least squares, with its standard error: 1 is
linear, 0 is flat. Memory is that of the arrays of the state.

For rounds it is the time of a whole run from an empty policy; for arms and dimension likewise, with as many rounds at
all sizes; for leaves the time of a round in a tree that has grown that far.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import conebandit as cb
from conebandit.diagnose.fit import log_slope
from conebandit.environments.base import World
from conebandit.validate.arrays import FloatArray
from report import Report, machine, versions

ARMS, DIM = 10, 2
TURNS = 3
NEAR_LINEAR = 1.1  # the largest exponent that counts as near-linear in rounds
HERE = Path(__file__).resolve().parent

Make = Callable[[World], Any]


class Family(NamedTuple):
    """A policy, and the sizes at which it is measured."""

    name: str
    make: Make
    rounds: tuple[int, ...]
    arms: tuple[int, ...]
    dims: tuple[int, ...]
    fixed: int  # rounds where something else grows


def tree(preset: str) -> Make:
    def make(world: World) -> Any:
        return cb.ConeTree(n_arms=world.n_arms, cone=world.cone, context_dim=world.context_dim, preset=preset)  # type: ignore[arg-type]

    return make


def default(world: World) -> Any:
    return cb.default_policy(world.n_arms, world.cone, world.context_dim)


FAMILIES = (
    Family(
        "ConeTree, sound",
        tree("sound"),
        (125_000, 250_000, 500_000, 1_000_000, 2_000_000),
        (5, 10, 20, 40, 80),
        (1, 2, 4, 8),
        100_000,
    ),
    Family(
        "ConeTree, adaptive",
        tree("adaptive"),
        (25_000, 50_000, 100_000, 200_000, 400_000),
        (5, 10, 20, 40, 80),
        (1, 2, 4, 8, 16),
        20_000,
    ),
    Family(
        "default policy",
        default,
        (25_000, 50_000, 100_000, 200_000, 400_000),
        (5, 10, 20, 40, 80),
        (2, 4, 8, 16),
        20_000,
    ),
)
LEAVES = (20_000, 60_000, 200_000, 600_000, 2_000_000)  # rounds after which a tree has grown
STEP = 20_000  # rounds that are timed in a grown tree


def smaller(family: Family) -> Family:
    """The same at sizes that take seconds."""
    return family._replace(rounds=(2000, 4000, 8000), arms=(5, 10, 20), dims=family.dims[:3], fixed=2000)


class Rounds(NamedTuple):
    """Rounds of an environment, drawn before anything is timed."""

    contexts: FloatArray
    outcomes: FloatArray
    keys: Any

    def part(self, first: int, last: int) -> tuple[Any, ...]:
        """Some of them."""
        return self.contexts[first:last], self.outcomes[first:last], self.keys[first:last]


def drawn(world: World, rounds: int) -> Rounds:
    rng = np.random.default_rng(0)
    contexts = world.contexts(rng, rounds, 0)
    return Rounds(contexts, world.rewards(rng, world.means(contexts)), np.arange(rounds, dtype=np.uint64))


def learned(policy: Any, data: Rounds, first: int, last: int, chunk: int = 50_000) -> float:
    """Seconds of the processor for these rounds, in chunks as ``simulate`` hands them over."""
    begun = time.process_time()
    for at in range(first, last, chunk):
        policy.run_chunk(*data.part(at, min(at + chunk, last)))
    return time.process_time() - begun


def megabytes(policy: Any) -> float:
    return float(sum(array.nbytes for array in policy.state().values()) / 1e6)


def fitted(sizes: Sequence[float], values: Sequence[float]) -> tuple[float, float]:
    """Exponent and its standard error."""
    return log_slope(np.array(sizes), np.array(values))


class Growth(NamedTuple):
    """Times and memory of a policy by the size of something."""

    sizes: list[float]
    seconds: list[float]
    memory: list[float]

    def add_to(self, report: Report, policy: str, grows: str, most: float | None = None) -> None:
        """One row, with the exponents of time and memory; ``most`` is the largest that is wanted for time."""
        exponent, error = fitted(self.sizes, self.seconds)
        report.add(
            policy=policy,
            grows=grows,
            smallest=round(self.sizes[0]),
            largest=round(self.sizes[-1]),
            seconds_at_smallest=self.seconds[0],
            seconds_at_largest=self.seconds[-1],
            exponent=exponent,
            error=error,
            MB_at_largest=self.memory[-1],
            exponent_of_memory=fitted(self.sizes, self.memory)[0],
            wanted=None if most is None else f"<= {most}",
            reached=None if most is None else exponent <= most,
        )


def measured(family: Family, cases: Sequence[tuple[float, World, int]], turns: int) -> Growth:
    """Time of whole runs: (size, environment, rounds) for each."""
    growth = Growth([], [], [])
    for size, world, rounds in cases:
        data, least = drawn(world, rounds), np.inf
        for _ in range(turns):
            policy = family.make(world)
            least = min(least, learned(policy, data, 0, rounds))
        growth.sizes.append(size)
        growth.seconds.append(least)
        growth.memory.append(megabytes(policy))
    return growth


def world_of(arms: int = ARMS, dim: int = DIM) -> World:
    return cb.environments.smooth(n_arms=arms, context_dim=dim, relevant=min(dim, 3))


def by_leaves(family: Family, marks: Sequence[int], step: int, turns: int) -> Growth:
    """Time of a round in a tree that has grown: the tree learns up to each mark, then a copy of it is timed."""
    world, growth = world_of(), Growth([], [], [])
    data, policy, done = drawn(world, marks[-1] + step), family.make(world), 0
    for mark in marks:
        learned(policy, data, done, mark)
        done = mark
        if not growth.sizes or policy.n_leaves > growth.sizes[-1]:
            least = min(learned(policy.copy(), data, mark, mark + step) for _ in range(turns))
            growth.sizes.append(float(policy.n_leaves))
            growth.seconds.append(least / step)
            growth.memory.append(megabytes(policy))
    return growth


def measure(report: Report, families: Sequence[Family], marks: Sequence[int], step: int, turns: int) -> None:
    for family in families:
        learned(family.make(world_of()), drawn(world_of(), 2000), 0, 2000)  # compile before anything is timed
        cases = [(n, world_of(), n) for n in family.rounds]
        measured(family, cases, turns).add_to(report, family.name, "rounds", NEAR_LINEAR)
        cases = [(k, world_of(arms=k), family.fixed) for k in family.arms]
        measured(family, cases, turns).add_to(report, family.name, "arms")
        cases = [(d, world_of(dim=d), family.fixed) for d in family.dims]
        measured(family, cases, turns).add_to(report, family.name, "dimension")
        if hasattr(family.make(world_of()), "n_leaves"):
            grown = by_leaves(family, marks, step, turns)
            if len(grown.sizes) > 1:
                grown.add_to(report, family.name, "leaves")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--small", action="store_true", help="small sizes; writes nothing")
    small = parser.parse_args().small
    report = Report(
        title="How time and memory grow",
        command="python benchmarks/scale_growth.py",
        versions=versions("conebandit", "numpy", "numba"),
        machine=machine("one core"),
    )
    families = [smaller(family) for family in FAMILIES] if small else FAMILIES
    marks = (1000, 2000, 4000) if small else LEAVES
    measure(report, families, marks, 1000 if small else STEP, 1 if small else TURNS)
    report.show()
    if not small:
        report.write(HERE / "results" / "scale_growth")


if __name__ == "__main__":
    main()
