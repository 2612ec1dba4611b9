"""Environments made from a table of somebody's data: contexts, arms that were given, outcomes that were seen.

Contexts are rows of the table, drawn with replacement. What an arm does in a context is a model fitted to the rows that
got this arm; around it, whole residual vectors of these rows are drawn, so that outcomes stay correlated. So the truth
is known, as a simulation needs it, and it is as simple or as odd as the model finds the data to be.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from conebandit.environments import shift
from conebandit.environments.base import World
from conebandit.environments.distributions import as_labels
from conebandit.environments.noise import Residuals
from conebandit.geometry.cone import Cone
from conebandit.validate.arguments import as_fraction
from conebandit.validate.arrays import FloatArray, as_floats

Predictor = Callable[[FloatArray], FloatArray]  # contexts (n, d) -> rewards (n, M)
Model = Callable[[FloatArray, FloatArray], Predictor]  # contexts (n, d), rewards (n, M) -> a predictor

MIN_ROWS = 10  # of an arm: fewer say nothing about residuals
PENALTIES = 10.0 ** np.arange(-5, 5)  # of a ridge regression, for each row


# ---- what arms do ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Surface:
    """A polynomial of degree two in standardised contexts."""

    centre: FloatArray  # (d,)
    scale: FloatArray  # (d,)
    middle: FloatArray  # (features,)
    coefficients: FloatArray  # (features, M)
    level: FloatArray  # (M,)

    def __call__(self, contexts: FloatArray) -> FloatArray:
        features = _quadratic((contexts - self.centre) / self.scale)
        return np.asarray(self.level + (features - self.middle) @ self.coefficients)


def _quadratic(z: FloatArray) -> FloatArray:
    """All coordinates, their squares and products: (n, d) -> (n, d (d + 3) / 2)."""
    first, second = np.triu_indices(z.shape[1])
    return np.hstack([z, z[:, first] * z[:, second]])


def response_surface(contexts: FloatArray, rewards: FloatArray) -> Predictor:
    """Ridge regression on all coordinates, their squares and products; what :func:`from_table` fits to each arm.

    The penalty of each metric is the one with the smallest generalised cross-validation error (Golub, Heath and Wahba
    1979).

    Examples
    --------
    >>> import numpy as np
    >>> from conebandit.environments.table import response_surface
    >>> x = np.random.default_rng(0).random((200, 2))
    >>> model = response_surface(x, (x[:, :1] * x[:, 1:] + 1))
    >>> bool(abs(model(np.array([[0.5, 0.5]]))[0, 0] - 1.25) < 0.01)
    True
    """
    n = len(contexts)
    centre, span = contexts.mean(axis=0), np.ptp(contexts, axis=0)
    span = np.where(span > 0.0, span, 1.0)  # it may be the same in all rows of this arm
    spread = ((contexts - centre) / span).std(axis=0)  # not of contexts themselves, whose squares may overflow
    scale = span * np.where(spread > 0.0, spread, 1.0)
    features = _quadratic((contexts - centre) / scale)
    middle, level = features.mean(axis=0), rewards.mean(axis=0)
    left, singular, right = np.linalg.svd(features - middle, full_matrices=False)
    targets = left.T @ (rewards - level)  # (rank, M)
    total = ((rewards - level) ** 2).sum(axis=0)
    kept = singular**2 / (singular**2 + n * PENALTIES[:, None])  # (penalties, rank): share of a direction that is kept
    fitted = (kept * (2.0 - kept)) @ targets**2  # (penalties, M): by how much the sum of squares falls
    free = 1.0 - (1.0 + kept.sum(axis=1)) / n
    best = np.argmin((total - fitted) / np.maximum(free, 1e-9)[:, None] ** 2, axis=0)  # (M,)
    shrunk = np.where(singular > 0.0, 1.0 / np.maximum(singular, 1e-300), 0.0)[:, None] * kept[best].T * targets
    return _Surface(centre, scale, middle, right.T @ shrunk, level)


@dataclass(frozen=True)
class _ArmModels:
    """Means of all arms, clipped to what rewards can be."""

    predictors: tuple[Predictor, ...]
    low: float

    def __call__(self, contexts: FloatArray) -> FloatArray:
        return np.clip(np.stack([predict(contexts) for predict in self.predictors], axis=1), self.low, 1.0)


# ---- from arrays to an environment ----------------------------------------------------------------------------------


def from_table(
    contexts: ArrayLike,
    arms: ArrayLike,
    outcomes: ArrayLike,
    /,
    *,
    schedule: shift.Schedule | None = None,
    ranges: ArrayLike | None = None,
    low: float = 0.2,
    model: Model = response_surface,
    cone: Cone | None = None,
    name: str = "table",
) -> World:
    """An environment with the contexts of a table, and with arms that do what they did there.

    Compare arms that were randomised: otherwise they differ by whatever made people choose them.

    Parameters
    ----------
    contexts, arms, outcomes
        Shapes (n, d), (n,), (n, M), without gaps: anything that NumPy reads, such as columns of a data frame. Arms are
        any labels; arm k is the k-th in sorted order.
    schedule
        Which rows come when: ``shift.by_group`` (site to site), ``shift.by_column`` (the young first). By default all
        rows at any time.
    ranges
        Shape (M, 2), the worst and the best value of each outcome, ``(5000, 0)`` for a cost. Outcomes lie within. By
        default the smallest and the largest.
    low
        Rewards are outcomes scaled so that the worst becomes this and the best 1: gaps are ratios of means, which must
        be positive. The smaller ``low``, the more a bad outcome weighs.
    model
        Fits rewards (n, M) to contexts (n, d), once for each arm, and gives a function that predicts them. Predictions
        are clipped to between ``low`` and 1.
    cone, name
        The preference cone for rewards, by default the orthant; and a name for tables and figures.

    Examples
    --------
    >>> import numpy as np, conebandit as cb
    >>> rng = np.random.default_rng(0)
    >>> age, arm = rng.uniform(20, 80, 600), rng.choice(["old", "new"], 600)
    >>> helped, cost = 50 + 10 * (arm == "new") + rng.normal(0, 5, 600), 100 + age * (arm == "new")
    >>> outcomes = np.column_stack([helped, cost])
    >>> env = cb.environments.from_table(age[:, None], arm, outcomes, ranges=[(0, 100), (250, 50)])
    >>> new, old = env.means(np.array([[70.0]]))[0]
    >>> (new > old).tolist()
    [True, False]
    """
    x, y = _table(contexts, "contexts"), _table(outcomes, "outcomes")
    labels, which = as_labels(arms, "arms", len(x))
    _refuse_unfit(x, y, labels, which)
    rewards = _scaled(y, ranges, as_fraction(low, "low"))
    rows = [which == k for k in range(len(labels))]
    means = _ArmModels(tuple(_fitted(model, x[mine], rewards[mine]) for mine in rows), low)
    noise = Residuals([rewards[mine] - means(x[mine])[:, k] for k, mine in enumerate(rows)])
    when = shift.stationary(shift.empirical(x)) if schedule is None else schedule
    if when.context_dim != x.shape[1]:
        raise ValueError(f"schedule has dimension {when.context_dim}, but contexts have {x.shape[1]} columns.")
    return World(name, when, means, cone or Cone.orthant(y.shape[1]), len(labels), noise)


def _fitted(model: Model, contexts: FloatArray, rewards: FloatArray) -> Predictor:
    """What the model gives for the rows of an arm, once it is seen to predict numbers in the right shape."""
    predict = model(contexts, rewards)
    found = as_floats(predict(contexts), "predictions of model")
    if found.shape != rewards.shape or not np.isfinite(found).all():
        raise ValueError(
            f"model must give a function that predicts finite rewards of shape {rewards.shape} for as many contexts; "
            f"got shape {found.shape}."
        )
    return predict


def _table(values: ArrayLike, name: str) -> FloatArray:
    table = as_floats(values, name)
    if table.ndim != 2 or not table.size:
        raise ValueError(f"{name} must be a table of shape (rows, columns), not empty; got shape {table.shape}.")
    if not np.isfinite(table).all():
        row, column = np.argwhere(~np.isfinite(table))[0]
        raise ValueError(
            f"{name} must be finite; row {row}, column {column} is {table[row, column]}. Leave such rows out, or fill "
            "in a value."
        )
    return table


def _refuse_unfit(contexts: FloatArray, outcomes: FloatArray, labels: NDArray[Any], which: NDArray[np.intp]) -> None:
    """A ``ValueError`` if numbers of rows differ, a column of the contexts never varies, or an arm has too few rows."""
    if len(outcomes) != len(contexts):
        raise ValueError(f"outcomes must have a row for each of the {len(contexts)} contexts; got {len(outcomes)}.")
    constant = np.ptp(contexts, axis=0) == 0.0
    if constant.any():
        column = int(constant.argmax())
        raise ValueError(
            f"contexts must vary in every column; column {column} is {contexts[0, column]} in all rows. Leave it out."
        )
    counts = np.bincount(which)
    if counts.min() < MIN_ROWS:
        k = int(counts.argmin())
        raise ValueError(
            f"arms must have at least {MIN_ROWS} rows each; {labels[k].item()!r} has {counts[k]}. Join it with another."
        )


def _scaled(outcomes: FloatArray, ranges: ArrayLike | None, low: float) -> FloatArray:
    """Rewards: the worst value of each outcome becomes ``low``, the best one 1."""
    lowest, highest = outcomes.min(axis=0), outcomes.max(axis=0)
    ends = np.column_stack([lowest, highest]) if ranges is None else as_floats(ranges, "ranges")
    fits = ends.shape == (outcomes.shape[1], 2) and np.isfinite(ends).all() and (ends[:, 0] != ends[:, 1]).all()
    if not fits:
        raise ValueError(
            f"ranges must be two different numbers, the worst and the best value, for each of the {outcomes.shape[1]} "
            f"outcomes; got {ends.tolist()}."
        )
    outside = (lowest < ends.min(axis=1)) | (highest > ends.max(axis=1))
    if outside.any():
        m = int(outside.argmax())
        raise ValueError(
            f"ranges must contain all outcomes; ranges[{m}] is {ends[m].tolist()}, but outcomes are between "
            f"{lowest[m]:g} and {highest[m]:g}. Widen it, or clip the outcomes."
        )
    worst, best = ends.T
    return np.asarray(low + (1.0 - low) * ((outcomes - worst) / (best - worst)))
