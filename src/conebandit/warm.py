"""Compile every kernel before it is needed, by small runs of everything that uses one, in several processes.

Which kernels there are, and for which types, is written down nowhere: each piece of work uses the package as people do,
and every policy of the registry is among them.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, get_args

import numpy as np
from joblib import Parallel, delayed

from conebandit.diagnose.monitor import ShiftMonitor
from conebandit.diagnose.rho import rho
from conebandit.environments import smooth
from conebandit.environments.base import World
from conebandit.experiment.declaration import Experiment
from conebandit.geometry.cone import Cone
from conebandit.geometry.gap import additive_gap, gap, hausdorff, log_hausdorff, shortfall
from conebandit.geometry.pareto import FEW, MODEST, pareto_mask
from conebandit.kernels.compile import compiling
from conebandit.policies.cone_kernel import ConeKernel
from conebandit.policies.cone_tree import ConeTree, Preset
from conebandit.policies.oracle import Oracle
from conebandit.policies.random_arm import RandomArm
from conebandit.policies.registry import OURS
from conebandit.progress import Progress, steps
from conebandit.service.engine.ledger import Ledger
from conebandit.service.engine.turn import Turn
from conebandit.service.shift import ShiftWatch
from conebandit.service.stores.base import open_store
from conebandit.simulate import simulate

ROUNDS = 500  # enough for leaves to split and for models to be fitted

Work = Callable[[], None]


def compile_all(*, n_jobs: int = -1, progress: Progress = True) -> list[str]:
    """Compile what is not on disk yet; the names of the kernels that were compiled, sorted.

    Parameters
    ----------
    n_jobs
        Number of processes; -1 for one on each core.
    progress
        Whether to show a progress bar; or a function, called with a few words after each piece of work.
    """
    work = pieces()
    jobs = Parallel(n_jobs=n_jobs, return_as="generator_unordered")(delayed(_done)(name) for name in work)
    compiled: list[str] = []
    with steps(progress, "compiling", len(work)) as step:
        for name, kernels in jobs:
            compiled += kernels
            step(name)
    return sorted(compiled)


def pieces() -> dict[str, Work]:
    """Everything that uses kernels, in pieces for one process each; those that take longest come first."""
    return {
        **{f"{name}, {use.__name__[1:]}": partial(use, make) for name, make in _policies() for use in _USES},
        "regret under another cone": partial(_simulated, _random_arm, _narrow()),
        "fronts": _fronts,
        "gaps and distances": _gaps,
        "shift of contexts": _shift,
        "the service": _service,
        "a floor": _floor,
        "a fit under way": _fit_under_way,
    }


def _done(name: str) -> tuple[str, list[str]]:
    """Do a piece of work, in whatever process; its name, and the kernels that it compiled."""
    known = len(compiling.kernels)
    pieces()[name]()
    return name, compiling.kernels[known:]


def _policies() -> Iterator[tuple[str, Callable[[World], Any]]]:
    """Every policy, by name; the default policy first."""
    kinds = dict.fromkeys(["ConeKernel", *OURS])
    for name in kinds:
        if name == "ConeTree":
            for preset in get_args(Preset):
                yield f"ConeTree, {preset}", partial(_made, ConeTree, preset=preset)
                yield f"ConeTree, {preset}, stream", partial(_made, ConeTree, preset=preset, history="stream")
        else:
            yield name, partial(_made, OURS[name])
    yield "RandomArm", _random_arm
    yield "Oracle", Oracle


def _made(kind: Callable[..., Any], world: World, **settings: Any) -> Any:
    return kind(world.n_arms, world.cone, world.context_dim, **settings)


def _random_arm(world: World) -> RandomArm:
    return RandomArm(world.n_arms, world.cone, world.context_dim)


def _narrow() -> Cone:
    """A cone that does not contain the orthant."""
    return Cone.from_rays([[1.0, 0.6], [0.6, 1.0]])


def _world(cone: Cone | None = None) -> World:
    return smooth(n_arms=4, context_dim=2, change_point=ROUNDS // 2, cone=cone or Cone.orthant(2))


def _simulated(make: Callable[[World], Any], cone: Cone | None = None) -> None:
    world = _world(cone)
    simulate(make(world), world, ROUNDS, resolution=0.02)


def _step_by_step(make: Callable[[World], Any]) -> None:
    """Decisions and observations one by one, with all that can be asked between them."""
    world, rng = _world(), np.random.default_rng(0)
    policy = make(world)
    for key, x in enumerate(rng.uniform(size=(ROUNDS // 4, 2))):
        decision = policy.decide(x, key)
        policy.observe(x, decision.arm, rng.uniform(size=2))
    policy.observe([0.5, 0.5], 0, [1.0, np.nan])
    policy.front([0.5, 0.5])
    if hasattr(policy, "explain"):
        policy.explain([0.5, 0.5])


def _at_many(make: Callable[[World], Any]) -> None:
    """Decisions and fronts at many contexts at once."""
    policy, contexts = make(_world()), np.full((3, 2), 0.5)
    if hasattr(policy, "decide_many"):
        policy.decide_many(contexts, range(3))
        policy.fronts(contexts)


def _from_logs(make: Callable[[World], Any]) -> None:
    """Rows of a log, and what two policies have learned from them, together."""
    world, rng = _world(), np.random.default_rng(0)
    policies = make(world), make(world)
    for policy in policies:
        if hasattr(policy, "learn"):
            arms, rewards = rng.integers(0, world.n_arms, ROUNDS), rng.uniform(size=(ROUNDS, 2))
            policy.learn((rng.uniform(size=(ROUNDS, 2)), arms, rewards))
    if hasattr(policies[0], "merge"):
        with suppress(TypeError):  # not all can be merged
            policies[0].merge(policies[1])


_USES = (_simulated, _step_by_step, _at_many, _from_logs)


def _fronts() -> None:
    """Fronts of a few and of many points, for every number of facets that has an algorithm of its own."""
    rng = np.random.default_rng(0)
    for facets in (1, 2, 3, 4):
        cone = Cone.orthant(facets)
        sphere = np.abs(rng.normal(size=(2 * MODEST, facets)))
        sphere /= np.sqrt((sphere**2).sum(axis=1, keepdims=True))
        for points in (sphere, np.round(sphere, 1), sphere[:FEW].reshape(2, -1, facets), sphere[:, ::-1]):
            pareto_mask(points, cone)
            pareto_mask(points, cone, resolution=0.02)
        pareto_mask(np.concatenate([sphere[:5], sphere[:5] * (1 + 1e-15)]), cone)  # near ties


def _gaps() -> None:
    rng = np.random.default_rng(0)
    means = 0.5 + rng.uniform(size=(2, 6, 2))
    for cone in (Cone.orthant(2), _narrow()):
        front = pareto_mask(means, cone)
        gap(means, front, cone)
        gap(means[0], means[1], cone)
        additive_gap(means, front, cone)
        additive_gap(means, front, cone, per_objective=True)
        shortfall(means[0], means[1], cone)
    log_hausdorff(means[0], means[1])
    hausdorff(means[0], means[1])


def _shift() -> None:
    contexts = np.random.default_rng(0).uniform(size=(2 * ROUNDS, 2))
    contexts += np.sin(np.arange(2 * ROUNDS) / 8)[:, None]  # they depend on each other, for "auto"
    ways: tuple[dict[str, Any], ...] = ({"reference": 127}, {"block": 16}, {"block": "manual"}, {"block": "auto"})
    for columns in (1, 2):  # with two there are pairs
        for way in ways:
            monitor = ShiftMonitor(columns, **way)
            for part in np.split(contexts[:, :columns], 25):
                monitor.update_many(part)
                if monitor.block == "manual":
                    monitor.end_block()
            monitor.update(contexts[0, :columns])
            monitor.snapshot()
    rho(contexts[:ROUNDS], contexts[ROUNDS:], 0.25)


def _floor() -> None:
    """A floor under the probabilities of all arms, which is the same for every policy."""
    policy = ConeKernel(3, Cone.orthant(2), 1, explore=0.1)
    policy.decide([0.5], 0)
    policy.decide_many([[0.5]], [0])


def _fit_under_way() -> None:
    """So many arms that observations come in before a fit is done, and the new model has to catch up."""
    policy = ConeKernel(30, Cone.orthant(2), 2)
    for i in range(3 * policy.n_arms):
        policy.observe([0.5, i / 100], i % policy.n_arms, [i % 7, i % 5])


def _service() -> None:
    """An experiment in a service, without HTTP."""
    declaration = {
        "id": "warm",
        "arms": ["a", "b"],
        "metrics": [{"name": "m"}, {"name": "n"}],
        "context": [{"name": "x", "low": 0, "high": 1}],
    }
    with tempfile.TemporaryDirectory() as folder:
        store, ledger = open_store(str(Path(folder) / "log.db")), Ledger()
        for i in range(20):
            with ledger.transaction(store, now=i) as transaction:
                turn = Turn(transaction)
                turn.create(Experiment.from_dict(declaration))
                turn.decide("warm", [{"id": str(i), "context": {"x": i / 20}}])
                turn.report("warm", [{"id": str(i), "values": {"m": 1.0, "n": float(i)}}])
                turn.explain("warm", {"x": 0.5})
        ShiftWatch(store).report("warm")
        store.close()
