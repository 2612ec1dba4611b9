"""A floor under the probabilities of all arms: now and then any arm is played in place of the one chosen."""

from __future__ import annotations

import numpy as np

from conebandit.kernels.compile import in_place
from conebandit.kernels.rng import GOLDEN, mix, uniform
from conebandit.kernels.types import Bools, Floats


@in_place
def any_arm(explore: float, seed: np.uint64, key: int, arms: int) -> int:
    """With probability ``explore`` any of the arms, each with the same chance; otherwise -1, for the policy's choice.

    The random number is another one than that of the policy for the same key. Where it is below ``explore``, it is
    uniform up to there, so it also picks the arm.
    """
    u = uniform(mix(seed + GOLDEN), key)
    return int(u / explore * arms) if u < explore else -1


@in_place
def with_floor(explore: float, chance: float, arms: int) -> float:
    """Probability of an arm which the policy itself plays with this chance."""
    return (1.0 - explore) * chance + explore / arms


@in_place
def explored(explore: float, seed: np.uint64, key: int, arm: int, active: Bools, chances: Floats) -> int:
    """The arm to play where a policy chose ``arm``; puts the floor under ``chances`` (K,), so all are ``active``."""
    if explore == 0.0:
        return arm
    for k in range(chances.size):
        active[k], chances[k] = True, with_floor(explore, chances[k], chances.size)
    instead = any_arm(explore, seed, key, chances.size)
    return arm if instead < 0 else instead
