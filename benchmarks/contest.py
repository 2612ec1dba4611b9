"""What benchmarks of policies share: their options, runs in parallel, means with standard errors.

Reported seeds are 0, 1, ...; development seeds, with which policies are designed, begin at 1000. A result file is
written only by a full run on the reported seeds.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from joblib import Parallel, delayed

from conebandit.policies.base import Policy
from conebandit.progress import steps
from conebandit.simulate import step_by_step
from conebandit.studies.bench import Contender, known_contenders
from conebandit.validate.arrays import FloatArray
from report import Report, machine, versions

DEVELOPMENT = 1000  # the first development seed
CORES = 2
RESULTS = Path(__file__).resolve().parent / "results"


@dataclass(frozen=True)
class Options:
    """What to run, as asked for on the command line."""

    script: str
    contenders: tuple[Contender, ...]
    runs: int | None
    development: bool
    full: bool

    def seeds(self, planned: int) -> range:
        """Seeds of a part of the benchmark that has this many runs unless fewer are asked for."""
        first = DEVELOPMENT if self.development else 0
        return range(first, first + (planned if self.runs is None else min(self.runs, planned)))

    def report(self, title: str) -> Report:
        """An empty report."""
        return Report(
            title=f"{title}{' (development seeds)' if self.development else ''}",
            command=f"python benchmarks/{self.script}.py",
            versions=versions("conebandit", "numpy", "numba"),
            machine=machine(f"{CORES} cores"),
        )

    def finish(self, report: Report) -> None:
        """Show the report; write it if everything was run on the reported seeds."""
        report.show()
        if self.full:
            report.write(RESULTS / self.script)


def options(
    script: str, description: str | None, policies: Sequence[str], own: Iterable[Contender] = (), arguments: Any = None
) -> Options:
    """Read the command line.

    Parameters
    ----------
    script
        Name of the benchmark and of its result files.
    description
        The docstring of the benchmark.
    policies
        Names of the policies that run unless others are asked for.
    own
        Contenders that only this benchmark knows.
    arguments
        In place of those of the command line.
    """
    known = {c.name: c for c in (*own, *known_contenders())}
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("--development", action="store_true", help=f"seeds from {DEVELOPMENT} on; writes nothing")
    parser.add_argument("--policies", nargs="+", metavar="NAME", help=f"in place of {' '.join(policies)}")
    parser.add_argument("--runs", type=int, help="at most this many runs of each kind; writes nothing")
    asked = parser.parse_args(arguments)
    names = asked.policies or policies
    if unknown := [name for name in names if name not in known]:
        parser.error(f"no policy is called {', '.join(unknown)}; there are {', '.join(known)}")
    if asked.runs is not None and asked.runs < 1:
        parser.error(f"--runs must be at least 1; got {asked.runs}")
    full = not asked.development and asked.policies is None and asked.runs is None
    return Options(script, tuple(known[name] for name in names), asked.runs, asked.development, full)


def in_parallel(function: Callable[..., Any], jobs: Sequence[tuple[Any, ...]], label: str) -> list[Any]:
    """Results of ``function(*job)`` for all jobs, in their order."""
    done = []
    with steps(True, label, len(jobs)) as step:
        for result in Parallel(n_jobs=CORES, return_as="generator")(delayed(function)(*job) for job in jobs):
            done.append(result)
            step("")
    return done


def play(policy: Policy, contexts: FloatArray, outcomes: FloatArray, first: int, seed: int) -> Any:
    """Rounds ``first``, ... of a run, as ``simulate`` plays them: arms, propensities, active, reported."""
    keys = np.arange(first, first + len(contexts), dtype=np.uint64) + np.uint64(seed << 32)
    chunk = np.ascontiguousarray(contexts), np.ascontiguousarray(outcomes), keys
    return policy.run_chunk(*chunk) if hasattr(policy, "run_chunk") else step_by_step(policy, *chunk)


def mean_and_error(values: FloatArray) -> tuple[float, float]:
    """Mean over runs and its standard error (nan of a single run)."""
    spread = float(values.std(ddof=1)) if len(values) > 1 else float("nan")
    return float(values.mean()), spread / float(np.sqrt(len(values)))


def behind(policy: str, values: dict[str, FloatArray], sign: int = 1) -> tuple[float, float]:
    """How far a policy is behind the best other one: the mean difference within runs, and its standard error.

    Parameters
    ----------
    policy
        Its name.
    values
        Shape (runs,) for each policy: the same runs.
    sign
        1 if small values are good, -1 if large ones are.
    """
    others = [value for name, value in values.items() if name != policy]
    best = min(others, key=lambda value: float(sign * value.mean()), default=values[policy])
    return mean_and_error(sign * (values[policy] - best))
