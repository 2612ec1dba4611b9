"""Straight lines through points, by least squares: every slope on log scales that this project reports."""

from __future__ import annotations

import numpy as np

from conebandit.validate.arrays import FloatArray


def slopes(x: FloatArray, y: FloatArray) -> FloatArray:
    """Least-squares slopes against x (n,) of y, shape (n,) for one line or (B, n) for several.

    Examples
    --------
    >>> slopes(np.array([0.0, 1.0, 2.0]), np.array([[1.0, 3.0, 5.0], [2.0, 2.0, 2.0]]))
    array([2., 0.])
    """
    centred = x - x.mean()
    return np.asarray(y @ centred / (centred @ centred))


def log_slope(x: FloatArray, y: FloatArray) -> tuple[float, float]:
    """Least-squares slope of log y against log x, and its standard error.

    Examples
    --------
    >>> slope, error = log_slope(np.array([1.0, 2.0, 4.0]), np.array([3.0, 12.0, 48.0]))
    >>> round(slope, 6), round(error, 6)
    (2.0, 0.0)
    """
    u, v = np.log(x), np.log(y)
    slope = float(slopes(u, v))
    centred = u - u.mean()
    residual = v - v.mean() - slope * centred
    error = float(np.sqrt(residual @ residual / max(len(u) - 2, 1) / (centred @ centred)))
    return slope, error
