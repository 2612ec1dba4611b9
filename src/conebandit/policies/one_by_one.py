"""What is done context by context in Python, where a policy has no compiled loop for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from conebandit.geometry.pareto import pareto_mask
from conebandit.kernels.floor import explored
from conebandit.kernels.types import Batch
from conebandit.validate.arrays import FloatArray

if TYPE_CHECKING:
    from conebandit.policies.compiled import CompiledPolicy

Flags = NDArray[np.bool_]


def ask(policy: CompiledPolicy, state: Any, seed: np.uint64, *arrays: Any) -> None:
    """What a loop of :mod:`conebandit.kernels.queries` does, for policies without one."""
    batch, kernels = Batch(*arrays), policy._kernels
    for i, key in enumerate(batch.keys.tolist()):
        active, chances = batch.active[i], batch.chances[i]
        own = kernels.choose(state, seed, batch.contexts[i], key, active, batch.reported[i], chances)
        batch.arms[i] = explored(batch.explore, seed, key, own, active, chances)
    for i in range(len(batch.means)):
        kernels.estimate(state, batch.contexts[i], batch.means[i], batch.radii[i])


def observe_rows(
    policy: CompiledPolicy, _: Any, start: int, contexts: FloatArray, arms: NDArray[np.int64], rewards: FloatArray
) -> int:
    """What a loop of :mod:`conebandit.kernels.rows` does, for policies without one."""
    for x, arm, reward in zip(contexts[start:], arms[start:].tolist(), rewards[start:], strict=True):
        policy._learn(x, arm, reward)
    return len(arms)


def run(
    policy: CompiledPolicy, contexts: FloatArray, outcomes: FloatArray, keys: NDArray[np.uint64]
) -> tuple[NDArray[np.int64], FloatArray, Flags, Flags]:
    """What :meth:`CompiledPolicy.run_chunk` does, for policies with a resolution, which compiled loops do not know."""
    n, n_arms = outcomes.shape[:2]
    arms, propensities = np.empty(n, dtype=np.int64), np.empty(n)
    active, reported = np.zeros((2, n, n_arms), dtype=np.bool_)
    for i, key in enumerate(keys.tolist()):
        arms[i], propensities[i], active[i], _ = policy.decide(contexts[i], key)
        reported[i, list(policy.front(contexts[i]).arms)] = True
        policy.observe(contexts[i], int(arms[i]), outcomes[i, arms[i]])
    return arms, propensities, active, reported


def essential_arms(
    policy: CompiledPolicy, active: Flags, reported: Flags, means: FloatArray, radii: FloatArray
) -> Flags:
    """Of the active arms (K,) of which every metric is known those that are essential; ``reported`` if there are none.

    Where arms make each other inessential in a circle, so that none is left, it is the front of the estimates.
    """
    known = active & np.isfinite(means).all(axis=1) & np.isfinite(radii).all(axis=1)
    if not known.any():
        return reported
    flags = np.zeros_like(known)
    flags[known] = pareto_mask(means[known], policy.cone, resolution=policy.resolution)
    return flags


def keep_essential(policy: CompiledPolicy, batch: Batch) -> None:
    """Replace what is reported in a batch with estimates by what :func:`essential_arms` says."""
    for i, row in enumerate(zip(batch.active, batch.reported, batch.means, batch.radii, strict=True)):
        batch.reported[i] = essential_arms(policy, *row)
