"""A log as arrays: what all formats are turned into, and made from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from conebandit.validate.arguments import is_integer
from conebandit.validate.arrays import FloatArray, as_floats

ROUNDING = 1e-6  # by which probabilities may miss what they must be: files often keep seven digits


class Logged(Protocol):
    """Any object with these members can be written.

    If it has a ``cone`` as well, such as a :class:`conebandit.Log`, metrics that the cone minimises are costs; of all
    others more is better.
    """

    @property
    def contexts(self) -> FloatArray:
        """Shape (n, d)."""
        ...

    @property
    def arms(self) -> NDArray[np.int64]:
        """Shape (n,)."""
        ...

    @property
    def rewards(self) -> FloatArray:
        """Shape (n, M)."""
        ...

    @property
    def propensities(self) -> FloatArray:
        """Shape (n,)."""
        ...

    @property
    def probabilities(self) -> FloatArray | None:
        """Shape (n, K), if they are known."""
        ...

    @property
    def arm_names(self) -> tuple[str, ...]:
        """Names of the K arms."""
        ...

    @property
    def metric_names(self) -> tuple[str, ...]:
        """Names of the M metrics."""
        ...


@dataclass(frozen=True)
class Feedback:
    """Decisions that were made, with their outcomes.

    Parameters
    ----------
    contexts
        Shape (n, d), finite.
    arms
        Shape (n,), indices of the arms that were played.
    rewards
        Shape (n, M), more is better; nan where a metric is not known.
    propensities
        Shape (n,), with what probabilities these arms were drawn.
    probabilities
        Shape (n, K), those of all arms, if they are known; rows add up to 1, and agree with the propensities.
    arm_names, metric_names
        By default ``"0"``, ``"1"``, ... and ``"metric 0"``, ``"metric 1"``, ...

    Examples
    --------
    >>> from conebandit.formats import Feedback
    >>> log = Feedback([[0.1], [0.7]], [0, 1], [[1.0, 0.2], [0.0, 0.9]], [0.5, 0.5])
    >>> len(log), log.arm_names, log.metric_names
    (2, ('0', '1'), ('metric 0', 'metric 1'))
    """

    contexts: FloatArray
    arms: NDArray[np.int64]
    rewards: FloatArray
    propensities: FloatArray
    probabilities: FloatArray | None = None
    arm_names: tuple[str, ...] = ()
    metric_names: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        arms = _indices(self.arms)
        contexts, rewards = _rows(self.contexts, "contexts", len(arms)), _rows(self.rewards, "rewards", len(arms))
        if not np.isfinite(contexts).all():
            raise ValueError("contexts must be finite; leave rows with gaps out, or fill in a value.")
        if np.isinf(rewards).any():
            raise ValueError("rewards must not be infinite; use nan for what is not known.")
        chances = as_floats(self.propensities, "propensities")
        if chances.shape != arms.shape or not ((chances > 0) & (chances <= 1)).all():
            raise ValueError("propensities must lie above 0 and be at most 1, one for each decision.")
        every = None if self.probabilities is None else _rows(self.probabilities, "probabilities", len(arms))
        names = self._named(int(arms.max()) + 1, every, rewards.shape[1])
        if every is not None:
            _require_agreement(every, arms, chances)
        for name, value in zip(
            self.__dataclass_fields__, (contexts, arms, rewards, chances, every, *names), strict=True
        ):
            object.__setattr__(self, name, value)

    def _named(self, played: int, every: FloatArray | None, n_metrics: int) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Names of arms and of metrics, those given or numbers."""
        known = played if every is None else every.shape[1]
        arms = _names(self.arm_names, "arm_names") or tuple(map(str, range(known)))
        if len(arms) < played or (every is not None and len(arms) != known):
            raise ValueError(f"arm_names must name every arm; there are {max(known, played)}, but {len(arms)} names.")
        metrics = _names(self.metric_names, "metric_names") or tuple(f"metric {m}" for m in range(n_metrics))
        if len(metrics) != n_metrics:
            raise ValueError(f"metric_names must name every metric; there are {n_metrics}; got {metrics}.")
        return arms, metrics

    def __len__(self) -> int:
        return len(self.arms)


def _indices(values: ArrayLike) -> NDArray[np.int64]:
    numbers = as_floats(values, "arms")
    if numbers.ndim != 1 or not numbers.size or (numbers < 0).any() or (numbers != np.floor(numbers)).any():
        raise ValueError(f"arms must be indices from 0 on, one for each decision; got {np.asarray(values)}.")
    return numbers.astype(np.int64)


def _names(given: Any, name: str) -> tuple[str, ...]:
    names = (given,) if isinstance(given, str) else tuple(given)
    if isinstance(given, str) or not all(isinstance(each, str) for each in names) or len(set(names)) < len(names):
        raise ValueError(f"{name} must be a list of texts, all different; got {given!r}.")
    return tuple(map(str, names))


def _require_agreement(every: FloatArray, arms: NDArray[np.int64], propensities: FloatArray) -> None:
    """A ``ValueError`` unless probabilities (n, K) add up to 1 and have the propensities (n,) at the arms (n,)."""
    with np.errstate(invalid="ignore"):
        whole = (every >= 0.0).all(axis=1) & (np.abs(every.sum(axis=1) - 1.0) <= ROUNDING)
        same = np.abs(every[np.arange(len(arms)), arms] - propensities) <= ROUNDING
    if not (whole & same).all():
        row = int((~(whole & same)).argmax())
        raise ValueError(
            "probabilities must be at least 0, add up to 1 and have the propensity at the arm played; row "
            f"{row} is {every[row].tolist()}, with propensity {propensities[row]} of arm {arms[row]}."
        )


def _rows(values: ArrayLike, name: str, n: int) -> FloatArray:
    rows = as_floats(values, name)
    if rows.ndim != 2 or len(rows) != n or not rows.shape[1]:
        raise ValueError(f"{name} must have shape ({n}, columns), a row for each decision; got shape {rows.shape}.")
    return rows


def position_of(log: Logged, metric: Any) -> int:
    """Which of the metrics is meant, by its name or its number."""
    names = log.metric_names
    if isinstance(metric, str) and metric in names:
        return names.index(metric)
    if is_integer(metric) and 0 <= metric < len(names):
        return int(metric)
    raise ValueError(f"metric must be one of {', '.join(names)}, or a number below {len(names)}; got {metric!r}.")


def one_metric(log: Logged, metric: Any) -> FloatArray:
    """Rewards (n,) by one metric, more is better, for formats that know one number; all must be known."""
    place = position_of(log, metric)
    values = log.rewards[:, place]
    if not np.isfinite(values).all():
        row = int((~np.isfinite(values)).argmax())
        raise ValueError(f"metric {metric!r} must be known in every row that is written; in row {row} it is not.")
    cone = getattr(log, "cone", None)
    return -values if cone is not None and cone.costs[place] else values
