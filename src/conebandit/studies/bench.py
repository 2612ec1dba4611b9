"""Policies x environments x seeds: the runs behind the leaderboard."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from conebandit.environments.base import Environment
from conebandit.policies.base import Policy
from conebandit.policies.binned_elimination import BinnedElimination
from conebandit.policies.binned_pareto_ucb import BinnedParetoUCB
from conebandit.policies.cone_tree import ConeTree
from conebandit.policies.default import default_policy
from conebandit.policies.fourier_sampling import FourierSampling
from conebandit.policies.linear_ucb import LinearParetoUCB
from conebandit.policies.neighbours import NeighbourParetoUCB
from conebandit.policies.oracle import Oracle
from conebandit.policies.pareto_ucb import ParetoUCB1
from conebandit.policies.random_arm import RandomArm
from conebandit.policies.registry import find_policy, policy_names
from conebandit.policies.scalarised_ucb import ScalarisedUCB
from conebandit.policies.self_tuning import SelfTuning
from conebandit.policies.zooming import ParetoZooming
from conebandit.progress import Progress, steps
from conebandit.regret import SERIES
from conebandit.simulate import simulate
from conebandit.studies.own import OwnPolicy, is_own, made_for
from conebandit.studies.pool import Workers, as_finished
from conebandit.studies.suite import HORIZON, SUITE, Task, pick

Row = dict[str, Any]
Maker = Callable[..., Policy]  # an environment, a seed, settings -> a policy
QUICK_HORIZON = 22_000  # beyond the last change point of every task


@dataclass(frozen=True)
class Contender:
    """A policy as it enters the contest: what it is made from, and whether it is a baseline of the literature."""

    name: str
    about: str
    make: Maker
    baseline: bool = False


def _of(policy: Any, **settings: Any) -> Maker:
    """How to make a policy of this class for an environment and a seed; settings that are given then win."""

    def make(world: Environment, seed: int, /, **others: Any) -> Policy:
        return made_for(policy, world, seed, {**settings, **others})

    return make


DEFAULT, PRINTED = "default", "tree-paper"

# With what baselines enter the contest: chosen by ``benchmarks/tune.py`` on the development suite. What is not named is
# a default. Defaults stay what they were chosen to be by an earlier score, since logs rely on them.
TUNED: dict[str, dict[str, float]] = {
    "BinnedElimination": {"width": 0.1, "smoothness": 0.1},
    "BinnedParetoUCB": {"width": 0.1},
    "FourierSampling": {"length_scale": 0.6, "temperature": 0.3},
    "LinearParetoUCB": {"width": 0.2, "ridge": 0.01},
    "NeighbourParetoUCB": {"width": 0.05, "smoothness": 0.15},
    "ParetoUCB1": {"width": 0.2},
    "ParetoZooming": {"width": 0.15, "smoothness": 0.3},
    "ScalarisedUCB": {"width": 0.15, "bins": 16},
    "SelfTuning": {"width": 0.03, "smoothness": 0.3},
}


_SHORT = TUNED["FourierSampling"]["length_scale"] / 2.0


def _tuned(policy: Any, **settings: Any) -> Maker:
    """As ``_of``, with what was tuned for the contest."""
    return _of(policy, **TUNED[policy.__name__] | settings)


CONTENDERS: tuple[Contender, ...] = (
    Contender("oracle", "knows the means", lambda world, seed, /, **others: Oracle(world, **{"seed": seed} | others)),
    Contender(DEFAULT, "default_policy: ConeKernel at these sizes", _of(default_policy)),
    Contender("tree-adaptive", 'ConeTree(preset="adaptive")', _of(ConeTree, preset="adaptive")),
    Contender("tree-sound", 'ConeTree(preset="sound"), told nothing', _of(ConeTree, preset="sound")),
    Contender(PRINTED, 'ConeTree(preset="paper"), Algorithm 1 as printed', _of(ConeTree, preset="paper")),
    Contender("neighbours", "k-nearest-neighbour Pareto-UCB", _tuned(NeighbourParetoUCB), baseline=True),
    Contender("scalarised", "randomly scalarised UCB, binned", _tuned(ScalarisedUCB), baseline=True),
    Contender("binned", "statically binned Pareto-UCB", _tuned(BinnedParetoUCB), baseline=True),
    Contender("linear", "linear Pareto-UCB, a ridge model per arm", _tuned(LinearParetoUCB), baseline=True),
    Contender("fourier", "posterior sampling on random Fourier features", _tuned(FourierSampling), baseline=True),
    Contender("fourier-short", "the same, half the length scale", _tuned(FourierSampling, length_scale=_SHORT), True),
    Contender("zooming", "Pareto contextual zooming", _tuned(ParetoZooming), baseline=True),
    Contender("self-tuning", "Suk & Kpotufe, facet-wise elimination", _tuned(SelfTuning), baseline=True),
    Contender("elimination", "adaptively binned successive elimination", _tuned(BinnedElimination), baseline=True),
    Contender("ucb1", "Pareto-UCB1, ignores the context", _tuned(ParetoUCB1), baseline=True),
    Contender("random", "an arm at random", _of(RandomArm), baseline=True),
)


def known_contenders() -> tuple[Contender, ...]:
    """All that can be asked for by name: those of the contest, and every policy of the registry by its class's name."""
    return (*CONTENDERS, *(Contender(name, "with its defaults", _found(name)) for name in policy_names()))


