"""Noise: how a reward is drawn around its mean. Every law here has exactly the given mean."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike

from conebandit.validate.arguments import as_number
from conebandit.validate.arrays import FloatArray, as_floats


class Noise(Protocol):
    """Anything that draws rewards of given means."""

    def draw(self, rng: np.random.Generator, means: FloatArray) -> FloatArray:
        """Rewards of the same shape (..., M) as their means."""
        ...


@dataclass(frozen=True)
class Gaussian:
    """Independent normal noise with deviation ``sigma``."""

    sigma: float = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "sigma", as_number(self.sigma, "sigma", least=0))

    def draw(self, rng: np.random.Generator, means: FloatArray) -> FloatArray:
        """Rewards around the means."""
        noisy = rng.standard_normal(means.shape)
        noisy *= self.sigma
        noisy += means
        return noisy


class Correlated:
    """Normal noise with a covariance matrix (M, M) across objectives."""

    def __init__(self, covariance: ArrayLike) -> None:
        matrix = as_floats(covariance, "covariance")
        square = matrix.ndim == 2 and matrix.shape[0] == matrix.shape[1]
        if not square or not np.isfinite(matrix).all() or not np.allclose(matrix, matrix.T):
            raise ValueError(
                f"covariance must be a symmetric (M, M) matrix of finite numbers; got shape {matrix.shape}."
            )
        values, vectors = np.linalg.eigh(matrix)
        if values[0] < -1e-10 * abs(values[-1]):
            raise ValueError(f"covariance must be positive semi-definite; its smallest eigenvalue is {values[0]:g}.")
        self.covariance = matrix
        self._root = vectors * np.sqrt(np.maximum(values, 0.0))

    def draw(self, rng: np.random.Generator, means: FloatArray) -> FloatArray:
        """Rewards around the means."""
        if means.shape[-1] != len(self.covariance):
            raise ValueError(f"covariance is for {len(self.covariance)} objectives, but means have {means.shape[-1]}.")
        noisy: FloatArray = means + rng.standard_normal(means.shape) @ self._root.T
        return noisy


@dataclass(frozen=True)
class Heteroscedastic:
    """Normal noise whose deviation is a function of the mean; by default proportional to it."""

    deviation: Callable[[FloatArray], FloatArray] = lambda mean: 0.5 * np.abs(mean)

    def draw(self, rng: np.random.Generator, means: FloatArray) -> FloatArray:
        """Rewards around the means."""
        noisy: FloatArray = means + self.deviation(means) * rng.standard_normal(means.shape)
        return noisy


@dataclass(frozen=True)
class Bounded:
    """Uniform noise within ``width`` of the mean."""

    width: float = 0.5

    def __post_init__(self) -> None:
        object.__setattr__(self, "width", as_number(self.width, "width", least=0))

    def draw(self, rng: np.random.Generator, means: FloatArray) -> FloatArray:
        """Rewards around the means."""
        noisy: FloatArray = means + self.width * rng.uniform(-1.0, 1.0, means.shape)
        return noisy


@dataclass(frozen=True)
class Bernoulli:
    """Zero or one, with the mean as the probability of one."""

    def draw(self, rng: np.random.Generator, means: FloatArray) -> FloatArray:
        """Zeros and ones."""
        if not (means.min() >= 0 and means.max() <= 1):
            raise ValueError("Bernoulli noise needs means between 0 and 1.")
        return (rng.random(means.shape) < means).astype(np.float64)


class Residuals:
    """Noise vectors from a table, resampled whole, so that objectives stay as correlated and as skewed as they were.

    Parameters
    ----------
    by_arm
        For each arm the residual vectors to draw from, shape (n_k, M). They are centred, so that rewards have exactly
        the given means.

    Notes
    -----
    Means of shape (..., K, M) get residuals of their own arm. Means of any other shape do not say which arm they are
    of, and get those of all arms together.

    Examples
    --------
    >>> import numpy as np
    >>> from conebandit.environments.noise import Residuals
    >>> law = Residuals([np.array([[-1.0, -2.0], [1.0, 2.0]])])
    >>> rewards = law.draw(np.random.default_rng(0), np.zeros((100, 1, 2)))
    >>> bool((rewards[..., 1] == 2 * rewards[..., 0]).all())
    True
    """

    def __init__(self, by_arm: Sequence[ArrayLike]) -> None:
        tables = [as_floats(rows, f"by_arm[{k}]") for k, rows in enumerate(by_arm)]
        for k, rows in enumerate(tables):
            if rows.ndim != 2 or not rows.size or not np.isfinite(rows).all() or rows.shape[1] != tables[0].shape[1]:
                raise ValueError(
                    f"by_arm[{k}] must be a table of finite numbers, with a row for each residual vector and as many "
                    f"columns as that of the first arm; got shape {rows.shape}."
                )
        if not tables:
            raise ValueError("by_arm must have a table for each arm; got none.")
        self.rows = np.concatenate([rows - rows.mean(axis=0) for rows in tables])
        self._counts = np.array([len(rows) for rows in tables])
        self._first = np.cumsum(self._counts) - self._counts

    def draw(self, rng: np.random.Generator, means: FloatArray) -> FloatArray:
        """Rewards around the means."""
        n_arms, n_objectives = len(self._counts), self.rows.shape[1]
        if means.shape[-1] != n_objectives:
            raise ValueError(f"residuals are for {n_objectives} objectives, but means have {means.shape[-1]}.")
        if means.shape[-2:-1] == (n_arms,):
            which = self._first + rng.integers(self._counts, size=means.shape[:-1])
        else:
            which = rng.integers(len(self.rows), size=means.shape[:-1])
        noisy: FloatArray = means + self.rows[which]
        return noisy
