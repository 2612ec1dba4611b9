"""Regions that hold for many estimates at once, and what they say about a front."""

from __future__ import annotations

from itertools import combinations
from typing import Literal

import numpy as np
import scipy  # its parts are loaded when they are used: some take longer than this whole package

from conebandit.geometry.cone import Cone
from conebandit.validate.arrays import FloatArray

Standing = Literal["on", "off", "open"]

DRAWS = 1 << 14  # of normal vectors, for a quantile: the 95 % one of the largest of many is known to about 0.02
CHUNKS = 16  # in which they are drawn, to spare memory
NOTHING = 1e-12  # variances and differences below this, relative to the sizes that were subtracted, are rounding


def largest_deviation(covariance: FloatArray, level: float, contrasts: FloatArray | None = None) -> float:
    """How many standard errors hold for many sums of normal estimates at once, with probability ``level``.

    Parameters
    ----------
    covariance
        Shape (r, r), of the estimates.
    level
        Probability that no sum is off by more.
    contrasts
        Shape (q, r), the sums; the estimates themselves by default. Those without variance do not count.

    Examples
    --------
    >>> round(largest_deviation(np.eye(1), 0.95), 3), round(largest_deviation(np.ones((5, 5)), 0.95), 3)
    (1.96, 1.96)
    >>> bool(abs(largest_deviation(np.eye(5), 0.95) - scipy.special.ndtri((1 + 0.95 ** (1 / 5)) / 2)) < 0.05)
    True
    """
    errors = np.sqrt(np.diag(covariance))
    random = errors > 0.0
    correlation = covariance[np.ix_(random, random)] / np.outer(errors[random], errors[random])
    values, vectors = np.linalg.eigh(correlation)
    root = vectors * np.sqrt(np.maximum(values, 0.0)) @ vectors.T  # the one root that does not depend on the machine
    sums = (np.eye(len(errors)) if contrasts is None else contrasts)[:, random] * errors[random]
    loads = sums @ root
    spread = np.linalg.norm(loads, axis=1)
    varies = spread > np.sqrt(NOTHING) * np.abs(sums).sum(axis=1)
    loads = loads[varies] / spread[varies, None]
    one = float(scipy.special.ndtri(0.5 + 0.5 * level))
    if not len(loads) or np.linalg.matrix_rank(loads, tol=1e-6) == 1:
        return one
    rng = np.random.default_rng(0)
    largest = [np.abs(rng.standard_normal((DRAWS // CHUNKS, len(root))) @ loads.T).max(axis=1) for _ in range(CHUNKS)]
    return max(float(np.quantile(np.concatenate(largest), level)), one)


def differences(
    values: FloatArray, covariance: FloatArray, directions: FloatArray, level: float
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """How far policies are above each other in some directions.

    Parameters
    ----------
    values
        Shape (P, M).
    covariance
        Shape (P, M, P, M).
    directions
        Shape (F, M).
    level
        Probability with which all radii hold at once.

    Returns
    -------
    leads, errors, radii
        Each of shape (pairs, F), for the pairs (0, 1), (0, 2), ..., (1, 2), ...: the first over the second.
    """
    pairs = np.array(list(combinations(range(len(values)), 2)), dtype=np.int64).reshape(-1, 2)
    signs = np.zeros((len(pairs), len(values)))
    signs[np.arange(len(pairs)), pairs[:, 0]], signs[np.arange(len(pairs)), pairs[:, 1]] = 1.0, -1.0
    leads = (signs @ values) @ directions.T
    contrasts = np.einsum("cp,fm->cfpm", signs, directions).reshape(leads.size, values.size)
    matrix = covariance.reshape(values.size, values.size)
    variances = np.einsum("cr,rs,cs->c", contrasts, matrix, contrasts, optimize=True)
    # Where two policies do the same, their difference has no error; rounding must not give it one.
    scale = np.abs(contrasts) @ np.sqrt(np.diag(matrix))
    errors = np.sqrt(np.where(variances > NOTHING * scale**2, variances, 0.0)).reshape(leads.shape)
    return leads, errors, largest_deviation(matrix, level, contrasts) * errors


def standings(values: FloatArray, covariance: FloatArray, cone: Cone, level: float) -> list[Standing]:
    """For each policy whether it is surely on the front of policies, surely off it, or open.

    With probability ``level`` all that is called sure is right. It is sure that one policy dominates another if it is
    ahead on every facet by more than the error of that difference, and that it does not if it is behind on one.
    """
    n = len(values)
    leads, _, radii = differences(values, covariance, cone.facets, level)
    rounding = NOTHING * np.abs(values).max() * np.abs(cone.facets).sum(axis=1)
    low, high = np.zeros((2, n, n, len(cone.facets)))  # of what the first is above the second
    for (i, j), lead, spread in zip(combinations(range(n), 2), leads, radii, strict=True):
        low[i, j], high[i, j] = lead - spread, lead + spread
        low[j, i], high[j, i] = -high[i, j], -low[i, j]
    beats = (low >= -rounding).all(axis=2) & (low > rounding).any(axis=2)
    cannot = (high < -rounding).any(axis=2) | (high <= rounding).all(axis=2)
    np.fill_diagonal(cannot, True)
    return ["off" if beats[:, k].any() else "on" if cannot[:, k].all() else "open" for k in range(n)]