def _found(name: str) -> Maker:
    """How to make a policy of this name; nothing is imported before it is made."""

    def make(world: Environment, seed: int, /, **settings: Any) -> Policy:
        return made_for(find_policy(name), world, seed, settings)

    return make


def find_contenders(names: Sequence[str], folders: tuple[str, ...] = ()) -> list[Contender]:
    """Contenders by name, each once: of the contest, of the registry, or the user's own by import path.

    Raises
    ------
    ValueError
        If there is none of a name, with those that there are.

    Examples
    --------
    >>> [contender.name for contender in find_contenders(["default", "ConeTree", "conebandit:RandomArm"])]
    ['default', 'ConeTree', 'conebandit:RandomArm']
    """
    own = tuple(Contender(name, "the user's own", OwnPolicy(name, folders)) for name in names if is_own(name))
    return pick(names, (*known_contenders(), *own))


def run_suite(
    *,
    tasks: Sequence[Task] = SUITE,
    contenders: Sequence[Contender] = CONTENDERS,
    horizon: int = HORIZON,
    seeds: Sequence[int] = range(10),
    n_jobs: int = -1,
    progress: Progress = False,
) -> list[Row]:
    """Run every contender in every task with every seed, in parallel.

    Parameters
    ----------
    tasks, contenders
        What to run.
    horizon, seeds
        Rounds of each run; the seed also draws the mean functions of random environments.
    n_jobs
        Number of processes; -1 for one on each core.
    progress
        Whether to show a progress bar; or a function, called with a few words after each run.

    Returns
    -------
    list of dict
        One for each run: ``task``, ``policy``, ``seed``, and the average of every series after the last change point.

    Raises
    ------
    RuntimeError
        If a run raises an error, with its policy, task and seed.
    """
    check_horizon(tasks, horizon, seeds[0])
    # The slowest first, so that no core waits at the end for a long run that began last.
    order = sorted(contenders, key=lambda contender: contender.name != DEFAULT)
    jobs = [(task, contender, seed, horizon) for contender in order for task in tasks for seed in seeds]
    rows: dict[int, Row] = {}
    with steps(progress, "compiling kernels", len(jobs)) as step:
        for number, row in as_finished(_one, jobs, Workers("sequential") if n_jobs == 1 else Workers(jobs=n_jobs)):
            rows[number] = row
            step(f"{row['policy']} in {row['task']}")
    return [rows[number] for number in range(len(jobs))]


def check_horizon(tasks: Sequence[Task], horizon: int, seed: int = 0) -> None:
    """Raise a ``ValueError`` unless there are rounds after the last change point of every task."""
    for task in tasks:
        last = last_change(task.make(seed))
        if horizon <= last:
            raise ValueError(
                f"horizon must be beyond round {last}, the last change of task {task.name!r}; got {horizon}."
            )


def last_change(environment: Environment) -> int:
    """Rounds until contexts change for the last time, from which on runs are compared; 0 if they never do."""
    return max(environment.change_points, default=0)


def _one(job: tuple[Task, Contender, int, int]) -> Row:
    """One run, as the averages of its series after the last change point; an error says in which run it was raised."""
    task, contender, seed, horizon = job
    try:
        world = task.make(seed)
        run = simulate(contender.make(world, seed), world, horizon, seed=seed)
        averages = {name: run.average(name, after=last_change(world)) for name in SERIES}
    except (Exception, SystemExit) as error:  # whatever somebody's own class raises
        where = f"policy {contender.name} in task {task.name} with seed {seed}"
        raise RuntimeError(f"{where}: {type(error).__name__}: {error}") from error
    return {"task": task.name, "policy": contender.name, "seed": seed, **averages}
