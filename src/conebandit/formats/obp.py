"""Open Bandit Pipeline's feedback: a dictionary of arrays, with one reward."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from conebandit.formats.feedback import Feedback, Logged, one_metric
from conebandit.validate.arrays import as_floats


def to_obp(log: Logged, metric: str | int = 0) -> dict[str, Any]:
    """The ``bandit_feedback`` that estimators of Open Bandit Pipeline take.

    Parameters
    ----------
    log
        A :class:`Feedback`, or any object with its fields.
    metric
        Which metric becomes ``reward``, of which the pipeline knows one; a cost, minimised by the cone of a
        :class:`conebandit.Log`, with the sign changed, since more is better there. All of them, and all names, are
        there as well, under keys that it does not look at, so that :func:`from_obp` gives back the whole log.

    Examples
    --------
    >>> from conebandit.formats import Feedback, from_obp, to_obp
    >>> log = Feedback([[0.1], [0.7]], [0, 1], [[1.0, 0.2], [0.0, 0.9]], [0.5, 0.5], metric_names=("sales", "comfort"))
    >>> feedback = to_obp(log, metric="comfort")
    >>> feedback["n_actions"], feedback["reward"].tolist(), feedback["pscore"].tolist()
    (2, [0.2, 0.9], [0.5, 0.5])
    >>> from_obp(feedback).metric_names
    ('sales', 'comfort')
    """
    return {
        "n_rounds": len(log.arms),
        "n_actions": len(log.arm_names),
        "context": log.contexts.copy(),
        "action_context": None,
        "action": log.arms.copy(),
        "position": None,
        "reward": one_metric(log, metric).copy(),
        "pscore": log.propensities.copy(),
        "pi_b": None if log.probabilities is None else log.probabilities[:, :, None].copy(),
        "rewards": log.rewards.copy(),
        "arm_names": log.arm_names,
        "metric_names": log.metric_names,
    }


def from_obp(feedback: Mapping[str, Any]) -> Feedback:
    """A log from the feedback of Open Bandit Pipeline, or from what :func:`to_obp` made.

    Parameters
    ----------
    feedback
        With ``n_actions``, ``context``, ``action``, ``reward`` and ``pscore``; ``pi_b`` is used if it is there. Slates
        of several positions are refused.

    Examples
    --------
    >>> from conebandit.formats import from_obp
    >>> feedback = {"n_rounds": 2, "n_actions": 3, "context": [[0.1], [0.7]], "action": [0, 2], "position": None,
    ...             "reward": [1, 0], "pscore": [0.5, 0.25]}
    >>> log = from_obp(feedback)
    >>> log.rewards.tolist(), log.arm_names, log.metric_names
    ([[1.0], [0.0]], ('0', '1', '2'), ('reward',))
    """
    if not isinstance(feedback, Mapping):
        raise TypeError(f"feedback must be a dictionary; got {type(feedback).__name__}.")
    missing = [key for key in ("n_actions", "context", "action", "reward", "pscore") if feedback.get(key) is None]
    if missing:
        raise ValueError(f"feedback must have {', '.join(missing)}; it has {', '.join(map(str, feedback))}.")
    position = feedback.get("position")
    if position is not None and np.any(np.asarray(position) != 0):
        raise ValueError("feedback must be of one position; this is a slate of several. Take the rows of one.")
    rewards = feedback.get("rewards")
    every = feedback.get("pi_b")
    if every is not None:
        every = as_floats(every, "pi_b")
        if every.ndim == 3 and every.shape[2] != 1:
            raise ValueError(f"pi_b must be of one position; got shape {every.shape}. Take that of one.")
        every = every[:, :, 0] if every.ndim == 3 else every
    names = [feedback.get(name) for name in ("arm_names", "metric_names")]
    return Feedback(
        contexts=feedback["context"],
        arms=feedback["action"],
        rewards=as_floats(feedback["reward"], "reward")[:, None] if rewards is None else rewards,
        propensities=feedback["pscore"],
        probabilities=every,
        arm_names=tuple(map(str, range(int(feedback["n_actions"])))) if names[0] is None else names[0],
        metric_names=("reward",) if names[1] is None else names[1],
    )
