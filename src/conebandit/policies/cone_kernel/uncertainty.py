"""What posterior deviations say: the chance to be on the front, and how many of them cover a mean."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import scipy  # its parts are loaded when they are used: some take longer than this whole package

from conebandit.geometry.cone import Cone
from conebandit.geometry.pareto import pareto_mask
from conebandit.kernels.cone_kernel.constants import N_CHANCE_DRAWS
from conebandit.validate.arrays import FloatArray


def front_chances(
    means: FloatArray,
    deviations: FloatArray,
    cone: Cone,
    resolution: FloatArray,
    entropy: Sequence[int],
    *,
    odds: float = 1.0,
) -> FloatArray:
    """Chance of each arm (K,) to be on the front, or essential, given posterior means and deviations, both (K, M).

    It is the share of draws from the posterior at which the arm is. They are a function of ``entropy``, and come in
    pairs of opposite sign, which leaves less to luck. A draw at which an arm is beaten counts by the ``odds``. All nan
    if something is not known.
    """
    if not (np.isfinite(means).all() and np.isfinite(deviations).all()):
        return np.full(len(means), np.nan)
    normals = np.random.default_rng(entropy).standard_normal((N_CHANCE_DRAWS // 2, *means.shape))
    draws = means + deviations * np.concatenate([normals, -normals])
    chances = pareto_mask(draws, cone, resolution=resolution).mean(axis=0)
    return np.asarray(chances / (chances + odds * (1.0 - chances)))


def deviations_covering(level: float, n: int = 1) -> float:
    """Within how many deviations n independent normal numbers all are with probability ``level`` (Sidak 1967).

    Numbers that depend on each other are within so many at least as probably.

    Examples
    --------
    >>> round(deviations_covering(0.95), 3), round(deviations_covering(0.95, 20), 3)
    (1.96, 3.016)
    """
    return float(-scipy.special.ndtri(-np.expm1(np.log(level) / n) / 2.0))
