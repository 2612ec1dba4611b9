"""Regions that hold for many estimates at once, and what they say about a front."""

from __future__ import annotations

from itertools import combinations
from typing import Literal

import numpy as np
from scipy.stats import norm

from conebandit.geometry.cone import Cone
from conebandit.validate.arrays import FloatArray

Standing = Literal["on", "off", "open"]

DRAWS = 1 << 14  # of normal vectors, for a quantile: the 95 % one of the largest of many is known to about 0.02
NOTHING = 1e-12  # errors below this, relative to the sizes that were subtracted, are rounding


def largest_deviation(covariance: FloatArray, level: float) -> float:
    """How many standard errors hold for all entries of a normal vector at once, with probability ``level``.

    Parameters
    ----------
    covariance
        Shape (q, q). Entries without variance do not count.
    level
        Probability that none is off by more.

    Examples
    --------
    >>> round(largest_deviation(np.eye(1), 0.95), 3), round(largest_deviation(np.ones((5, 5)), 0.95), 3)
    (1.96, 1.96)
    >>> bool(abs(largest_deviation(np.eye(5), 0.95) - norm.ppf((1 + 0.95 ** (1 / 5)) / 2)) < 0.05)
    True
    """
    errors = np.sqrt(np.diag(covariance))
    random = errors > 0.0
    correlation = covariance[np.ix_(random, random)] / np.outer(errors[random], errors[random])
    values, vectors = np.linalg.eigh(correlation)
    one = float(norm.ppf(0.5 + 0.5 * level))
    if np.sum(values > 1e-9 * len(values)) <= 1:  # all are multiples of one
        return one
    root = vectors * np.sqrt(np.maximum(values, 0.0)) @ vectors.T  # the one root that does not depend on the machine
    draws = np.random.default_rng(0).standard_normal((DRAWS, len(root)))
    return max(float(np.quantile(np.abs(draws @ root).max(axis=1), level)), one)


def differences(values: FloatArray, covariance: FloatArray, directions: FloatArray) -> tuple[FloatArray, FloatArray]:
    """How far policies are above each other in some directions.

    Parameters
    ----------
    values
        Shape (P, M).
    covariance
        Shape (P, M, P, M).
    directions
        Shape (F, M).

    Returns
    -------
    leads, covariance
        For the pairs (0, 1), (0, 2), ..., (1, 2), ...: shape (pairs, F), the first over the second, and (pairs F, pairs
        F).
    """
    pairs = np.array(list(combinations(range(len(values)), 2)), dtype=np.int64).reshape(-1, 2)
    signs = np.zeros((len(pairs), len(values)))
    signs[np.arange(len(pairs)), pairs[:, 0]], signs[np.arange(len(pairs)), pairs[:, 1]] = 1.0, -1.0
    size = values.size
    contrasts = np.einsum("cp,fm->cfpm", signs, directions).reshape(len(pairs) * len(directions), size)
    found = contrasts @ covariance.reshape(size, size) @ contrasts.T
    # Where two policies do the same, their difference has no error; rounding must not give it one.
    scale = np.abs(contrasts) @ np.sqrt(np.diag(covariance.reshape(size, size)))
    same = np.sqrt(np.maximum(np.diag(found), 0.0)) <= np.sqrt(NOTHING) * scale
    found[same], found[:, same] = 0.0, 0.0
    return (signs @ values) @ directions.T, found


def standings(values: FloatArray, covariance: FloatArray, cone: Cone, level: float) -> list[Standing]:
    """For each policy whether it is surely on the front of policies, surely off it, or open.

    With probability ``level`` all that is called sure is right. It is sure that one policy dominates another if it is
    ahead on every facet by more than the error of that difference, and that it does not if it is behind on one.
    """
    n = len(values)
    leads, found = differences(values, covariance, cone.facets)
    errors = np.sqrt(np.diag(found)).reshape(leads.shape)
    radius = largest_deviation(found, level) * errors if n > 1 else errors
    rounding = NOTHING * np.abs(values).max() * np.abs(cone.facets).sum(axis=1)
    low, high = np.zeros((2, n, n, len(cone.facets)))  # of what the first is above the second
    for (i, j), lead, spread in zip(combinations(range(n), 2), leads, radius, strict=True):
        low[i, j], high[i, j] = lead - spread, lead + spread
        low[j, i], high[j, i] = -high[i, j], -low[i, j]
    beats = (low >= -rounding).all(axis=2) & (low > rounding).any(axis=2)
    cannot = (high < -rounding).any(axis=2) | (high <= rounding).all(axis=2)
    np.fill_diagonal(cannot, True)
    return ["off" if beats[:, k].any() else "on" if cannot[:, k].all() else "open" for k in range(n)]
