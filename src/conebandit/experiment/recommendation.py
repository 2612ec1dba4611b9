"""Which arm of a front is recommended, the one that is most surely on it, and which columns matter for that."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from conebandit.experiment.columns import by_column
from conebandit.experiment.declaration import Experiment
from conebandit.experiment.policy import Served
from conebandit.policies.base import Front
from conebandit.validate.arrays import FloatArray


class Recommended(NamedTuple):
    """A front, which of its arms is recommended (its place in the front, and its index), and how surely it is there."""

    front: Front
    place: int
    arm: int
    chance: float


def recommended(policy: Served, contexts: FloatArray) -> list[Recommended]:
    """For each of some contexts (n, d): the arm most surely on the front, of several the one that is played most."""
    played = policy.decide_many(contexts, np.arange(len(contexts))).probabilities  # (n, K)
    return [_surest(front, chances) for front, chances in zip(policy.fronts(contexts), played, strict=True)]


def chance_of(front: Front, arm: int) -> float:
    """That an arm is on the front; nan if the policy does not say."""
    return float("nan") if front.chances is None else float(front.chances[arm])


def relevance(experiment: Experiment, policy: Served, x: FloatArray) -> dict[str, float]:
    """How much each column matters at a context (d,): as much as the one of its coordinates that matters most.

    Empty if the policy does not say.
    """
    why: Any = policy.explain(x) if hasattr(policy, "explain") else None
    shares = getattr(why, "relevance", np.array([np.nan]))
    if not np.isfinite(shares).all() or not experiment.columns:
        return {}
    return {column.name: float(part.max()) for column, part in by_column(experiment.columns, shares[None])}


def _surest(front: Front, played: FloatArray) -> Recommended:
    chances = [chance_of(front, arm) for arm in front.arms]
    place = max(range(len(chances)), key=lambda i: (np.nan_to_num(chances[i]), played[front.arms[i]]))
    return Recommended(front, place, front.arms[place], chances[place])
