"""What arms have in common, as random effects: shared by all of them, or along the features that describe them.

The weight of feature j of arm k has the prior mean sum_f psi_f(k) u_fj. Column 0 of the basis psi is 1 for every arm:
u_0 are the shared weights. If the user describes the arms, by doses or prices say, further columns are linear in
these numbers, so that arms that are alike inform each other. An *effect* is one of the unknown u_fj.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from conebandit.kernels.cone_kernel.constants import ENOUGH_VARIANCE, MAX_COLUMNS, MAX_EFFECTS
from conebandit.kernels.cone_kernel.state import DESCRIBED, LEVEL_OF_ARMS, SHARED
from conebandit.validate.arrays import FloatArray, as_floats, as_vectors


def as_arm_features(given: ArrayLike | None, n_arms: int) -> FloatArray | None:
    """The features of arms (K, f), checked; None if there are none.

    Examples
    --------
    >>> as_arm_features([10, 20, 40], 3).shape
    (3, 1)
    >>> as_arm_features([[10, 1], [20, 1]], 3)
    Traceback (most recent call last):
        ...
    ValueError: arm_features must have 3 rows, one for each arm; got shape (2, 2).
    """
    if given is None:
        return None
    array = as_floats(given, "arm_features").copy()
    if array.ndim == 1:
        array = array[:, None]  # one number for each arm
    if array.ndim != 2:
        raise ValueError(f"arm_features must have shape (K, f), numbers for each arm; got shape {array.shape}.")
    if len(array) != n_arms:
        raise ValueError(f"arm_features must have {n_arms} rows, one for each arm; got shape {array.shape}.")
    return as_vectors(array, "arm_features", array.shape[1], (2,))


def basis_of_arms(features: FloatArray | None, n_arms: int) -> FloatArray:
    """The basis psi (K, F): the constant and, if arms have features, the main directions in which these differ.

    These are the principal components of the features, less their mean over arms, so that column 0 keeps what all arms
    share. Together they have variance 1, as a mean over arms. What is not linear in the features is left to the arms.

    Examples
    --------
    >>> basis_of_arms(np.array([[1.0], [2.0], [3.0]]), 3).shape
    (3, 2)
    """
    constant = np.ones((n_arms, 1))
    scaled = _scaled(features) if features is not None else np.empty((n_arms, 0))
    if not scaled.shape[1]:
        return constant
    centred = scaled - scaled.mean(axis=0)
    variances, directions = np.linalg.eigh(centred @ centred.T)
    variances, directions = np.maximum(variances[::-1], 0.0), directions[:, ::-1]
    explained = np.cumsum(variances) / variances.sum()
    columns = min(int(np.searchsorted(explained, ENOUGH_VARIANCE)) + 1, MAX_COLUMNS)
    units = n_arms * variances[:columns] / variances.sum()
    return np.hstack([constant, directions[:, :columns] * np.sqrt(units)])


def _scaled(features: FloatArray) -> FloatArray:
    """Each column from 0 to 1, without those that are the same for all arms."""
    halves = features / 2.0  # so that the difference of huge numbers does not overflow
    low, high = halves.min(axis=0), halves.max(axis=0)
    differ = high > low
    return np.asarray((halves[:, differ] - low[differ]) / (high[differ] - low[differ]))


class Effects(NamedTuple):
    """The effects that a fit estimates: those of the shared column first, one for each feature.

    Attributes
    ----------
    at_arms
        Shape (K, S), the column of the basis that each effect belongs to.
    features
        Shape (S,), the feature whose weights it is part of.
    scales
        Shape (S,), the row of ``State.scales`` that has its amplitude.
    units
        Shape (M, S), its prior variance for each metric, in units of the amplitude.
    """

    at_arms: FloatArray
    features: NDArray[np.int64]
    scales: NDArray[np.int64]
    units: FloatArray

    @classmethod
    def of(cls, basis: FloatArray, prior: FloatArray) -> Self:
        """Effects for this basis (K, F) and these features, the constant first, by their prior variances (M, D).

        Where there are many features, only those with the largest prior variances have effects beyond the shared ones.
        """
        size, columns = prior.shape[1], basis.shape[1] - 1
        if not columns:
            return cls(np.ones((len(basis), size)), np.arange(size), np.full(size, SHARED), prior)
        room = max(MAX_EFFECTS, size + size // 2) - size
        first = np.concatenate([[0], 1 + np.argsort(-prior[:, 1:].max(axis=0), kind="stable")])
        few = np.sort(first[: room // columns])
        features = np.concatenate([np.arange(size), np.tile(few, columns)])
        column = np.concatenate([np.zeros(size, dtype=np.int64), np.repeat(np.arange(1, columns + 1), len(few))])
        scales = np.where(column == 0, SHARED, np.where(features == 0, LEVEL_OF_ARMS, DESCRIBED))
        units = np.where(scales == LEVEL_OF_ARMS, 1.0, prior[:, features])
        return cls(np.ascontiguousarray(basis[:, column]), features, scales, units)

    def prior(self, scales: FloatArray) -> FloatArray:
        """Prior variances (M, S), given the amplitudes of all metrics."""
        return np.ascontiguousarray(scales[self.scales].T * self.units)

    def by_scale(self, rows: int) -> Iterator[tuple[int, NDArray[np.int64]]]:
        """Those of ``rows`` of ``State.scales`` that are amplitudes of effects, each with the effects that tell it.

        Of effects on the constant feature only the levels of arms do.
        """
        for row in range(SHARED, rows):
            yield row, np.flatnonzero((self.scales == row) & ((self.features > 0) | (row == LEVEL_OF_ARMS)))

    def spread_at(self, k: int, root: FloatArray) -> FloatArray:
        """Root (D, S) of the covariance of what the effects add up to at arm k, given one of theirs (S, S)."""
        parts, size = self.at_arms[k][:, None] * root, int(self.features.max()) + 1
        spread: FloatArray = parts[:size].copy()  # those of the shared column
        np.add.at(spread, self.features[size:], parts[size:])
        return spread
