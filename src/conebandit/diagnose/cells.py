"""Dyadic cells: the unit cube cut into cubes of side 2^-level."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from conebandit.validate.arrays import FloatArray

MAX_LEVEL = 50  # cells of side 2^-50 are points


def to_unit_cube(rows: FloatArray) -> FloatArray:
    """Rows (n, d) scaled to the unit cube; a constant column becomes 0.

    Examples
    --------
    >>> to_unit_cube(np.array([[2.0, 5.0], [4.0, 5.0]]))
    array([[0., 0.],
           [1., 0.]])
    """
    span = np.ptp(rows, axis=0)
    return np.asarray((rows - rows.min(axis=0)) / np.where(span > 0.0, span, 1.0))


def dyadic_cells(rows: FloatArray, level: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The cells that hold one of the rows, and in which of them each row lies.

    Parameters
    ----------
    rows
        Shape (n, d), in the unit cube.
    level
        Cells have side 2^-level.

    Returns
    -------
    cells
        Shape (C, d), indices of the cells along each coordinate.
    where
        Shape (n,), the cell of each row.

    Examples
    --------
    >>> cells, where = dyadic_cells(np.array([[0.1], [0.9], [1.0]]), level=1)
    >>> cells.ravel(), where
    (array([0, 1]), array([0, 1, 1]))
    """
    index = np.minimum((rows * 2**level).astype(np.int64), 2**level - 1)
    cells, where = np.unique(index, axis=0, return_inverse=True)
    return cells, where.ravel()  # NumPy 2.0 gives it two axes
